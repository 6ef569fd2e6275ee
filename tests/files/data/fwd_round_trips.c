/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_round_trips PART DIRECTORY SERVER: what programs on another host than their server need not wait for, and what
 * they must; see fwd_round_trips.sh.  SERVER: the server's process, which is stopped meanwhile.
 *   closes       closes of files that were only read return while the server is stopped, all others do not
 *   locks        the lock of a file that was only read is free for another client when its close has returned
 *   holders      a child of fork holds no file that its parent has closed; closes leave nothing at the server
 *   copies       what one client has copied from file to file, another one sees, and the offsets are right
 *   seeks        seeks of files that no other process shares return while the server is stopped, all others do not
 *   directories  names that another client makes show after rewinddir, and after the end
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/fwd_is.h"
#include "tests/files/fwd_send.h"
#include "tests/files/fwd_say.h"

#define LONG_MS 20000 /* within which a close must return that does not wait */
#define SHORT_MS 50   /* after which the server goes on, for a close that waits */

static pid_t server;
static volatile sig_atomic_t resumed;

static void resume(int sig)
{
    resumed = 1;
    kill(server, SIGCONT);
}

/* Does /proc show the process in this state? */
static bool is_in_state(pid_t pid, char state)
{
    char path[64], text[256];

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);

    FILE *f = fopen(path, "r");
    const char *at = f && fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;

    if (f)
        fclose(f);

    return at && at[2] == state;
}

static void stop_server(void)
{
    IS(kill(server, SIGSTOP), 0);
    while (!is_in_state(server, 'T'))
        usleep(1000);
}

/* Stops the server, which goes on after so long. */
static void stop_for(int ms)
{
    struct itimerval in = { .it_value = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 } };

    resumed = 0;
    stop_server();
    setitimer(ITIMER_REAL, &in, NULL);
}

/* Did the call since stop_for wait until the server went on? */
static bool has_waited(void)
{
    struct itimerval none = { .it_value = { 0 } };
    bool waited = resumed;

    setitimer(ITIMER_REAL, &none, NULL);
    kill(server, SIGCONT);
    return waited;
}

/* Does this close return only after the stopped server goes on? */
static bool waits(int fd, DIR *stream, int ms)
{
    stop_for(ms);

    int result = stream ? closedir(stream) : close(fd);
    bool waited = has_waited();

    IS(result, 0);
    return waited;
}

#define AT_ONCE(fd) IS(waits(fd, NULL, LONG_MS), false)
#define WAITS(fd) IS(waits(fd, NULL, SHORT_MS), true)

static int opened(const char *name, int flags)
{
    int fd = open(in(name), flags, 0644);

    if (fd < 0)
        fail(name, fd, 0);

    return fd;
}

/* A file that has been read. */
static int read_file(void)
{
    char buf[64];
    int fd = opened("text", O_RDONLY);

    IS(read(fd, buf, 6), 6);
    IS(lseek(fd, 0, SEEK_CUR), 6);
    return fd;
}

static void child(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);

    IS(waitpid(pid, NULL, 0), pid);
}

static void closes(void)
{
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    struct stat st;
    int fd = read_file();
    int pair[2];

    AT_ONCE(fd);

    fd = read_file();
    IS(fstat(fd, &st), 0);

    int other = dup(fd);

    IS(close(fd), 0);
    AT_ONCE(other);

    DIR *stream = opendir(in("folder"));

    IS(stream != NULL && readdir(stream) != NULL, true);
    IS(waits(-1, stream, LONG_MS), false);

    WAITS(opened("text", O_RDWR));
    WAITS(opened("text", O_WRONLY));
    WAITS(opened("made", O_RDONLY | O_CREAT | O_TRUNC));

    fd = read_file();
    IS(flock(fd, LOCK_SH), 0);
    WAITS(fd);

    fd = read_file();
    IS(fcntl(fd, F_OFD_SETLK, &lock), 0);
    WAITS(fd);

    fd = read_file();
    IS(fcntl(fd, F_SETLK, &lock), 0);
    WAITS(fd);

    fd = read_file();
    child();
    WAITS(fd);

    fd = read_file();
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    send_fd(pair[0], fd);
    close(pair[0]);
    close(pair[1]);
    AT_ONCE(fd); /* the process keeps it for the receiver (interpose/fd/passed.c) */
}

/* ---- another client ---- */

static int to[2], back[2];

