/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads with a working directory and a mask of their own; see own_cwd.h.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.  The list only grows, and its entries are used again, so that it
 * needs no lock: a child that is forked meanwhile finds it in order.
 */
#include "iofwd/interpose/path/own_cwd.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/targets.h"

/* Runs at the end of a thread, after the program's own destructors, which may use files. */
static void thread_ends(void *arg)
{
    if (arg != amph_ip_thread.cwd.own)
        return;

    if (++amph_ip_thread.cwd.rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(amph_ip_state.cwd_key, arg);
        return;
    }

    amph_ip_thread.cwd.own = NULL;
    amph_ip_cwd_leave(arg);
}

static void make_key(void)
{
    amph_ip_state.has_cwd_key = pthread_key_create(&amph_ip_state.cwd_key, thread_ends) == 0;
}

/* An entry that no task uses, or a new one; NULL: no memory. */
static struct amph_ip_cwd *find_free(void)
{
    struct amph_ip_cwd *first = &amph_ip_state.cwd;

    for (struct amph_ip_cwd *c = __atomic_load_n(&first->next, __ATOMIC_ACQUIRE); c;
         c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE))
        if (!__atomic_exchange_n(&c->taken, true, __ATOMIC_ACQ_REL))
            return c;

    struct amph_ip_cwd *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;

    c->taken = true;
    c->next = __atomic_load_n(&first->next, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&first->next, &c->next, c, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
        ;

    return c;
}

struct amph_ip_cwd *amph_ip_cwd_copy(void)
{
    const struct amph_ip_cwd *from = amph_ip_cwd();
    struct amph_ip_cwd *own = find_free();

    if (!own) {
        errno = ENOMEM;
        return NULL;
    }

    /* without a descriptor the directory is known by its name only */
    int fd = from->fd ? amph_ip_copy_cwd(from->fd, 0) : 0;

    own->name = from->name;
    own->fd = fd > 0 ? fd : 0;
    own->umask = from->umask;
    own->recorded = from->recorded;
    __atomic_store_n(&own->tasks, 1, __ATOMIC_RELEASE);

    return own;
}

void amph_ip_cwd_use(struct amph_ip_cwd *own)
{
    struct amph_ip_cwd *before = amph_ip_thread.cwd.own;

    pthread_once(&amph_ip_state.cwd_once, make_key);
    amph_ip_thread.cwd.own = own;
    if (amph_ip_state.has_cwd_key)
        pthread_setspecific(amph_ip_state.cwd_key, own);

    amph_ip_cwd_leave(before);
}

void amph_ip_cwd_leave(struct amph_ip_cwd *own)
{
    if (!own || __atomic_sub_fetch(&own->tasks, 1, __ATOMIC_ACQ_REL) != 0)
        return;

    int fd = own->fd;

    own->fd = 0; /* until then it cannot be closed */
    if (fd)
        amph_do_close(fd);

    __atomic_store_n(&own->taken, false, __ATOMIC_RELEASE);
}

struct amph_ip_cwd *amph_ip_cwd_join(void)
{
    struct amph_ip_cwd *own = amph_ip_thread.cwd.own;

    if (own)
        __atomic_add_fetch(&own->tasks, 1, __ATOMIC_ACQ_REL);

    return own;
}
