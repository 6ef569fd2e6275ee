/* SPDX-License-Identifier: BSD-3-Clause */
/* Fixed encodings; see encode.h.  Layer: iofwd. */
#include "iofwd/wire/encode.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/platform.h"
#include "iofwd/wire/file.h"

/* ---- errno ---- */

#define E(name, wire) \
    { \
        name, wire \
    }
/* clang-format off */
static const struct amph_fwd_value_pair errnos[] = {
    E(EPERM, 1), E(ENOENT, 2), E(ESRCH, 3), E(EINTR, 4), E(EIO, 5), E(ENXIO, 6), E(E2BIG, 7), E(ENOEXEC, 8), E(EBADF, 9),
    E(ECHILD, 10), E(EAGAIN, 11), E(ENOMEM, 12), E(EACCES, 13), E(EFAULT, 14), E(ENOTBLK, 15), E(EBUSY, 16), E(EEXIST, 17),
    E(EXDEV, 18), E(ENODEV, 19), E(ENOTDIR, 20), E(EISDIR, 21), E(EINVAL, 22), E(ENFILE, 23), E(EMFILE, 24), E(ENOTTY, 25),
    E(ETXTBSY, 26), E(EFBIG, 27), E(ENOSPC, 28), E(ESPIPE, 29), E(EROFS, 30), E(EMLINK, 31), E(EPIPE, 32), E(EDOM, 33),
    E(ERANGE, 34), E(EDEADLK, 35), E(ENAMETOOLONG, 36), E(ENOLCK, 37), E(ENOSYS, 38), E(ENOTEMPTY, 39), E(ELOOP, 40),
    E(ENODATA, 41), E(EOVERFLOW, 42), E(EILSEQ, 43), E(EOPNOTSUPP, 44), E(EPROTO, 45), E(ESTALE, 46), E(EDQUOT, 47),
    E(ETIMEDOUT, 48), E(ECANCELED, 49), E(EBADMSG, 50), E(EUCLEAN, 51), E(EREMOTEIO, 52), E(ENOMEDIUM, 53), E(EMEDIUMTYPE, 54),
    E(EKEYREJECTED, 55), E(ENOKEY, 56), E(ECONNRESET, 57), E(ENOTCONN, 58), E(EALREADY, 59), E(EINPROGRESS, 60), E(EUSERS, 61),
    E(ENOBUFS, 62), E(EADDRINUSE, 63), E(EHOSTDOWN, 64), E(EBADFD, 65), E(ENOTUNIQ, 66),
};
/* clang-format on */

static const struct amph_fwd_value_pair *by_native(const struct amph_fwd_value_pair *t, size_t n,
                                                   uint32_t v)
{
    for (size_t i = 0; i < n; i++)
        if (t[i].native == v)
            return &t[i];

    return NULL;
}

static const struct amph_fwd_value_pair *by_wire(const struct amph_fwd_value_pair *t, size_t n,
                                                 uint32_t v)
{
    for (size_t i = 0; i < n; i++)
        if (t[i].wire == v)
            return &t[i];

    return NULL;
}

uint32_t amph_fwd_errno_to_wire(int err)
{
    if (err == 0)
        return 0;

    const struct amph_fwd_value_pair *p = by_native(errnos, AMPH_COUNTOF(errnos), (uint32_t)err);
    return p ? p->wire : 5;
}

int amph_fwd_errno_from_wire(uint32_t wire)
{
    if (wire == 0)
        return 0;

    const struct amph_fwd_value_pair *p = by_wire(errnos, AMPH_COUNTOF(errnos), wire);
    return p ? (int)p->native : EIO;
}

bool amph_fwd_errno_is_storage(int err)
{
    static const int errors[] = { EIO,    EUCLEAN,   ENODEV, ENXIO,  EREMOTEIO,
                                  ESTALE, ETIMEDOUT, ENOSPC, EDQUOT, EBADMSG };

    for (size_t i = 0; i < AMPH_COUNTOF(errors); i++)
        if (errors[i] == err)
            return true;

    return false;
}

/* ---- flags ---- */

static const struct amph_fwd_value_pair access_field[] = { { O_RDONLY, 0 },
                                                           { O_WRONLY, 1 },
                                                           { O_RDWR, 2 } };
