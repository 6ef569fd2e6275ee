/* SPDX-License-Identifier: BSD-3-Clause */
/* A static program for trap_waits.sh: PROGRAM CASE DIRECTORY.  Calls that wait, and the signals that end
 * them; threads that change what the supervisor looks at. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trap_check.h"

static _Atomic unsigned signals;

static void count(int sig)
{
    signals++;
}

/* SIGALRM comes again and again. */
static void alarms(bool restart, unsigned period_us)
{
    struct sigaction sa = { .sa_handler = count, .sa_flags = restart ? SA_RESTART : 0 };
    struct itimerval timer = { { 0, period_us }, { 0, period_us } };

    CHECK(sigaction(SIGALRM, &sa, NULL) == 0 && setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void alarms_end(void)
{
    CHECK(setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL) == 0);
}

static void ends_well(void)
{
    int status;

    CHECK(wait(&status) > 0 && status == 0);
}

/* ---- FIFOs ---- */

static void fifo(void)
{
    char buf[32] = "";

    CHECK(mkfifo("fifo", 0600) == 0);
    if (fork() == 0) {
        int out = open("fifo", O_WRONLY);

        _exit(out >= 0 && write(out, "hello", 5) == 5 ? 0 : 1);
    }

    int in = open("fifo", O_RDONLY);

    CHECK(in >= 0 && read(in, buf, 5) == 5 && strcmp(buf, "hello") == 0);
    CHECK(read(in, buf, 5) == 0);
    ends_well();

    close(in);
    CHECK(open("fifo", O_WRONLY | O_NONBLOCK) == -1 && errno == ENXIO);
    in = open("fifo", O_RDONLY | O_NONBLOCK);

    int out = open("fifo", O_WRONLY);

    CHECK(in >= 0 && out >= 0 && read(in, buf, 1) == -1 && errno == EAGAIN);
    close(in);
    signal(SIGPIPE, count);
    CHECK(write(out, "x", 1) == -1 && errno == EPIPE && signals == 1);

    struct iovec x = { (char *)"x", 1 };
    int local[2];

    /* RWF_NOSIGNAL, which the kernel of a direct run may not know */
    CHECK(pipe(local) == 0);
    if (pwritev2(local[1], &x, 1, -1, 0x100) == 1)
        CHECK(pwritev2(out, &x, 1, -1, 0x100) == -1 && errno == EPIPE && signals == 1);
}

static void fifo_interrupted(void)
{
    CHECK(mkfifo("fifo", 0600) == 0);
    alarms(false, 20000);
    CHECK(open("fifo", O_RDONLY) == -1 && errno == EINTR && signals > 0);
    alarms_end();

    char c;
    int fd = open("fifo", O_RDWR);

    alarms(false, 20000);
    CHECK(read(fd, &c, 1) == -1 && errno == EINTR);
    alarms_end();
}

/* A handler with SA_RESTART ends no call: the reader sees the writer that comes after the signals. */
static void fifo_restarted(void)
{
    char buf[8] = "";
    int came[2];

    CHECK(mkfifo("fifo", 0600) == 0 && pipe(came) == 0);

    pid_t child = fork();

    if (child == 0) {
        struct sigaction sa = { .sa_handler = count, .sa_flags = SA_RESTART };

        CHECK(sigaction(SIGUSR1, &sa, NULL) == 0 && write(came[1], "x", 1) == 1);

        int in = open("fifo", O_RDONLY);

        CHECK(in >= 0 && read(in, buf, 4) == 4 && strcmp(buf, "late") == 0 && signals > 1);
        _exit(0);
    }

    CHECK(read(came[0], buf, 1) == 1);
    for (int i = 0; i < 20; i++) {
        CHECK(kill(child, SIGUSR1) == 0);
        usleep(10000); /* the next one is not to be merged with it */
    }

    int out = open("fifo", O_WRONLY);

    CHECK(out >= 0 && write(out, "late", 4) == 4);
    ends_well();
}

/* Many that wait keep nobody out. */
static void *reads_fifo(void *unused)
{
    char c = 0;
    int fd = open("fifo", O_RDWR);

    CHECK(fd >= 0 && read(fd, &c, 1) == 1 && c == 'x');
    close(fd);
    return NULL;
}

static void many_wait(void)
{
    pthread_t thread[100];
    int fd;

    CHECK(mkfifo("fifo", 0600) == 0 && (fd = open("fifo", O_RDWR)) >= 0);
    for (int i = 0; i < 100; i++)
        CHECK(pthread_create(&thread[i], NULL, reads_fifo, NULL) == 0);

    for (int i = 0; i < 100; i++) {
        char name[16];

        snprintf(name, sizeof name, "n%d", i);
        CHECK(close(open(name, O_CREAT | O_WRONLY, 0600)) == 0 && unlink(name) == 0);
        CHECK(write(fd, "x", 1) == 1);
    }

    for (int i = 0; i < 100; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
}

/* ---- locks ---- */

static int lock(int fd, int command, int type, off_t at)
{
    struct flock l = { .l_type = (short)type, .l_start = at, .l_len = 1 };

    return fcntl(fd, command, &l);
}

static void record_locks(void)
{
    int fd = open("locks", O_RDWR | O_CREAT, 0600);
    int ready[2];
    pid_t parent = getpid();

    CHECK(pipe(ready) == 0 && lock(fd, F_SETLK, F_WRLCK, 0) == 0);
    if (fork() == 0) {
        struct flock l = { .l_type = F_WRLCK, .l_len = 1 };

        CHECK(lock(fd, F_SETLK, F_WRLCK, 0) == -1 && (errno == EAGAIN || errno == EACCES));
        CHECK(lock(fd, F_SETLK, F_WRLCK, 5) == 0);
        CHECK(fcntl(fd, F_GETLK, &l) == 0 && l.l_type == F_WRLCK && l.l_pid == parent);
        CHECK(write(ready[1], "x", 1) == 1 && lock(fd, F_SETLKW, F_WRLCK, 0) == 0);
        _exit(0);
    }

    char c;

    CHECK(read(ready[0], &c, 1) == 1 && lock(fd, F_SETLK, F_UNLCK, 0) == 0);
    ends_well();

    /* the child's locks have ended with it, before its end can be seen */
    CHECK(lock(fd, F_SETLK, F_WRLCK, 0) == 0 && lock(fd, F_SETLK, F_WRLCK, 5) == 0);

    /* any close of the file drops the process's locks */
    close(open("locks", O_RDONLY));
    if (fork() == 0)
        _exit(lock(fd, F_SETLK, F_WRLCK, 0) == 0 ? 0 : 1);

    ends_well();
}

static void locks_interrupted(void)
{
    int fd = open("locks", O_RDWR | O_CREAT, 0600);

    CHECK(lock(fd, F_SETLK, F_WRLCK, 0) == 0 && flock(fd, LOCK_EX) == 0);
    if (fork() == 0) {
        int other = open("locks", O_RDWR);

        alarms(false, 20000);
        CHECK(lock(other, F_SETLKW, F_WRLCK, 0) == -1 && errno == EINTR);
        CHECK(flock(other, LOCK_EX) == -1 && errno == EINTR);
        _exit(0);
    }

    ends_well();
}

/* What a process held is free when its end has been seen. */
static void free_at_end(void)
{
    int fd = open("locks", O_RDWR | O_CREAT, 0600);

    for (int i = 0; i < 100; i++) {
        if (fork() == 0) {
            int own = open("locks", O_RDWR);

            CHECK(flock(own, LOCK_EX | LOCK_NB) == 0 && lock(own, F_SETLK, F_WRLCK, 0) == 0);
            if (i % 2)
                raise(SIGKILL);

            _exit(0);
        }

        CHECK(wait(NULL) > 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && flock(fd, LOCK_UN) == 0);
        CHECK(lock(fd, F_SETLK, F_WRLCK, 0) == 0 && lock(fd, F_SETLK, F_UNLCK, 0) == 0);

        int own = open("locks", O_RDWR);

        CHECK(flock(own, LOCK_EX | LOCK_NB) == 0 && close(own) == 0);
    }
}

static void *waits_for_lock(void *unused)
{
    int fd = open("locks", O_RDWR);

    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0 && flock(fd, LOCK_UN) == 0);
    close(fd);
    return NULL;
}

static void many_wait_for_locks(void)
{
    pthread_t thread[60];
    int fd = open("locks", O_RDWR | O_CREAT, 0600);

    CHECK(flock(fd, LOCK_EX) == 0);
    for (int i = 0; i < 60; i++)
        CHECK(pthread_create(&thread[i], NULL, waits_for_lock, NULL) == 0);

    CHECK(flock(fd, LOCK_UN) == 0);
    for (int i = 0; i < 60; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
}

/* A process that is killed while it waits is gone, and its request with it. */
static void killed_while_waiting(void)
{
    int fd = open("locks", O_RDWR | O_CREAT, 0600);
    int status;

    CHECK(flock(fd, LOCK_EX) == 0);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            flock(open("locks", O_RDWR), LOCK_EX);
            _exit(0);
        }

        for (int j = 0; j < i * 10; j++)
            sched_yield();

        CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    }

    CHECK(flock(fd, LOCK_UN) == 0);

    int other = open("locks", O_RDWR);

    CHECK(flock(other, LOCK_EX) == 0);
}

