/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes what the C library prints before it aborts; see abort_text.h.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; the handler runs in the one that aborts.
 *
 * The handler may run on a damaged heap and while locks are held that nobody releases.  Its write
 * is therefore limited to some seconds, after which SIGALRM ends the process.
 */
#include "iofwd/interpose/stdio/abort_text.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/state.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/libc/libc_real.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/stdio/state.h"

#define WRITE_LIMIT_S 5

static const char *last_words(void)
{
    const struct amph_ip_abort_text *const *variable = amph_ip_stdio.abort.variable;
    bool asserted = __atomic_load_n(&amph_ip_stdio.abort.asserted, __ATOMIC_RELAXED);

    return variable && *variable && !asserted ? (*variable)->text : NULL;
}

static void set_default(int sig)
{
    struct sigaction act = { .sa_handler = SIG_DFL };

    libc_sigaction(sig, &act, NULL);
}

static void limit_time(void)
{
    sigset_t alarm_only;

    set_default(SIGALRM);
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    alarm(WRITE_LIMIT_S);
}

static void on_abort(int sig)
{
    const char *text = last_words();

    set_default(sig);
    if (text && amph_ip_fd(STDERR_FILENO)) {
        limit_time();
        (void)!amph_do_write(STDERR_FILENO, text, strlen(text));
    }

    /* delivered when this handler returns */
    raise(sig);
}

void amph_ip_abort_watch(void)
{
    struct sigaction act = { .sa_handler = on_abort };
    struct sigaction now;
    int saved = errno;

    amph_ip_stdio.abort.variable = amph_ip_abort_variable();
    if (libc_sigaction(SIGABRT, NULL, &now) == 0 && now.sa_handler == SIG_DFL) {
        sigemptyset(&act.sa_mask);
        libc_sigaction(SIGABRT, &act, NULL);
    }

    errno = saved;
}

/* ---- what the program sees ---- */

/* The program has set an action for SIGABRT. */
static void watch_again(void)
{
    if (amph_ip_fd(STDERR_FILENO))
        amph_ip_abort_watch();
}

/* A handler may come in the midst of a malloc, and fork.  The functions that a fork needs are looked up before: for one
 * that does not exist the dynamic linker allocates a text. */
static void expect_handler(sighandler_t fn)
{
    if (fn != SIG_DFL && fn != SIG_IGN && fn != SIG_ERR && amph_ip_state.on && !amph_ip_inside)
        amph_ip_libc_find_all();
}

int amph_do_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
    if (act)
        expect_handler(act->sa_handler);

    int r = libc_sigaction(sig, act, old);

    if (AMPH_LIKELY(sig != SIGABRT) || r != 0)
        return r;

    if (old && old->sa_handler == on_abort)
        *old = (struct sigaction){ .sa_handler = SIG_DFL };

    if (act)
        watch_again();

    return r;
}

sighandler_t amph_do_signal(int sig, sighandler_t fn)
{
    expect_handler(fn);

    sighandler_t old = libc_signal(sig, fn);

    if (AMPH_LIKELY(sig != SIGABRT))
        return old;

    watch_again();
    return old == on_abort ? SIG_DFL : old;
}

/* The text of a failed assertion goes through stderr, so it is not lost, and must not be written again. */
static void note_assertion(void)
{
    __atomic_store_n(&amph_ip_stdio.abort.asserted, true, __ATOMIC_RELAXED);
}

void amph_do_assert(const char *text, const char *file, int line)
{
    note_assertion();
    libc___assert(text, file, line);
    __builtin_unreachable();
}

void amph_do_assert_fail(const char *text, const char *file, unsigned line, const char *function)
{
    note_assertion();
    libc___assert_fail(text, file, line, function);
    __builtin_unreachable();
}

void amph_do_assert_perror_fail(int err, const char *file, unsigned line, const char *function)
{
    note_assertion();
    libc___assert_perror_fail(err, file, line, function);
    __builtin_unreachable();
}
