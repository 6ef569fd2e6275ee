/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tools without the runtime: annotations, the machine, limits and streams, fatal errors,
 * signals, backtraces, waiting for a debugger, and what traces would be.  Built for each thread
 * mode.
 */
#define GASNETT_USE_GCC_ATTRIBUTE_PURE 0 /* a client's own word on what the compiler can do */
#define GASNETT_USE_PLEASE_INLINE(fnname) static __inline__
#define GASNETT_USE_CTYPE_WRAPPERS 1
#include "gasnet_tools.h"

#include "tests/unit/unit_tools.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/uio.h>

/* ---- annotations ---- */

GASNETT_IDENT(unit_tools_ident, "$UnitTools: tests $");

GASNETT_INLINE(always) int always(int a)
{
    return a + 1;
}

GASNETT_PLEASE_INLINE(please) int please(int a)
{
    return a + 2;
}

GASNETT_NEVER_INLINE(never, static int never(int a, int b))
{
    return a + b;
}

GASNETT_FORMAT_PRINTF(print_to, 2, 3, static int print_to(char *buf, const char *fmt, ...));
static int print_to(char *buf, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);

    int n = vsprintf(buf, fmt, ap);

    va_end(ap);
    return n;
}

GASNETT_FORMAT_PRINTF_FUNCPTR(printer, 2, 3,
                              static int (*printer)(char *buf, const char *fmt, ...)) = print_to;

static void leave(int code) GASNETT_NORETURN;
GASNETT_NORETURNP(leave)
static void leave(int code)
{
    gasnett_killmyprocess(code);
}

GASNETT_MALLOC static void *fresh(size_t n)
{
    return malloc(n);
}

GASNETT_MALLOCP(fresh)
GASNETT_PURE static int first_of(const int *p)
{
    return *p;
}

GASNETT_PUREP(first_of)
GASNETT_CONST GASNETT_HOT static int square(int a)
{
    return a * a;
}

GASNETT_CONSTP(square)
GASNETT_COLD GASNETT_DEPRECATED GASNETT_USED static int old_fashioned(void)
{
    return 5;
}

GASNETT_WARN_UNUSED_RESULT static int important(void)
{
    return 6;
}

static size_t sum_apart(const int *GASNETT_RESTRICT a, int *GASNETT_RESTRICT b)
{
    *b = 1;
    return (size_t)(*a + *b);
}

/* 3 runs on into 2, 2 into 1; with and without a semicolon. */
static int run_on(int from)
{
    int steps = 0;

    switch (from) {
    case 3:
        steps++;
        GASNETT_FALLTHROUGH
    case 2:
        steps++;
        GASNETT_FALLTHROUGH;
    case 1:
        steps++;
        break;
    default:
        break;
    }
    return steps;
}

static int sign(int a)
{
    if_pf(a < 0) return -1;
    if_pt(a > 0) return 1;
    if (a == 0)
        return 0;

    gasnett_unreachable();
}

static int half_of_even(int a)
{
    gasnett_assume(a % 2 == 0);
    return a / 2;
}

Test(tools_annotate, annotated_functions_work)
{
    char text[32];
    int a = 4;
    int b = 0;

    free(fresh(10));
    cr_assert_eq(always(1) + please(1) + never(1, 2), 8);
    cr_assert(print_to(text, "%d", 12) == 2 && printer(text, "%s", "abc") == 3 &&
              strcmp(text, "abc") == 0);
    cr_assert(first_of(&a) == 4 && square(3) == 9 && important() == 6);
    cr_assert_eq(sum_apart(&a, &b), 5);
    cr_assert(run_on(3) == 3 && run_on(2) == 2 && run_on(1) == 1 && run_on(0) == 0);
    cr_assert(sign(-7) == -1 && sign(0) == 0 && sign(9) == 1 && half_of_even(10) == 5);
    cr_assert(GASNETT_PREDICT_TRUE(a == 4) && !GASNETT_PREDICT_FALSE(a == 5));
    cr_assert(gasnett_constant_p(3) && !GASNETT_USE_GCC_ATTRIBUTE_PURE &&
              GASNETT_USE_BUILTIN_CONSTANT_P);
    cr_assert_str_eq(unit_tools_ident, "$UnitTools: tests $");
    cr_assert_str_eq(GASNETT_CURRENT_FUNCTION, __func__);
    cr_assert(isalpha('x') && !isdigit('x') && toupper('a') == 'A' && !isspace((char)0xe4));
}