/* ---- exactly once ---- */

static void appends(void)
{
    struct stat st;
    int fd = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    off_t n = 0;

    alarms(true, 200);
    /* a fast machine writes 2000 times between few signals */
    for (; n < 2000 || signals <= 10; n++)
        CHECK(write(fd, "0123456", 7) == 7);

    alarms_end();
    CHECK(fstat(fd, &st) == 0 && st.st_size == n * 7);
}

/* ---- races ---- */

static char path[2][128];
static char racing[128] __attribute__((aligned(64)));
static _Atomic bool over;

static void *changes_path(void *unused)
{
    for (unsigned i = 0; !over; i++)
        memcpy(racing, path[i % 2], sizeof racing);

    return NULL;
}

/* While another thread changes the path, a call reaches one of the two files or none, never a third. */
static void race(void)
{
    char here[100], content[8];
    pthread_t thread;
    const char *seconds = getenv("RACE_SECONDS");
    time_t end = time(NULL) + (seconds ? atoi(seconds) : 1);

    CHECK(getcwd(here, sizeof here));
    snprintf(path[0], 128, "%s/a", here);
    snprintf(path[1], 128, "/tmp/trap-race.%d", (int)getpid());

    for (int i = 0; i < 2; i++) {
        int fd = open(path[i], O_RDWR | O_CREAT, 0600);

        CHECK(fd >= 0 && write(fd, i ? "local" : "there", 5) == 5 && close(fd) == 0);
    }

    memcpy(racing, path[0], sizeof racing);
    CHECK(pthread_create(&thread, NULL, changes_path, NULL) == 0);
    for (unsigned n = 0; n < 2000 || time(NULL) < end; n++) {
        int fd = open(racing, O_RDWR);

        if (fd < 0) {
            CHECK(errno == ENOENT || errno == EACCES || errno == EISDIR || errno == ENOTDIR);
            continue;
        }

        memset(content, 0, sizeof content);
        CHECK(read(fd, content, 5) == 5);
        CHECK(strcmp(content, "local") == 0 || strcmp(content, "there") == 0);
        CHECK(close(fd) == 0);

        struct stat st;

        if (stat(racing, &st) == 0 && S_ISREG(st.st_mode))
            CHECK(st.st_size == 5);
    }

    over = true;
    CHECK(pthread_join(thread, NULL) == 0 && unlink(path[1]) == 0);
}

