/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-run: attaches a program to running I/O servers (iofwd-server -daemon, or a job of
 * amphora-run) and executes it.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/os/limits.h"
#include "base/log.h"
#include "base/program/leave_preload.h"
#include "base/program/stdout_check.h"
#include "boot/control.h"
#include "boot/standing.h"
#include "iofwd/instrument/check.h"
#include "launcher/attach/way.h"
#include "launcher/master/launch.h"
#include "launcher/common/message.h"
#include "launcher/common/record_dir.h"

extern char **environ;

enum {
    WRONG = 2
};

static const char usage[] =
    "usage: iofwd-run [options] [--] PROGRAM [ARGUMENT]...\n"
    "Runs PROGRAM, and what it starts, with the file calls under the servers' prefixes forwarded "
    "to them.\n"
    "  -servers FILE        address file of the servers; the default is AMPHORA_JOB, else "
    "iofwd-servers in XDG_RUNTIME_DIR or\n"
    "                       /tmp/iofwd-servers-UID, which are also iofwd-server's\n"
    "  -wait SECONDS        how long the servers may take to come up; the default is 0\n"
    "  -iofwd PREFIX[:...]  forward these paths only; the default is all that the servers export\n"
    "  -trace[=WHAT]        print each forwarded file call on standard error, or to the end of the "
    "file WHAT;\n"
    "                       WHAT may be all, or all,FILE: also the calls that stayed local\n"
    "  -preload, -mount, -trap\n"
    "                       the way into the program: the preload library, the prefixes mounted in "
    "a namespace, or\n"
    "                       its file calls reported to a supervisor (seccomp); the default is the "
    "first that suits it\n"
    "  -v                   print which way is taken, and why\n"
    "  -record DIR          record every file call below the folder DIR, for iofwd-trace; without "
    "servers, too\n"
    "  -trace DIR           the same, if the word DIR has a slash, and is a folder or ends in a "
    "slash\n"
    "  -check               print which of PROGRAM's calls would be forwarded and which way suits; "
    "run "
    "nothing\n"
    "  -help, -version\n";

struct given {
    const char *file, *prefixes;
    double wait_s;
    enum amph_way way;
    bool check, verbose;
    bool records, file_given;
    char **program;
};

static bool is_option(const char *word, const char *name)
{
    return word[0] == '-' && strcmp(word + 1 + (word[1] == '-'), name) == 0;
}

static bool take_wait(struct given *g, const char *value)
{
    char *end;

    g->wait_s = strtod(value, &end);
    if (end != value && *end == 0 && g->wait_s >= 0 && g->wait_s < 1e6)
        return true;

    amph_say("-wait %s: this is not a number of seconds", value);
    return false;
}

/* Makes a path absolute; the file need not exist.  Symbolic links are checked when it is opened. */
static bool make_absolute(const char *file, char path[PATH_MAX])
{
    char above[PATH_MAX], dir[PATH_MAX];
    const char *slash = strrchr(file, '/');
    const char *name = slash ? slash + 1 : file;
    int n = snprintf(above, sizeof above, "%.*s", slash ? (int)(slash + 1 - file) : 1,
                     slash ? file : ".");

    if (n >= (int)sizeof above || !realpath(above, dir))
        return false;

    return snprintf(path, PATH_MAX, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name) < PATH_MAX;
}

/* Is the word a folder rather than a program?  It is one if it has a slash, and is an existing
 * folder or ends in a slash. */
static bool is_folder(const char *word)
{
    size_t len = strlen(word);
    struct stat st;

    if (!strchr(word, '/'))
        return false;

    return word[len - 1] == '/' || (stat(word, &st) == 0 && S_ISDIR(st.st_mode));
}

/* -record DIR: creates the folder if it does not exist. */
static bool take_folder(struct given *g, const char *word)
{
    g->records = amph_record_dir("record", word);
    return g->records;
}

