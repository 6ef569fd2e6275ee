/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns FILE objects that the C library made into forwarded streams, in place; see
 * stdio/foreign_file.h.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread. A stream that is converted is locked, unless
 * another thread is using it.
 *
 * A stream of fopencookie consists of a FILE, the pointer to its functions, and the five words of
 * the cookie.  Both function tables are the C library's, so a FILE becomes such a stream when the
 * words and then the pointer are written.  Buffers, their contents, and the flags stay as they are:
 * the program, the macros of stdio.h and the C library continue to use the same object.
 *
 * The words need room behind the object.  The three standard objects have it (std_files.c).  The
 * streams of fopen, fdopen and tmpfile have their lock and their part for wide characters there, to
 * which the FILE points.  The lock is moved further back, and the wide part is given up, since
 * wide.c does not need it.  Other streams (popen's) have no room.
 */
#include "iofwd/interpose/stdio/foreign_file.h"

#include <limits.h>
#include <stdalign.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/stdio/state.h"

#define USER_WIDE_BUFFER 0x8 /* bit of FILE._flags2: the program provided the wide buffer */

extern const char _IO_file_jumps[], _IO_wfile_jumps[];

/* The beginning of glibc's struct _IO_wide_data, the same in all versions. */
struct wide_part {
    wchar_t *read_ptr, *read_end, *read_base;
    wchar_t *write_base, *write_ptr, *write_end;
    wchar_t *buf_base, *buf_end;
};

/* glibc's lock of a stream. */
struct file_lock {
    int lock, depth;
    void *owner;
};

/* What fopen and fdopen allocate. */
struct opened_file {
    FILE file;
    const void *vtable;
    alignas(FILE) struct file_lock lock; /* as a cookie */
    struct wide_part wide;
};

/* ---- which streams there are ---- */

static void record_fd(int fd)
{
    if (fd < 0)
        return;

    if (fd >= AMPH_IP_SEEN_FDS) {
        __atomic_store_n(&amph_ip_stdio.seen_beyond, true, __ATOMIC_RELAXED);
        return;
    }

    uint64_t bit = UINT64_C(1) << fd % AMPH_IP_SEEN_WORD_BITS;

    if (__atomic_load_n(&amph_ip_stdio.seen[fd / AMPH_IP_SEEN_WORD_BITS], __ATOMIC_RELAXED) & bit)
        return;

    __atomic_fetch_or(&amph_ip_stdio.seen[fd / AMPH_IP_SEEN_WORD_BITS], bit, __ATOMIC_RELEASE);
    for (int end = amph_ip_stdio.seen_end; end <= fd;)
        if (__atomic_compare_exchange_n(&amph_ip_stdio.seen_end, &end, fd + 1, false,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            break;
}

FILE *amph_ip_note_stream(FILE *f)
{
    if (f)
        record_fd(f->_fileno);

    return f;
}

static bool was_seen(int fd)
{
    if (fd >= AMPH_IP_SEEN_FDS)
        return __atomic_load_n(&amph_ip_stdio.seen_beyond, __ATOMIC_RELAXED);

    uint64_t word = __atomic_load_n(&amph_ip_stdio.seen[fd / AMPH_IP_SEEN_WORD_BITS],
                                    __ATOMIC_ACQUIRE);

    return word >> fd % AMPH_IP_SEEN_WORD_BITS & 1;
}

void amph_ip_foreign_each_fd(void (*fn)(int fd))
{
    for (int fd = 0; fd < __atomic_load_n(&amph_ip_stdio.seen_end, __ATOMIC_ACQUIRE); fd++)
        if (was_seen(fd))
            fn(fd);
}

static bool contains(FILE *const *list, size_t n, const FILE *f)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == f)
            return true;

    return false;
}

/* Finds the standard streams without the lock of the list, which a thread inside fflush(NULL) may
 * hold for long. */
static size_t find_standard(int fd, FILE **found, size_t max)
{
    FILE *const standard[] = {
        &amph_ip_std_in.file, &amph_ip_std_out.file, &amph_ip_std_err.file, stdin, stdout, stderr
    };
    size_t n = 0;

    for (size_t i = 0; i < AMPH_COUNTOF(standard) && n < max; i++)
        if (standard[i] && standard[i]->_fileno == fd && !contains(found, n, standard[i]))
            found[n++] = standard[i];

    return n;
}

size_t amph_ip_foreign_find(int fd, FILE **found, size_t max)
{
    size_t n = fd <= 2 ? find_standard(fd, found, max) : 0;

    if (AMPH_LIKELY(!was_seen(fd)))
        return n;

    _IO_list_lock();
    for (void *at = _IO_iter_begin(); at != _IO_iter_end() && n < max; at = _IO_iter_next(at)) {
        FILE *f = _IO_iter_file(at);

        if (f->_fileno == fd && !contains(found, n, f))
            found[n++] = f;
    }

    _IO_list_unlock();
    return n;
}

/* ---- conversion ---- */

static bool is_standard(const FILE *f)
{
    return f == &amph_ip_std_in.file || f == &amph_ip_std_out.file || f == &amph_ip_std_err.file;
}

/* Returns whether f was allocated by fopen, fdopen or tmpfile, judging by where its pointers
 * lead. */
static bool is_opened(const FILE *f)
{
    const struct opened_file *o = (const void *)f;

    return f->_lock == (const void *)&o->lock && f->_wide_data == (const void *)&o->wide;
}

static bool has_file_functions(const FILE *f)
{
    const void *vtable = ((const struct amph_ip_cookie_file *)(const void *)f)->vtable;

    return vtable == _IO_file_jumps || vtable == _IO_wfile_jumps;
}

/* Converts the characters between two positions of a wide buffer, and then len bytes, to bytes. */
static bool to_bytes(const wchar_t *from, const wchar_t *end, const char *rest, size_t len,
                     char **text_p, size_t *text_len_p)
{
    size_t room = (size_t)(end - from) * MB_LEN_MAX + len;
    char *text = room ? malloc(room) : NULL;
    mbstate_t state = { 0 };
    size_t n = 0;

    if (room && !text)
        return false;

    for (; from < end; from++) {
        size_t bytes = wcrtomb(text + n, *from, &state);

        n += bytes == (size_t)-1 ? 0 : bytes;
    }

    if (len)
        memcpy(text + n, rest, len);

    *text_p = text;
    *text_len_p = n + len;
    return true;
}

/* Takes the contents of a wide stream's buffers. */
static bool take_wide_text(FILE *f, char **text_p, size_t *text_len_p)
{
    struct wide_part *wide = (struct wide_part *)(void *)f->_wide_data;
    bool writes = wide->write_ptr > wide->write_base;
    const wchar_t *from = writes ? wide->write_base : wide->read_ptr;
    const wchar_t *end = writes ? wide->write_ptr : wide->read_end;
    size_t unread = !writes && f->_IO_read_end > f->_IO_read_ptr
                        ? (size_t)(f->_IO_read_end - f->_IO_read_ptr)
                        : 0;

    if (!to_bytes(from, end, f->_IO_read_ptr, unread, text_p, text_len_p))
        return false;

    if (!(f->_flags2 & USER_WIDE_BUFFER))
        free(wide->buf_base);

    memset(wide, 0, sizeof *wide);
    f->_IO_read_ptr = f->_IO_read_end = f->_IO_read_base = f->_IO_buf_base;
    f->_IO_write_ptr = f->_IO_write_base = f->_IO_write_end = f->_IO_buf_base;

    return true;
}

/* Moves the lock, which this thread holds, to make room for the cookie. */
static void move_lock(FILE *f)
{
    struct opened_file *o = (struct opened_file *)(void *)f;
    struct file_lock *to = (struct file_lock *)(void *)((struct amph_ip_cookie_file *)(void *)f +
                                                        1);

    *to = o->lock;
    f->_lock = (void *)to;
}

bool amph_ip_foreign_convert(FILE *f, const FILE *model, const void *model_cookie, void *cookie,
                             char **text_p, size_t *text_len_p)
{
    const struct amph_ip_cookie_file *from = (const void *)model;
    struct amph_ip_cookie_file *to = (struct amph_ip_cookie_file *)(void *)f;
    bool standard = is_standard(f);
    bool locked = ftrylockfile(f) == 0;

    *text_p = NULL;
    *text_len_p = 0;

    if (from->cookie != model_cookie || !has_file_functions(f) ||
        !(standard || (locked && is_opened(f))) ||
        (f->_mode > 0 && !take_wide_text(f, text_p, text_len_p))) {
        if (locked)
            funlockfile(f);

        return false;
    }

    if (!standard)
        move_lock(f);

    /* another thread that waits for f finds either the old state or the new one */
    to->functions = from->functions;
    to->cookie = cookie;
    __atomic_store_n(&to->vtable, from->vtable, __ATOMIC_RELEASE);
    __atomic_store_n(&f->_fileno, model->_fileno, __ATOMIC_RELEASE);
    f->_offset = -1;
    f->_mode = -1;
    if (locked)
        funlockfile(f);

    return true;
}

void amph_ip_foreign_restore(FILE *f)
{
    ((struct amph_ip_cookie_file *)(void *)f)->vtable = _IO_file_jumps;
}
