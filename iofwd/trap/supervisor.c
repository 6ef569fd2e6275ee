/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: the supervisor's start, and its wait for the program's processes.
 *
 * Layer: iofwd.  Thread rule: the process's first thread, except where said.
 */
#include "iofwd/trap/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/os/thread.h"
#include "iofwd/trap/trap.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ready;
    bool late;
    int front, program;      /* sockets */
    _Atomic bool front_died; /* before the program ended */
} start = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* ---- the end ---- */

/* What the program held at the servers is free before its end is known. */
static void let_go(void)
{
    if (amph_trap.listener < 0)
        return;

    amph_trap_process_reap();
    amph_trap_number_flush();
    amph_trap_file_reap();
}

static void report_end(pid_t pid, int status)
{
    struct amph_trap_news news = { AMPH_TRAP_ENDED, pid, status };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    let_go();
    amph_trap.program = 0;
    amph_trap_send(start.front, &news, sizeof news);

    /* what reads the errors of iofwd-run waits for their end */
    if (null >= 0)
        dup2(null, STDERR_FILENO);
}

/* Waits for the program and for all that it has left behind. */
static void wait_for_all(void)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WUNTRACED)) > 0 || errno == EINTR) {
        if (atomic_load(&start.front_died))
            amph_trap_kill_children();

        if (pid <= 0 || pid != amph_trap.program)
            continue;

        if (WIFSTOPPED(status)) {
            struct amph_trap_news news = { AMPH_TRAP_STOPPED, pid, status };

            amph_trap_send(start.front, &news, sizeof news);
        } else {
            report_end(pid, status);
        }
    }
}

/* The cause was explained: to the front the program has ended with an error. */
static void give_up(void)
{
    pid_t program = amph_trap.program;

    report_end(program, 1 << 8);
    kill(program, SIGKILL);
}

/* IOFWD_OPTIONAL: the program goes on without forwarding, if its process can. */
static bool go_plain(char order)
{
    if (!amph_env_bool(AMPH_ENV_IOFWD_OPTIONAL))
        return false;

    amph_trap_say("IOFWD_OPTIONAL: the program goes on without forwarding");
    return amph_trap_send(start.program, &order, 1);
}

/* The front was killed while the program ran: everything that the program has started ends with it.  The
 * first thread repeats that for what the dead leave behind. */
static void *watch_front(void *unused)
{
    struct pollfd fd = { .fd = start.front, .events = 0 };

    while (poll(&fd, 1, -1) < 0 && errno == EINTR)
        ;

    if (amph_trap.program > 0) {
        atomic_store(&start.front_died, true);
        amph_trap_kill_children();
    }

    return NULL;
}

/* ---- the start ---- */

/* Ends a start that takes too long, for instance because a server's host does not answer. */
static void *limit_start(void *unused)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += AMPH_TRAP_START_S;
    pthread_mutex_lock(&start.lock);
    while (!start.ready && !start.late)
        start.late = pthread_cond_clockwait(&start.changed, &start.lock, CLOCK_MONOTONIC, &end) ==
                     ETIMEDOUT;

    pthread_mutex_unlock(&start.lock);
    if (start.ready)
        return NULL;

    amph_trap_say("no I/O server has answered in %d s", AMPH_TRAP_START_S);
    if (go_plain(AMPH_TRAP_ORDER_PLAIN))
        wait_for_all();
    else
        give_up();

    _exit(1);
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

    amph_fwd_record_for_others(AMPH_FWD_WAY_TRAP);

    int err = amph_fwd_process(&amph_trap.cl);

    pthread_mutex_lock(&start.lock);
    while (start.late) /* the other thread ends the process */
        pthread_cond_wait(&start.changed, &start.lock);

    start.ready = true;
    pthread_cond_signal(&start.changed);
    pthread_mutex_unlock(&start.lock);
    if (err == ENOTCONN)
        amph_trap_say("the address file %s names no servers", amph_env_str(AMPH_ENV_JOB));

    return !err;
}

/* Gets the listener from the program's process.  A refusal by the kernel leaves that as it was. */
enum listener {
    TAKEN,
    REFUSED,
    LOST
};

static enum listener take_listener(void)
{
    struct amph_trap_answer answer;
    const char order = AMPH_TRAP_ORDER_FORWARD;

    if (!amph_trap_send(start.program, &order, 1) ||
        !amph_trap_receive(start.program, &answer, sizeof answer))
        return LOST;

    if (answer.listener < 0) {
        amph_trap_explain_filter(-answer.listener);
        return REFUSED;
    }

    return amph_trap_listener_copy(amph_trap.program, answer.listener) ? TAKEN : LOST;
}

static bool begin(void)
{
    const char go = AMPH_TRAP_ORDER_GO;
    enum listener listener = take_listener();

    if (listener != TAKEN)
        return listener == REFUSED && go_plain(AMPH_TRAP_ORDER_GO);

    amph_trap_wait_init();

    int err = amph_trap_file_begin();

    if (!err)
        err = amph_trap_process_begin();

    if (!err)
        err = amph_trap_receive_begin();

    if (err)
        amph_trap_say("the supervisor cannot start: %s", strerror(err));

    return !err && amph_trap_send(start.program, &go, 1);
}

/* Raises the limit of descriptors: files and processes need some. */
static void raise_limit(void)
{
    struct rlimit may;

    if (getrlimit(RLIMIT_NOFILE, &may) == 0) {
        may.rlim_cur = may.rlim_max;
        setrlimit(RLIMIT_NOFILE, &may);
    }
}

int amph_trap_supervise(const char *path, char **argv, int front)
{
    int other;
    pthread_t thread;

    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    amph_trap.program = amph_trap_fork(&other);
    if (amph_trap.program < 0)
        return 1;

    if (amph_trap.program == 0) {
        close(front);
        amph_trap_program(path, argv, other);
    }

    struct amph_trap_news news = { AMPH_TRAP_STARTED, amph_trap.program, 0 };

    start.front = front;
    start.program = other;
    amph_trap_ignore_signals();
    amph_trap_leave_descriptors(front, other);
    raise_limit();
    amph_trap_send(front, &news, sizeof news);
    amph_thread_start(&thread, true, 0, watch_front, NULL);

    if (open_client() ? !begin() : !go_plain(AMPH_TRAP_ORDER_PLAIN)) {
        give_up();
        return 1;
    }

    close(start.program);
    wait_for_all();
    return 0;
}
