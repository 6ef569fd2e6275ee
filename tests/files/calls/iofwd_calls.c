/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every forwarded call by the client's stubs, against real servers: results, errno values, large
 * data in pieces, holds over fork and exec, threads, locks, FIFOs, counters.  The prefix is /fwd;
 * its directory at the servers is given as the argument, so that what arrived is looked at
 * directly.
 */
#include <errno.h>
#include <poll.h>
#include <sys/xattr.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "iofwd.h"
#include "tests/files/fwd_bare.h"
#include "tests/files/calls/iofwd_calls.h"

struct amph_fwd_client *cl;
const char *real_dir, *self_path;
static char base[128]; /* this process's directory below the prefix */
int failures;

static const char *fwd(const char *rel)
{
    static __thread char buf[8][6000];
    static __thread int i;
    char *p = buf[i++ % 8];

    snprintf(p, sizeof buf[0], "/fwd/%s/%s", base, rel);
    return p;
}

const char *real(const char *rel)
{
    static __thread char buf[4][512];
    static __thread int i;
    char *p = buf[i++ % 4];

    snprintf(p, sizeof buf[0], "%s/%s/%s", real_dir, base, rel);
    return p;
}

int fopen_fwd(const char *rel, int flags, struct amph_fwd_file *f)
{
    return amph_fwd_open(cl, NULL, fwd(rel), flags, 0644, f);
}

static unsigned char pattern(size_t i)
{
    return (unsigned char)(i * 31 + (i >> 12) * 7);
}

/* ---- parts ---- */

static void test_small(void)
{
    struct amph_fwd_file f;
    struct stat st, rst;
    size_t n;
    off_t pos;
    char buf[64];

    IS(fopen_fwd("none", O_RDONLY, &f), ENOENT);
    IS(fopen_fwd("small", O_RDWR | O_CREAT | O_EXCL, &f), 0);
    IS(fopen_fwd("small", O_RDWR | O_CREAT | O_EXCL, &(struct amph_fwd_file){ 0 }), EEXIST);
    IS(amph_fwd_write(cl, &f, "hello world", 11, &n), 0);
    CHECK(n == 11);
    IS(amph_fwd_lseek(cl, &f, 6, SEEK_SET, &pos), 0);
    CHECK(pos == 6);
    IS(amph_fwd_read(cl, &f, buf, sizeof buf, &n), 0);
    CHECK(n == 5 && memcmp(buf, "world", 5) == 0);
    IS(amph_fwd_read(cl, &f, buf, sizeof buf, &n), 0);
    CHECK(n == 0);
    IS(amph_fwd_pwrite(cl, &f, 0, "J", 1, &n), 0);
    IS(amph_fwd_pread(cl, &f, 0, buf, 5, &n), 0);
    CHECK(n == 5 && memcmp(buf, "Jello", 5) == 0);
    IS(amph_fwd_fstat(cl, &f, &st), 0);
    CHECK(stat(real("small"), &rst) == 0);
    CHECK(st.st_size == 11 && st.st_ino == rst.st_ino && st.st_dev == rst.st_dev &&
          st.st_mode == rst.st_mode && st.st_mtim.tv_nsec == rst.st_mtim.tv_nsec &&
          st.st_mode == (S_IFREG | 0644));
    IS(amph_fwd_lseek(cl, &f, -5, SEEK_SET, &pos), EINVAL);
    IS(amph_fwd_ftruncate(cl, &f, 5), 0);
    CHECK(stat(real("small"), &rst) == 0 && rst.st_size == 5);
    IS(amph_fwd_fsync(cl, &f), 0);
    IS(amph_fwd_fdatasync(cl, &f), 0);
    IS(amph_fwd_fchmod(cl, &f, 0600), 0);
    CHECK(stat(real("small"), &rst) == 0 && (rst.st_mode & 07777) == 0600);
    IS(amph_fwd_fallocate(cl, &f, 0, 0, 100000), 0);
    CHECK(stat(real("small"), &rst) == 0 && rst.st_size == 100000);
    IS(amph_fwd_close(cl, &f), 0);
    IS(amph_fwd_close(cl, &f), EBADF);
    IS(amph_fwd_read(cl, &f, buf, 1, &n), EBADF);
    IS(fopen_fwd("small", O_WRONLY, &f), 0);
    IS(amph_fwd_read(cl, &f, buf, 1, &n), EBADF);
    IS(amph_fwd_write(cl, &f, "", 0, &n), 0);
    CHECK(n == 0);
    IS(amph_fwd_close(cl, &f), 0);
}