/* On Linux O_SYNC includes the bit of O_DSYNC, so it is first and consumes both. */
/* clang-format off */
static const struct amph_fwd_value_pair oflag_bits[] = {
    { O_CREAT, 1u << 4 }, { O_EXCL, 1u << 5 }, { O_NOCTTY, 1u << 6 }, { O_TRUNC, 1u << 7 }, { O_APPEND, 1u << 8 },
    { O_NONBLOCK, 1u << 9 }, { O_SYNC, 1u << 10 }, { O_DSYNC, 1u << 11 }, { O_TMPFILE, 1u << 13 }, { O_DIRECTORY, 1u << 12 },
    { O_NOFOLLOW, 1u << 14 }, { O_CLOEXEC, 1u << 15 }, { O_DIRECT, 1u << 16 }, { O_NOATIME, 1u << 17 }, { O_PATH, 1u << 18 },
    { O_ASYNC, 1u << 19 },
};
/* clang-format on */
static const struct amph_fwd_value_pair type_field[] = {
    { 0, 0 },
    { S_IFIFO, 0x1000 },
    { S_IFCHR, 0x2000 },
    { S_IFDIR, 0x4000 },
    { S_IFBLK, 0x6000 },
    { S_IFREG, 0x8000 },
    { S_IFLNK, 0xa000 },
    { S_IFSOCK, 0xc000 },
};
#define MASK(bit) AMPH_FWD_MASK_BITS(bit)
/* clang-format off */
static const struct amph_fwd_value_pair mode_bits[] = {
    { S_IXOTH, 1 }, { S_IWOTH, 2 }, { S_IROTH, 4 }, { S_IXGRP, 8 }, { S_IWGRP, 16 }, { S_IRGRP, 32 },
    { S_IXUSR, 64 }, { S_IWUSR, 128 }, { S_IRUSR, 256 }, { S_ISVTX, 512 }, { S_ISGID, 1024 }, { S_ISUID, 2048 },
    /* the client's umask, sent with the mode of a new file */
    { MASK(S_IXOTH), 1 << 16 }, { MASK(S_IWOTH), 2 << 16 },  { MASK(S_IROTH), 4 << 16 },  { MASK(S_IXGRP), 8 << 16 },
    { MASK(S_IWGRP), 16 << 16 }, { MASK(S_IRGRP), 32 << 16 }, { MASK(S_IXUSR), 64 << 16 }, { MASK(S_IWUSR), 128 << 16 },
    { MASK(S_IRUSR), 256 << 16 },
};
/* clang-format on */
#undef MASK
static const struct amph_fwd_value_pair at_bits[] = {
    { AT_SYMLINK_NOFOLLOW, 1 },
    { AT_SYMLINK_FOLLOW, 2 },
    { AT_EMPTY_PATH, 4 },
    { AT_REMOVEDIR, 8 }, /* = AT_EACCESS on Linux; the call determines the meaning */
};

static const struct amph_fwd_value_pair amode_bits[] = { { X_OK, 1 }, { W_OK, 2 }, { R_OK, 4 } };
/* RENAME_NOREPLACE, _EXCHANGE, _WHITEOUT */
static const struct amph_fwd_value_pair rename_bits[] = { { 1, 1 }, { 2, 2 }, { 4, 4 } };
static const struct amph_fwd_value_pair xattr_bits[] = { { XATTR_CREATE, 1 },
                                                         { XATTR_REPLACE, 2 } };
static const struct amph_fwd_value_pair falloc_bits[] = {
    { FALLOC_FL_KEEP_SIZE, 1 },  { FALLOC_FL_PUNCH_HOLE, 2 },    { FALLOC_FL_COLLAPSE_RANGE, 4 },
    { FALLOC_FL_ZERO_RANGE, 8 }, { FALLOC_FL_INSERT_RANGE, 16 }, { FALLOC_FL_UNSHARE_RANGE, 32 },
};

/* Linux ignores calls with LOCK_MAND, and reports success. */
static const struct amph_fwd_value_pair lockop_bits[] = {
    { LOCK_SH, 1 },    { LOCK_EX, 2 },    { LOCK_NB, 4 },     { LOCK_UN, 8 },
    { LOCK_MAND, 16 }, { LOCK_READ, 32 }, { LOCK_WRITE, 64 },
};

