/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For ways_answers.sh: PROGRAM DIRECTORY SECTION [SOCKET] works in the directory and prints a line for
 * each answer of the kernel, so that the answers of two directories can be compared.
 *
 *   flags    ioctl and fcntl of a file, a directory and an O_PATH descriptor
 *   special  FIFOs and sockets
 *   nameless files that O_TMPFILE makes
 *   rights   POSIX access lists
 *   send     sends an open file and a mapped one to whoever listens at SOCKET
 *
 * PROGRAM receive SOCKET: in a process that is not forwarded, receives them and prints what they are.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef F_GET_RW_HINT
#define F_GET_RW_HINT (1024 + 11)
#define F_SET_RW_HINT (1024 + 12)
#endif

static void *const nowhere = (void *)8;

/* Prints what a call has returned: its error, or the value. */
static long answer(const char *what, long result, long value)
{
    if (result < 0)
        printf("%s: %s\n", what, strerrorname_np(errno));
    else
        printf("%s: %ld\n", what, value);

    return result;
}

static int need(const char *what, int result)
{
    if (result >= 0)
        return result;

    printf("%s: %s\n", what, strerrorname_np(errno));
    exit(1);
}

static int make(const char *name, const char *text)
{
    int fd = need(name, open(name, O_RDWR | O_CREAT | O_TRUNC, 0644));

    need(name, (int)write(fd, text, strlen(text)));
    return fd;
}

/* ---- flags ---- */

static void ask_int(const char *what, int fd, unsigned long request, int value)
{
    char line[64];
    long result = ioctl(fd, request, &value);

    snprintf(line, sizeof line, "ioctl %s", what);
    answer(line, result, value);
}

static void control(const char *what, int fd, int command, long arg)
{
    char line[64];
    long result = fcntl(fd, command, arg);

    snprintf(line, sizeof line, "fcntl %s", what);
    answer(line, result, result);
}

static void ioctls(int fd)
{
    struct fsxattr extended = { 0 };
    int own = 0;
    int version = 0;

    lseek(fd, 3, SEEK_SET);
    ask_int("FIONREAD", fd, FIONREAD, -1);
    lseek(fd, 30, SEEK_SET);
    ask_int("FIONREAD behind the end", fd, FIONREAD, -1);
    answer("ioctl FIONREAD to no memory", ioctl(fd, FIONREAD, nowhere), 0);
    ask_int("FIGETBSZ", fd, FIGETBSZ, -1);
    ask_int("FIONBIO on", fd, FIONBIO, 1);
    control("F_GETFL", fd, F_GETFL, 0);
    ask_int("FIONBIO off", fd, FIONBIO, 0);
    control("F_GETFL", fd, F_GETFL, 0);
    answer("ioctl FIONBIO from no memory", ioctl(fd, FIONBIO, nowhere), 0);
    ask_int("FIOASYNC on", fd, FIOASYNC, 1);
    ask_int("FIOASYNC off", fd, FIOASYNC, 0);
    ask_int("TIOCGWINSZ", fd, TIOCGWINSZ, 0);

    /* the file system has flags of its own */
    ask_int("GETFLAGS", fd, FS_IOC_GETFLAGS, -1);
    ioctl(fd, FS_IOC_GETFLAGS, &own);
    ask_int("SETFLAGS", fd, FS_IOC_SETFLAGS, own | FS_NODUMP_FL | FS_NOATIME_FL);
    ask_int("GETFLAGS, set", fd, FS_IOC_GETFLAGS, -1);
    answer("ioctl FSGETXATTR", ioctl(fd, FS_IOC_FSGETXATTR, &extended), extended.fsx_xflags);
    extended.fsx_xflags &= ~(unsigned)FS_XFLAG_NOATIME;
    answer("ioctl FSSETXATTR", ioctl(fd, FS_IOC_FSSETXATTR, &extended), 0);
    ask_int("GETFLAGS, set again", fd, FS_IOC_GETFLAGS, -1);
    ask_int("SETFLAGS of no known flag", fd, FS_IOC_SETFLAGS, 1 << 30);
    ask_int("SETFLAGS, as before", fd, FS_IOC_SETFLAGS, own);
    answer("ioctl GETVERSION", ioctl(fd, FS_IOC_GETVERSION, &version), 0);
    answer("ioctl SETVERSION", ioctl(fd, FS_IOC_SETVERSION, &version), 0);
    answer("ioctl GETFLAGS to no memory", ioctl(fd, FS_IOC_GETFLAGS, nowhere), 0);
    answer("ioctl SETFLAGS from no memory", ioctl(fd, FS_IOC_SETFLAGS, nowhere), 0);

    answer("ioctl FICLONE", ioctl(fd, FICLONE, fd), 0);
    answer("ioctl FIOCLEX", ioctl(fd, FIOCLEX), 0);
    control("F_GETFD", fd, F_GETFD, 0);
    answer("ioctl FIONCLEX", ioctl(fd, FIONCLEX), 0);
    control("F_GETFD", fd, F_GETFD, 0);
}

