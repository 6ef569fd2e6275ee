/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of nbmrw, the list of its measurements, and the job that takes them.
 *
 * Each repetition measures all ways of one call size in turn, so that a slow phase of the machine
 * affects all of them.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#define _GNU_SOURCE 1
#include "tools/nbmrw/nbmrw.h"
#include "tools/nbmrw/state.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/program/stdout_check.h"
#include "iofwd.h"

#define SINGLE_CALL UINT64_C(1024)

static const char usage[] =
    "usage: nbmrw [options]     file throughput through the I/O servers, beside direct calls\n"
    "  -d, --dir DIR            where the files are kept (default: /dev/shm)\n"
    "  -f, --file-sizes A:B     sizes of the file, from A on (default 64M:64M)\n"
    "  -c, --call-sizes A:B     sizes of the calls, up to 64M (default 8:16M); 1K is among them\n"
    "  -s, --step N             sizes grow by this factor (default: files 2, calls 8)\n"
    "  -r, --repeats N          samples of each measurement (default 10; of a figure 21)\n"
    "  -p, --pause SECONDS      between repeats (default 0)\n"
    "  -S, --servers N          I/O servers (default 8)\n"
    "  -w, --widths A,B,...     how many servers share a file's data, for calls of 1 MiB and more "
    "(default 1,2,4,8)\n"
    "  -C, --conduit NAME       smp, tcp, ... (default auto)\n"
    "  -o, --order seq|random|both (default both)\n"
    "  -m, --measure data|metadata|all (default all)\n"
    "  -j, --json[=FILE]        one object a line (default: standard output, in place of the "
    "table)\n"
    "  -g, --svg FILE           box plots\n"
    "  -q, --quick              few sizes, 3 repeats: a look\n"
    "  -F, --figures[=TEXT]     only what is to be reached (rows with TEXT), each beside its "
    "limit; exit status 3 where one is missed\n";

/* clang-format off */
static const struct option longs[] = {
    { "dir", required_argument, NULL, 'd' },     { "file-sizes", required_argument, NULL, 'f' },
    { "call-sizes", required_argument, NULL, 'c' }, { "step", required_argument, NULL, 's' },
    { "repeats", required_argument, NULL, 'r' }, { "pause", required_argument, NULL, 'p' },
    { "servers", required_argument, NULL, 'S' }, { "widths", required_argument, NULL, 'w' },
    { "conduit", required_argument, NULL, 'C' }, { "order", required_argument, NULL, 'o' },
    { "measure", required_argument, NULL, 'm' }, { "json", optional_argument, NULL, 'j' },
    { "svg", required_argument, NULL, 'g' },     { "quick", no_argument, NULL, 'q' },
    { "figures", optional_argument, NULL, 'F' }, { "job", required_argument, NULL, 'J' },
    { "inside", no_argument, NULL, 'I' },        { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};
/* clang-format on */

static void bad(const char *option, const char *value)
{
    fprintf(stderr, "nbmrw: %s: \"%s\" is not understood; see nbmrw --help\n", option, value);
    exit(2);
}

static void take_range(const char *option, const char *text, uint64_t *from, uint64_t *to)
{
    char copy[64];

    snprintf(copy, sizeof copy, "%s", text);

    char *colon = strchr(copy, ':');

    if (colon)
        *colon = 0;

    if (!amph_parse_size(copy, from) || !amph_parse_size(colon ? colon + 1 : copy, to) ||
        *from < 1 || *to < *from)
        bad(option, text);
}

static unsigned take_count(const char *option, const char *text, unsigned least, unsigned most)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (end == text || *end || n < least || n > most)
        bad(option, text);

    return (unsigned)n;
}

static void take_widths(struct options *o, const char *text)
{
    char copy[64];
    char *save = NULL;

    snprintf(copy, sizeof copy, "%s", text);
    o->nwidths = 0;

    o->widths_given = true;

    for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        if (o->nwidths == NBMRW_WIDTHS_MAX)
            bad("--widths", text);

        o->widths[o->nwidths++] = take_count("--widths", w, 1, 8);
    }

    if (!o->nwidths)
        bad("--widths", text);
}

/* Refuses a width that would be left out without a message. */
static void check_widths(const struct options *o)
{
    for (unsigned w = 0; o->widths_given && w < o->nwidths; w++)
        if (o->widths[w] > o->servers) {
            fprintf(stderr,
                    "nbmrw: a file cannot be shared by %u servers (--widths) where there are %u; "
                    "start more by --servers\n",
                    o->widths[w], o->servers);
            exit(2);
        }
}