static void test_paths(void)
{
    struct stat st, rst;
    struct statfs fs;
    char buf[256];
    size_t n;

    IS(amph_fwd_mkdir(cl, NULL, fwd("d"), 0751), 0);
    CHECK(stat(real("d"), &rst) == 0 && (rst.st_mode & 07777) == 0751);
    IS(amph_fwd_mkdir(cl, NULL, fwd("d"), 0700), EEXIST);
    IS(amph_fwd_mkdir(cl, NULL, fwd("none/d"), 0700), ENOENT);
    IS(amph_fwd_symlink(cl, "../small", NULL, fwd("d/link")), 0);
    IS(amph_fwd_stat(cl, NULL, fwd("d/link"), 0, &st), 0);
    CHECK(S_ISREG(st.st_mode));
    IS(amph_fwd_stat(cl, NULL, fwd("d/link"), AT_SYMLINK_NOFOLLOW, &st), 0);
    CHECK(S_ISLNK(st.st_mode));
    IS(amph_fwd_readlink(cl, NULL, fwd("d/link"), buf, sizeof buf, &n), 0);
    CHECK(n == 8 && memcmp(buf, "../small", 8) == 0);
    IS(amph_fwd_readlink(cl, NULL, fwd("d/link"), buf, 3, &n), 0);
    CHECK(n == 3);
    IS(amph_fwd_readlink(cl, NULL, fwd("small"), buf, sizeof buf, &n), EINVAL);
    IS(amph_fwd_access(cl, NULL, fwd("small"), F_OK | R_OK, 0), 0);
    IS(amph_fwd_access(cl, NULL, fwd("none"), F_OK, 0), ENOENT);
    IS(amph_fwd_rename(cl, NULL, fwd("small"), NULL, fwd("d/moved"), 0), 0);
    CHECK(stat(real("d/moved"), &rst) == 0 && stat(real("small"), &rst) < 0);
    IS(amph_fwd_rename(cl, NULL, fwd("d/moved"), NULL, fwd("d/link"), 1 /* RENAME_NOREPLACE */),
       EEXIST);
    IS(amph_fwd_link(cl, NULL, fwd("d/moved"), NULL, fwd("d/hard"), 0), 0);
    CHECK(stat(real("d/hard"), &rst) == 0 && rst.st_nlink == 2);
    IS(amph_fwd_chmod(cl, NULL, fwd("d/hard"), 0604, 0), 0);
    CHECK(stat(real("d/moved"), &rst) == 0 && (rst.st_mode & 07777) == 0604);
    IS(amph_fwd_chown(cl, NULL, fwd("d/hard"), (uid_t)-1, getgid(), 0), 0);

    struct timespec t[2] = { { 1000000000, 5 }, { 1234567890, 123456789 } };

    IS(amph_fwd_utimens(cl, NULL, fwd("d/hard"), t, 0), 0);
    CHECK(stat(real("d/hard"), &rst) == 0 && rst.st_mtim.tv_sec == 1234567890 &&
          rst.st_mtim.tv_nsec == 123456789 && rst.st_atim.tv_nsec == 5);
    t[0].tv_nsec = 2000000000;
    IS(amph_fwd_utimens(cl, NULL, fwd("d/hard"), t, 0), EINVAL);
    IS(amph_fwd_truncate(cl, NULL, fwd("d/hard"), 77), 0);
    CHECK(stat(real("d/hard"), &rst) == 0 && rst.st_size == 77);
    IS(amph_fwd_statfs(cl, NULL, fwd("d"), &fs), 0);
    CHECK(fs.f_bsize > 0 && fs.f_blocks > 0);
    IS(amph_fwd_mknod(cl, NULL, fwd("fifo"), S_IFIFO | 0600, 0), 0);
    CHECK(stat(real("fifo"), &rst) == 0 && S_ISFIFO(rst.st_mode));
    IS(amph_fwd_unlink(cl, NULL, fwd("d"), 0), EISDIR);
    IS(amph_fwd_unlink(cl, NULL, fwd("d"), AT_REMOVEDIR), ENOTEMPTY);
    IS(amph_fwd_unlink(cl, NULL, fwd("d/hard"), 0), 0);
    IS(amph_fwd_unlink(cl, NULL, "/fwd", AT_REMOVEDIR), EBUSY);
    IS(amph_fwd_stat(cl, NULL, "/elsewhere/x", 0, &st), EACCES);
    IS(amph_fwd_stat(cl, NULL, "/fwd/../etc/passwd", 0, &st), EACCES);

    char longname[5000];

    memset(longname, 'x', sizeof longname);
    longname[sizeof longname - 1] = 0;
    IS(amph_fwd_stat(cl, NULL, longname, 0, &st), ENAMETOOLONG);
    longname[300] = 0;
    IS(amph_fwd_stat(cl, NULL, fwd(longname), 0, &st), ENAMETOOLONG);
}