#define BITS(t) t, AMPH_COUNTOF(t)
/* clang-format off */
static const struct amph_fwd_flagset sets[FWD_NSETS] = {
    [FWD_SET_OFLAGS] = { "open flags", BITS(oflag_bits), BITS(access_field), O_ACCMODE, 3 },
    [FWD_SET_MODE] = { "mode", BITS(mode_bits), BITS(type_field), S_IFMT, 0xf000 },
    [FWD_SET_ATFLAGS] = { "at flags", BITS(at_bits), NULL, 0, 0, 0 },
    [FWD_SET_AMODE] = { "access mode", BITS(amode_bits), NULL, 0, 0, 0 },
    [FWD_SET_RFLAGS] = { "rename flags", BITS(rename_bits), NULL, 0, 0, 0 },
    [FWD_SET_XFLAGS] = { "xattr flags", BITS(xattr_bits), NULL, 0, 0, 0 },
    [FWD_SET_FALLOC] = { "fallocate flags", BITS(falloc_bits), NULL, 0, 0, 0 },
    [FWD_SET_LOCKOP] = { "flock operation", BITS(lockop_bits), NULL, 0, 0, 0 },
};
/* clang-format on */

bool amph_fwd_flags_to_wire(enum amph_fwd_set set, uint32_t native, uint32_t *out_p)
{
    const struct amph_fwd_flagset *s = &sets[set];
    uint32_t left = native & ~s->native_mask;
    uint32_t out = 0;
    const struct amph_fwd_value_pair *f = s->nfield ? by_native(s->field, s->nfield,
                                                                native & s->native_mask)
                                                    : NULL;

    if (f)
        out = f->wire;

    for (size_t i = 0; i < s->nbits; i++)
        if (s->bit[i].native && (left & s->bit[i].native) == s->bit[i].native) {
            out |= s->bit[i].wire;
            left &= ~s->bit[i].native;
        }

    *out_p = out;
    return left == 0 && (f || !s->nfield);
}

bool amph_fwd_flags_from_wire(enum amph_fwd_set set, uint32_t wire, uint32_t *out_p)
{
    const struct amph_fwd_flagset *s = &sets[set];
    uint32_t left = wire & ~s->wire_mask;
    uint32_t out = 0;
    const struct amph_fwd_value_pair *f = s->nfield
                                              ? by_wire(s->field, s->nfield, wire & s->wire_mask)
                                              : NULL;

    if (f)
        out = f->native;

    for (size_t i = 0; i < s->nbits; i++)
        if (left & s->bit[i].wire) {
            out |= s->bit[i].native;
            left &= ~s->bit[i].wire;
        }

    *out_p = out;
    return left == 0 && (f || !s->nfield);
}

static const struct amph_fwd_value_pair whences[] = {
    { SEEK_SET, 0 }, { SEEK_CUR, 1 }, { SEEK_END, 2 }, { SEEK_DATA, 3 }, { SEEK_HOLE, 4 }
};

bool amph_fwd_whence_to_wire(int whence, uint8_t *out_p)
{
    const struct amph_fwd_value_pair *p = by_native(whences, AMPH_COUNTOF(whences),
                                                    (uint32_t)whence);

    *out_p = p ? (uint8_t)p->wire : 0;
    return p != NULL;
}

bool amph_fwd_whence_from_wire(uint8_t wire, int *out_p)
{
    const struct amph_fwd_value_pair *p = by_wire(whences, AMPH_COUNTOF(whences), wire);

    *out_p = p ? (int)p->native : 0;
    return p != NULL;
}

/* ---- records ---- */

static void put_time(struct amph_wr *w, const struct timespec *ts)
{
    amph_wr_u64(w, (uint64_t)(int64_t)ts->tv_sec);
    amph_wr_u32(w, (uint32_t)ts->tv_nsec);
}

static struct timespec get_time(struct amph_rd *r)
{
    struct timespec ts;

    ts.tv_sec = (time_t)(int64_t)amph_rd_u64(r);
    ts.tv_nsec = (long)amph_rd_u32(r);
    return ts;
}

static void put_dev(struct amph_wr *w, dev_t dev)
{
    amph_wr_u32(w, major(dev));
    amph_wr_u32(w, minor(dev));
}

