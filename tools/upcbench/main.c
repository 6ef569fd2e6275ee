/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * upc-bench: options, one job for each conduit, the table and JSON.  See upcbench.h and
 * upc-bench(1).
 *
 * Layer: tools.  Thread rule: one thread of each process.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/program/stdout_check.h"
#include "base/settings/env.h"
#include "conduits/conduit.h"
#include "tools/upcbench/upcbench.h"

struct bench_state bench_state;

static size_t size_of(const char *text, char **end)
{
    size_t n = strtoull(text, end, 10);

    if (n > BENCH_MAX_BYTES)
        n = BENCH_MAX_BYTES + 1; /* a multiple of it is too large, too */

    if (**end == 'K' || **end == 'k')
        n <<= 10, ++*end;
    else if (**end == 'M' || **end == 'm')
        n <<= 20, ++*end;

    return n;
}

static bool parse_sizes(struct bench_options *o, const char *text)
{
    char *end;

    o->from = o->to = size_of(text, &end);
    if (*end == ':')
        o->to = size_of(end + 1, &end);

    if (*end == 0 && o->from >= 1 && o->from <= o->to && o->to <= BENCH_MAX_BYTES)
        return true;

    fprintf(stderr, "upc-bench: -b %s is not FROM:TO with sizes from 1 to %uM\n", text,
            BENCH_MAX_BYTES >> 20);
    return false;
}

static bool parse_number(const char *option, const char *text, unsigned min, unsigned max,
                         unsigned *n_p)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (text[0] >= '0' && text[0] <= '9' && *end == 0 && n >= min && n <= max) {
        *n_p = (unsigned)n;
        return true;
    }

    fprintf(stderr, "upc-bench: -%s %s is not a number from %u to %u\n", option, text, min, max);
    return false;
}

/* What --check measures unless options say otherwise, and how often. */
static void set_defaults(struct bench_options *o)
{
    if (o->check && !o->tests) {
        o->tests = "put,get,read,write,barrier,file";
        o->from = o->to = 1u << 20;
    }

    if (!o->repeat)
        o->repeat = o->check ? 15 : 7;
}

/* What an option does: sets a member of struct bench_options, or prints and ends the program. */
enum kind {
    OPT_NUMBER,
    OPT_SIZES,
    OPT_TEXT,
    OPT_FLAG,
    OPT_HELP,
    OPT_VERSION
};

#define IN(member) offsetof(struct bench_options, member)

_Static_assert(BENCH_SAMPLES == 31, "the help of -r says so");

/* clang-format off */
static const struct bench_option {
    const char *name;  /* a letter or a word */
    const char *value; /* what follows it, or NULL */
    enum kind kind;
    size_t at;         /* of the member */
    unsigned min, max; /* of a number */
    const char *help;  /* NULL: not listed */
} options[] = {
    { "n", "N", OPT_NUMBER, IN(threads), 1, 1024, "threads (default: 2)" },
    { "c", "LIST", OPT_TEXT, IN(conduits), 0, 0,
      "conduits (default: smp,tcp,udp); tcp and udp go between pretended hosts" },
    { "t", "LIST", OPT_TEXT, IN(tests), 0, 0, "tests (default: all); --list names them" },
    { "b", "FROM:TO", OPT_SIZES, 0, 0, 0, "sizes of copies in bytes (default: 8:64M; K and M are understood)" },
    { "r", "N", OPT_NUMBER, IN(repeat), 1, BENCH_SAMPLES,
      "samples of each figure (default: 7, with --check 15, at most 31)" },
    { "S", "N", OPT_NUMBER, IN(servers), 0, 64, "I/O servers of the file tests (default: 2; 0: without)" },
    { "d", "DIR", OPT_TEXT, IN(dir), 0, 0, "where the servers keep the file (default: a new directory in TMPDIR)" },
    { "json", NULL, OPT_FLAG, IN(json), 0, 0, "one JSON object a line" },
    { "svg", "FILE", OPT_TEXT, IN(svg), 0, 0, "bandwidth by size as a picture" },
    { "check", NULL, OPT_FLAG, IN(check), 0, 0, "only the figures that have a target; exit 1 where one is missed" },
    { "list", NULL, OPT_FLAG, IN(list), 0, 0, NULL },
    { "help", NULL, OPT_HELP, 0, 0, 0, NULL },
    { "h", NULL, OPT_HELP, 0, 0, 0, NULL },
    { "version", NULL, OPT_VERSION, 0, 0, 0, "the version" },
};
/* clang-format on */

