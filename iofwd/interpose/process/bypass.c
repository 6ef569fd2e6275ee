/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Warns of programs that bypass the interposer; see bypass.h.
 *
 * Layer: iofwd (interposer).
 *
 * A program is reported once, however many processes start it.  The first process that forwards, the
 * ancestor of the others, keeps the list of what has been reported in a memfd that no program
 * inherits; the others open it below /proc when they have something to report.  A process that cannot
 * reach the list reports again.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/interpose/process/bypass.h"

#include "base/program/program_image.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/settings.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/own_table.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/trace/format.h"
#include "iofwd/interpose/process/die.h"
#include "iofwd/interpose/process/state.h"

enum {
    LIST_FD = 64,     /* the list's descriptor lies at or above this number */
    LOST_LIBRARY = 2, /* a fact of the list about no file; those about files are odd */
    LOG_ERROR = 1     /* the index of AMPHORA_LOG's word "error" */
};

/* An entry of the list. */
struct reported {
    uint64_t dev, ino;
    uint64_t about;   /* 0: it bypasses the interposer; else see amph_ip_bypass_known */
    int64_t reporter; /* a thread's number */
};

/* ---- looking at files ---- */

static int open_file(const char *path)
{
    return libc_open64(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
}

static const struct amph_image_calls *calls(struct amph_image_calls *c)
{
    /* Not a table, which the dynamic linker would have to fill in at each start. */
    *c = (struct amph_image_calls){ .open = open_file,
                                    .close = libc_close,
                                    .fstat = libc_fstat64,
                                    .fstatvfs = libc_fstatvfs64,
                                    .fgetxattr = libc_fgetxattr,
                                    .pread = libc_pread64 };
    return c;
}

/* ---- the list ---- */

/* Makes the list, which lives as long as this process. */
static void make_list(void)
{
    struct stat st;
    int low = libc_memfd_create("iofwd-reported", MFD_CLOEXEC);
    int fd = low < 0 ? -1 : libc_fcntl64(low, F_DUPFD_CLOEXEC, (void *)(long)LIST_FD);

    if (low >= 0)
        libc_close(low);

    if (fd < 0 || libc_fstat64(fd, &st) != 0)
        return;

    amph_fdtab_mark(fd, FDTAB_OWN);
    amph_ip_state.rank_guarded = true;
    snprintf(amph_ip_process.bypass.list, sizeof amph_ip_process.bypass.list,
             AMPH_PRIVATE_REPORTED "=%d:%d:%llu", (int)amph_ip_kernel_getpid(), fd,
             (unsigned long long)st.st_ino);
}

static int open_list(void)
{
    const char *text = strchr(amph_ip_process.bypass.list, '=');
    int pid, fd;
    unsigned long long ino;
    char path[64];
    struct stat st;

    if (!text || sscanf(text + 1, "%d:%d:%llu", &pid, &fd, &ino) != 3)
        return -1;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);

    int list = libc_open64(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0);

    if (list >= 0 && (libc_fstat64(list, &st) != 0 || st.st_ino != ino)) {
        libc_close(list);
        return -1;
    }

    return list;
}

/* The thread that has reported this file first; 0: none. */
static int64_t first_reporter(int list, const struct reported *r)
{
    struct reported entry[64];
    off_t at = 0;
    ssize_t n;

    while ((n = libc_pread64(list, entry, sizeof entry, at)) >= (ssize_t)sizeof *entry) {
        for (size_t i = 0; i < (size_t)n / sizeof *entry; i++)
            if (entry[i].dev == r->dev && entry[i].ino == r->ino && entry[i].about == r->about)
                return entry[i].reporter;

        at += n;
    }

    return 0;
}

/* Is this the first report of this fact?  Of processes that ask at one time one gets yes: the order
 * of the entries decides. */
static bool is_first(struct reported r)
{
    int list = open_list();

    if (list < 0)
        return true;

    bool first = first_reporter(list, &r) == 0;

    if (first && libc_write(list, &r, sizeof r) == (ssize_t)sizeof r)
        first = first_reporter(list, &r) == r.reporter;

    libc_close(list);
    return first;
}

bool amph_ip_bypass_known(dev_t dev, ino_t ino, uint64_t about)
{
    int list = open_list();
    bool known = list >= 0 && first_reporter(list, &(struct reported){ dev, ino, about, 0 }) != 0;

    if (list >= 0)
        libc_close(list);

    return known;
}

