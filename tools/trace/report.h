/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * report: a run as one page of HTML that needs no network and no other file.
 *
 * Layer: tools.  Thread rule: one thread.
 *
 * The page is the text of tools/trace/page, made one file at build time, and the run's data: a block of
 * bytes, compressed by DEFLATE and written as base64.  No text of a run is part of the page's HTML.
 *
 * The block: the length of a text in JSON (32 bits, the lowest byte first), that text, and columns
 * of numbers, one after the other, as the text lists them.  A number has 7 bits a byte, the lowest
 * first; a column of signed numbers has the sign in the lowest bit, and one of zeros is empty.
 * page/js/data.js reads it.
 */
#ifndef AMPH_TOOLS_TRACE_REPORT_H
#define AMPH_TOOLS_TRACE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/trace/trace.h"

/* Bytes that grow.  After a lack of memory `failed` stays true, and nothing is added. */
struct report_bytes {
    unsigned char *at;
    size_t len, room;
    bool failed;
};

void report_put(struct report_bytes *b, const void *bytes, size_t len);
void report_printf(struct report_bytes *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A string of JSON.  Bytes that are no UTF-8 become the four characters \xHH. */
void report_string(struct report_bytes *b, const char *text);
void report_number(struct report_bytes *b, uint64_t value);
void report_signed(struct report_bytes *b, int64_t value);
void report_free(struct report_bytes *b);

/* Calls that the page has as sums only: those of one thread, name, file, server, part of the run,
 * size and duration. */
struct report_sum {
    uint32_t thread, name, file;
    uint32_t server; /* + 1; 0: none */
    uint32_t part, parts;
    uint8_t size_log2, ns_log2; /* of the smallest of their size and duration; 0: 0 or 1 */
    uint8_t side;
    int64_t start_ns, end_ns; /* the first start, the last end */
    uint64_t calls, bytes, failed, requests, server_ns, queue_ns, total_ns, longest_ns;
    int64_t offset, offset_end; /* of those that have an offset; -1: none has */
};

/* What the page holds of a run. */
struct report_choice {
    size_t *whole; /* events, in order; NULL: all */
    size_t nwhole;
    struct report_sum *sums;
    size_t nsums;
    unsigned parts;       /* in which the run was divided for the sums */
    uint64_t slowest_ns;  /* calls of this duration and longer are whole */
    uint64_t failed_left; /* calls that failed and are in the sums only */
    size_t files_merged;  /* files that are one in the sums */
};

/* Which thread, of the page's list, makes each event; threads are pairs of process and tid. */
struct report_threads {
    uint32_t *of_event;
    uint32_t *of_process; /* its first one + 1 */
    struct report_thread {
        uint32_t process;
        int32_t tid;
    } * list;
    size_t n, room;
};

bool report_find_threads(const struct amph_trace *t, struct report_threads *threads);
void report_free_threads(struct report_threads *threads);

/* Chooses `whole` events, errors and the slowest ones, and sums up the others in at most `sums` rows.
 * false: not enough memory, or they do not fit. */
bool report_choose(const struct amph_trace *t, const struct report_threads *threads, size_t whole,
                   size_t sums, struct report_choice *choice);
void report_free_choice(struct report_choice *choice);

/* The block of the page's data. */
bool report_data(const struct amph_trace *t, sqlite3 *db, const char *dir,
                 const struct report_threads *threads, const struct report_choice *choice,
                 struct report_bytes *data);

/* Compresses data; the bytes that the page will have are in *page_len_p. */
bool report_deflate(const struct report_bytes *data, struct report_bytes *packed,
                    size_t *page_len_p);

/* Writes the page.  false: after a sentence. */
bool report_write(const char *path, const struct report_bytes *packed);

/* page.c, made from tools/trace/page */
extern const unsigned char trace_page[];
extern const size_t trace_page_len;

#endif