static void test_relative(void)
{
    struct amph_fwd_file dir, f;
    struct stat st;
    size_t n;

    IS(amph_fwd_open(cl, NULL, fwd("d"), O_RDONLY | O_DIRECTORY, 0, &dir), 0);
    IS(amph_fwd_open(cl, &dir, "made", O_WRONLY | O_CREAT, 0600, &f), 0);
    IS(amph_fwd_write(cl, &f, "x", 1, &n), 0);
    IS(amph_fwd_close(cl, &f), 0);
    CHECK(access(real("d/made"), F_OK) == 0);
    IS(amph_fwd_stat(cl, &dir, "../d/made", 0, &st), 0);
    IS(amph_fwd_stat(cl, &dir, "../../../../etc/passwd", 0, &st), EACCES);
    IS(amph_fwd_rename(cl, &dir, "made", NULL, fwd("made2"), 0), 0);
    IS(amph_fwd_unlink(cl, NULL, fwd("made2"), 0), 0);
    IS(amph_fwd_close(cl, &dir), 0);
}

struct ent {
    uint64_t ino;
    int64_t off;
    unsigned short reclen;
    unsigned char type;
    char name[];
};

static void test_dirents(void)
{
    enum {
        N = 700
    };

    struct amph_fwd_file dir;
    char name[64];
    char *buf = malloc(5000);
    char seen[N] = { 0 };
    size_t len, end;
    bool ended = false;
    unsigned found = 0;
    off_t pos = 0;
    int64_t middle = -1;
    char after[256] = "";

    mkdir(real("many"), 0700);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "many/entry-%d-%.*s", i, i % 30,
                 "..............................");
        int fd = open(real(name), O_CREAT | O_WRONLY, 0600);

        close(fd);
    }

    IS(amph_fwd_open(cl, NULL, fwd("many"), O_RDONLY | O_DIRECTORY, 0, &dir), 0);
    for (;;) {
        IS(amph_fwd_getdents(cl, &dir, &end, buf, 5000, &len), 0);
        ended = ended || end;
        CHECK(!ended || end); /* once at the end, always there */
        if (len == 0)
            break;

        for (size_t at = 0; at < len;) {
            struct ent *e = (struct ent *)(buf + at);
            int i;

            if (sscanf(e->name, "entry-%d-", &i) == 1 && i >= 0 && i < N && !seen[i]) {
                seen[i] = 1;
                CHECK(e->type == DT_REG || e->type == DT_UNKNOWN);

                if (++found == 300)
                    middle = e->off;
                else if (found == 301)
                    snprintf(after, sizeof after, "%s", e->name);
            }

            at += e->reclen;
        }
    }

    CHECK(found == N && ended);
    IS(amph_fwd_lseek(cl, &dir, middle, SEEK_SET, &pos), 0);
    IS(amph_fwd_getdents(cl, &dir, &end, buf, 5000, &len), 0);
    CHECK(len > 0 && !end && strcmp(((struct ent *)buf)->name, after) == 0);
    IS(amph_fwd_getdents(cl, &dir, &end, buf, 10, &len), EINVAL);
    IS(amph_fwd_close(cl, &dir), 0);
    free(buf);
}

/* Every size around the limits of inline data, pieces and slots; written and read back, by offset
 * and in sequence. */
