/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An event loop for the launcher and its agents: descriptors and timers.
 *
 * A descriptor that epoll does not support (a regular file as standard input or output) is always
 * ready.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_LOOP_H
#define AMPH_LAUNCHER_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/status.h"

struct amph_loop {
    int epfd;
    struct amph_watch *watches; /* all of them */
    struct amph_timer *timers;  /* set timers, in no order */
    unsigned nalways;           /* always-ready watches that want events */
};

struct amph_watch {
    struct amph_loop *loop;
    int fd;
    uint32_t events; /* EPOLLIN, EPOLLOUT wanted */
    bool always, dead;
    void (*ready)(void *arg, uint32_t events);
    void *arg;
    struct amph_watch *next;
};

/* A timer is embedded in another structure and initially zero; amph_timer_set sets fn and arg. */
struct amph_timer {
    bool set;
    uint64_t at_ns;
    void (*fn)(void *arg);
    void *arg;
    struct amph_timer *next;
};

enum amph_status amph_loop_open(struct amph_loop *loop);
/* Frees the watches.  Does not close their descriptors. */
void amph_loop_close(struct amph_loop *loop);

/* Returns NULL if memory or the kernel's watches are exhausted (logged). */
struct amph_watch *amph_watch_add(struct amph_loop *loop, int fd, uint32_t events,
                                  void (*ready)(void *arg, uint32_t events), void *arg);
void amph_watch_want(struct amph_watch *watch, uint32_t events);
/* Removes a watch; call it before the descriptor is closed.  NULL is allowed.  Legal inside ready. */
void amph_watch_del(struct amph_watch *watch);

void amph_timer_set(struct amph_loop *loop, struct amph_timer *timer, uint64_t in_ns,
                    void (*fn)(void *arg), void *arg);
void amph_timer_stop(struct amph_loop *loop, struct amph_timer *timer);

/* Waits for the next event or timer and handles all that are due. */
void amph_loop_step(struct amph_loop *loop);

#endif
