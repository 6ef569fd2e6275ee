/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_failover DIRECTORY KEPT KILLS DELAY_US: works on files in many ways while, DELAY_US after the
 * start and again after each further pause, the process that it reaches its files by is killed
 * (KILLS times; 0 in a local directory).  Every call must give what it gives without the kills.
 * fwd_failover.sh compares the trees.  KEPT: the servers' directory, as the test sees it.
 * fwd_failover kill DIRECTORY: only kills that process, and returns when it has gone. fwd_failover
 * wait DIRECTORY: two processes share a file whose server dies.  The one that finds another server
 * for it is held up there; the other sleeps meanwhile, and does it in its place when the first is
 * killed.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/iofwd.h"
#include "tests/files/fwd_kill.h"
#include "tests/files/failover/fwd_failover.h"

enum {
    ROUNDS = 400,
    REGION = 1 << 20,
    SOURCE = 3 << 20,
    LARGE = 300000
};

static const char *dir, *kept;
int kills;
useconds_t delay;
static _Atomic int killed;
static pid_t last_killed;

void check(int ok, int line, const char *what)
{
    if (ok)
        return;

    printf("line %d: %s: %s\n", line, what, strerror(errno));
    fflush(stdout);
    _exit(1);
}

const char *in(const char *name, int i)
{
    static __thread char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s%.0d", dir, name, i);
    return path;
}

