/* SPDX-License-Identifier: BSD-3-Clause */
/* iofwd-server: a process of the job's server group, or servers that belong to no job.  Layer:
 * iofwd.  Thread rule: main. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/platform.h"
#include "base/program/stdout_check.h"
#include "boot/standing.h"
#include "iofwd/wire/prefix.h"
#include "iofwd/server/server.h"

/* clang-format off */
static const char usage[] =
    "usage: iofwd-server                      a server of its job; amphora-run -servers S starts it\n"
    "       iofwd-server -daemon [options]    servers that belong to no job; iofwd-run attaches programs to them\n"
    "  -servers S             how many; the default is 1\n"
    "  -iofwd PREFIX[=DIR]    what is exported (several: separated by colons, or given by several options);\n"
    "                         else IOFWD_PREFIX\n"
    "  -read-only PREFIX      of these, what clients may only read\n"
    "  -address-file FILE     what iofwd-run -servers takes; the default is AMPHORA_JOB, else iofwd-servers\n"
    "                         in XDG_RUNTIME_DIR or /tmp/iofwd-servers-UID\n"
    "  -conduit NAME          clients of other hosts may come over this network: " AMPH_CONDUIT_NETWORKS "\n"
    "  -interface ADDRESS     on this interface\n"
    "  -log FILE              the default is the address file's name and .log\n"
    "  -pid-file FILE         the watching process's number\n"
    "  -foreground            stay in the foreground, log to standard error\n"
    "  -help, -version        print this text, or the version\n"
    "SIGTERM to that process ends the servers in order.\n"
    "More settings: amphora-info -c (AMPHORA_STATS=1: counters at the end).\n";
/* clang-format on */

struct given {
    struct amph_server_daemon d;
    bool daemon;
    const char *interface;
    char prefixes[8192], read_only[4096];

    /* what d points to, as absolute paths */
    char address_file[2 * PATH_MAX];
    char log[2 * PATH_MAX];
    char pid_file[2 * PATH_MAX];
    char default_log[2 * PATH_MAX + 8];
    struct amph_fwd_prefixes exported; /* only checked */
};

static int wrong(const char *what, const char *why)
{
    fprintf(stderr, "iofwd-server: %s %s; -help lists the options\n", what, why);
    return 2;
}

/* Adds one more entry of a list with colons. */
static bool add(char *list, size_t cap, const char *entry)
{
    size_t at = strlen(list);
    int n = snprintf(list + at, cap - at, "%s%s", at ? ":" : "", entry);

    return n >= 0 && (size_t)n < cap - at;
}

/* ---- options: each takes its value (NULL: it has none) and gives 0, or an exit code after a
 * sentence ---- */

static int take_daemon(struct given *g, const char *value)
{
    g->daemon = true;
    return 0;
}

static int take_own(struct given *g, const char *value)
{
    g->daemon = g->d.own = true;
    return 0;
}

static int take_foreground(struct given *g, const char *value)
{
    g->d.foreground = true;
    return 0;
}

static int take_help(struct given *g, const char *value)
{
    fputs(usage, stdout);
    return -1;
}

static int take_version(struct given *g, const char *value)
{
    printf("iofwd-server (%s) %s\n", PACKAGE_NAME, PACKAGE_VERSION);
    return -1;
}

static int take_count(struct given *g, const char *value)
{
    char *end;
    unsigned long n = strtoul(value, &end, 10);

    if (end == value || *end || n < 1 || n > AMPH_STANDING_MAX)
        return wrong(value, "is no number of servers (1 to 256)");

    g->d.nservers = (uint32_t)n;
    return 0;
}

static int take_prefix(struct given *g, const char *value)
{
    return add(g->prefixes, sizeof g->prefixes, value) ? 0 : wrong(value, "makes too long a list");
}

static int take_read_only(struct given *g, const char *value)
{
    return add(g->read_only, sizeof g->read_only, value) ? 0
                                                         : wrong(value, "makes too long a list");
}

static int take_address(struct given *g, const char *value)
{
    g->d.address_file = value;
    return value[0] ? 0 : wrong("-address-file", "needs a value");
}

static int take_conduit(struct given *g, const char *value)
{
    g->d.conduit = value;
    return strcmp(value, "smp") != 0
               ? 0
               : wrong("-conduit smp", "reaches this host only, whose clients need no conduit");
}

static int take_interface(struct given *g, const char *value)
{
    g->interface = value;
    return setenv(amph_env_name(AMPH_ENV_INTERFACE), value, 1) == 0 ? 0 : 1;
}

static int take_log(struct given *g, const char *value)
{
    g->d.log = value;
    return 0;
}

static int take_pid(struct given *g, const char *value)
{
    g->d.pid_file = value;
    return 0;
}

