/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the quick start has in place of the C library: system calls and a few functions of memory and text.
 *
 * Layer: launcher.  Thread rule: one thread.
 *
 * x86-64 only; configure builds the quick start for no other machine.  A call returns the kernel's
 * value: a negated errno value on failure.
 */
#ifndef AMPH_LAUNCHER_QUICK_KERNEL_H
#define AMPH_LAUNCHER_QUICK_KERNEL_H

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static inline long amph_quick_call5(long number, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

static inline long amph_quick_call(long number, long a, long b, long c, long d)
{
    return amph_quick_call5(number, a, b, c, d, 0);
}

/* Opens for reading; `more` flags beside those that every file gets: no program inherits it, and a
 * FIFO's writer is not waited for. */
static inline int amph_quick_open(int dir, const char *path, int more)
{
    return (int)amph_quick_call(SYS_openat, dir, (long)path,
                                O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | more, 0);
}

/* Opens only the name, and only if no part of it is a link. */
static inline int amph_quick_open_linkless(const char *path, int more)
{
    const struct open_how how = { .flags = (unsigned long)(O_PATH | O_CLOEXEC | more),
                                  .resolve = RESOLVE_NO_SYMLINKS };

    return (int)amph_quick_call(SYS_openat2, AT_FDCWD, (long)path, (long)&how, sizeof how);
}

static inline void amph_quick_close(int fd)
{
    (void)amph_quick_call(SYS_close, fd, 0, 0, 0);
}

static inline long amph_quick_pread(int fd, void *buf, size_t len, long at)
{
    return amph_quick_call(SYS_pread64, fd, (long)buf, (long)len, at);
}

static inline long amph_quick_readlink(const char *path, char *buf, size_t len)
{
    return amph_quick_call(SYS_readlink, (long)path, (long)buf, (long)len, 0);
}

static inline bool amph_quick_stat(int fd, struct statx *st)
{
    return amph_quick_call5(SYS_statx, fd, (long)"", AT_EMPTY_PATH, STATX_BASIC_STATS, (long)st) ==
           0;
}

/* ---- memory ---- */

/* The compiler may call memcpy and memset where a structure is copied or cleared.  Each file gets its own,
 * so that they are no global names. */
static void *amph_quick_copy(void *to, const void *from, size_t len) __asm__("memcpy");
static void *amph_quick_fill(void *at, int byte, size_t len) __asm__("memset");

__attribute__((used)) static void *amph_quick_copy(void *to, const void *from, size_t len)
{
    void *end = to;

    __asm__ volatile("rep movsb" : "+D"(end), "+S"(from), "+c"(len) : : "memory");
    return to;
}

__attribute__((used)) static void *amph_quick_fill(void *at, int byte, size_t len)
{
    void *end = at;

    __asm__ volatile("rep stosb" : "+D"(end), "+c"(len) : "a"(byte) : "memory");
    return at;
}

/* ---- text ---- */

static inline size_t amph_quick_len(const char *text)
{
    size_t n = 0;

    while (text[n])
        n++;

    return n;
}

/* The length of the part before the first of `ends`, or of the whole text. */
static inline size_t amph_quick_span(const char *text, char end, char other)
{
    size_t n = 0;

    while (text[n] && text[n] != end && text[n] != other)
        n++;

    return n;
}

static inline bool amph_quick_same(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (a[i] != b[i])
            return false;

    return true;
}

static inline bool amph_quick_equal(const char *a, const char *b)
{
    size_t len = amph_quick_len(a);

    return amph_quick_same(a, b, len + 1);
}

static inline bool amph_quick_begins(const char *text, const char *with)
{
    while (*with && *text == *with)
        text++, with++;

    return !*with;
}

/* The part behind the last slash, or the whole text. */
static inline const char *amph_quick_base(const char *path)
{
    const char *base = path;

    for (; *path; path++)
        if (*path == '/')
            base = path + 1;

    return base;
}

/* Is it an absolute path without empty components, "." and ".."?  Then it is the one that the kernel has for the file,
 * if no part of it is a link. */
static inline bool amph_quick_is_clean(const char *path)
{
    while (*path == '/') {
        const char *part = ++path;
        size_t len = amph_quick_span(part, '/', '/');

        if (!*part)
            return true;
        if (len == 0 || (part[0] == '.' && (len == 1 || (len == 2 && part[1] == '.'))))
            return false;

        path = part + len;
        if (!*path)
            return true;
    }

    return false;
}

/* A text that is put together in a buffer of fixed size. */
struct amph_quick_text {
    char *buf;
    size_t len, cap;
    bool cut; /* something did not fit */
};

static inline void amph_quick_add_part(struct amph_quick_text *t, const char *part, size_t len)
{
    if (t->cut || len >= t->cap - t->len) {
        t->cut = true;
        return;
    }

    for (size_t i = 0; i < len; i++)
        t->buf[t->len++] = part[i];

    t->buf[t->len] = 0;
}

static inline void amph_quick_add(struct amph_quick_text *t, const char *part)
{
    amph_quick_add_part(t, part, amph_quick_len(part));
}

static inline void amph_quick_add_number(struct amph_quick_text *t, unsigned long number)
{
    char digits[24];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + number % 10);
    while ((number /= 10) != 0);

    amph_quick_add_part(t, digits + at, sizeof digits - at);
}

#endif
