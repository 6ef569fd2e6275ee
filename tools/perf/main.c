/* SPDX-License-Identifier: BSD-3-Clause */
/* amphora-perf: options, --list, and one job for each conduit, kind of test and number of
 * processes.  Layer: tools. */
#include <errno.h>
#include <libgen.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/program/stdout_check.h"
#include "conduits/conduit.h"
#include "tools/perf/perf.h"
#include "tools/perf/state.h"

/* clang-format off */
static const char help[] =
    "usage: amphora-perf [-conduit C,...] [-n PROCS] [-test NAME,...] [-bytes LIST] [-repeat N]\n"
    "                    [-sample MS] [-deadline S] [-dir DIR] [-loaded N,...] [--json] [--list]\n"
    "\n"
    "Measures Amphora beside the machine's own limits, in one run, and prints medians and ratios.\n"
    "\n"
    "  -conduit C,...   of " AMPH_CONDUIT_NAMES " (networks: with shared memory off); default smp,tcp\n"
    "  -n PROCS         processes of a job (default: each test's own number; tests of two leave the others waiting,\n"
    "                   those of files have one in any case)\n"
    "  -test NAME,...   only these tests; --list names them\n"
    "  -bytes LIST      only these sizes, like 8,1K,4M (at most 4M)\n"
    "  -repeat N        samples of each test and of its limit, taken in turn (default 7)\n"
    "  -sample MS       milliseconds of a sample of a loop (default 20; of collectives twice as long)\n"
    "  -deadline S      seconds after which a sample ends the job and says where it stood (default 120)\n"
    "  -dir DIR         directory, on a memory file system, of the file tests (default /dev/shm)\n"
    "  -loaded N,...    instead of the tests: round trips of messages, barriers and forwarded reads\n"
    "                   beside N competing processes, with AMPHORA_WAIT=spin, block and adaptive in\n"
    "                   turn: median and 99th percentile of single calls\n"
    "  --json           one JSON object a line\n"
    "  --list           what each test measures\n"
    "  --version        the version\n";
/* clang-format on */

/* ---- options ---- */

struct option_row {
    const char *name;
    const char **text;
    unsigned *number;
    bool *flag;
    unsigned max; /* of number */
};

enum {
    MAX_DEADLINE_S = 600, /* the time-out of a job */
    MAX_SAMPLE_MS = 10000
};

static bool set_option(const struct option_row *row, const char *value)
{
    if (row->text) {
        *row->text = value;
        if (!value[0])
            fprintf(stderr, "amphora-perf: %s is given nothing; amphora-perf --help lists values\n",
                    row->name);

        return value[0];
    }

    if (row->number) {
        char *end;
        unsigned long n = strtoul(value, &end, 10);

        if (*end || n < 1 || n > row->max) {
            fprintf(stderr, "amphora-perf: %s %s: wanted is a number from 1 to %u\n", row->name,
                    value, row->max);
            return false;
        }

        *row->number = (unsigned)n;
    }

    return true;
}

static bool parse(struct perf_options *o, int argc, char **argv, bool *help_p, bool *version_p)
{
    /* clang-format off */
    const struct option_row rows[] = {
        { "-conduit", .text = &o->conduits }, { "-network", .text = &o->conduits }, { "-test", .text = &o->tests },
        { "-bytes", .text = &o->bytes },      { "-loaded", .text = &o->loaded },    { "-dir", .text = &o->dir },
        { "-inside", .text = &o->inside },
        { "-n", .number = &o->procs, .max = PERF_MAX_PROCS },
        { "-repeat", .number = &o->repeat, .max = PERF_MAX_SAMPLES },
        { "-deadline", .number = &o->deadline, .max = MAX_DEADLINE_S },
        { "-sample", .number = &o->sample_ms, .max = MAX_SAMPLE_MS },
        { "-json", .flag = &o->json },        { "-list", .flag = &o->list },
        { "-help", .flag = help_p },          { "-h", .flag = help_p },             { "-version", .flag = version_p },
    };

    /* clang-format on */
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i][0] == '-' && argv[i][1] == '-' ? argv[i] + 1 : argv[i];
        const struct option_row *row = NULL;

        for (size_t k = 0; k < AMPH_COUNTOF(rows); k++)
            if (strcmp(arg, rows[k].name) == 0)
                row = &rows[k];

        if (!row) {
            fprintf(stderr, "amphora-perf: there is no option %s; amphora-perf --help lists them\n",
                    argv[i]);
            return false;
        }

        if (row->flag) {
            *row->flag = true;
            continue;
        }

        if (++i == argc) {
            fprintf(stderr, "amphora-perf: %s needs a value\n", argv[i - 1]);
            return false;
        }

        if (!set_option(row, argv[i]))
            return false;
    }

    return true;
}