static double take_seconds(const char *option, const char *text)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || *end || !(seconds >= 0 && seconds <= 3600))
        bad(option, text);

    return seconds;
}

/* Parses one of two words, or the word for both. */
static void take_words(const char *option, const char *text, const char *const word[3],
                       bool *first_p, bool *second_p)
{
    *first_p = strcmp(text, word[0]) == 0 || strcmp(text, word[2]) == 0;
    *second_p = strcmp(text, word[1]) == 0 || strcmp(text, word[2]) == 0;
    if (!*first_p && !*second_p)
        bad(option, text);
}

static void take_option(struct options *o, int c, const char *arg)
{
    static const char *const orders[] = { "seq", "random", "both" };
    static const char *const kinds[] = { "data", "metadata", "all" };

    switch (c) {
    case 'd':
        o->dir = arg;
        break;
    case 'f':
        take_range("--file-sizes", arg, &o->file_from, &o->file_to);
        break;
    case 'c':
        take_range("--call-sizes", arg, &o->call_from, &o->call_to);
        if (o->call_to > NBMRW_CALL_MAX)
            bad("--call-sizes", arg);
        break;
    case 's':
        o->step = take_count("--step", arg, 2, 1024);
        break;
    case 'r':
        o->repeats = take_count("--repeats", arg, 1, NBMRW_REPEATS_MAX);
        break;
    case 'p':
        o->pause = take_seconds("--pause", arg);
        break;
    case 'S':
        o->servers = take_count("--servers", arg, 1, 64);
        break;
    case 'w':
        take_widths(o, arg);
        break;
    case 'C':
        o->conduit = arg;
        break;
    case 'o':
        take_words("--order", arg, orders, &o->sequential, &o->random_order);
        break;
    case 'm':
        take_words("--measure", arg, kinds, &o->data, &o->metadata);
        break;
    case 'j':
        o->json = arg ? arg : "-";
        break;
    case 'g':
        o->svg = arg;
        break;
    case 'F':
        o->figures = true;
        o->match = arg;
        break;
    case 'q':
        o->quick = true;
        o->repeats = 3;
        o->file_from = o->file_to = 8 << 20;
        break;
    }
}

/* ---- the measurements ---- */

#define STRIPED_CALL (1 << 20) /* the smallest call that is measured with several widths */

struct plan {
    struct series *s;
    size_t n, room;
};

static void add(struct plan *p, struct series s)
{
    if (p->n == p->room) {
        p->room = p->room ? 2 * p->room : 64;
        p->s = realloc(p->s, p->room * sizeof *p->s);
        if (!p->s)
            exit(1);
    }

    p->s[p->n++] = s;
}

static uint64_t next_size(uint64_t size, uint64_t to, uint64_t step)
{
    uint64_t next = size * step;
    return size < to && next > to ? to : next;
}

static void plan_call_size(struct plan *p, const struct options *o, uint64_t file, uint64_t call)
{
    for (int what = 0; what < NDATA; what++)
        for (int random = !o->sequential; random <= (o->random_order ? 1 : 0); random++) {
            struct series s = { .what = (enum what)what,
                                .width = 1,
                                .random_order = random,
                                .file_bytes = file,
                                .call_bytes = call };

            add(p, s);
            s.way = COLLECTED;
            if (call <= 64 << 10 && !random)
                add(p, s);

            s.way = FORWARDED;
            if (call < STRIPED_CALL)
                add(p, s); /* the widths are for larger calls */

            for (unsigned w = 0; w < o->nwidths && call >= STRIPED_CALL; w++) {
                s.width = o->widths[w];
                if (s.width <= o->servers)
                    add(p, s);
            }
        }
}

/* The size of calls after this one.  SINGLE_CALL is among them, whatever the steps: the
 * effect of coalescing is measured with it. */
static uint64_t next_call_size(const struct options *o, uint64_t size)
{
    uint64_t step = o->step;
    uint64_t next = o->call_from;

    if (!step)
        step = o->quick ? 128 : 8;

    while (next <= size)
        next = next_size(next, o->call_to, step);

    return size < SINGLE_CALL && next > SINGLE_CALL && o->call_to > SINGLE_CALL ? SINGLE_CALL
                                                                                : next;
}

