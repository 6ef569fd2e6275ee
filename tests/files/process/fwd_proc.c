/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_proc DIRECTORY SCRATCH: descriptors over fork, exec, spawn and threads.  fwd_calls.sh runs it
 * in a local directory and in a forwarded one and compares what it prints and the files it leaves.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/fwd_kill.h"
#include "tests/files/fwd_say.h"
#include "tests/files/process/fwd_proc.h"

extern char **environ;

int wait_for(pid_t pid)
{
    int status = -1;

    if (waitpid(pid, &status, 0) != pid)
        return -1;

    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Parent and child write by one descriptor and share its offset; the child goes on after the parent
 * has closed. */
static void shared_offset(void)
{
    int go[2];
    int fd = open(in("shared"), O_RDWR | O_CREAT | O_TRUNC, 0644);

    T(write(fd, "parent ", 7));
    T(pipe(go));

    pid_t pid = fork();

    if (pid == 0) {
        char c;
        int ok = write(fd, "child ", 6) == 6;

        ok = read(go[0], &c, 1) == 1 && ok; /* the parent has closed its descriptor now */
        ok = write(fd, "later", 5) == 5 && ok;
        ok = lseek(fd, 0, SEEK_SET) == 0 && read(fd, &c, 1) == 1 && c == 'p' && ok;

        int other = open(in("by-child"), O_WRONLY | O_CREAT, 0600);

        ok = write(other, "c", 1) == 1 && close(other) == 0 && ok;
        _exit(ok ? 7 : 1);
    }

    T(close(fd));
    T(write(go[1], "x", 1));
    T(wait_for(pid));
    close(go[0]);
    close(go[1]);
}

static int take_turns(int fd, const char *text, int mine, int theirs)
{
    char c;

    for (int i = 0; i < 3; i++)
        if (read(mine, &c, 1) != 1 || write(fd, text, 6) != 6 || write(theirs, "", 1) != 1)
            return 1;

    return 0;
}

/* A child forks before it has made a call; then it and its own child do. */
static void untouched_child(void)
{
    int a[2], b[2];
    int fd = open(in("untouched"), O_RDWR | O_CREAT | O_TRUNC, 0644);

    T(write(fd, "parent ", 7));
    T(pipe(a));
    T(pipe(b));

    pid_t pid = fork();

    if (pid == 0) {
        if ((pid = fork()) == 0)
            _exit(take_turns(fd, "grand ", b[0], a[1]));

        int bad = take_turns(fd, "child ", a[0], b[1]);

        _exit(wait_for(pid) + bad);
    }

    T(write(a[1], "", 1));
    T(wait_for(pid));
    T(system("cat untouched"));

    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }

    close(fd);
}

static const char *cloned_name;
static int cloned_fd;

