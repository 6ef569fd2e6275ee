/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open files and modes of new files as client, server and wire format share them.
 *
 * Layer: iofwd.  Thread rule: plain values.
 */
#ifndef AMPH_IOFWD_FILE_H
#define AMPH_IOFWD_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* One open file at one server.  handle: a random-looking number, never 0; any client of the job may
 * use it. */
struct amph_fwd_ref {
    uint32_t server; /* absolute number */
    uint64_t handle;
};

#define AMPH_FWD_PARTS_MAX 8

/* An open file as a client sees it: one (server, handle) pair for each server that the file is
 * spread over.  The first server is home of offset, size, O_APPEND and locks.  A plain value: copy
 * it freely. */
struct amph_fwd_file {
    uint32_t nparts; /* 0: no file */
    uint32_t rwf;    /* RWF_* of preadv2 and pwritev2; set only in a copy made for one call */
    /* size of the stripes of a file of several parts; 0: each large call is cut into equal parts */
    uint32_t unit_kib;
    struct amph_fwd_ref part[AMPH_FWD_PARTS_MAX];
};

/*
 * The flags of preadv2 and pwritev2, which have the same numbers on every Linux: who does what each asks
 * for.  SERVER: the kernel of the server, whose file systems differ in what they support; it refuses
 * the others (EOPNOTSUPP), as on a local file.  CLIENT: the client, so every server supports it.
 * The system's headers may be older than the flags.
 *
 *        name       bit    by      what it asks for
 */
/* clang-format off */
#define AMPH_FWD_RWF_ROWS(row) \
    row(HIPRI,     0x001, SERVER) /* polls for the end of a direct transfer */ \
    row(DSYNC,     0x002, SERVER) /* as O_DSYNC */ \
    row(SYNC,      0x004, SERVER) /* as O_SYNC */ \
    row(NOWAIT,    0x008, SERVER) /* EAGAIN in place of a wait */ \
    row(APPEND,    0x010, SERVER) /* as O_APPEND */ \
    row(NOAPPEND,  0x020, SERVER) /* as without O_APPEND */ \
    row(ATOMIC,    0x040, SERVER) /* a direct write that a crash does not tear */ \
    row(DONTCACHE, 0x080, SERVER) /* pages leave the cache afterwards */ \
    row(NOSIGNAL,  0x100, CLIENT) /* no SIGPIPE for a pipe without a reader */
/* clang-format on */

#define AMPH_FWD_RWF_NAME(name, bit, by) AMPH_FWD_RWF_##name = (bit),
#define AMPH_FWD_RWF_BY_SERVER(bit) | (bit)
#define AMPH_FWD_RWF_BY_CLIENT(bit)
#define AMPH_FWD_RWF_SENT_BIT(name, bit, by) AMPH_FWD_RWF_BY_##by(bit)
#define AMPH_FWD_RWF_BIT(name, bit, by) | (bit)

enum {
    AMPH_FWD_RWF_ROWS(AMPH_FWD_RWF_NAME)
    /* those that travel, and all that are known */
    AMPH_FWD_RWF_SENT = 0 AMPH_FWD_RWF_ROWS(AMPH_FWD_RWF_SENT_BIT),
    AMPH_FWD_RWF_KNOWN = 0 AMPH_FWD_RWF_ROWS(AMPH_FWD_RWF_BIT)
};

/* Always set in a handle: placeholders store it without this bit (client/client.h). */
#define AMPH_FWD_HANDLE_TOP (UINT64_C(1) << 63)

/* This bit of a handle says that a read or write of the file may block (FIFO, terminal, device), so
 * that only its server knows whether it is ready.  Regular files and directories are always
 * ready. */
#define AMPH_FWD_HANDLE_WAITS (UINT64_C(1) << 62)
static inline bool amph_fwd_file_waits(const struct amph_fwd_file *file)
{
    return file->nparts > 0 && (file->part[0].handle & AMPH_FWD_HANDLE_WAITS);
}

/* This bit of a handle without the one above says that the file is a directory; else it is a regular file. */
#define AMPH_FWD_HANDLE_DIRECTORY (UINT64_C(1) << 61)
/* The file's type, S_IFREG or S_IFDIR; 0: another one. */
static inline mode_t amph_fwd_file_type(const struct amph_fwd_file *file)
{
    if (file->nparts == 0 || amph_fwd_file_waits(file))
        return 0;

    return file->part[0].handle & AMPH_FWD_HANDLE_DIRECTORY ? S_IFDIR : S_IFREG;
}

/* The mode of a new file, as amph_fwd_open, amph_fwd_mkdir and amph_fwd_mknod take it.  The umask
 * travels with it and is applied by the server, because a default ACL of the directory replaces
 * it. */
#define AMPH_FWD_MODE_BITS 0177777
#define AMPH_FWD_MASK_BITS(mask) ((mode_t)(mask) << 16)
static inline mode_t amph_fwd_new_mode(mode_t mode, mode_t mask)
{
    return (mode & AMPH_FWD_MODE_BITS) | AMPH_FWD_MASK_BITS(mask & 0777);
}

static inline mode_t amph_fwd_mode_mask(mode_t mode)
{
    return mode >> 16 & 0777;
}

#endif
