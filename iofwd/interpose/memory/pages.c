/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contents of the pages of a mapped file: read from the server, updated when the file changes,
 * and written back; see pages.h.
 *
 * Layer: iofwd (interposer).  Thread rule: as there.
 *
 * The shadow is a copy of what the server has, so a page that differs from it was changed by a
 * program.  Changes are sent to the server in runs, byte for byte, so that changes of others
 * between them are kept.  Changes at the server are merged into the bytes that no program has
 * changed.  Memory that was never touched is a hole in both files and is never read.
 */
#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/memory/pages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/calls/names.h"

#define PAGE ((off_t)4096)      /* unit in which changes are searched; any size works */
#define PIECE ((off_t)64 << 10) /* unit that is kept in memory or not */
#define CHUNK AMPH_IP_PAGES_CHUNK
#define WINDOW ((off_t)64 << 20) /* largest part that is read at once */
#define KEPT_AT PAGE             /* offset in the control file: a byte for each piece */
#define SHADOW_AT AMPH_IP_PAGES_SHADOW
#define FAR INT64_MAX

static off_t min(off_t a, off_t b)
{
    return a < b ? a : b;
}

static off_t max(off_t a, off_t b)
{
    return a > b ? a : b;
}

bool amph_ip_pages_changed(const struct amph_ip_pages *p)
{
    return __atomic_load_n(&p->head->shadowed, __ATOMIC_ACQUIRE);
}

static off_t length_of(const struct amph_ip_pages *p)
{
    struct stat st;
    return libc_fstat64(p->data, &st) == 0 ? st.st_size : 0;
}

/* ---- the two files ---- */

/* Reads from a file of pages; bytes beyond its end are zero. */
static void get(int fd, off_t at, void *buf, size_t len)
{
    size_t done = 0;

    for (ssize_t n = 1; done < len && n > 0; done += n > 0 ? (size_t)n : 0)
        n = amph_ip_kernel_pread(fd, (char *)buf + done, len - done, at + (off_t)done);

    memset((char *)buf + done, 0, len - done);
}

static int put(int fd, off_t at, const void *buf, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = amph_ip_kernel_pwrite(fd, (const char *)buf + done, len - done,
                                          at + (off_t)done);

        if (n <= 0)
            return n < 0 ? errno : EIO;

        done += (size_t)n;
    }

    return 0;
}

static off_t next_in(int fd, off_t start, off_t at)
{
    off_t found = amph_ip_kernel_lseek(fd, start + at, SEEK_DATA);
    return found < 0 ? FAR : found - start;
}

/* Returns the offset of the next byte that was ever touched. */
static off_t next_touched(const struct amph_ip_pages *p, off_t at)
{
    off_t data = next_in(p->data, 0, at);
    return amph_ip_pages_changed(p) ? min(data, next_in(p->control, SHADOW_AT, at)) : data;
}

/* Returns the end of the run of pieces, from at on, that are all kept or all not kept. */
static off_t end_of_run(const struct amph_ip_pages *p, off_t at, off_t end, bool *kept_p)
{
    char kept[512];
    off_t piece = at / PIECE;

    for (bool first = true; piece * PIECE < end; first = false) {
        get(p->control, KEPT_AT + piece, kept, sizeof kept);
        if (first)
            *kept_p = kept[0];

        for (size_t i = 0; i < sizeof kept; i++, piece++)
            if ((kept[i] != 0) != *kept_p)
                return min(piece * PIECE, end);
    }

    return end;
}

static int keep(const struct amph_ip_pages *p, off_t from, off_t end)
{
    char kept[512];
    int err = 0;

    memset(kept, 1, sizeof kept);
    for (off_t piece = from / PIECE, last = (end + PIECE - 1) / PIECE; piece < last && !err;
         piece += (off_t)sizeof kept)
        err = put(p->control, KEPT_AT + piece, kept, (size_t)min((off_t)sizeof kept, last - piece));

    return err;
}

/* ---- the file ---- */