void amph_ip_bypass_note(dev_t dev, ino_t ino, uint64_t about)
{
    struct reported r = { dev, ino, about, gettid() };
    int list = open_list();

    if (list < 0)
        return;

    (void)!libc_write(list, &r, sizeof r);
    libc_close(list);
}

/* ---- saying it ---- */

static void say(const struct amph_image *image)
{
    char line[2048];
    int n = snprintf(line, sizeof line, "amphora: %s",
                     amph_ip_process.bypass.strict ? "" : "warning: ");
    size_t len = (size_t)n;

    len += amph_image_explain(image, line + len, sizeof line - len - 64);
    if (amph_ip_process.bypass.strict)
        len += (size_t)snprintf(line + len, sizeof line - len, " (refused by %s)",
                                amph_ip_setting_name(AMPH_ENV_IOFWD_STRICT));

    line[len++] = '\n';
    amph_ip_put_error(line, len);
}

/* What a static program starts needs the preload library, which may be missing on this host. */
static void say_lost(const struct amph_image *image)
{
    char line[2048];
    const char *refused = amph_ip_process.bypass.strict ? " (refused by IOFWD_STRICT)" : "";
    int n = snprintf(line, sizeof line,
                     "amphora: %sthe preload library is not at %s, so the file calls of programs "
                     "that this static one starts, such as %.900s, are forwarded only if iofwd-cc "
                     "has linked them; install amphora there, or name the library's file in "
                     "LD_PRELOAD%s\n",
                     amph_ip_process.bypass.strict ? "" : "warning: ", AMPH_IP_LIBRARY_INSTALLED,
                     image->path, refused);

    amph_ip_put_error(line, (size_t)n);
}

static int check_image(const struct amph_image *image)
{
    int saved = errno;
    bool evades = amph_image_evades(image);
    bool lost = amph_ip_process.lost_library && image->kind == AMPH_IMAGE_FORWARDS &&
                image->linker[0];
    struct reported r = { .reporter = gettid() };

    if (!evades && !lost)
        return 0;

    if (evades) {
        r.dev = image->dev;
        r.ino = image->ino;
    } else {
        r.about = LOST_LIBRARY; /* once for all programs */
    }

    if (amph_ip_process.bypass.strict || (!amph_ip_process.bypass.quiet && is_first(r)))
        (evades ? say : say_lost)(image);

    errno = saved;
    return amph_ip_process.bypass.strict ? amph_ip_fail(EPERM) : 0;
}

/* ---- the interface ---- */

void amph_ip_bypass_start(char **env)
{
    const char *text = amph_ip_private_text(env, AMPH_IP_PRIVATE_REPORTED);

    amph_ip_process.bypass.strict = amph_ip_setting_bool(env, AMPH_ENV_IOFWD_STRICT);
    amph_ip_process.bypass.quiet = amph_ip_setting_int(env, AMPH_ENV_LOG) == LOG_ERROR;
    if (text && atoi(text) != amph_ip_kernel_getpid())
        snprintf(amph_ip_process.bypass.list, sizeof amph_ip_process.bypass.list,
                 AMPH_PRIVATE_REPORTED "=%.60s", text);
    else
        make_list();
}

const char *amph_ip_bypass_setting(void)
{
    return amph_ip_process.bypass.list;
}

/* Of a path that cannot be read, the kernel reports what is wrong. */
static bool can_look_at(const char *path)
{
    return path && amph_ip_can_read_text(path);
}

int amph_ip_bypass_check(const char *path)
{
    if (!can_look_at(path))
        return 0;

    struct amph_image_calls c;
    struct amph_image image;

    amph_image_look(calls(&c), path, &image);
    return check_image(&image);
}

/* Returns the forwarded path among those that valgrind uses by itself: the values of its options, which
 * come first, and the program.  NULL: none is forwarded. */
static const char *forwarded_argument(char *const argv[])
{
    for (size_t i = 1; argv[0] && argv[i]; i++) {
        bool option = argv[i][0] == '-';
        const char *value = option ? strchr(argv[i], '=') : argv[i];

        if (option && value)
            value++;

        if (value && (option || strchr(value, '/')) && amph_ip_path(value) &&
            amph_ip_is_forwarded(value))
            return value;
        if (!option)
            break;
    }

    return NULL;
}

