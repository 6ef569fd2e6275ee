/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams on forwarded descriptors.  They are FILE objects of fopencookie, so that everything that
 * takes a FILE works on them.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's streams; our list of streams has a
 * lock of its own.
 *
 * A stream outlives destructors and atexit handlers: the C library flushes it last of all, and
 * forwarding works until _exit.
 */
#include "iofwd/interpose/stdio/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/stdio/abort_text.h"
#include "iofwd/interpose/stdio/foreign_file.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/fd/poll.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/process/state.h"
#include "iofwd/interpose/stdio/state.h"

/* Bits of FILE._flags in every glibc: no buffer, which direction is closed, whether the list of all
 * streams has it, and appending. */
#define UNBUFFERED 0x0002
#define NO_READS 0x0004
#define NO_WRITES 0x0008
#define LINKED 0x0080
#define APPENDING 0x1000

/*
 * Sizes of a stream's buffer.  It is large because each read is a round trip.  To keep small reads at
 * random offsets cheap, a read after a seek gets FIRST bytes, and the size doubles while reads are
 * consecutive.
 */
#define BUFFER ((size_t)128 << 10)
#define FIRST ((size_t)8 << 10)

struct amph_ip_stream {
    struct amph_ip_stream *next;
    FILE *file;
    int fd;
    int orientation; /* as fwide gives it; 0: see amph_ip_stream_orient */
    bool used;       /* it has been read or written since it was opened */
    bool jumped;     /* the offset was changed since the last read */
    bool converted;  /* `file` was made by the C library: foreign_file.c */
    char *buffer;    /* BUFFER bytes or NULL; `file` uses it unless the program set another */
    off_t at;        /* offset after the last read */
    mbstate_t reading, writing;      /* of the wide functions */
    struct amph_ip_charset *charset; /* instead of these, if the mode had ",ccs=" */
};

static struct amph_ip_stream **bucket(const FILE *f)
{
    uintptr_t hash = ((uintptr_t)f >> 4) * 2654435761U >> 8;

    return &amph_ip_stdio.streams[hash % AMPH_IP_STREAM_BUCKETS];
}

void amph_ip_stream_fork_lock(bool take)
{
    if (take)
        pthread_mutex_lock(&amph_ip_stdio.changing);
    else
        pthread_mutex_unlock(&amph_ip_stdio.changing);
}

/* In the child: whoever was looking at the list is not there, or is this thread, which goes on when its handler
 * returns.  Giving back a lock that is free has no effect in glibc. */