static dev_t get_dev(struct amph_rd *r)
{
    uint32_t ma = amph_rd_u32(r);
    uint32_t mi = amph_rd_u32(r);

    return makedev(ma, mi);
}

void amph_fwd_put_stat(struct amph_wr *w, const struct stat *st)
{
    uint32_t mode;

    amph_fwd_flags_to_wire(FWD_SET_MODE, st->st_mode, &mode);
    put_dev(w, st->st_dev);
    amph_wr_u64(w, st->st_ino);
    amph_wr_u32(w, mode);
    amph_wr_u64(w, st->st_nlink);
    amph_wr_u32(w, st->st_uid);
    amph_wr_u32(w, st->st_gid);
    put_dev(w, st->st_rdev);
    amph_wr_u64(w, (uint64_t)st->st_size);
    amph_wr_u32(w, (uint32_t)st->st_blksize);
    amph_wr_u64(w, (uint64_t)st->st_blocks);
    put_time(w, &st->st_atim);
    put_time(w, &st->st_mtim);
    put_time(w, &st->st_ctim);
}

void amph_fwd_get_stat(struct amph_rd *r, struct stat *st)
{
    uint32_t mode;

    memset(st, 0, sizeof *st);
    st->st_dev = get_dev(r);
    st->st_ino = (ino_t)amph_rd_u64(r);
    amph_fwd_flags_from_wire(FWD_SET_MODE, amph_rd_u32(r), &mode);
    st->st_mode = mode;
    st->st_nlink = (nlink_t)amph_rd_u64(r);
    st->st_uid = amph_rd_u32(r);
    st->st_gid = amph_rd_u32(r);
    st->st_rdev = get_dev(r);
    st->st_size = (off_t)amph_rd_u64(r);
    st->st_blksize = (blksize_t)amph_rd_u32(r);
    st->st_blocks = (blkcnt_t)amph_rd_u64(r);
    st->st_atim = get_time(r);
    st->st_mtim = get_time(r);
    st->st_ctim = get_time(r);
}

static void put_statx_time(struct amph_wr *w, const struct statx_timestamp *t)
{
    amph_wr_u64(w, (uint64_t)t->tv_sec);
    amph_wr_u32(w, t->tv_nsec);
}

static struct statx_timestamp get_statx_time(struct amph_rd *r)
{
    struct statx_timestamp t = { .tv_sec = (int64_t)amph_rd_u64(r) };

    t.tv_nsec = amph_rd_u32(r);
    return t;
}

#define STATX_MASK (STATX_BASIC_STATS | STATX_BTIME)

void amph_fwd_put_statx(struct amph_wr *w, const struct statx *stx)
{
    uint32_t mode;

    amph_fwd_flags_to_wire(FWD_SET_MODE, stx->stx_mode, &mode);
    amph_wr_u32(w, stx->stx_mask & STATX_MASK);
    amph_wr_u32(w, stx->stx_blksize);
    amph_wr_u64(w, stx->stx_attributes);
    amph_wr_u64(w, stx->stx_attributes_mask);
    amph_wr_u32(w, stx->stx_nlink);
    amph_wr_u32(w, stx->stx_uid);
    amph_wr_u32(w, stx->stx_gid);
    amph_wr_u32(w, mode);
    amph_wr_u64(w, stx->stx_ino);
    amph_wr_u64(w, stx->stx_size);
    amph_wr_u64(w, stx->stx_blocks);
    put_statx_time(w, &stx->stx_atime);
    put_statx_time(w, &stx->stx_btime);
    put_statx_time(w, &stx->stx_ctime);
    put_statx_time(w, &stx->stx_mtime);
    put_dev(w, makedev(stx->stx_rdev_major, stx->stx_rdev_minor));
    put_dev(w, makedev(stx->stx_dev_major, stx->stx_dev_minor));
}