static void test_sizes(void)
{
    static const size_t sizes[] = { 1,      1023,   1024,   1025,   4096,    32768,        32769,
                                    131071, 131072, 131073, 262145, 1 << 20, (5 << 20) + 7 };
    size_t most = sizes[sizeof sizes / sizeof sizes[0] - 1];
    size_t n;
    unsigned char *out = malloc(most);
    unsigned char *in = malloc(most);

    for (size_t i = 0; i < most; i++)
        out[i] = pattern(i);

    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        struct amph_fwd_file f;
        size_t size = sizes[k];
        struct stat st;

        IS(fopen_fwd("sizes", O_RDWR | O_CREAT | O_TRUNC, &f), 0);
        IS(amph_fwd_write(cl, &f, out, size, &n), 0);
        CHECK(n == size);
        IS(amph_fwd_pwrite(cl, &f, (off_t)size, out, size, &n), 0);
        CHECK(n == size && stat(real("sizes"), &st) == 0 && st.st_size == (off_t)(2 * size));
        memset(in, 0, size);
        IS(amph_fwd_pread(cl, &f, 0, in, size, &n), 0);
        CHECK(n == size && memcmp(in, out, size) == 0);
        memset(in, 0, size);
        IS(amph_fwd_read(cl, &f, in, most, &n), 0); /* the position is behind the first write */
        CHECK(n == size && memcmp(in, out, size) == 0);
        IS(amph_fwd_read(cl, &f, in, most, &n), 0);
        CHECK(n == 0);
        IS(amph_fwd_pread(cl, &f, (off_t)size / 2, in, most < 3 * size ? most : 3 * size, &n), 0);
        CHECK(n == (most < 3 * size ? most : 3 * size) || n == 2 * size - size / 2);
        IS(amph_fwd_close(cl, &f), 0);

        FILE *fp = fopen(real("sizes"), "r");

        CHECK(fp && fread(in, 1, size, fp) == size && memcmp(in, out, size) == 0);
        CHECK(fp && fread(in, 1, size, fp) == size && memcmp(in, out, size) == 0);
        if (fp)
            fclose(fp);
    }

    free(in);
    free(out);
}

/* A write that the file system cuts short: what was written is said, the next gives the errno. */
static void test_full(void)
{
    struct amph_fwd_file f;
    size_t n = 77;
    size_t size = 3 << 20;
    char *buf = calloc(1, size);

    IS(fopen_fwd("full", O_WRONLY | O_CREAT, &f), 0);
    IS(amph_fwd_pwrite(cl, &f, INT64_MAX - 100, buf, size, &n), EINVAL);

    int err = amph_fwd_pwrite(cl, &f, -1, buf, size, &n);

    CHECK(err == EINVAL);
    IS(amph_fwd_write(cl, &f, buf, size, &n), 0); /* the file is free again afterwards */
    CHECK(n == size);
    IS(amph_fwd_close(cl, &f), 0);
    free(buf);
}

/* Two threads append large records to one open file: each arrives whole. */
struct appender {
    struct amph_fwd_file f;
    unsigned char mark;
};

enum {
    RECORD = 600000,
    RECORDS = 8
};

static void *append(void *arg)
{
    struct appender *a = arg;
    unsigned char *buf = malloc(RECORD);

    memset(buf, a->mark, RECORD);
    for (int i = 0; i < RECORDS; i++) {
        size_t n = 0;

        IS(amph_fwd_write(cl, &a->f, buf, RECORD, &n), 0);
        CHECK(n == RECORD);
    }

    free(buf);
    return NULL;
}

static void test_threads(void)
{
    enum {
        T = 3
    };

    struct appender a[T];
    pthread_t t[T];
    struct amph_fwd_file f;

    IS(fopen_fwd("append", O_WRONLY | O_CREAT | O_APPEND, &f), 0);
    for (int i = 0; i < T; i++) {
        a[i] = (struct appender){ f, (unsigned char)('a' + i) };
        pthread_create(&t[i], NULL, append, &a[i]);
    }

    for (int i = 0; i < T; i++)
        pthread_join(t[i], NULL);

    IS(amph_fwd_close(cl, &f), 0);

    unsigned char *buf = malloc(RECORD);
    FILE *fp = fopen(real("append"), "r");
    int whole = 0;

    while (fp && fread(buf, 1, RECORD, fp) == RECORD) {
        size_t i = 1;

        while (i < RECORD && buf[i] == buf[0])
            i++;

        whole += i == RECORD;
    }

    CHECK(whole == T * RECORDS);
    if (fp)
        fclose(fp);

    free(buf);
}

static void *open_fifo_reader(void *arg)
{
    struct amph_fwd_file f;
    size_t n = 0;
    char buf[16] = "";

    IS(fopen_fwd("fifo", O_RDONLY, &f), 0); /* waits for the writer */
    IS(amph_fwd_read(cl, &f, buf, sizeof buf, &n), 0);
    CHECK(n == 5 && memcmp(buf, "piped", 5) == 0);
    IS(amph_fwd_close(cl, &f), 0);
    *(int *)arg = 1;

    return NULL;
}