/* Forks a client that does `what` each time it is told to, and says what that gave. */
static pid_t other_client(long (*what)(void))
{
    long result;
    char go;

    IS(pipe(to), 0);
    IS(pipe(back), 0);

    pid_t pid = fork();

    if (pid != 0)
        return pid;

    close(to[1]);
    close(back[0]);
    while (read(to[0], &go, 1) == 1) {
        result = what();
        if (write(back[1], &result, sizeof result) != sizeof result)
            break;
    }

    _exit(0);
}

static long told(void)
{
    long result = -1;

    IS(write(to[1], "x", 1), 1);
    IS(read(back[0], &result, sizeof result), sizeof result);
    return result;
}

static void ended(pid_t pid)
{
    int status;

    close(to[1]);
    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
}

static long take_lock(void)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int fd = open(in("text"), O_RDWR);
    int whole = flock(fd, LOCK_EX | LOCK_NB);
    int record = fcntl(fd, F_SETLK, &lock);
    int own = fcntl(fd, F_OFD_SETLK, &lock); /* not beside the process's own */

    close(fd);
    return whole == 0 && record == 0 && own == -1;
}

static void locks(void)
{
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    pid_t pid = other_client(take_lock);

    for (step = 0; step < 300; step++) {
        int fd = read_file();

        switch (step % 3) {
        case 0:
            IS(flock(fd, LOCK_SH), 0);
            break;
        case 1:
            IS(fcntl(fd, F_SETLK, &lock), 0);
            break;
        default:
            IS(fcntl(fd, F_OFD_SETLK, &lock), 0);
        }

        IS(close(fd), 0);
        IS(told(), 1);
    }

    ended(pid);
}

/* How many descriptors of the server lead to a file of this name? */
static int held(const char *name)
{
    char path[64];
    int n = 0;

    snprintf(path, sizeof path, "/proc/%ld/fd", (long)server);

    DIR *fds = opendir(path);
    struct dirent *e;

    IS(fds != NULL, true);
    while ((e = readdir(fds)) != NULL) {
        char link[PATH_MAX];
        ssize_t len = readlinkat(dirfd(fds), e->d_name, link, sizeof link - 1);

        link[len < 0 ? 0 : len] = 0;
        n += len > 0 && strrchr(link, '/') && strcmp(strrchr(link, '/') + 1, name) == 0;
    }

    closedir(fds);
    return n;
}

/* Starts a process that lets the stopped server go on soon after it is told to: a fork lets no signal in.  Returns the
 * pipe to it. */
static int start_resumer(pid_t *pid_p)
{
    int pair[2];
    char byte;

    IS(pipe(pair), 0);
    *pid_p = fork();
    if (*pid_p != 0) {
        close(pair[0]);
        return pair[1];
    }

    close(pair[1]);
    while (read(pair[0], &byte, 1) == 1) {
        usleep(5000);
        kill(server, SIGCONT);
    }

    _exit(0);
}

static void holders(void)
{
    struct stat st;
    pid_t resumer;
    int go_on = start_resumer(&resumer);

    for (step = 0; step < 300; step++)
        IS(close(read_file()), 0);

    IS(stat(in("text"), &st), 0); /* its answer comes after all of that */
    IS(held("text"), 0);

    for (step = 0; step < 30; step++) {
        int pair[2];
        char byte;

        IS(pipe(pair), 0);

        /* the stopped server finds the close and the child's connection at one time */
        int fd = read_file();

        stop_server();
        IS(close(fd), 0);
        IS(write(go_on, "x", 1), 1);

        pid_t pid = fork();

        if (pid == 0) {
            close(pair[1]);
            _exit(read(pair[0], &byte, 1) != 0 || stat(in("text"), &st) != 0);
        }

        IS(held("text"), 0);
        close(pair[0]);
        close(pair[1]);

        int status;

        IS(waitpid(pid, &status, 0), pid);
        IS(status, 0);
    }

    close(go_on);
    IS(waitpid(resumer, NULL, 0), resumer);
}

/* ---- copies ---- */

#define COPY_BYTES 300000
static char wanted[COPY_BYTES], got[COPY_BYTES];

/* Is "copy" what was put into "source"? */
static long is_copied(void)
{
    int fd = open(in("source"), O_RDONLY);
    ssize_t n = read(fd, wanted, sizeof wanted);

    close(fd);
    fd = open(in("copy"), O_RDONLY);

    bool same = n > 0 && read(fd, got, sizeof got) == n && memcmp(wanted, got, (size_t)n) == 0;

    close(fd);
    return same;
}

static void fill(char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (char)(random() >> 8);
}

