/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: reading and writing open files.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"
#include "iofwd/wire/file.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define I(i) AMPH_TRAP_INT(c, i)
#define CL amph_trap.cl

#define CALL_MAX ((size_t)0x7ffff000) /* bytes that one call of the kernel moves */
#define PARTS_MAX 1024                /* of readv and its like */

/* Where the data is in the program, and what has been moved already. */
struct pieces {
    struct iovec part[PARTS_MAX];
    int n;
    size_t left;
};

/* What one call asks for. */
struct transfer {
    struct amph_fwd_file file; /* a copy, which may hold RWF_* */
    bool at_offset;
    off_t off;
    bool waits;
    bool no_signal; /* for a pipe without a reader */
};

static int one_buffer(struct pieces *v, uint64_t at, size_t len)
{
    v->n = 1;
    v->left = len < CALL_MAX ? len : CALL_MAX;
    v->part[0] = (struct iovec){ (void *)(uintptr_t)at, v->left };
    return 0;
}

static int several_buffers(struct amph_trap_call *c, struct pieces *v)
{
    if (A(2) > PARTS_MAX)
        return EINVAL;

    int err = amph_trap_get(c, v->part, A(1), A(2) * sizeof *v->part);

    v->n = (int)A(2);
    v->left = 0;
    for (int i = 0; i < v->n && !err; i++) {
        if ((ssize_t)v->part[i].iov_len < 0)
            err = EINVAL;
        else if (v->part[i].iov_len > CALL_MAX - v->left)
            v->part[i].iov_len = CALL_MAX - v->left;

        v->left += v->part[i].iov_len;
    }

    return err;
}

/* Moves len bytes between buf and the next pieces.  *n_p: how many were there. */
static int move(struct amph_trap_call *c, struct pieces *v, int *at_p, char *buf, size_t len,
                bool in, size_t *n_p)
{
    int err = 0;

    *n_p = 0;
    while (len && *at_p < v->n && !err) {
        struct iovec *part = &v->part[*at_p];
        size_t n = part->iov_len < len ? part->iov_len : len;
        size_t moved = n;

        if (in)
            err = amph_trap_get_some(c, buf, (uintptr_t)part->iov_base, n, &moved);
        else
            err = amph_trap_put(c, (uintptr_t)part->iov_base, buf, n);

        if (err)
            break;

        /* an address of the program, which may be 0 if the part has no bytes */
        part->iov_base = (void *)((uintptr_t)part->iov_base + moved);
        part->iov_len -= moved;
        *n_p += moved;
        buf += moved;
        len -= moved;
        if (moved < n)
            break;

        if (!part->iov_len)
            ++*at_p;
    }

    return err;
}

/* A piece of a transfer; waits: see wait.c. */
struct piece {
    struct transfer *t;
    char *buf;
    size_t len;
    size_t n; /* moved */
};

static int read_piece(void *arg)
{
    struct piece *p = arg;
    const struct transfer *t = p->t;

    return t->at_offset ? amph_fwd_pread(CL, &t->file, t->off, p->buf, p->len, &p->n)
                        : amph_fwd_read(CL, &t->file, p->buf, p->len, &p->n);
}

static int write_piece(void *arg)
{
    struct piece *p = arg;
    const struct transfer *t = p->t;

    return t->at_offset ? amph_fwd_pwrite(CL, &t->file, t->off, p->buf, p->len, &p->n)
                        : amph_fwd_write(CL, &t->file, p->buf, p->len, &p->n);
}

/* Carries out a piece that may wait.  If the file is ready, it does not wait in the queue of those that
 * wait (wait.c): a writer of a FIFO does not wait behind its readers. */
static int move_waiting(struct amph_trap_call *c, int (*attempt)(void *arg), struct piece *p)
{
    size_t wanted = attempt == read_piece ? POLLIN : POLLOUT;
    size_t ready = 0;
    bool is_ready = amph_fwd_poll(CL, &p->t->file, wanted, 0, 0, &ready) == 0 && ready;

    return amph_trap_wait(c, is_ready ? AMPH_TRAP_WAIT_READY : AMPH_TRAP_WAIT_USE, attempt, p);
}

/* Gives back what has been read and has not arrived. */
static void step_back(struct transfer *t, size_t n)
{
    off_t pos;

    if (!t->at_offset && n)
        amph_fwd_lseek(CL, &t->file, -(off_t)n, SEEK_CUR, &pos);
}

static int do_reads(struct amph_trap_call *c, struct transfer *t, struct pieces *v)
{
    char *buf = amph_trap_buffer();
    size_t total = 0;
    int at = 0;
    int err = buf ? 0 : ENOMEM;

    while (!err) {
        size_t want = v->left < AMPH_TRAP_BUFFER ? v->left : AMPH_TRAP_BUFFER;
        struct piece p = { t, buf, want, 0 };
        size_t moved = 0;

        err = t->waits ? move_waiting(c, read_piece, &p) : read_piece(&p);
        if (err)
            break;

        err = move(c, v, &at, buf, p.n, false, &moved);
        if (err)
            step_back(t, p.n - moved);

        total += moved;
        t->off += (off_t)moved;
        v->left -= moved;
        if (p.n < want || !v->left || t->waits)
            break;
    }

    c->value = (int64_t)total;
    if (err == AMPH_TRAP_GONE)
        return err;

    return total ? 0 : err;
}