static int read_whole(const struct amph_fwd_file *file, char *to, size_t len, off_t off)
{
    size_t done = 0;

    for (size_t n = 1; done < len && n > 0; done += n) {
        int err = amph_ip_client.direct->pread(amph_ip_client.client, file, off + (off_t)done,
                                               to + done, len - done, &n);
        if (err)
            return err;
    }

    memset(to + done, 0, len - done);
    return 0;
}

/* Finds the file's next data in [at, end): [*from_p, *end_p).  false: there is no more. */
static bool next_data(const struct amph_fwd_file *file, off_t at, off_t end, off_t *from_p,
                      off_t *end_p)
{
    if (at >= end)
        return false;

    *from_p = at;
    *end_p = end;

    int err = end - at < CHUNK
                  ? 0
                  : amph_ip_client.fwd.nextdata(amph_ip_client.client, file, at, from_p, end_p);

    if (err == ENXIO)
        return false;

    /* the server cannot tell data from holes: take all of it */
    if (err || *from_p < at || *end_p <= *from_p) {
        *from_p = at;
        *end_p = end;
    }

    *end_p = min(*end_p, end);
    return *from_p < end;
}

int amph_ip_read_in(const struct amph_fwd_file *file, char *to, size_t len, off_t off)
{
    struct stat st;
    off_t at = off;
    off_t from, to_off;
    int err = amph_ip_client.fwd.fstat(amph_ip_client.client, file, &st);
    off_t end = err ? 0 : min(st.st_size, off + (off_t)len);

    for (; !err && next_data(file, at, end, &from, &to_off); at = to_off) {
        size_t n = 1;

        for (off_t at_off = from; !err && n > 0 && at_off < to_off; at_off += (off_t)n)
            err = amph_ip_client.fwd.pread(amph_ip_client.client, file, at_off, to + (at_off - off),
                                           (size_t)(to_off - at_off), &n);
    }

    return err;
}

/* ---- coming in ---- */

/* Reads [from, end), which is zero up to now, in one window. */
static int fill_window(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t from,
                       off_t end)
{
    off_t start = from & ~(PIECE - 1); /* at least as large as the pages of any machine */
    size_t len = (size_t)(end - start);

    if (amph_ip_kernel_fallocate(p->data, FALLOC_FL_KEEP_SIZE, start, end - start) != 0)
        return errno;

    char *window = amph_ip_kernel_mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, p->data,
                                       start);

    if (window == MAP_FAILED)
        return errno;

    int err = read_whole(file, window + (from - start), (size_t)(end - from), from);

    if (!err && amph_ip_pages_changed(p))
        err = put(p->control, SHADOW_AT + from, window + (from - start), (size_t)(end - from));

    amph_ip_kernel_munmap(window, len);
    return err;
}

static int fill(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t at, off_t end)
{
    off_t from, to;
    int err = 0;

    for (; !err && next_data(file, at, end, &from, &to); at = to) {
        to = min(to, (from & ~(WINDOW - 1)) + WINDOW);
        err = fill_window(p, file, from, to);
    }

    return err;
}

/* Merges the bytes of a page that have changed at the server. */
static int merge_page(struct amph_ip_pages *p, off_t at, const char *now, const char *was,
                      size_t len)
{
    int err = 0;

    for (size_t i = 0, n; i < len && !err; i += n) {
        for (n = 0; i + n < len && now[i + n] != was[i + n]; n++)
            ;

        if (n)
            err = put(p->data, at + (off_t)i, now + i, n);
        else
            n = 1;
    }

    return err || !amph_ip_pages_changed(p) ? err : put(p->control, SHADOW_AT + at, now, len);
}