static void make_plan(struct plan *p, const struct options *o)
{
    for (uint64_t file = o->file_from; o->data && file <= o->file_to;
         file = next_size(file, o->file_to, o->step ? o->step : 2))
        for (uint64_t call = o->call_from; call <= o->call_to && call <= file;
             call = next_call_size(o, call))
            plan_call_size(p, o, file, call);

    for (int what = NDATA; o->metadata && what < NWHAT; what++) {
        add(p, (struct series){ .what = (enum what)what, .width = 1 });
        add(p, (struct series){ .what = (enum what)what, .way = FORWARDED, .width = 1 });
    }
}

/* Do both belong to one group, which is sampled in turn? */
static bool together(const struct series *a, const struct series *b)
{
    return a->what == b->what && a->random_order == b->random_order &&
           a->file_bytes == b->file_bytes && a->call_bytes == b->call_bytes;
}

void nbmrw_pause(double seconds)
{
    struct timespec t = { (time_t)seconds, (long)((seconds - floor(seconds)) * 1e9) };
    while (seconds > 0 && nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

static bool sample_group(const struct options *o, struct series *s, size_t n)
{
    for (unsigned r = 0; r < o->repeats; r++) {
        if (r)
            nbmrw_pause(o->pause);

        for (size_t i = 0; i < n; i++)
            if (!nbmrw_sample(o, &s[i], &s[i].value[s[i].n++]))
                return false;
    }

    return true;
}

/* Opens the file for -json, "-" for the standard output.  Returns NULL with errno if that fails. */
static FILE *open_json(const char *name)
{
    return strcmp(name, "-") == 0 ? stdout : fopen(name, "w");
}

static int measure_all(const struct options *o)
{
    struct plan p = { 0 };
    FILE *json = o->json ? open_json(o->json) : NULL;

    if (o->json && !json) {
        fprintf(stderr, "nbmrw: %s cannot be written: %s\n", o->json, strerror(errno));
        return 1;
    }

    make_plan(&p, o);
    if (json != stdout)
        nbmrw_table_head(stdout);

    for (size_t i = 0, n; i < p.n; i += n) {
        for (n = 1; i + n < p.n && together(&p.s[i], &p.s[i + n]); n++)
            ;

        if (!sample_group(o, &p.s[i], n))
            return 1;

        for (size_t k = i; k < i + n; k++) {
            const struct series *direct = p.s[i].way == DIRECT && k > i ? &p.s[i] : NULL;

            if (json != stdout)
                nbmrw_table_row(stdout, &p.s[k], direct);

            if (json)
                nbmrw_json_row(json, o, &p.s[k], direct);
        }
    }

    if (json && json != stdout && fclose(json) != 0)
        return 1;

    if (o->svg && !nbmrw_plot(o->svg, p.s, p.n)) {
        fprintf(stderr, "nbmrw: %s cannot be written: %s\n", o->svg, strerror(errno));
        return 1;
    }

    return 0;
}

/* ---- the job ---- */

/* amphora-run beside this program, or along PATH. */
static void find_launcher(char *path, size_t len)
{
    ssize_t n = readlink("/proc/self/exe", path, len - 1);

    path[n > 0 ? n : 0] = 0;

    char *slash = strrchr(path, '/');

    if (slash)
        snprintf(slash + 1, len - (size_t)(slash + 1 - path), "amphora-run");

    if (access(path, X_OK) == 0)
        return;

    if (slash && slash - path > 6 && strncmp(slash - 6, "/.libs", 6) == 0)
        snprintf(slash - 6 + 1, len - (size_t)(slash - 5 - path), "amphora-run");

    if (access(path, X_OK) != 0)
        snprintf(path, len, "amphora-run");
}

struct nbmrw_state nbmrw_state;

/* Forwards the signal: the launcher ends its job, and this process removes its files. */
static void pass_on(int sig)
{
    nbmrw_state.ended_by = sig;
    if (nbmrw_state.launcher > 0)
        kill((pid_t)nbmrw_state.launcher, sig);
}

/* job: of --figures, or NULL. */
static int start_job(const struct options *o, int argc, char **argv, const char *dir,
                     const struct nbmrw_job *job)
{
    char launcher[4096], self[4096], servers[16], prefix[4200], number[16];
    char **args = calloc((size_t)argc + 20, sizeof *args);
    int n = 0;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

    if (!args || len <= 0)
        return 1;

    self[len] = 0;
    find_launcher(launcher, sizeof launcher);
    snprintf(servers, sizeof servers, "%u", job ? job->servers : o->servers);
    if (job)
        setenv("AMPHORA_SMP", job->smp, 1);

    snprintf(prefix, sizeof prefix, "%s=%s", NBMRW_PREFIX, dir);

    const char *const first[] = { launcher,
                                  "-n",
                                  job ? job->procs : "1",
                                  "-servers",
                                  servers,
                                  "-conduit",
                                  job && job->conduit ? job->conduit : o->conduit,
                                  "-iofwd",
                                  prefix,
                                  self,
                                  "--inside" };

    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        args[n++] = (char *)first[i];

    for (int i = 1; i < argc; i++)
        args[n++] = argv[i];

    args[n++] = "--dir";
    args[n++] = (char *)dir;

    if (job) {
        snprintf(number, sizeof number, "%d", (int)(job - nbmrw_jobs));
        args[n++] = "--job";
        args[n++] = number;
    }

    pid_t pid = fork();

    if (pid == 0) {
        execvp(launcher, args);
        fprintf(stderr, "nbmrw: %s cannot be started: %s\n", launcher, strerror(errno));
        _exit(127);
    }

    int status = 0;

    nbmrw_state.launcher = pid;
    if (nbmrw_state.ended_by && pid > 0)
        kill(pid, nbmrw_state.ended_by);

    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;

    nbmrw_state.launcher = 0;
    free(args);

    if (pid < 0)
        return 1;

    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Removes the files of the measurements, also after an interrupt. */
static void clear(const char *dir)
{
    DIR *d = opendir(dir);

    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);

    if (d)
        closedir(d);

    rmdir(dir);
}

/* Runs all jobs of --figures.  Returns the first error, or 3 if a figure was missed. */
static int start_figures(const struct options *o, int argc, char **argv, const char *dir)
{
    int worst = 0;
    char missed[4200];

    if (!nbmrw_figures_some(o->match)) {
        fprintf(stderr, "nbmrw: no row of --figures has \"%s\"\n", o->match);
        return 2;
    }

    if (o->json && strcmp(o->json, "-") != 0)
        unlink(o->json); /* each job appends to it */

    if (!o->json || strcmp(o->json, "-") != 0)
        nbmrw_figures_head(stdout);

    fflush(stdout);
    for (unsigned i = 0; i < NBMRW_JOBS && worst == 0; i++)
        worst = start_job(o, argc, argv, dir, &nbmrw_jobs[i]);

    snprintf(missed, sizeof missed, "%s/" NBMRW_MISSED, dir);
    return unlink(missed) == 0 && worst == 0 ? 3 : worst;
}

int main(int argc, char **argv)
{
    struct options o = { .dir = "/dev/shm",
                         .file_from = 64 << 20,
                         .file_to = 64 << 20,
                         .call_from = 8,
                         .call_to = 16 << 20,
                         .servers = 8,
                         .widths = { 1, 2, 4, 8 },
                         .nwidths = 4,
                         .random_order = true,
                         .sequential = true,
                         .data = true,
                         .metadata = true,
                         .conduit = "auto" };
    bool inside = false;
    unsigned job = 0;

    amph_stdout_check();

    for (int c;
         (c = getopt_long(argc, argv, "d:f:c:s:r:p:S:w:C:o:m:j::g:F::qh", longs, NULL)) != -1;) {
        if (c == 'h')
            return fputs(usage, stdout) < 0;
        if (c == '?')
            return 2;

        inside |= c == 'I';
        if (c == 'J')
            job = take_count("--job", optarg, 0, NBMRW_JOBS - 1);

        take_option(&o, c, optarg);
    }

    if (!o.repeats)
        o.repeats = o.figures ? 21 : 10;

    if (optind < argc)
        bad("argument", argv[optind]);

    check_widths(&o);
    if (inside)
        return o.figures ? nbmrw_figures_inside(&o, job) : measure_all(&o);

    char dir[4096];

    snprintf(dir, sizeof dir, "%s/nbmrw.XXXXXX", o.dir);
    if (!mkdtemp(dir)) {
        fprintf(stderr, "nbmrw: no directory can be made in %s: %s\n", o.dir, strerror(errno));
        return 1;
    }

    struct sigaction act = { .sa_handler = pass_on };

    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);

    int code = o.figures ? start_figures(&o, argc, argv, dir)
                         : start_job(&o, argc, argv, dir, NULL);

    clear(dir);
    return nbmrw_state.ended_by ? 128 + nbmrw_state.ended_by : code;
}
