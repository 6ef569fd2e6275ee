/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tools without the runtime (linked with libgasnet_tools only): clocks, numbers, environment.
 * Built for each thread mode.
 */
#include "gasnet_tools.h"

#include "tests/unit/unit_tools.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static uint64_t clock_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- clocks ---- */

/* From 10 ms after the first tick on the rate stays the same. */
static void know_the_rate(void)
{
    (void)gasnett_ticks_now();
    gasnett_nsleep(11000000);
}

Test(tools_ticks, the_first_conversion_does_not_wait)
{
    struct timespec before;
    struct timespec after;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    (void)gasnett_ticks_to_ns(gasnett_ticks_now());
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    cr_assert_lt((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec,
                 5000000);
}

Test(tools_ticks, ticks_keep_the_system_clocks_pace)
{
    double worst = 0;

    cr_assert(GASNETT_TICK_MIN == 0 && GASNETT_TICK_MAX > UINT32_MAX);
    know_the_rate();

    for (int i = 0; i < 5; i++) {
        uint64_t ns = clock_ns();
        gasnett_tick_t ticks = gasnett_ticks_now();

        gasnett_nsleep(20000000);
        ticks = gasnett_ticks_now() - ticks;
        ns = clock_ns() - ns;

        double ratio = (double)gasnett_ticks_to_ns(ticks) / (double)ns;
        double off = ratio > 1 ? ratio - 1 : 1 - ratio;

        /* a stall between two readings is not its fault */
        worst = i == 0 || off < worst ? off : worst;
    }

    cr_assert_lt(worst, 0.001, "off by %g", worst);
}

Test(tools_ticks, ticks_never_go_back)
{
    gasnett_tick_t before = gasnett_ticks_now();

    for (int i = 0; i < 100000; i++) {
        gasnett_tick_t now = gasnett_ticks_now();

        cr_assert(now >= before);
        before = now;
    }
}

Test(tools_ticks, conversion)
{
    gasnett_tick_t second = 0;
    gasnett_tick_t step = UINT64_C(1) << 62;

    know_the_rate();
    for (; step; step /= 2) /* the ticks of one second */
        if (gasnett_ticks_to_ns(second + step) <= 1000000000u)
            second += step;

    cr_assert_eq(gasnett_ticks_to_ns(0), 0);
    cr_assert(gasnett_ticks_to_us(second) >= 999999 && gasnett_ticks_to_us(second) <= 1000000);

    /* far above 32 bits, far beyond the precision of a double */
    uint64_t year = gasnett_ticks_to_ns(second * 31536000u);

    cr_assert(year > UINT64_C(31535999000000000) && year < UINT64_C(31536001000000000), "%" PRIu64,
              year);
    cr_assert(gasnett_ticks_to_ns(second * 31536000u + second) - year >= 999999000u);
}

Test(tools_ticks, granularity_and_overhead)
{
    double g = gasnett_tick_granularityus();
    double o = gasnett_tick_overheadus();

    cr_assert(g > 0 && g < 100 && o > 0 && o < 100, "%g %g", g, o);
}

static void nothing(int sig)
{
    (void)sig;
}

Test(tools_ticks, sleep)
{
    uint64_t start = clock_ns();

    cr_assert_eq(gasnett_nsleep(0), 0);
    cr_assert_eq(gasnett_nsleep(3000000), 0);
    cr_assert_geq(clock_ns() - start, 3000000);

    /* again and again, should the first one come too early */
    const struct itimerval soon = { { 0, 20000 }, { 0, 20000 } };

    gasnett_reghandler(SIGALRM, nothing);
    setitimer(ITIMER_REAL, &soon, NULL);
    cr_assert(gasnett_nsleep(UINT64_C(30000000000)) != 0 && errno == EINTR);
}

/* ---- numbers ---- */

Test(tools_number, format_and_parse)
{
    static const struct {
        int64_t value;
        const char *plain, *size;
    } n[] = {
        { 0, "0", "0 B" },
        { 1, "1", "1 B" },
        { 1024, "1024", "1 KB" },
        { 1536, "1536", "1536 B" },
        { 3 << 20, "3145728", "3 MB" },
        { -2048, "-2048", "-2 KB" },
        { INT64_C(5) << 40, "5497558138880", "5 TB" },
        { INT64_MAX, "9223372036854775807", "9223372036854775807 B" },
    };

    char text[64];

    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++) {
        cr_assert_str_eq(gasnett_format_number(n[i].value, text, sizeof text, 0), n[i].plain);
        cr_assert_eq(gasnett_parse_int(text, 0), n[i].value);
        cr_assert_str_eq(gasnett_format_number(n[i].value, text, sizeof text, 1), n[i].size);
        cr_assert_eq(gasnett_parse_int(text, 1024), n[i].value, "%s", text);
    }

    cr_assert_str_eq(gasnett_format_number(123456, text, 4, 0), "123", "always terminated");
}

