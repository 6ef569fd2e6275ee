/* SPDX-License-Identifier: BSD-3-Clause */
/* Working directories and umasks under iofwd-run -trap, of processes and of threads: trap_calls.sh runs it. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trap_check.h"

static void at(const char *where, const char *below)
{
    char now[4096], want[4096];

    CHECK(getcwd(now, sizeof now));
    snprintf(want, sizeof want, "%s%s", where, below);
    if (strcmp(now, want) != 0) {
        fprintf(stderr, "in %s, not in %s\n", now, want);
        exit(1);
    }
}

static char base[4096];

static int shares_directory(void *unused)
{
    return chdir("sub") != 0;
}

static void *shares_that_of_its_starter(void *unused)
{
    at(base, "/sub");
    CHECK(chdir("..") == 0);
    at(base, "");
    CHECK(chdir("sub") == 0);
    return NULL;
}

static void *has_own_directory(void *unused)
{
    pthread_t next;

    CHECK(unshare(CLONE_FS) == 0 && chdir("sub") == 0);
    at(base, "/sub");
    CHECK(pthread_create(&next, NULL, shares_that_of_its_starter, NULL) == 0);
    CHECK(pthread_join(next, NULL) == 0);
    at(base, "/sub");
    CHECK(close(open("by-thread", O_CREAT | O_WRONLY, 0600)) == 0);
    return NULL;
}

/* /proc/PART/cwd, with the process's number in the place of PID. */
static void name_process(char *path, size_t cap, const char *part)
{
    size_t used = (size_t)snprintf(path, cap, "/proc/");

    while (*part) {
        bool is_number = strncmp(part, "PID", 3) == 0;

        if (is_number)
            used += (size_t)snprintf(path + used, cap - used, "%d", (int)getpid());
        else
            path[used++] = *part;

        part += is_number ? 3 : 1;
    }

    snprintf(path + used, cap - used, "/cwd");
}