/* -trace, -trace=all, -trace=FILE, -trace=all,FILE.  Makes FILE absolute, because the program and
 * its children may change their directories.  Returns false if argv is another option, or after a
 * message with the exit code in *code_p. */
static bool take_trace(const char *word, int *code_p)
{
    static const char option[] = "-trace";
    static const char with_local[] = "all,";
    char value[PATH_MAX + sizeof with_local], path[PATH_MAX];

    word += word[1] == '-';
    if (strncmp(word, option, sizeof option - 1) != 0 ||
        (word[sizeof option - 1] && word[sizeof option - 1] != '='))
        return false;

    const char *what = word[sizeof option - 1] ? word + sizeof option : "1";
    bool local = strncmp(what, with_local, sizeof with_local - 1) == 0;
    const char *file = local ? what + sizeof with_local - 1 : what;
    bool is_file = local || (strcmp(what, "1") != 0 && strcmp(what, "all") != 0);

    if (!file[0] || (is_file && !make_absolute(file, path))) {
        amph_say(
            "-trace=%s: there is no such folder; -trace, -trace=all and -trace=FILE are possible",
            what);
        *code_p = WRONG;
        return true;
    }

    snprintf(value, sizeof value, "%s%s", local ? with_local : "", is_file ? path : what);
    setenv(amph_env_name(AMPH_ENV_IOFWD_TRACE), value, 1);
    return true;
}

/* The way that an option names. */
static enum amph_way way_of(const char *word)
{
    for (enum amph_way way = AMPH_WAY_PRELOAD; way <= AMPH_WAY_TRAP; way++)
        if (is_option(word, amph_way_name(way)))
            return way;

    return AMPH_WAY_ANY;
}

/* Parses the command line.  Returns an exit code, or -1 to continue. */
static int parse(struct given *g, char **argv)
{
    for (argv++; *argv && argv[0][0] == '-'; argv++) {
        if (strcmp(*argv, "--") == 0) {
            argv++;
            break;
        }

        if (is_option(*argv, "help") || is_option(*argv, "h")) {
            fputs(usage, stdout);
            return 0;
        }

        if (is_option(*argv, "version")) {
            printf("iofwd-run (%s) %s\n", PACKAGE_NAME, PACKAGE_VERSION);
            return 0;
        }

        if (is_option(*argv, "check")) {
            g->check = true;
            continue;
        }

        if (is_option(*argv, "v")) {
            g->verbose = true;
            continue;
        }

        enum amph_way way = way_of(*argv);

        if (way != AMPH_WAY_ANY && g->way != AMPH_WAY_ANY && way != g->way) {
            amph_say("-%s and -%s are two ways into the same program; give one of them",
                     amph_way_name(g->way), amph_way_name(way));
            return WRONG;
        }

        if (way != AMPH_WAY_ANY) {
            g->way = way;
            continue;
        }

        bool records = is_option(*argv, "record");
        const char *given = strncmp(*argv, "-trace=", 7) == 0 ? *argv + 7 : "";

        if (is_folder(given)) {
            if (!take_folder(g, given))
                return WRONG;

            continue;
        }

        if (argv[1] && (records || (is_option(*argv, "trace") && is_folder(argv[1])))) {
            if (!take_folder(g, *++argv))
                return WRONG;

            continue;
        }

        int code = -1;

        if (!records && take_trace(*argv, &code)) {
            if (code >= 0)
                return code;

            continue;
        }

        const char **text = NULL;

        if (is_option(*argv, "servers"))
            text = &g->file;
        else if (is_option(*argv, "iofwd"))
            text = &g->prefixes;

        if (!text && !records && !is_option(*argv, "wait")) {
            amph_say("%s is not an option of iofwd-run; -help lists them", *argv);
            return WRONG;
        }

        if (!argv[1] || !argv[1][0]) {
            amph_say("%s needs a value", *argv);
            return WRONG;
        }

        argv++;
        if (text)
            *text = *argv;
        else if (!take_wait(g, *argv))
            return WRONG;
    }

    g->program = argv;
    if (*argv)
        return -1;

    fputs(usage, stderr);
    return WRONG;
}

