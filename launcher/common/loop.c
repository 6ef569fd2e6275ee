/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors and timers; see loop.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/common/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/log.h"

enum {
    BATCH = 64
};

enum amph_status amph_loop_open(struct amph_loop *loop)
{
    *loop = (struct amph_loop){ .epfd = epoll_create1(EPOLL_CLOEXEC) };
    if (loop->epfd >= 0)
        return AMPH_OK;

    amph_error("cannot create an event queue (epoll_create1: %m)");
    return AMPH_ERR_SYS;
}

/* Frees watches that were deleted while their events may have been pending. */
static void sweep(struct amph_loop *loop)
{
    for (struct amph_watch **at = &loop->watches; *at;) {
        struct amph_watch *w = *at;

        if (!w->dead) {
            at = &w->next;
            continue;
        }

        *at = w->next;
        free(w);
    }
}

void amph_loop_close(struct amph_loop *loop)
{
    for (struct amph_watch *w = loop->watches; w; w = w->next)
        w->dead = true;

    sweep(loop);
    close(loop->epfd);
    loop->epfd = -1;
}

struct amph_watch *amph_watch_add(struct amph_loop *loop, int fd, uint32_t events,
                                  void (*ready)(void *arg, uint32_t events), void *arg)
{
    struct amph_watch *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;

    *w = (struct amph_watch){
        .loop = loop, .fd = fd, .events = events, .ready = ready, .arg = arg, .next = loop->watches
    };

    struct epoll_event e = { .events = events, .data.ptr = w };

    if (epoll_ctl(loop->epfd, EPOLL_CTL_ADD, fd, &e) < 0) {
        if (errno != EPERM) {
            amph_error("cannot watch descriptor %d (epoll_ctl: %m)", fd);
            free(w);
            return NULL;
        }

        w->always = true;
        loop->nalways += events != 0;
    } else if (events == 0) {
        epoll_ctl(loop->epfd, EPOLL_CTL_DEL, fd, NULL);
    }

    loop->watches = w;
    return w;
}

/* Changes the events of a watch.  A watch without events is removed from the kernel's set, because
 * epoll always reports a hang-up. */
static void change(struct amph_watch *w, uint32_t events)
{
    struct epoll_event e = { .events = events, .data.ptr = w };
    int op = EPOLL_CTL_MOD;

    if (events == 0)
        op = EPOLL_CTL_DEL;
    else if (w->events == 0)
        op = EPOLL_CTL_ADD;

    if (epoll_ctl(w->loop->epfd, op, w->fd, &e) < 0)
        amph_warn("cannot change the watch of descriptor %d (epoll_ctl: %m)", w->fd);
}

void amph_watch_want(struct amph_watch *watch, uint32_t events)
{
    if (!watch || watch->dead || watch->events == events)
        return;

    if (watch->always)
        watch->loop->nalways += (events != 0) - (watch->events != 0);
    else
        change(watch, events);

    watch->events = events;
}

void amph_watch_del(struct amph_watch *watch)
{
    if (!watch || watch->dead)
        return;

    amph_watch_want(watch, 0);
    watch->dead = true;
}

void amph_timer_stop(struct amph_loop *loop, struct amph_timer *timer)
{
    for (struct amph_timer **at = &loop->timers; *at; at = &(*at)->next)
        if (*at == timer) {
            *at = timer->next;
            break;
        }

    timer->set = false;
}

void amph_timer_set(struct amph_loop *loop, struct amph_timer *timer, uint64_t in_ns,
                    void (*fn)(void *arg), void *arg)
{
    amph_timer_stop(loop, timer);
    *timer = (struct amph_timer){
        .set = true, .at_ns = amph_now_ns() + in_ns, .fn = fn, .arg = arg, .next = loop->timers
    };
    loop->timers = timer;
}

static int wait_ms(const struct amph_loop *loop)
{
    uint64_t first = UINT64_MAX;
    uint64_t now = amph_now_ns();

    if (loop->nalways > 0)
        return 0;

    for (const struct amph_timer *t = loop->timers; t; t = t->next)
        if (t->at_ns < first)
            first = t->at_ns;

    if (first == UINT64_MAX)
        return -1;
    if (first <= now)
        return 0;

    uint64_t ms = (first - now + AMPH_NS_PER_MS - 1) / AMPH_NS_PER_MS;

    return ms > 3600000 ? 3600000 : (int)ms;
}

static void run_timers(struct amph_loop *loop)
{
    uint64_t now = amph_now_ns();

    for (struct amph_timer *t = loop->timers; t;) {
        if (t->at_ns > now) {
            t = t->next;
            continue;
        }

        amph_timer_stop(loop, t);
        t->fn(t->arg);

        /* fn may have changed the list; a timer that it set again is in the future or due as well */
        t = loop->timers;
    }
}

void amph_loop_step(struct amph_loop *loop)
{
    struct epoll_event events[BATCH];
    int n = epoll_wait(loop->epfd, events, BATCH, wait_ms(loop));

    for (int i = 0; i < n; i++) {
        struct amph_watch *w = events[i].data.ptr;
        if (!w->dead)
            w->ready(w->arg, events[i].events);
    }

    /* New watches are inserted at the head, so this pass does not visit them. */
    for (struct amph_watch *w = loop->watches; w && loop->nalways > 0; w = w->next)
        if (w->always && w->events && !w->dead)
            w->ready(w->arg, w->events);

    run_timers(loop);
    sweep(loop);
}
