/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_tables_race SECTION DIRECTORY SCRATCH: other threads open and close files while a task gets a copy
 * of its descriptor table.  fwd_tables.sh runs it in a local directory and in a forwarded one and
 * compares what it prints.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/process/fwd_tables.h"

/* ---- other threads open and close while tables are copied ---- */

static _Atomic bool over;
static int one;

static void *churn(void *arg)
{
    const char *name = arg;
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    while (!over) {
        int fd = open(path, O_RDWR | O_CREAT, 0600);
        char text[8] = "";

        if (fd < 0 || pwrite(fd, name, 1, 0) != 1 || pread(fd, text, 7, 0) != 1 ||
            text[0] != name[0]) {
            printf("churn %s failed: %s\n", name, strerrorname_np(errno));
            break;
        }

        close(fd);
    }

    return NULL;
}

static void *split_once(void *arg)
{
    char text[64] = "";
    struct stat st;

    if (unshare(CLONE_FILES) != 0 || pread(one, text, 60, 0) != 10 || close(one) != 0 ||
        pread(one, text, 1, 0) != -1)
        printf("a task failed: %s, %s\n", text, strerrorname_np(errno));

    /* each descriptor of the copy is either closed or leads to the file that its name says */
    for (int fd = 3; fd < 40; fd++) {
        char link[40], target[PATH_MAX] = "";

        snprintf(link, sizeof link, "/proc/thread-self/fd/%d", fd);
        if (readlink(link, target, sizeof target - 1) < 0 || strncmp(target, dir, strlen(dir)) != 0)
            continue;

        char got = 0;
        const char *name = strrchr(target, '/') + 1;

        if (fstat(fd, &st) != 0 ||
            (strlen(name) == 1 && pread(fd, &got, 1, 0) == 1 && got != name[0]))
            printf("descriptor %d, %s: %s\n", fd, target, strerrorname_np(errno));
    }

    return arg;
}

static void race(void)
{
    static const char *const names[] = { "A", "B", "C" };
    pthread_t churns[3], task;

    one = make("first", "one's text");
    for (int i = 0; i < 3; i++)
        pthread_create(&churns[i], NULL, churn, (void *)names[i]);

    for (int i = 0; i < 200; i++) {
        pthread_create(&task, NULL, split_once, NULL);
        pthread_join(task, NULL);
    }

    over = true;
    for (int i = 0; i < 3; i++)
        pthread_join(churns[i], NULL);

    show("first, one", one);
    T(close(one));
}

/* ---- a file that is open only while a table is copied ---- */

/* The second thread and its children stop at the calls that copy a table, before which the first thread opens a
 * file, and at gettid, which the library calls after the copy and before it looks at it: there the first thread
 * closes the file.  The copy's descriptor must lead to it. */
static int notices = -1;
static int moment = -1;
static bool kills_child;
static pid_t second_id;

static void notify_first(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettid, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
    };
    const struct sock_fprog filter = { .len = sizeof code / sizeof code[0], .filter = code };

    second_id = gettid();
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    notices = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                           &filter);
}

static sem_t ready;
static sem_t done;
static char stack[1 << 16] __attribute__((aligned(64)));

static int shows_moment(void *arg)
{
    syscall(SYS_gettid);
    show(arg, moment);
    return 0;
}

static void *copy_tables(void *arg)
{
    int status = -1;

    notify_first();
    sem_post(&ready);
    if (notices >= 0) {
        int pid = clone(shows_moment, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)"child");

        waitpid(pid, &status, 0);
        printf("exit code %d\n", WEXITSTATUS(status));
        OK(unshare(CLONE_FILES));
        shows_moment((void *)"second");
    }

    sem_post(&done);
    return arg;
}

/* Answers the second thread's notices until it has done its work. */
static void serve_notices(void)
{
    struct pollfd p = { .fd = notices, .events = POLLIN };

    while (sem_trywait(&done) != 0) {
        struct seccomp_notif n;
        struct seccomp_notif_resp r = { .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };

        memset(&n, 0, sizeof n);
        if (poll(&p, 1, 10) != 1 || ioctl(notices, SECCOMP_IOCTL_NOTIF_RECV, &n) != 0)
            continue;

        if (kills_child && (pid_t)n.pid != second_id) {
            kill((pid_t)n.pid, SIGKILL);
            continue;
        }

        if (n.data.nr != SYS_gettid)
            moment = open(in("moment"), O_RDONLY);
        else if (fcntl(moment, F_GETFD) >= 0)
            close(moment);

        r.id = n.id;
        ioctl(notices, SECCOMP_IOCTL_NOTIF_SEND, &r);
    }
}

/* Runs the second thread and answers its notices. */
static void run_second(void)
{
    pthread_t second;

    sem_init(&ready, 0, 0);
    sem_init(&done, 0, 0);
    pthread_create(&second, NULL, copy_tables, NULL);
    while (sem_wait(&ready) != 0)
        ;

    if (notices < 0)
        printf("the kernel gives no notices of system calls\n");
    else
        serve_notices();

    pthread_join(second, NULL);
}

static void while_copied(void)
{
    T(close(make("moment", "open for a moment")));
    run_second();
}

/* A child that is killed before it has looked at its table does not keep files open that are closed later. */
static void killed_at_start(void)
{
    T(close(make("moment", "open for a moment")));
    kills_child = true;
    run_second();
    T(mkfifo(in("fifo"), 0600));

    int from = open(in("fifo"), O_RDONLY | O_NONBLOCK);
    int to = open(in("fifo"), O_WRONLY);
    struct pollfd p = { .fd = from, .events = POLLIN };

    T(close(to));
    T(poll(&p, 1, 5000));
    printf("events %x\n", p.revents);
    T(close(from));
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "race", race },
        { "while-copied", while_copied },
        { "killed-at-start", killed_at_start },
    };

    if (argc != 4)
        return 2;

    dir = argv[2];
    end_after(60);
    return run_section(sections, sizeof sections / sizeof sections[0], argv[1]) ? 0 : 2;
}