enum {
    OPTIONS = sizeof options / sizeof *options,
    FIRST_WORD = 256 /* getopt's number of an option that is a word: this and its row */
};

__attribute__((noreturn)) static void print_version(void)
{
    printf("upc-bench (%s) %s\n", PACKAGE_NAME, PACKAGE_VERSION);
    exit(0);
}

static bool is_word(const struct bench_option *x)
{
    return x->name[1] != 0;
}

__attribute__((noreturn)) static void print_help(void)
{
    char given[32];

    puts("upc-bench: copies, single accesses, locks, barriers and file output of UPC programs, on "
         "each conduit");

    for (unsigned i = 0; i < OPTIONS; i++) {
        const struct bench_option *x = &options[i];

        snprintf(given, sizeof given, "%s%s%s%s", is_word(x) ? "--" : "-", x->name,
                 x->value ? " " : "", x->value ? x->value : "");
        if (x->help)
            printf("  %-15s %s\n", given, x->help);
    }

    exit(0);
}

/* The options in getopt's form.  letters: room for two characters an option and the end. */
static void describe_options(char *letters, struct option *words)
{
    for (unsigned i = 0; i < OPTIONS; i++) {
        const struct bench_option *x = &options[i];

        if (is_word(x)) {
            *words++ = (struct option){ x->name, x->value ? required_argument : no_argument, NULL,
                                        (int)(FIRST_WORD + i) };
            continue;
        }

        *letters++ = x->name[0];
        if (x->value)
            *letters++ = ':';
    }

    *letters = 0;
    *words = (struct option){ .name = NULL };
}

/* The option of a number that getopt returned, or NULL: getopt has refused it, with a message. */
static const struct bench_option *find_option(int number)
{
    if (number >= FIRST_WORD)
        return &options[number - FIRST_WORD];

    for (unsigned i = 0; i < OPTIONS; i++)
        if (!is_word(&options[i]) && options[i].name[0] == number)
            return &options[i];

    return NULL;
}

/* false, after a message: the value is refused. */
static bool take_option(struct bench_options *o, const struct bench_option *x, const char *value)
{
    void *member = (char *)o + x->at;

    switch (x->kind) {
    case OPT_NUMBER:
        return parse_number(x->name, value, x->min, x->max, member);
    case OPT_SIZES:
        return parse_sizes(o, value);

    case OPT_TEXT:
        *(const char **)member = value;
        return true;
    case OPT_FLAG:
        *(bool *)member = true;
        return true;

    case OPT_HELP:
        print_help();
    case OPT_VERSION:
        print_version();
    }

    return false;
}

static bool parse(struct bench_options *o, int argc, char **argv)
{
    char letters[2 * OPTIONS + 1];
    struct option words[OPTIONS + 1];
    bool has_sizes = false;

    describe_options(letters, words);
    for (int c; (c = getopt_long_only(argc, argv, letters, words, NULL)) != -1;) {
        const struct bench_option *x = find_option(c);

        if (!x || !take_option(o, x, optarg))
            return false;

        has_sizes |= x->kind == OPT_SIZES;
    }

    if (optind < argc) {
        fprintf(stderr, "upc-bench: %s is not an option; --help lists them\n", argv[optind]);
        return false;
    }

    if (o->check && !o->tests && has_sizes) {
        fputs("upc-bench: the targets of --check are those of 1 MiB; leave out -b, or name tests "
              "by -t\n",
              stderr);
        return false;
    }

    set_defaults(o);
    return true;
}

/* ---- a figure ---- */

