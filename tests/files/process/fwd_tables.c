/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_tables SECTION DIRECTORY SCRATCH: tasks with descriptor tables of their own, by unshare,
 * close_range and clone.  Prints what each call gave; fwd_tables.sh runs it in a local directory and
 * in a forwarded one and compares.
 *
 * The steps of the other task run while the first one waits, so that the lines have one order.
 */
#define _GNU_SOURCE 1
#include <aio.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/files/process/fwd_tables.h"

/* ---- a second thread, which executes steps ---- */

static sem_t wanted, done;
static void (*step)(void);
static pthread_t second;
static pid_t second_id;

static void *serve(void *arg)
{
    second_id = gettid();
    for (;;) {
        while (sem_wait(&wanted) != 0)
            ;

        if (!step)
            break;

        step();
        sem_post(&done);
    }

    sem_post(&done);
    return arg;
}

static void start_second(void)
{
    sem_init(&wanted, 0, 0);
    sem_init(&done, 0, 0);
    pthread_create(&second, NULL, serve, NULL);
}

/* pthread_join returns before the kernel has closed the descriptors of a thread with a table of its own, which
 * drops its locks.  Only then is its number no longer in use. */
static void join_second(void)
{
    const struct timespec moment = { 0, 1000000 };

    pthread_join(second, NULL);
    while (syscall(SYS_tgkill, getpid(), second_id, 0) == 0)
        nanosleep(&moment, NULL);
}

/* Executes fn in the second thread; NULL: the thread ends. */
static void there(void (*fn)(void))
{
    step = fn;
    sem_post(&wanted);
    while (sem_wait(&done) != 0)
        ;

    if (!fn)
        join_second();
}

/* ---- closing and opening in either table ---- */

static int one, two, three;
static int ep, from, to;

static void leave_table(void)
{
    OK(unshare(CLONE_FILES));
}

static void leave_by_number(void)
{
    OK(syscall(SYS_unshare, CLONE_FILES));
}

static void close_one(void)
{
    show("second, one", one);
    T(close(one));
    show("second, one closed", one);
    show("second, two", two);
}

static void open_there(void)
{
    three = make("third", "opened by the second");
    printf("%s number as one\n", three == one ? "the same" : "another");
    show("second, three", three);
}

static void dup_there(void)
{
    OK(dup2(three, two));
    show("second, two is three", two);
}

static void end_there(void)
{
    T(write(two, "changed", 7));
    T(fsync(two));
    T(close(two));
    show("second, three", three);
}

static void close_and_open(void (*leave)(void))
{
    one = make("first", "one's text");
    two = make("other", "two's text");
    start_second();
    there(leave);
    there(close_one);
    show("first, one", one);
    there(open_there);
    show("first, one", one);
    there(dup_there);
    show("first, two", two);
    T(write(two, "TWO", 3));
    T(close(two));
    there(end_there);
    show("first, two closed", two);
    T(write(one, "ONE", 3));
    there(NULL);
    show("first, one", one);
    T(close(one));
}

static void by_unshare(void)
{
    close_and_open(leave_table);
    close_and_open(leave_by_number);
}

static void close_all(void)
{
    T(close_range(3, ~0U, CLOSE_RANGE_UNSHARE));
    show("second, one", one);
    show("second, two", two);
}

static void close_all_by_number(void)
{
    T(syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_UNSHARE));
    show("second, one", one);
}

static void cloexec_all(void)
{
    T(close_range(3, ~0U, CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC));
    T(fcntl(one, F_GETFD));
    show("second, one", one);
}