/* A FIFO without a partner waits at the server and holds up nobody. */
static void test_fifo(void)
{
    struct amph_fwd_file f;
    struct stat st;
    size_t n;
    int done = 0;
    pthread_t t;

    IS(fopen_fwd("fifo", O_WRONLY | O_NONBLOCK, &f), ENXIO);
    pthread_create(&t, NULL, open_fifo_reader, &done);

    uint64_t start = amph_now_ns();

    for (int i = 0; i < 100; i++)
        IS(amph_fwd_stat(cl, NULL, fwd("fifo"), 0, &st), 0);

    CHECK(amph_now_ns() - start < 5 * AMPH_NS_PER_S);
    IS(fopen_fwd("fifo", O_WRONLY, &f), 0);
    IS(amph_fwd_write(cl, &f, "piped", 5, &n), 0);
    pthread_join(t, NULL);
    CHECK(done == 1);
    IS(amph_fwd_close(cl, &f), 0);
}

static void *wait_for_lock(void *arg)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10 };

    IS(amph_fwd_waitlock(cl, arg, &lock), 0);
    return NULL;
}

static void test_locks(void)
{
    struct amph_fwd_file a, b;
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10 };
    struct flock got;
    struct stat st;
    pthread_t t;

    IS(fopen_fwd("locked", O_RDWR | O_CREAT, &a), 0);
    IS(fopen_fwd("locked", O_RDWR, &b), 0);
    IS(amph_fwd_setlock(cl, &a, &lock), 0);
    IS(amph_fwd_setlock(cl, &b, &lock), EAGAIN);
    IS(amph_fwd_getlock(cl, &b, &lock, &got), 0);
    CHECK(got.l_type == F_WRLCK && got.l_start == 0 && got.l_len == 10);
    pthread_create(&t, NULL, wait_for_lock, &b);
    for (int i = 0; i < 50; i++)
        IS(amph_fwd_fstat(cl, &b, &st), 0); /* the file is usable while one waits */

    lock.l_type = F_UNLCK;
    IS(amph_fwd_setlock(cl, &a, &lock), 0);
    pthread_join(t, NULL);
    lock.l_type = F_RDLCK;
    IS(amph_fwd_setlock(cl, &a, &lock), EAGAIN);
    IS(amph_fwd_flock(cl, &a, LOCK_EX), 0);
    IS(amph_fwd_flock(cl, &b, LOCK_SH | LOCK_NB), EAGAIN);
    IS(amph_fwd_close(cl, &b), 0);
    IS(amph_fwd_setlock(cl, &a, &lock), 0);
    IS(amph_fwd_close(cl, &a), 0);
}

static void test_flags(void)
{
    struct amph_fwd_file f;
    int flags = 0;
    size_t n;

    IS(fopen_fwd("flags", O_RDWR | O_CREAT | O_NONBLOCK, &f), 0);
    IS(amph_fwd_getflags(cl, &f, &flags), 0);
    CHECK((flags & (O_ACCMODE | O_NONBLOCK | O_APPEND)) == (O_RDWR | O_NONBLOCK));
    IS(amph_fwd_setflags(cl, &f, O_APPEND), 0);
    IS(amph_fwd_getflags(cl, &f, &flags), 0);
    CHECK((flags & (O_NONBLOCK | O_APPEND)) == O_APPEND);
    IS(amph_fwd_write(cl, &f, "abc", 3, &n), 0);
    IS(amph_fwd_pwrite(cl, &f, 0, "d", 1, &n), 0);

    struct stat st;

    CHECK(stat(real("flags"), &st) == 0 && st.st_size == 4);
    IS(amph_fwd_close(cl, &f), 0);
}

static void test_xattr(void)
{
    char value[64];
    size_t n;

    if (setxattr(real("flags"), "user.colour", "green", 5, 0) != 0)
        return; /* this file system has none */

    IS(amph_fwd_getxattr(cl, NULL, fwd("flags"), "user.colour", 0, value, sizeof value, &n), 0);
    CHECK(n == 5 && memcmp(value, "green", 5) == 0);
    IS(amph_fwd_getxattr(cl, NULL, fwd("flags"), "user.colour", 0, value, 2, &n), ERANGE);
    IS(amph_fwd_getxattr(cl, NULL, fwd("flags"), "user.colour", 0, value, 0, &n), 0);
    CHECK(n == 5);
    IS(amph_fwd_getxattr(cl, NULL, fwd("flags"), "user.none", 0, value, sizeof value, &n), ENODATA);
}

