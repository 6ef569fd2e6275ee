/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fatal errors, signals, waiting for a debugger, and the name of this process in messages.
 *
 * Layer: extended.  Thread rule: any thread.  Functions that signal handlers call are marked; they
 * use only state that amph_tools_arm has prepared.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "amphora/tools/debug.h"
#include "amphora/tools/env.h"
#include "amphora/tools/system.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "extended/tools/tools.h"

/* How often a frozen process reads its flag, which a debugger changes without waking the
 * process. */
#define FREEZE_POLL_NS 100000000

/* How long flushing the stdio streams may delay the end of a process. */
#define LAST_FLUSH_S 1

volatile int gasnet_frozen = 1;

struct amph_tools_state amph_tools_state = {
    .process = { .named = PTHREAD_ONCE_INIT, .armed = PTHREAD_ONCE_INIT },
    .backtrace = { .prepared = PTHREAD_ONCE_INIT },
    .environ = { .lock = PTHREAD_MUTEX_INITIALIZER },
    .machine = { .read = PTHREAD_ONCE_INIT },
    .ticks = { .decided = PTHREAD_ONCE_INIT },
};

/* ---- who ---- */

static void name_process(void)
{
    char *who = amph_tools_state.process.who;
    const uint32_t rank = amph_tools_state.process.rank;
    const uint32_t size = amph_tools_state.process.size;

    if (size)
        snprintf(who, AMPH_TOOLS_NAME_BYTES, "process %u of %u (%s, pid %d)", rank, size,
                 gasneti_gethostname(), (int)getpid());
    else
        snprintf(who, AMPH_TOOLS_NAME_BYTES, "process (%s, pid %d)", gasneti_gethostname(),
                 (int)getpid());
}

const char *amph_tools_who(void)
{
    if (!amph_tools_state.process.who[0])
        pthread_once(&amph_tools_state.process.named, name_process);

    return amph_tools_state.process.who;
}

uint32_t amph_tools_rank(void)
{
    return amph_tools_state.process.rank;
}

bool amph_tools_is_first(void)
{
    if (amph_tools_state.process.size)
        return amph_tools_state.process.rank == 0;

    return amph_env_int(AMPH_ENV_RANK) <= 0;
}

/* ---- what stdio holds, when the process ends badly ---- */

/* Starts a timer by a direct system call, which is allowed in signal handlers. */
static int start_timer(int sig)
{
    struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig };
    const struct itimerspec once = { .it_value = { LAST_FLUSH_S, 0 } };
    int timer = -1;

    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &ev, &timer) != 0)
        return -1;

    syscall(SYS_timer_settime, timer, 0, &once, NULL);
    return timer;
}

static void flush_unless_locked(FILE *stream)
{
    if (ftrylockfile(stream) == 0) {
        fflush(stream);
        funlockfile(stream);
    }
}

/*
 * Flushes the stdio streams, the standard streams first.  A stream may be locked for good or half
 * changed, so this is limited to LAST_FLUSH_S seconds; then `sig` arrives, whose action the caller
 * has set to end the process.  Done only once, because a forwarded stream may fail inside.
 */
