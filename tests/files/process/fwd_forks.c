/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_forks SECTION DIRECTORY SCRATCH: threads use files while others start processes in every way,
 * for FORKS_SECONDS (3).  No call may fail, in a local directory or in a forwarded one (fwd_forks.sh).
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "tests/files/fwd_say.h"

#define WORKERS 5
#define BYTES_MAX 20000
#define COMPLAINTS 20
#define GREETING "read by another program\n"

static pid_t process;
static atomic_bool over;
static atomic_uint complaints, rounds;

/* Says what failed, by one call that also a forked child may make. */
static void complain(const char *who, int line, const char *what)
{
    char text[512];
    int err = errno;

    if (atomic_fetch_add(&complaints, 1) >= COMPLAINTS)
        return;

    int n = snprintf(text, sizeof text, "%s, line %d: %s: %s\n", who, line, what,
                     err ? strerrorname_np(err) : "wrong");

    if (n > 0)
        (void)!write(STDOUT_FILENO, text, (size_t)n);
}

/* A call that must succeed, made with no errno from before.  false: it has been told. */
#define MUST(who, condition) \
    (errno = 0, (condition) ? true : (complain(who, __LINE__, #condition), false))

/* ---- one round of calls on files ---- */

struct worker {
    char who[16];
    int id;
    unsigned round;
    char home[PATH_MAX];
    unsigned char out[BYTES_MAX], back[BYTES_MAX];
};

static size_t fill(struct worker *w)
{
    size_t len = 1 + (w->round * 7919U + (unsigned)w->id * 104729U) % BYTES_MAX;

    for (size_t i = 0; i < len; i++)
        w->out[i] = (unsigned char)(w->round + i * 31 + (unsigned)w->id);

    return len;
}

static bool lists(struct worker *w, DIR *d, const char *name)
{
    bool found = false;

    if (!MUST(w->who, d != NULL))
        return false;

    for (struct dirent *e; (e = readdir(d)) != NULL;)
        found |= strcmp(e->d_name, name) == 0;

    return MUST(w->who, closedir(d) == 0) && MUST(w->who, found);
}

static bool use_copies(struct worker *w, int fd, size_t len)
{
    int number = 200 + w->id;
    struct stat st;
    int copy = -1;

    bool good = MUST(w->who, (copy = dup(fd)) >= 0) &&
                MUST(w->who, lseek(copy, 0, SEEK_SET) == 0) &&
                MUST(w->who, read(fd, w->back, len) == (ssize_t)len) &&
                MUST(w->who, memcmp(w->back, w->out, len) == 0) &&
                MUST(w->who, dup2(copy, number) == number) && MUST(w->who, close(copy) == 0) &&
                MUST(w->who, fstat(number, &st) == 0) && MUST(w->who, st.st_size == (off_t)len);

    return close(number) == 0 && good;
}

static bool use_below(struct worker *w, int d)
{
    char name[32], other[32];
    size_t len = fill(w);
    struct stat st;
    int copy;

    snprintf(name, sizeof name, "a%u", w->round % 3);
    snprintf(other, sizeof other, "b%u", w->round % 5);

    int closes = w->round % 2 ? O_CLOEXEC : 0;
    int fd = -1;

    bool good = MUST(w->who,
                     (fd = openat(d, name, O_RDWR | O_CREAT | O_TRUNC | closes, 0600)) >= 0) &&
                MUST(w->who, write(fd, w->out, len) == (ssize_t)len) &&
                MUST(w->who, pread(fd, w->back, len, 0) == (ssize_t)len) &&
                MUST(w->who, memcmp(w->back, w->out, len) == 0) &&
                MUST(w->who, fstat(fd, &st) == 0) && MUST(w->who, st.st_size == (off_t)len) &&
                use_copies(w, fd, len) && MUST(w->who, renameat(d, name, d, other) == 0);

    if (fd >= 0)
        good &= MUST(w->who, close(fd) == 0);
    if (!good)
        return false;

    good = MUST(w->who, (fd = openat(d, other, O_RDONLY)) >= 0) &&
           MUST(w->who, read(fd, w->back, BYTES_MAX) == (ssize_t)len) &&
           MUST(w->who, memcmp(w->back, w->out, len) == 0) && lists(w, opendir(w->home), other) &&
           MUST(w->who, (copy = dup(d)) >= 0) && MUST(w->who, lseek(copy, 0, SEEK_SET) == 0) &&
           lists(w, fdopendir(copy), other) && MUST(w->who, unlinkat(d, other, 0) == 0) &&
           MUST(w->who, fstatat(d, other, &st, 0) < 0 && errno == ENOENT);

    if (fd >= 0)
        good &= MUST(w->who, close(fd) == 0);

    return good;
}

static bool use_files(struct worker *w)
{
    int closes = w->round % 3 ? O_CLOEXEC : 0;
    struct stat st;
    int d;

    if (!MUST(w->who, (d = open(w->home, O_RDONLY | O_DIRECTORY | closes)) >= 0))
        return false;

    bool good = MUST(w->who, fstat(d, &st) == 0) && MUST(w->who, S_ISDIR(st.st_mode)) &&
                use_below(w, d);

    return MUST(w->who, close(d) == 0) && good;
}

/* The same with nothing that a signal handler may not do, so that it may interrupt this anywhere and fork. */
static bool use_plainly(struct worker *w)
{
    char name[] = "plain?";
    char other[] = "other?";
    size_t len = fill(w);
    struct stat st;
    int fd = -1;
    int d = -1;

    /* the process or a child of its thread */
    name[5] = other[5] = getpid() == process ? 'p' : 'c';

    bool good = MUST(w->who, (d = open(w->home, O_RDONLY | O_DIRECTORY)) >= 0) &&
                MUST(w->who, (fd = openat(d, name, O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0) &&
                MUST(w->who, write(fd, w->out, len) == (ssize_t)len) &&
                MUST(w->who, pread(fd, w->back, len, 0) == (ssize_t)len) &&
                MUST(w->who, memcmp(w->back, w->out, len) == 0) &&
                MUST(w->who, fstat(fd, &st) == 0) && MUST(w->who, st.st_size == (off_t)len) &&
                MUST(w->who, renameat(d, name, d, other) == 0) &&
                MUST(w->who, unlinkat(d, other, 0) == 0);

    if (fd >= 0)
        good &= MUST(w->who, close(fd) == 0);
    if (d >= 0)
        good &= MUST(w->who, close(d) == 0);

    return good;
}

static struct worker *new_worker(const char *kind, int id)
{
    struct worker *w = calloc(1, sizeof *w);

    w->id = id;
    snprintf(w->who, sizeof w->who, "%s %d", kind, id);
    snprintf(w->home, sizeof w->home, "%s/%s.%d", dir, kind, id);
    if (mkdir(w->home, 0700) != 0)
        complain(w->who, __LINE__, "mkdir");

    return w;
}

static void *work(void *arg)
{
    struct worker *w = arg;

    while (!over) {
        use_files(w);
        w->round++;
        rounds++;
    }

    return NULL;
}

/* ---- processes ---- */

static void expect(const char *who, int line, pid_t pid)
{
    char what[64];
    int status = 0;

    errno = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) {
        complain(who, line, "no child");
    } else if (status != 0) {
        snprintf(what, sizeof what, "the child ended with status %#x", (unsigned)status);
        complain(who, line, what);
    }
}

/* Forked children use files too; those of every second round fork again. */
static void *fork_children(void *arg)
{
    struct worker *w = arg;

    for (; !over; w->round++) {
        pid_t pid = fork();

        if (pid == 0) {
            bool good = use_files(w);

            w->round++;
            pid_t next = w->round % 2 ? fork() : 1;

            if (next == 0)
                _exit(!use_files(w));
            if (next != 1)
                expect(w->who, __LINE__, next);

            _exit(!(good && use_files(w)));
        }

        expect(w->who, __LINE__, pid);
    }

    return NULL;
}

/* What cat prints into the file of the descriptor. */
static void read_back(const char *who, int line, int fd)
{
    char text[sizeof GREETING + 8] = "";

    if (!MUST(who, pread(fd, text, sizeof text - 1, 0) == (ssize_t)strlen(GREETING)) ||
        strcmp(text, GREETING) != 0)
        complain(who, line, text);
}

static void *exec_children(void *arg)
{
    const char *who = arg;
    char path[PATH_MAX];
    char *const yes[] = { (char *)"true", NULL };
    char *const cat[] = { (char *)"cat", path, NULL };

    snprintf(path, sizeof path, "%s/greeting", dir);
    for (unsigned i = 0; !over; i++) {
        pid_t pid = vfork();

        if (pid == 0) {
            execve("/bin/true", yes, environ);
            _exit(9);
        }

        expect(who, __LINE__, pid);

        int out = open(in(i % 2 ? "exec.out" : "exec.out2"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC,
                       0600);

        if (!MUST(who, out >= 0))
            continue;

        pid = vfork();
        if (pid == 0) {
            dup2(out, STDOUT_FILENO);
            execve("/bin/cat", cat, environ);
            _exit(9);
        }

        expect(who, __LINE__, pid);
        read_back(who, __LINE__, out);
        MUST(who, close(out) == 0);
    }

    return NULL;
}

static void *spawn_children(void *arg)
{
    const char *who = arg;
    char path[PATH_MAX], out[PATH_MAX];
    char *const cat[] = { (char *)"cat", path, NULL };
    char *const in_cat[] = { (char *)"cat", NULL };

    snprintf(path, sizeof path, "%s/greeting", dir);
    snprintf(out, sizeof out, "%s/spawn.out", dir);
    for (unsigned i = 0; !over; i++) {
        posix_spawn_file_actions_t actions;
        pid_t pid = -1;
        int fd = open(out, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        if (!MUST(who, fd >= 0))
            continue;

        posix_spawn_file_actions_init(&actions);
        if (i % 3 == 1)
            posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, path, O_RDONLY, 0);
        if (i % 3 == 2)
            posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out, O_WRONLY, 0);
        else
            posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);

        if ((errno = posix_spawn(&pid, "/bin/cat", &actions, NULL, i % 3 == 1 ? in_cat : cat,
                                 environ)) != 0)
            complain(who, __LINE__, "posix_spawn");
        else
            expect(who, __LINE__, pid);

        posix_spawn_file_actions_destroy(&actions);
        read_back(who, __LINE__, fd);
        MUST(who, close(fd) == 0);
    }

    return NULL;
}

static void *start_shells(void *arg)
{
    const char *who = arg;
    char command[2 * PATH_MAX];

    for (unsigned i = 0; !over; i++) {
        char text[sizeof GREETING + 8] = "";

        snprintf(command, sizeof command, "cat %s/greeting", dir);

        FILE *p = popen(command, i % 2 ? "r" : "re");

        if (!MUST(who, p != NULL))
            continue;

        MUST(who, fgets(text, sizeof text, p) != NULL);
        MUST(who, strcmp(text, GREETING) == 0);
        MUST(who, pclose(p) == 0);
        snprintf(command, sizeof command, "cmp -s %s/greeting %s/greeting", dir, dir);
        MUST(who, system(command) == 0);
    }

    return NULL;
}

/* ---- signals ---- */

static _Thread_local struct worker *interrupted; /* whose thread takes signals */
static atomic_uint handled;

/* What a handler may do: calls on files, and now and then a fork. */
static void handle(int sig)
{
    struct worker *w = interrupted;
    int saved = errno;
    char text[8] = "";
    int d = -1;
    int fd = -1;

    if (!w)
        return;

    bool good = MUST(w->who, (d = open(w->home, O_RDONLY | O_DIRECTORY)) >= 0) &&
                MUST(w->who, (fd = openat(d, "handled", O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0) &&
                MUST(w->who, write(fd, "text", 4) == 4) &&
                MUST(w->who, pread(fd, text, sizeof text, 0) == 4) &&
                MUST(w->who, memcmp(text, "text", 4) == 0);

    if (sig == SIGUSR2 && good) {
        pid_t pid = fork();

        if (pid == 0) {
            interrupted = NULL;
            _exit(!(pread(fd, text, sizeof text, 0) == 4 && use_plainly(w)));
        }

        expect(w->who, __LINE__, pid);
    }

    if (fd >= 0)
        good &= MUST(w->who, close(fd) == 0);
    if (d >= 0)
        good &= MUST(w->who, close(d) == 0);

    handled++;
    errno = saved;
}

static void *work_interrupted(void *arg)
{
    struct worker *w = arg;

    interrupted = w;
    for (; !over; w->round++, rounds++)
        use_plainly(w);

    interrupted = NULL;
    return NULL;
}

/* Forked children of a thread that takes signals itself. */
static void *fork_interrupted(void *arg)
{
    struct worker *w = arg;

    for (interrupted = w; !over; w->round++) {
        pid_t pid = fork();

        if (pid == 0)
            _exit(!(use_plainly(w)));

        expect(w->who, __LINE__, pid);
    }

    interrupted = NULL;
    return NULL;
}

static void make_greeting(void)
{
    int fd = open(in("greeting"), O_WRONLY | O_CREAT, 0600);

    MUST("main", write(fd, GREETING, strlen(GREETING)) == (ssize_t)strlen(GREETING));
    MUST("main", close(fd) == 0);
}

static void start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    if ((errno = pthread_create(thread, NULL, fn, arg)) != 0) {
        complain("main", __LINE__, "pthread_create");
        exit(1);
    }
}

static uint64_t end_of_section(void)
{
    const char *seconds = getenv("FORKS_SECONDS");

    return amph_now_ns() + (uint64_t)(1e9 * (seconds ? atof(seconds) : 3));
}

/* ---- threads that wait, that are cancelled, that end ---- */

/* Another process, which takes and gives back a record lock as it is told. */
struct holder {
    pid_t pid;
    int orders, answers;
};

static void hold(struct holder *h)
{
    struct flock lock = { .l_whence = SEEK_SET, .l_len = 10 };
    int fd = open(in("locked"), O_RDWR);
    char order;

    while (read(h->orders, &order, 1) == 1) {
        lock.l_type = order == 'l' ? F_WRLCK : F_UNLCK;
        MUST("holder", fcntl(fd, F_SETLKW, &lock) == 0);
        (void)!write(h->answers, &order, 1);
    }

    _exit(0);
}

static void start_holder(struct holder *h)
{
    int orders[2], answers[2];
    int fd = open(in("locked"), O_RDWR | O_CREAT, 0600);

    if (fd < 0 || close(fd) != 0 || pipe2(orders, O_CLOEXEC) != 0 ||
        pipe2(answers, O_CLOEXEC) != 0) {
        complain("main", __LINE__, "no holder");
        exit(1);
    }

    h->orders = orders[0];
    h->answers = answers[1];
    h->pid = fork();
    if (h->pid == 0) {
        close(orders[1]);
        hold(h);
    }

    close(orders[0]);
    close(answers[1]);
    h->orders = orders[1];
    h->answers = answers[0];
}

static void tell(const struct holder *h, char order)
{
    char answer;

    MUST("main", write(h->orders, &order, 1) == 1 && read(h->answers, &answer, 1) == 1);
}

static void end_holder(const struct holder *h)
{
    close(h->orders);
    expect("main", __LINE__, h->pid);
}

static void close_fd(void *arg)
{
    MUST("cleanup", close(*(int *)arg) == 0);
}

static atomic_bool got;

static void *wait_for_lock(void *arg)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10 };
    int fd = open(in("locked"), O_RDWR);

    pthread_cleanup_push(close_fd, &fd);
    MUST("waiter", fcntl(fd, F_SETLKW, &lock) == 0);
    got = true;
    pthread_cleanup_pop(1); /* the lock ends with it */

    return arg;
}

static void *wait_for_data(void *arg)
{
    char byte;
    int fd = open(in("fifo"), O_RDWR);

    pthread_cleanup_push(close_fd, &fd);
    MUST("reader", read(fd, &byte, 1) == 1);
    pthread_cleanup_pop(1);

    return arg;
}

static void *open_and_close(void *arg)
{
    char text[sizeof GREETING];
    int fd = -1;

    for (bool good = true; good && !over;) {
        int state;

        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
        good = MUST("opener", (fd = open(in("greeting"), O_RDONLY)) >= 0);
        pthread_setcancelstate(state, NULL);

        pthread_cleanup_push(close_fd, &fd);
        good = good && MUST("opener", read(fd, text, sizeof text) == (ssize_t)strlen(GREETING));
        pthread_cleanup_pop(good);
    }

    return arg;
}

static void fork_beside_lock(struct worker *w)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10 };
        int fd = open(in("locked"), O_RDWR);

        _exit(
            !(MUST(w->who, fcntl(fd, F_SETLK, &lock) < 0 && (errno == EAGAIN || errno == EACCES)) &&
              MUST(w->who, close(fd) == 0) && use_plainly(w)));
    }

    expect(w->who, __LINE__, pid);
}