/* Descriptor 0 is closed as any other: the last writer of a FIFO has gone. */
static void close_zero(void)
{
    struct pollfd p = { .events = POLLIN };
    struct flock l = { .l_type = F_WRLCK, .l_len = 1 };

    T(mkfifo(in("fifo"), 0600));
    from = open(in("fifo"), O_RDONLY | O_NONBLOCK);
    close(0);
    T(open(in("fifo"), O_WRONLY));
    T(close(0));
    p.fd = from;
    T(poll(&p, 1, 5000));
    printf("events %x\n", p.revents);
    T(open(in("first"), O_RDWR | O_CREAT, 0600));
    T(fcntl(0, F_SETLK, &l));
    one = open(in("first"), O_RDWR);
    T(close(0));
    if (fork() == 0) {
        T(fcntl(one, F_SETLK, &l));
        _exit(0);
    }

    wait(NULL);
    T(write(one, "x", 1));
    T(close(one));
    T(close(from));
    T(open("/dev/null", O_RDONLY));
}

static void by_close_range(void)
{
    static void (*const ways[])(void) = { close_all, close_all_by_number, cloexec_all };

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        one = make("first", "one's text");
        two = make("other", "two's text");
        start_second();
        there(ways[i]);
        there(open_there);
        show("first, one", one);
        show("first, two", two);
        T(fcntl(one, F_GETFD));
        there(NULL);
        T(close(one));
        T(close(two));
    }

    /* in a process with one thread the kernel leaves the table as it is */
    one = make("first", "one's text");
    T(close_range(one, one, CLOSE_RANGE_UNSHARE));
    T(close(one));
    one = make("first", "one's text");
    OK(unshare(CLONE_FILES | CLONE_FS));
    T(write(one, "ONE", 3));
    T(close(one));
}

/* ---- record locks: their owner is a descriptor table ---- */

static struct flock lock_of(short type, off_t from)
{
    return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = 10 };
}

static void ask(const char *who, int fd, off_t from)
{
    struct flock l = lock_of(F_WRLCK, from);
    int r = fcntl(fd, F_GETLK, &l);

    printf("%s, byte %d: %s%s\n", who, (int)from, r < 0 ? strerrorname_np(errno) : "",
           l.l_type == F_UNLCK ? "free" : "locked");
    fflush(stdout);
}

static void lock_there(void)
{
    struct flock l = lock_of(F_WRLCK, 0);

    T(fcntl(one, F_SETLK, &l));
    l = lock_of(F_WRLCK, 100);
    T(fcntl(one, F_SETLK, &l));
    ask("second", one, 0);
    ask("second", one, 100);
}

static void close_copy_there(void)
{
    T(close(two)); /* drops the second's lock only */
}

static void locks(void)
{
    struct flock l = lock_of(F_WRLCK, 0);

    one = make("first", "one's text");
    two = dup(one);
    T(fcntl(one, F_SETLK, &l));
    start_second();
    there(leave_table);
    there(lock_there);
    ask("first", one, 0);
    ask("first", one, 100);
    l = lock_of(F_WRLCK, 100);
    T(fcntl(one, F_SETLK, &l));
    there(close_copy_there);
    ask("first", one, 100);
    T(fcntl(one, F_SETLK, &l));
    there(lock_there);

    if (fork() == 0) {
        ask("child", one, 0);
        ask("child", one, 100);
        _exit(0);
    }

    wait(NULL);
    T(close(two));
    there(lock_there);
    there(NULL);

    l = lock_of(F_WRLCK, 100);
    T(fcntl(one, F_SETLK, &l));
    T(close(one));
}

/* ---- clone ---- */

static char stack[256 << 10] __attribute__((aligned(64)));

static int cloned(void *arg)
{
    show("clone, one", one);
    T(close(one));
    show("clone, one closed", one);
    open_there();
    T(write(two, "by the clone", 12));
    return 7;
}

static int cloned_exits(void *arg)
{
    T(close(one));
    open_there();
    _exit(8);
}

static int cloned_executes(void *arg)
{
    char *const argv[] = { "cat", NULL };

    T(dup2(one, 0) < 0);
    execv("/bin/cat", argv);
    _exit(9);
}