Test(tools_annotate, unused_arguments_are_evaluated)
{
    int n = 0;

    GASNETT_UNUSED_ARGS1(n++);
    GASNETT_UNUSED_ARGS2(n++, n++);
    GASNETT_UNUSED_ARGS3(n++, n++, n++);
    GASNETT_UNUSED_ARGS4(n++, n++, n++, n++);
    GASNETT_UNUSED_ARGS5(n++, n++, n++, n++, n++);
    GASNETT_UNUSED_ARGS6(n++, n++, n++, n++, n++, n++);
    GASNETT_UNUSED_ARGS7(n++, n++, n++, n++, n++, n++, n++);
    GASNETT_UNUSED_ARGS8(n++, n++, n++, n++, n++, n++, n++, n++);
    cr_assert_eq(n, 36);
}

Test(tools_annotate, traces_are_nothing)
{
    int n = 0;

    GASNETT_TRACE_PRINTF("%d", n++);
    GASNETT_TRACE_PRINTF_FORCE("%d", n++);
    GASNETT_STATS_PRINTF("%d", n++);
    GASNETT_STATS_PRINTF_FORCE("%d", n++);
    GASNETT_TRACE_SETMASK("PG");
    GASNETT_STATS_SETMASK("PG");
    GASNETT_STATS_DUMP(1);
    cr_assert(n == 0 && !GASNETT_TRACE_ENABLED);
    cr_assert_str_eq(GASNETT_TRACE_GETMASK(), "");
    cr_assert_str_eq(GASNETT_STATS_GETMASK(), "");
}

Test(tools_platform, this_machine_and_compiler)
{
    const uint16_t one = 1;

    cr_assert(PLATFORM_OS_LINUX && PLATFORM_COMPILER_C && PLATFORM_COMPILER_FAMILYID > 0);
    cr_assert(PLATFORM_COMPILER_VERSION_GE(1, 0, 0) && PLATFORM_COMPILER_VERSION_LT(200, 0, 0));
    cr_assert(PLATFORM_COMPILER_VERSION_EQ(PLATFORM_COMPILER_MAJOR, PLATFORM_COMPILER_MINOR,
                                           PLATFORM_COMPILER_PATCH));
    cr_assert(!PLATFORM_COMPILER_VERSION_GT(PLATFORM_COMPILER_MAJOR, PLATFORM_COMPILER_MINOR,
                                            PLATFORM_COMPILER_PATCH));
    cr_assert(PLATFORM_COMPILER_VERSION_LE(PLATFORM_COMPILER_MAJOR, PLATFORM_COMPILER_MINOR,
                                           PLATFORM_COMPILER_PATCH));
    cr_assert(strstr(PLATFORM_COMPILER_IDSTR, PLATFORM_TEXT(PLATFORM_COMPILER_FAMILYNAME)));
    cr_assert(strstr(PLATFORM_COMPILER_IDSTR, PLATFORM_COMPILER_VERSION_STR));
    cr_assert_eq(gasnett_isLittleEndian(), *(const unsigned char *)&one);
#if PLATFORM_ARCH_64
    cr_assert_eq(sizeof(void *), 8);
#else
    cr_assert_eq(sizeof(void *), 4);
#endif
}

/* ---- the machine ---- */

