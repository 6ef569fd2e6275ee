/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UPC-IO: reads and writes, blocking and asynchronous.  UPC OL 7.4.4 to 7.4.7.
 *
 * With a common file pointer, the extent of the file is divided into one file domain for each
 * thread that accesses the file.  A thread fetches the data of its domain from the memory of all
 * threads, so each server gets long contiguous calls, whatever the array's layout.  Lists of
 * short runs of all threads are exchanged first (exchange.c).  With strong consistency the
 * threads execute their calls one after the other, so each call is atomic.
 *
 * An asynchronous operation is executed by a second thread, which accesses only memory that is
 * mapped in this process.  Other memory is replaced by a copy, which is fetched at the start of a
 * write and stored at the end of a read.  Operations that need strong consistency, a large copy, or
 * an exchange over a network are executed at once by the call that starts them.
 *
 * Layer: upc-bridge.  Thread rule: one thread, and run_thread for each asynchronous operation.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upc-bridge/io/files.h"

/* Two-phase transfers in flight in this process.  Each holds iofwd requests until the other threads
 * arrive. */
#define MAX_COLLECTIVE 4

/* The largest copy of remote memory that an asynchronous operation allocates. */
#define MAX_COPY_BYTES ((uint64_t)256 << 20)

static upc_off_t error(int err)
{
    errno = err;
    return -1;
}

static void drop(struct upc_async *a)
{
    free(a->copy);
    free(a->far.piece);
    free(a->move.piece);
    free(a->move.run);
    free(a);
}

/* Allocates an operation and its lists. */
static struct upc_async *operation(struct upc_file *f, bool writing, size_t npieces, size_t nruns,
                                   upc_flag_t flags)
{
    struct upc_async *a = calloc(1, sizeof *a);

    if (!a)
        amph_upc_fail("UPC-IO: out of memory");

    a->flags = f->flags & UPC_STRONG_CA ? UPC_IN_ALLSYNC | UPC_OUT_ALLSYNC : flags;
    a->move =
        (struct upc_move){ .file = f, .writing = writing, .npieces = npieces, .nruns = nruns };
    a->move.piece = calloc(npieces + 1, sizeof *a->move.piece);
    a->move.run = calloc(nruns + 1, sizeof *a->move.run);
    if (!a->move.piece || !a->move.run)
        amph_upc_fail("UPC-IO: out of memory for a list of %zu pieces", npieces + nruns);

    return a;
}

/* ---- execution ---- */

static void run_in_turn(struct upc_async *a)
{
    if (a->collective) {
        amph_upc_collective_run(a);
        return;
    }

    if (!(a->move.file->flags & UPC_STRONG_CA) || a->common) {
        amph_upc_move_run(&a->move);
        return;
    }

    for (int t = 0; t < upc_self.threads; t++) {
        if (t == upc_self.mythread)
            amph_upc_move_run(&a->move);

        amph_upc_sync();
    }
}

static void *run_thread(void *arg)
{
    struct upc_async *a = arg;

    if (a->collective)
        amph_upc_collective_run(a);
    else
        amph_upc_move_run(&a->move);

    __atomic_store_n(&a->ended, true, __ATOMIC_RELEASE);
    return NULL;
}

/* Fetches the copy of n bytes from the memory that it replaces, or stores it there.  Collective. */
static void move_copy(struct upc_async *a, uint64_t n)
{
    struct upc_cursor c = { a->far.piece, a->far.npieces, 0 };
    uint64_t max_bytes = a->move.file->buffer_bytes;

    amph_upc_cursor_advance(&c, a->far.skip);
    for (uint64_t at = 0, len; at < n && !a->refused; at += len) {
        len = n - at < max_bytes ? n - at : max_bytes;
        a->refused = amph_upc_cursor_move(&a->far, &c, a->copy + at, len);
    }

    amph_upc_sync(); /* so that no thread computes while others access its memory */
}

/* Returns whether a second thread can execute the operation, in every process.  Allocates a copy if
 * some memory is not mapped here and the copy is not too large. */