/* An unauthenticated peer of a listener gets one sentence as its answer. */
static void refused(const struct amph_fwd_server_addr *where, bool same_host, const char *what,
                    const uint8_t *frame, size_t len, const char *want)
{
    uint8_t buf[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];
    struct amph_fwd_frame_in in;
    int fd;

    CHECK(amph_fwd_control_connect(where, same_host, 0, &fd) == AMPH_OK);
    CHECK(amph_fwd_control_receive(fd, buf, &in) == AMPH_OK && in.type == FWD_FRAME_GREET);
    CHECK(amph_fwd_control_send(fd, frame, len) == AMPH_OK);
    CHECK(amph_fwd_control_receive(fd, buf, &in) == AMPH_OK && in.type == FWD_FRAME_REFUSE);

    if (!memmem(in.body, in.len, want, strlen(want))) {
        printf("%s: the server says \"%.*s\"\n", what, (int)in.len, (const char *)in.body);
        failures++;
    }

    CHECK(amph_fwd_control_receive(fd, buf, &in) == AMPH_ERR_PEER); /* and then it hangs up */
    close(fd);
}

static void connect_wrongly(const struct amph_fwd_server_addr *where, bool same_host)
{
    uint8_t frame[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];
    uint8_t key[AMPH_KEY_BYTES] = { 1 };
    uint8_t nonce[FWD_NONCE_BYTES] = { 0 };
    struct amph_fwd_hello h = { .kind = FWD_HELLO_NEW, .pointer_bytes = 8 };
    size_t n = amph_fwd_frame_build(frame, FWD_FRAME_ASK, NULL, 0);

    frame[4] = FWD_VERSION + 1;
    refused(where, same_host, "another version", frame, n, "one version of Amphora");
    n = amph_fwd_hello_build(frame + FWD_FRAME_HEAD_BYTES, FWD_FRAME_BODY_MAX, &h, key, nonce);
    n = amph_fwd_frame_build(frame, FWD_FRAME_HELLO, frame + FWD_FRAME_HEAD_BYTES, n);
    refused(where, same_host, "another key", frame, n, "key");
    refused(where, same_host, "another protocol", (const uint8_t *)"GET / HTTP/1.0\r\n\r\n", 18,
            "not the iofwd protocol");
}

/* At the listener for its own host, and at the one on a port, if the job has one. */
static void test_listener(void)
{
    struct amph_fwd_server_addr where;
    void *value;
    size_t len;

    CHECK(amph_boot_lookup(cl->boot, cl->servers[0], FWD_CONTROL_KEY, AMPH_NS_PER_S, &value,
                           &len) == AMPH_OK);
    CHECK(amph_fwd_server_addr_parse(value, len, &where));
    free(value);
    connect_wrongly(&where, true);
    if (where.tcp.ss_family != AF_UNSPEC)
        connect_wrongly(&where, false);
}

/* A connection on which nothing is sent is closed after a while. */
static int stay_silent(void)
{
    struct amph_fwd_server_addr where;
    struct amph_fwd_frame_in in;
    uint8_t buf[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];
    void *value;
    size_t len;
    int fd;

    CHECK(amph_boot_lookup(cl->boot, cl->servers[0], FWD_CONTROL_KEY, AMPH_NS_PER_S, &value,
                           &len) == AMPH_OK);
    CHECK(amph_fwd_server_addr_parse(value, len, &where) &&
          amph_fwd_control_connect(&where, true, 0, &fd) == AMPH_OK);
    free(value);
    CHECK(amph_fwd_control_receive(fd, buf, &in) == AMPH_OK && in.type == FWD_FRAME_GREET);

    struct pollfd p = { .fd = fd, .events = POLLIN };

    CHECK(poll(&p, 1, (int)(3 * FWD_CONTROL_TIMEOUT_NS / AMPH_NS_PER_MS)) == 1 &&
          read(fd, buf, 1) == 0);
    close(fd);
    return failures;
}

