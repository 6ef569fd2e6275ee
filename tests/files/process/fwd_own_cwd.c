/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_own_cwd SECTION DIRECTORY SCRATCH: threads with a working directory of their own, by unshare and
 * clone.  Prints what each call gave; fwd_own_cwd.sh runs it in a local directory and in a forwarded one
 * and compares.
 *   unshare  a thread leaves the directory of the others; what it starts begins in its own one
 *   clone    children that share the memory, with and without the directory of their parent
 *   many     eight threads change their directories all the time; none sees another's
 *   keys     a program that has taken all of the C library's keys for its threads' values
 *   root     another root directory, without /proc: the working directory and descriptors lead where they led
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/fwd_say.h"

#define THREADS 8

/* Prints the last part of the working directory's name; that of the top directory differs between the runs. */
static void where(void)
{
    char name[PATH_MAX];
    const char *last = getcwd(name, sizeof name) ? strrchr(name, '/') : NULL;

    printf("in %s\n", last && strncmp(last, "/sub", 4) == 0 ? last + 1 : "the top directory");
    fflush(stdout);
}

static void make(const char *name)
{
    int fd = open(name, O_CREAT | O_WRONLY, 0666);

    T(fd < 0 ? -1 : write(fd, name, strlen(name)));
    T(close(fd));
}

static int wait_for(pid_t child)
{
    int status = -1;

    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Says nothing before the thread has ended: it says lines of its own. */
static void start_and_join(void *(*fn)(void *))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, fn, NULL) != 0)
        exit(4);

    T(pthread_join(thread, NULL));
}

/* ---- unshare ---- */

static void *below(void *arg)
{
    where();
    make("by the next thread");
    return arg;
}

static void *leave(void *arg)
{
    struct stat st;

    OK(unshare(CLONE_FS));
    where();
    T(chdir("sub"));
    umask(077);
    make("private");
    T(stat("private", &st));
    T(st.st_mode & 0777);
    where();
    T(system("ls; test -f private"));

    FILE *list = popen("ls | wc -l", "r");
    int files = -1;

    T(list && fscanf(list, "%d", &files) == 1);
    T(files);
    T(list ? pclose(list) : -1);

    pid_t child = fork();

    if (child == 0)
        _exit(access("private", F_OK) == 0 ? 5 : 6);

    T(wait_for(child));
    child = vfork();
    if (child == 0) {
        execlp("test", "test", "-f", "private", NULL);
        _exit(9);
    }

    T(wait_for(child));

    /* a thread shares the directory of the one that has started it */
    start_and_join(below);
    T(access("by the next thread", F_OK));
    T(chdir("/"));
    T(access("private", F_OK));
    T(chdir(dir));
    T(chdir("sub/sub2"));
    where();
    return arg;
}

static void by_unshare(void)
{
    struct stat st;

    start_and_join(leave);
    where();
    T(access("private", F_OK));
    T(access("sub/private", F_OK));
    make("public");
    T(stat("public", &st));
    T(st.st_mode & 0777);
    T(system("test -f public"));

    /* alone, there is nobody to leave */
    OK(unshare(CLONE_FS));
    T(chdir("sub"));
    T(access("private", F_OK));
}

/* ---- clone ---- */

static char stack[256 << 10];

static int goes(void *arg)
{
    return chdir("sub") == 0 && access("private", F_OK) == 0 ? 0 : 1;
}

static int goes_and_starts(void *arg)
{
    if (chdir("sub") != 0)
        return 1;

    execlp("test", "test", "-f", "private", NULL);
    return 2;
}

