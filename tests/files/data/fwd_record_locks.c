/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_record_locks SECTION DIRECTORY SCRATCH: record locks that this process or its server holds.  Prints what
 * calls gave, and what another process sees; fwd_record_locks.sh runs it in a local directory and in a forwarded
 * one and compares.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "tests/files/fwd_is.h"
#include "tests/files/fwd_kill.h"
#include "tests/files/fwd_say.h"

enum {
    BYTES = 40, /* of a file that may be locked */
    HANDLES = 6,
    STEPS = 1500,
    ENOUGH = 8 /* calls after which a file's descriptor has been passed */
};

static const char *self, *scratch;

static int make(const char *name, int flags)
{
    int fd = open(in(name), flags | O_CREAT, 0600);

    if (fd < 0)
        fail(name, fd, 0);

    return fd;
}

static void warm(int fd)
{
    char byte;

    for (int i = 0; i < ENOUGH; i++)
        IS(pread(fd, &byte, 1, 0) > 1, 0);
}

static int lock(int fd, int command, short type, off_t from, off_t len)
{
    struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = len };

    return fcntl(fd, command, &l);
}

static int lock_at(int fd, int command, short type, short whence, off_t from, off_t len)
{
    struct flock l = { .l_type = type, .l_whence = whence, .l_start = from, .l_len = len };

    return fcntl(fd, command, &l);
}

/* ---- another process, which sees the locks ---- */

static int to_watcher[2], from_watcher[2];
static pid_t watcher_pid;

struct seen {
    char byte
        [2]
        [BYTES +
         1]; /* of a file: '.' free, 'r', 'w'; in capitals: another process's than the parent's */
};

static char look_at(int fd, int at, pid_t parent)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };

    if (fcntl(fd, F_GETLK, &l) != 0)
        return '?';
    if (l.l_type == F_UNLCK)
        return '.';
    if (l.l_pid != parent)
        return l.l_type == F_WRLCK ? 'W' : 'R';

    return l.l_type == F_WRLCK ? 'w' : 'r';
}

/* Answers each byte with what is locked. */
static void section_watcher(void)
{
    int fd[2] = { make("a", O_RDWR), make("b", O_RDWR) };
    pid_t parent = getppid();
    char byte;

    while (read(STDIN_FILENO, &byte, 1) == 1) {
        struct seen seen = { 0 };

        for (int f = 0; f < 2; f++)
            for (int i = 0; i < BYTES; i++)
                seen.byte[f][i] = look_at(fd[f], i, parent);

        IS(write(STDOUT_FILENO, &seen, sizeof seen), sizeof seen);
    }
}

static void start_watcher(bool passthrough)
{
    IS(pipe2(to_watcher, O_CLOEXEC), 0);
    IS(pipe2(from_watcher, O_CLOEXEC), 0);
    watcher_pid = fork();
    if (watcher_pid != 0)
        return;

    dup2(to_watcher[0], STDIN_FILENO);
    dup2(from_watcher[1], STDOUT_FILENO);
    if (!passthrough)
        setenv("IOFWD_PASSTHROUGH", "0", 1);

    execl(self, self, "watcher", dir, scratch, NULL);
    _exit(9);
}

static void end_watcher(void)
{
    close(to_watcher[1]);
    IS(waitpid(watcher_pid, NULL, 0), watcher_pid);
    close(to_watcher[0]);
    close(from_watcher[0]);
    close(from_watcher[1]);
}

static void look(const char *when)
{
    struct seen seen;

    IS(write(to_watcher[1], "x", 1), 1);
    IS(read(from_watcher[0], &seen, sizeof seen), sizeof seen);
    printf("%s: %s %s\n", when, seen.byte[0], seen.byte[1]);
    fflush(stdout);
}

/* ---- several open files of one file ---- */

