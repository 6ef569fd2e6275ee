/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of iofwd_calls that checks fork, exec, signals and killed processes. */
#include <errno.h>
#include <sys/wait.h>

#include "base/os/clock.h"
#include "iofwd.h"
#include "tests/files/calls/iofwd_calls.h"

/* ---- fork, exec, signals ---- */
void test_fork(void)
{
    struct amph_fwd_file f;
    int up[2], status;
    size_t n;

    IS(fopen_fwd("forked", O_WRONLY | O_CREAT, &f), 0);
    IS(amph_fwd_write(cl, &f, "parent;", 7, &n), 0);
    CHECK(pipe(up) == 0);

    pid_t pid = fork();

    if (pid == 0) {
        char byte;

        failures = 0;
        close(up[1]);
        CHECK(read(up[0], &byte, 1) == 1); /* the parent has closed its own */
        IS(amph_fwd_process(&cl), 0);
        IS(amph_fwd_write(cl, &f, "child;", 6, &n), 0);
        IS(amph_fwd_close(cl, &f), 0);
        fflush(stdout);
        _exit(failures != 0);
    }

    IS(amph_fwd_close(cl, &f), 0);
    CHECK(write(up[1], "x", 1) == 1);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    close(up[0]);
    close(up[1]);

    char buf[32] = "";
    FILE *fp = fopen(real("forked"), "r");

    CHECK(fp && fread(buf, 1, sizeof buf - 1, fp) == 13 && strcmp(buf, "parent;child;") == 0);
    if (fp)
        fclose(fp);
}

static void keep_one(const struct amph_fwd_kept *kept,
                     void (*take)(const struct amph_fwd_file *file, void *arg), void *arg)
{
    take(kept->arg, arg);
}

/* A forked child hands its client to a new image by exec. */
static void exec_once(bool opened)
{
    struct amph_fwd_file f;
    struct amph_fwd_kept kept = { .each = keep_one, .arg = &f };
    struct amph_fwd_exec exec;
    char text[AMPH_FWD_TEXT_BYTES], env[512];
    int status;

    IS(fopen_fwd("execed", O_WRONLY | O_CREAT | O_TRUNC, &f), 0);
    CHECK(amph_fwd_file_print(&f, text, sizeof text) > 0);

    pid_t pid = fork();

    if (pid == 0) {
        /* Half of the time the child has an endpoint of its own, which the new image must
         * replace. */
        size_t n;

        if (opened && (amph_fwd_process(&cl) || amph_fwd_write(cl, &f, "child;", 6, &n)))
            _exit(2);

        /* the first time the exec fails */
        if (amph_fwd_exec_begin(&exec, &kept, env, sizeof env) == 0)
            _exit(3);

        amph_fwd_exec_end(&exec);
        if (amph_fwd_exec_begin(&exec, &kept, env, sizeof env) == 0)
            _exit(3);

        putenv(env);
        execl(self_path, self_path, "--image", text, (char *)NULL);
        _exit(4);
    }

    IS(amph_fwd_close(cl, &f), 0);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);

    char buf[32] = "";
    FILE *fp = fopen(real("execed"), "r");

    CHECK(fp && fread(buf, 1, sizeof buf - 1, fp) > 0 &&
          strcmp(buf, opened ? "child;new image;" : "new image;") == 0);
    if (fp)
        fclose(fp);
}

void test_exec(void)
{
    exec_once(false);
    exec_once(true);
}

int new_image(const char *text)
{
    struct amph_fwd_file f;
    size_t n;

    CHECK(amph_fwd_inherited());
    IS(amph_fwd_process(&cl), 0);
    CHECK(amph_fwd_file_parse(text, &f));
    IS(amph_fwd_hold_only(cl, &f, 1), 0);
    IS(amph_fwd_write(cl, &f, "new image;", 10, &n), 0);
    IS(amph_fwd_close(cl, &f), 0);
    fflush(stdout);

    return failures != 0;
}

static struct amph_fwd_file signal_file;
static volatile sig_atomic_t signals;

static void on_alarm(int sig)
{
    size_t n;
    int saved = errno;

    signals += amph_fwd_write(cl, &signal_file, "s", 1, &n) == 0;
    errno = saved;
}

void test_signals(void)
{
    struct amph_fwd_file f;

    struct itimerval {
        struct timeval interval, value;
    } tick = { { 0, 500 }, { 0, 500 } }, off = { { 0, 0 }, { 0, 0 } };
    extern int setitimer(int, const void *, void *);

    size_t n;
    size_t sum = 0;
    char *buf = calloc(1, 300000);

    IS(fopen_fwd("signals", O_WRONLY | O_CREAT | O_APPEND, &signal_file), 0);
    IS(fopen_fwd("loop", O_RDWR | O_CREAT, &f), 0);

    struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };

    sigaction(SIGALRM, &sa, NULL);
    setitimer(0, &tick, NULL);

    for (int i = 0; i < 60; i++) {
        IS(amph_fwd_pwrite(cl, &f, 0, buf, 300000, &n), 0);
        sum += n;
    }

    setitimer(0, &off, NULL);
    signal(SIGALRM, SIG_IGN);
    CHECK(sum == 60u * 300000);

    struct stat st;

    IS(amph_fwd_fstat(cl, &signal_file, &st), 0);
    CHECK(st.st_size == signals && signals > 0);
    IS(amph_fwd_close(cl, &f), 0);
    IS(amph_fwd_close(cl, &signal_file), 0);
    free(buf);
}

void test_killed(void)
{
    struct amph_fwd_file mine, f;
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
    struct timespec soon = { 0, 30 * 1000 * 1000 };
    struct iofwd_stats before, after;
    int up[2], status;
    char byte;
    size_t n;
    size_t size = 3 << 20;

    IS(fopen_fwd("victim", O_RDWR | O_CREAT, &mine), 0);
    IS(iofwd_stats(IOFWD_NONE, &before), 0);
    CHECK(pipe(up) == 0);

    pid_t pid = fork();

    if (pid == 0) {
        char *buf = calloc(1, size);

        if (amph_fwd_process(&cl) || fopen_fwd("victim", O_RDWR, &f) ||
            amph_fwd_setlock(cl, &f, &lock))
            _exit(1);

        n = (size_t)write(up[1], "x", 1);
        while (amph_fwd_pwrite(cl, &f, 0, buf, size, &n) == 0)
            ;

        _exit(2);
    }

    CHECK(read(up[0], &byte, 1) == 1);
    IS(amph_fwd_setlock(cl, &mine, &lock), EAGAIN);
    nanosleep(&soon, NULL); /* into the middle of its writing */
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    IS(amph_fwd_waitlock(cl, &mine, &lock), 0);

    uint64_t until = amph_now_ns() + 5 * AMPH_NS_PER_S;

    do
        IS(iofwd_stats(IOFWD_NONE, &after), 0);

    while (before.clients == 1 && (after.open_files != before.open_files || after.clients != 1) &&
           amph_now_ns() < until);

    CHECK(before.clients > 1 || (after.open_files == before.open_files && after.clients == 1));
    IS(amph_fwd_close(cl, &mine), 0);
    close(up[0]);
    close(up[1]);
}
