/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of amphora-run.  Parser, help text and the suggestion for a misspelt option use
 * the same table.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/master/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings/env.h"
#include "base/platform.h"
#include "launcher/common/message.h"
#include "launcher/common/record_dir.h"

#define GRACE_S 10

struct option {
    const char *name, *argument; /* argument NULL: takes none */
    bool (*take)(struct amph_options *o, const struct option *opt, const char *value);
    const char *help; /* NULL: a synonym of the option in the row above */
};

static bool wrong(const struct option *opt, const char *value, const char *allowed)
{
    amph_say("-%s %s is not allowed; it takes %s", opt->name, value, allowed);
    return false;
}

static bool take_count(const struct option *opt, const char *value, long min, uint32_t *count_p)
{
    char *end;
    long v = strtol(value, &end, 10);

    if (end == value || *end || v < min || v > 1000000)
        return wrong(opt, value,
                     min ? "a number of processes from 1 to 1000000"
                         : "a number of processes from 0 to 1000000");

    *count_p = (uint32_t)v;
    return true;
}

static bool take_n(struct amph_options *o, const struct option *opt, const char *value)
{
    return take_count(opt, value, 1, &o->ncompute);
}

static bool no_memory(const struct option *opt)
{
    amph_say("there is no memory for what -%s says", opt->name);
    return false;
}

static bool take_servers(struct amph_options *o, const struct option *opt, const char *value)
{
    o->servers_given = true;
    return take_count(opt, value, 0, &o->nservers);
}

/* Takes the same words as AMPHORA_CONDUIT, with the parser of settings. */
static bool take_conduit(struct amph_options *o, const struct option *opt, const char *value)
{
    static const struct amph_env_row row = { "-conduit", AMPH_ENV_TYPE_ENUM, AMPH_CONDUIT_WORDS, 0,
                                             0 };
    struct amph_env_value chosen = { 0 };
    char why[AMPH_ENV_WHY_BYTES];

    if (!amph_env_parse(&row, value, &chosen, why, sizeof why)) {
        amph_say("there is no conduit \"%s\"; -%s takes " AMPH_CONDUIT_WORDS
                 " (amphora-info lists the conduits of this build)",
                 value, opt->name);
        return false;
    }

    free(o->conduit);
    o->conduit = (char *)chosen.text;
    return true;
}

static bool take_hosts(struct amph_options *o, const struct option *opt, const char *value)
{
    o->hosts = value;
    return true;
}

/* A list on the command line becomes a host file's text. */
static bool take_host(struct amph_options *o, const struct option *opt, const char *value)
{
    for (const char *at = value;; at += strcspn(at, ",") + 1) {
        if (!at[strspn(at, " \t")] || at[strspn(at, " \t")] == ',')
            return wrong(opt, value[0] ? value : "(nothing)",
                         "host names with one comma between them");

        if (!strchr(at, ','))
            break;
    }

    free(o->host_list);
    if (!(o->host_list = strdup(value)))
        return no_memory(opt);

    for (char *c = o->host_list; *c; c++)
        if (*c == ',' || *c == ' ' || *c == '\t')
            *c = '\n';

    return true;
}

static bool take_server_hosts(struct amph_options *o, const struct option *opt, const char *value)
{
    o->server_hosts = value;
    return true;
}

static bool take_ssh(struct amph_options *o, const struct option *opt, const char *value)
{
    if (!value[strspn(value, " \t")])
        return wrong(opt, value, "a command, such as ssh or \"ssh -F FILE\"");

    o->ssh = value;
    return true;
}

static bool take_over(struct amph_options *o, const struct option *opt, const char *value)
{
    if (strcmp(value, "all") != 0)
        return take_count(opt, value, 1, &o->nhosts);

    o->nhosts = UINT32_MAX;
    return true;
}

static bool take_iofwd(struct amph_options *o, const struct option *opt, const char *value)
{
    char *joined;

    if (asprintf(&joined, "%s%s%s", o->prefixes ? o->prefixes : "", o->prefixes ? ":" : "", value) <
        0)
        return no_memory(opt);

    free(o->prefixes);
    o->prefixes = joined;
    return true;
}

static bool take_map(struct amph_options *o, const struct option *opt, const char *value)
{
    o->of_servers = opt->name;
    o->map = value;
    return true;
}

static bool take_bind(struct amph_options *o, const struct option *opt, const char *value)
{
    static const char *const words[] = {
        [AMPH_BIND_NONE] = "none", [AMPH_BIND_CORE] = "core", [AMPH_BIND_NUMA] = "numa"
    };

    for (size_t i = 0; i < AMPH_COUNTOF(words); i++)
        if (strcmp(words[i], value) == 0) {
            o->bind = (enum amph_bind)i;
            return true;
        }

    return wrong(opt, value, "none, core or numa");
}

static bool take_pretend(struct amph_options *o, const struct option *opt, const char *value)
{
    o->pretend = true;
    return true;
}

static bool take_label(struct amph_options *o, const struct option *opt, const char *value)
{
    o->label = true;
    return true;
}