static void section_handles(void)
{
    int a = make("a", O_RDWR);

    IS(ftruncate(a, 100), 0);
    start_watcher(true);

    int b = make("a", O_RDWR);
    int r = make("a", O_RDONLY);
    int w = make("a", O_WRONLY);

    T(lock(a, F_SETLK, F_WRLCK, 0, 10));
    look("by the first");
    warm(b);
    warm(r);
    look("others are used");
    T(lock(b, F_SETLK, F_WRLCK, 5, 10));
    T(lock(b, F_SETLKW, F_RDLCK, 2, 2));
    T(lock(r, F_SETLK, F_WRLCK, 20, 2));
    T(lock(w, F_SETLK, F_RDLCK, 20, 2));
    T(lock(r, F_SETLK, F_RDLCK, 20, 2));
    T(lock(w, F_SETLK, F_WRLCK, 24, 2));
    look("by all");
    T(lseek(b, 30, SEEK_SET));
    T(lseek(a, 7, SEEK_SET));
    T(lock_at(b, F_SETLK, F_WRLCK, SEEK_CUR, 1, 2));
    T(lock_at(a, F_SETLK, F_RDLCK, SEEK_CUR, 0, -3));
    T(lock_at(r, F_SETLK, F_RDLCK, SEEK_END, -64, 1));
    look("relative");
    T(lock(b, F_SETLK, F_WRLCK, -1, 2));
    T(lock_at(a, F_SETLK, F_WRLCK, 77, 0, 2));
    T(lock(r, F_SETLK, F_UNLCK, 0, 8));
    look("unlocked by another");

    int copy = dup(w);

    T(close(copy));
    look("a copy was closed");
    T(lock(b, F_SETLK, F_WRLCK, 0, 10));
    T(lock(w, F_SETLK, F_WRLCK, 12, 10));
    T(close(r));
    look("one was closed");

    /* the first open file is of the reading kind */
    r = make("b", O_RDONLY);
    warm(r);
    T(lock(r, F_SETLK, F_RDLCK, 0, 10));
    b = make("b", O_RDWR);
    T(lock(b, F_SETLK, F_WRLCK, 5, 10));
    look("first to read");
    T(lock(b, F_SETLK, F_UNLCK, 0, 0));
    T(lock(b, F_SETLK, F_WRLCK, 5, 10));
    T(lock(r, F_SETLK, F_RDLCK, 2, 5));
    look("again");
    end_watcher();
}

/* ---- random calls ---- */

static unsigned dice;

static unsigned below(unsigned n)
{
    return (unsigned)rand_r(&dice) % n;
}

struct handle {
    int fd, copy; /* -1: none */
};

static void open_one(struct handle *h)
{
    static const char *const names[] = { "a", "b", "link-a" };
    static const int modes[] = { O_RDWR, O_RDWR, O_RDWR, O_RDONLY, O_WRONLY };

    h->fd = open(in(names[below(3)]), modes[below(5)]);
    h->copy = -1;
}

static void close_one(struct handle *h)
{
    if (h->copy >= 0) {
        close(h->copy);
        h->copy = -1;
    } else {
        close(h->fd);
        h->fd = -1;
    }
}

static void lock_one(struct handle *h)
{
    static const short types[] = { F_RDLCK, F_WRLCK, F_WRLCK, F_UNLCK };
    short type = types[below(4)];
    bool whole = type == F_UNLCK && below(3) == 0;
    short whence = whole ? SEEK_SET : (short)below(2);
    off_t from = whole ? 0 : (off_t)below(BYTES);
    off_t len = whole ? 0 : (off_t)below(BYTES / 2) - 3;
    int r = lock_at(h->fd, below(4) ? F_SETLK : F_SETLKW, type, whence, from, len);

    printf("%d %d %d %ld %ld = %d %s\n", step, type, whence, (long)from, (long)len, r,
           r ? strerrorname_np(errno) : "");
}

static void ask_one(struct handle *h)
{
    struct flock l = { .l_type = below(2) ? F_WRLCK : F_RDLCK, .l_whence = (short)below(2) };
    int r = fcntl(h->fd, F_GETLK, &l);

    printf("%d get = %d, %d\n", step, r, l.l_type);
}

static void one_step(struct handle *h)
{
    char byte;

    if (h->fd < 0) {
        open_one(h);
        return;
    }

    switch (below(12)) {
    case 0:
        close_one(h);
        break;
    case 1:
        if (h->copy < 0)
            h->copy = dup(h->fd);
        break;
    case 2:
    case 3:
        for (unsigned i = below(6); i > 0; i--)
            (void)!pread(h->fd, &byte, 1, 0);
        break;
    case 4:
        lseek(h->fd, (off_t)below(BYTES), SEEK_SET);
        break;
    case 5:
        ask_one(h);
        break;
    default:
        lock_one(h);
    }
}