/* Copies the rest of a file; returns how many bytes. */
static long copy_rest(int from, int out)
{
    ssize_t n;
    long sum = 0;

    while ((n = copy_file_range(from, NULL, out, NULL, SSIZE_MAX, 0)) > 0)
        sum += n;

    return n < 0 ? n : sum;
}

static void copies(void)
{
    pid_t pid = other_client(is_copied);

    for (step = 0; step < 60; step++) {
        size_t len = step % 2 ? 1 + (size_t)random() % 5000 : 1 + (size_t)random() % COPY_BYTES;
        int from = opened("source", O_RDWR | O_CREAT | O_TRUNC);
        int out = opened("copy", O_RDWR | O_CREAT | O_TRUNC);

        fill(wanted, len);
        for (size_t at = 0; at < len; at += 1000) /* small writes, which a session collects */
            IS(write(from, wanted + at, len - at < 1000 ? len - at : 1000),
               len - at < 1000 ? len - at : 1000);

        IS(lseek(from, 0, SEEK_SET), 0);

        /* its beginning by small reads, which may be made ahead; the rest at the offsets of both */
        size_t begun = 0;

        for (int i = 0; i < 5 && begun + 7 <= len; i++, begun += 7)
            IS(read(from, got + begun, 7), 7);

        IS(write(out, got, begun), begun);
        IS(copy_rest(from, out), len - begun);
        IS(lseek(from, 0, SEEK_CUR), len);
        IS(lseek(out, 0, SEEK_CUR), len);
        IS(close(out), 0);
        IS(close(from), 0);
        IS(told(), 1);
    }

    ended(pid);

    int from = opened("source", O_RDWR);
    off_t a = 3;
    off_t b = 10;
    off_t below = -1;

    IS(ftruncate(from, 100), 0);

    int out = opened("copy", O_RDWR | O_TRUNC);

    IS(copy_file_range(from, &a, out, &b, 50, 0), 50);
    IS(a == 53 && b == 60, true);
    IS(lseek(from, 0, SEEK_CUR), 0);
    IS(lseek(out, 0, SEEK_CUR), 0);
    IS(lseek(out, 0, SEEK_END), 60);
    IS(pread(from, wanted, 50, 3), 50);
    IS(pread(out, got, 50, 10), 50);
    IS(memcmp(wanted, got, 50), 0);

    a = 100;
    IS(copy_file_range(from, &a, out, &b, 50, 0), 0);
    a = 10;
    b = 20;
    errno = 0;
    IS(copy_file_range(from, &a, from, &b, 50, 0) == -1 && errno == EINVAL, true);
    IS(copy_file_range(from, &below, out, &b, 50, 0) == -1 && errno == EOVERFLOW, true);

    int more = opened("copy", O_WRONLY | O_APPEND);

    IS(copy_file_range(from, &a, more, NULL, 50, 0) == -1 && errno == EBADF, true);
    IS(close(more), 0);
    more = opened("copy", O_RDONLY);
    IS(copy_file_range(from, &a, more, NULL, 50, 0) == -1 && errno == EBADF, true);
    IS(close(more), 0);
    more = opened("folder", O_RDONLY);
    IS(copy_file_range(more, NULL, out, NULL, 50, 0) == -1 && errno == EISDIR, true);
    IS(close(more), 0);

    /* a child shares both offsets */
    IS(lseek(from, 20, SEEK_SET), 20);
    IS(lseek(out, 30, SEEK_SET), 30);
    pid = fork();
    if (pid == 0)
        _exit(copy_file_range(from, NULL, out, NULL, 10, 0) != 10);

    int status;

    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
    IS(lseek(from, 0, SEEK_CUR), 30);
    IS(lseek(out, 0, SEEK_CUR), 40);
    IS(close(from), 0);
    IS(close(out), 0);
}

/* ---- directories ---- */

static int made;

static long make_name(void)
{
    char name[64];

    snprintf(name, sizeof name, "folder/new-%d", made++);

    int fd = open(in(name), O_WRONLY | O_CREAT | O_EXCL, 0644);

    return close(fd);
}

/* Reads to the end; returns how many names there are. */
static int names(DIR *d)
{
    int n = 0;

    errno = 0;
    while (readdir(d))
        n++;

    IS(errno, 0);
    return n;
}