static bool check_tests(const char *list)
{
    for (const char *at = list; *at; at += *at == ',') {
        size_t len = strcspn(at, ",");

        if (!perf_find(at, len)) {
            fprintf(
                stderr,
                "amphora-perf: there is no test called \"%.*s\"; amphora-perf --list names them\n",
                (int)len, at);
            return false;
        }

        at += len;
    }

    return true;
}

/* A test of a pair cannot be run by one process. */
static bool check_procs(const struct perf_options *o)
{
    for (size_t i = 0; o->procs == 1 && i < perf_test_count; i++) {
        const struct perf_test *t = &perf_tests[i];

        if (t->kind != PERF_PAIR || !perf_selected(o, t))
            continue;

        fprintf(stderr,
                "amphora-perf: -n 1: %s needs two processes; with -test name others, for which "
                "one is enough\n",
                t->name);
        return false;
    }

    return true;
}

static bool check_bytes(const char *list)
{
    for (const char *at = list; *at; at += *at == ',') {
        char word[32];
        uint64_t bytes;
        size_t len = strcspn(at, ",");

        snprintf(word, sizeof word, "%.*s", (int)len, at);
        if (len >= sizeof word || !amph_parse_size(word, &bytes) || bytes < 1 ||
            bytes > PERF_MAX_BYTES) {
            fprintf(stderr, "amphora-perf: -bytes %s: \"%s\" is no size from 1 to 4M\n", list,
                    word);
            return false;
        }

        at += len;
    }

    return true;
}

static bool is_conduit(const char *name, size_t len)
{
    for (const char *word = AMPH_CONDUIT_NAMES; *word; word += *word == '|') {
        size_t word_len = strcspn(word, "|");

        if (word_len == len && strncmp(word, name, len) == 0)
            return true;

        word += word_len;
    }

    return false;
}

static bool check_conduits(const char *list)
{
    for (const char *at = list; *at; at += *at == ',') {
        size_t len = strcspn(at, ",");

        if (!is_conduit(at, len)) {
            fprintf(stderr,
                    "amphora-perf: -conduit %s: \"%.*s\" is none of " AMPH_CONDUIT_NAMES "\n", list,
                    (int)len, at);
            return false;
        }

        at += len;
    }

    return true;
}

static int print_list(void)
{
    static const char *const kinds[] = {
        [PERF_PAIR] = "two pinned processes",
        [PERF_JOB_ALL] = "all processes of the job",
        [PERF_SERVED] = "all processes of the job, with one I/O server",
        [PERF_FILE] = "one process and one I/O server"
    };

    for (size_t i = 0; i < perf_test_count; i++) {
        const struct perf_test *t = &perf_tests[i];

        printf("%-21s %s\n%-21s unit %s; %s", t->name, t->what, "", t->unit, kinds[t->kind]);
        if (t->limit_smp)
            printf("; on smp compared with %s", t->limit_smp);

        if (t->limit_net)
            printf("; on a network compared with %s", t->limit_net);

        for (unsigned s = 0; t->sizes[s] != PERF_END && t->sizes[s]; s++)
            printf("%s%u", s ? " " : "; bytes ", t->sizes[s]);

        printf("\n");
    }

    return 0;
}

/* ---- jobs ---- */

struct paths {
    char self[4096], run[4096];
};

