/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: mappings.  The descriptor becomes a placeholder that can be read, whose pages are filled
 * with the part of the file that is mapped before the kernel maps them.  So a mapping shows the file as
 * it was at that time, which is enough for private mappings and for those that are only read.  A shared
 * mapping that is written would be lost, and is refused.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define A(i) AMPH_TRAP_ARG(c, i)
#define CL amph_trap.cl

#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 3
#endif

/* Copies a part of the file into memory. */
static int fill(const struct amph_trap_file *file, int memory, off_t off, off_t end)
{
    char *buf = amph_trap_buffer();
    int err = buf ? 0 : ENOMEM;

    while (!err && off < end) {
        size_t want = end - off < (off_t)AMPH_TRAP_BUFFER ? (size_t)(end - off) : AMPH_TRAP_BUFFER;
        size_t n = 0;

        err = amph_fwd_pread(CL, &file->file, off, buf, want, &n);
        if (err || !n)
            break;

        if (pwrite(memory, buf, n, off) != (ssize_t)n)
            err = ENOMEM;

        off += (off_t)n;
    }

    return err;
}

static int stage(const struct amph_trap_file *file, int own_fd, off_t off, size_t len)
{
    char path[40];
    struct stat st;
    int err = amph_fwd_fstat(CL, &file->file, &st);

    if (err)
        return err;

    if (!S_ISREG(st.st_mode))
        return ENODEV;

    snprintf(path, sizeof path, "/proc/self/fd/%d", own_fd);

    int memory = open(path, O_RDWR | O_CLOEXEC);

    if (memory < 0)
        return errno;

    off_t end = st.st_size;

    if (off < end && (off_t)len < end - off)
        end = off + (off_t)len;

    if (ftruncate(memory, st.st_size) != 0)
        err = errno;

    if (!err)
        err = fill(file, memory, off, end);

    close(memory);
    return err;
}

/* Has the descriptor, by the caller's table, close-on-exec? */
static bool is_cloexec(const struct amph_trap_call *c, int fd)
{
    char path[64], line[128];
    unsigned flags = 0;

    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)c->n.pid, fd);

    FILE *f = fopen(path, "re");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "flags: %o", &flags) == 1)
            break;

    if (f)
        fclose(f);

    return flags & O_CLOEXEC;
}

/* Puts a placeholder that can be read in the place of descriptor fd, if it is none yet.  *own_fd_p: a
 * copy of what the descriptor is now. */
static int make_readable(struct amph_trap_call *c, int fd, struct amph_trap_file *file,
                         int *own_fd_p)
{
    int readable;

    if ((fcntl(*own_fd_p, F_GETFL) & O_ACCMODE) == O_RDONLY)
        return 0;

    int err = amph_trap_file_readable(file, &readable);

    if (err)
        return err;

    err = amph_trap_give_fd(c, readable, fd, is_cloexec(c, fd));
    close(*own_fd_p);
    *own_fd_p = readable;
    return err;
}

static void say_refused(struct amph_trap_call *c, const struct amph_trap_file *file)
{
    if (!amph_trap_first_time(c, AMPH_TRAP_SAID_MAPPING))
        return;

    amph_trap_say("%s cannot be mapped for shared writing under -trap: iofwd-run -mount PROGRAM "
                  "makes that possible",
                  file->name && file->name[0] ? file->name : "a forwarded file");
}

int amph_trap_do_mmap(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int own_fd;
    int fd = AMPH_TRAP_INT(c, 4);
    int type = (int)A(3) & 0xf;
    bool shared = type == MAP_SHARED || type == MAP_SHARED_VALIDATE;

    if (A(3) & MAP_ANONYMOUS)
        return AMPH_TRAP_CONTINUE;

    int err = amph_trap_file_of(c, fd, &file, &own_fd);

    if (err || !file)
        return err ? err : AMPH_TRAP_CONTINUE;

    bool writes = shared && (A(2) & PROT_WRITE);
    int access = file->flags & O_ACCMODE;

    if (file->flags & O_PATH) {
        err = EBADF;
    } else if (access == O_WRONLY || (writes && access != O_RDWR)) {
        err = EACCES;
    } else if (writes) {
        say_refused(c, file);
        err = ENODEV;
    } else {
        err = make_readable(c, fd, file, &own_fd);
        if (!err)
            err = stage(file, own_fd, (off_t)A(5), A(1));
    }

    close(own_fd);
    amph_trap_file_put(file);
    return err ? err : AMPH_TRAP_CONTINUE;
}