static bool can_be_threaded(struct upc_async *a)
{
    bool near = amph_upc_move_is_near(&a->move);
    uint64_t n = 0;

    if (!amph_upc_max(!near))
        return true;

    for (size_t i = 0; i < a->move.nruns; i++)
        n += a->move.run[i].len;

    struct upc_piece *whole = calloc(1, sizeof *whole);

    a->copy = n <= MAX_COPY_BYTES ? malloc(n + 1) : NULL;
    if (amph_upc_max(!a->copy || !whole)) {
        free(whole);
        free(a->copy);
        a->copy = NULL;
        return false;
    }

    a->far = a->move;
    a->far.run = NULL;
    *whole = (struct upc_piece){ .local = a->copy, .len = n };
    a->move.piece = whole;
    a->move.npieces = 1;
    a->move.skip = 0;
    if (a->move.writing)
        move_copy(a, n);

    return true;
}

/* Returns false if the transfer may need buffers and they cannot be allocated. */
static bool has_buffers(struct upc_async *a)
{
    return !(a->move.npieces > 1 || (a->move.npieces && !a->move.piece[0].local)) ||
           amph_upc_file_buffers(a->move.file);
}

/* Repeats a failed two-phase transfer with independent calls: they either report this thread's
 * error, or fail over to the next server. */
static void repeat_independently(struct upc_async *a)
{
    amph_upc_collective_close(a->move.file);
    if (has_buffers(a))
        amph_upc_move_run(&a->move);
    else
        a->move.error = ENOMEM;
}

/* Replaces *done_p by the sum and *err_p by the maximum over all threads.  Returns true if it was a
 * two-phase transfer that failed.  Collective. */
static bool combine_results(const struct upc_async *a, uint64_t *done_p, int *err_p)
{
    uint64_t sum[2] = { *done_p, *err_p != 0 };

    amph_upc_sums(sum, 2);
    *done_p = sum[0];
    if (sum[1] && !a->collective)
        *err_p = (int)amph_upc_max((uint64_t)*err_p);

    return sum[1] && a->collective;
}

/* Completes an operation and returns the result of the blocking call. */
static upc_off_t finish(struct upc_async *a)
{
    uint64_t done;
    int err;

    if (a->threaded)
        pthread_join(a->thread, NULL);

    amph_upc.files.ncollective -= a->collective;
    done = a->move.done;
    if (a->copy && !a->move.writing)
        move_copy(a, done);

    err = a->refused ? a->refused : a->move.error;
    if (a->common && combine_results(a, &done, &err)) {
        repeat_independently(a);
        a->collective = false;
        done = a->move.done;
        err = a->move.error;
        combine_results(a, &done, &err);
    }

    if (!a->common)
        amph_upc_leave(a->flags);

    if (!err && a->at_pointer)
        a->move.file->position += (int64_t)done;

    drop(a);
    return err ? error(err) : (upc_off_t)done;
}

/* Exchanges the lists of all threads and executes them together.  Returns false if it did not: each
 * call must be atomic, or a second thread can execute it. */
static bool run_together(struct upc_async *a, bool async)
{
    if (!a->list || a->move.file->flags & UPC_STRONG_CA ||
        (async && !amph_upc_max(!amph_upc_move_is_near(&a->move))))
        return false;

    return amph_upc_move_exchange(&a->move);
}

static upc_off_t start(struct upc_async *a, bool async)
{
    struct upc_file *f = a->move.file;
    bool done;

    amph_upc_enter(a->flags, "UPC-IO");
    if (a->common && amph_upc.files.ncollective < MAX_COLLECTIVE && amph_upc_collective_begin(a))
        amph_upc.files.ncollective++;
    else if (!a->refused && !has_buffers(a))
        a->refused = ENOMEM;

    if (a->refused)
        a->move.nruns = 0;

    done = run_together(a, async);
    if (!done && async &&
        (a->collective || ((a->common || !(f->flags & UPC_STRONG_CA)) && can_be_threaded(a))))
        a->threaded = pthread_create(&a->thread, NULL, run_thread, a) == 0;

    if (!done && !a->threaded)
        run_in_turn(a);

    if (!async)
        return finish(a);

    f->async = a;
    return 0;
}

/* Returns the open file of a call, or NULL with errno if an operation is in flight on it.  A second
 * asynchronous operation ends the job. */
static struct upc_file *file_of(upc_file_t *fd, bool async)
{
    struct upc_file *f = amph_upc_file_find(fd);

    if (!f && async)
        amph_upc_fail("UPC-IO: an asynchronous operation on %p, which is not an open file",
                      (void *)fd);

    if (f && f->async && async)
        amph_upc_fail("UPC-IO: a second asynchronous operation on %s while one is in flight",
                      f->name);