static bool find_programs(struct paths *p)
{
    char folder[4096];
    ssize_t len = readlink("/proc/self/exe", p->self, sizeof p->self - 1);

    if (len < 0) {
        fprintf(stderr, "amphora-perf: cannot find out where it is itself: %s\n", strerror(errno));
        return false;
    }

    p->self[len] = '\0';
    strcpy(folder, p->self);

    char *dir = dirname(folder);
    size_t n = strlen(dir);

    /* Built but not installed: libtool keeps the program in .libs and a script that finds the
     * libraries above it. */
    bool libtool = n >= 6 && strcmp(dir + n - 6, "/.libs") == 0;

    if (snprintf(p->run, sizeof p->run, "%s%s/amphora-run", dir, libtool ? "/.." : "") >=
            (int)sizeof p->run ||
        access(p->run, X_OK) != 0) {
        fprintf(stderr, "amphora-perf: %s, which starts jobs, cannot be run: %s\n", p->run,
                strerror(errno));
        return false;
    }

    return true;
}

struct job {
    const char *conduit;
    enum perf_kind kind;
    unsigned procs;
    char tests[2048]; /* names, with commas between */
    const char *wait; /* AMPHORA_WAIT of a job of -loaded, or NULL */
};

struct command {
    const char *word[40];
    size_t n;
};

static void add_words(struct command *c, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c->word[c->n++] = words[i];
}

static bool is_bound(const struct job *job)
{
    return job->kind == PERF_FILE && !job->wait;
}

/* Gives a client and its server real-time priority, each on a core of its own; without it if the system refuses.  A
 * server has several threads: at this priority, one that spins would keep the others from the core. */
static void raise_priority(const struct job *job)
{
    struct sched_param param = { .sched_priority = 10 };
    bool spins = strcmp(amph_env_str(AMPH_ENV_WAIT), "spin") == 0;

    if (is_bound(job) && !spins && sysconf(_SC_NPROCESSORS_ONLN) > 1)
        sched_setscheduler(0, SCHED_FIFO, &param);
}

static void exec_job(const struct perf_options *opt, const struct paths *p, const struct job *job,
                     const char *inside)
{
    char n[16], prefix[4200], repeat[16], deadline[16], sample[16];
    struct command c = { .n = 0 };

    snprintf(n, sizeof n, "%u", job->procs);
    snprintf(repeat, sizeof repeat, "%u", opt->repeat);
    snprintf(deadline, sizeof deadline, "%u", opt->deadline);
    snprintf(sample, sizeof sample, "%u", opt->sample_ms);
    snprintf(prefix, sizeof prefix, "%s=%s", PERF_PREFIX, opt->dir);

    const char *head[] = { p->run, "-n", n, "-conduit", job->conduit, "-timeout", "600" };
    const char *server[] = { "-servers", "1", "-iofwd", prefix };
    const char *bound[] = { "-bind", "core" };
    const char *tail[] = { p->self,  "-inside",   inside,    "-conduit", job->conduit,
                           "-test",  job->tests,  "-repeat", repeat,     "-dir",
                           opt->dir, "-deadline", deadline,  "-sample",  sample };

    add_words(&c, head, AMPH_COUNTOF(head));
    if (job->kind >= PERF_SERVED)
        add_words(&c, server, AMPH_COUNTOF(server));
    if (is_bound(job))
        add_words(&c, bound, AMPH_COUNTOF(bound));

    add_words(&c, tail, AMPH_COUNTOF(tail));
    if (opt->bytes)
        add_words(&c, (const char *[]){ "-bytes", opt->bytes }, 2);
    if (opt->json)
        add_words(&c, (const char *[]){ "-json" }, 1);

    if (job->wait) {
        add_words(&c, (const char *[]){ "-loaded", opt->loaded }, 2);
        setenv("AMPHORA_WAIT", job->wait, 1);
    }

    raise_priority(job);
    setenv("AMPHORA_SMP", amph_conduit_is_one_host(job->conduit) ? "1" : "0", 1);
    execv(p->run, (char *const *)c.word);
    fprintf(stderr, "amphora-perf: cannot run %s: %s\n", p->run, strerror(errno));
    _exit(127);
}

/* A job does not outlive the tool: its processes may spin at real-time priority. */
static void end_with_parent(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
}