static void fcntls(int fd)
{
    uint64_t hint = 0;

    control("F_GETLEASE without one", open("flags", O_RDONLY), F_GETLEASE, 0);
    control("F_SETLEASE F_UNLCK without one", fd, F_SETLEASE, F_UNLCK);
    control("F_GETPIPE_SZ", fd, F_GETPIPE_SZ, 0);
    control("F_SETPIPE_SZ", fd, F_SETPIPE_SZ, 4096);
    control("F_GET_SEALS", fd, F_GET_SEALS, 0);
    control("F_ADD_SEALS", fd, F_ADD_SEALS, F_SEAL_WRITE);
    control("F_GETOWN", fd, F_GETOWN, 0);
    control("F_GETSIG", fd, F_GETSIG, 0);
    control("of no known command", fd, 12345, 0);
    answer("fcntl F_GET_RW_HINT", fcntl(fd, F_GET_RW_HINT, &hint), (long)hint);
    hint = 2;
    answer("fcntl F_SET_RW_HINT", fcntl(fd, F_SET_RW_HINT, &hint), 0);
    answer("fcntl F_GET_RW_HINT", fcntl(fd, F_GET_RW_HINT, &hint), (long)hint);

    control("F_SETFL O_APPEND", fd, F_SETFL, O_APPEND);
    control("F_GETFL", fd, F_GETFL, 0);
}

static void flags(void)
{
    int fd = make("flags", "0123456789");

    ioctls(fd);
    fcntls(fd);

    int path = need("O_PATH", open("flags", O_PATH));

    ask_int("FIONREAD of O_PATH", path, FIONREAD, -1);
    ask_int("GETFLAGS of O_PATH", path, FS_IOC_GETFLAGS, -1);
    control("F_GETFL of O_PATH", path, F_GETFL, 0);
    control("F_SETFL of O_PATH", path, F_SETFL, 0);
    control("F_GETFD of O_PATH", path, F_GETFD, 0);

    int dir = need(".", open(".", O_RDONLY | O_DIRECTORY));
    int own = 0;

    ask_int("FIONREAD of a directory", dir, FIONREAD, -1);
    ioctl(dir, FS_IOC_GETFLAGS, &own);
    ask_int("SETFLAGS of a directory", dir, FS_IOC_SETFLAGS, own | FS_NODUMP_FL);
    ask_int("GETFLAGS of a directory", dir, FS_IOC_GETFLAGS, -1);
    ask_int("SETFLAGS of a directory", dir, FS_IOC_SETFLAGS, own);
    unlink("flags");
}

/* ---- special files ---- */

static void show(const char *what, int result, const struct stat *st)
{
    if (answer(what, result, 0) >= 0)
        printf("  mode %o, %ld bytes, %ld links\n", st->st_mode, (long)st->st_size,
               (long)st->st_nlink);
}

static void show_name(const char *name)
{
    char line[64];
    struct stat st;
    struct statx stx;
    int result = stat(name, &st);

    snprintf(line, sizeof line, "stat %s", name);
    show(line, result, &st);
    snprintf(line, sizeof line, "statx %s", name);
    if (answer(line, statx(AT_FDCWD, name, 0, STATX_BASIC_STATS, &stx), 0) >= 0)
        printf("  mode %o, %ld bytes\n", stx.stx_mode, (long)stx.stx_size);

    snprintf(line, sizeof line, "access %s", name);
    answer(line, access(name, R_OK | W_OK), 0);
}

static void show_descriptor(const char *what, int fd)
{
    struct stat st;
    int result = fstat(fd, &st);

    show(what, result, &st);
}

static void fifos(void)
{
    need("mkfifo", mkfifo("fifo", 0640));
    show_name("fifo");

    int fd = need("open a FIFO", open("fifo", O_RDWR | O_NONBLOCK));

    need("write", (int)write(fd, "abcde", 5));
    show_descriptor("fstat of a FIFO", fd);
    ask_int("FIONREAD of a FIFO", fd, FIONREAD, -1);
    ask_int("GETFLAGS of a FIFO", fd, FS_IOC_GETFLAGS, -1);
    ask_int("FIGETBSZ of a FIFO", fd, FIGETBSZ, -1);
    ask_int("FIOASYNC of a FIFO, off", fd, FIOASYNC, 0);
    control("F_GETFL of a FIFO", fd, F_GETFL, 0);
    control("F_SETPIPE_SZ of a FIFO", fd, F_SETPIPE_SZ, 8192);
    control("F_GETPIPE_SZ of a FIFO", fd, F_GETPIPE_SZ, 0);
    answer("lseek of a FIFO", lseek(fd, 0, SEEK_SET), 0);
    answer("fsync of a FIFO", fsync(fd), 0);
    answer("ftruncate of a FIFO", ftruncate(fd, 0), 0);
    answer("unlink a FIFO", unlink("fifo"), 0);
}