static void print_row(const struct bench_options *o, const struct bench_row *r)
{
    const struct bench_target *t = bench_target_of(r);
    double seen = t && t->is_ratio ? r->ratio : r->value;
    bool met = !t || (t->at_least ? seen >= t->number : seen <= t->number);

    bench_state.missed += !met;
    if (o->json) {
        printf("{\"test\":\"upc_%s\",\"conduit\":\"%s\",\"procs\":%u,\"bytes\":%zu,\"value\":%.6g,"
               "\"unit\":\"%s\",",
               r->test, r->conduit, r->threads, r->bytes, r->value, r->unit);
        if (isnan(r->limit_value))
            printf("\"limit\":null,\"limit_value\":null,\"ratio\":null");
        else
            printf("\"limit\":\"%s\",\"limit_value\":%.6g,\"ratio\":%.4g", r->limit, r->limit_value,
                   r->ratio);

        if (t)
            printf(",\"target\":\"%s %g%s\",\"met\":%s", t->at_least ? ">=" : "<=", t->number,
                   t->is_ratio ? " x" : "", met ? "true" : "false");

        printf("}\n");
    } else {
        printf("%-11s %-4s %5u %9zu %12.5g %-5s", r->test, r->conduit, r->threads, r->bytes,
               r->value, r->unit);
        if (!isnan(r->limit_value))
            printf(" %-11s %12.5g %7.3f", r->limit, r->limit_value, r->ratio);

        if (t)
            printf("  %s %g%s %s", t->at_least ? ">=" : "<=", t->number, t->is_ratio ? " x" : "",
                   met ? "ok" : "MISS");

        printf("\n");
    }

    fflush(stdout);
}

static void take_line(const struct bench_options *o, const char *conduit, const char *line)
{
    struct bench_row r = { .threads = 0 };

    if (sscanf(line, "row %31s %zu %u %lf %7s %lf %lf %31[^\n]", r.test, &r.bytes, &r.threads,
               &r.value, r.unit, &r.limit_value, &r.ratio, r.limit) != 8) {
        fputs(line, stderr);
        return;
    }

    snprintf(r.conduit, sizeof r.conduit, "%s", conduit);

    struct bench_row *more = realloc(bench_state.row, (bench_state.nrows + 1) * sizeof *more);

    if (more) {
        bench_state.row = more;
        bench_state.row[bench_state.nrows++] = r;
    }

    print_row(o, &r);
}

/* ---- a job ---- */

/* amphora-run beside this program (or beside libtool's .libs), or along PATH; and this program. */
static void find_programs(char *launcher, char *self, size_t len)
{
    ssize_t n = readlink("/proc/self/exe", self, len - 1);

    self[n > 0 ? n : 0] = 0;

    char *slash = strrchr(self, '/');
    size_t dir = slash ? (size_t)(slash - self) : 0;

    if (dir >= 6 && strncmp(self + dir - 6, "/.libs", 6) == 0)
        dir -= 6;

    snprintf(launcher, len, "%.*s/amphora-run", (int)dir, self);
    if (!dir || access(launcher, X_OK) != 0)
        snprintf(launcher, len, "amphora-run");
}

static void exec_job(const struct bench_options *o, const char *conduit, const char *dir)
{
    char launcher[4096], self[4096], number[5][24], prefix[4200];
    const char *args[32];
    unsigned n = 0;

    find_programs(launcher, self, sizeof self);
    snprintf(number[0], 24, "%u", o->threads);
    snprintf(number[1], 24, "%u", o->servers);
    snprintf(number[2], 24, "%zu", o->from);
    snprintf(number[3], 24, "%zu", o->to);
    snprintf(number[4], 24, "%u", o->repeat);
    snprintf(prefix, sizeof prefix, "%s=%s", BENCH_PREFIX, dir);

    const char *const first[] = { launcher, "-n", number[0], "-conduit", conduit };
    const char *const served[] = { "-servers", number[1], "-iofwd", prefix };
    const char *const inside[] = { self,      "--inside", o->tests ? o->tests : "-", number[2],
                                   number[3], number[4],  o->servers ? "1" : "0" };

    for (unsigned i = 0; i < 5; i++)
        args[n++] = first[i];

    for (unsigned i = 0; o->servers && i < 4; i++)
        args[n++] = served[i];

    for (unsigned i = 0; i < 7; i++)
        args[n++] = inside[i];

    args[n] = NULL;
    if (!amph_conduit_is_one_host(conduit))
        setenv("AMPHORA_SMP", "0", 1);

    setenv("AMPHORA_UPC_HEAP", "288M", 0);
    execvp(launcher, (char *const *)(uintptr_t)args);
    fprintf(stderr, "upc-bench: %s cannot be started: %s\n", launcher, strerror(errno));
    _exit(127);
}

static bool run_job(const struct bench_options *o, const char *conduit, const char *dir)
{
    int ends[2], status;
    char line[512];

    if (pipe(ends) != 0)
        return false;

    pid_t pid = fork();

    if (pid == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        exec_job(o, conduit, dir);
    }

    close(ends[1]);

    FILE *in = fdopen(ends[0], "r");

    while (in && fgets(line, sizeof line, in))
        take_line(o, conduit, line);

    if (in)
        fclose(in);

    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "upc-bench: the job on %s failed\n", conduit);
        return false;
    }

    return true;
}