static void directories(void)
{
    pid_t pid = other_client(make_name);
    DIR *d = opendir(in("folder"));

    IS(d != NULL, true);

    int n = names(d);

    for (step = 0; step < 30; step++) {
        IS(told(), 0);
        rewinddir(d);
        IS(names(d), n + 1 + step);
        IS(names(d), 0); /* after the end: asks, and there is nothing new */
    }

    long at = telldir(d);

    rewinddir(d);
    IS(readdir(d) != NULL, true);
    seekdir(d, at);
    IS(names(d), 0);
    IS(closedir(d), 0);

    d = fdopendir(opened("folder", O_RDONLY | O_DIRECTORY));
    IS(d != NULL && names(d) == n + 30, true);
    IS(closedir(d), 0);

    int fd = opened("text", O_RDONLY);

    IS(fdopendir(fd) == NULL && errno == ENOTDIR, true);
    IS(close(fd), 0);
    ended(pid);
}

/* ---- seeks ---- */

/* Does this seek return only after the stopped server goes on?  Its result must be the wanted one, or the
 * negative error. */
static bool seek_waits(int fd, off_t off, int whence, off_t wanted, int ms)
{
    stop_for(ms);

    off_t at = lseek(fd, off, whence);
    int err = errno;
    bool waited = has_waited();

    IS(at < 0 ? -err : at, wanted);
    return waited;
}

#define SEEKS_AT_ONCE(fd, off, whence, wanted) \
    IS(seek_waits(fd, off, whence, wanted, LONG_MS), false)
#define SEEK_WAITS(fd, off, whence, wanted) IS(seek_waits(fd, off, whence, wanted, SHORT_MS), true)

static int digits(void)
{
    int fd = opened("digits", O_RDWR | O_CREAT | O_TRUNC);

    IS(write(fd, "0123456789", 10), 10);
    return fd;
}

static char next_of(int fd)
{
    char byte = 0;

    IS(read(fd, &byte, 1), 1);
    return byte;
}

static void alone(void)
{
    int fd = digits();
    struct iovec two[2] = { { (char[1]){ 0 }, 1 }, { (char[1]){ 0 }, 1 } };

    SEEKS_AT_ONCE(fd, 0, SEEK_CUR, 10);
    SEEKS_AT_ONCE(fd, 3, SEEK_SET, 3);
    IS(next_of(fd), '3');
    SEEKS_AT_ONCE(fd, -2, SEEK_CUR, 2);
    SEEKS_AT_ONCE(fd, 2, SEEK_SET, 2);
    IS(readv(fd, two, 2), 2);
    IS(preadv2(fd, two, 2, -1, 0), 2);
    IS(next_of(fd), '6');
    IS(pread(fd, two[0].iov_base, 1, 0), 1);
    SEEKS_AT_ONCE(fd, 0, SEEK_CUR, 7);
    SEEKS_AT_ONCE(fd, 20, SEEK_SET, 20);
    IS(read(fd, two[0].iov_base, 1), 0);
    SEEKS_AT_ONCE(fd, 0, SEEK_CUR, 20);

    SEEK_WAITS(fd, 0, SEEK_END, 10);
    SEEKS_AT_ONCE(fd, 0, SEEK_CUR, 10);
    SEEK_WAITS(fd, 1, SEEK_DATA, 1);
    SEEK_WAITS(fd, -1, SEEK_SET, -EINVAL);
    SEEK_WAITS(fd, 0, SEEK_CUR, 1);
    SEEK_WAITS(fd, -2, SEEK_CUR, -EINVAL);
    SEEK_WAITS(fd, (off_t)1 << 33, SEEK_SET, (off_t)1 << 33);
    SEEKS_AT_ONCE(fd, 4, SEEK_SET, 4);
    IS(write(fd, "x", 1), 1);
    SEEKS_AT_ONCE(fd, -1, SEEK_CUR, 4);
    IS(next_of(fd), 'x');

    IS(fcntl(fd, F_SETFL, O_APPEND), 0);
    IS(write(fd, "y", 1), 1);
    SEEK_WAITS(fd, 0, SEEK_CUR, 11);
    IS(close(fd), 0);

    fd = opened("digits", O_RDWR | O_APPEND);
    IS(write(fd, "z", 1), 1);
    SEEK_WAITS(fd, 0, SEEK_CUR, 12);
    IS(close(fd), 0);
}