/* One thread closes and opens what others use: they get data, or EBADF, and nothing goes astray. */
static _Atomic int shared;

static void *uses(void *unused)
{
    char c;

    while (!over) {
        ssize_t n = pread(shared, &c, 1, 0);

        CHECK((n == 1 && c == 'x') || (n == -1 && errno == EBADF));
    }

    return NULL;
}

static void reopen(void)
{
    pthread_t thread[3];
    int fd = open("x", O_RDWR | O_CREAT, 0600);

    CHECK(write(fd, "x", 1) == 1);
    shared = fd;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&thread[i], NULL, uses, NULL) == 0);

    for (int i = 0; i < 300; i++) {
        CHECK(close(fd) == 0);
        fd = open("x", O_RDONLY);
        CHECK(fd >= 0);
        shared = fd;
    }

    over = true;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        { "fifo", fifo },
        { "fifo_interrupted", fifo_interrupted },
        { "fifo_restarted", fifo_restarted },
        { "many_wait", many_wait },
        { "record_locks", record_locks },
        { "locks_interrupted", locks_interrupted },
        { "free_at_end", free_at_end },
        { "many_wait_for_locks", many_wait_for_locks },
        { "killed_while_waiting", killed_while_waiting },
        { "appends", appends },
        { "race", race },
        { "reopen", reopen },
        { NULL, NULL },
    };

    return run_case(cases, argc, argv, chdir);
}