void amph_fwd_get_statx(struct amph_rd *r, struct statx *stx)
{
    uint32_t mode;

    memset(stx, 0, sizeof *stx);
    stx->stx_mask = amph_rd_u32(r);
    stx->stx_blksize = amph_rd_u32(r);
    stx->stx_attributes = amph_rd_u64(r);
    stx->stx_attributes_mask = amph_rd_u64(r);
    stx->stx_nlink = amph_rd_u32(r);
    stx->stx_uid = amph_rd_u32(r);
    stx->stx_gid = amph_rd_u32(r);
    amph_fwd_flags_from_wire(FWD_SET_MODE, amph_rd_u32(r), &mode);
    stx->stx_mode = (uint16_t)mode;
    stx->stx_ino = amph_rd_u64(r);
    stx->stx_size = amph_rd_u64(r);
    stx->stx_blocks = amph_rd_u64(r);
    stx->stx_atime = get_statx_time(r);
    stx->stx_btime = get_statx_time(r);
    stx->stx_ctime = get_statx_time(r);
    stx->stx_mtime = get_statx_time(r);

    dev_t rdev = get_dev(r);
    dev_t dev = get_dev(r);

    stx->stx_rdev_major = major(rdev);
    stx->stx_rdev_minor = minor(rdev);
    stx->stx_dev_major = major(dev);
    stx->stx_dev_minor = minor(dev);
}

void amph_fwd_put_statfs(struct amph_wr *w, const struct statfs *fs)
{
    amph_wr_u64(w, (uint64_t)fs->f_type);
    amph_wr_u64(w, (uint64_t)fs->f_bsize);
    amph_wr_u64(w, fs->f_blocks);
    amph_wr_u64(w, fs->f_bfree);
    amph_wr_u64(w, fs->f_bavail);
    amph_wr_u64(w, fs->f_files);
    amph_wr_u64(w, fs->f_ffree);
    amph_wr_u32(w, (uint32_t)fs->f_fsid.__val[0]);
    amph_wr_u32(w, (uint32_t)fs->f_fsid.__val[1]);
    amph_wr_u32(w, (uint32_t)fs->f_namelen);
    amph_wr_u32(w, (uint32_t)fs->f_frsize);
    amph_wr_u32(w, (uint32_t)fs->f_flags);
}

void amph_fwd_get_statfs(struct amph_rd *r, struct statfs *fs)
{
    memset(fs, 0, sizeof *fs);
    fs->f_type = (__typeof__(fs->f_type))amph_rd_u64(r);
    fs->f_bsize = (__typeof__(fs->f_bsize))amph_rd_u64(r);
    fs->f_blocks = amph_rd_u64(r);
    fs->f_bfree = amph_rd_u64(r);
    fs->f_bavail = amph_rd_u64(r);
    fs->f_files = amph_rd_u64(r);
    fs->f_ffree = amph_rd_u64(r);
    fs->f_fsid.__val[0] = (int)amph_rd_u32(r);
    fs->f_fsid.__val[1] = (int)amph_rd_u32(r);
    fs->f_namelen = (__typeof__(fs->f_namelen))amph_rd_u32(r);
    fs->f_frsize = (__typeof__(fs->f_frsize))amph_rd_u32(r);
    fs->f_flags = (__typeof__(fs->f_flags))amph_rd_u32(r);
}

static const struct amph_fwd_value_pair lock_types[] = { { F_RDLCK, 0 },
                                                         { F_WRLCK, 1 },
                                                         { F_UNLCK, 2 } };

void amph_fwd_put_lock(struct amph_wr *w, const struct flock *lock)
{
    const struct amph_fwd_value_pair *type = by_native(lock_types, AMPH_COUNTOF(lock_types),
                                                       (uint32_t)lock->l_type);
    uint8_t whence;

    if (!type || !amph_fwd_whence_to_wire(lock->l_whence, &whence)) {
        w->bad = true;
        return;
    }

    amph_wr_u8(w, (uint8_t)type->wire);
    amph_wr_u8(w, whence);
    amph_wr_u64(w, (uint64_t)lock->l_start);
    amph_wr_u64(w, (uint64_t)lock->l_len);
    amph_wr_u32(w, (uint32_t)lock->l_pid);
}

void amph_fwd_get_lock(struct amph_rd *r, struct flock *lock)
{
    const struct amph_fwd_value_pair *type = by_wire(lock_types, AMPH_COUNTOF(lock_types),
                                                     amph_rd_u8(r));
    int whence;

    memset(lock, 0, sizeof *lock);
    if (!amph_fwd_whence_from_wire(amph_rd_u8(r), &whence) || !type) {
        r->bad = true;
        return;
    }

    lock->l_type = (short)type->native;
    lock->l_whence = (short)whence;
    lock->l_start = (off_t)amph_rd_u64(r);
    lock->l_len = (off_t)amph_rd_u64(r);
    lock->l_pid = (pid_t)amph_rd_u32(r);
}