static void lock_waits(void)
{
    struct worker *w = new_worker("locker", 0);
    pthread_t waiter;
    struct holder h;
    const uint64_t end = end_of_section();

    start_holder(&h);
    for (; amph_now_ns() < end && complaints < COMPLAINTS; w->round++, rounds++) {
        tell(&h, 'l');
        got = false;
        start(&waiter, wait_for_lock, NULL);
        fork_beside_lock(w);
        fork_beside_lock(w);
        MUST("main", !got);
        tell(&h, 'u');
        MUST("main", pthread_join(waiter, NULL) == 0);
        MUST("main", got);
    }

    end_holder(&h);
}

/* ---- a handler that jumps out of a wait ---- */

static sigjmp_buf back;

static void jump(int sig)
{
    siglongjmp(back, sig);
}

static int lock_part(int fd, int command, short type, off_t start, off_t len)
{
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };

    return fcntl(fd, command, &lock);
}

/* The process waits for a lock while it holds another one, and a handler jumps out of the wait, again and again.
 * Afterwards its waits are as cancellable as before. */
static void jumps(void)
{
    const struct timespec pause = { 0, 20000000 };
    const struct itimerval soon = { { 0, 0 }, { 0, 20000 } };
    volatile int jumped = 0;
    pthread_t waiter;
    struct holder h;
    void *result;

    start_holder(&h);
    tell(&h, 'l');

    int fd = open(in("locked"), O_RDWR);

    for (int i = 0; i < 20; i++) /* the server passes the descriptor of a file that is used */
        MUST("main", pwrite(fd, "text", 4, i) == 4);

    MUST("main", lock_part(fd, F_SETLK, F_WRLCK, 20, 10) == 0);
    signal(SIGALRM, jump);
    while (jumped < 3) {
        if (sigsetjmp(back, 1) == 0) {
            setitimer(ITIMER_REAL, &soon, NULL);
            MUST("main", lock_part(fd, F_SETLKW, F_WRLCK, 0, 10) == -2);
            break;
        }

        jumped++;
    }

    MUST("main", jumped == 3);
    MUST("main", lock_part(fd, F_SETLKW, F_WRLCK, 40, 10) == 0);
    MUST("main", lock_part(fd, F_SETLK, F_UNLCK, 0, 0) == 0);

    start(&waiter, wait_for_lock, NULL);
    nanosleep(&pause, NULL);
    MUST("main", pthread_cancel(waiter) == 0);
    MUST("main", pthread_join(waiter, &result) == 0);
    MUST("main", result == PTHREAD_CANCELED);
    MUST("main", close(fd) == 0);
    rounds = 1;
    end_holder(&h);
}