static bool run_job(const struct perf_options *opt, const struct paths *p, const struct job *job,
                    const char *inside)
{
    const pid_t self = getpid();
    int status;

    if (perf_state.ended_by)
        return false;

    fflush(stdout);

    pid_t pid = fork();

    if (pid == 0) {
        end_with_parent(self);
        exec_job(opt, p, job, inside);
    }

    perf_state.launcher = pid > 0 ? pid : 0;
    if (perf_state.ended_by && pid > 0)
        kill(pid, perf_state.ended_by);

    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            pid = -1;

    perf_state.launcher = 0;
    if (pid < 0) {
        fprintf(stderr, "amphora-perf: cannot start a job: %s\n", strerror(errno));
        return false;
    }

    if (status != 0)
        perf_state.failed_jobs++;

    if (status != 0 && !perf_state.ended_by)
        fprintf(stderr, "amphora-perf: the job of %s on %s with %u processes ended with %s %d\n",
                job->tests, job->conduit, job->procs, WIFSIGNALED(status) ? "signal" : "exit code",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));

    return status == 0;
}

/* The tests of one kind that run in a job of `procs`.  Limits of the machine do not depend on the
 * conduit: once is enough. */
static bool fill_job(const struct perf_options *opt, struct job *job, bool first_conduit)
{
    job->tests[0] = '\0';
    for (size_t i = 0; i < perf_test_count; i++) {
        const struct perf_test *t = &perf_tests[i];
        unsigned procs[3];
        unsigned n = perf_procs(opt, t, procs);
        bool here = false;

        for (unsigned k = 0; k < n; k++)
            here |= procs[k] == job->procs;

        if (here && t->kind == job->kind && perf_selected(opt, t) &&
            (first_conduit || !t->machine)) {
            strcat(job->tests, job->tests[0] ? "," : "");
            strcat(job->tests, t->name);
        }
    }

    return job->tests[0] != '\0';
}

static bool run_conduit(const struct perf_options *opt, const struct paths *p, const char *conduit,
                        bool first, const char *inside)
{
    bool ok = true;

    for (int kind = PERF_PAIR; kind <= PERF_FILE; kind++) {
        bool done[PERF_MAX_PROCS + 1] = { false };

        for (size_t i = 0; i < perf_test_count; i++) {
            unsigned procs[3];
            unsigned n = perf_procs(opt, &perf_tests[i], procs);

            for (unsigned k = 0; perf_tests[i].kind == (enum perf_kind)kind && k < n; k++) {
                struct job job = { .conduit = conduit,
                                   .kind = (enum perf_kind)kind,
                                   .procs = procs[k] };

                if (!done[procs[k]] && fill_job(opt, &job, first))
                    ok &= run_job(opt, p, &job, inside);

                done[procs[k]] = true;
            }
        }
    }

    return ok;
}

/* ---- -loaded ---- */

struct loaded_jobs {
    struct perf_loaded loaded;
    const struct paths *paths;
    const char *inside;
};

static bool run_loaded_job(struct perf_loaded *l, const char *conduit, unsigned procs,
                           const char *wait)
{
    const struct loaded_jobs *jobs = AMPH_CONTAINER_OF(l, struct loaded_jobs, loaded);
    const struct job job = { .conduit = conduit,
                             .kind = procs == 1 ? PERF_FILE : PERF_PAIR,
                             .procs = procs,
                             .tests = "am_short_rtt",
                             .wait = wait };

    return run_job(l->opt, jobs->paths, &job, jobs->inside);
}

/* The file that is read. */
static bool make_data(const struct perf_options *opt)
{
    static const char zeros[4096];
    char path[4200];

    snprintf(path, sizeof path, "%s/data", opt->dir);

    FILE *out = fopen(path, "w");
    bool ok = out && fwrite(zeros, sizeof zeros, 1, out) == 1;

    if (out && fclose(out) != 0)
        ok = false;

    if (!ok)
        fprintf(stderr, "amphora-perf: cannot write %s: %s\n", path, strerror(errno));

    return ok;
}

/* ---- all of it ---- */

struct perf_state perf_state;

static void remove_work_dir(void)
{
    unlink(perf_state.work_file);
    rmdir(perf_state.work_dir);
}

