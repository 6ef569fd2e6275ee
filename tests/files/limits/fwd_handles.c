/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program under forwarding that also asks its server what it holds: an open file lives at the
 * server exactly as long as some process holds a descriptor for it; Amphora's own descriptors
 * survive a program that closes everything; signal handlers may write. Run under amphora-run -iofwd
 * /fwd=DIRECTORY; exits 0 or says what was wrong.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "include/iofwd.h"
#include "tests/files/fwd_is.h"

static char mine[64]; /* a directory for each process of the job */

static const char *in(const char *name)
{
    static char buf[4][128];
    static int next;
    char *p = buf[next++ & 3];

    snprintf(p, sizeof buf[0], "%s/%s", mine, name);
    return p;
}

static struct iofwd_stats stats(void)
{
    struct iofwd_stats s;

    IS(iofwd_stats(IOFWD_NONE, &s), 0);
    return s;
}

static unsigned alone(void)
{
    return getenv("FWD_ALONE") != NULL;
}

/* Files open at the server; other processes of the job may have some too, so only a job of one is
 * exact. */
static void open_files(unsigned wanted)
{
    if (alone())
        IS(stats().open_files, wanted);
}

/* A process's end reaches the server a moment later. */
static void open_files_soon(unsigned wanted)
{
    for (int ms = 0; alone() && stats().open_files != wanted; ms++) {
        if (ms > 8000)
            fail("files open at the server after 8 s", stats().open_files, wanted);

        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
}

static int wait_for(pid_t pid)
{
    int status = -1;

    if (waitpid(pid, &status, 0) != pid)
        return -1;

    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void counted(void)
{
    int fd = open(in("a"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    int copy;

    open_files(1);
    copy = dup(fd);
    open_files(1);
    IS(close(fd), 0);
    open_files(1);
    IS(write(copy, "x", 1), 1);
    IS(dup2(copy, 100), 100);
    IS(close(copy), 0);
    open_files(1);
    fd = open(in("b"), O_WRONLY | O_CREAT, 0600);
    open_files(2);
    IS(dup2(fd, 100), 100); /* the last descriptor of a */
    open_files(1);
    IS(dup2(2, 100), 100);
    IS(close(fd), 0);
    open_files(0);
    IS(close(100), 0);
    IS(open(in("none"), O_RDONLY), -1);
    IS(open(in("b"), O_CREAT | O_EXCL, 0600), -1);
    open_files(0);
    for (int i = 0; i < 50; i++)
        open(in("b"), O_RDONLY);

    open_files(50);
    closefrom(3);
    open_files(0);

    FILE *f = fopen(in("c"), "w");

    open_files(1);
    IS(fclose(f), 0);
    open_files(0);
}

/* A child holds what it inherited, also when the parent closes first and when the child is
 * killed. */
static void held_by_children(void)
{
    int ready[2];
    int fd = open(in("held"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    char c;

    IS(pipe(ready), 0);

    pid_t pid = fork();

    if (pid == 0) {
        if (read(ready[0], &c, 1) != 1 || write(fd, "child", 5) != 5)
            _exit(1);

        _exit(0);
    }

    IS(close(fd), 0);
    open_files(1);
    IS(write(ready[1], "x", 1), 1);
    IS(wait_for(pid), 0);
    open_files_soon(0);

    struct stat st;

    IS(stat(in("held"), &st), 0);
    IS(st.st_size, 5);

    fd = open(in("held"), O_WRONLY);
    pid = fork();

    if (pid == 0) {
        pause();
        _exit(0);
    }

    IS(close(fd), 0);
    open_files(1);
    kill(pid, SIGKILL);
    IS(wait_for(pid), 1009);
    open_files_soon(0);

    fd = open(in("held"), O_WRONLY | O_APPEND);
    pid = fork();

    if (pid == 0) {
        dup2(fd, 1);
        execlp("sh", "sh", "-c", "read x; echo after exec", (char *)NULL);
        _exit(99);
    }

    IS(close(fd), 0);
    open_files(1);
    kill(pid, SIGKILL);
    wait_for(pid);
    open_files_soon(0);
    close(ready[0]);
    close(ready[1]);
}

/* As daemons do. */
static void everything_closed(void)
{
    struct stat st;

    for (int fd = 3; fd < 5000; fd++)
        close(fd);

    int fd = open(in("d"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

    IS(fd, 3);
    IS(write(fd, "still there", 11), 11);
    IS(close_range(3, ~0U, 0), 0);

    for (fd = 3; fd < 1024; fd++)
        if (dup2(2, fd) != fd && errno != EBUSY && errno != EBADF)
            fail("dup2", fd, 0);

    IS(stat(in("d"), &st), 0);
    IS(st.st_size, 11);
    closefrom(3);
    IS(stat(in("d"), &st), 0);
    fd = open(in("d"), O_RDONLY);
    IS(fd, 3);
    IS(close(fd), 0);
    open_files(0);
}

static volatile sig_atomic_t ticks, missed, missed_errno;
static int log_fd;
static char by_name[128];

static void on_tick(int sig)
{
    /* a path, too, is the program's */
    int saved = errno;
    int fd = open(by_name, O_RDONLY);

    if (fd >= 0 && close(fd) == 0 && write(log_fd, "t", 1) == 1)
        ticks++;
    else
        missed++, missed_errno = errno;

    errno = saved;
}

static void from_a_signal_handler(void)
{
    struct stat st;
    int fd = open(in("e"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    char block[2000] = "";

    log_fd = open(in("log"), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    strcpy(by_name, in("log"));

    struct sigaction sa = { .sa_handler = on_tick, .sa_flags = SA_RESTART };

    sigaction(SIGALRM, &sa, NULL);

    struct itimerval every = { { 0, 700 }, { 0, 700 } };
    struct itimerval never = { { 0, 0 }, { 0, 0 } };

    setitimer(ITIMER_REAL, &every, NULL);

    int rounds = 0;

    while (rounds < 100 || (ticks < 5 && rounds < 200000)) {
        IS(pwrite(fd, block, sizeof block, 0), sizeof block);
        rounds++;
    }

    setitimer(ITIMER_REAL, &never, NULL);
    errno = missed_errno;
    IS(missed, 0);
    IS(fstat(log_fd, &st), 0);
    IS(st.st_size, ticks);
    IS(ticks >= 5, 1);
    IS(close(fd), 0);
    IS(close(log_fd), 0);
    open_files(0);
}

/* What was not caught fails on a placeholder instead of vanishing. */
static void placeholder_refuses(void)
{
    char folder[] = "/tmp/fwd-handles-XXXXXX";
    char fds[64], link[80], self[512];
    int fd = open(in("d"), O_RDWR);

    IS(mkdtemp(folder) != NULL, 1);
    snprintf(fds, sizeof fds, "%s/fds", folder);
    IS(symlink("/proc/self/fd", fds), 0);
    snprintf(link, sizeof link, "%s/%d", fds, fd); /* a way that is not caught */

    ssize_t n = readlink(link, self, sizeof self - 1);

    IS(n > 12 && memcmp(self, "/memfd:iofwd:", 13) == 0, 1);

    int raw = open(link, O_RDWR);

    IS(raw >= 0, 1);
    IS(unlink(fds), 0);
    IS(rmdir(folder), 0);
    IS(ftruncate(raw, 10), -1);
    IS(errno, EPERM);
    IS(write(raw, "lost", 4), -1);
    IS(close(raw), 0);
    IS(close(fd), 0);
}

/* A descriptor that comes by a way that is not caught says itself what it stands for, among several
 * of one server. */
static void sent_to_oneself(void)
{
    int pair[2];
    int got = -1;
    int one = open(in("one"), O_RDWR | O_CREAT, 0600);
    int two = open(in("two"), O_RDWR | O_CREAT, 0600);
    char byte = 0;
    char text[8] = "";
    char room[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec iov = { &byte, 1 };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room
    };

    IS(pwrite(one, "first", 5, 0), 5);
    IS(pwrite(two, "second", 6, 0), 6);
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    *CMSG_FIRSTHDR(&msg) = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
                                             .cmsg_level = SOL_SOCKET,
                                             .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &two, sizeof(int));
    IS(sendmsg(pair[0], &msg, 0), 1);
    IS(recvmsg(pair[1], &msg, 0), 1);
    memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
    IS(got != one && got != two, 1);
    IS(pread(got, text, sizeof text, 0), 6);
    IS(memcmp(text, "second", 6), 0);
    IS(lseek(got, 3, SEEK_SET), 3);
    IS(lseek(two, 0, SEEK_CUR), 3); /* one open file */
    IS(close(two), 0);
    IS(read(got, text, sizeof text), 3);
    IS(close(got), 0);
    IS(close(one), 0);
    IS(close(pair[0]), 0);
    IS(close(pair[1]), 0);
}

/* A helper opens files, sends them and closes its descriptors before the receiver makes a call on its own. */
#define SENT 5

static void send_descriptor(int to, int fd)
{
    char byte = 0;
    char room[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec iov = { &byte, 1 };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room
    };

    *CMSG_FIRSTHDR(&msg) = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
                                             .cmsg_level = SOL_SOCKET,
                                             .cmsg_type = SCM_RIGHTS };
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &fd, sizeof(int));
    IS(sendmsg(to, &msg, 0), 1);
}

static int receive_descriptor(int from)
{
    char byte = 0;
    char room[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec iov = { &byte, 1 };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room
    };
    int fd = -1;

    IS(recvmsg(from, &msg, 0), 1);
    IS(CMSG_FIRSTHDR(&msg) != NULL, 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
    return fd;
}

static void helper(int socket)
{
    char name[64];
    char byte = 0;

    for (int i = 0; i < SENT; i++) {
        snprintf(name, sizeof name, "%s/sent.%d", mine, i);

        int fd = open(name, O_RDWR | O_CREAT, 0600);

        send_descriptor(socket, fd);
        IS(close(fd), 0);
    }

    IS(write(socket, &byte, 1), 1);
    IS(read(socket, &byte, 1), 0); /* the receiver has ended its work */
    _exit(0);
}

static void sent_and_closed(void)
{
    int pair[2];
    int got[SENT];
    char byte = 0;
    char text[8] = "";

    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);

    pid_t pid = fork();
    if (pid == 0) {
        close(pair[1]);
        helper(pair[0]);
    }

    close(pair[0]);
    for (int i = 0; i < SENT; i++)
        got[i] = receive_descriptor(pair[1]);
    IS(read(pair[1], &byte, 1), 1);

    for (int i = 0; i < SENT; i++) {
        IS(write(got[i], "kept", 4), 4);
        IS(pread(got[i], text, sizeof text, 0), 4);
        IS(memcmp(text, "kept", 4), 0);
        IS(close(got[i]), 0);
    }

    IS(close(pair[1]), 0);
    IS(wait_for(pid), 0);
}

/* The reader of a FIFO finds its end when the writer that was sent and the one that sent it are closed, while
 * their process goes on. */
static void read_to_the_end(const char *fifo)
{
    char text[8] = "";

    signal(SIGALRM, SIG_DFL);
    alarm(20); /* ends this process if the end does not come */

    int fd = open(fifo, O_RDONLY);

    IS(read(fd, text, sizeof text), 4);
    IS(memcmp(text, "last", 4), 0);
    IS(read(fd, text, sizeof text), 0);
    _exit(0);
}

static void sent_fifo(void)
{
    const char *fifo = in("fifo");
    int pair[2];

    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    IS(mkfifo(fifo, 0600), 0);

    pid_t pid = fork();
    if (pid == 0)
        read_to_the_end(fifo);

    int fd = open(fifo, O_WRONLY);

    send_descriptor(pair[0], fd);

    int got = receive_descriptor(pair[1]);

    /* the receiver's first call comes before the sender's close, which is not put off for a FIFO */
    IS(write(got, "last", 4), 4);
    IS(close(fd), 0);
    IS(close(got), 0);
    IS(wait_for(pid), 0);
    IS(close(pair[0]), 0);
    IS(close(pair[1]), 0);
}

/* While dup2 makes one descriptor local and forwarded by turns, other threads' calls find one file
 * or the other. */

#define TURNED 100
#define TURNS 30000

static atomic_bool turned_enough;

static ssize_t look_by_read(void)
{
    char c = 0;
    ssize_t n = pread(TURNED, &c, 1, 0);

    return n == 1 && c != 'l' && c != 'f' ? -2 : n;
}

static ssize_t look_by_write(void)
{
    return pwrite(TURNED, "w", 1, 1);
}

static ssize_t look_by_stat(void)
{
    struct stat st;

    if (fstat(TURNED, &st) != 0)
        return -1;

    return st.st_size == 20 || st.st_size == 30 ? 1 : -2;
}

static const char *name_of(const void *by)
{
    if (by == (void *)look_by_read)
        return "pread";

    return by == (void *)look_by_write ? "pwrite" : "fstat";
}

static void *look(void *by)
{
    for (long looks = 0; !turned_enough; looks++) {
        ssize_t n = ((ssize_t(*)(void))by)();

        if (n != 1)
            fail(name_of(by), n, 1);
    }

    return NULL;
}

static void turned(void)
{
    void *const ways[] = { (void *)look_by_read, (void *)look_by_write, (void *)look_by_stat };
    int local = memfd_create("local", 0);
    int forwarded = open(in("turned"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    pthread_t threads[3];

    IS(pwrite(local, "l", 1, 0), 1);
    IS(ftruncate(local, 20), 0);
    IS(pwrite(forwarded, "f", 1, 0), 1);
    IS(ftruncate(forwarded, 30), 0);
    IS(dup2(local, TURNED), TURNED);
    for (int i = 0; i < 3; i++)
        IS(pthread_create(&threads[i], NULL, look, ways[i]), 0);

    for (int i = 0; i < TURNS; i++)
        IS(dup2(i & 1 ? local : forwarded, TURNED), TURNED);

    turned_enough = true;
    for (int i = 0; i < 3; i++)
        IS(pthread_join(threads[i], NULL), 0);

    IS(close(TURNED), 0);

    /* what is closed stays so */
    IS(pread(TURNED, (char[1]){ 0 }, 1, 0) == -1 && errno == EBADF, 1);
    IS(close(local), 0);
    IS(close(forwarded), 0);
}

int main(void)
{
    const char *rank = getenv("AMPHORA_RANK");

    snprintf(mine, sizeof mine, "/fwd/%s", rank ? rank : "x");
    IS(mkdir(mine, 0700), 0);
    counted();
    held_by_children();
    everything_closed();
    from_a_signal_handler();
    placeholder_refuses();
    sent_to_oneself();
    sent_and_closed();
    sent_fifo();
    turned();
    IS(stats().errors > 0 && stats().bytes_written > 0, 1);

    return 0;
}