static void many_steps(bool passthrough)
{
    struct handle h[HANDLES];
    int a = make("a", O_RDWR);

    IS(ftruncate(a, 100), 0);
    close(a);
    close(make("b", O_RDWR));
    (void)!link(in("a"), in("link-a"));
    start_watcher(passthrough);
    dice = (unsigned)seed;
    for (int i = 0; i < HANDLES; i++)
        h[i].fd = -1;

    for (step = 0; step < STEPS; step++) {
        one_step(&h[below(HANDLES)]);
        if (step % 5 == 0)
            look("random");
    }

    end_watcher();
    for (int i = 0; i < HANDLES; i++)
        close(h[i].fd);
}

static void section_random(void)
{
    many_steps(true);
    seed++;
    many_steps(false);
}

/* ---- waits ---- */

static void on_signal(int sig)
{
}

static void set_handler(int flags)
{
    struct sigaction act = { .sa_handler = on_signal, .sa_flags = flags };

    sigaction(SIGALRM, &act, NULL);
}

/* Again and again: the first may come before the wait. */
static void alarm_every(int ms)
{
    const struct itimerval every = { { 0, ms * 1000 }, { 0, ms * 1000 } };

    setitimer(ITIMER_REAL, &every, NULL);
}

static int child_go[2], child_done[2];

/* A child that locks the file, waits for a byte and then ends, or unlocks. */
static pid_t start_holder(const char *name, void (*then)(int fd))
{
    char byte;

    IS(pipe2(child_go, O_CLOEXEC), 0);
    IS(pipe2(child_done, O_CLOEXEC), 0);

    pid_t pid = fork();

    if (pid == 0) {
        int fd = make(name, O_RDWR);

        IS(lock(fd, F_SETLK, F_WRLCK, 0, 10), 0);
        IS(write(child_done[1], "x", 1), 1);
        IS(read(child_go[0], &byte, 1), 1);
        then(fd);
        _exit(0);
    }

    IS(read(child_done[0], &byte, 1), 1);
    return pid;
}

static void end_holder(pid_t pid)
{
    int status;

    IS(waitpid(pid, &status, 0), pid);
    printf("holder: %x\n", status);
    for (int i = 0; i < 2; i++) {
        close(child_go[i]);
        close(child_done[i]);
    }
}

static void then_nothing(int fd)
{
}

static void then_unlock(int fd)
{
    usleep(150000);
    lock(fd, F_SETLK, F_UNLCK, 0, 0);
}

static void then_die(int fd)
{
    usleep(30000);
    kill(getpid(), SIGKILL);
}

static void wait_for(int fd, const char *name)
{
    pid_t pid = start_holder(name, then_unlock);

    T(lock(fd, F_SETLK, F_WRLCK, 0, 1));
    set_handler(0);
    alarm_every(50);
    T(lock(fd, F_SETLKW, F_WRLCK, 0, 1));
    set_handler(SA_RESTART);
    IS(write(child_go[1], "x", 1), 1);
    T(lock(fd, F_SETLKW, F_WRLCK, 0, 1));
    alarm_every(0);
    T(lock(fd, F_SETLK, F_UNLCK, 0, 0));
    end_holder(pid);

    pid = start_holder(name, then_die);
    IS(write(child_go[1], "x", 1), 1);
    T(lock(fd, F_SETLKW, F_WRLCK, 0, 1));
    end_holder(pid);
    T(lock(fd, F_SETLK, F_UNLCK, 0, 0));

    pid = start_holder(name, then_nothing);
    kill(pid, SIGKILL);
    end_holder(pid);
    T(lock(fd, F_SETLK, F_WRLCK, 0, 1));
    T(lock(fd, F_SETLK, F_UNLCK, 0, 0));
}

static bool is_deadlock(int fd)
{
    return lock(fd, F_SETLKW, F_WRLCK, 0, 1) != 0 && errno == EDEADLK;
}

static void then_wait_for_b(int fd)
{
    _exit(is_deadlock(make("b", O_RDWR)));
}

/* Each of two processes has a lock and waits for that of the other, which the later one hears. */

static void deadlock(int a, int b)
{
    pid_t pid = start_holder("a", then_wait_for_b);
    int status;

    T(lock(b, F_SETLK, F_WRLCK, 0, 1));
    IS(write(child_go[1], "x", 1), 1);

    bool is_ours = is_deadlock(a);

    T(lock(b, F_SETLK, F_UNLCK, 0, 0));
    IS(waitpid(pid, &status, 0), pid);
    T(is_ours != (WEXITSTATUS(status) == 1));
}