static void cancels(void)
{
    static void *(*const kinds[])(void *) = { open_and_close, wait_for_lock, wait_for_data };
    struct worker *w = new_worker("canceller", 0);
    pthread_t forker, one;
    struct holder h;
    void *result;
    const uint64_t end = end_of_section();

    make_greeting();
    if (mkfifo(in("fifo"), 0600) != 0)
        complain("main", __LINE__, "mkfifo");

    start_holder(&h);
    tell(&h, 'l');
    start(&forker, fork_children, new_worker("parent", 1));

    for (; amph_now_ns() < end && complaints < COMPLAINTS; w->round++, rounds++) {
        const struct timespec pause = { 0, w->round % 7 * 300000L };

        start(&one, kinds[w->round % 3], NULL);
        nanosleep(&pause, NULL);
        use_plainly(w);
        MUST("main", pthread_cancel(one) == 0);
        MUST("main", pthread_join(one, &result) == 0);
        MUST("main", result == PTHREAD_CANCELED);
    }

    over = true;
    pthread_join(forker, NULL);
    tell(&h, 'u');
    got = false;
    wait_for_lock(NULL);
    MUST("main", got);
    end_holder(&h);
}

static void *work_once(void *arg)
{
    struct worker *w = arg;

    use_files(w);
    if (w->round % 2)
        pthread_exit(NULL);

    return NULL;
}