Test(tools_machine, properties)
{
    char name[256] = "";

    gethostname(name, sizeof name - 1);
    cr_assert_str_eq(gasnett_gethostname(), name);
    cr_assert_str_eq(gasneti_gethostname(), name);
    cr_assert_eq(gasnett_cpu_count(), sysconf(_SC_NPROCESSORS_ONLN));
    cr_assert_eq(gasnett_getPhysMemSz(1),
                 (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    cr_assert_eq(gasnett_getPhysMemSz(0), gasnett_getPhysMemSz(1));
    cr_assert_eq(GASNETT_PAGESIZE, 1 << GASNETT_PAGESHIFT);
    cr_assert_eq(GASNETT_PAGESIZE % sysconf(_SC_PAGESIZE), 0,
                 "layout for the largest page suits the page in use");
    cr_assert(GASNETT_CACHE_LINE_BYTES >= 32 &&
              (GASNETT_CACHE_LINE_BYTES & (GASNETT_CACHE_LINE_BYTES - 1)) == 0);
    cr_assert(strstr(GASNETT_SYSTEM_TUPLE, "linux"));
    gasnett_sched_yield();
}

Test(tools_machine, versions)
{
    char text[64];
    int major = GASNETT_RELEASE_VERSION_MAJOR;
    int minor = GASNETT_RELEASE_VERSION_MINOR;
    int patch = GASNETT_RELEASE_VERSION_PATCH;

    snprintf(text, sizeof text, "%d.%d.%d", major, minor, patch);
    cr_assert_str_eq(gasnett_release_version_str(), text);
    cr_assert_eq(gasnett_release_version(), major * 10000 + minor * 100 + patch);
    _Static_assert(_Generic(gasnett_release_version(), uint64_t : 1, default : 0),
                   "README-tools says uint64_t");
    cr_assert(GASNETT_SPEC_VERSION_MAJOR == 1 && GASNETT_SPEC_VERSION_MINOR >= 20);

    const char *slow = gasnett_performance_warning_str();

    cr_assert(slow[0] == 0 || slow[strlen(slow) - 1] == '\n');
}

Test(tools_machine, affinity)
{
    cpu_set_t set;

    cr_assert_eq(GASNETT_SET_AFFINITY_SUPPORT, 1);
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    if (CPU_COUNT(&set) < gasnett_cpu_count())
        cr_skip_test("the test may not use all processors");

    for (int rank = 0; rank < 2 * gasnett_cpu_count(); rank++) {
        cr_assert_eq(gasnett_set_affinity(rank), 0);
        cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
        cr_assert(CPU_COUNT(&set) == 1 && CPU_ISSET((unsigned)(rank % gasnett_cpu_count()), &set),
                  "%d", rank);
    }
}

Test(tools_machine, limits)
{
    struct rlimit now = { 4u << 20, 8u << 20 };
    struct rlimit then;

    cr_assert_eq(setrlimit(RLIMIT_STACK, &now), 0);
    gasnett_setenv("GASNET_MAXIMIZE_RLIMIT_STACK", "no");
    cr_assert_neq(gasnett_maximize_rlimit(RLIMIT_STACK, "RLIMIT_STACK"), 0);
    getrlimit(RLIMIT_STACK, &then);
    cr_assert_eq(then.rlim_cur, 4u << 20, "left alone");
    gasnett_unsetenv("GASNET_MAXIMIZE_RLIMIT_STACK");
    cr_assert_neq(gasnett_maximize_rlimit(RLIMIT_STACK, "RLIMIT_STACK"), 0);
    getrlimit(RLIMIT_STACK, &then);
    cr_assert(then.rlim_cur == then.rlim_max && then.rlim_cur >= 8u << 20);
    cr_assert_neq(gasnett_maximize_rlimits(), 0);
    cr_assert_eq(gasnett_maximize_rlimit(12345, "RLIMIT_NONE"), 0);
}

static void print_and_close(void)
{
    dup2(STDERR_FILENO, STDOUT_FILENO);
    printf("held back");
    gasnett_flush_streams();
    printf(", then closed");
    gasnett_close_streams();
    gasnett_close_streams();

    int fd = open("/proc/self/exe", O_RDONLY);

    _exit(fd > STDERR_FILENO && write(STDOUT_FILENO, "lost", 4) == 4 ? 0 : 1);
}

Test(tools_machine, streams)
{
    char text[64];

    cr_assert_eq(in_child(print_and_close, text, sizeof text), 0);
    cr_assert_str_eq(text, "held back, then closed");
}

/* ---- the end ---- */

static void fatal_here(void)
{
    gasnett_fatalerror("the value is %d", 17);
}

static void fatal_somewhere(void)
{
    gasnett_fatalerror_nopos("the value is %d", 18);
}

static void fatal_with_lines(void)
{
    gasnett_fatalerror_nopos("the first line\n  and the second: %d\n", 19);
}

static void at_exit(void)
{
    gasnett_nsleep(1);
    _exit(99);
}

static void killed(void)
{
    atexit(at_exit);
    leave(42);
}

Test(tools_fatal, says_who_where_and_what)
{
    char text[512];
    char *place = gasnett_current_loc;
    int status = in_child(fatal_here, text, sizeof text);

    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    cr_assert(strstr(text, "*** FATAL ERROR, process (") && strstr(text, "fatal_here() at "), "%s",
              text);
    cr_assert(strstr(text, "unit_tools_misc.c:"), "%s", text);
    cr_assert(strstr(text, ": the value is 17\n"));
    status = in_child(fatal_somewhere, text, sizeof text);
    cr_assert(WIFSIGNALED(status) && strstr(text, "): the value is 18\n") &&
                  !strstr(text, "unit_tools_misc"),
              "%s", text);
    status = in_child(fatal_with_lines, text, sizeof text);
    cr_assert(WIFSIGNALED(status) && strstr(text, "): the first line\n  and the second: 19\n") &&
                  !strstr(text, "\n\n"),
              "%s", text);
    cr_assert_eq(strncmp(place, "tools_fatal_says", 16), 0, "%s", place);
    cr_assert(strstr(place, "unit_tools_misc.c:"));
    free(place);
}

Test(tools_fatal, kill_passes_exit_handlers_by)
{
    char text[64];
    int status = in_child(killed, text, sizeof text);

    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

static volatile sig_atomic_t caught;

static void note(int sig)
{
    caught = sig;
}

Test(tools_fatal, handlers_of_signals)
{
    cr_assert_eq(gasnett_reghandler(SIGUSR1, note), SIG_DFL);
    raise(SIGUSR1);
    cr_assert_eq(caught, SIGUSR1);
    raise(SIGUSR1);
    cr_assert_eq(gasnett_reghandler(SIGUSR1, SIG_IGN), note,
                 "a handler stays until it is taken away");
    raise(SIGUSR1);
    cr_assert_eq(gasnett_reghandler(SIGUSR1, SIG_DFL), SIG_IGN);
    cr_assert_eq(gasnett_reghandler(SIGKILL, note), SIG_ERR);
}

/* ---- backtraces ---- */

static int own_backtrace(int fd)
{
    return dprintf(fd, "here I am\n") < 0;
}

gasnett_backtrace_type_t gasnett_backtrace_user = { "MINE", own_backtrace, 1 };

GASNETT_NEVER_INLINE(deep_inside, static int deep_inside(int fd))
{
    int r = gasnett_print_backtrace(fd);

    gasnett_compiler_fence();
    return r;
}

static const char *type_wanted;

static void trace_deep_inside(void)
{
    gasnett_setenv("GASNET_BACKTRACE_TYPE", type_wanted);
    gasnett_backtrace_init("unit_tools");
    _exit(deep_inside(STDERR_FILENO));
}

Test(tools_backtrace, the_clients_own_comes_first)
{
    char text[4096];

    type_wanted = "";
    cr_assert_eq(in_child(trace_deep_inside, text, sizeof text), 0);
    cr_assert(strstr(text, "by MINE:\nhere I am\n"), "%s", text);
}

Test(tools_backtrace, by_unwinding_with_names_of_static_functions)
{
    char text[8192];

    type_wanted = "NONE,execinfo";
    cr_assert_eq(in_child(trace_deep_inside, text, sizeof text), 0);
    cr_assert(strstr(text, "by EXECINFO:\n") && strstr(text, " deep_inside") &&
                  strstr(text, " trace_deep_inside+0x"),
              "%s", text);
}

Test(tools_backtrace, none_works)
{
    char text[256];

    type_wanted = "NONE,ODD";
    cr_assert(in_child(trace_deep_inside, text, sizeof text) != 0);
    cr_assert_str_eq(text, "");
}

static void trace_if_enabled(void)
{
    (void)!gasnett_print_backtrace_ifenabled(STDERR_FILENO);
}

static int replaced(int fd)
{
    return dprintf(fd, "replaced\n") < 0;
}

static void fatal_with_replacement(void)
{
    gasnett_print_backtrace_ifenabled = replaced;
    gasnett_fatalerror("over");
}

Test(tools_backtrace, only_if_enabled)
{
    char text[512];

    in_child(trace_if_enabled, text, sizeof text);
    cr_assert_str_eq(text, "");
    in_child(fatal_with_replacement, text, sizeof text);
    cr_assert(strstr(text, "over\nreplaced\n"));
    gasnett_setenv("GASNET_BACKTRACE", "1");
    in_child(fatal_here, text, sizeof text);
    cr_assert(strstr(text, "by MINE:\nhere I am\n"), "%s", text);
}

static void overrun(volatile char *above)
{
    volatile char room[4096];

    room[0] = *above;
    if (room[0] < 100) /* always */
        overrun(room);

    room[1] = room[0];
}

static void crash_by_stack(void)
{
    struct rlimit small = { 1 << 20, 1 << 20 };
    char c = 0;

    setrlimit(RLIMIT_STACK, &small);
    gasnett_setenv("GASNET_BACKTRACE", "1");
    gasnett_backtrace_init(NULL);
    overrun(&c);
}

Test(tools_backtrace, a_fatal_signal_is_reported_and_still_ends_the_process)
{
    char text[8192];
    int status = in_child(crash_by_stack, text, sizeof text);

    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    cr_assert(strstr(text, "*** Caught a fatal signal: SIGSEGV(11), process (") &&
                  strstr(text, "here I am\n"),
              "%s", text);
}

static void signals_that_ask(void)
{
    gasnett_setenv("GASNET_BACKTRACE_SIGNAL", "usr1");
    gasnett_setenv("GASNET_BACKTRACE", "1");
    gasnett_setenv("GASNET_NO_CATCH_SIGNAL", "SEGV,sigbus,8");
    gasnett_backtrace_init(NULL);
    raise(SIGUSR1);
    _exit(gasnett_reghandler(SIGSEGV, SIG_DFL) == SIG_DFL &&
                  gasnett_reghandler(SIGBUS, SIG_DFL) == SIG_DFL &&
                  gasnett_reghandler(SIGFPE, SIG_DFL) == SIG_DFL &&
                  gasnett_reghandler(SIGILL, SIG_DFL) != SIG_DFL
              ? 7
              : 1);
}

Test(tools_backtrace, signals_by_name)
{
    char text[1024];
    int status = in_child(signals_that_ask, text, sizeof text);

    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%d", status);
    cr_assert(strstr(text, "here I am\n"));
}

Test(tools_backtrace, the_programs_name)
{
    char path[4096] = "";

    cr_assert_gt(readlink("/proc/self/exe", path, sizeof path - 1), 0);
    cr_assert_str_eq(gasnett_exe_name(), path);
}

/* ---- waiting for a debugger; the parent plays it ---- */

static volatile int frozen_flag;
static void (*freeze)(void);

static void freeze_now(void)
{
    gasnett_freezeForDebuggerNow(&frozen_flag, "frozen_flag");
}

static void freeze_on_error(void)
{
    gasnett_setenv("GASNET_FREEZE_ON_ERROR", "1");
    gasnett_freezeForDebuggerErr();
}

static void freeze_by_signal(void)
{
    gasnett_setenv("GASNET_FREEZE_SIGNAL", "SIGUSR2");
    gasnett_backtrace_init(NULL);
    raise(SIGUSR2);
}

/* Starts a child that freezes, waits for its word, changes the flag in its memory: the child goes
 * on. */
static void thaw(volatile int *flag, int value, const char *word)
{
    int ends[2], status;
    char text[512] = "";

    cr_assert_eq(pipe(ends), 0);

    pid_t pid = fork();

    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        freeze();
        _exit(23);
    }

    cr_assert_gt(read(ends[0], text, sizeof text - 1), 0);
    cr_assert(strstr(text, "is frozen") && strstr(text, word), "%s", text);
    cr_assert_eq(waitpid(pid, &status, WNOHANG), 0, "it waits");

    struct iovec from = { &value, sizeof value };
    struct iovec to = { (void *)flag, sizeof value };

    cr_assert_eq(process_vm_writev(pid, &from, 1, &to, 1, 0), sizeof value, "%s", strerror(errno));
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 23);
}

Test(tools_freeze, until_the_flag_changes)
{
    freeze = freeze_now;
    thaw(&frozen_flag, 1, "set var frozen_flag = 1");
}

Test(tools_freeze, on_error)
{
    freeze = freeze_on_error;
    thaw(&gasnet_frozen, 0, "set var gasnet_frozen = 0");
}

Test(tools_freeze, upon_a_signal)
{
    freeze = freeze_by_signal;
    thaw(&gasnet_frozen, 0, "set var gasnet_frozen = 0");
}

Test(tools_freeze, not_on_error_unless_asked)
{
    gasnett_freezeForDebuggerErr();
}