Test(tools_number, parse)
{
    static const struct {
        const char *text;
        uint64_t unit;
        int64_t value;
    } n[] = {
        { "0x10", 0, 16 },
        { " -7", 0, -7 },
        { "+3 ", 0, 3 },
        { "-0x10", 0, -16 },
        { "0xffffffffffffffff", 0, -1 },
        { "64", 1024, 65536 },
        { "64", 1, 64 },
        { "64B", 1024, 64 },
        { "1.5 KB", 1, 1536 },
        { "0.5", 1048576, 524288 },
        { "2g", 1, INT64_C(2) << 30 },
        { "2GiB", 1, INT64_C(2) << 30 },
        { "0x10 MB", 1, 16 << 20 },
        { "1e3", 1, 1000 },
        { "7 tb ", 1, INT64_C(7) << 40 },
        { "010", 0, 10 },
        { "9007199254740993", 1, INT64_C(9007199254740993) },
    };
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++)
        cr_assert_eq(gasnett_parse_int(n[i].text, n[i].unit), n[i].value, "%s", n[i].text);
}

static const char *bad_text;
static uint64_t bad_unit;

static void parse_bad(void)
{
    (void)gasnett_parse_int(bad_text, bad_unit);
}

Test(tools_number, what_is_no_number_is_fatal)
{
    static const struct {
        const char *text;
        uint64_t unit;
    } bad[] = {
        { "", 0 },     { "x", 0 },    { "12k", 0 },  { "1.5", 0 },   { "99999999999999999999", 0 },
        { "", 1 },     { "KB", 1 },   { "5 XB", 1 }, { "1 KBB", 1 }, { "9 EB", 1 },
        { "1e30", 1 }, { "3 / 4", 1 }
    };

    char text[512], want[64];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bad_text = bad[i].text;
        bad_unit = bad[i].unit;

        int status = in_child(parse_bad, text, sizeof text);

        snprintf(want, sizeof want, "\"%s\" is no ", bad_text);
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(text, want),
                  "\"%s\": %s", bad_text, text);
    }
}

Test(tools_number, zero_bytes)
{
    unsigned char from[67], to[67];
    uint32_t seed = 12345;

    cr_assert_eq(gasnett_count0s_uint32_t(0), 4);
    cr_assert_eq(gasnett_count0s_uint32_t(0x80000100u), 2);
    cr_assert_eq(gasnett_count0s_uint64_t(0), 8);
    cr_assert_eq(gasnett_count0s_uint64_t(UINT64_C(0x0100800001ff0080)), 3);
    cr_assert_eq(gasnett_count0s_uint64_t(UINT64_MAX), 0);
    cr_assert_eq(gasnett_count0s_uintptr_t(1), (int)sizeof(uintptr_t) - 1);

    for (size_t len = 0; len <= 64; len++) {
        for (size_t start = 0; start < 3; start++) {
            size_t zeros = 0;

            for (size_t i = 0; i < sizeof from; i++) {
                seed = seed * 1664525u + 1013904223u;
                from[i] = (unsigned char)(seed >> 30 ? seed >> 24 : 0);
                zeros += i >= start && i < start + len && from[i] == 0;
            }

            memset(to, 0x5a, sizeof to);
            cr_assert_eq(gasnett_count0s(from + start, len), zeros);
            cr_assert_eq(gasnett_count0s_copy(to + start, from + start, len), zeros);
            cr_assert(memcmp(to + start, from + start, len) == 0 && to[start + len] == 0x5a &&
                      (!start || to[start - 1] == 0x5a));
        }
    }
}

Test(tools_number, checksum)
{
    unsigned char data[100], copy[101];

    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7);

    memcpy(copy + 1, data, sizeof data);
    cr_assert_eq(gasnett_checksum(data, 100), gasnett_checksum(copy + 1, 100),
                 "of the bytes, not of where they lie");

    for (int bit = 0; bit < 800; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        cr_assert_neq(gasnett_checksum(data, 100), gasnett_checksum(copy + 1, 100), "bit %d", bit);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }

    cr_assert_neq(gasnett_checksum(data, 99), gasnett_checksum(data, 100));
    cr_assert_neq(gasnett_checksum("\0\0", 1), gasnett_checksum("\0\0", 2), "the length counts");
}

/* ---- environment ---- */

