/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: command line, and the three processes of a run.
 *
 *   front       the process that iofwd-run was: it ends as the program ends, passes signals on, and
 *               ends all processes of the program if the supervisor dies
 *   supervisor  its child: parent of the program, subreaper, client of the servers; it stays as long
 *               as any process of the program does
 *   program     installs the filter in itself and executes the program
 *
 * Layer: iofwd.  Thread rule: each process's first thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/os/thread.h"
#include "iofwd/trap/trap.h"

enum {
    WRONG = 2,
    NOT_EXECUTABLE = 126
};

struct amph_trap amph_trap = { .listener = -1 };

extern char **environ;

/* What the supervisor tells the program's process before exec. */
enum order {
    FORWARD = 'f',
    PLAIN = 'p', /* without forwarding */
    GO = 'g'
};

/* What the supervisor tells the front. */
struct news {
    enum {
        STARTED,
        STOPPED,
        ENDED
    } what;
    pid_t pid;
    int status;
};

/* What the program's process has done: a listener's number, or below 0 an errno value. */
struct answer {
    int listener;
};

void amph_trap_say(const char *fmt, ...)
{
    char line[2048];
    va_list ap;

    va_start(ap, fmt);
    int n = snprintf(line, sizeof line, "iofwd-run -trap: ");

    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;

    line[n++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* nobody reads it */
}

static bool send_all(int fd, const void *data, size_t len)
{
    ssize_t n;

    while ((n = send(fd, data, len, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;

    return n == (ssize_t)len;
}

static bool receive_all(int fd, void *data, size_t len)
{
    ssize_t n;

    while ((n = recv(fd, data, len, MSG_WAITALL)) < 0 && errno == EINTR)
        ;

    return n == (ssize_t)len;
}

/* Lets go of what the program's readers and writers wait for the end of. */
static void leave_descriptors(int keep, int keep2)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }

    int low = keep < keep2 ? keep : keep2;
    int high = keep < keep2 ? keep2 : keep;

    if (low > 3)
        close_range(3, (unsigned)low - 1, 0);

    if (low >= 3 && high > low + 1)
        close_range((unsigned)low + 1, (unsigned)high - 1, 0);

    close_range((unsigned)(high > 2 ? high + 1 : 3), ~0U, 0);
}

/* ---- the program's process ---- */

static void explain_filter(int err)
{
    if (err == EBUSY)
        amph_trap_say("another supervisor already receives the calls of this process: -trap inside "
                      "of -trap, or in such a container, is impossible; iofwd-run -mount runs the "
                      "program");
    else if (err == EINVAL)
        amph_trap_say("this kernel lacks what -trap needs (Linux 5.19, "
                      "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV); iofwd-run -mount runs the program");
    else
        amph_trap_say("the kernel refuses a seccomp filter with a listener: %s; iofwd-run -mount "
                      "runs the program",
                      strerror(err));
}

static void run_program(const char *path, char **argv, int socket)
{
    char order;

    unsetenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX));
    if (!receive_all(socket, &order, 1))
        _exit(1);

    if (order == FORWARD) {
        int listener = amph_trap_filter_install(amph_trap.first_fd, amph_trap.last_fd);
        struct answer answer = { .listener = listener < 0 ? -errno : listener };

        /* the supervisor explains what is wrong */
        if (!send_all(socket, &answer, sizeof answer) || !receive_all(socket, &order, 1))
            _exit(1);
    }

    close(socket);
    execve(path, argv, environ);
    amph_trap_say("%s cannot be executed: %s", path, strerror(errno));
    _exit(NOT_EXECUTABLE);
}

/* ---- the supervisor ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ready;
} start = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false };

/* Ends a start that takes too long, for instance because a server's host does not answer. */
static void *limit_start(void *unused)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += AMPH_TRAP_START_S;
    pthread_mutex_lock(&start.lock);
    while (!start.ready)
        if (pthread_cond_clockwait(&start.changed, &start.lock, CLOCK_MONOTONIC, &end) ==
            ETIMEDOUT) {
            amph_trap_say("no I/O server has answered in %d s", AMPH_TRAP_START_S);
            kill(amph_trap.program, SIGKILL);
            _exit(1);
        }

    pthread_mutex_unlock(&start.lock);
    return NULL;
}