static int child(int (*fn)(void *), int flags)
{
    return wait_for(
        clone(fn, stack + sizeof stack, flags | CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
}

static void by_clone(void)
{
    make("sub/private");
    T(child(goes, 0));
    where();
    T(child(goes, CLONE_FILES));
    where();
    T(child(goes_and_starts, 0));
    where();
    T(access("sub/private", F_OK));
    T(child(goes, CLONE_FS));
    where();
    T(access("private", F_OK));
}

/* ---- many ---- */

static int wrong; /* atomic */

static void must(bool ok, const char *what)
{
    if (ok)
        return;

    __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
    printf("not so: %s (%s)\n", what, strerrorname_np(errno));
    fflush(stdout);
}

/* Starts programs and children in the directory d. */
static void start_there(const char *d)
{
    char command[100];

    snprintf(command, sizeof command, "test -f mine && pwd | grep -q '/%s$'", d);
    must(system(command) == 0, "system");

    pid_t child = fork();

    if (child == 0)
        _exit(access("mine", F_OK) == 0 ? 0 : 1);

    must(wait_for(child) == 0, "fork");
}

static void *wanders(void *arg)
{
    const char *d = arg;
    char name[PATH_MAX];

    must(syscall(SYS_unshare, CLONE_FS) == 0, "unshare");
    for (int i = 0; i < 40; i++) {
        must(chdir(d) == 0, "chdir");

        int fd = open("mine", O_CREAT | O_RDWR, 0644);

        must(fd >= 0 && write(fd, d, strlen(d)) > 0 && close(fd) == 0, "a file");
        must(getcwd(name, sizeof name) && strcmp(strrchr(name, '/') + 1, d) == 0, "getcwd");
        must(access("../base", F_OK) == 0 && access("base", F_OK) == -1, "the directory above");

        DIR *list = opendir(".");

        must(list && closedir(list) == 0, "opendir");
        if (i % 16 == 0)
            start_there(d);

        if (i % 4 == 0)
            must(chdir("/") == 0 && access("mine", F_OK) == -1 && chdir(dir) == 0, "out and in");
        else
            must(chdir("..") == 0, "chdir back");
    }

    return NULL;
}

static int open_files(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;

    return n;
}

static void many(void)
{
    static char names[THREADS][12];
    pthread_t threads[THREADS];

    make("base");

    int before = open_files();

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < THREADS; i++) {
            snprintf(names[i], sizeof names[i], "dir%d", i);
            mkdir(names[i], 0755);
            must(pthread_create(&threads[i], NULL, wanders, names[i]) == 0, "pthread_create");
        }

        for (int i = 0; i < 100; i++)
            must(access("base", F_OK) == 0 && access("mine", F_OK) == -1, "the others' directory");

        for (int i = 0; i < THREADS; i++)
            must(pthread_join(threads[i], NULL) == 0, "pthread_join");
    }

    T(wrong);
    T(open_files() - before);
}

/* ---- keys ---- */

static pthread_key_t key[PTHREAD_KEYS_MAX];
static size_t nkeys;

/* Leaves the directory of the others; the values that the thread keeps stay. */
static void *leave_with_values(void *arg)
{
    unsigned changed = 0;

    for (size_t i = 0; i < nkeys; i++)
        pthread_setspecific(key[i], &key[i]);

    OK(unshare(CLONE_FS));
    T(chdir("sub"));
    where();
    for (size_t i = 0; i < nkeys; i++)
        changed += pthread_getspecific(key[i]) != &key[i];

    printf("%u values have changed\n", changed);
    for (char name[] = "a"; name[0] <= 'f'; name[0]++)
        make(name);

    return arg;
}

static void without_keys(void)
{
    while (nkeys < PTHREAD_KEYS_MAX && pthread_key_create(&key[nkeys], NULL) == 0)
        nkeys++;

    start_and_join(leave_with_values);
    where();
    start_and_join(leave_with_values);
    where();
}

/* ---- another root directory ---- */

static const char *scratch;

static void root(void)
{
    int top = open(".", O_RDONLY | O_DIRECTORY);
    char text[8] = "";

    T(chroot(scratch));

    int fd = openat(top, "first", O_CREAT | O_RDWR, 0666);

    T(fd < 0 ? -1 : write(fd, "first", 5));
    T(pread(fd, text, 5, 0));
    printf("%s\n", text);
    make("second");
    T(access("sub/sub2", F_OK));

    T(chdir("/"));
    T(access("second", F_OK));
    T(fchdir(top));
    T(access("second", F_OK));
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "unshare", by_unshare }, { "clone", by_clone }, { "many", many },
        { "keys", without_keys },  { "root", root },
    };

    if (argc != 4)
        return 2;

    dir = argv[2];
    scratch = argv[3];
    end_after(60);
    umask(022);
    if (mkdir(in("sub"), 0755) != 0 || mkdir(in("sub/sub2"), 0755) != 0 || chdir(dir) != 0)
        return 3;

    return run_section(sections, sizeof sections / sizeof sections[0], argv[1]) ? 0 : 2;
}