    if (f && f->async) {
        errno = EBUSY;
        return NULL;
    }

    return f;
}

static int check_access(const struct upc_file *f, bool writing)
{
    return f->flags & (writing ? UPC_RDONLY : UPC_WRONLY) ? EBADF : 0;
}

/* Returns size * nmemb; 0 with *err_p set if that is too large. */
static uint64_t product(size_t size, size_t nmemb, int *err_p)
{
    uint64_t n = 0;

    if (__builtin_mul_overflow(size, nmemb, &n) || n > INT64_MAX)
        *err_p = EINVAL;

    return *err_p ? 0 : n;
}

/* Describes len bytes of elements of `size` bytes in blocks of `block` bytes that begin at `at`, as
 * one or two pieces: the rest of the first block, and the blocks that follow.  Returns their
 * number. */
static size_t set_pieces(struct upc_piece *piece, struct upc_wide at, uint64_t block, uint64_t size,
                         uint64_t len)
{
    uint64_t begin = at.addr;
    uint64_t before = size ? amph_upc_block_begin(&at, block / size, size) * size : 0;
    uint64_t rest = 0; /* bytes of the first block, if it is not whole */

    if (before)
        rest = block - before < len ? block - before : len;

    if (rest) {
        *piece++ = (struct upc_piece){ .at = { begin, at.thread, 0 }, .len = rest };
        at.addr += at.thread + 1 == (uint32_t)upc_self.threads ? block : 0;
        at.thread = (at.thread + 1) % (uint32_t)upc_self.threads;
    }

    if (rest == 0 || rest < len)
        *piece = (struct upc_piece){ .at = at, .block = block, .len = len - rest };

    return 1 + (rest && rest < len);
}

/* ---- at the file pointer ---- */

static upc_off_t move_local(upc_file_t *fd, bool writing, void *buffer, size_t size, size_t nmemb,
                            upc_flag_t flags, bool async)
{
    struct upc_file *f = file_of(fd, async);

    if (!f)
        return -1;

    struct upc_async *a = operation(f, writing, 1, 1, flags);

    a->refused = f->flags & UPC_COMMON_FP ? EINVAL : check_access(f, writing);

    uint64_t n = product(size, nmemb, &a->refused);

    a->at_pointer = true;
    a->move.piece[0] = (struct upc_piece){ .local = n ? buffer : (char *)fd, .len = n };
    a->move.run[0] = (struct upc_run){ f->position, n };

    return start(a, async);
}

/* Computes this thread's file domain in the n bytes at the file pointer: stores its beginning,
 * relative to the file pointer, in *begin_p and returns its length. */
static uint64_t share_of(const struct upc_file *f, uint64_t n, uint64_t *begin_p)
{
    uint64_t first = (uint64_t)f->position;
    uint64_t unit = (uint64_t)f->unit;
    uint64_t end = first + n;
    uint64_t from, to;
    uint64_t units = (end + unit - 1) / unit - first / unit;
    uint64_t each = (units + (uint64_t)f->writers - 1) / (uint64_t)f->writers * unit;
    uint64_t w = (uint64_t)upc_self.mythread;

    *begin_p = 0;
    if (w >= (uint64_t)f->writers || n == 0)
        return 0;

    from = first / unit * unit + w * each;
    to = from + each;
    from = from < first ? first : from;
    to = to > end ? end : to;
    if (from >= to)
        return 0;

    *begin_p = from - first;
    return to - from;
}

static upc_off_t move_shared(upc_file_t *fd, bool writing, struct upc_wide buffer, size_t blocksize,
                             size_t size, size_t nmemb, upc_flag_t flags, bool async)
{
    struct upc_file *f = file_of(fd, async);

    if (!f)
        return -1;

    struct upc_async *a = operation(f, writing, 2, 1, flags);

    a->refused = check_access(f, writing);

    uint64_t n = product(size, nmemb, &a->refused);
    uint64_t block = product(size, blocksize, &a->refused);
    uint64_t begin = 0;
    uint64_t share = n;

    if (buffer.thread >= (uint32_t)upc_self.threads || (n && !buffer.addr)) {
        a->refused = EFAULT;
        n = share = 0;
    }

    a->common = (f->flags & UPC_COMMON_FP) != 0;
    a->whole = a->refused ? 0 : n;
    if (a->common)
        share = share_of(f, n, &begin);

    a->at_pointer = true;
    a->move.npieces = set_pieces(a->move.piece, buffer, block, size, n);
    a->move.skip = begin;
    a->move.run[0] = (struct upc_run){ f->position + (int64_t)begin, share };

    return start(a, async);
}