static bool take_timeout(struct amph_options *o, const struct option *opt, const char *value)
{
    char *end;

    o->timeout_s = strtod(value, &end);
    if (end == value || *end || !(o->timeout_s > 0 && o->timeout_s < 1e8))
        return wrong(opt, value, "a number of seconds above 0 and below 1e8");

    return true;
}

static bool take_grace(struct amph_options *o, const struct option *opt, const char *value)
{
    char *end;

    o->grace_s = strtod(value, &end);
    if (end == value || *end || !(o->grace_s >= 0 && o->grace_s < 1e8))
        return wrong(opt, value, "a number of seconds from 0 on and below 1e8");

    return true;
}

/* as AMPHORA_ON_SERVER_DEATH has them */
static const char *const death_words[] = { "end", "eio", "failover" };

static bool take_death(struct amph_options *o, const struct option *opt, const char *value)
{
    for (size_t i = 0; i < AMPH_COUNTOF(death_words); i++)
        if (strcmp(value, death_words[i]) == 0) {
            o->of_servers = opt->name;
            o->on_server_death = death_words[i];
            return true;
        }

    return wrong(opt, value, "end, eio or failover");
}

static bool take_server_program(struct amph_options *o, const struct option *opt, const char *value)
{
    o->server_program = value;
    return true;
}

static bool take_record(struct amph_options *o, const struct option *opt, const char *value)
{
    o->records = amph_record_dir(opt->name, value);
    return o->records;
}

static bool take_progress(struct amph_options *o, const struct option *opt, const char *value)
{
    o->progress = true;
    return true;
}

static bool take_verbose(struct amph_options *o, const struct option *opt, const char *value)
{
    o->verbose = true;
    return true;
}

static bool take_help(struct amph_options *o, const struct option *opt, const char *value);
static bool take_version(struct amph_options *o, const struct option *opt, const char *value);

/* clang-format off */
static const struct option options[] = {
    { "n", "C", take_n, "compute processes; the default is 1" },
    { "np", "C", take_n, NULL },
    { "servers", "S", take_servers, "I/O servers, started as the job's second group; the default is 0" },
    { "conduit", "NAME", take_conduit,
      "network between hosts: " AMPH_CONDUIT_WORDS "; the first is the default, amphora-info prints which ones this machine "
      "has" },
    { "network", "NAME", take_conduit, NULL },
    { "hosts", "FILE", take_hosts,
      "host file: one host name on each line is one slot (NAME:COUNT: several slots). The first C slots are for compute "
      "processes, the last S slots for servers. Other hosts are reached by ssh. Several names of this machine are pretended hosts "
      "on it; so are host0, hostA and the like, if they have no address and no other host is named. program=PATH, "
      "server-program=PATH and run=PATH (of amphora-run) after a name apply to that host, and in a line that starts with arch=NAME "
      "(as uname -m prints it) to all hosts of that machine type" },
    { "server-hosts", "FILE", take_server_hosts,
      "host file of the servers; -hosts is then for the compute processes only" },
    { "ssh", "COMMAND", take_ssh, "command that starts processes on other hosts; the default is AMPHORA_SSH, or ssh" },
    { "host", "NAME,NAME...", take_host, "the contents of a host file on the command line" },
    { "pretend", NULL, take_pretend, "all host names without an address are pretended hosts on this machine" },
    { "N", "HOSTS", take_over,
      "distribute the processes in blocks of equal length over the first HOSTS hosts (all: every host) of the host file; without a "
      "host file, over HOSTS pretended hosts" },
    { "iofwd", "PREFIX[=DIR]", take_iofwd,
      "forward the file calls of compute processes under PREFIX to the servers, which keep the files "
      "under DIR (PREFIX unless given); several are separated by colons, or given by several options" },
    { "map", "RULE", take_map,
      "which server serves which compute process: mod (the default), block, near, or a list of server numbers from 0" },
    { "bind", "HOW", take_bind, "bind processes to cores: none (the default), core or numa" },
    { "label", NULL, take_label, "print each process's number before its lines" },
    { "timeout", "SECONDS", take_timeout, "end the job after this time (exit code 124)" },
    { "grace", "SECONDS", take_grace, "time from the first SIGTERM until processes are killed; the default is 10" },
    { "on-server-death", "WHAT", take_death,
      "when a server dies: end: the job ends (the default); eio: calls on its files fail with EIO and the job continues; failover: "
      "the next server reopens its files" },
    { "server-program", "FILE", take_server_program, "start FILE as server instead of iofwd-server" },
    { "record", "DIR", take_record, "record every file call of the compute processes below the folder DIR, for iofwd-trace" },
    { "trace", "DIR", take_record, NULL },
    { "progress", NULL, take_progress, "print at intervals, and at the end, what the servers have read and written" },
    { "v", NULL, take_verbose, "print the whole mapping" },
    { "verbose", NULL, take_verbose, NULL },
    { "help", NULL, take_help, "print this text and exit" },
    { "h", NULL, take_help, NULL },
    { "version", NULL, take_version, "print the version and exit" },
};
/* clang-format on */

static bool take_version(struct amph_options *o, const struct option *opt, const char *value)
{
    printf("amphora-run (%s) %s\n", PACKAGE_NAME, PACKAGE_VERSION);
    return true;
}

