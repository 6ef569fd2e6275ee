/* SPDX-License-Identifier: BSD-3-Clause */
/* Golden bytes of every encoding of iofwd/wire/encode.h, and what it must refuse. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "iofwd/wire/encode.h"
#include "tests/unit/native_order.h"

static void hex(const uint8_t *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        sprintf(out + 2 * i, "%02x", bytes[i]);

    out[2 * n] = 0;
}

#define GOLDEN(w, text) \
    do { \
        char got_[2048]; \
        cr_assert(!(w).bad); \
        hex((w).base, amph_wr_len(&(w)), got_); \
        cr_assert_str_eq(got_, text); \
    } while (0)

Test(encode, errno_numbers)
{
    /* clang-format off */
    static const struct { int native; uint32_t wire; } rows[] = {
        { 0, 0 }, { EPERM, 1 }, { ENOENT, 2 }, { EINTR, 4 }, { EIO, 5 }, { EBADF, 9 }, { EAGAIN, 11 }, { EACCES, 13 }, { EEXIST, 17 },
        { EXDEV, 18 }, { ENOTDIR, 20 }, { EISDIR, 21 }, { EINVAL, 22 }, { ENOSPC, 28 }, { EROFS, 30 }, { EDEADLK, 35 },
        { ENAMETOOLONG, 36 }, { ENOTEMPTY, 39 }, { ELOOP, 40 }, { ENODATA, 41 }, { EOVERFLOW, 42 }, { EOPNOTSUPP, 44 }, { ESTALE, 46 },
        { EDQUOT, 47 },
    };

    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(amph_fwd_errno_to_wire(rows[i].native), rows[i].wire, "errno %d",
                     rows[i].native);
        cr_assert_eq(amph_fwd_errno_from_wire(rows[i].wire), rows[i].native);
    }

    cr_assert_eq(amph_fwd_errno_to_wire(99999), 5u, "what has no number travels as EIO");
    cr_assert_eq(amph_fwd_errno_from_wire(12345), EIO);
}

Test(encode, open_flags)
{
    uint32_t wire, back;

    cr_assert(amph_fwd_flags_to_wire(FWD_SET_OFLAGS, O_RDWR | O_CREAT | O_EXCL | O_TRUNC | O_APPEND,
                                     &wire));
    cr_assert_eq(wire, 2u | 1u << 4 | 1u << 5 | 1u << 7 | 1u << 8);
    cr_assert(amph_fwd_flags_from_wire(FWD_SET_OFLAGS, wire, &back));
    cr_assert_eq(back, (uint32_t)(O_RDWR | O_CREAT | O_EXCL | O_TRUNC | O_APPEND));

    static const int all[] = {
        O_WRONLY | O_SYNC, O_DSYNC,   O_DIRECTORY, O_TMPFILE | O_RDWR, O_NOFOLLOW | O_CLOEXEC,
        O_DIRECT,          O_NOATIME, O_PATH,      O_NONBLOCK,         O_NOCTTY
    };

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        cr_assert(amph_fwd_flags_to_wire(FWD_SET_OFLAGS, (uint32_t)all[i], &wire), "%#o", all[i]);
        cr_assert(amph_fwd_flags_from_wire(FWD_SET_OFLAGS, wire, &back));
        cr_assert_eq(back, (uint32_t)all[i], "%#o came back as %#o", all[i], back);
    }

    cr_assert_not(amph_fwd_flags_from_wire(FWD_SET_OFLAGS, 3, &back), "no such access mode");
    cr_assert_not(amph_fwd_flags_from_wire(FWD_SET_OFLAGS, UINT32_C(1) << 31, &back),
                  "no such bit");
}

