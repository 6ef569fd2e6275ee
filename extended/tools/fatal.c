/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fatal errors, signals, waiting for a debugger; who this process is.  Layer: extended.  Thread
 * rule: any thread; what handlers of signals call is marked so and uses only what was prepared by
 * amph_tools_arm.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "amphora/tools/debug.h"
#include "amphora/tools/env.h"
#include "amphora/tools/system.h"
#include "base/env.h"
#include "base/log.h"
#include "extended/tools/tools.h"

#define ALT_STACK_BYTES 65536
#define FREEZE_LOOK_NS \
    100000000 /* how often a frozen process looks at its flag: a debugger gives no other sign */

volatile int gasnet_frozen = 1; /* a debugger sets it to 0 */

static char who[256];
static uint32_t my_rank, job_size; /* size 0: not started */

/* ---- who ---- */

static void name_process(void)
{
    if (job_size)
        snprintf(who, sizeof who, "process %u of %u (%s, pid %d)", my_rank, job_size,
                 gasneti_gethostname(), (int)getpid());
    else
        snprintf(who, sizeof who, "process (%s, pid %d)", gasneti_gethostname(), (int)getpid());
}

const char *amph_tools_who(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (!who[0])
        pthread_once(&once, name_process);

    return who;
}

uint32_t amph_tools_rank(void)
{
    return my_rank;
}

bool amph_tools_is_first(void)
{
    return job_size ? my_rank == 0 : amph_env_int(AMPH_ENV_RANK) <= 0;
}

/* ---- words ---- */

/* In signal handlers too. */
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

/* Written at once, with one newline at the end. */
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

static bool freeze_on_error; /* copies of settings, for signal handlers */

/* What comes before the end of the process on a fatal error.  In signal handlers too:
 * amph_tools_arm has been called. */
static void last_look(void)
{
    if (freeze_on_error)
        gasnett_freezeForDebuggerNow(&gasnet_frozen, "gasnet_frozen");

    (void)gasnett_print_backtrace_ifenabled(STDERR_FILENO);
}

static void die(void) AMPH_NORETURN;
static void die(void)
{
    gasnett_backtrace_init(NULL); /* so that the environment has been looked at */
    gasnett_flush_streams();
    last_look();
    gasnett_reghandler(SIGABRT, SIG_DFL);
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

/* In signal handlers too. */
void gasnett_freezeForDebuggerNow(volatile int *flag, const char *flagsymname)
{
    const struct timespec look = { 0, FREEZE_LOOK_NS };
    const int before = *flag;
    char line[512];

    snprintf(
        line, sizeof line,
        "*** %s is frozen: attach a debugger (gdb -p %d), then \"set var %s = %d\" and continue\n",
        amph_tools_who(), (int)getpid(), flagsymname, !before);
    amph_tools_write(STDERR_FILENO, line);
    while (*flag == before)
        nanosleep(&look, NULL);
}

void gasnett_freezeForDebuggerErr(void)
{
    amph_tools_arm();
    if (freeze_on_error)
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

/* The number of a signal ("SIGUSR1", "usr1", "10"; len bytes); 0 if there is none. */
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

/* The first thread that meets a fatal signal speaks; others wait for the end. */
static void on_fatal_signal(int sig)
{
    static bool claimed;
    char line[400];

    if (__atomic_exchange_n(&claimed, true, __ATOMIC_ACQ_REL))
        for (;;)
            pause();

    for (size_t i = 0; i < AMPH_COUNTOF(fatal_signals); i++)
        gasnett_reghandler(fatal_signals[i], SIG_DFL);

    snprintf(line, sizeof line, "*** Caught a fatal signal: SIG%s(%d), %s\n", sigabbrev_np(sig),
             sig, who);
    amph_tools_write(STDERR_FILENO, line);
    last_look();
    raise(sig); /* comes when this handler returns: the process ends as it would have */
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

/* Is sig in GASNET_NO_CATCH_SIGNAL? */
static bool left_alone(int sig)
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

/* A handler of the client's, or of a sanitizer, stays. */
static void catch_fatal(int sig)
{
    struct sigaction sa = { .sa_handler = on_fatal_signal, .sa_flags = SA_ONSTACK };
    struct sigaction old;

    if (left_alone(sig) || sigaction(sig, NULL, &old) != 0 || (old.sa_flags & SA_SIGINFO) ||
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
        amph_warn("%s=\"%s\" is no signal that can be caught; write it as SIGUSR1, usr1 or 10",
                  amph_env_name(id), text);
}

/* A thread whose stack has run over needs another one to say so. */
static void give_other_stack(void)
{
    static char room[ALT_STACK_BYTES];
    stack_t now;
    stack_t other = { .ss_sp = room, .ss_size = sizeof room };

    if (sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE))
        sigaltstack(&other, NULL);
}

static void arm(void)
{
    freeze_on_error = amph_env_bool(AMPH_ENV_FREEZE_ON_ERROR);
    amph_tools_who();
    catch_named(AMPH_ENV_BACKTRACE_SIGNAL, on_backtrace_signal);
    catch_named(AMPH_ENV_FREEZE_SIGNAL, on_freeze_signal);
    if (!freeze_on_error && !amph_env_bool(AMPH_ENV_BACKTRACE))
        return;

    amph_fatal_look = last_look;
    give_other_stack();
    for (size_t i = 0; i < AMPH_COUNTOF(fatal_signals); i++)
        catch_fatal(fatal_signals[i]);
}

void amph_tools_arm(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, arm);
}

/* ---- the start of the runtime ---- */

static void tell(const char *name, const char *value, bool is_default)
{
    gasnett_envstr_display(name, value, is_default);
}

void amph_tools_start(uint32_t rank, uint32_t size, const char *exe)
{
    my_rank = rank;
    job_size = size;
    name_process();
    gasnett_backtrace_init(exe);
    if (gasnett_verboseenv())
        amph_env_describe(tell);

    if (amph_env_bool(AMPH_ENV_FREEZE))
        gasnett_freezeForDebuggerNow(&gasnet_frozen, "gasnet_frozen");
}