static void clone_with(int flags, int (*fn)(void *))
{
    int status = 0;

    one = make("first", "one's text");
    two = make("other", "two's text");

    pid_t pid = clone(fn, stack + sizeof stack, flags | SIGCHLD, NULL);

    waitpid(pid, &status, 0);
    printf("exit code %d\n", WEXITSTATUS(status));
    show("parent, one", one);
    show("parent, two", two);
    T(lseek(two, 0, SEEK_CUR));
    T(write(one, "parent", 6));
    T(close(one));
    T(close(two));
}

static void by_clone(void)
{
    clone_with(CLONE_VM, cloned);
    clone_with(CLONE_VM | CLONE_VFORK, cloned);
    clone_with(0, cloned);
    clone_with(CLONE_VM, cloned_exits);
    clone_with(CLONE_VM | CLONE_VFORK, cloned_executes);
    clone_with(CLONE_VM, cloned);
    by_unshare();
}

/* ---- fork, exec and threads from a table of one's own ---- */

static void *read_three(void *arg)
{
    show("third thread, three", three);
    show("third thread, one", one);
    return arg;
}

static void run(const char *const argv[])
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        dup2(three, 0);
        execv(argv[0], (char *const *)argv);
        _exit(126);
    }

    waitpid(pid, &status, 0);
    printf("exit code %d\n", WEXITSTATUS(status));
    fflush(stdout);
}

static void descend(void)
{
    const char *cat[] = { "/bin/cat", NULL };
    const char *append[] = { "/bin/sh", "-c",        "echo; cat; echo more >>\"$1\"",
                             "sh",      in("third"), NULL };
    pthread_t thread;

    leave_table();
    close_one();
    open_there();
    pthread_create(&thread, NULL, read_three, NULL);
    pthread_join(thread, NULL);

    run(cat);
    lseek(three, 0, SEEK_SET);
    run(append);

    if (fork() == 0) {
        show("child, three", three);
        T(close(three));
        show("child, two", two);
        T(write(two, "child", 5));
        leave_table();
        T(close(two));
        _exit(0);
    }

    wait(NULL);
    show("second, three", three);
    show("second, two", two);
    T(system("cat /dev/null"));
}

static void descendants(void)
{
    one = make("first", "one's text");
    two = make("other", "two's text");
    start_second();
    there(descend);
    show("first, one", one);
    show("first, two", two);

    if (fork() == 0) {
        show("child, one", one);
        _exit(0);
    }

    wait(NULL);
    there(NULL);
    T(close(one));
    T(close(two));
}

/* ---- names in /proc ---- */

static void by_name(const char *pattern, int fd)
{
    char path[80], target[PATH_MAX] = "", text[64] = "";

    snprintf(path, sizeof path, pattern, fd);

    ssize_t n = readlink(path, target, sizeof target - 1);
    int again = open(path, O_RDONLY);

    printf("%.16s.../fd: %s", path, n < 0 ? strerrorname_np(errno) : target);
    printf(" %s\n", again < 0 || pread(again, text, 60, 0) < 0 ? strerrorname_np(errno) : text);
    fflush(stdout);
    if (again >= 0)
        close(again);
}

static void names_there(void)
{
    leave_table();
    T(close(one));
    open_there();
    by_name("/proc/thread-self/fd/%d", three);
    by_name("/proc/self/fd/%d", three); /* the first thread's */
    by_name("/dev/fd/%d", three);
    by_name("/proc/self/fd/%d", two);
    T(close(two));
    by_name("/proc/self/fd/%d", two);
    by_name("/proc/thread-self/fd/%d", two);
}

static void proc(void)
{
    one = make("first", "one's text");
    two = make("other", "two's text");
    start_second();
    there(names_there);
    by_name("/proc/self/fd/%d", one);
    by_name("/dev/fd/%d", two);
    there(NULL);
    T(close(one));
    T(close(two));
}

/* ---- asynchronous calls, waits ---- */

/* text and fd's first bytes must be equal.  A local file is not read by a thread with a table of its
 * own: the C library reads the table of the thread that first asked for a request. */