static void flush_last(int sig)
{
    if (__atomic_exchange_n(&amph_tools_state.process.flushed_last, true, __ATOMIC_ACQ_REL))
        return;

    int timer = start_timer(sig);
    sigset_t set;
    sigset_t before;

    sigemptyset(&set);
    sigaddset(&set, sig);
    pthread_sigmask(SIG_UNBLOCK, &set, &before);
    flush_unless_locked(stdout);
    flush_unless_locked(stderr);
    fflush(NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (timer >= 0)
        syscall(SYS_timer_delete, timer);
}

/* ---- messages ---- */

/* Async-signal-safe. */
void amph_tools_write(int fd, const char *text)
{
    size_t len = strlen(text);

    while (len) {
        ssize_t n = write(fd, text, len);

        if (n < 0 && errno != EINTR)
            return;

        if (n > 0)
            text += n, len -= (size_t)n;
    }
}

char *amphora_tools_place(const char *function, const char *file, int line)
{
    char *place;
    return asprintf(&place, "%s() at %s:%d", function, file, line) < 0 ? NULL : place;
}

/* Prints the message with one write, so that lines of several processes do not mix, and with one
 * newline at its end. */
static void say_fatal(const char *place, const char *fmt, va_list ap)
{
    char line[2048];
    int n = snprintf(line, sizeof line - 1, "*** FATAL ERROR, %.300s: %.400s%s", amph_tools_who(),
                     place, place[0] ? ": " : "");

    vsnprintf(line + n, sizeof line - 1 - (size_t)n, fmt, ap);

    size_t len = strlen(line);

    while (len && line[len - 1] == '\n')
        len--;

    line[len] = '\n';
    line[len + 1] = '\0';
    amph_tools_write(STDERR_FILENO, line);
}

/* Freezes and prints a backtrace, as the settings say, before a fatal error ends the process.  Also
 * called by signal handlers, which only amph_tools_arm installs. */
static void last_look(void)
{
    if (amph_tools_state.process.freeze_on_error)
        gasnett_freezeForDebuggerNow(&gasnet_frozen, "gasnet_frozen");

    (void)gasnett_print_backtrace_ifenabled(STDERR_FILENO);
}

static void end_at_once(int sig)
{
    _exit(1);
}

/* Called before an error of the library ends the process. */
static void look_at_error(void)
{
    gasnett_reghandler(SIGSYS, end_at_once);
    flush_last(SIGSYS);
    if (amph_tools_state.process.reports)
        last_look();
}

static void die(void) AMPH_NORETURN;
static void die(void)
{
    gasnett_backtrace_init(NULL); /* reads the settings */
    gasnett_reghandler(SIGABRT, SIG_DFL);
    flush_last(SIGABRT);
    last_look();
    abort();
}

void gasneti_fatalerror(const char *msg, ...)
{
    va_list ap;

    va_start(ap, msg);
    say_fatal("", msg, ap);
    va_end(ap);
    die();
}

void amphora_tools_fatal_at(const char *function, const char *file, int line, const char *msg, ...)
{
    char place[400];
    va_list ap;

    snprintf(place, sizeof place, "%s() at %s:%d", function, file, line);
    va_start(ap, msg);
    say_fatal(place, msg, ap);
    va_end(ap);
    die();
}

void amphora_tools_misuse(const char *what, const void *lock, const char *file, int line)
{
    gasneti_fatalerror("%s (%p, at %s:%d)", what, lock, file, line);
}

void gasnett_killmyprocess(int exitcode)
{
    _exit(exitcode);
}

/* ---- the debugger ---- */

/* Also called by signal handlers. */
void gasnett_freezeForDebuggerNow(volatile int *flag, const char *flagsymname)
{
    const struct timespec interval = { 0, FREEZE_POLL_NS };
    const int before = *flag;
    char line[512];

    snprintf(
        line, sizeof line,
        "*** %s is frozen: attach a debugger (gdb -p %d), then \"set var %s = %d\" and continue\n",
        amph_tools_who(), (int)getpid(), flagsymname, !before);
    amph_tools_write(STDERR_FILENO, line);
    while (*flag == before)
        nanosleep(&interval, NULL);
}

void gasnett_freezeForDebuggerErr(void)
{
    amph_tools_arm();
    if (amph_tools_state.process.freeze_on_error)
        gasnett_freezeForDebuggerNow(&gasnet_frozen, "gasnet_frozen");
}

/* ---- signals ---- */

gasnett_sighandlerfn_t gasnett_reghandler(int sigtocatch, gasnett_sighandlerfn_t fp)
{
    struct sigaction sa = { .sa_handler = fp, .sa_flags = SA_RESTART };
    struct sigaction old;

    sigemptyset(&sa.sa_mask);
    return sigaction(sigtocatch, &sa, &old) == 0 ? old.sa_handler : SIG_ERR;
}

/* The number of the signal that text names ("SIGUSR1", "usr1", "10"; len bytes); 0: no signal. */
static int signal_number(const char *text, size_t len)
{
    char word[32];

    if (len == 0 || len >= sizeof word)
        return 0;

    memcpy(word, text, len);
    word[len] = 0;

    const char *name = strncasecmp(word, "SIG", 3) == 0 ? word + 3 : word;
    int number = atoi(word);

    for (int sig = 1; sig < NSIG; sig++)
        if (sig == number || (sigabbrev_np(sig) && strcasecmp(sigabbrev_np(sig), name) == 0))
            return sig;

    return 0;
}

static const int fatal_signals[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS };

/* Handler of fatal signals.  The first thread with one flushes the stdio streams and, if the
 * settings want that, reports the signal; other threads wait for the process to end. */
static void on_fatal_signal(int sig)
{
    char line[400];

    if (__atomic_exchange_n(&amph_tools_state.process.fatal_signal_claimed, true, __ATOMIC_ACQ_REL))
        for (;;)
            pause();

    for (size_t i = 0; i < AMPH_COUNTOF(fatal_signals); i++)
        gasnett_reghandler(fatal_signals[i], SIG_DFL);

    flush_last(sig);
    if (amph_tools_state.process.reports) {
        snprintf(line, sizeof line, "*** Caught a fatal signal: SIG%s(%d), %s\n", sigabbrev_np(sig),
                 sig, amph_tools_state.process.who);
        amph_tools_write(STDERR_FILENO, line);
        last_look();
    }

    /* delivered when this handler returns, with the default action: the exit status is that of
     * sig */
    raise(sig);
}

static void on_backtrace_signal(int sig)
{
    int saved = errno;

    (void)gasnett_print_backtrace(STDERR_FILENO);
    errno = saved;
}

static void on_freeze_signal(int sig)
{
    int saved = errno;

    gasnet_frozen = 1;
    gasnett_freezeForDebuggerNow(&gasnet_frozen, "gasnet_frozen");
    errno = saved;
}

/* Does GASNET_NO_CATCH_SIGNAL list sig? */
static bool not_to_be_caught(int sig)
{
    const char *list = amph_env_str(AMPH_ENV_NO_CATCH_SIGNAL);

    if (strcmp(list, "*") == 0)
        return true;

    while (*list) {
        size_t len = strcspn(list, ",");
        if (signal_number(list, len) == sig)
            return true;

        list += len + (list[len] == ',');
    }

    return false;
}

/* Installs the handler of a fatal signal, unless the client or a sanitizer has one. */
static void catch_fatal(int sig)
{
    struct sigaction sa = { .sa_handler = on_fatal_signal, .sa_flags = SA_ONSTACK };
    struct sigaction old;

    if (not_to_be_caught(sig) || sigaction(sig, NULL, &old) != 0 || (old.sa_flags & SA_SIGINFO) ||
        old.sa_handler != SIG_DFL)
        return;

    sigemptyset(&sa.sa_mask);
    sigaction(sig, &sa, NULL);
}

static void catch_named(enum amph_env_id id, gasnett_sighandlerfn_t handler)
{
    const char *text = amph_env_str(id);

    if (!text[0])
        return;

    int sig = signal_number(text, strlen(text));

    if (!sig || gasnett_reghandler(sig, handler) == SIG_ERR)
        amph_warn("%s=\"%s\" names no signal that can be caught; write it as SIGUSR1, usr1 or 10",
                  amph_env_name(id), text);
}

/* Gives this thread an alternate signal stack: after a stack overflow a handler needs another
 * one. */
static void set_signal_stack(void)
{
    stack_t now;
    stack_t other = {
        .ss_sp = amph_tools_state.process.signal_stack,
        .ss_size = sizeof amph_tools_state.process.signal_stack,
    };

    if (sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE))
        sigaltstack(&other, NULL);
}