static void section_waits(void)
{
    int a = make("a", O_RDWR);
    int b = make("b", O_RDWR);

    wait_for(a, "a");
    T(lock(b, F_SETLK, F_WRLCK, 0, 1));
    wait_for(a, "a");
    T(lock(a, F_SETLK, F_RDLCK, 30, 1));
    wait_for(a, "a");
    T(lock(b, F_SETLK, F_UNLCK, 0, 0));
    T(lock(a, F_SETLK, F_UNLCK, 0, 0));
    deadlock(a, b);

    /* from a lock to read to one to write, beside another reader */
    T(lock(a, F_SETLK, F_RDLCK, 0, 1));

    int reads[2];
    char byte;

    IS(pipe(reads), 0);

    pid_t pid = fork();

    if (pid == 0) {
        int fd = make("a", O_RDWR);

        IS(lock(fd, F_SETLK, F_RDLCK, 0, 1), 0);
        IS(write(reads[1], "x", 1), 1);
        usleep(50000);
        _exit(0);
    }

    IS(read(reads[0], &byte, 1), 1);
    T(lock(a, F_SETLKW, F_WRLCK, 0, 1));
    IS(waitpid(pid, NULL, 0), pid);
}

/* ---- several processes count ---- */

enum {
    COUNTERS = 4,
    TURNS = 150
};

static void section_counts(void)
{
    int fd = make("a", O_RDWR);
    pid_t child[COUNTERS];
    long n = 0;

    IS(pwrite(fd, &n, sizeof n, 0), sizeof n);
    close(fd);
    for (int c = 0; c < COUNTERS; c++) {
        child[c] = fork();
        if (child[c] == 0) {
            if (c % 2)
                setenv("IOFWD_PASSTHROUGH", "0", 1);

            execl(self, self, "counter", dir, scratch, NULL);
            _exit(9);
        }
    }

    for (int c = 0; c < COUNTERS; c++) {
        int status;

        IS(waitpid(child[c], &status, 0), child[c]);
        IS(status, 0);
    }

    fd = make("a", O_RDWR);
    IS(pread(fd, &n, sizeof n, 0), sizeof n);
    printf("counted %ld\n", n);
}

static void section_counter(void)
{
    int fd = make("a", O_RDWR);
    long n;

    for (int i = 0; i < TURNS; i++) {
        IS(lock(fd, F_SETLKW, F_WRLCK, 0, 0), 0);
        IS(lseek(fd, 0, SEEK_SET), 0);
        IS(read(fd, &n, sizeof n), sizeof n);
        n++;
        IS(pwrite(fd, &n, sizeof n, 0), sizeof n);
        IS(lock(fd, F_SETLK, F_UNLCK, 0, 0), 0);
    }
}

/* Threads of one process; each step is over before the next one begins, but for the calls beside. */
static atomic_bool over;

static void *use_others(void *arg)
{
    char byte;

    /* the first one stays open: its close would drop the locks */
    for (int fd = 0; !atomic_load(&over) && fd < 200;) {
        int other = make("c", O_RDWR);

        fd = make("a", O_RDWR);
        for (int i = 0; i < 3 * ENOUGH; i++)
            IS(pread(other, &byte, 1, 0) + pread(fd, &byte, 1, 0) > 1, 0);

        close(other);
    }

    return NULL;
}

static void section_threads(void)
{
    int a = make("a", O_RDWR);
    pthread_t thread[3];

    IS(ftruncate(a, 100), 0);
    close(make("c", O_RDWR)); /* the threads may come too late for it */
    start_watcher(true);
    for (int i = 0; i < 3; i++)
        IS(pthread_create(&thread[i], NULL, use_others, NULL), 0);

    for (int i = 0; i < 60; i++) {
        IS(lock(a, F_SETLK, F_WRLCK, i % 20, 10), 0);
        IS(lock(a, F_SETLKW, F_RDLCK, i % 20, 3), 0);
        look("threads");
        IS(lock(a, F_SETLK, F_UNLCK, 0, i % 3 ? 0 : 90), 0);
    }

    atomic_store(&over, true);
    for (int i = 0; i < 3; i++)
        IS(pthread_join(thread[i], NULL), 0);

    end_watcher();
}

/* ---- exec and closes ---- */

static int number(const char *name)
{
    return atoi(getenv(name));
}

static void set_number(const char *name, int n)
{
    char text[16];

    snprintf(text, sizeof text, "%d", n);
    setenv(name, text, 1);
}