static void aio_is(const char *who, int fd, const char *text)
{
    char buf[64] = "";
    struct aiocb cb = { .aio_fildes = fd, .aio_buf = buf, .aio_nbytes = sizeof buf - 1 };
    const struct aiocb *list[] = { &cb };

    if (gettid() != getpid() && strcmp(dir, "/fwd") != 0) {
        printf("%s: as it is\n", who);
        return;
    }

    aio_read(&cb);
    while (aio_error(&cb) == EINPROGRESS)
        aio_suspend(list, 1, NULL);

    ssize_t n = aio_return(&cb);

    if (n < 0)
        printf("%s: %s\n", who, strerrorname_np(aio_error(&cb)));
    else
        printf("%s: %s\n", who, strcmp(buf, text) == 0 ? "as it is" : buf);

    fflush(stdout);
}

static void aio_there(void)
{
    aio_is("second, one", one, "one's text");
    T(close(one));
    open_there();
    aio_is("second, three", three, "opened by the second");
    T(close(three));
}

static void requests(void)
{
    one = make("first", "one's text");
    aio_is("first, one", one, "one's text");
    start_second();
    there(leave_table);
    there(aio_there);
    aio_is("first, one", one, "one's text");
    there(NULL);
    aio_is("first, one", one, "one's text");
    T(close(one));
}

static void wait_both(const char *who)
{
    struct pollfd p = { .fd = from, .events = POLLIN };
    struct epoll_event ev = { 0 };
    char text[16] = "";

    T(write(to, "tick", 4));
    T(poll(&p, 1, 5000));
    T(epoll_wait(ep, &ev, 1, 5000));
    printf("%s: %x %llx", who, ev.events, (unsigned long long)ev.data.u64);
    printf(" %zd %s\n", read(from, text, sizeof text - 1), text);
    fflush(stdout);
    T(poll(&p, 1, 0));
    T(epoll_wait(ep, &ev, 1, 0));
}

static void wait_there(void)
{
    wait_both("second");
    T(close(ep));
    ep = epoll_create1(0);

    struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 2 };

    T(epoll_ctl(ep, EPOLL_CTL_ADD, from, &ev));
    wait_both("second, a new set");
}

static void waits(void)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 1 };

    T(mkfifo(in("fifo"), 0600));
    from = open(in("fifo"), O_RDONLY | O_NONBLOCK);
    to = open(in("fifo"), O_WRONLY);
    ep = epoll_create1(0);
    T(epoll_ctl(ep, EPOLL_CTL_ADD, from, &ev));
    wait_both("first");
    start_second();
    there(leave_table);

    int firsts = ep;

    there(wait_there);

    int seconds = ep;

    ep = firsts;
    wait_both("first");
    T(close(ep));
    ep = seconds;
    there(wait_there);
    there(NULL);
    T(close(from));
    T(close(to));

    /* so that the servers have written something */
    T(close(make("first", "text")));
}

/* ---- the end of a table closes what only it leads to, and drops its record locks ---- */

static void open_writer(void)
{
    struct flock l = lock_of(F_WRLCK, 0);

    to = open(in("fifo"), O_WRONLY);
    T(write(to, "last", 4));
    T(fcntl(one, F_SETLK, &l));
}

static int clone_opens_writer(void *arg)
{
    open_writer();
    return 0;
}

static void look_at_end(void)
{
    struct pollfd p = { .fd = from, .events = POLLIN };
    struct flock l = lock_of(F_WRLCK, 0);
    char text[16] = "";

    T(read(from, text, sizeof text));
    while (poll(&p, 1, 5000) == 1 && !(p.revents & POLLHUP))
        ;

    printf("events %x, %zd bytes\n", p.revents, read(from, text, sizeof text));
    T(fcntl(one, F_SETLKW, &l));
    l.l_type = F_UNLCK;
    T(fcntl(one, F_SETLKW, &l));
}