static bool open_client(void)
{
    const char *why = NULL;
    const char *served = amph_env_str(AMPH_ENV_IOFWD_PREFIX);
    pthread_t thread;

    if (!amph_fwd_prefix_parse(&amph_trap.prefixes, served, &why) || !amph_trap.prefixes.count) {
        amph_trap_say("the prefixes \"%s\": %s", served, why ? why : "there are none");
        return false;
    }

    /* a close is the kernel's, so that nothing may be left to be written by then */
    setenv(amph_env_name(AMPH_ENV_IOFWD_CONSISTENCY), "posix", 1);
    amph_env_reload();
    amph_thread_start(&thread, true, 0, limit_start, NULL);

    int err = amph_fwd_process(&amph_trap.cl);

    pthread_mutex_lock(&start.lock);
    start.ready = true;
    pthread_cond_signal(&start.changed);
    pthread_mutex_unlock(&start.lock);
    if (err == ENOTCONN)
        amph_trap_say("the address file %s names no servers", amph_env_str(AMPH_ENV_JOB));

    return !err;
}

/* Gets the listener from the program's process. */
static bool take_listener(int socket)
{
    struct answer answer;
    const char order = FORWARD;

    if (!send_all(socket, &order, 1) || !receive_all(socket, &answer, sizeof answer))
        return false;

    if (answer.listener < 0) {
        explain_filter(-answer.listener);
        return false;
    }

    int pidfd = (int)syscall(SYS_pidfd_open, amph_trap.program, 0);

    amph_trap.listener = (int)syscall(SYS_pidfd_getfd, pidfd, answer.listener, 0);
    if (amph_trap.listener < 0)
        amph_trap_say("this process may not look at its child: %s (kernel.yama.ptrace_scope, or a "
                      "container); iofwd-run -mount runs the program",
                      strerror(errno));

    if (pidfd >= 0)
        close(pidfd);

    return amph_trap.listener >= 0;
}

static bool begin(int socket)
{
    const char go = GO;

    if (!take_listener(socket))
        return false;

    amph_trap_wait_init();

    int err = amph_trap_file_begin();

    if (!err)
        err = amph_trap_process_begin();

    if (!err)
        err = amph_trap_receive_begin();

    if (err)
        amph_trap_say("the supervisor cannot start: %s", strerror(err));

    return !err && send_all(socket, &go, 1);
}

/* The front was killed: so would the program have been in its place. */
static void *watch_front(void *arg)
{
    struct pollfd fd = { .fd = *(int *)arg, .events = 0 };

    while (poll(&fd, 1, -1) < 0 && errno == EINTR)
        ;

    if (amph_trap.program > 0)
        kill(amph_trap.program, SIGKILL);

    return NULL;
}

/* Waits for the program and for all that it has left behind. */
static void wait_for_all(int front)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WUNTRACED)) > 0 || errno == EINTR) {
        if (pid <= 0 || pid != amph_trap.program)
            continue;

        struct news news = { WIFSTOPPED(status) ? STOPPED : ENDED, pid, status };

        if (news.what == ENDED)
            amph_trap.program = 0;

        send_all(front, &news, sizeof news);
        if (news.what == ENDED) {
            int null = open("/dev/null", O_RDWR | O_CLOEXEC);

            if (null >= 0)
                dup2(null, STDERR_FILENO);
        }
    }
}

static const int passed[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT };
static const int ignored[] = { SIGINT,  SIGQUIT, SIGTERM, SIGHUP,  SIGUSR1, SIGUSR2,
                               SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE, SIGALRM };

/* Raises the limit of descriptors: files and processes need some. */
static void raise_limit(void)
{
    struct rlimit may;

    if (getrlimit(RLIMIT_NOFILE, &may) == 0) {
        may.rlim_cur = may.rlim_max;
        setrlimit(RLIMIT_NOFILE, &may);
    }
}

static int supervise(const char *path, char **argv, int front)
{
    int pair[2];
    pthread_t thread;

    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        amph_trap_say("no socket: %s", strerror(errno));
        return 1;
    }

    amph_trap.program = fork();
    if (amph_trap.program == 0) {
        close(pair[0]);
        close(front);
        run_program(path, argv, pair[1]);
    }

    if (amph_trap.program < 0) {
        amph_trap_say("no process: %s", strerror(errno));
        return 1;
    }

    struct news news = { STARTED, amph_trap.program, 0 };

    for (unsigned i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);

    leave_descriptors(front, pair[0]);
    raise_limit();
    send_all(front, &news, sizeof news);
    amph_thread_start(&thread, true, 0, watch_front, &front);

    bool ok = open_client();

    if (!ok && amph_env_bool(AMPH_ENV_IOFWD_OPTIONAL)) {
        const char order = PLAIN;

        amph_trap_say("IOFWD_OPTIONAL: the program goes on without forwarding");
        ok = send_all(pair[0], &order, 1);
    } else if (ok) {
        ok = begin(pair[0]);
    }

    if (!ok) {
        /* it was explained: to the front the program has ended with an error */
        struct news end = { ENDED, amph_trap.program, 1 << 8 };

        send_all(front, &end, sizeof end);
        kill(amph_trap.program, SIGKILL);
        return 1;
    }

    close(pair[0]);
    wait_for_all(front);
    return 0;
}

