/* SPDX-License-Identifier: BSD-3-Clause */
/* Times calls, for trap_figures.sh: PROGRAM empty, PROGRAM calls DIRECTORY, or PROGRAM floor.  Prints
 * "NAME NANOSECONDS" a line, each the median of ROUNDS means. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/files/bench.h"

#define ROUNDS 15

static char data[1 << 20] __attribute__((aligned(4096)));
static char local_path[64];
static int local_fd, far_fd;

/* A quarter of the calls first, untimed. */
static void measure(const char *name, int calls, void (*call)(int i))
{
    for (int i = 0; i < calls / 4 + 1; i++)
        call(i);

    bench(name, ROUNDS, calls, call, NULL);
}

static void fail(const char *what)
{
    perror(what);
    _exit(1);
}

/* ---- an empty supervisor ---- */

static void reported(int i)
{
    if (syscall(SYS_getppid) != 7)
        fail("getppid");
}

/* Replies at once, on the caller's core, as iofwd-trap does. */
static void supervise(int listener)
{
    for (;;) {
        struct seccomp_notif n;
        struct seccomp_notif_resp r;

        memset(&n, 0, sizeof n);
        memset(&r, 0, sizeof r);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n) != 0)
            _exit(0);

        r.id = n.id;
        r.val = 7;
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r) != 0)
            _exit(0);
    }
}

static int take_listener(int socket)
{
    char space[CMSG_SPACE(sizeof(int))];
    char byte;
    struct iovec iov = { &byte, 1 };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space
    };
    int listener;

    if (recvmsg(socket, &m, 0) != 1)
        fail("recvmsg");

    memcpy(&listener, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof listener);
    return listener;
}

static void send_listener(int socket, int listener)
{
    char space[CMSG_SPACE(sizeof(int))] = "";
    char byte = 0;
    struct iovec iov = { &byte, 1 };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space
    };
    struct cmsghdr *head = CMSG_FIRSTHDR(&m);

    *head = (struct cmsghdr){ CMSG_LEN(sizeof listener), SOL_SOCKET, SCM_RIGHTS };
    memcpy(CMSG_DATA(head), &listener, sizeof listener);
    if (sendmsg(socket, &m, 0) != 1)
        fail("sendmsg");
}

static void empty(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        fail("socketpair");

    pid_t parent = getpid();
    pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);

        int listener = take_listener(pair[1]);

        ioctl(listener, SECCOMP_IOW(4, uint64_t), 1UL); /* SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP */
        if (write(pair[1], "x", 1) != 1 || getppid() != parent)
            _exit(1);

        supervise(listener);
    }

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);

    int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    char byte;

    if (listener < 0)
        fail("seccomp");

    send_listener(pair[0], listener);
    close(listener);
    if (read(pair[0], &byte, 1) != 1)
        fail("read");

    measure("empty_round_trip", 3000, reported);
    kill(child, SIGKILL);
}

/* ---- calls ---- */

static void ordinary_pread(int i)
{
    if (pread(local_fd, data, 1, 0) != 1)
        fail("pread");
}

/* The C library's fstat is a call on an empty path. */
static void library_fstat(int i)
{
    struct stat st;

    if (fstat(local_fd, &st) != 0)
        fail("fstat");
}

static void ordinary_lseek(int i)
{
    if (lseek(local_fd, 0, SEEK_SET) != 0)
        fail("lseek");
}

static void local_stat(int i)
{
    struct stat st;

    if (stat(local_path, &st) != 0)
        fail("stat");
}

static void relative_access(int i)
{
    if (access("tmp", F_OK) != 0)
        fail("access");
}

static void far_4k(int i)
{
    if (pread(far_fd, data, 4096, 0) != 4096)
        fail("pread");
}

static void far_1m(int i)
{
    if (pread(far_fd, data, 1 << 20, 0) != 1 << 20)
        fail("pread");
}

static void far_stat(int i)
{
    struct stat st;

    if (stat("bench", &st) != 0)
        fail("stat");
}

static void open_local(void)
{
    snprintf(local_path, sizeof local_path, "/tmp/trap-bench.%d", (int)getpid());
    local_fd = open(local_path, O_RDWR | O_CREAT, 0600);
    if (local_fd < 0 || write(local_fd, "x", 1) != 1)
        fail(local_path);
}

/* Beside the shortest filter that looks at an argument: no filter that does costs less, because the kernel
 * skips a filter only for calls that it allows whatever their arguments are. */
static void floor_of_filters(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x12345678, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };

    open_local();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) !=
        0)
        fail("seccomp");

    measure("ordinary_pread", 50000, ordinary_pread);
    measure("ordinary_lseek", 50000, ordinary_lseek);
    unlink(local_path);
}

static void calls(const char *dir)
{
    open_local();
    measure("ordinary_pread", 50000, ordinary_pread);
    measure("ordinary_lseek", 50000, ordinary_lseek);
    measure("library_fstat", 3000, library_fstat);
    measure("local_stat", 3000, local_stat);
    if (chdir("/") != 0)
        fail("/");

    measure("relative_access", 3000, relative_access);
    unlink(local_path);
    if (chdir(dir) != 0)
        fail(dir);

    far_fd = open("bench", O_RDWR | O_CREAT, 0600);
    if (far_fd < 0 || pwrite(far_fd, data, sizeof data, 0) != sizeof data)
        fail("bench");

    measure("stat", 2000, far_stat);
    measure("read_4k", 2000, far_4k);
    measure("read_1m", 40, far_1m);
    unlink("bench");
}

int main(int argc, char **argv)
{
    memset(data, 'd', sizeof data);
    if (argc == 2 && strcmp(argv[1], "empty") == 0)
        empty();
    else if (argc == 2 && strcmp(argv[1], "floor") == 0)
        floor_of_filters();
    else if (argc == 3 && strcmp(argv[1], "calls") == 0)
        calls(argv[2]);
    else
        return 2;

    return 0;
}