static void list_tests(void)
{
    for (size_t i = 0; i < bench_test_count; i++)
        printf("%-11s %-5s %s\n", bench_tests[i].name, bench_tests[i].unit, bench_tests[i].what);
}

/* Is it a list with a name in it? */
static bool is_given(char option, const char *list)
{
    if (list[strspn(list, ",")])
        return true;

    fprintf(stderr, "upc-bench: -%c is given nothing; --help lists the options\n", option);
    return false;
}

static bool known_conduits(const char *list)
{
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
        size_t len = strcspn(at, ",");
        bool known = false;

        for (const char *word = AMPH_CONDUIT_NAMES; *word; word += *word == '|') {
            size_t word_len = strcspn(word, "|");

            known |= len == word_len && strncmp(word, at, len) == 0;
            word += word_len;
        }

        if (!known) {
            fprintf(stderr, "upc-bench: -c %s: \"%.*s\" is none of " AMPH_CONDUIT_NAMES "\n", list,
                    (int)len, at);
            return false;
        }
    }

    return is_given('c', list);
}

static bool known_tests(const char *list)
{
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
        bool known = false;

        for (size_t i = 0; i < bench_test_count; i++)
            known |= strlen(bench_tests[i].name) == strcspn(at, ",") &&
                     strncmp(bench_tests[i].name, at, strcspn(at, ",")) == 0;

        if (!known) {
            fprintf(stderr, "upc-bench: there is no test %.*s; --list names them\n",
                    (int)strcspn(at, ","), at);
            return false;
        }
    }

    return !list || is_given('t', list);
}

/* Runs the tests on each of the conduits.  Returns whether all jobs ended well. */
static bool run_jobs(const struct bench_options *o, const char *dir)
{
    char conduit[16];
    bool ok = true;

    for (const char *at = o->conduits; *at; at += strcspn(at, ","), at += *at == ',') {
        size_t len = strcspn(at, ",") < sizeof conduit ? strcspn(at, ",") : sizeof conduit - 1;

        memcpy(conduit, at, len);
        conduit[len] = 0;
        ok &= run_job(o, conduit, dir);
    }

    return ok;
}

/* Runs the jobs, whose servers export a folder: the one of -d, or one that is removed afterwards.  false
 * after a message. */
static bool run_in_folder(const struct bench_options *o)
{
    const char *tmp = amph_env_foreign("TMPDIR");
    char dir[4096], file[4200];
    bool own = false;

    if (o->dir)
        snprintf(dir, sizeof dir, "%s", o->dir);
    else
        snprintf(dir, sizeof dir, "%s/upc-bench.XXXXXX", tmp && tmp[0] ? tmp : "/tmp");

    if (o->servers && !o->dir && !(own = mkdtemp(dir) != NULL)) {
        fprintf(stderr, "upc-bench: %s: %s\n", dir, strerror(errno));
        return false;
    }

    if (!o->json)
        printf("%-11s %-4s %5s %9s %12s %-5s %-11s %12s %7s  target\n", "test", "net", "procs",
               "bytes", "median", "unit", "beside", "its median", "ratio");

    bool ok = run_jobs(o, dir);

    snprintf(file, sizeof file, "%s/upc-bench.dat", dir);
    unlink(file);
    if (own)
        rmdir(dir);

    return ok;
}

int main(int argc, char **argv)
{
    struct bench_options o = {
        .conduits = "smp,tcp,udp", .threads = 2, .servers = 2, .from = 8, .to = BENCH_MAX_BYTES
    };

    amph_stdout_check();

    if (argc > 1 && strcmp(argv[1], "--inside") == 0)
        return bench_inside(argc, argv);

    if (!parse(&o, argc, argv) || !known_tests(o.tests) || !known_conduits(o.conduits))
        return 2; /* and has said why */

    if (o.list) {
        list_tests();
        return 0;
    }

    bool ok = run_in_folder(&o);

    if (o.svg && !bench_plot(o.svg, bench_state.row, bench_state.nrows)) {
        fprintf(stderr, "upc-bench: %s cannot be written: %s\n", o.svg, strerror(errno));
        ok = false;
    }

    free(bench_state.row);
    return !ok || (o.check && bench_state.missed);
}