/* Updates the kept pieces of [at, end) from the file. */
static int merge(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t at, off_t end)
{
    off_t from, to, n;
    int err = 0;

    for (; at < end && !err; at += n) {
        if (!next_data(file, at, end, &from, &to))
            from = FAR;

        off_t skip = min(from, next_touched(p, at)) & ~(PAGE - 1);

        at = max(at, min(skip, end));
        n = min(CHUNK, end - at);
        if (n == 0)
            break;

        err = read_whole(file, amph_ip_memory.theirs, (size_t)n, at);
        get(amph_ip_pages_changed(p) ? p->control : p->data,
            (amph_ip_pages_changed(p) ? SHADOW_AT : 0) + at, amph_ip_memory.base, (size_t)n);

        for (off_t page = 0; page < n && !err; page += PAGE) {
            size_t len = (size_t)min(PAGE, n - page);
            if (memcmp(amph_ip_memory.theirs + page, amph_ip_memory.base + page, len) != 0)
                err = merge_page(p, at + page, amph_ip_memory.theirs + page,
                                 amph_ip_memory.base + page, len);
        }
    }

    return err;
}

/* Calls fn for each kept part of [from, end). */
static int each_kept(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t from,
                     off_t end,
                     int (*fn)(struct amph_ip_pages *, const struct amph_fwd_file *, off_t, off_t))
{
    int err = 0;
    bool kept;

    for (off_t to; from < end && !err; from = to) {
        to = end_of_run(p, from, end, &kept);
        err = kept ? fn(p, file, from, to) : 0;
    }

    return err;
}

int amph_ip_pages_resize(struct amph_ip_pages *p, const struct amph_fwd_file *file)
{
    struct stat st;
    off_t old = length_of(p);
    int err = amph_ip_client.direct->fstat(amph_ip_client.client, file, &st);

    if (err || st.st_size == old)
        return err;
    if (amph_ip_kernel_ftruncate(p->data, st.st_size) != 0)
        return errno;
    if (st.st_size > old)
        return each_kept(p, file, old, st.st_size, fill);

    return amph_ip_pages_changed(p) &&
                   amph_ip_kernel_ftruncate(p->control, SHADOW_AT + st.st_size) != 0
               ? errno
               : 0;
}

int amph_ip_pages_load(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t from,
                       off_t len)
{
    int err = amph_ip_pages_resize(p, file);
    off_t end = ((from + len) + PIECE - 1) & ~(PIECE - 1);
    off_t size = length_of(p);
    bool kept;

    from &= ~(PIECE - 1);
    for (off_t to; from < end && !err; from = to) {
        to = end_of_run(p, from, end, &kept);
        if (from < size)
            err = (kept ? merge : fill)(p, file, from, min(to, size));

        if (!err && !kept)
            err = keep(p, from, to);
    }

    return err;
}

static int replace(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t at, off_t end)
{
    int err = 0;

    for (off_t n; at < end && !err; at += n) {
        n = min(CHUNK, end - at);
        if ((err = read_whole(file, amph_ip_memory.theirs, (size_t)n, at)) == 0)
            err = put(p->data, at, amph_ip_memory.theirs, (size_t)n);

        if (!err && amph_ip_pages_changed(p))
            err = put(p->control, SHADOW_AT + at, amph_ip_memory.theirs, (size_t)n);
    }

    return err;
}

int amph_ip_pages_replaced(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t from,
                           off_t end)
{
    int err = amph_ip_pages_resize(p, file);
    return err ? err : each_kept(p, file, from, min(end, length_of(p)), replace);
}

int amph_ip_pages_written(struct amph_ip_pages *p, const struct amph_fwd_file *file,
                          const void *buf, off_t from, size_t len)
{
    off_t old = length_of(p);
    off_t end = from + (off_t)len;
    off_t at = from;
    int err = 0;
    bool kept;

    if (from > old)
        err = amph_ip_pages_resize(p, file);
    else if (end > old && amph_ip_kernel_ftruncate(p->data, end) != 0)
        err = errno;

    for (off_t to; at < end && !err; at = to) {
        to = end_of_run(p, at, end, &kept);
        if (!kept)
            continue;

        err = put(p->data, at, (const char *)buf + (at - from), (size_t)(to - at));
        if (!err && amph_ip_pages_changed(p))
            err = put(p->control, SHADOW_AT + at, (const char *)buf + (at - from),
                      (size_t)(to - at));
    }

    return err;
}

/* ---- changes ---- */