void amph_ip_stream_forked(void)
{
    amph_ip_stdio.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Takes both locks, to change the list. */
static void begin_change(sigset_t *before)
{
    amph_ip_process_lock(&amph_ip_stdio.lock, before);
    pthread_mutex_lock(&amph_ip_stdio.changing);
}

static void end_change(const sigset_t *before)
{
    pthread_mutex_unlock(&amph_ip_stdio.changing);
    amph_ip_process_unlock(&amph_ip_stdio.lock, before);
}

static struct amph_ip_stream *find(FILE *f)
{
    pthread_mutex_lock(&amph_ip_stdio.lock);

    struct amph_ip_stream *s = *bucket(f);

    while (s && s->file != f)
        s = s->next;

    pthread_mutex_unlock(&amph_ip_stdio.lock);
    return s;
}

bool amph_ip_stream_known(FILE *f)
{
    return find(f) != NULL;
}

bool amph_ip_stream_any_pending(void)
{
    sigset_t before;
    bool pending = false;

    amph_ip_process_lock(&amph_ip_stdio.lock, &before);
    for (size_t i = 0; i < AMPH_IP_STREAM_BUCKETS; i++)
        for (const struct amph_ip_stream *s = amph_ip_stdio.streams[i]; s && !pending; s = s->next)
            pending = s->file->_mode > 0 || s->file->_IO_read_end > s->file->_IO_read_ptr ||
                      s->file->_IO_write_ptr > s->file->_IO_write_base;

    amph_ip_process_unlock(&amph_ip_stdio.lock, &before);
    return pending;
}

static void forget(struct amph_ip_stream *s)
{
    sigset_t before;

    begin_change(&before);
    for (struct amph_ip_stream **at = bucket(s->file); *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }

    end_change(&before);
}

/* ---- calls on a stream's descriptor, with a trace of their own; a stream may have been led to a local
 * file by freopen ---- */

static ssize_t read_fd(int fd, char *buf, size_t len)
{
    const uint64_t arg[] = { (uint64_t)fd, (uintptr_t)buf, len };
    struct amph_ip_trace_frame frame;
    bool traced = amph_ip_trace_begin_caused(&frame, AMPH_IP_NAME_read, arg);
    ssize_t n = amph_ip_fd(fd) ? amph_do_read(fd, buf, len) : libc_read(fd, buf, len);

    if (traced)
        amph_ip_trace_end(&frame, n);

    return n;
}

static ssize_t write_fd(int fd, const char *buf, size_t len)
{
    const uint64_t arg[] = { (uint64_t)fd, (uintptr_t)buf, len };
    struct amph_ip_trace_frame frame;
    bool traced = amph_ip_trace_begin_caused(&frame, AMPH_IP_NAME_write, arg);
    ssize_t n = amph_ip_fd(fd) ? amph_do_write(fd, buf, len) : libc_write(fd, buf, len);

    if (traced)
        amph_ip_trace_end(&frame, n);

    return n;
}

static off_t seek_fd(int fd, off_t at, int whence)
{
    const uint64_t arg[] = { (uint64_t)fd, (uint64_t)at, (uint64_t)whence };
    struct amph_ip_trace_frame frame;
    bool traced = amph_ip_trace_begin_caused(&frame, AMPH_IP_NAME_lseek, arg);
    off_t now = amph_ip_fd(fd) ? amph_do_lseek(fd, at, whence) : libc_lseek64(fd, at, whence);

    if (traced)
        amph_ip_trace_end(&frame, now);

    return now;
}

static int close_fd(int fd)
{
    const uint64_t arg[] = { (uint64_t)fd };
    struct amph_ip_trace_frame frame;
    bool traced = amph_ip_trace_begin_caused(&frame, AMPH_IP_NAME_close, arg);
    int result = amph_do_close(fd);

    if (traced)
        amph_ip_trace_end(&frame, result);

    return result;
}

/* ---- what the C library calls ----
 *
 * As the C library's own, they leave errno alone when they succeed. */

/* Fills the C library's empty buffer, and sets its size for the next time: the C library fills as much
 * as the buffer has room for. */
static ssize_t fill(struct amph_ip_stream *s, size_t len)
{
    FILE *f = s->file;
    size_t max = s->jumped ? FIRST : BUFFER;
    size_t ask = len < max ? len : max;
    ssize_t n = read_fd(s->fd, s->buffer, ask);
    size_t room = len;

    if (s->jumped)
        room = FIRST;
    else if (n == (ssize_t)ask && ask < BUFFER)
        room = 2 * ask;

    f->_IO_buf_end = s->buffer + room;
    return n;
}

static ssize_t cookie_read(void *cookie, char *buf, size_t len)
{
    struct amph_ip_stream *s = cookie;
    int before = errno;
    ssize_t n = s->buffer && buf == s->buffer && s->file->_IO_buf_base == buf && len <= BUFFER
                    ? fill(s, len)
                    : read_fd(s->fd, buf, len);

    if (n >= 0)
        errno = before;

    s->used = true;
    s->jumped = false;
    s->at = s->at < 0 || n < 0 ? -1 : s->at + n;

    return n;
}

static ssize_t cookie_write(void *cookie, const char *buf, size_t len)
{
    FILE *f = ((struct amph_ip_stream *)cookie)->file;
    int fd = ((struct amph_ip_stream *)cookie)->fd;
    int before = errno;
    size_t done = 0;

    ((struct amph_ip_stream *)cookie)->used = true;
    ((struct amph_ip_stream *)cookie)->at = -1;

    while (done < len) {
        ssize_t n = write_fd(fd, buf + done, len - done);

        if (n <= 0)
            break;

        done += (size_t)n;
    }

    if (done == len)
        errno = before;

    /* the C library counts what it reads, but not what a cookie writes, and would seek back by
     * that */
    if (f->_offset >= 0)
        f->_offset += (off_t)done;

    return (ssize_t)done;
}

static int cookie_seek(void *cookie, off_t *at, int whence)
{
    struct amph_ip_stream *s = cookie;
    int before = errno;
    off_t now = seek_fd(s->fd, *at, whence);

    if (now < 0)
        return -1;

    s->jumped = s->jumped || now != s->at;
    s->at = now;
    *at = now;
    errno = before;

    return 0;
}

/* The cookie of a FILE that only shows how one of ours is made. */
static const struct amph_ip_stream model;

static int cookie_close(void *cookie)
{
    struct amph_ip_stream *s = cookie;
    int before = errno;
    int fd = s->fd;

    if (s == &model)
        return 0;

    if (s->converted)
        amph_ip_foreign_restore(s->file);

    forget(s);
    amph_ip_charset_close(s->charset);
    free(s->buffer); /* the C library no longer uses it */
    free(s);

    int result = close_fd(fd);

    if (result == 0)
        errno = before;

    return result;
}

/* Gives the stream a buffer, also in place of one that the program has provided: after freopen that
 * may be used otherwise. */
static void give_buffer(struct amph_ip_stream *s, bool reads)
{
    /* writes to a FIFO must arrive in one piece */
    size_t len = amph_ip_waits(s->fd) ? PIPE_BUF : BUFFER;

    s->at = -1;
    if (!s->buffer && !(s->buffer = malloc(BUFFER)))
        return;

    setvbuf(s->file, s->buffer, _IOFBF, len);
    if (reads && len > FIRST)
        s->file->_IO_buf_end = s->buffer + FIRST;
}

static const cookie_io_functions_t calls = { cookie_read, cookie_write, cookie_seek, cookie_close };

static void remember(struct amph_ip_stream *s)
{
    sigset_t before;

    begin_change(&before);
    s->next = *bucket(s->file);
    *bucket(s->file) = s;
    end_change(&before);
}

static FILE *new_stream(int fd, const char *mode)
{
    /* only r, w, a and + concern the C library */
    const char plain[3] = { mode[0], strchr(mode, '+') ? '+' : 0, 0 };
    struct amph_ip_stream *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;

    s->fd = fd;
    s->file = fopencookie(s, plain, calls);

    if (!s->file) {
        free(s);
        return NULL;
    }

    remember(s);
    give_buffer(s, plain[0] == 'r');
    return s->file;
}

int amph_ip_mode_flags(const char *mode)
{
    int flags = 0;

    if (mode[0] == 'w')
        flags = O_CREAT | O_TRUNC;
    else if (mode[0] == 'a')
        flags = O_CREAT | O_APPEND;
    else if (mode[0] != 'r')
        return amph_ip_fail(EINVAL);

    if (strchr(mode, '+'))
        flags |= O_RDWR;
    else
        flags |= mode[0] == 'r' ? O_RDONLY : O_WRONLY;

    for (const char *at = mode + 1; *at && *at != ','; at++) {
        if (*at == 'x')
            flags |= O_EXCL;
        else if (*at == 'e')
            flags |= O_CLOEXEC;
    }

    return flags;
}

static FILE *stream_on(int fd, const char *mode)
{
    /* a file outside of the prefixes is local, and fdopen knows no character sets */
    FILE *f = amph_ip_fd(fd) || strstr(mode, ",ccs=") ? new_stream(fd, mode)
                                                      : amph_ip_note_stream(libc_fdopen(fd, mode));

    if (!f) {
        int err = errno;

        amph_do_close(fd);
        errno = err;
        return NULL;
    }

    int saved = errno;

    if (mode[0] == 'a' && !strchr(mode, '+')) /* as fopen does, and fdopen does not */
        seek_fd(fd, 0, SEEK_END);

    errno = saved; /* a FIFO has no offset */
    return f;
}

FILE *amph_do_fopen(const char *path, const char *mode)
{
    struct amph_ip_charset *charset = NULL;
    int flags = amph_ip_mode_flags(mode);
    int fd = flags < 0 ? -1 : amph_do_openat(AT_FDCWD, path, flags, 0666);
    FILE *f = fd < 0 ? NULL : stream_on(fd, mode);
    struct amph_ip_stream *s = f ? find(f) : NULL;

    if (s && !amph_ip_charset_open(mode, &charset)) {
        fclose(f);
        errno = EINVAL;
        return NULL;
    }

    if (charset) {
        s->charset = charset;
        s->orientation = 1;
    }

    return f;
}

FILE *amph_do_fdopen(int fd, const char *mode)
{
    int wanted = amph_ip_mode_flags(mode);
    int have = wanted < 0 ? -1 : amph_do_fcntl(fd, F_GETFL, NULL);

    if (have < 0)
        return NULL;

    int access = have & O_ACCMODE;

    if (access != O_RDWR && access != (wanted & O_ACCMODE)) {
        errno = EINVAL;
        return NULL;
    }

    if ((wanted & O_APPEND) && !(have & O_APPEND) &&
        amph_do_fcntl(fd, F_SETFL, (void *)(long)(have | O_APPEND)) != 0)
        return NULL;

    /* the descriptor keeps its close-on-exec flag, even if the mode has an "e" */
    return new_stream(fd, mode);
}

int amph_do_fileno(FILE *f)
{
    struct amph_ip_stream *s = find(f);
    return s ? s->fd : amph_ip_fail(EBADF);
}

mbstate_t *amph_ip_stream_state(FILE *f, bool writing)
{
    struct amph_ip_stream *s = find(f);

    if (!s)
        return &amph_ip_stdio.no_conversion;

    return writing ? &s->writing : &s->reading;
}

struct amph_ip_charset *amph_ip_stream_charset(FILE *f)
{
    struct amph_ip_stream *s = find(f);
    return s ? s->charset : NULL;
}

/* Returns the orientation as fwide does.  The C library reports every cookie stream as byte-oriented;
 * here a stream is byte-oriented only after it was used by a byte function. */
int amph_ip_stream_orient(FILE *f, int mode)
{
    struct amph_ip_stream *s = find(f);

    if (!s)
        return -1;

    if (!s->orientation && (s->used || f->_IO_write_ptr > f->_IO_write_base))
        s->orientation = -1;

    if (!s->orientation)
        s->orientation = (mode > 0) - (mode < 0);

    return s->orientation;
}

/* ---- streams of the C library's ---- */

/* Moves what a wide stream had in its buffers to the byte buffers. */
static void put_text(FILE *f, bool writes, const char *text, size_t len)
{
    if (writes) {
        fwrite(text, 1, len, f);
        return;
    }

    while (len)
        ungetc((unsigned char)text[--len], f);
}

/* Returns whether f has no buffer yet and will need one. */
static bool has_no_buffer(const FILE *f)
{
    return !f->_IO_buf_base && !(f->_flags & UNBUFFERED) && !__flbf((FILE *)f);
}

/* Converts f, a stream of the C library with descriptor fd, to one of ours in place, with what is
 * in its buffers.  Bytes that wait there are written to what fd refers to at that time; bytes that
 * were read ahead are returned before the file's. */
static bool take(FILE *f, int fd)
{
    struct amph_ip_stream *s = calloc(1, sizeof *s);
    FILE *shape = s ? amph_ip_plain_fopencookie((void *)&model, "r+", calls) : NULL;
    bool writes = !(f->_flags & NO_WRITES);
    int orientation = f->_mode;
    char *text = NULL;
    size_t len = 0;

    if (!shape) {
        free(s);
        return false;
    }

    s->fd = fd;
    s->file = f;
    s->at = -1;
    s->orientation = (orientation > 0) - (orientation < 0);
    s->converted = true;
    remember(s);

    bool converted = amph_ip_foreign_convert(f, shape, &model, s, &text, &len);

    fclose(shape);
    if (!converted) {
        forget(s);
        free(s);
        return false;
    }

    if (amph_ip_stdio.may_ask && has_no_buffer(f))
        give_buffer(s, !writes);

    put_text(f, writes, text, len);
    free(text);
    return true;
}

/* ---- freopen ---- */

/* Gives the open file of fd the number of the stream.  fd may have that number already, if the
 * program closed it below the stream. */
static int lead(int fd, int to, int flags)
{
    if (fd == to)
        return 0;

    int r = amph_do_dup3(fd, to, flags & O_CLOEXEC);
    int err = errno;

    amph_do_close(fd);
    errno = err;
    return r;
}

extern void _IO_link_in(FILE *f); /* into glibc's list of all streams */

/* The bits of FILE._flags of a stream that is opened with these flags. */
static int stream_flags(int flags)
{
    int bits = flags & O_APPEND ? APPENDING : 0;

    if ((flags & O_ACCMODE) == O_RDONLY)
        bits |= NO_WRITES;
    else if ((flags & O_ACCMODE) == O_WRONLY)
        bits |= NO_READS;

    return bits;
}

/* Reopens one of our streams on another file; it keeps its identity and its descriptor's number. */
static FILE *reopen_ours(const char *path, const char *mode, FILE *f)
{
    struct amph_ip_stream *s = find(f);
    int flags = amph_ip_mode_flags(mode);
    int fd = -1;

    fflush(f);
    if (flags >= 0 && path)
        fd = amph_do_openat(AT_FDCWD, path, flags, 0666);

    if (s->fd < 0)
        s->fd = fd; /* f's descriptor was closed before */

    if (flags < 0 || (path && (fd < 0 || lead(fd, s->fd, flags) < 0))) {
        int err = errno;

        fclose(f);
        errno = err;
        return NULL;
    }

    if (!(f->_flags & LINKED))
        _IO_link_in(f);

    if (!path && amph_ip_fd(s->fd)) {
        amph_do_fcntl(s->fd, F_SETFL, (void *)(long)(flags & O_APPEND));
        if (flags & O_TRUNC)
            amph_do_ftruncate(s->fd, 0);

        amph_do_lseek(s->fd, 0, flags & O_APPEND ? SEEK_END : SEEK_SET);
    }

    __fpurge(f);
    clearerr(f);
    amph_ip_charset_close(s->charset);
    s->charset = NULL;
    s->orientation = 0;
    s->used = false;
    give_buffer(s, (flags & O_ACCMODE) == O_RDONLY);

    f->_flags = (f->_flags & ~(NO_READS | NO_WRITES | APPENDING)) | stream_flags(flags);
    return f;
}

/* Reopens a stream that has no room to become ours: closes it and returns another one with its
 * number. */
static FILE *reopen_elsewhere(const char *path, const char *mode, FILE *f)
{
    int held = libc_fileno(f);
    int flags = amph_ip_mode_flags(mode);
    int fd = flags < 0 ? -1 : amph_do_openat(AT_FDCWD, path, flags, 0666);
    int err = errno;

    fflush(f);
    if (fd >= 0 && held >= 0) {
        /* closing f must neither close the number nor reuse it */
        f->_fileno = fd == held ? -1 : libc_fcntl64(held, F_DUPFD_CLOEXEC, 0);
        fd = lead(fd, held, flags) < 0 ? -1 : held;
        err = errno;
    }

    fclose(f);
    if (fd < 0) {
        errno = err;
        return NULL;
    }

    return stream_on(fd, mode);
}

/* Converts a stream of the C library to one of ours first. */
static FILE *reopen_foreign(const char *path, const char *mode, FILE *f)
{
    int held = f->_fileno;

    fflush(f);
    return take(f, held) ? reopen_ours(path, mode, f) : reopen_elsewhere(path, mode, f);
}

FILE *amph_do_freopen(const char *path, const char *mode, FILE *f)
{
    struct amph_ip_charset *unused;

    if (!amph_ip_charset_open(mode, &unused)) {
        fclose(f);
        errno = EINVAL;
        return NULL;
    }

    amph_ip_charset_close(unused); /* glibc's freopen knows the character set and does not use it */
    amph_ip_links++; /* the C library would have closed f if the kernel does not find the path */

    FILE *again = amph_ip_file(f) ? reopen_ours(path, mode, f) : reopen_foreign(path, mode, f);

    amph_ip_links--;
    return again;
}

void amph_ip_stream_enlarge(void)
{
    amph_ip_stdio.may_ask = true;
    for (int fd = 0; fd < 3; fd++) {
        FILE *f = &amph_ip_std_file(fd)->file;
        struct amph_ip_stream *s = amph_ip_file(f) ? find(f) : NULL;

        if (s && has_no_buffer(f))
            give_buffer(s, f->_flags & NO_WRITES);
    }
}

void amph_ip_stream_landed(int fd)
{
    FILE *found[8];
    int saved = errno;
    size_t n = amph_ip_foreign_find(fd, found, AMPH_COUNTOF(found));

    for (size_t i = 0; i < n; i++)
        if (!take(found[i], fd))
            amph_ip_lost_watch();

    if (fd == STDERR_FILENO)
        amph_ip_abort_watch();

    errno = saved;
}

static void look_below(int fd)
{
    if (amph_ip_fd(fd))
        amph_ip_stream_landed(fd);
}

void amph_ip_stream_start(void)
{
    amph_ip_std_complete();
    for (int fd = 0; fd < 3; fd++)
        look_below(fd);

    amph_ip_foreign_each_fd(look_below);
}