upc_off_t upc_all_fread_local(upc_file_t *fd, void *buffer, size_t size, size_t nmemb,
                              upc_flag_t flags)
{
    return move_local(fd, false, buffer, size, nmemb, flags, false);
}

upc_off_t upc_all_fwrite_local(upc_file_t *fd, const void *buffer, size_t size, size_t nmemb,
                               upc_flag_t flags)
{
    return move_local(fd, true, (void *)(uintptr_t)buffer, size, nmemb, flags, false);
}

upc_off_t amphora_upc_fread_shared(upc_file_t *fd, struct upc_wide buffer, size_t blocksize,
                                   size_t size, size_t nmemb, upc_flag_t flags)
{
    return move_shared(fd, false, buffer, blocksize, size, nmemb, flags, false);
}

upc_off_t amphora_upc_fwrite_shared(upc_file_t *fd, struct upc_wide buffer, size_t blocksize,
                                    size_t size, size_t nmemb, upc_flag_t flags)
{
    return move_shared(fd, true, buffer, blocksize, size, nmemb, flags, false);
}

void upc_all_fread_local_async(upc_file_t *fd, void *buffer, size_t size, size_t nmemb,
                               upc_flag_t flags)
{
    (void)move_local(fd, false, buffer, size, nmemb, flags, true);
}

void upc_all_fwrite_local_async(upc_file_t *fd, const void *buffer, size_t size, size_t nmemb,
                                upc_flag_t flags)
{
    (void)move_local(fd, true, (void *)(uintptr_t)buffer, size, nmemb, flags, true);
}

void amphora_upc_fread_shared_async(upc_file_t *fd, struct upc_wide buffer, size_t blocksize,
                                    size_t size, size_t nmemb, upc_flag_t flags)
{
    (void)move_shared(fd, false, buffer, blocksize, size, nmemb, flags, true);
}

void amphora_upc_fwrite_shared_async(upc_file_t *fd, struct upc_wide buffer, size_t blocksize,
                                     size_t size, size_t nmemb, upc_flag_t flags)
{
    (void)move_shared(fd, true, buffer, blocksize, size, nmemb, flags, true);
}

/* ---- lists ---- */

/* struct upc_shared_memvec of programs with packed pointers, and with wide ones. */
struct packed_memvec {
    struct upc_packed baseaddr;
    size_t blocksize, len;
};

struct wide_memvec {
    struct upc_wide baseaddr;
    size_t blocksize, len;
};

static struct upc_piece piece_of(const void *memvec, size_t i, int form)
{
    if (form == 0) {
        const struct upc_local_memvec *v = (const struct upc_local_memvec *)memvec + i;
        return (struct upc_piece){ .local = v->baseaddr, .len = v->len };
    }

    if (form == 1) {
        const struct packed_memvec *v = (const struct packed_memvec *)memvec + i;
        return (struct upc_piece){ .at = upc_wide_of_packed(v->baseaddr),
                                   .block = v->blocksize,
                                   .len = v->len };
    }

    const struct wide_memvec *v = (const struct wide_memvec *)memvec + i;

    return (struct upc_piece){ .at = v->baseaddr, .block = v->blocksize, .len = v->len };
}

/* Fills in the pieces of the vectors except empty ones.  Returns 0 or an errno value. */
static int fill_pieces(struct upc_move *m, const void *memvec, size_t nmem, int form,
                       uint64_t *bytes_p)
{
    m->npieces = 0;
    for (size_t i = 0; i < nmem; i++) {
        struct upc_piece p = piece_of(memvec, i, form);
        struct upc_piece *to = &m->piece[m->npieces];

        if (p.len && form && (p.at.thread >= (uint32_t)upc_self.threads || !p.at.addr))
            return EFAULT;

        *bytes_p += p.len;
        *to = p;
        if (p.len)
            m->npieces += form ? set_pieces(to, p.at, p.block, 1, p.len) : 1;
    }

    return 0;
}