Test(encode, modes_and_other_sets)
{
    uint32_t wire, back;

    cr_assert(amph_fwd_flags_to_wire(FWD_SET_MODE, S_IFDIR | S_ISVTX | 0751, &wire));
    cr_assert_eq(wire, 0x4000u | 01000u | 0751u);
    cr_assert(amph_fwd_flags_from_wire(FWD_SET_MODE, 0xa000 | 0777, &back));
    cr_assert_eq(back, (uint32_t)(S_IFLNK | 0777));
    cr_assert(amph_fwd_flags_to_wire(FWD_SET_ATFLAGS, AT_SYMLINK_NOFOLLOW | AT_REMOVEDIR, &wire));
    cr_assert_eq(wire, 9u);
    cr_assert(amph_fwd_flags_to_wire(FWD_SET_AMODE, R_OK | X_OK, &wire));
    cr_assert_eq(wire, 5u);
    cr_assert(
        amph_fwd_flags_to_wire(FWD_SET_FALLOC, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, &wire));
    cr_assert_eq(wire, 3u);
    cr_assert(amph_fwd_flags_to_wire(FWD_SET_LOCKOP, LOCK_EX | LOCK_NB, &wire));
    cr_assert_eq(wire, 6u);
    cr_assert_not(amph_fwd_flags_to_wire(FWD_SET_AMODE, 64, &wire));

    uint8_t w8;
    int whence;

    cr_assert(amph_fwd_whence_to_wire(SEEK_HOLE, &w8) && w8 == 4);
    cr_assert_not(amph_fwd_whence_to_wire(77, &w8));
    cr_assert_not(amph_fwd_whence_from_wire(5, &whence));
}

static const struct stat sample = {
    .st_dev = 0,
    .st_ino = 0x1122334455667788,
    .st_mode = S_IFREG | 0640,
    .st_nlink = 3,
    .st_uid = 1000,
    .st_gid = 50,
    .st_size = 5000000000,
    .st_blksize = 4096,
    .st_blocks = 8,
    .st_atim = { 1, 2 },
    .st_mtim = { -1, 999999999 },
    .st_ctim = { 0x100000000, 7 },
};

Test(encode, stat_golden)
{
    uint8_t buf[256];
    struct amph_wr w;
    struct stat st = sample;
    struct stat back;

    st.st_dev = makedev(8, 1);
    amph_wr_init(&w, buf, sizeof buf);
    amph_fwd_put_stat(&w, &st);
    GOLDEN(w, "0800000001000000"
              "8877665544332211"
              "a0810000"
              "0300000000000000"
              "e8030000"
              "32000000"
              "0000000000000000"
              "00f2052a01000000"
              "00100000"
              "0800000000000000"
              "0100000000000000"
              "02000000"
              "ffffffffffffffff"
              "ffc99a3b"
              "0000000001000000"
              "07000000");

    struct amph_rd r;

    amph_rd_init(&r, buf, amph_wr_len(&w));
    amph_fwd_get_stat(&r, &back);
    cr_assert(!r.bad && amph_rd_left(&r) == 0);
    cr_assert_eq(back.st_ino, st.st_ino);
    cr_assert_eq(back.st_dev, st.st_dev);
    cr_assert_eq(back.st_mode, st.st_mode);
    cr_assert_eq(back.st_size, st.st_size);
    cr_assert_eq(back.st_mtim.tv_sec, -1);
    cr_assert_eq(back.st_ctim.tv_sec, 0x100000000);
    amph_rd_init(&r, buf, amph_wr_len(&w) - 1);
    amph_fwd_get_stat(&r, &back);
    cr_assert(r.bad, "a cut record is refused");
}

Test(encode, statx_comes_back)
{
    uint8_t buf[256];
    struct amph_wr w;
    struct amph_rd r;
    struct statx x = { .stx_mask = STATX_BASIC_STATS | STATX_BTIME | 0x1000,
                       .stx_blksize = 4096,
                       .stx_attributes = STATX_ATTR_APPEND,
                       .stx_nlink = 3,
                       .stx_uid = 1,
                       .stx_gid = 2,
                       .stx_mode = S_IFREG | 0640,
                       .stx_ino = UINT64_C(1) << 40,
                       .stx_size = UINT64_C(5) << 32,
                       .stx_blocks = 7,
                       .stx_attributes_mask = STATX_ATTR_APPEND | STATX_ATTR_NODUMP,
                       .stx_atime = { .tv_sec = -1, .tv_nsec = 1 },
                       .stx_btime = { .tv_sec = 2, .tv_nsec = 3 },
                       .stx_ctime = { .tv_sec = 4, .tv_nsec = 5 },
                       .stx_mtime = { .tv_sec = 6, .tv_nsec = 999999999 },
                       .stx_rdev_major = 1,
                       .stx_rdev_minor = 2,
                       .stx_dev_major = 300,
                       .stx_dev_minor = 70000 };
    struct statx back;

    amph_wr_init(&w, buf, sizeof buf);
    amph_fwd_put_statx(&w, &x);
    amph_rd_init(&r, buf, amph_wr_len(&w));
    amph_fwd_get_statx(&r, &back);
    x.stx_mask &= ~0x1000U; /* a number of a mount stays where it means something */
    cr_assert(!r.bad && amph_rd_left(&r) == 0);
    cr_assert(memcmp(&x, &back, sizeof x) == 0);
}