/* Prints text from column `indent` on, with line breaks at blanks before column 100.  at: the column
 * of the cursor. */
static void print_folded(const char *text, int at, int indent)
{
    if (at >= indent)
        printf("\n%*s", indent, "");
    else
        printf("%*s", indent - at, "");

    for (int column = indent; *text;) {
        int word = (int)strcspn(text, " ");

        if (column + word > 100 && column > indent) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
        }

        printf("%.*s", word, text);
        column += word + 1;
        text += word + (text[word] == ' ');
    }

    printf("\n");
}

static bool take_help(struct amph_options *o, const struct option *opt, const char *value)
{
    printf("usage: amphora-run [OPTIONS] PROGRAM [ARGUMENTS]\n\n"
           "Starts PROGRAM as a job of several processes, optionally with I/O servers.\n\n");
    for (size_t i = 0; i < AMPH_COUNTOF(options); i++) {
        int at = printf("  -%s%s%s", options[i].name, options[i].argument ? " " : "",
                        options[i].argument ? options[i].argument : "");

        for (size_t k = i + 1; k < AMPH_COUNTOF(options) && !options[k].help; k++)
            at += printf(", -%s", options[k].name);

        print_folded(options[i].help, at, 28);
        while (i + 1 < AMPH_COUNTOF(options) && !options[i + 1].help)
            i++;
    }

    printf("\nOptions take one or two dashes and their argument as the next word or after \"=\".\n"
           "The exit code is that of the first process that fails, 128+N for signal N.\n");
    return true;
}

static const struct option *find(const char *name, size_t len)
{
    for (size_t i = 0; i < AMPH_COUNTOF(options); i++)
        if (strlen(options[i].name) == len && strncmp(options[i].name, name, len) == 0)
            return &options[i];

    return NULL;
}

static void unknown(const char *word, const char *name)
{
    char text[64];
    const char *nearest = NULL;
    unsigned min = UINT32_MAX;

    snprintf(text, sizeof text, "%.*s", (int)strcspn(name, "="), name);
    for (size_t i = 0; i < AMPH_COUNTOF(options); i++) {
        unsigned d = amph_text_distance(text, options[i].name);

        if (d < min) {
            min = d;
            nearest = options[i].name;
        }
    }

    if (min <= strlen(text) / 3 + 1)
        amph_say("there is no option %s; did you mean -%s? (amphora-run -help lists them)", word,
                 nearest);
    else
        amph_say("there is no option %s (amphora-run -help lists them)", word);
}

/* Handles the option at argv[*at_p] and advances *at_p. */
static enum amph_options_result take(struct amph_options *o, char **argv, int *at_p)
{
    const char *word = argv[*at_p];
    const char *name = word + 1 + (word[1] == '-');
    size_t len = strcspn(name, "=");
    const struct option *opt = find(name, len);
    const char *value = name[len] == '=' ? name + len + 1 : NULL;

    if (!opt) {
        unknown(word, name);
        return AMPH_OPTIONS_WRONG;
    }

    if (!opt->argument && value) {
        amph_say("-%s takes no argument, but \"%s\" was given", opt->name, value);
        return AMPH_OPTIONS_WRONG;
    }

    ++*at_p;
    if (opt->argument && !value && !(value = argv[*at_p])) {
        amph_say("-%s needs an argument: -%s %s", opt->name, opt->name, opt->argument);
        return AMPH_OPTIONS_WRONG;
    }

    if (opt->argument && value == argv[*at_p])
        ++*at_p;

    if (!opt->take(o, opt, value))
        return AMPH_OPTIONS_WRONG;

    return opt->take == take_help || opt->take == take_version ? AMPH_OPTIONS_DONE
                                                               : AMPH_OPTIONS_RUN;
}

enum amph_options_result amph_launch_options_read(struct amph_options *o, int argc, char **argv)
{
    *o = (struct amph_options){
        .ncompute = 1, .map = "mod", .bind = AMPH_BIND_NONE, .grace_s = GRACE_S
    };
    o->on_server_death = death_words[amph_env_enum(AMPH_ENV_ON_SERVER_DEATH)];

    int at = 1;

    while (at < argc && argv[at][0] == '-' && argv[at][1]) {
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }

        enum amph_options_result result = take(o, argv, &at);
        if (result != AMPH_OPTIONS_RUN)
            return result;
    }

    o->program = argv + at;
    if (!o->servers_given && (o->server_hosts || o->server_program)) {
        amph_say("-server-%s is given, but there are no servers; give -servers S too",
                 o->server_hosts ? "hosts" : "program");
        return AMPH_OPTIONS_WRONG;
    }

    if (o->of_servers && !o->nservers)
        amph_say("-%s has no effect: the job has no I/O servers (-servers S)", o->of_servers);

    if (at < argc)
        return AMPH_OPTIONS_RUN;

    amph_say("no program was given; usage: amphora-run [OPTIONS] PROGRAM [ARGUMENTS] (amphora-run "
             "-help explains)");
    return AMPH_OPTIONS_WRONG;
}
