/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of iofwd-run.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/settings/env.h"
#include "launcher/attach/options.h"
#include "launcher/common/message.h"
#include "launcher/common/record_dir.h"

/* clang-format off */
static const char usage[] =
    "usage: iofwd-run [options] [--] PROGRAM [ARGUMENT]...\n"
    "Runs PROGRAM, and what it starts, with the file calls under the servers' prefixes forwarded to them.\n"
    "  -servers FILE        address file of the servers; the default is AMPHORA_JOB, else iofwd-servers in\n"
    "                       XDG_RUNTIME_DIR or /tmp/iofwd-servers-UID, which are also iofwd-server's\n"
    "  -wait SECONDS        how long the servers may take to come up; the default is 0\n"
    "  -iofwd PREFIX[:...]  forward these paths only; the default is all that the servers export\n"
    "  -trace[=WHAT]        print each forwarded file call on standard error, or to the end of the file WHAT;\n"
    "                       WHAT may be all, or all,FILE: also the calls that stayed local\n"
    "  -preload, -mount, -trap\n"
    "                       the way into the program: the preload library, the prefixes mounted in a\n"
    "                       namespace, or its file calls reported to a supervisor (seccomp);\n"
    "                       the default is the first that suits it\n"
    "  -v                   print which way is taken, and why\n"
    "  -record DIR          record every file call below the folder DIR, for iofwd-trace; without servers, too;\n"
    "                       with -mount and -trap the forwarded calls\n"
    "  -trace DIR           the same, if the word DIR has a slash, and is a folder or ends in a slash\n"
    "  -check               print which of PROGRAM's calls would be forwarded, and which way suits it; run nothing\n"
    "  -help, -version\n";
/* clang-format on */

/* What became of a word of the command line. */
enum taken {
    NOT_MINE, /* the function does not know the option */
    TAKEN,
    REFUSED /* after a message */
};

static bool is_option(const char *word, const char *name)
{
    return word[0] == '-' && strcmp(word + 1 + (word[1] == '-'), name) == 0;
}

bool amph_attach_absolute(const char *file, char path[PATH_MAX])
{
    const char *slash = strrchr(file, '/');
    const char *name = slash ? slash + 1 : file;
    char folder[PATH_MAX] = ".";
    char real_folder[PATH_MAX];

    if (strlen(file) >= sizeof folder) {
        errno = ENAMETOOLONG;
        return false;
    }

    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(name - file), file);
    if (!realpath(folder, real_folder))
        return false;

    /* only the root's path ends in a slash */
    const char *between = real_folder[1] ? "/" : "";

    if (snprintf(path, PATH_MAX, "%s%s%s", real_folder, between, name) < PATH_MAX)
        return true;

    errno = ENAMETOOLONG;
    return false;
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

/* ---- options with a value ---- */

static bool take_servers(struct amph_attach_options *o, const char *value)
{
    o->file = value;
    return true;
}

static bool take_prefixes(struct amph_attach_options *o, const char *value)
{
    o->prefixes = value;
    return true;
}

static bool take_wait(struct amph_attach_options *o, const char *value)
{
    char *end;

    o->wait_s = strtod(value, &end);
    if (end != value && *end == 0 && o->wait_s >= 0 && o->wait_s < 1e6)
        return true;

    amph_say("-wait %s is not allowed; it takes a number of seconds from 0 on and below 1e6",
             value);
    return false;
}

static bool take_record(struct amph_attach_options *o, const char *value)
{
    o->records = amph_record_dir("record", value);
    return o->records;
}

/* The value is the next word, or NULL at the end. */
static enum taken take_with_value(struct amph_attach_options *o, const char *word,
                                  const char *value)
{
    static const struct {
        const char *name;
        bool (*take)(struct amph_attach_options *o, const char *value);
    } options[] = {
        { "servers", take_servers },
        { "iofwd", take_prefixes },
        { "wait", take_wait },
        { "record", take_record },
    };

    if (is_option(word, "trace") && value && is_folder(value))
        return take_record(o, value) ? TAKEN : REFUSED;

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (!is_option(word, options[i].name))
            continue;

        if (!value || !value[0]) {
            amph_say("%s needs a value", word);
            return REFUSED;
        }

        return options[i].take(o, value) ? TAKEN : REFUSED;
    }

    return NOT_MINE;
}