/* As the kernel does for a pipe without a reader. */
void amph_trap_sigpipe(struct amph_trap_call *c)
{
    if (amph_trap_process_of(c, NULL) == 0)
        syscall(SYS_tgkill, amph_trap_process_pid(c->process), (pid_t)c->n.pid, SIGPIPE);
}

static int do_writes(struct amph_trap_call *c, struct transfer *t, struct pieces *v)
{
    char *buf = amph_trap_buffer();
    size_t total = 0;
    int at = 0;
    int err = buf ? 0 : ENOMEM;

    while (!err) {
        size_t want = v->left < AMPH_TRAP_BUFFER ? v->left : AMPH_TRAP_BUFFER;
        struct piece p = { t, buf, 0, 0 };

        err = move(c, v, &at, buf, want, true, &p.len);
        if (!err && want && !p.len)
            err = EFAULT;

        if (!err)
            err = t->waits ? move_waiting(c, write_piece, &p) : write_piece(&p);

        if (err)
            break;

        total += p.n;
        t->off += (off_t)p.n;
        v->left -= p.n;
        if (p.n < want || !v->left)
            break;
    }

    c->value = (int64_t)total;
    if (err == AMPH_TRAP_GONE)
        return err;

    if (err == EPIPE && !total && !t->no_signal)
        amph_trap_sigpipe(c);

    return total ? 0 : err;
}

/* What a call is, besides a read of one buffer at the file's offset. */
enum shape {
    WRITES = 1,
    SEVERAL = 2,  /* an array of buffers in place of one */
    AT_OFFSET = 4 /* at the offset that is argument 3 */
};

/* shape: of enum shape; flags: RWF_*. */
static int transfer(struct amph_trap_call *c, unsigned shape, unsigned flags)
{
    static _Thread_local struct pieces v;
    struct amph_trap_file *file;
    bool writes = shape & WRITES;
    int err;

    if (!amph_trap_has_file(c, &file, &err))
        return err;

    struct transfer t = { .file = file->file,
                          .at_offset = shape & AT_OFFSET,
                          .off = shape & AT_OFFSET ? (off_t)A(3) : 0,
                          .waits = amph_fwd_file_waits(&file->file),
                          .no_signal = flags & AMPH_FWD_RWF_NOSIGNAL };

    t.file.rwf = flags & AMPH_FWD_RWF_SENT;
    err = shape & SEVERAL ? several_buffers(c, &v) : one_buffer(&v, A(1), A(2));
    if (!err && t.off < 0)
        err = EINVAL;

    /* as the kernel: nothing to move is no error */
    if (!err && v.left && (flags & ~AMPH_FWD_RWF_KNOWN))
        err = EOPNOTSUPP;

    if (t.waits && writes) /* the reader may just have closed the FIFO */
        amph_trap_file_reap();

    if (!err)
        err = writes ? do_writes(c, &t, &v) : do_reads(c, &t, &v);

    return amph_trap_done(file, err);
}

/* preadv2 and pwritev2: an offset of -1 means the file's own. */
static int transfer_flagged(struct amph_trap_call *c, unsigned shape)
{
    unsigned where = (int64_t)A(3) == -1 ? 0 : AT_OFFSET;

    return transfer(c, shape | where, (unsigned)A(5));
}

int amph_trap_do_read(struct amph_trap_call *c)
{
    return transfer(c, 0, 0);
}

int amph_trap_do_write(struct amph_trap_call *c)
{
    return transfer(c, WRITES, 0);
}

int amph_trap_do_pread(struct amph_trap_call *c)
{
    return transfer(c, AT_OFFSET, 0);
}

int amph_trap_do_pwrite(struct amph_trap_call *c)
{
    return transfer(c, WRITES | AT_OFFSET, 0);
}

int amph_trap_do_readv(struct amph_trap_call *c)
{
    return transfer(c, SEVERAL, 0);
}

int amph_trap_do_writev(struct amph_trap_call *c)
{
    return transfer(c, WRITES | SEVERAL, 0);
}

int amph_trap_do_preadv(struct amph_trap_call *c)
{
    return transfer(c, SEVERAL | AT_OFFSET, 0);
}

int amph_trap_do_pwritev(struct amph_trap_call *c)
{
    return transfer(c, WRITES | SEVERAL | AT_OFFSET, 0);
}

int amph_trap_do_preadv2(struct amph_trap_call *c)
{
    return transfer_flagged(c, SEVERAL);
}

int amph_trap_do_pwritev2(struct amph_trap_call *c)
{
    return transfer_flagged(c, WRITES | SEVERAL);
}