Test(tools_env, queries)
{
    cr_assert_null(gasnett_getenv("TOOLS_TEST"));
    cr_assert_str_eq(gasnett_getenv_withdefault("TOOLS_TEST", "none"), "none");
    cr_assert_null(gasnett_getenv_withdefault("TOOLS_TEST", NULL));
    gasnett_setenv("TOOLS_TEST", "3/8");
    cr_assert_str_eq(gasnett_getenv("TOOLS_TEST"), "3/8");
    cr_assert_str_eq(gasnett_getenv_withdefault("TOOLS_TEST", "none"), "3/8");
    cr_assert_float_eq(gasnett_getenv_dbl_withdefault("TOOLS_TEST", 0), 0.375, 1e-12);
    gasnett_setenv("TOOLS_TEST", "-1e4");
    cr_assert_float_eq(gasnett_getenv_dbl_withdefault("TOOLS_TEST", 0), -10000, 1e-12);
    gasnett_setenv("TOOLS_TEST", "2 MB");
    cr_assert_eq(gasnett_getenv_int_withdefault("TOOLS_TEST", 5, 1024), 2 << 20);
    gasnett_setenv("TOOLS_TEST", "-12");
    cr_assert_eq(gasnett_getenv_int_withdefault("TOOLS_TEST", 5, 0), -12);
    gasnett_unsetenv("TOOLS_TEST");
    cr_assert_null(gasnett_getenv("TOOLS_TEST"));
    cr_assert_eq(gasnett_getenv_int_withdefault("TOOLS_TEST", 5, 1024), 5, "a default is in bytes");
    cr_assert_float_eq(gasnett_getenv_dbl_withdefault("TOOLS_TEST", 1.5), 1.5, 0);
}

Test(tools_env, yes_and_no)
{
    static const char *const yes[] = { "Y", "YES", "y", "yes", "1" };
    static const char *const no[] = { "N", "n", "NO", "no", "0" };

    cr_assert_eq(gasnett_getenv_yesno_withdefault("TOOLS_TEST", 1), 1);
    cr_assert_eq(gasnett_getenv_yesno_withdefault("TOOLS_TEST", 0), 0);

    for (size_t i = 0; i < 5; i++) {
        gasnett_setenv("TOOLS_TEST", yes[i]);
        cr_assert_eq(gasnett_getenv_yesno_withdefault("TOOLS_TEST", 0), 1, "%s", yes[i]);
        gasnett_setenv("TOOLS_TEST", no[i]);
        cr_assert_eq(gasnett_getenv_yesno_withdefault("TOOLS_TEST", 1), 0, "%s", no[i]);
    }
}

static void ask_yesno(void)
{
    gasnett_setenv("TOOLS_TEST", "perhaps");
    gasnett_getenv_yesno_withdefault("TOOLS_TEST", 1);
}

static void ask_int(void)
{
    gasnett_setenv("TOOLS_TEST", "5 apples");
    gasnett_getenv_int_withdefault("TOOLS_TEST", 1, 1);
}

static void ask_dbl(void)
{
    gasnett_setenv("TOOLS_TEST", "1/0");
    gasnett_getenv_dbl_withdefault("TOOLS_TEST", 1);
}

Test(tools_env, a_bad_value_is_fatal_and_named)
{
    char text[512];

    cr_assert(WIFSIGNALED(in_child(ask_yesno, text, sizeof text)));
    cr_assert(strstr(text, "TOOLS_TEST=\"perhaps\" is not allowed; it takes yes or no"));
    cr_assert(WIFSIGNALED(in_child(ask_int, text, sizeof text)));
    cr_assert(strstr(text, "TOOLS_TEST=\"5 apples\" is not allowed; it takes a size"));
    cr_assert(WIFSIGNALED(in_child(ask_dbl, text, sizeof text)));
    cr_assert(strstr(text, "TOOLS_TEST=\"1/0\" is not allowed"));
}

static void ask_verbosely(void)
{
    gasnett_setenv("GASNET_VERBOSEENV", "1");
    gasnett_setenv("TOOLS_SIZE", "2048");
    if (!gasnett_verboseenv())
        _exit(1);

    for (int i = 0; i < 2; i++) {
        gasnett_getenv_int_withdefault("TOOLS_SIZE", 1, 1);
        gasnett_getenv_withdefault("TOOLS_NAME", "Fred");
        gasnett_getenv_yesno_withdefault("TOOLS_YES", 1);
    }

    gasnett_envint_display("TOOLS_INT", 77, 0, 0);
    gasnett_envstr_display("TOOLS_STR", "", 0);
    gasnett_envdbl_display("TOOLS_DBL", 0.5, 1);
    (void)gasnett_getenv("TOOLS_QUIET");
}

Test(tools_env, verbose_queries_are_reported_once)
{
    char text[2048];

    cr_assert_eq(in_child(ask_verbosely, text, sizeof text), 0);
    cr_assert_str_eq(text, "ENV parameter: TOOLS_SIZE = 2 KB\n"
                           "ENV parameter: TOOLS_NAME = Fred                      (default)\n"
                           "ENV parameter: TOOLS_YES = YES                       (default)\n"
                           "ENV parameter: TOOLS_INT = 77\n"
                           "ENV parameter: TOOLS_STR = *empty*\n"
                           "ENV parameter: TOOLS_DBL = 0.5                       (default)\n");
}

static void ask_quietly(void)
{
    gasnett_envint_display("TOOLS_INT", 77, 0, 0);
    gasnett_getenv_withdefault("TOOLS_NAME", "Fred");
    _exit(gasnett_verboseenv());
}

Test(tools_env, quiet_by_default)
{
    char text[64];

    cr_assert_eq(in_child(ask_quietly, text, sizeof text), 0);
    cr_assert_str_eq(text, "");
}