/* Fills in both lists.  Returns 0 or an errno value. */
static int fill_lists(struct upc_move *m, const void *memvec, size_t nmem,
                      const struct upc_filevec *filevec, size_t nfile, int form)
{
    uint64_t memory = 0;
    uint64_t file = 0;
    int64_t last = 0;
    int err = fill_pieces(m, memvec, nmem, form, &memory);

    m->nruns = 0;
    if (err)
        return err;

    for (size_t i = 0; i < nfile; i++) {
        if (filevec[i].len == 0)
            continue;
        if (filevec[i].offset < last)
            return EINVAL;

        struct upc_run *before = m->nruns ? &m->run[m->nruns - 1] : NULL;

        last = filevec[i].offset;
        file += filevec[i].len;

        if (before && before->offset + (int64_t)before->len == last)
            before->len += filevec[i].len;
        else
            m->run[m->nruns++] = (struct upc_run){ last, filevec[i].len };
    }

    return memory == file ? 0 : EINVAL;
}

/* form: 0 for local memory, else the form of the pointers to shared. */
static upc_off_t move_list(upc_file_t *fd, bool writing, size_t nmem, const void *memvec,
                           size_t nfile, const struct upc_filevec *filevec, upc_flag_t flags,
                           int form, bool async)
{
    struct upc_file *f = file_of(fd, async);

    if (!f)
        return -1;

    /* each may begin inside a block */
    struct upc_async *a = operation(f, writing, 2 * nmem, nfile, flags);

    a->list = true;
    a->refused = check_access(f, writing);
    if (!a->refused)
        a->refused = fill_lists(&a->move, memvec, nmem, filevec, nfile, form);

    if (a->refused)
        a->move.npieces = 0;

    return start(a, async);
}

upc_off_t amphora_upc_list_shared(upc_file_t *fd, size_t memvec_entries, const void *memvec,
                                  size_t filevec_entries, struct upc_filevec const *filevec,
                                  upc_flag_t flags, int form, int writing, int async)
{
    return move_list(fd, writing, memvec_entries, memvec, filevec_entries, filevec, flags, form,
                     async);
}

upc_off_t upc_all_fread_list_local(upc_file_t *fd, size_t memvec_entries,
                                   struct upc_local_memvec const *memvec, size_t filevec_entries,
                                   struct upc_filevec const *filevec, upc_flag_t flags)
{
    return move_list(fd, false, memvec_entries, memvec, filevec_entries, filevec, flags, 0, false);
}

upc_off_t upc_all_fwrite_list_local(upc_file_t *fd, size_t memvec_entries,
                                    struct upc_local_memvec const *memvec, size_t filevec_entries,
                                    struct upc_filevec const *filevec, upc_flag_t flags)
{
    return move_list(fd, true, memvec_entries, memvec, filevec_entries, filevec, flags, 0, false);
}

void upc_all_fread_list_local_async(upc_file_t *fd, size_t memvec_entries,
                                    struct upc_local_memvec const *memvec, size_t filevec_entries,
                                    struct upc_filevec const *filevec, upc_flag_t flags)
{
    (void)move_list(fd, false, memvec_entries, memvec, filevec_entries, filevec, flags, 0, true);
}

void upc_all_fwrite_list_local_async(upc_file_t *fd, size_t memvec_entries,
                                     struct upc_local_memvec const *memvec, size_t filevec_entries,
                                     struct upc_filevec const *filevec, upc_flag_t flags)
{
    (void)move_list(fd, true, memvec_entries, memvec, filevec_entries, filevec, flags, 0, true);
}

/* ---- the end of asynchronous operations ---- */

upc_off_t upc_all_fwait_async(upc_file_t *fd)
{
    struct upc_file *f = amph_upc_file_find(fd);

    if (!f || !f->async)
        return error(f ? EINVAL : EBADF);

    struct upc_async *a = f->async;

    f->async = NULL;
    return finish(a);
}

upc_off_t upc_all_ftest_async(upc_file_t *fd, int *flag)
{
    struct upc_file *f = amph_upc_file_find(fd);
    uint64_t unfinished;

    *flag = 0;
    if (!f || !f->async)
        return error(f ? EINVAL : EBADF);

    unfinished = f->async->threaded && !__atomic_load_n(&f->async->ended, __ATOMIC_ACQUIRE);
    if (amph_upc_max(unfinished)) /* collective: all threads pass the same value */
        return 0;

    *flag = 1;
    return upc_all_fwait_async(fd);
}