static int bind_at(int fd, const char *path)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    return bind(fd, (void *)&at, sizeof at);
}

static int connect_at(int fd, const char *path)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    return connect(fd, (void *)&at, sizeof at);
}

/* Sockets that this host makes: on a server, or refused, but never beside the directory. */
static void bound(const char *what, const char *path)
{
    char line[64];
    int fd = need("socket", socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    int other = need("socket", socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));

    snprintf(line, sizeof line, "bind %s", what);
    if (answer(line, bind_at(fd, path), 0) < 0)
        return;

    need("listen", listen(fd, 1));
    snprintf(line, sizeof line, "connect %s", what);
    answer(line, connect_at(other, path), 0);
    snprintf(line, sizeof line, "unlink %s", what);
    answer(line, unlink(path), 0);
}

static void sockets(const char *dir)
{
    char path[100];
    int fd = need("socket", socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));

    close(make("file", "text"));
    need("mknod", mknod("socket", S_IFSOCK | 0640, 0));
    show_name("socket");
    answer("open a socket", open("socket", O_RDWR), 0);

    int by_path = need("open a socket by O_PATH", open("socket", O_PATH));

    show_descriptor("fstat of a socket", by_path);
    answer("connect to a socket that nobody has open", connect_at(fd, "socket"), 0);
    answer("connect to a file", connect_at(fd, "file"), 0);
    answer("connect to nothing", connect_at(fd, "none"), 0);
    answer("unlink a socket", unlink("socket"), 0);
    unlink("file");
    bound("by a relative path", "bound");
    snprintf(path, sizeof path, "%s/bound", dir);
    bound("by an absolute path", path);
}

/* ---- files without a name ---- */

static void nameless(void)
{
    char path[64];
    struct stat st;
    int fd = open(".", O_RDWR | O_TMPFILE, 0640);

    if (answer("O_TMPFILE", fd, 0) >= 0) {
        need("write", (int)write(fd, "nameless", 8));
        show_descriptor("fstat of it", fd);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        answer("link it by /proc", linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW), 0);
        show("stat of it", stat("named", &st), &st);
        unlink("named");
    }

    answer("O_TMPFILE, O_RDONLY", open(".", O_RDONLY | O_TMPFILE, 0600), 0);

    /* what programs do that find no O_TMPFILE */
    char name[] = "tmp.XXXXXX";

    fd = need("mkstemp", mkstemp(name));
    need("unlink", unlink(name));
    need("write", (int)write(fd, "removed", 7));
    show_descriptor("fstat of a removed file", fd);
    FILE *f = tmpfile();

    answer("tmpfile", f ? 0 : -1, 0);
}

/* ---- access lists ---- */

/* As the kernel takes them: version 2, entries {tag, permission, id}. */
struct list {
    uint32_t version;
    struct {
        uint16_t tag, permission;
        uint32_t id;
    } entry[5];
};

static void fill(struct list *list, unsigned owner, unsigned user, unsigned group, unsigned mask,
                 unsigned other)
{
    const uint16_t tags[] = { 1, 2, 4, 16, 32 };
    const unsigned permissions[] = { owner, user, group, mask, other };

    list->version = htole32(2);
    for (int i = 0; i < 5; i++) {
        list->entry[i].tag = htole16(tags[i]);
        list->entry[i].permission = htole16((uint16_t)permissions[i]);
        list->entry[i].id = htole32(tags[i] == 2 ? geteuid() : UINT32_MAX);
    }
}

static void show_list(const char *name, const char *which)
{
    struct list list;
    char line[80];
    ssize_t n = getxattr(name, which, &list, sizeof list);

    snprintf(line, sizeof line, "%s of %s", which, name);
    answer(line, n, n);
    for (ssize_t i = 0; i < (n - 4) / 8; i++)
        printf("  tag %u may %o, number %u\n", le16toh(list.entry[i].tag),
               le16toh(list.entry[i].permission), le32toh(list.entry[i].id));
}

static void show_mode(const char *name)
{
    struct stat st;

    if (answer(name, stat(name, &st), 0) >= 0)
        printf("  mode %o\n", st.st_mode);
}