uint32_t mix(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

static uint8_t source_byte(size_t at)
{
    return (uint8_t)mix((uint32_t)(at / 7));
}

int kill_newest(void)
{
    static pid_t done[8];
    static int n;

    for (int fd = FD_MAX; fd >= 3; fd--) {
        struct ucred cred = { .pid = 0 };
        socklen_t len = sizeof cred;
        int seen = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0 ||
                   !is_server(cred.pid);

        for (int i = 0; i < n; i++)
            seen = seen || done[i] == cred.pid;

        if (seen)
            continue;

        last_killed = done[n++] = cred.pid;
        kill(cred.pid, SIGKILL);
        killed++;
        return 1;
    }

    return 0;
}

static void *killer(void *arg)
{
    for (int i = 0; i < kills; i++) {
        usleep(delay);
        while (!kill_newest())
            usleep(1000); /* the client has not yet gone to the next one */
    }

    return NULL;
}

/* ---- what goes on meanwhile ---- */

static void one_round(int i, int seq, int region, int source, uint8_t *buf)
{
    size_t len = i % 16 == 7 ? LARGE : 1 + mix((uint32_t)i) % 5000;
    off_t at = mix((uint32_t)i * 3) % (REGION - 4096);

    /* pwrite may write one byte more: what was in the buffer before depends on the number of
     * passes */
    memset(buf, i, len + 1);
    MUST(write(seq, buf, len) == (ssize_t)len);
    MUST(pwrite(region, buf, 1 + len % 4096, at) == (ssize_t)(1 + len % 4096));
    len = 1 + mix((uint32_t)i + 99) % (i % 10 == 3 ? LARGE : 3000);

    off_t from = lseek(source, 0, SEEK_CUR);
    ssize_t n = read(source, buf, len);

    MUST(n >= 0);
    for (ssize_t k = 0; k < n; k++)
        MUST(buf[k] == source_byte((size_t)from + (size_t)k));

    if (n < (ssize_t)len)
        MUST(lseek(source, 0, SEEK_SET) == 0);
}

static void small_file(int i)
{
    struct stat st;
    int fd = open(in("small.", i + 1), O_WRONLY | O_CREAT | O_TRUNC, 0600);

    MUST(fd >= 0);
    MUST(dprintf(fd, "file %d\n", i) > 0);
    MUST(fstat(fd, &st) == 0 && st.st_size > 6);
    MUST(close(fd) == 0);
    MUST(chmod(in("small.", i + 1), 0640) == 0);
    MUST(stat(in("small.", i + 1), &st) == 0 && (st.st_mode & 0777) == 0640);
}

/* A child and its parent take turns at one open file. */
static void take_turns(int fd, int mine, int theirs, const char *who)
{
    char c, line[64];

    for (int i = 0; i < ROUNDS / 4; i++) {
        MUST(read(mine, &c, 1) == 1);

        int n = snprintf(line, sizeof line, "%s %d\n", who, i);

        MUST(write(fd, line, (size_t)n) == n);
        MUST(fsync(fd) == 0); /* with IOFWD_CONSISTENCY=session the other sees it now */
        MUST(write(theirs, "x", 1) == 1);
    }
}

static pid_t start_child(int fd, int a[2], int b[2])
{
    MUST(pipe(a) == 0 && pipe(b) == 0);

    pid_t pid = fork();

    MUST(pid >= 0);
    if (pid == 0) {
        take_turns(fd, a[0], b[1], "child");
        _exit(0);
    }

    return pid;
}

struct turns {
    int fd, mine, theirs;
};

static void *turns_thread(void *arg)
{
    struct turns *t = arg;

    take_turns(t->fd, t->mine, t->theirs, "parent");
    return NULL;
}

/* The lock that was taken before is still there, for a process that asks the file system. */
static void check_lock(void)
{
    char path[PATH_MAX];
    struct flock l = { .l_type = F_WRLCK, .l_start = 10, .l_len = 5 };

    snprintf(path, sizeof path, "%s/locked", kept);

    int fd = open(path, O_RDWR);

    MUST(fd >= 0);
    MUST(fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type == F_WRLCK && l.l_start == 10);
    l = (struct flock){ .l_type = F_WRLCK, .l_start = 100, .l_len = 1000 };
    MUST(fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type == F_RDLCK && l.l_start == 250 &&
         l.l_len == 50);
    l = (struct flock){ .l_type = F_WRLCK, .l_start = 300, .l_len = 800 };
    MUST(fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type == F_UNLCK);
    close(fd);
}

/* Many locks come and go; bytes 250 to 300 stay locked, and those that were before. */
static void many_locks(int fd)
{
    for (int i = 0; i < 150; i++) {
        struct flock l = { .l_type = i % 2 ? F_RDLCK : F_WRLCK,
                           .l_whence = SEEK_CUR,
                           .l_start = 100 + i,
                           .l_len = 200 };

        MUST(fcntl(fd, F_SETLK, &l) == 0);
        l.l_type = F_UNLCK;
        l.l_len = 1;
        MUST(fcntl(fd, F_SETLK, &l) == 0);
    }

    struct flock l = { .l_type = F_UNLCK, .l_start = 300, .l_len = 500 };

    MUST(fcntl(fd, F_SETLK, &l) == 0);
}

static void work(void)
{
    static uint8_t buf[LARGE + 1];
    int a[2], b[2], status;
    int locked = open(in("locked", 0), O_RDWR | O_CREAT, 0600);
    int seq = open(in("seq", 0), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int region = open(in("region", 0), O_RDWR | O_CREAT, 0600);
    int source = open(in("source", 0), O_RDONLY);
    int shared = open(in("shared", 0), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int fresh = open(in("fresh", 0), O_WRONLY | O_CREAT | O_APPEND, 0600);
    pthread_t kill_thread, turn_thread;
    struct flock l = { .l_type = F_WRLCK, .l_start = 10, .l_len = 5 };

    MUST(locked >= 0 && seq >= 0 && region >= 0 && source >= 0 && shared >= 0 && fresh >= 0);
    MUST(fcntl(locked, F_SETLK, &l) == 0);
    many_locks(locked);
    MUST(write(fresh, "before\n", 7) == 7);

    pid_t pid = start_child(shared, a, b);
    struct turns turns = { shared, b[0], a[1] };

    pthread_create(&kill_thread, NULL, killer, NULL);
    pthread_create(&turn_thread, NULL, turns_thread, &turns);
    MUST(write(a[1], "x", 1) == 1);

    /* whole passes: the last of them decides where writes overlap */
    for (int i = 0; i < ROUNDS || killed < kills || i % ROUNDS; i++) {
        one_round(i % ROUNDS, seq, region, source, buf);
        if (i % 8 == 0)
            small_file(i % ROUNDS);

        if (i % ROUNDS == ROUNDS - 1 && killed < kills)
            MUST(lseek(seq, 0, SEEK_SET) == 0);
    }

    pthread_join(kill_thread, NULL);

    /* once more with all kills done, so that what is left behind is always the same */
    for (int i = 0; i < ROUNDS; i++)
        if (i % 40 == 0)
            one_round(i, region, region, source, buf);

    pthread_join(turn_thread, NULL);
    MUST(waitpid(pid, &status, 0) == pid && status == 0);
    MUST(write(fresh, "after\n", 6) == 6); /* appending goes on where no call was in flight */
    check_lock();

    DIR *d = opendir(dir);
    int n = 0;

    MUST(d != NULL);
    for (struct dirent *e; (e = readdir(d));)
        n += strncmp(e->d_name, "small.", 6) == 0;

    MUST(n == ROUNDS / 8 && closedir(d) == 0);
    MUST(fsync(seq) == 0 && close(seq) == 0 && close(region) == 0 && close(source) == 0 &&
         close(shared) == 0 && close(locked) == 0 && close(fresh) == 0);
}

/* For shell scripts: the server of this very process, which has gone when this returns. */
static int kill_only(void)
{
    struct stat st;

    MUST(stat(dir, &st) == 0 && kill_newest());
    while (kill(last_killed, 0) == 0)
        usleep(1000);

    return 0;
}

/* The value of a line of /proc/PID/status. */
static long status_of(pid_t pid, const char *name)
{
    char path[64], line[256];
    long value = -1;

    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);

    FILE *f = fopen(path, "r");

    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            value = atol(line + strlen(name) + 1);

    if (f)
        fclose(f);

    return value;
}

/* Another server of the job than this: all its processes have one parent. */
static pid_t other_than(pid_t server)
{
    pid_t found = 0;
    DIR *d = opendir("/proc");

    MUST(d != NULL);
    for (struct dirent *e; (e = readdir(d));) {
        pid_t pid = (pid_t)atol(e->d_name);
        if (pid > 0 && pid != server && is_server(pid) && status_of(pid, "PPid") == getppid())
            found = pid;
    }

    closedir(d);
    MUST(found > 0);
    return found;
}

/* A child that has come to the server, and writes a line to fd when it is told to by *go. */
static pid_t start_writer(int fd, const char *line, int *go)
{
    int told[2], ready[2];
    char c;

    MUST(pipe(told) == 0 && pipe(ready) == 0);

    pid_t pid = fork();

    MUST(pid >= 0);
    if (pid == 0) {
        MUST(fsync(fd) == 0 && write(ready[1], "", 1) == 1 && read(told[0], &c, 1) == 1);
        _exit(write(fd, line, strlen(line)) == (ssize_t)strlen(line) ? 0 : 1);
    }

    MUST(read(ready[0], &c, 1) == 1);
    *go = told[1];
    return pid;
}

/* how: what happens to the one that is held up.  One that is stopped goes on later, when the other
 * has long brought the file elsewhere. */
static int wait_only(int how)
{
    enum {
        HELD_US = 300000,
        SWITCHES_MAX = 60
    }; /* naps of a millisecond would make 250 */

    static const char voluntary[] = "voluntary_ctxt_switches";
    char text[16] = "";
    const char *wanted = how == SIGKILL ? "a\nc\n" : "a\nc\nb\n";
    int status, go[2];
    int fd = open(in("moved", 0), O_RDWR | O_CREAT | O_TRUNC, 0600);

    MUST(fd >= 0 && write(fd, "a\n", 2) == 2);

    pid_t first = start_writer(fd, "b\n", &go[0]);
    pid_t second = start_writer(fd, "c\n", &go[1]);

    kills = 1;
    MUST(kill_newest());

    pid_t other = other_than(last_killed);

    MUST(kill(other, SIGSTOP) == 0);
    MUST(write(go[0], "", 1) == 1);
    usleep(HELD_US); /* it has come to the server that does not answer */
    MUST(write(go[1], "", 1) == 1);
    usleep(HELD_US);

    long before = status_of(second, voluntary);

    usleep(HELD_US);

    long switches = status_of(second, voluntary) - before;

    MUST(kill(first, how) == 0);
    while (how == SIGSTOP && process_state(first) != 'T')
        usleep(1000);

    MUST(kill(other, SIGCONT) == 0);
    MUST(how != SIGKILL || (waitpid(first, &status, 0) == first && WIFSIGNALED(status)));
    MUST(waitpid(second, &status, 0) == second && status == 0);
    MUST(how != SIGSTOP ||
         (kill(first, SIGCONT) == 0 && waitpid(first, &status, 0) == first && status == 0));
    MUST(pread(fd, text, sizeof text, 0) == (ssize_t)strlen(wanted) && strcmp(text, wanted) == 0);
    printf("%ld times awake\n", switches);

    return switches < 1 || switches > SWITCHES_MAX; /* 0: it spins */
}

/* ---- a process that goes on as another program keeps its record locks, also when their server
 * dies then ---- */

static int lock(int fd, int command, short type)
{
    struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = 3, .l_len = 4 };
    return fcntl(fd, command, &l);
}

/* many: more than go along with it, so that nobody can take the file over. */
static int lock_and_exec(char **argv, bool many)
{
    char number[16];
    int fd = open(in("before", 0), O_RDWR | O_CREAT | O_TRUNC, 0600);
    char *before = strdup(in("before", 0));

    MUST(fd >= 0 && write(fd, "0123456789", 10) == 10 && lock(fd, F_SETLK, F_WRLCK) == 0 &&
         flock(fd, LOCK_EX) == 0);
    MUST(rename(before, in("locked", 0)) == 0);

    for (int i = 0; i < 20 && many; i++) {
        struct flock l = {
            .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100 + i * 2, .l_len = 1
        };

        MUST(fcntl(fd, F_SETLK, &l) == 0);
    }

    snprintf(number, sizeof number, "%d", fd);
    return execl(argv[0], argv[0], many ? "locked-much" : "locked", dir, number, NULL);
}

/* What the client opens from now on, and what of it goes through exec, has high numbers. */
static void use_low_descriptors(void)
{
    struct rlimit most;

    MUST(getrlimit(RLIMIT_NOFILE, &most) == 0);
    most.rlim_cur = FD_MAX + 1;
    MUST(setrlimit(RLIMIT_NOFILE, &most) == 0);
    for (int fd = 0; fd < 1500;)
        MUST((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
}

static int locked_much(int fd)
{
    struct stat st;

    kills = 1;
    MUST(fstat(fd, &st) == 0 && kill_newest());
    MUST(fstat(fd, &st) == -1 && errno == EIO);

    int other = open(in("locked", 0), O_RDWR);

    MUST(other >= 0 && write(other, "others", 6) == 6);
    return 0;
}

static int locked_only(int fd)
{
    struct stat st;
    int status;

    kills = 1;
    MUST(fstat(fd, &st) == 0);
    while (!kill_newest())
        usleep(1000);

    MUST(fstat(fd, &st) == 0 && st.st_size == 10);

    pid_t pid = fork();

    if (pid == 0) {
        int other = open(in("locked", 0), O_RDWR);
        struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

        MUST(other >= 0 && lock(other, F_SETLK, F_WRLCK) == -1 &&
             (errno == EAGAIN || errno == EACCES));
        MUST(flock(other, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);

        /* of the process, not of the open file */
        MUST(fcntl(other, F_GETLK, &l) == 0 && l.l_pid == getppid());
        _exit(0);
    }

    MUST(waitpid(pid, &status, 0) == pid && status == 0);
    return 0;
}

/* ---- open files that have other names by the time their server dies ---- */

static int renamed_only(void)
{
    static const char *const was[] = { "a/f", "ab/f", "g", "gh" };
    static const char *const is[] = { "b/f", "ab/f", "h", "gh" };
    char text[16] = "";
    int fd[4];

    MUST(mkdir(in("a", 0), 0700) == 0 && mkdir(in("ab", 0), 0700) == 0);
    for (int i = 0; i < 4; i++)
        MUST((fd[i] = open(in(was[i], 0), O_RDWR | O_CREAT, 0600)) >= 0 &&
             write(fd[i], "one ", 4) == 4);

    char *from = strdup(in("a", 0));

    MUST(rename(from, in("b", 0)) == 0);
    free(from);
    from = strdup(in("g", 0));
    MUST(rename(from, in("h", 0)) == 0);
    free(from);
    kills = 1;
    MUST(kill_newest());

    for (int i = 0; i < 4; i++) {
        MUST(write(fd[i], "two", 3) == 3);
        int again = open(in(is[i], 0), O_RDONLY);

        MUST(again >= 0 && read(again, text, sizeof text) == 7 && memcmp(text, "one two", 7) == 0);
    }

    return 0;
}

/* Reopening does not create a file that is gone; calls on it fail. */
static int removed_only(void)
{
    struct stat st;
    int fd = open(in("removed", 0), O_RDWR | O_CREAT, 0600);

    MUST(fd >= 0 && write(fd, "x", 1) == 1 && unlink(in("removed", 0)) == 0);
    kills = 1;
    MUST(kill_newest());
    MUST(write(fd, "x", 1) == -1 && errno == EIO);
    MUST(stat(in("removed", 0), &st) == -1 && errno == ENOENT);

    return 0;
}

/* ---- more files than there are recovery records: those of closed ones are reused, those of
 * open ones are not ---- */

static int reused_only(void)
{
    enum {
        PLACES = 33000
    };

    char text[8] = "";
    int status;
    int low = dup(0);
    int next = dup(0);

    MUST(close(low) == 0 && close(next) == 0);

    int first = open(in("first", 0), O_RDWR | O_CREAT, 0600);

    MUST(first == low && write(first, "first", 5) == 5);

    pid_t pid = fork();

    if (pid == 0)
        _exit(close(first) != 0);

    MUST(waitpid(pid, &status, 0) == pid && status == 0);
    for (int i = 0; i < PLACES; i++) {
        int fd = open(in("again", 0), O_RDWR | O_CREAT, 0600);

        /* nothing that the client keeps takes a low number */
        MUST(fd == next && lseek(fd, 3, SEEK_SET) == 3 && close(fd) == 0);
    }

    int last = open(in("last", 0), O_RDWR | O_CREAT, 0600);

    kills = 1;
    MUST(last >= 0 && kill_newest());
    MUST(write(first, "!", 1) == 1 && pread(first, text, 8, 0) == 6 &&
         memcmp(text, "first!", 6) == 0);
    MUST(write(last, "last", 4) == 4 && pread(last, text, 8, 0) == 4 &&
         memcmp(text, "last", 4) == 0);

    return 0;
}

/* ---- a file that is spread and loses one server: at the others it is closed when it is closed
 * ---- */

static int spread(bool home)
{
    static char bytes[1 << 20];
    uint32_t servers[8];
    size_t living = 0;
    int fd = open(in("spread", 0), O_RDWR | O_CREAT, 0600);

    MUST(fd >= 0 && pwrite(fd, bytes, sizeof bytes, 0) == sizeof bytes);

    size_t n = iofwd_servers(servers, 8);

    MUST(n == 4);

    pid_t server = newest_server();

    for (int k = FD_MAX; k >= 3 && home; k--)
        /* the client's first connection is to its home */
        server = server_behind(k) > 0 ? server_behind(k) : server;

    MUST(kill_and_wait(server));
    MUST(pwrite(fd, bytes, sizeof bytes, 0) == sizeof bytes && close(fd) == 0);

    for (size_t i = 0; i < n; i++) {
        struct iofwd_stats s;

        if (iofwd_stats(servers[i], &s) != 0)
            continue;

        living++;
        MUST(s.open_files == 0);
    }

    MUST(living == n - 1);
    return 0;
}

static int spread_home(void)
{
    return spread(true);
}

static int spread_other(void)
{
    return spread(false);
}

/* ---- a call of which a part has been done when its server dies ends whole ---- */

enum {
    WHOLE = 48 << 20,
    PART = 8 << 20
};

static void *kill_in_the_middle(void *kept_path)
{
    struct stat st;

    while (stat(kept_path, &st) != 0 || st.st_size < PART)
        ;

    MUST(kill_newest());
    return NULL;
}

static int whole_only(void)
{
    uint8_t *bytes = malloc(WHOLE);
    uint8_t *back = malloc(WHOLE);
    char path[PATH_MAX];
    pthread_t thread;

    MUST(bytes && back);
    for (size_t i = 0; i < WHOLE; i++)
        bytes[i] = source_byte(i);

    for (kills = 1; kills <= 6; kills++) {
        snprintf(path, sizeof path, "%s/whole%d", strchr(getenv("IOFWD_PREFIX"), '=') + 1, kills);

        int fd = open(in("whole", kills), O_RDWR | O_CREAT, 0600);

        MUST(fd >= 0 && pthread_create(&thread, NULL, kill_in_the_middle, path) == 0);
        MUST(pwrite(fd, bytes, WHOLE, 0) == WHOLE);
        MUST(pthread_join(thread, NULL) == 0 && pread(fd, back, WHOLE, 0) == WHOLE &&
             memcmp(back, bytes, WHOLE) == 0);
        MUST(close(fd) == 0 && unlink(in("whole", kills)) == 0);
    }

    free(bytes);
    free(back);
    return 0;
}

static int wait_killed(void)
{
    return wait_only(SIGKILL);
}

static int wait_stopped(void)
{
    return wait_only(SIGSTOP);
}

static const struct {
    const char *name;
    int (*run)(void);
} parts[] = { { "unanswered", unanswered_only },

              { "placed", placed_only },         { "renamed", renamed_only },
              { "removed", removed_only },       { "reused", reused_only },
              { "wait", wait_killed },           { "whole", whole_only },
              { "spread-home", spread_home },    { "spread-other", spread_other },
              { "wait-stopped", wait_stopped },  { "kill", kill_only },
              { "killed-sharer", killed_sharer } };

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 3 && i < sizeof parts / sizeof *parts; i++)
        if (strcmp(argv[1], parts[i].name) == 0) {
            dir = argv[2];
            return parts[i].run();
        }

    if (argc == 3 && strncmp(argv[1], "exec", 4) == 0) {
        dir = argv[2];
        if (strcmp(argv[1], "exec-high") == 0)
            use_low_descriptors();

        return lock_and_exec(argv, strcmp(argv[1], "exec-much") == 0);
    }

    if (argc == 4 && strcmp(argv[1], "locked-much") == 0) {
        dir = argv[2];
        return locked_much(atoi(argv[3]));
    }

    if (argc == 4 && strcmp(argv[1], "locked") == 0) {
        dir = argv[2];
        return locked_only(atoi(argv[3]));
    }

    if (argc == 4 && strcmp(argv[1], "share") == 0) {
        dir = argv[2];
        delay = (useconds_t)atol(argv[3]);
        return share_offset(0, 0);
    }

    if (argc == 4 && strcmp(argv[1], "share-striped") == 0) {
        dir = argv[2];
        delay = (useconds_t)atol(argv[3]);
        return share_striped();
    }

    if (argc == 6 && strcmp(argv[1], "share") == 0) {
        dir = argv[2];
        delay = (useconds_t)atol(argv[3]);
        return share_offset(strcmp(argv[4], "kill") == 0 ? SIGKILL : SIGSTOP,
                            (useconds_t)atol(argv[5]));
    }

    if (argc != 5)
        return 2;

    dir = argv[1];
    kept = argv[2];
    kills = atoi(argv[3]);
    delay = (useconds_t)atol(argv[4]);

    uint8_t *bytes = malloc(SOURCE);

    for (size_t i = 0; i < SOURCE; i++)
        bytes[i] = source_byte(i);

    int fd = open(in("source", 0), O_WRONLY | O_CREAT | O_TRUNC, 0600);

    MUST(fd >= 0 && write(fd, bytes, SOURCE) == SOURCE && close(fd) == 0);
    free(bytes);
    work();

    return 0;
}
