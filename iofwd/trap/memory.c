/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: copies between the program's memory and ours, by process_vm_readv and process_vm_writev.
 * After each look the notification must still be pending, else the number may be another process's.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

int amph_trap_cannot_look(struct amph_trap_call *c)
{
    if (!amph_trap_call_lives(c))
        return AMPH_TRAP_GONE;

    if (amph_trap_first_time(c, AMPH_TRAP_SAID_UNREADABLE))
        amph_trap_say("process %d does not let its parent look at its memory (PR_SET_DUMPABLE, or "
                      "an executable without read permission): its calls on files are refused; "
                      "iofwd-run -mount runs it",
                      (int)c->n.pid);

    return EPERM;
}

/* Pieces of the program's memory that end with pages: the kernel copies whole pieces. */
static size_t pieces(struct iovec *out, size_t max, uint64_t at, size_t len, size_t *covered_p)
{
    size_t page = 4096;
    size_t n = 0;

    *covered_p = 0;
    while (len && n < max) {
        size_t room = n + 1 < max ? page - at % page : len;
        size_t part = len < room ? len : room;

        out[n++] = (struct iovec){ (void *)(uintptr_t)at, part };
        at += part;
        len -= part;
        *covered_p += part;
    }

    return n;
}

static int transfer(struct amph_trap_call *c, void *own, uint64_t at, size_t len, bool in,
                    size_t *n_p)
{
    struct iovec mine = { own, len };
    struct iovec whole = { (void *)(uintptr_t)at, len };
    pid_t tid = (pid_t)c->n.pid;
    ssize_t n = in ? process_vm_readv(tid, &mine, 1, &whole, 1, 0)
                   : process_vm_writev(tid, &mine, 1, &whole, 1, 0);

    *n_p = n > 0 ? (size_t)n : 0;
    if (n < 0 && errno == EPERM)
        return amph_trap_cannot_look(c);

    return n < 0 && errno == ESRCH ? AMPH_TRAP_GONE : 0;
}

int amph_trap_get_some(struct amph_trap_call *c, void *to, uint64_t from, size_t len, size_t *n_p)
{
    struct iovec part[64];
    size_t covered;
    int err = transfer(c, to, from, len, true, n_p);

    /* what is there before the first bad page */
    if (!err && *n_p < len) {
        struct iovec mine = { to, len };
        size_t count = pieces(part, 64, from, len, &covered);
        ssize_t n = process_vm_readv((pid_t)c->n.pid, &mine, 1, part, count, 0);

        *n_p = n > 0 ? (size_t)n : 0;
    }

    if (!err && !amph_trap_call_lives(c))
        err = AMPH_TRAP_GONE;

    return err;
}

int amph_trap_get(struct amph_trap_call *c, void *to, uint64_t from, size_t len)
{
    size_t n;

    if (!len)
        return 0;

    int err = transfer(c, to, from, len, true, &n);

    if (!err && !amph_trap_call_lives(c))
        err = AMPH_TRAP_GONE;

    return !err && n < len ? EFAULT : err;
}

int amph_trap_put(struct amph_trap_call *c, uint64_t to, const void *from, size_t len)
{
    size_t n;

    if (!len)
        return 0;

    /* the process must still be the caller */
    if (!amph_trap_call_lives(c))
        return AMPH_TRAP_GONE;

    int err = transfer(c, (void *)(uintptr_t)from, to, len, false, &n);

    return !err && n < len ? EFAULT : err;
}

int amph_trap_get_text(struct amph_trap_call *c, char *to, size_t cap, uint64_t from)
{
    size_t page = 4096;
    size_t have = 0;

    if (!from)
        return EFAULT;

    /* at first what is left of the page, at least a path of usual length */
    size_t want = page - from % page;

    while (have < cap) {
        size_t n;
        size_t part = want < cap - have ? want : cap - have;
        int err = transfer(c, to + have, from + have, part, true, &n);

        if (!err && n < part)
            err = EFAULT;

        if (err)
            return err;

        if (memchr(to + have, 0, part))
            return amph_trap_call_lives(c) ? 0 : AMPH_TRAP_GONE;

        have += part;
        want = page;
    }

    return amph_trap_call_lives(c) ? ENAMETOOLONG : AMPH_TRAP_GONE;
}