/* Another process moves the offset; seeks before the fork have been executed. */
static void shared(void)
{
    int pair[2];

    for (step = 0; step < 30; step++) {
        int fd = digits();

        IS(lseek(fd, 5, SEEK_SET), 5);

        pid_t pid = fork();

        if (pid == 0)
            _exit(next_of(fd) != '5');

        int status;

        IS(waitpid(pid, &status, 0), pid);
        IS(status, 0);
        IS(lseek(fd, 0, SEEK_CUR), 6);
        SEEK_WAITS(fd, 2, SEEK_SET, 2);
        IS(close(fd), 0);
    }

    int fd = digits();

    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    IS(lseek(fd, 1, SEEK_SET), 1);
    send_fd(pair[0], fd);
    SEEK_WAITS(fd, 0, SEEK_CUR, 1);
    close(pair[0]);
    close(pair[1]);
    IS(close(fd), 0);
}

/* A program that is executed goes on at the offset. */
static void executed(void)
{
    static const char *const says[] = { "[ \"$(head -c 1)\" = 7 ]",
                                        "read -r x && [ \"$x\" = 789 ]" };

    for (step = 0; step < 20; step++) {
        int fd = digits();
        pid_t pid;
        int status;
        posix_spawn_file_actions_t actions;
        char *argv[] = { "sh", "-c", (char *)says[0], NULL };

        IS(posix_spawn_file_actions_init(&actions), 0);
        IS(posix_spawn_file_actions_adddup2(&actions, fd, 0), 0);
        IS(lseek(fd, 7, SEEK_SET), 7);
        IS(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ), 0);
        IS(waitpid(pid, &status, 0), pid);
        IS(status, 0);
        IS(lseek(fd, 0, SEEK_CUR), 8);
        IS(posix_spawn_file_actions_destroy(&actions), 0);
        IS(close(fd), 0);
    }

    pid_t pid = fork();

    if (pid == 0) {
        int fd = digits();

        IS(write(fd, "\n", 1), 1);
        IS(lseek(fd, 7, SEEK_SET), 7);
        IS(dup2(fd, 0), 0);
        execl("/bin/sh", "sh", "-c", says[1], (char *)NULL);
        _exit(127);
    }

    int status;

    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
}

enum {
    READS = 3000
};

static void *read_all(void *fd_p)
{
    for (int i = 0; i < READS; i++)
        (void)next_of(*(int *)fd_p);

    return NULL;
}

/* Threads that read at one offset, and ask for it, meanwhile. */
static void threaded(void)
{
    pthread_t threads[2];
    int fd = digits();

    IS(pwrite(fd, "", 1, 3 * READS - 1), 1);
    IS(lseek(fd, 0, SEEK_SET), 0);
    for (int i = 0; i < 2; i++)
        IS(pthread_create(&threads[i], NULL, read_all, &fd), 0);

    off_t last = 0;

    while (last < 2 * READS) {
        off_t at = lseek(fd, 0, SEEK_CUR);

        IS(at >= last && at <= 2 * READS, true);
        last = at;
    }

    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);

    IS(lseek(fd, 0, SEEK_CUR), 2 * READS);
    SEEKS_AT_ONCE(fd, 0, SEEK_CUR, 2 * READS);
    SEEKS_AT_ONCE(fd, 1, SEEK_SET, 1);
    IS(next_of(fd), '1');
    IS(close(fd), 0);
}

/* More files than are counted, and numbers that are used again. */
static void many(void)
{
    static int fds[3000];
    const int n = sizeof fds / sizeof fds[0];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < n; i++)
            fds[i] = opened("digits", O_RDONLY);

        for (int i = 0; i < n; i++)
            IS(lseek(fds[i], i % 10, SEEK_SET), i % 10);

        for (int i = n - 1; i >= 0; i--)
            IS(lseek(fds[i], 0, SEEK_CUR), i % 10);

        for (int i = 0; i < n; i++)
            IS(close(fds[i]), 0);
    }
}

static void seeks(void)
{
    int folder = opened("folder", O_RDONLY | O_DIRECTORY);

    alone();
    shared();
    executed();
    threaded();
    many();

    SEEK_WAITS(folder, 0, SEEK_SET, 0);
    IS(close(folder), 0);
}

static const struct section sections[] = {
    { "closes", closes },           { "locks", locks },
    { "holders", holders },         { "copies", copies },
    { "directories", directories }, { "seeks", seeks },
};

int main(int argc, char **argv)
{
    struct sigaction sa = { .sa_handler = resume, .sa_flags = SA_RESTART };

    if (argc != 4)
        return 99;

    dir = argv[2];
    server = (pid_t)atol(argv[3]);
    seed = 1;
    srandom((unsigned)seed);
    sigaction(SIGALRM, &sa, NULL);
    return run_section(sections, sizeof sections / sizeof sections[0], argv[1]) ? 0 : 99;
}