static void ends(void)
{
    pthread_t forkers[2], short_lived[3];
    struct worker *w[3];
    const uint64_t end = end_of_section();

    for (int i = 0; i < 2; i++)
        start(&forkers[i], fork_children, new_worker("parent", i));
    for (int i = 0; i < 3; i++)
        w[i] = new_worker("short", i);

    for (; amph_now_ns() < end && complaints < COMPLAINTS; rounds++) {
        for (int i = 0; i < 3; i++)
            start(&short_lived[i], work_once, w[i]);
        for (int i = 0; i < 3; i++) {
            MUST("main", pthread_join(short_lived[i], NULL) == 0);
            w[i]->round++;
        }
    }

    over = true;
    for (int i = 0; i < 2; i++)
        pthread_join(forkers[i], NULL);
}

/* ---- sections ---- */

static void wait_a_while(void)
{
    const struct timespec pause = { 0, 50000000 };
    const uint64_t end = end_of_section();

    while (amph_now_ns() < end && complaints < COMPLAINTS)
        nanosleep(&pause, NULL);

    over = true;
}

static void run(void *(*const *fns)(void *), const char *const *names, int n)
{
    pthread_t threads[WORKERS + 16];

    make_greeting();
    for (int i = 0; i < WORKERS; i++)
        start(&threads[i], work, new_worker("worker", i));
    for (int i = 0; i < n; i++)
        start(&threads[WORKERS + i], fns[i],
              fns[i] == fork_children ? (void *)new_worker("parent", 10 + i) : (void *)names[i]);

    wait_a_while();
    for (int i = 0; i < WORKERS + n; i++)
        pthread_join(threads[i], NULL);
}