/* The kernel's names of a directory that only the supervisor knows. */
static void proc_names(void)
{
    char path[64], target[4096];
    int up[2];
    char c;

    CHECK(getcwd(base, sizeof base) && mkdir("sub", 0755) == 0);

    int fd = open("sub/file", O_CREAT | O_WRONLY, 0600);

    CHECK(write(fd, "text", 4) == 4);
    close(fd);

    static const char *const parts[] = { "self", "thread-self", "PID", "PID/task/PID",
                                         "self/task/PID" };

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char below[128];
        struct stat st;

        name_process(path, sizeof path, parts[i]);
        snprintf(below, sizeof below, "%s/sub/file", path);

        char text[8] = "";

        fd = open(below, O_RDONLY);
        CHECK(read(fd, text, sizeof text) == 4 && strcmp(text, "text") == 0);
        close(fd);
        snprintf(below, sizeof below, "%s/none", path);
        CHECK(open(below, O_RDONLY) == -1 && errno == ENOENT);
        CHECK(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
        CHECK(lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
        snprintf(below, sizeof below, "%s/", path);
        CHECK(lstat(below, &st) == 0 && S_ISDIR(st.st_mode));

        ssize_t n = readlink(path, target, sizeof target - 1);

        CHECK(n > 0 && (target[n] = 0) == 0 && strcmp(target, base) == 0);
    }

    char rooted[4200];

    snprintf(rooted, sizeof rooted, "/proc/self/root%s/sub/file", base);
    CHECK(access(rooted, R_OK) == 0);

    /* that of another process */
    CHECK(pipe(up) == 0);

    pid_t child = fork();

    if (child == 0) {
        CHECK(chdir("sub") == 0 && access("/proc/self/cwd/file", F_OK) == 0 &&
              write(up[1], "x", 1) == 1);
        pause();
    }

    CHECK(read(up[0], &c, 1) == 1);
    snprintf(path, sizeof path, "/proc/%d/cwd/file", (int)child);
    CHECK(access(path, R_OK) == 0 && access("/proc/self/cwd/file", R_OK) == -1);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(chdir("/proc/self/cwd/sub") == 0);
    at(base, "/sub");
}

static pthread_barrier_t parting;

static void *keeps_directory(void *unused)
{
    pthread_barrier_wait(&parting);
    pthread_barrier_wait(&parting);
    at(base, "");
    CHECK(access("sub", F_OK) == 0 && mkdir("by-other", 0755) == 0 && chdir("by-other") == 0);
    at(base, "/by-other");
    pthread_barrier_wait(&parting);

    /* a child has the directory of the thread that has forked it */
    pid_t child = fork();

    if (child == 0) {
        at(base, "/by-other");
        _exit(0);
    }

    int status;

    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return NULL;
}

/* The first thread leaves the directory of the process to the others. */
static void first_thread_parts(void)
{
    pthread_t thread;
    int status;

    CHECK(getcwd(base, sizeof base) && mkdir("sub", 0755) == 0);
    CHECK(pthread_barrier_init(&parting, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, keeps_directory, NULL) == 0);
    pthread_barrier_wait(&parting);
    CHECK(unshare(CLONE_FS) == 0 && chdir("sub") == 0);

    pid_t child = fork();

    if (child == 0) {
        at(base, "/sub");
        _exit(0);
    }

    CHECK(waitpid(child, &status, 0) == child && status == 0);
    pthread_barrier_wait(&parting);
    pthread_barrier_wait(&parting);
    at(base, "/sub");
    CHECK(access("../by-other", F_OK) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void working_directory(void)
{
    static char stack[1 << 16];
    pthread_t thread;
    int status;

    CHECK(getcwd(base, sizeof base) && mkdir("sub", 0755) == 0);

    /* a thread with a directory of its own */
    CHECK(pthread_create(&thread, NULL, has_own_directory, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0 && access("sub/by-thread", F_OK) == 0);
    at(base, "");

    /* one that has been removed has no name */
    if (fork() == 0) {
        char now[4096];

        CHECK(mkdir("removed", 0755) == 0 && chdir("removed") == 0 && rmdir("../removed") == 0);
        CHECK(!getcwd(now, sizeof now) && errno == ENOENT);
        _exit(0);
    }
    CHECK(wait(&status) > 0 && status == 0);

    /* a forked child's is its own; a clone's with CLONE_FS is ours */
    if (fork() == 0) {
        CHECK(chdir("sub") == 0);
        at(base, "/sub");
        if (fork() == 0) {
            at(base, "/sub");
            CHECK(chdir("..") == 0);
            at(base, "");
            _exit(0);
        }
        CHECK(wait(&status) > 0 && status == 0);
        at(base, "/sub");
        _exit(0);
    }

    CHECK(wait(&status) > 0 && status == 0);
    at(base, "");
    CHECK(clone(shares_directory, stack + sizeof stack, CLONE_FS | SIGCHLD, NULL) > 0);
    CHECK(wait(&status) > 0 && status == 0);
    at(base, "/sub");

    /* out and in again */
    int old = open("..", O_RDONLY);

    CHECK(chdir("/proc") == 0 && access("self/status", F_OK) == 0 && access("sub", F_OK) == -1);
    CHECK(fchdir(old) == 0 && access("sub", F_OK) == 0);
    at(base, "");
    CHECK(chdir("none") == -1 && errno == ENOENT && chdir("sub/by-thread") == -1 &&
          errno == ENOTDIR);
    at(base, "");
}

static void masks(void)
{
    struct stat st;

    umask(027);
    close(open("masked", O_CREAT | O_WRONLY, 0666));
    CHECK(stat("masked", &st) == 0 && (st.st_mode & 0777) == 0640);
    if (fork() == 0) {
        CHECK(umask(0) == 027);
        close(open("open", O_CREAT | O_WRONLY, 0666));
        _exit(0);
    }

    wait(NULL);
    CHECK(stat("open", &st) == 0 && (st.st_mode & 0777) == 0666 && umask(022) == 027);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        { "working_directory", working_directory },
        { "proc_names", proc_names },
        { "first_thread_parts", first_thread_parts },
        { "masks", masks },
        { NULL, NULL },
    };

    return run_case(cases, argc, argv, chdir);
}