static void ends(void)
{
    one = make("first", "one's text");
    T(mkfifo(in("fifo"), 0600));
    from = open(in("fifo"), O_RDONLY | O_NONBLOCK);

    for (int i = 0; i < 3; i++) {
        start_second();
        there(leave_table);
        there(open_writer);
        there(NULL);
        look_at_end();
    }

    pid_t pid = clone(clone_opens_writer, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);

    waitpid(pid, NULL, 0);
    look_at_end();

    T(close(one));
    T(close(from));
}

/* ---- maps ---- */

static void map_there(void)
{
    char *map = mmap(NULL, 10, PROT_READ, MAP_SHARED, three, 0);

    printf("second, mapped: %.10s\n", map == MAP_FAILED ? strerrorname_np(errno) : map);
    fflush(stdout);
    munmap(map, 10);
}

static void maps(void)
{
    one = make("first", "one's text");
    two = dup(one);
    three = open(in("first"), O_RDONLY);

    char *map = mmap(NULL, 10, PROT_READ | PROT_WRITE, MAP_SHARED, one, 0);

    memcpy(map, "ONE", 3);
    start_second();
    there(leave_table);
    there(map_there);
    memcpy(map + 6, "TEXT", 4);
    T(close(one));
    T(msync(map, 10, MS_SYNC));
    there(close_copy_there);
    there(NULL);
    T(munmap(map, 10));
}

/* ---- a program that looks for its descriptors finds no others ---- */

static int at_first = -1; /* open at the beginning: the launcher's, and the test's */

static void found(void)
{
    struct stat st;
    int n = 0;

    for (int fd = 3; fd < 1024; fd++) {
        bool is_open = fstat(fd, &st) == 0;

        if (is_open != (fcntl(fd, F_GETFD) >= 0) || (!is_open && errno != EBADF))
            printf("descriptor %d: %s\n", fd, strerrorname_np(errno));

        n += is_open;
    }

    if (at_first < 0)
        at_first = n;

    printf("%d more open\n", n - at_first);
    fflush(stdout);
}

static void finding(void)
{
    found();
    T(mkdir(in("a"), 0700));
    T(chdir(in("a")));
    one = make("first", "one's text");
    found();
    if (fork() == 0) {
        found();
        char text[16];

        snprintf(text, sizeof text, "%d", at_first);
        execl("/proc/self/exe", "fwd_tables", "found", dir, text, NULL);
        _exit(1);
    }

    wait(NULL);
    T(close(one));
    found();
}

/* ---- the working directory is one for all ---- */

static void go_there(void)
{
    T(chdir(in("a")));
    T(close(open("seconds", O_CREAT | O_WRONLY, 0600)) < 0);
}

static void look_there(void)
{
    T(access("firsts", F_OK));
    T(access("seconds", F_OK));
}

static void directory(void)
{
    const char *const ls[] = { "/bin/sh", "-c", "ls", NULL };

    T(mkdir(in("a"), 0700));
    T(mkdir(in("b"), 0700));
    T(chdir(in("b")));
    three = open("/dev/null", O_RDONLY);
    T(write(open("x", O_CREAT | O_WRONLY, 0600), "x", 1));
    start_second();
    there(leave_table);
    there(go_there);
    T(close(open("firsts", O_CREAT | O_WRONLY, 0600)) < 0);
    T(access("seconds", F_OK));
    run(ls);
    T(chdir(in("b")));
    there(look_there);
    T(chdir("/"));
    there(look_there);
    there(NULL);
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "unshare", by_unshare },
        { "close_range", by_close_range },
        { "locks", locks },
        { "clone", by_clone },
        { "descendants", descendants },
        { "proc", proc },
        { "zero", close_zero },
        { "requests", requests },
        { "waits", waits },
        { "ends", ends },
        { "maps", maps },
        { "finding", finding },
        { "found", found },
        { "directory", directory },
    };

    if (argc != 4)
        return 2;

    dir = argv[2];
    if (strcmp(argv[1], "found") == 0)
        at_first = atoi(argv[3]);

    end_after(60);
    return run_section(sections, sizeof sections / sizeof sections[0], argv[1]) ? 0 : 2;
}