static void go_on(const char *section)
{
    set_number("WATCHER_TO", to_watcher[1]);
    set_number("WATCHER_FROM", from_watcher[0]);
    fcntl(to_watcher[1], F_SETFD, 0);
    fcntl(from_watcher[0], F_SETFD, 0);
    execl(self, self, section, dir, scratch, NULL);
    _exit(9);
}

static void take_watcher(void)
{
    to_watcher[1] = number("WATCHER_TO");
    from_watcher[0] = number("WATCHER_FROM");
}

static void section_exec(void)
{
    int a = make("a", O_RDWR);
    int b = make("b", O_RDWR);
    int also = make("a", O_RDONLY);

    warm(also);
    T(lock(a, F_SETLK, F_WRLCK, 0, 10));
    T(lock(b, F_SETLK, F_RDLCK, 0, 10));
    T(lock(also, F_SETLK, F_RDLCK, 20, 10));
    start_watcher(true);
    look("before");
    T(execl("/nowhere/to/be/found", "x", NULL));
    look("failed exec");
    T(system("exit 3") / 256);
    look("a child has run a program");
    T(lock(a, F_SETLK, F_UNLCK, 0, 3));
    set_number("A", a);
    set_number("B", b);
    set_number("ALSO", also);
    go_on("exec-2");
}

static void section_exec2(void)
{
    int a = number("A");
    int b = number("B");

    take_watcher();
    look("after exec");
    warm(a);
    warm(b);

    int more = make("a", O_RDWR);

    warm(more);
    look("used");
    T(lock(more, F_SETLK, F_WRLCK, 12, 3));
    T(lock(a, F_SETLK, F_RDLCK, 0, 5));
    T(lock(b, F_SETLKW, F_WRLCK, 5, 5));
    look("changed");
    T(fork() == 0 ? (_exit(0), 0) : 0);
    T(wait(NULL) > 0);
    look("a child has ended");
    T(lock(b, F_SETLK, F_UNLCK, 0, 0));
    T(lock(b, F_SETLK, F_WRLCK, 1, 1));
    T(fcntl(number("ALSO"), F_SETFD, FD_CLOEXEC));
    look("before the next");
    go_on("exec-3");
}

static void section_exec3(void)
{
    int b = number("B");

    take_watcher();
    look("one was closed by exec");
    T(lock(number("A"), F_SETLK, F_WRLCK, 0, 10));
    T(close(dup(b)));
    look("the other was closed");
    T(lock(b, F_SETLK, F_WRLCK, 0, 10));
    T(close(b));
    look("closed");
    fcntl(number("A"), F_SETFD, FD_CLOEXEC);
    go_on("exec-4");
}

static void section_exec4(void)
{
    take_watcher();
    look("all closed by exec");
}

static void section_closes(void)
{
    int a = make("a", O_RDWR);

    start_watcher(false);

    /* the numbers of the watcher's pipes are below all others */
    int low = to_watcher[1] > from_watcher[0] ? to_watcher[1] : from_watcher[0];
    int high = fcntl(a, F_DUPFD, low + 1);

    T(lock(high, F_SETLK, F_WRLCK, 0, 10));
    look("held");
    closefrom(low + 1);
    look("closefrom");
    high = open(in("a"), O_RDWR);
    T(lock(a, F_SETLK, F_WRLCK, 0, 10));
    T(high > low);
    look("held");
    T(dup2(low, high) == high);
    look("dup2");
    T(lock(a, F_SETLK, F_WRLCK, 0, 10));
    T(close_range((unsigned)low + 1, ~0u, 0));
    look("close_range of another file's");

    pid_t pid = fork();

    if (pid == 0) {
        close(a);
        _exit(0);
    }

    IS(waitpid(pid, NULL, 0), pid);
    look("closed by a child");
    pid = vfork();
    if (pid == 0)
        _exit(0);

    IS(waitpid(pid, NULL, 0), pid);
    T(system("true"));
    look("other children");
    end_watcher();
}

/* Until there are none left; the client gives up some of its own. */
static void use_up_descriptors(void)
{
    int fd, last = -1;

    while ((fd = dup(STDOUT_FILENO)) >= 0)
        last = fd;

    IS(errno, EMFILE);
    closefrom(last - 8);
}