/* -check: answers from the program's file; needs no servers.  Returns the exit code. */
static int check_program(const char *name)
{
    char *library = amph_library_own(AMPH_PRELOAD_NAME);
    char *program;
    int code = amph_program_find(name, &program);

    if (code != 0)
        return code;

    code = amph_check_print(stdout, program, library ? library : "");
    free(library);
    free(program);
    return code;
}

static bool wait_for_file(const char *path, double seconds)
{
    uint64_t deadline = amph_now_ns() + (uint64_t)(seconds * 1e9);
    struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };

    while (access(path, R_OK) != 0) {
        if (amph_now_ns() >= deadline) {
            amph_say("there is no address file %s: %s; start iofwd-server -daemon, name its file "
                     "by -servers, or allow time by -wait",
                     path, strerror(errno));
            return false;
        }

        nanosleep(&pause, NULL);
    }

    return true;
}

/* Sets the environment of the program from the address file. */
static bool take_file(const struct given *g, const char *path)
{
    struct amph_standing set = { .n = 0 };
    const char *prefixes = g->prefixes;

    if (amph_boot_standing_is(path)) {
        if (amph_boot_standing_read(path, &set) != AMPH_OK)
            return false;

        if (!prefixes)
            prefixes = set.prefix;

        unsetenv(amph_env_name(AMPH_ENV_RANK)); /* it may be set by an outer job */
    } else {
        struct amph_jobfile job;

        if (amph_boot_jobfile_read(path, &job) != AMPH_OK)
            return false;

        /* the address file of a job has no prefixes */
        if (!prefixes)
            prefixes = amph_env_str(AMPH_ENV_IOFWD_PREFIX);

        if (!prefixes[0]) {
            amph_say(
                "%s is the address file of a job: give the forwarded directory with -iofwd PREFIX",
                path);
            return false;
        }
    }

    bool ok = setenv(amph_env_name(AMPH_ENV_JOB), path, 1) == 0 &&
              setenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX), prefixes, 1) == 0;

    amph_boot_standing_free(&set);
    return ok;
}

/* Is this a process of a job of another launcher, whose last processes are iofwd-server?  Then the
 * program connects to them when it starts. */
static bool joins(struct given *g)
{
    if (g->file || !amph_boot_among_servers())
        return false;

    if (g->prefixes)
        setenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX), g->prefixes, 1);

    amph_env_reload();
    setenv("IOFWD_PRIVATE_PLAIN", "1", 1);
    return true;
}

/* The program starts a server of its own (IOFWD_SERVER_HOST), so it is attached to no others. */
static bool has_own_server(const struct given *g)
{
    if (g->file || !amph_env_str(AMPH_ENV_IOFWD_SERVER_HOST)[0])
        return false;

    if (g->prefixes)
        setenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX), g->prefixes, 1);

    unsetenv(amph_env_name(AMPH_ENV_JOB));
    unsetenv(amph_env_name(AMPH_ENV_RANK));
    amph_env_reload();
    return true;
}

/* Nobody has named servers, and none are running: the calls of the program are recorded, and none
 * is forwarded. */
static bool records_alone(const struct given *g, bool has_servers)
{
    if (!g->records || has_servers || g->file_given || g->prefixes || access(g->file, F_OK) == 0)
        return false;

    unsetenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX));
    unsetenv(amph_env_name(AMPH_ENV_JOB));
    amph_info("there is no address file %s: calls are recorded, none is forwarded", g->file);
    return true;
}

/* Does the preload library forward in this process already, as under another iofwd-run?  Then it
 * checks the program itself. */