enum {
    TIME_SET,
    TIME_NOW,
    TIME_OMIT
};

void amph_fwd_put_times(struct amph_wr *w, const struct timespec *times)
{
    for (int i = 0; i < 2; i++) {
        bool now = !times || times[i].tv_nsec == UTIME_NOW;
        bool omit = times && times[i].tv_nsec == UTIME_OMIT;
        struct timespec none = { 0, 0 };

        if (now)
            amph_wr_u8(w, TIME_NOW);
        else
            amph_wr_u8(w, omit ? TIME_OMIT : TIME_SET);

        put_time(w, now || omit ? &none : &times[i]);
    }
}

void amph_fwd_get_times(struct amph_rd *r, struct timespec times[2])
{
    for (int i = 0; i < 2; i++) {
        uint8_t kind = amph_rd_u8(r);

        times[i] = get_time(r);
        if (kind > TIME_OMIT)
            r->bad = true;
        else if (kind != TIME_SET)
            times[i] = (struct timespec){ 0, kind == TIME_NOW ? UTIME_NOW : UTIME_OMIT };
        else if (times[i].tv_nsec < 0 || times[i].tv_nsec > 999999999)
            /* not a valid time; the system call returns EINVAL, as it does locally */
            times[i].tv_nsec = 1000000000;
    }
}

/* ---- directory entries ---- */

static const struct amph_fwd_value_pair entry_types[] = {
    { DT_UNKNOWN, 0 }, { DT_FIFO, 1 }, { DT_CHR, 2 },  { DT_DIR, 4 },
    { DT_BLK, 6 },     { DT_REG, 8 },  { DT_LNK, 10 }, { DT_SOCK, 12 },
};

/* An entry of getdents64; d_name follows. */
struct entry {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
} __attribute__((packed));

enum {
    ENTRY_BYTES = 19,
    NAME_MAX_BYTES = 255
};

void amph_fwd_put_dirents(struct amph_wr *w, const void *entries, size_t len_bytes)
{
    const char *at = entries;
    const char *end = at + len_bytes;

    while (at < end && !w->bad) {
        struct entry e;

        memcpy(&e, at, ENTRY_BYTES);

        const char *name = at + ENTRY_BYTES;
        size_t n = strnlen(name, NAME_MAX_BYTES);
        const struct amph_fwd_value_pair *type = by_native(entry_types, AMPH_COUNTOF(entry_types),
                                                           e.type);

        amph_wr_u64(w, e.ino);
        amph_wr_u64(w, (uint64_t)e.off);
        amph_wr_u8(w, type ? (uint8_t)type->wire : 0);
        amph_wr_u8(w, (uint8_t)n);
        amph_wr_bytes(w, name, n);
        at += e.reclen;
    }
}

bool amph_fwd_get_dirents(struct amph_rd *r, void *entries, size_t cap, size_t *len_p)
{
    char *at = entries;
    size_t left = cap;

    while (amph_rd_left(r) > 0) {
        struct entry e = { 0 };

        e.ino = amph_rd_u64(r);
        e.off = (int64_t)amph_rd_u64(r);

        const struct amph_fwd_value_pair *type = by_wire(entry_types, AMPH_COUNTOF(entry_types),
                                                         amph_rd_u8(r));
        size_t n = amph_rd_u8(r);
        const void *name = amph_rd_bytes(r, n);
        size_t reclen = amph_align_up(ENTRY_BYTES + n + 1, 8);

        if (r->bad || !type || n == 0 || reclen > left)
            return false;

        e.type = (uint8_t)type->native;
        e.reclen = (uint16_t)reclen;
        memset(at + ENTRY_BYTES, 0, reclen - ENTRY_BYTES);
        memcpy(at, &e, ENTRY_BYTES);
        memcpy(at + ENTRY_BYTES, name, n);
        at += reclen;
        left -= reclen;
    }

    *len_p = cap - left;
    return true;
}