/* Many locked files; with few descriptors. */
static void many_files(bool few)
{
    enum {
        FILES = 40
    };
    int fd[FILES];
    char name[16];
    int denied = 0;

    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "many%d", i);
        fd[i] = make(name, O_RDWR);
        T(lock(fd[i], F_SETLK, F_WRLCK, i, 1));
    }

    if (few)
        use_up_descriptors();

    pid_t pid = fork();

    if (pid == 0) {
        for (int i = 0; i < FILES; i++) {
            struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

            IS(fcntl(fd[i], F_GETLK, &l), 0);
            denied += l.l_pid == getppid() && l.l_start == i;
        }

        printf("held: %d\n", denied);
        fflush(stdout);
        _exit(0);
    }

    IS(waitpid(pid, NULL, 0), pid);
    for (int i = 0; i < FILES; i++) {
        T(lock(fd[i], F_SETLK, F_RDLCK, 0, 0));
        T(lock(fd[i], F_SETLK, F_UNLCK, 0, i % 2 ? 0 : 100));
        T(lock(fd[i], F_SETLKW, F_WRLCK, 3, 1));
    }
}

static void section_many(void)
{
    many_files(false);
}

static void section_few(void)
{
    struct rlimit few;

    getrlimit(RLIMIT_NOFILE, &few);
    few.rlim_cur = 200;
    IS(setrlimit(RLIMIT_NOFILE, &few), 0);
    many_files(true);
}

/* What a process had locked is free when its parent has waited for it, whoever has held it.  LATE: also while the
 * server does not run. */
static void section_ended(void)
{
    int rounds = getenv("LATE") ? 8 : 40;
    int a = make("a", O_RDWR);
    int denied = 0;

    for (int i = 0; i < rounds; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            setenv("IOFWD_PASSTHROUGH", i % 2 ? "0" : "1", 1);
            execl(self, self, "ends", dir, scratch, NULL);
            _exit(9);
        }

        IS(waitpid(pid, NULL, 0), pid);
        if (i == rounds / 2)
            T(lock(make("b", O_RDWR), F_SETLK, F_WRLCK, 0, 1));

        denied += lock(a, F_SETLK, F_WRLCK, 0, 10) != 0;
        denied += lock(a, F_SETLK, F_UNLCK, 0, 0) != 0;
    }

    printf("denied: %d\n", denied);
}

static void section_ends(void)
{
    IS(lock(make("a", O_RDWR), F_SETLK, F_WRLCK, 0, 10), 0);
    if (getenv("LATE"))
        stop_server(300000);
}

/* ---- driven by the script ---- */

/* Holds a lock of the file until it is killed; waits for it first. */
static void section_hold(void)
{
    int fd = make("held", O_RDWR);
    int r = lock(fd, F_SETLKW, F_WRLCK, 0, 10);

    printf("%s\n", r ? strerrorname_np(errno) : "held");
    fflush(stdout);
    while (r == 0)
        pause();
}

/* Has a lock of another file meanwhile. */
static void section_hold_both(void)
{
    int fd = make("other", O_RDWR);

    IS(lock(fd, F_SETLK, F_WRLCK, 0, 10), 0);
    puts("has the other");
    fflush(stdout);
    section_hold();
}

/* Who has it? */
static void section_who(void)
{
    struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

    IS(fcntl(make("held", O_RDWR), F_GETLK, &l), 0);
    printf("%d\n", l.l_type == F_UNLCK ? 0 : (int)l.l_pid);
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "watcher", section_watcher }, { "handles", section_handles },
        { "random", section_random },   { "waits", section_waits },
        { "counts", section_counts },   { "counter", section_counter },
        { "threads", section_threads }, { "exec", section_exec },
        { "exec-2", section_exec2 },    { "exec-3", section_exec3 },
        { "exec-4", section_exec4 },    { "closes", section_closes },
        { "many", section_many },       { "few", section_few },
        { "hold", section_hold },       { "hold-both", section_hold_both },
        { "who", section_who },         { "ended", section_ended },
        { "ends", section_ends },
    };

    if (argc < 4)
        return 2;

    self = argv[0];
    dir = argv[2];
    scratch = argv[3];
    IS(write(make("said", O_WRONLY | O_APPEND), argv[1], 1), 1);
    seed = getenv("TEST_SEED") ? strtoul(getenv("TEST_SEED"), NULL, 0) : 1;
    return run_section(sections, sizeof sections / sizeof *sections, argv[1]) ? 0 : 2;
}