/* ---- options of one word ---- */

/* The way into the program that the option names. */
static enum amph_way way_of(const char *word)
{
    for (enum amph_way way = AMPH_WAY_PRELOAD; way <= AMPH_WAY_TRAP; way++)
        if (is_option(word, amph_attach_way_name(way)))
            return way;

    return AMPH_WAY_ANY;
}

/* -preload, -mount, -trap: at most one of them. */
static enum taken take_way(struct amph_attach_options *o, enum amph_way way)
{
    if (o->way != AMPH_WAY_ANY && o->way != way) {
        amph_say("-%s and -%s are two ways into the same program; give one of them",
                 amph_attach_way_name(o->way), amph_attach_way_name(way));
        return REFUSED;
    }

    o->way = way;
    return TAKEN;
}

/* -trace, -trace=all, -trace=FILE, -trace=all,FILE.  Makes FILE absolute, because the program and
 * its children may change their directories. */
static enum taken take_trace(const char *what)
{
    static const char with_local[] = "all,";
    char value[PATH_MAX + sizeof with_local];
    char path[PATH_MAX];
    bool local = strncmp(what, with_local, sizeof with_local - 1) == 0;
    const char *file = local ? what + sizeof with_local - 1 : what;
    bool is_file = local || (strcmp(what, "1") != 0 && strcmp(what, "all") != 0);

    if (!file[0] || (is_file && !amph_attach_absolute(file, path))) {
        amph_say(
            "-trace=%s: there is no such folder; -trace, -trace=all and -trace=FILE are possible",
            what);
        return REFUSED;
    }

    snprintf(value, sizeof value, "%s%s", local ? with_local : "", is_file ? path : what);
    setenv(amph_env_name(AMPH_ENV_IOFWD_TRACE), value, 1);
    return TAKEN;
}

/* What -trace is given: the word after "=", "1" without one, or NULL if this is another option. */
static const char *trace_value(const char *word)
{
    static const char option[] = "-trace";

    word += word[1] == '-';
    if (strncmp(word, option, sizeof option - 1) != 0)
        return NULL;

    word += sizeof option - 1;
    if (word[0] == '=')
        return word + 1;

    return word[0] ? NULL : "1";
}

static enum taken take_alone(struct amph_attach_options *o, const char *word)
{
    if (is_option(word, "check")) {
        o->check = true;
        return TAKEN;
    }

    if (is_option(word, "v")) {
        o->verbose = true;
        return TAKEN;
    }

    enum amph_way way = way_of(word);

    if (way != AMPH_WAY_ANY)
        return take_way(o, way);

    const char *trace = trace_value(word);

    if (!trace)
        return NOT_MINE;
    if (is_folder(trace))
        return take_record(o, trace) ? TAKEN : REFUSED;

    return take_trace(trace);
}

/* -help and -version.  Returns false if the word is another option. */
static bool print_text(const char *word)
{
    if (is_option(word, "help") || is_option(word, "h"))
        fputs(usage, stdout);
    else if (is_option(word, "version"))
        printf("iofwd-run (%s) %s\n", PACKAGE_NAME, PACKAGE_VERSION);
    else
        return false;

    return true;
}

int amph_attach_parse(struct amph_attach_options *o, char **argv)
{
    for (argv++; *argv && argv[0][0] == '-'; argv++) {
        if (strcmp(*argv, "--") == 0) {
            argv++;
            break;
        }

        if (print_text(*argv))
            return 0;

        enum taken taken = take_with_value(o, argv[0], argv[1]);
        bool has_value = taken == TAKEN;

        if (taken == NOT_MINE)
            taken = take_alone(o, *argv);
        if (taken == NOT_MINE)
            amph_say("%s is not an option of iofwd-run; -help lists them", *argv);
        if (taken != TAKEN)
            return AMPH_ATTACH_WRONG;

        argv += has_value;
    }

    o->program = argv;
    if (*argv)
        return -1;

    fputs(usage, stderr);
    return AMPH_ATTACH_WRONG;
}