static const struct {
    const char *name;
    bool has_value;
    int (*take)(struct given *g, const char *value);
} options[] = {
    { "daemon", false, take_daemon },
    { "own", false, take_own },
    { "foreground", false, take_foreground },
    { "help", false, take_help },
    { "h", false, take_help },
    { "version", false, take_version },
    { "servers", true, take_count },
    { "iofwd", true, take_prefix },
    { "read-only", true, take_read_only },
    { "address-file", true, take_address },
    { "conduit", true, take_conduit },
    { "network", true, take_conduit },
    { "interface", true, take_interface },
    { "log", true, take_log },
    { "pid-file", true, take_pid },
};

/* -option VALUE or -option=VALUE */
static int parse(struct given *g, char **argv)
{
    for (argv++; *argv; argv++) {
        const char *name = *argv + (argv[0][0] == '-') + (argv[0][0] == '-' && argv[0][1] == '-');
        const char *equals = strchr(name, '=');
        size_t i = 0;
        size_t len = equals ? (size_t)(equals - name) : strlen(name);

        while (i < AMPH_COUNTOF(options) &&
               (strlen(options[i].name) != len || memcmp(options[i].name, name, len) != 0))
            i++;

        if (i == AMPH_COUNTOF(options) || argv[0][0] != '-')
            return wrong(*argv, "is no option");

        bool has_value = options[i].has_value;
        const char *value = equals ? equals + 1 : argv[1];

        if (has_value ? !value : equals != NULL)
            return wrong(*argv, has_value ? "needs a value" : "takes no value");

        int code = options[i].take(g, has_value ? value : NULL);
        if (code)
            return code;

        argv += has_value && !equals;
    }

    return 0;
}

/* The daemon changes its directory, so what it is given must be absolute.  0, or an exit code after a
 * sentence. */
static int absolute(const char **path_p, char *room, size_t cap)
{
    char cwd[PATH_MAX];

    if (!*path_p || **path_p == '/')
        return 0;

    if (!getcwd(cwd, sizeof cwd)) {
        fprintf(stderr,
                "iofwd-server: %s lies below the working directory, which has no path: %s; give an "
                "absolute path\n",
                *path_p, strerror(errno));
        return 1;
    }

    int n = snprintf(room, cap, "%s/%s", cwd, *path_p);

    if (n < 0 || (size_t)n >= cap)
        return wrong(*path_p, "is too long");

    *path_p = room;
    return 0;
}

static int no_memory(void)
{
    fputs("iofwd-server: no memory\n", stderr);
    return 1;
}

static int run_daemon(struct given *g)
{
    const char *why;

    if ((g->prefixes[0] && setenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX), g->prefixes, 1) != 0) ||
        (g->read_only[0] && setenv(amph_env_name(AMPH_ENV_IOFWD_READONLY), g->read_only, 1) != 0))
        return no_memory();

    amph_env_reload();
    if (!amph_env_str(AMPH_ENV_IOFWD_PREFIX)[0])
        return wrong("-iofwd PREFIX=DIR", "or IOFWD_PREFIX must say what is exported");

    /* the clients would forward nothing */
    if (!amph_fwd_prefix_parse(&g->exported, amph_env_str(AMPH_ENV_IOFWD_PREFIX), &why))
        return wrong("-iofwd", why);

    /* each line of an address file is one value */
    if (strchr(amph_env_str(AMPH_ENV_IOFWD_PREFIX), '\n'))
        return wrong("-iofwd",
                     "takes no path with a line break, which an address file cannot hold");
    if (g->interface && !g->d.conduit)
        return wrong("-interface",
                     "needs -conduit: without it only clients of this host are accepted");
    if (g->d.own)
        return amph_server_daemon_run(&g->d);

    if (!g->d.address_file)
        g->d.address_file = amph_boot_standing_default();

    int code = absolute(&g->d.address_file, g->address_file, sizeof g->address_file);

    if (!code)
        code = absolute(&g->d.log, g->log, sizeof g->log);

    if (!code)
        code = absolute(&g->d.pid_file, g->pid_file, sizeof g->pid_file);

    if (code)
        return code;

    if (!g->d.log && !g->d.foreground) {
        snprintf(g->default_log, sizeof g->default_log, "%s.log", g->d.address_file);
        g->d.log = g->default_log;
    }

    return amph_server_daemon_run(&g->d);
}

int main(int argc, char **argv)
{
    struct given *g = calloc(1, sizeof *g); /* too large for a small stack */
    struct amph_server *server;

    amph_stdout_check();
    if (!g)
        return no_memory();

    g->d.nservers = 1;

    int code = parse(g, argv);

    if (code)
        return code < 0 ? 0 : code;
    if (g->daemon)
        return run_daemon(g);
    if (argc > 1)
        return wrong(argv[1], "is for servers that belong to no job: -daemon");

    free(g);
    if (amph_server_open(NULL, &server) != AMPH_OK)
        return 1;

    code = amph_server_run(server);
    amph_server_close(server);
    fflush(NULL);
    _exit(code);
}