static void all(void)
{
    static void *(*const fns[])(void *) = { fork_children, fork_children, exec_children,
                                            spawn_children, start_shells };
    static const char *const names[] = { "", "", "exec", "spawn", "shells" };

    run(fns, names, 5);
}

static void forks(void)
{
    static void *(*const fns[])(void *) = { fork_children, fork_children };
    static const char *const names[] = { "", "" };

    run(fns, names, 2);
}

static void execs(void)
{
    static void *(*const fns[])(void *) = { exec_children };
    static const char *const names[] = { "exec 1" };

    run(fns, names, 1);
}

static void spawns(void)
{
    static void *(*const fns[])(void *) = { spawn_children };
    static const char *const names[] = { "spawn 1" };

    run(fns, names, 1);
}

static void shells(void)
{
    static void *(*const fns[])(void *) = { start_shells, start_shells, start_shells };
    static const char *const names[] = { "shells 1", "shells 2", "shells 3" };

    run(fns, names, 3);
}

/* Threads that are interrupted by signals whose handlers use files, while others fork. */
static void interrupt(int signals)
{
    struct sigaction sa = { .sa_handler = handle, .sa_flags = SA_RESTART };
    pthread_t threads[WORKERS];
    const uint64_t end = end_of_section();

    sigaction(SIGUSR1, &sa, NULL);
    sigaction(SIGUSR2, &sa, NULL);
    for (int i = 0; i < WORKERS; i++)
        start(&threads[i], i < 3 ? work_interrupted : fork_interrupted, new_worker("taker", i));

    for (unsigned i = 0; amph_now_ns() < end && complaints < COMPLAINTS; i++) {
        unsigned before = handled;
        const struct timespec pause = { 0, 200000 };

        /* a handler that has interrupted fork must not fork */
        pthread_kill(threads[i % WORKERS], signals == 2 && i % WORKERS < 3 ? SIGUSR2 : SIGUSR1);
        for (int k = 0; k < 50 && handled == before; k++)
            nanosleep(&pause, NULL);
    }

    over = true;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);

    fprintf(stderr, "%u signals\n", handled);
}

static void handlers(void)
{
    interrupt(1);
}

static void forking_handlers(void)
{
    interrupt(2);
}

static void none(void)
{
    run(NULL, NULL, 0);
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "all", all },
        { "forks", forks },
        { "execs", execs },
        { "spawns", spawns },
        { "shells", shells },
        { "none", none },
        { "lock-waits", lock_waits },
        { "cancels", cancels },
        { "ends", ends },
        { "jumps", jumps },
        { "handlers", handlers },
        { "forking-handlers", forking_handlers },
    };

    if (argc != 4)
        return 2;

    dir = argv[2];
    process = getpid();
    if (!run_section(sections, sizeof sections / sizeof sections[0], argv[1]))
        return 2;

    fprintf(stderr, "%u rounds\n", rounds);
    printf("%u complaints\n", complaints);
    return complaints != 0;
}