static void arm(void)
{
    const bool freezes = amph_env_bool(AMPH_ENV_FREEZE_ON_ERROR);

    amph_tools_state.process.freeze_on_error = freezes;
    amph_tools_who();
    catch_named(AMPH_ENV_BACKTRACE_SIGNAL, on_backtrace_signal);
    catch_named(AMPH_ENV_FREEZE_SIGNAL, on_freeze_signal);
    amph_tools_state.process.reports = freezes || amph_env_bool(AMPH_ENV_BACKTRACE);
    amph_fatal_hooks.look = look_at_error;
    set_signal_stack();
    for (size_t i = 0; i < AMPH_COUNTOF(fatal_signals); i++)
        catch_fatal(fatal_signals[i]);
}

void amph_tools_arm(void)
{
    pthread_once(&amph_tools_state.process.armed, arm);
}

/* ---- the start of the runtime ---- */

static void display(const char *name, const char *value, bool is_default)
{
    gasnett_envstr_display(name, value, is_default);
}

void amph_tools_start(uint32_t rank, uint32_t size, const char *exe)
{
    amph_tools_state.process.rank = rank;
    amph_tools_state.process.size = size;
    name_process();
    amph_tools_start_ticks();
    gasnett_backtrace_init(exe);
    if (gasnett_verboseenv())
        amph_env_describe(display);

    if (amph_env_bool(AMPH_ENV_FREEZE))
        gasnett_freezeForDebuggerNow(&gasnet_frozen, "gasnet_frozen");
}