Test(encode, statfs_golden)
{
    uint8_t buf[256];
    struct amph_wr w;
    struct statfs fs = { .f_type = 0x01021994,
                         .f_bsize = 4096,
                         .f_blocks = 1000,
                         .f_bfree = 900,
                         .f_bavail = 800,
                         .f_files = 70,
                         .f_ffree = 60,
                         .f_namelen = 255,
                         .f_frsize = 4096,
                         .f_flags = 0x26 };

    fs.f_fsid.__val[0] = 5;
    fs.f_fsid.__val[1] = 6;
    amph_wr_init(&w, buf, sizeof buf);
    amph_fwd_put_statfs(&w, &fs);
    GOLDEN(w, "9419020100000000"
              "0010000000000000"
              "e803000000000000"
              "8403000000000000"
              "2003000000000000"
              "4600000000000000"
              "3c00000000000000"
              "05000000"
              "06000000"
              "ff000000"
              "00100000"
              "26000000");
}

Test(encode, lock_golden)
{
    uint8_t buf[64];
    struct amph_wr w;
    struct amph_rd r;
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -10, .l_len = 4, .l_pid = 77
    };
    struct flock back;

    amph_wr_init(&w, buf, sizeof buf);
    amph_fwd_put_lock(&w, &lock);
    GOLDEN(w, "01"
              "02"
              "f6ffffffffffffff"
              "0400000000000000"
              "4d000000");
    buf[0] = 9;
    amph_rd_init(&r, buf, amph_wr_len(&w));
    amph_fwd_get_lock(&r, &back);
    cr_assert(r.bad, "no such type of lock");
}

Test(encode, times_golden)
{
    uint8_t buf[64];
    struct amph_wr w;
    struct amph_rd r;
    struct timespec t[2] = { { 1700000000, 5 }, { 0, UTIME_OMIT } };
    struct timespec back[2];

    amph_wr_init(&w, buf, sizeof buf);
    amph_fwd_put_times(&w, t);
    GOLDEN(w, "00"
              "00f1536500000000"
              "05000000"
              "02"
              "0000000000000000"
              "00000000");
    amph_rd_init(&r, buf, amph_wr_len(&w));
    amph_fwd_get_times(&r, back);
    cr_assert(!r.bad && back[0].tv_sec == 1700000000 && back[0].tv_nsec == 5 &&
              back[1].tv_nsec == UTIME_OMIT);
    amph_wr_init(&w, buf, sizeof buf);
    amph_fwd_put_times(&w, NULL);
    amph_rd_init(&r, buf, amph_wr_len(&w));
    amph_fwd_get_times(&r, back);
    cr_assert(back[0].tv_nsec == UTIME_NOW && back[1].tv_nsec == UTIME_NOW);
}

struct dirent_bytes {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[13];
} __attribute__((packed));

Test(encode, dirents)
{
    struct dirent_bytes in[2] = { { 7, 11, 32, DT_REG, "hello" },
                                  { 8, 12, 32, DT_DIR, "elevenchars" } };
    uint8_t buf[256];
    char out[128];
    size_t len;
    struct amph_wr w;
    struct amph_rd r;

    amph_wr_init(&w, buf, sizeof buf);
    amph_fwd_put_dirents(&w, in, sizeof in);
    GOLDEN(w, "0700000000000000"
              "0b00000000000000"
              "08"
              "05"
              "68656c6c6f"
              "0800000000000000"
              "0c00000000000000"
              "04"
              "0b"
              "656c6576656e6368617273");
    amph_rd_init(&r, buf, amph_wr_len(&w));
    cr_assert(amph_fwd_get_dirents(&r, out, sizeof out, &len));
    cr_assert_eq(len, 32u + 32u, "two whole entries");
    cr_assert_str_eq(out + 19, "hello");
    cr_assert_str_eq(out + 32 + 19, "elevenchars");
    amph_rd_init(&r, buf, amph_wr_len(&w));
    cr_assert_not(amph_fwd_get_dirents(&r, out, 40, &len),
                  "entries that do not fit are refused, not cut");
    amph_rd_init(&r, buf, amph_wr_len(&w) - 1);
    cr_assert_not(amph_fwd_get_dirents(&r, out, sizeof out, &len));
}