int amph_ip_pages_writable(struct amph_ip_pages *p)
{
    off_t end = length_of(p);
    int err = 0;

    if (amph_ip_pages_changed(p))
        return 0;

    for (off_t at = next_in(p->data, 0, 0), n; at < end && !err; at = next_in(p->data, 0, at + n)) {
        n = min(CHUNK, end - at);
        get(p->data, at, amph_ip_memory.ours, (size_t)n);
        err = put(p->control, SHADOW_AT + at, amph_ip_memory.ours, (size_t)n);
    }

    if (!err)
        __atomic_store_n(&p->head->shadowed, 1, __ATOMIC_RELEASE);

    return err;
}

/* A run of changed bytes, which grows from page to page. */
struct run {
    struct amph_ip_pages *pages;
    const struct amph_fwd_file *file;
    off_t from, end; /* in the file */
    off_t limit;     /* end of the file: bytes behind it are not written; -1: not yet known */
    off_t chunk;     /* offset of `ours` */
};

static int write_out(struct run *r)
{
    struct stat st;
    int err = 0;

    if (r->limit < 0 && r->from < r->end) {
        err = amph_ip_client.direct->fstat(amph_ip_client.client, r->file, &st);
        r->limit = st.st_size;
    }

    for (off_t end = min(r->end, r->limit); r->from < end && !err;) {
        size_t n = 0;
        const char *data = amph_ip_memory.ours + (r->from - r->chunk);

        err = amph_ip_client.direct->pwrite(amph_ip_client.client, r->file, r->from, data,
                                            (size_t)(end - r->from), &n);
        if (!err)
            err = n ? put(r->pages->control, SHADOW_AT + r->from, data, n) : EIO;

        r->from += (off_t)n;
    }

    r->from = r->end = 0;
    return err;
}

/* Adds the page at `at`, which has changes. */
static int add_page(struct run *r, off_t at, off_t len)
{
    const char *now = amph_ip_memory.ours + (at - r->chunk);
    const char *was = amph_ip_memory.base + (at - r->chunk);
    off_t first = 0;
    off_t last = len;

    while (now[first] == was[first])
        first++;

    while (now[last - 1] == was[last - 1])
        last--;

    if (r->from < r->end && at + first == r->end) {
        r->end = at + last;
        return 0;
    }

    int err = write_out(r);

    r->from = at + first;
    r->end = at + last;
    return err;
}

int amph_ip_pages_flush(struct amph_ip_pages *p, const struct amph_fwd_file *file, off_t from,
                        off_t end)
{
    struct run r = { .pages = p, .file = file, .limit = -1 };
    int err = 0;

    if (!amph_ip_pages_changed(p))
        return 0;

    end = min(end, length_of(p));
    for (off_t at = from, n; at < end && !err; at += n) {
        at = max(at, min(next_touched(p, at), end));
        n = min(CHUNK, end - at);
        get(p->data, at, amph_ip_memory.ours, (size_t)n);
        get(p->control, SHADOW_AT + at, amph_ip_memory.base, (size_t)n);
        r.chunk = at;

        for (off_t page = at; page < at + n && !err; page += PAGE) {
            off_t len = min(PAGE, at + n - page);
            if (memcmp(amph_ip_memory.ours + (page - at), amph_ip_memory.base + (page - at),
                       (size_t)len) != 0)
                err = add_page(&r, page, len);
        }

        if (!err)
            err = write_out(&r); /* before `ours` is filled again */
    }

    return err;
}

void amph_ip_pages_overlay(struct amph_ip_pages *p, void *buf, off_t from, size_t len)
{
    if (!amph_ip_pages_changed(p))
        return;

    for (off_t at = from, end = from + (off_t)len, n; at < end; at += n) {
        at = max(at, min(next_touched(p, at), end));
        n = min(CHUNK, end - at);
        get(p->data, at, amph_ip_memory.ours, (size_t)n);
        get(p->control, SHADOW_AT + at, amph_ip_memory.base, (size_t)n);

        char *to = (char *)buf + (at - from);

        for (off_t i = 0; i < n; i++)
            to[i] = amph_ip_memory.ours[i] != amph_ip_memory.base[i] ? amph_ip_memory.ours[i]
                                                                     : to[i];
    }
}