static bool is_preloaded(void)
{
    const char *list = amph_env_foreign("LD_PRELOAD");

    return list && strstr(list, AMPH_PRELOAD_NAME) && amph_env_str(AMPH_ENV_IOFWD_PREFIX)[0];
}

/* Why the program can be preloaded only, or NULL. */
static const char *only_preload(const struct given *g, bool has_standing)
{
    if (g->records)
        return "-record needs the preload library";
    if (!has_standing)
        return "mount and trap need servers that run already (iofwd-server -daemon)";

    return NULL;
}

/* Finds the way, or checks the one that was given.  Returns an exit code, or -1 to continue. */
static int choose_way(struct given *g, const char *program, const char *only, bool preloaded)
{
    const struct amph_way_question q = { program, only, preloaded, g->verbose };

    if ((g->way == AMPH_WAY_MOUNT || g->way == AMPH_WAY_TRAP) && only) {
        amph_say("-%s is not possible: %s", amph_way_name(g->way), only);
        return WRONG;
    }

    bool ok = true;

    if (g->way == AMPH_WAY_ANY)
        ok = amph_way_choose(&q, &g->way);
    else if (g->way == AMPH_WAY_PRELOAD)
        ok = amph_way_check_preload(&q);

    return ok ? -1 : AMPH_PROGRAM_NOT_EXECUTABLE;
}

/* Will the way be mount or trap?  Then iofwd-run's own calls must not be forwarded. */
static bool takes_other_way(const struct given *g, const char *program, bool has_standing)
{
    struct amph_image image;

    if (g->way != AMPH_WAY_ANY || only_preload(g, has_standing))
        return g->way == AMPH_WAY_MOUNT || g->way == AMPH_WAY_TRAP;

    amph_program_look(program, &image);
    return amph_image_evades(&image);
}

int main(int argc, char **argv)
{
    struct given g = { 0 };
    char path[PATH_MAX], *program;
    bool preloaded = is_preloaded();
    int code = parse(&g, argv);

    amph_stdout_check();

    if (code >= 0)
        return code;
    if (g.check)
        return check_program(g.program[0]);

    if (!amph_limit_stack_suffices("iofwd-run", AMPH_STACK_MIN_BYTES))
        return 1;

    bool join = joins(&g);

    if (join && !amph_env_str(AMPH_ENV_IOFWD_PREFIX)[0]) {
        amph_say("AMPHORA_SERVERS says that this job has I/O servers, but not what is forwarded to "
                 "them: set IOFWD_PREFIX for all");
        return WRONG;
    }

    bool own = !join && has_own_server(&g);

    if (own && !amph_env_str(AMPH_ENV_IOFWD_PREFIX)[0]) {
        amph_say(
            "IOFWD_SERVER_HOST says where the I/O server is started, but not what is forwarded "
            "to it: give -iofwd PREFIX=DIRECTORY, or set IOFWD_PREFIX");
        return WRONG;
    }

    g.file_given = g.file || amph_env_str(AMPH_ENV_JOB)[0];
    if (!g.file)
        g.file = amph_boot_standing_default();

    if ((code = amph_program_find(g.program[0], &program)) != 0)
        return code;
    if (preloaded && takes_other_way(&g, program, !join && !own))
        amph_leave_preload(argv);
    if (records_alone(&g, join || own))
        join = true;
    if (!join && !own &&
        (!wait_for_file(g.file, g.wait_s) || !make_absolute(g.file, path) || !take_file(&g, path)))
        return 1;

    if ((code = choose_way(&g, program, only_preload(&g, !join && !own), preloaded)) >= 0)
        return code;
    if (g.way == AMPH_WAY_TRAP)
        return amph_way_execute_trapped(program, g.program);
    if (g.way == AMPH_WAY_MOUNT ? !amph_way_set_mount(path) : !amph_way_set_preload())
        return 1;

    unsetenv("IOFWD_DOOR");
    execve(program, g.program, environ);
    return amph_program_explain(program, NULL, errno);
}