/* Forwards the signal: the launcher ends its job, and after that this process removes its files. */
static void on_signal(int sig)
{
    perf_state.ended_by = sig;
    if (perf_state.launcher > 0)
        kill((pid_t)perf_state.launcher, sig);
}

static void end_by_signal(void)
{
    signal(perf_state.ended_by, SIG_DFL);
    raise(perf_state.ended_by);
}

static bool make_work_dir(struct perf_options *opt)
{
    if (snprintf(perf_state.work_dir, sizeof perf_state.work_dir, "%s/amphora-perf.XXXXXX",
                 opt->dir) >= (int)sizeof perf_state.work_dir ||
        !mkdtemp(perf_state.work_dir)) {
        fprintf(stderr, "amphora-perf: cannot make a directory in %s: %s; choose another by -dir\n",
                opt->dir, strerror(errno));
        return false;
    }

    snprintf(perf_state.work_file, sizeof perf_state.work_file, "%s/data", perf_state.work_dir);
    opt->dir = perf_state.work_dir;
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGHUP, on_signal);

    return true;
}

static void print_summary(const struct perf_shared *shared)
{
    printf("%u figures; %u targets met, %u missed; %u tests without a figure", shared->rows,
           shared->met, shared->missed, shared->failed);
    if (perf_state.failed_jobs)
        printf("; jobs that failed, so that figures are missing: %u", perf_state.failed_jobs);

    printf("\n");
}

static int run_all(struct perf_options *opt)
{
    struct paths paths;
    char inside[64], conduit[16];
    bool ok = true;
    int fd = memfd_create("amphora-perf", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, sizeof(struct perf_shared)) != 0) {
        fprintf(stderr, "amphora-perf: cannot make shared memory: %s\n", strerror(errno));
        return 1;
    }

    snprintf(inside, sizeof inside, "%ld:%d", (long)getpid(), fd);

    struct perf_shared *shared = perf_shared_open(inside);
    if (!shared || !find_programs(&paths) || !make_work_dir(opt))
        return 1;

    struct loaded_jobs jobs = { .loaded = { opt, shared, run_loaded_job },
                                .paths = &paths,
                                .inside = inside };

    if (opt->loaded && !make_data(opt)) {
        remove_work_dir();
        return 1;
    }

    if (opt->loaded)
        perf_loaded_head(opt);
    else
        perf_report_head(opt);

    for (const char *at = opt->conduits; *at; at += *at == ',') {
        size_t len = strcspn(at, ",");

        snprintf(conduit, sizeof conduit, "%.*s", (int)len, at);
        ok &= opt->loaded ? perf_loaded_conduit(&jobs.loaded, conduit)
                          : run_conduit(opt, &paths, conduit, at == opt->conduits, inside);
        at += len;
    }

    remove_work_dir();
    if (perf_state.ended_by)
        end_by_signal();

    if (!opt->json && !opt->loaded)
        print_summary(shared);

    return ok && shared->failed == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct perf_options opt = {
        .conduits = "smp,tcp", .repeat = 7, .deadline = 120, .sample_ms = 20, .dir = "/dev/shm"
    };
    bool want_help = false;
    bool want_version = false;

    amph_stdout_check();

    if (argc == 2 && strcmp(argv[1], "--first-call") == 0)
        return perf_first_call_child();
    if (!parse(&opt, argc, argv, &want_help, &want_version))
        return 2;

    if (want_help) {
        fputs(help, stdout);
        return 0;
    }

    if (want_version) {
        printf("amphora-perf (%s) %s\n", PACKAGE_NAME, PACKAGE_VERSION);
        return 0;
    }

    if (opt.list)
        return print_list();

    if (opt.loaded && !perf_loaded_list(opt.loaded))
        return 2;

    if ((opt.tests && !check_tests(opt.tests)) || (opt.bytes && !check_bytes(opt.bytes)) ||
        !check_conduits(opt.conduits) || (!opt.loaded && !check_procs(&opt)))
        return 2;

    if (!opt.inside)
        return run_all(&opt);

    return opt.loaded ? perf_loaded_inside(&opt) : perf_inside(&opt);
}