/* Says that valgrind does not find a forwarded file. */
static void say_unseen(const struct amph_image *image, const char *name)
{
    char line[2048];
    const char *strict = amph_ip_process.bypass.strict ? " (refused by IOFWD_STRICT)" : "";
    int n = snprintf(line, sizeof line,
                     "amphora: %s%.900s looks for its program and its own files by itself, and not "
                     "at the I/O servers, so it does not find %.900s; start it by \"iofwd-run "
                     "-mount\"%s\n",
                     amph_ip_process.bypass.strict ? "" : "warning: ", image->path, name, strict);

    amph_ip_put_error(line, (size_t)n);
}

int amph_ip_bypass_check_arguments(const char *path, char *const argv[])
{
    struct amph_image_calls c;
    struct amph_image image;
    int saved = errno;

    if (!can_look_at(path) || !strstr(path, "/valgrind/") || !amph_ip_can_read_list(argv))
        return 0;

    amph_image_look(calls(&c), path, &image);

    const char *name = amph_image_loads_programs(&image) ? forwarded_argument(argv) : NULL;
    struct reported r = { .dev = image.dev, .ino = image.ino, .reporter = gettid() };

    if (name && (amph_ip_process.bypass.strict || (!amph_ip_process.bypass.quiet && is_first(r))))
        say_unseen(&image, name);

    errno = saved;
    return name && amph_ip_process.bypass.strict ? amph_ip_fail(EPERM) : 0;
}

int amph_ip_bypass_check_file(int fd, const char *path)
{
    struct amph_image_calls c;
    struct amph_image image;
    struct stat st;

    amph_image_look_at(calls(&c), fd, path, &image);

    /* of the file itself: each copy is another file */
    if (amph_image_evades(&image) && amph_do_fstatat(AT_FDCWD, path, &st, 0) == 0) {
        image.dev = st.st_dev;
        image.ino = st.st_ino;
    }

    return check_image(&image);
}

bool amph_ip_bypass_path(int dir, const char *path, char full[PATH_MAX])
{
    if (!can_look_at(path))
        return false;

    bool plain = path[0] == '/' || (dir == AT_FDCWD && path[0]);
    int n;

    if (plain)
        n = snprintf(full, PATH_MAX, "%s", path);
    else
        n = snprintf(full, PATH_MAX, "%s/%d%s%s", amph_ip_table_directory(), dir,
                     path[0] ? "/" : "", path);

    return n < PATH_MAX;
}

int amph_ip_bypass_check_name(const char *file)
{
    char path[PATH_MAX];

    if (strchr(file, '/'))
        return amph_ip_bypass_check(file);

    return amph_ip_find_local(file, path, sizeof path) ? amph_ip_bypass_check(path) : 0;
}

bool amph_ip_bypasses(const char *path)
{
    if (!can_look_at(path))
        return false;

    struct amph_image_calls c;
    struct amph_image image;

    amph_image_look(calls(&c), path, &image);
    return amph_image_evades(&image);
}

bool amph_ip_bypass_look(const char *path, struct amph_image *image_p)
{
    struct amph_image_calls c;

    if (!can_look_at(path))
        return false;

    amph_image_look(calls(&c), path, image_p);
    return image_p->kind == AMPH_IMAGE_FORWARDS && image_p->linker[0];
}

/* Returns whether no process of the run has reported this program yet: the first one makes the note. */
static bool note_unrecorded(const struct amph_image *image, const char *dir, const char *why,
                            size_t len)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%llx.%llx" AMPH_TRACE_UNRECORDED_SUFFIX, dir,
                     (unsigned long long)image->dev, (unsigned long long)image->ino);
    int fd = n < (int)sizeof path
                 ? amph_ip_kernel_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                                         0666)
                 : -1;

    if (fd < 0)
        return errno != EEXIST;

    (void)!libc_write(fd, why, len);
    amph_ip_kernel_close(fd);
    return true;
}

void amph_ip_bypass_record(const char *file, const char *dir)
{
    struct amph_image_calls c;
    struct amph_image image;
    char line[2048] = "amphora: warning: ";
    char path[PATH_MAX];
    int saved = errno;
    bool found = strchr(file, '/') ? snprintf(path, sizeof path, "%s", file) < PATH_MAX
                                   : amph_ip_find_local(file, path, sizeof path);

    if (!found) {
        errno = saved;
        return;
    }

    amph_image_look(calls(&c), path, &image);
    if (amph_image_evades(&image)) {
        size_t start = strlen(line);
        size_t len = start +
                     amph_image_explain_record(&image, line + start, sizeof line - start - 1);

        line[len++] = '\n';
        if (note_unrecorded(&image, dir, line + start, len - start))
            amph_ip_put_error(line, len);
    }

    errno = saved;
}
