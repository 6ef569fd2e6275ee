/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Patterns of calls for fwd_ratios.c, which times them.  A pattern is a row of one of the tables below.
 */
#ifndef AMPH_TESTS_RATIOS_H
#define AMPH_TESTS_RATIOS_H

#include <stddef.h>

#define PATTERN_WORKERS_MAX 64

struct pattern {
    const char *name;
    /* Run before and after each round, untimed, in the process that forks the workers. */
    void (*prepare)(void);
    void (*finish)(void);
    /* Run in each worker before the round, untimed; NULL: nothing. */
    void (*enter)(int worker);
    /* The timed call, number i of the worker's. */
    void (*call)(int worker, int i);
    int calls;     /* of a worker in a round */
    int each;      /* divides the time of a call: the names that a walk finds; 0: 1 */
    int processes; /* workers that make calls at the same time; 0: this process does */
    int threads;   /* the same for threads */
};

/* The rows of a table end with one without a name. */
extern const struct pattern patterns_names[];
extern const struct pattern patterns_trees[];
extern const struct pattern patterns_data[];
extern const struct pattern patterns_process[];
extern const struct pattern patterns_shared[];

/* The name of a file in the directory of this round, formed like printf's.  It is valid until 8 more have been asked
 * for by the same thread. */
const char *at(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Ends the program with a sentence if the call has failed. */
void must(int ok, const char *what);

/* Creates a file of that many bytes. */
void make_file(const char *name, size_t bytes);

/* A number below n; the same in each run. */
unsigned pick(unsigned n);

#endif