static void test_counters(void)
{
    struct iofwd_stats a, b;
    struct amph_fwd_file f;
    size_t n;
    char buf[3000];

    memset(buf, 1, sizeof buf);
    IS(iofwd_stats(IOFWD_NONE, &a), 0);
    IS(fopen_fwd("counted", O_RDWR | O_CREAT, &f), 0);
    IS(amph_fwd_write(cl, &f, buf, sizeof buf, &n), 0);
    IS(amph_fwd_pread(cl, &f, 1000, buf, sizeof buf, &n), 0);
    IS(amph_fwd_close(cl, &f), 0);
    IS(iofwd_stats(IOFWD_NONE, &b), 0);
    CHECK(b.client == iofwd_client_number());
    CHECK(b.calls - a.calls == 4);
    CHECK(b.bytes_written - a.bytes_written == 3000);
    CHECK(b.bytes_read - a.bytes_read == 2000);

    /* The server counts for all its clients: only where this was the only one at both counts is the
     * number its own. */
    CHECK(a.clients > 1 || b.clients > 1 || b.open_files == a.open_files);
}

/* Many connections on which nothing is sent: the first ones are closed soon, the last may stay, and
 * clients are served. */
static int many_clients(void)
{
    enum {
        SILENT = 400
    };

    struct amph_fwd_server_addr where;
    struct stat st;
    struct pollfd first = { .events = POLLIN };
    uint8_t buf[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];
    struct amph_fwd_frame_in in;
    int fd[SILENT];
    void *value;
    size_t len;

    CHECK(amph_boot_lookup(cl->boot, cl->servers[0], FWD_CONTROL_KEY, AMPH_NS_PER_S, &value,
                           &len) == AMPH_OK);
    CHECK(amph_fwd_server_addr_parse(value, len, &where) && where.tcp.ss_family != AF_UNSPEC);
    free(value);

    uint64_t start = amph_now_ns();

    for (int i = 0; i < SILENT; i++)
        CHECK(amph_fwd_control_connect(&where, false, 0, &fd[i]) == AMPH_OK &&
              amph_fwd_control_receive(fd[i], buf, &in) == AMPH_OK);

    for (int i = 0; i < SILENT - 300; i++) {
        first.fd = fd[i];
        CHECK(poll(&first, 1, 5000) == 1 && recv(fd[i], buf, 1, 0) <= 0);
    }

    CHECK(amph_now_ns() - start < FWD_CONTROL_TIMEOUT_NS);
    CHECK(recv(fd[SILENT - 1], buf, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    IS(amph_fwd_stat(cl, NULL, "/fwd", 0, &st), 0);
    for (int i = 0; i < SILENT; i++)
        close(fd[i]);

    return failures != 0;
}

int main(int argc, char **argv)
{
    without_preload(amph_env_foreign("LD_PRELOAD"), argv);
    if (argc == 3 && strcmp(argv[1], "--image") == 0)
        return new_image(argv[2]);

    if (argc != 2) {
        fprintf(stderr, "usage: iofwd_calls DIRECTORY-OF-THE-SERVERS\n");
        return 2;
    }

    real_dir = argv[1];
    self_path = realpath("/proc/self/exe", NULL);

    int err = amph_fwd_process(&cl);

    if (err) {
        printf("no client: %s\n", strerror(err));
        return 1;
    }

    if (strcmp(real_dir, "--silent") == 0)
        return stay_silent();
    if (strcmp(real_dir, "--many-clients") == 0)
        return many_clients();

    snprintf(base, sizeof base, "client-%u", iofwd_client_number());
    umask(0);
    IS(amph_fwd_mkdir(cl, NULL, fwd(""), 0755), 0);

    /* clang-format off */
    static const struct { const char *name; void (*run)(void); } tests[] = {
        { "small", test_small }, { "paths", test_paths }, { "relative", test_relative }, { "dirents", test_dirents },
        { "sizes", test_sizes }, { "full", test_full }, { "threads", test_threads }, { "fifo", test_fifo }, { "locks", test_locks },
        { "flags", test_flags }, { "xattr", test_xattr }, { "fork", test_fork }, { "exec", test_exec }, { "signals", test_signals },
        { "killed", test_killed }, { "listener", test_listener }, { "counters", test_counters },
    };

    /* clang-format on */
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        int before = failures;

        tests[i].run();
        if (failures > before)
            printf("%s: %d failures\n", tests[i].name, failures - before);

        fflush(stdout);
    }

    return failures != 0;
}