/* ---- the front ---- */

static volatile pid_t target; /* of signals */

static void pass_on(int sig, siginfo_t *info, void *unused)
{
    int err = errno;

    /* a terminal's signals reach the program by themselves */
    if (target > 0 && info->si_code <= 0)
        kill(target, sig);

    errno = err;
}

/* Kills what has become our child, until there is nothing left. */
static void end_tree(void)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (;;) {
        FILE *f = fopen(path, "re");
        int pid;

        while (f && fscanf(f, "%d", &pid) == 1)
            kill(pid, SIGKILL);

        if (f)
            fclose(f);

        if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD)
            return;
    }
}

/* Ends as the program has ended. */
static int end_like(int status)
{
    const struct rlimit none = { 0, 0 };

    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);

    sigset_t set;
    int sig = WTERMSIG(status);

    setrlimit(RLIMIT_CORE, &none);
    signal(sig, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, sig);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    kill(getpid(), sig);
    return 128 + sig;
}

static int accompany(int socket)
{
    struct sigaction sa = { .sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART };
    struct news news;

    for (unsigned i = 0; i < sizeof passed / sizeof *passed; i++)
        sigaction(passed[i], &sa, NULL);

    for (unsigned i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        bool is_passed = false;

        for (unsigned j = 0; j < sizeof passed / sizeof *passed; j++)
            is_passed |= ignored[i] == passed[j];

        if (!is_passed)
            signal(ignored[i], SIG_IGN);
    }

    leave_descriptors(socket, socket);
    while (receive_all(socket, &news, sizeof news)) {
        if (news.what == STARTED)
            target = news.pid;
        else if (news.what == STOPPED)
            kill(getpid(), SIGSTOP);
        else
            return end_like(news.status);
    }

    amph_trap_say("the supervisor has died, and the program cannot go on without it: its processes "
                  "are ended");
    end_tree();
    return 1;
}

/* ---- command line ---- */

/* The range of descriptors.  It must be below the program's limit. */
static bool take_range(void)
{
    const char *text = amph_env_str(AMPH_ENV_IOFWD_TRAP_FDS);
    struct rlimit may;
    int first, last;
    char rest;

    if (sscanf(text, "%d-%d%c", &first, &last, &rest) != 2 || first < AMPH_TRAP_STD ||
        last <= first || last - first > 65535) {
        amph_trap_say(
            "IOFWD_TRAP_FDS=%s: two numbers with a minus between them are needed, the first "
            "of them at least %d, such as 512-1023",
            text, AMPH_TRAP_STD);
        return false;
    }

    if (getrlimit(RLIMIT_NOFILE, &may) == 0 && (rlim_t)last >= may.rlim_cur) {
        int room = last - first;

        last = (int)may.rlim_cur - 1;
        first = last - room > last / 2 ? last - room : last / 2;
        if (first < AMPH_TRAP_STD || last <= first) {
            amph_trap_say("the limit of %d open files leaves no room for forwarded ones: ulimit -n",
                          last + 1);
            return false;
        }
    }

    amph_trap.first_fd = first;
    amph_trap.last_fd = last;
    return true;
}

int main(int argc, char **argv)
{
    int pair[2];

    if (argc < 3) {
        fprintf(stderr, "usage: iofwd-trap FILE NAME [ARGUMENT]...\n"
                        "A part of iofwd-run -trap, which sets its environment.\n");
        return WRONG;
    }

    if (!take_range())
        return WRONG;

    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        amph_trap_say("no socket: %s", strerror(errno));
        return 1;
    }

    pid_t child = fork();

    if (child == 0) {
        close(pair[0]);
        return supervise(argv[1], argv + 2, pair[1]);
    }

    close(pair[1]);
    if (child < 0) {
        amph_trap_say("no process: %s", strerror(errno));
        return 1;
    }

    return accompany(pair[0]);
}