/* What a child does that shares memory with its parent, or does not. */
static int cloned_child(void *arg)
{
    int fd = open(cloned_name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int ok = write(fd, arg, 5) == 5 && close(fd) == 0 &&
             (cloned_fd < 0 || write(cloned_fd, arg, 5) == 5);

    _exit(ok ? 7 : 1);
}

static const struct way {
    int flags;
    long number; /* by syscall; 0: by clone, -1: by _Fork */
} ways[] = { { CLONE_VM, 0 },

             { CLONE_VM | CLONE_VFORK, 0 },
             { CLONE_VM | CLONE_FILES, 0 },
             { 0, 0 },
             { CLONE_FS, 0 },
             { 0, SYS_clone },
             { 0, SYS_clone3 },
             { 0, -1 } };

static pid_t make_child(const struct way *w)
{
    static char stack[8][1 << 16] __attribute__((aligned(16)));

    uint64_t args[8] = { [4] = SIGCHLD }; /* exit_signal */
    if (w->number == 0)
        return clone(cloned_child, stack[w - ways] + sizeof stack[0], w->flags | SIGCHLD, "clone");

    pid_t pid;

    if (w->number < 0)
        pid = _Fork();
    else if (w->number == SYS_clone)
        pid = (pid_t)syscall(SYS_clone, (long)SIGCHLD, 0, 0, 0, 0);
    else
        pid = (pid_t)syscall(w->number, (long)args, sizeof args, 0, 0, 0);

    if (pid == 0)
        cloned_child("other");

    return pid;
}

/* Other ways to make a process than fork. */
static void cloned(size_t first)
{
    char name[300];
    char text[8] = "";

    cloned_fd = -1;
    for (size_t i = first; i < sizeof ways / sizeof *ways; i++) {
        snprintf(name, sizeof name, "%s/cloned.%zu", dir, i);
        cloned_name = name;
        T(wait_for(make_child(&ways[i])));

        int fd = open(name, O_RDWR);

        T(read(fd, text, 5) == 5 && write(1, text, 5) == 5);
        T(write(cloned_fd, "after", 5)); /* at one offset with the next child */
        close(cloned_fd);
        cloned_fd = fd;
    }

    T(lseek(cloned_fd, 0, SEEK_CUR));
    close(cloned_fd);
}

static void exec_keeps(void)
{
    int fd = open(in("exec"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int gone = open(in("exec"), O_RDONLY | O_CLOEXEC);
    pid_t pid = fork();

    if (pid == 0) {
        char script[200];

        dup2(fd, 1);
        snprintf(script, sizeof script,
                 "echo by stdout; echo by number >&%d; cat <&%d 2>/dev/null && echo leaked", fd,
                 gone);
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(99);
    }

    T(wait_for(pid) != 0);
    T(lseek(fd, 0, SEEK_CUR));
    pid = vfork();

    if (pid == 0) {
        execle("/bin/sh", "sh", "-c", "exec cat <exec 3<&- >&2", (char *)NULL,
               (char *[]){ "A=b", NULL });
        _exit(99);
    }

    T(wait_for(pid));
    close(fd);
    close(gone);
}

static void chained(void)
{
    /* descriptors pass through programs that never touch them */
    T(system("exec 3>chain; env env sh -c 'echo through >&3'; echo again >&3; (echo sub) >&3; cat "
             "chain"));
    T(system("cat <chain | tr a-z A-Z >upper; cat upper; cat upper >>chain; wc -l <chain"));

    FILE *p = popen("cat chain; echo from popen >popen", "r");
    int c;
    int n = 0;

    while ((c = fgetc(p)) != EOF)
        n++;

    T(n);
    T(pclose(p));
}

static void spawned(void)
{
    pid_t pid;
    posix_spawn_file_actions_t a;
    int fd = open(in("spawn"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_adddup2(&a, fd, 1);
    T(posix_spawnp(&pid, "echo", &a, NULL, (char *[]){ "echo", "spawned", NULL }, environ));
    T(wait_for(pid));
    posix_spawn_file_actions_destroy(&a);
    T(close(fd));
    T(posix_spawn(&pid, in("nothere"), NULL, NULL, (char *[]){ "x", NULL }, environ));
    fd = open(in("script"), O_WRONLY | O_CREAT | O_TRUNC, 0755);
    T(write(fd, "#!/bin/sh\necho \"$1\" >>ran\n", 26));
    close(fd);
    T(posix_spawn(&pid, in("script"), NULL, NULL, (char *[]){ "x", "by spawn", NULL }, environ));
    T(wait_for(pid));
    pid = fork();

    if (pid == 0) {
        execv(in("script"), (char *[]){ "x", "by exec", NULL });
        _exit(99);
    }

    T(wait_for(pid));
    pid = fork();

    if (pid == 0) {
        execv(in("spawn"), (char *[]){ "x", NULL });
        _exit(errno);
    }

    T(wait_for(pid));
}

static off_t size_of(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0 ? st.st_size : -1;
}

static int run_actions(const posix_spawn_file_actions_t *a, const posix_spawnattr_t *attr,
                       const char *command)
{
    pid_t pid;
    int err = posix_spawnp(&pid, "sh", a, attr, (char *[]){ "sh", "-c", (char *)command, NULL },
                           environ);

    return err ? -err : wait_for(pid);
}

/* One that is copied to its own number goes through exec; closing one that is not open is no error;
 * the mask stays what it was. */
static void spawn_numbers(void)
{
    posix_spawn_file_actions_t a;
    char command[80];
    sigset_t mask;
    int fd = open(in("numbers"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int n = 0;

    snprintf(command, sizeof command, "echo is there >&%d", fd);
    T(posix_spawn_file_actions_init(&a));
    T(posix_spawn_file_actions_addopen(&a, 1, in("numbers.out"), O_WRONLY | O_CREAT, 0644));
    T(posix_spawn_file_actions_adddup2(&a, fd, fd));
    T(posix_spawn_file_actions_addclose(&a, 200));
    T(run_actions(&a, NULL, command));
    T(posix_spawn_file_actions_destroy(&a));
    T(size_of(in("numbers")));
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int sig = 1; sig < 32; sig++)
        n += sigismember(&mask, sig);

    T(n);
    close(fd);
}

/* Actions are carried out by each spawn, in the child, in their order. */
static void spawn_actions(void)
{
    posix_spawn_file_actions_t a;
    posix_spawnattr_t attr;
    sigset_t usr1;
    int fd = open(in("acted"), O_WRONLY | O_CREAT | O_TRUNC, 0644);

    T(write(fd, "kept", 4));
    mkdir(in("cdir"), 0755);
    T(posix_spawn_file_actions_init(&a));
    T(posix_spawn_file_actions_addopen(&a, 1, in("acted"), O_WRONLY | O_CREAT | O_TRUNC, 0644));
    T(size_of(in("acted"))); /* nothing was spawned */
    T(run_actions(&a, NULL, "echo 1"));
    T(run_actions(&a, NULL, "echo 22"));
    T(size_of(in("acted")));
    T(posix_spawn_file_actions_addchdir_np(&a, in("cdir")));
    T(posix_spawn_file_actions_addopen(&a, 1, "rel", O_WRONLY | O_CREAT | O_EXCL, 0600));
    T(posix_spawn_file_actions_adddup2(&a, 1, 2));
    T(posix_spawn_file_actions_adddup2(&a, fd, 5));
    T(posix_spawn_file_actions_addclose(&a, fd));
    T(run_actions(
        &a, NULL,
        "pwd | sed 's#.*/##'; echo >&2 to 2; echo by number >&5; test ! -e /proc/self/fd/3"));
    T(run_actions(&a, NULL, "echo not reached")); /* rel is there now */
    T(posix_spawn_file_actions_destroy(&a));
    T(lseek(fd, 0, SEEK_CUR));

    int dir = open(in("cdir"), O_RDONLY | O_DIRECTORY);

    T(posix_spawn_file_actions_init(&a));
    T(posix_spawn_file_actions_addfchdir_np(&a, dir));
    T(posix_spawn_file_actions_addopen(&a, 1, "late", O_WRONLY | O_APPEND, 0));
    posix_spawnattr_init(&attr);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&attr, &usr1);
    T(run_actions(&a, &attr, "echo not reached"));
    close(open(in("cdir/late"), O_WRONLY | O_CREAT, 0644));
    T(run_actions(
        &a, &attr,
        "grep SigBlk /proc/self/status; set -- $(ps -o pgid= $$); test $1 = $$ && echo own group"));
    T(posix_spawn_file_actions_addclosefrom_np(&a, 3));
    T(run_actions(&a, &attr, "echo more; test ! -e /proc/self/fd/3"));

    pid_t pid;

    T(posix_spawn(&pid, "/bin/nothere", &a, NULL, (char *[]){ "x", NULL }, environ));
    T(posix_spawn_file_actions_destroy(&a));
    T(access("rel", F_OK));
    close(dir);
    close(fd);
}

/* The working directory is the directory, not its name; so it is for children and for programs that
 * are started. */
static void working_directory(const char *self)
{
    char cwd[PATH_MAX];

    mkdir(in("w"), 0755);
    mkdir(in("w/G"), 0755);
    T(chdir(in("w/G")));
    T(rename("../G", in("w/H")));
    T(mkdir(in("w/G"), 0755));
    T(close(open("file", O_WRONLY | O_CREAT, 0644)));
    T(access(in("w/H/file"), F_OK));
    T(access(in("w/G/file"), F_OK));
    T(getcwd(cwd, sizeof cwd) ? strcmp(cwd, in("w/H")) : -1);
    T(realpath("file", cwd) ? strcmp(cwd, in("w/H/file")) : -1);
    T(system("/bin/pwd | sed 's#.*/w/#w/#'; echo by shell >shell; ls; mv ../H ../I && ls ..; echo "
             "more >>shell; cat ../I/shell"));
    T(rename("../I", "../H"));

    if (fork() == 0) {
        T(rename("../H", "../J"));
        for (int fd = 3; fd < 2000; fd++)
            close(fd);

        T(close(open("of-child", O_WRONLY | O_CREAT, 0644)));
        closefrom(3);
        execl(self, self, "relative", (char *)NULL);
        _exit(99);
    }

    T(wait_for(-1));
    T(access(in("w/J/of-program"), F_OK));
    T(fchdir(open("..", O_RDONLY | O_DIRECTORY)));
    T(access("J/file", F_OK));
    T(mkdir("gone", 0755));
    T(chdir("gone"));
    T(rmdir("../gone"));
    errno = 0;
    T(getcwd(cwd, sizeof cwd) ? 0 : -1);
    T(open("new", O_WRONLY | O_CREAT, 0644));
    T(chdir(dir));
    T(chdir(in("acted")));
    T(chdir(in("nowhere")));
    T(chdir("/"));
    T(getcwd(cwd, sizeof cwd) ? strcmp(cwd, "/") : -1);
    T(chdir(dir));
}

/* An absolute link means this host's files, as on a mount, also where it is in the server's
 * tree. */
static void links_out(const char *scratch)
{
    static char own[PATH_MAX], real[PATH_MAX];
    struct stat st;

    snprintf(own, sizeof own, "%s/own-file", scratch);

    int fd = open(own, O_WRONLY | O_CREAT, 0644);

    T(write(fd, "own file\n", 9));
    close(fd);
    T(symlink(own, in("to-file")));
    T(symlink(scratch, in("to-dir")));
    T(symlink("/nowhere/at/all", in("to-nothing")));
    T(symlink("/bin/sh", in("to-sh")));
    T(stat(in("to-file"), &st));
    T(st.st_size);
    T(lstat(in("to-file"), &st) || !S_ISLNK(st.st_mode));
    T(access(in("to-file"), R_OK));
    T(access(in("to-dir/none"), R_OK));
    T(realpath(in("to-dir/own-file"), real) ? strcmp(real, own) : -1);
    T(size_of(in("to-dir/own-file")));
    T(open(in("to-file"), O_WRONLY | O_CREAT | O_EXCL, 0600));
    T(open(in("to-file"), O_RDONLY | O_NOFOLLOW));
    T(close(open(in("to-dir/made"), O_WRONLY | O_CREAT, 0600)));
    snprintf(real, sizeof real, "%s/made", scratch);
    T(unlink(real));
    T(system("cat to-file to-dir/own-file && ls to-dir && ./to-sh -c 'echo by a link' && cd to-dir "
             "&& cat own-file"));
    T(chdir(in("to-dir")));
    T(size_of("own-file"));
    T(chdir(dir));

    static const char *const names[] = { "to-file", "to-dir", "to-nothing", "to-sh" };

    for (int i = 0; i < 4; i++)
        unlink(in(names[i])); /* what they hold depends on the directory's name */
}

static void put_script(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");

    fputs(text, f);
    fclose(f);
    chmod(name, 0755);
}

/* Programs are found along PATH, and interpreters of scripts, where they are forwarded. */
static void searched(const char *scratch)
{
    static char path[PATH_MAX], script[3 * PATH_MAX], local[PATH_MAX];
    pid_t pid;
    char *before = strdup(getenv("PATH"));

    mkdir(in("bin"), 0755);
    put_script(in("bin/found"), "#!/bin/sh\necho found \"$@\"\n");
    put_script(in("bin/bare"), "echo bare \"$@\"\n");
    put_script(in("bin/closed"), "#!/bin/sh\necho never\n");
    chmod(in("bin/closed"), 0);
    snprintf(path, sizeof path, "/nowhere:%s:%s", in("bin"), before);
    T(setenv("PATH", path, 1));
    T(posix_spawnp(&pid, "found", NULL, NULL, (char *[]){ "found", "by spawnp", NULL }, environ) ||
      wait_for(pid));
    T(posix_spawnp(&pid, "missing", NULL, NULL, (char *[]){ "missing", NULL }, environ));

    static const char *const names[] = { "found", "bare", "missing", "echo" };

    for (int i = 0; i < 4; i++) {
        if ((pid = fork()) == 0) {
            execlp(names[i], names[i], "by", "exec", (char *)NULL);
            _exit(errno == ENOENT ? 44 : 99);
        }

        T(wait_for(pid));
    }

    T(system("env found by env; echo found by xargs | xargs nice found"));
    snprintf(script, sizeof script, "#!%s inner\nno shell reads this\n", in("bin/found"));
    put_script(in("bin/outer"), script);
    T(system("outer 1 | sed 's#inner .*/outer#inner outer#'"));
    snprintf(local, sizeof local, "%s/local-script", scratch);
    put_script(local, script);

    if ((pid = fork()) == 0) {
        execl(local, local, "2", (char *)NULL);
        _exit(99);
    }

    T(wait_for(pid));
    snprintf(script, sizeof script, "#!%s\n", in("bin/itself"));
    put_script(in("bin/itself"), script);

    if ((pid = fork()) == 0) {
        execl(in("bin/itself"), "x", (char *)NULL);
        _exit(errno == ELOOP ? 40 : 99);
    }

    T(wait_for(pid));
    unlink(in("bin/outer")); /* what is in them depends on the directory's name */
    unlink(in("bin/itself"));
    setenv("PATH", before, 1);
    free(before);
}

extern void *__libc_malloc(size_t len);

void *malloc(size_t len)
{
    counted += counting;
    return __libc_malloc(len);
}

static int run_script(void *name)
{
    execv(name, (char *[]){ "x", "by a child in our memory", NULL });
    return errno;
}

/* A script's first line is the kernel's to read: blanks, options, what is too long; and a handler
 * of signals may start it. */
static void first_lines(void)
{
    static char longest[400] = "#!/bin/sh -e ";
    static char nowhere[400] = "#!/";
    const char *const lines[] = { "#!/bin/echo\n",
                                  "#!  \t/bin/echo \t option  given \t \nmore\n",
                                  "#!/bin/echo \t\n",
                                  "#!/bin/echo  at the end ",
                                  "#!/bin/echo",
                                  "#!\n",
                                  "#! \t \n",
                                  "#",
                                  "",
                                  "#!/none\n",
                                  longest,
                                  nowhere };
    char name[PATH_MAX];

    snprintf(name, sizeof name, "%s/first", dir);
    memset(longest + strlen(longest), 'o', sizeof longest - strlen(longest) - 1);
    memset(nowhere + strlen(nowhere), 'o', sizeof nowhere - strlen(nowhere) - 1);

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        put_script(name, lines[i]);

        pid_t pid = fork();

        if (pid == 0) {
            access(name, F_OK); /* a forwarded call of the child's own: a new client is open then */
            counting = true;

            int err = execv(name, (char *[]){ "x", "argument", NULL }) ? errno : 0;

            counting = false;
            T(err);
            T(counted);
            _exit(err);
        }

        T(wait_for(pid));
    }

    put_script(name, lines[0]);
    T(symlink("first", in("first-link")));
    T(execveat(AT_FDCWD, in("first-link"), (char *[]){ "x", NULL }, environ, AT_SYMLINK_NOFOLLOW));
    unlink(in("first-link"));

    for (int i = 0; i < 6; i++) {
        char *stack = aligned_alloc(16, 256 << 10);

        T(wait_for(clone(run_script, stack + (256 << 10), CLONE_VM | CLONE_VFORK | SIGCHLD, name)));
        free(stack);
    }

    unlink(name);
}

/* Threads write their own files and one common one while others open, dup and close. */
enum {
    THREADS = 6,
    ROUNDS = 150
};

static int common;

static void *worker(void *arg)
{
    long me = (long)arg;
    long bad = 0;
    char name[PATH_MAX], word[32], back[32];

    snprintf(name, sizeof name, "%s/thread-%ld", dir, me);
    for (int i = 0; i < ROUNDS; i++) {
        int fd = open(name, O_RDWR | O_CREAT | O_APPEND, 0600);
        int copy = dup(fd);
        int n = snprintf(word, sizeof word, "%ld-%04d\n", me, i);

        bad += write(copy, word, (size_t)n) != n;
        bad += close(fd) != 0;
        bad += pread(copy, back, (size_t)n, (off_t)i * n) != n ||
               memcmp(word, back, (size_t)n) != 0;
        bad += close(copy) != 0;
        bad += write(common, word, (size_t)n) != n;
    }

    return (void *)bad;
}

static void threads(void)
{
    pthread_t t[THREADS];
    long bad = 0;
    struct stat st;

    common = open(in("common"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, worker, (void *)i);

    for (int i = 0; i < 10; i++) { /* forks beside them */
        pid_t pid = fork();
        if (pid == 0)
            _exit(write(common, "fork\n", 5) == 5 ? 0 : 1);
        bad += wait_for(pid) != 0;
    }

    for (int i = 0; i < THREADS; i++) {
        void *r;

        pthread_join(t[i], &r);
        bad += (long)r;
    }

    T(bad);
    T(fstat(common, &st));
    T(st.st_size);
    close(common);
    unlink(in("common")); /* its order is nobody's */
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        T(close(open("of-program", O_WRONLY | O_CREAT, 0644)));
        T(access("of-child", F_OK));
        return 0;
    }

    if (argc == 4) { /* "cloned": a child that shares our memory makes the first call of all */
        dir = argv[2];
        cloned(0);
        return 0;
    }

    if (argc != 3)
        return 2;

    dir = argv[1];
    T(chdir(dir));
    T(setenv("LC_ALL", "C", 1));
    shared_offset();
    untouched_child();
    cloned(3);
    exec_keeps();
    chained();
    spawned();
    spawn_numbers();
    spawn_actions();
    working_directory(argv[0]);
    links_out(argv[2]);
    searched(argv[2]);
    first_lines();
    led_input(false);
    led_input(true);
    handled();
    on_terminal();
    waited_in_our_memory();
    threads();

    return 0;
}