static void rights(void)
{
    static const char access_list[] = "system.posix_acl_access";
    static const char default_list[] = "system.posix_acl_default";
    struct list list;

    umask(027);
    close(make("listed", "text"));
    show_list("listed", access_list);
    fill(&list, 6, 4, 4, 4, 0);
    answer("set a list", setxattr("listed", access_list, &list, sizeof list, 0), 0);
    show_list("listed", access_list);
    show_mode("listed");
    answer("chmod", chmod("listed", 0600), 0);
    show_list("listed", access_list);
    list.version = htole32(77);
    answer("set a list of another version", setxattr("listed", access_list, &list, sizeof list, 0),
           0);
    answer("remove a list", removexattr("listed", access_list), 0);
    show_list("listed", access_list);
    show_mode("listed");

    /* what a directory gives to files that are made in it; the umask has no effect there */
    need("mkdir", mkdir("dir", 0755));
    fill(&list, 7, 7, 5, 7, 4);
    answer("set a default list", setxattr("dir", default_list, &list, sizeof list, 0), 0);
    show_list("dir", default_list);
    close(need("create", open("dir/file", O_CREAT | O_WRONLY, 0666)));
    need("mkdir", mkdir("dir/dir", 0777));
    show_mode("dir/file");
    show_list("dir/file", access_list);
    show_mode("dir/dir");
    show_list("dir/dir", default_list);
    answer("set a default list of a file", setxattr("listed", default_list, &list, sizeof list, 0),
           0);
    unlink("listed");
    unlink("dir/file");
    rmdir("dir/dir");
    rmdir("dir");
}

/* ---- descriptors in messages ---- */

static void send_one(int to, int fd, bool several)
{
    char space[CMSG_SPACE(sizeof(int))] = "";
    char byte = 0;
    struct iovec iov = { &byte, 1 };
    struct mmsghdr m = {
        { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space },
        0
    };
    struct cmsghdr *head = CMSG_FIRSTHDR(&m.msg_hdr);

    *head = (struct cmsghdr){ CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS };
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    answer("send a descriptor", several ? sendmmsg(to, &m, 1, 0) : sendmsg(to, &m.msg_hdr, 0), 0);
}

static void send_files(const char *at)
{
    int to = need("socket", socket(AF_UNIX, SOCK_STREAM, 0));
    int fd = make("sent", "0123456789");
    int mapped = make("mapped", "mapped text");

    need("connect", connect_at(to, at));
    lseek(fd, 4, SEEK_SET);
    lseek(mapped, 7, SEEK_SET);
    if (mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, mapped, 0) == MAP_FAILED)
        need("mmap", -1);

    need("write", (int)pwrite(mapped, "MAPPED", 6, 0));
    send_one(to, fd, false);
    send_one(to, mapped, true);
    send_one(to, STDIN_FILENO, false);

    /* nothing is passed, and the message arrives */
    answer("send a byte", send(to, "x", 1, 0), 0);
}

/* Prints the rest of what the descriptor is open to. */
static void print_received(int fd)
{
    char text[64] = "";
    off_t off = lseek(fd, 0, SEEK_CUR);
    ssize_t n = read(fd, text, sizeof text - 1);

    printf("received: %s at %ld: \"%s\"", n < 0 ? strerrorname_np(errno) : "read", (long)off, text);
    memset(text, 0, sizeof text);
    n = pread(fd, text, sizeof text - 1, 0);
    printf(", in all: %s \"%s\"\n", n < 0 ? strerrorname_np(errno) : "read", text);
}

static int receive(const char *at)
{
    int fd = need("socket", socket(AF_UNIX, SOCK_STREAM, 0));

    alarm(60);
    unlink(at);
    need("bind", bind_at(fd, at));
    need("listen", listen(fd, 1));

    int from = need("accept", accept(fd, NULL, NULL));

    for (;;) {
        char space[CMSG_SPACE(sizeof(int))] = "";
        char byte = 0;
        struct iovec iov = { &byte, 1 };
        struct msghdr m = {
            .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space
        };

        if (need("recvmsg", (int)recvmsg(from, &m, 0)) == 0)
            return 0;

        if (CMSG_FIRSTHDR(&m)) {
            memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
            print_received(fd);
        } else {
            puts("received a byte");
        }
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "receive") == 0)
        return receive(argv[2]);

    if (argc < 3)
        return 2;

    const char *section = argv[2];

    signal(SIGIO, SIG_IGN);
    need("chdir", chdir(argv[1]));
    if (strcmp(section, "flags") == 0)
        flags();
    else if (strcmp(section, "special") == 0)
        fifos(), sockets(argv[1]);
    else if (strcmp(section, "nameless") == 0)
        nameless();
    else if (strcmp(section, "rights") == 0)
        rights();
    else if (strcmp(section, "send") == 0 && argc == 4)
        send_files(argv[3]);
    else
        return 2;

    return 0;
}
