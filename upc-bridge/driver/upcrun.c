/* SPDX-License-Identifier: BSD-3-Clause
 *
 * amphora-upcrun: starts a UPC program by amphora-run, with what the program was compiled for where
 * the caller does not say.
 *
 * Layer: upc-bridge/driver.  Thread rule: one thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/program/stdout_check.h"
#include "upc-bridge/driver/place.h"

/* clang-format off */
static const char usage[] =
    "usage: amphora-upcrun -n T [OPTIONS] PROGRAM [ARGUMENTS]\n\n"
    "Starts a program made by amphora-upcc with T threads.\n\n"
    "  -n T                 threads; may be left out if the program was compiled for a number of them\n"
    "  -servers S           I/O servers beside them\n"
    "  -network NAME        " AMPH_CONDUIT_WORDS "\n"
    "  -v, -help, -version\n"
    "  -iofwd PREFIX[=DIR], -hosts FILE and all other options are those of amphora-run\n";
/* clang-format on */

struct chosen {
    int threads, servers; /* -1: not given */
    const char *network;
};

/* The choices stored in the program; 0 and "": none. */
struct stamp {
    int threads, servers;
    char network[32];
};

/* Options of amphora-run without a value; all others have one. */
static bool stands_alone(const char *a)
{
    static const char *const names[] = {
        "label", "pretend", "v", "verbose", "help", "h", "version"
    };

    a += a[1] == '-' ? 2 : 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(a, names[i]) == 0)
            return true;

    return strchr(a, '=') != NULL;
}

static int number(const char *what, const char *s, int min)
{
    char *e;
    long n = strtol(s, &e, 10);

    if (*s == 0 || *e || n < min || n > 1048576) {
        fprintf(stderr, "amphora-upcrun: %s takes a number from %d to 1048576, not '%s'\n", what,
                min, s);
        exit(2);
    }

    return (int)n;
}

/* Returns the path of PROGRAM, searched in PATH if it has no slash. */
static FILE *open_program(const char *name)
{
    if (strchr(name, '/'))
        return fopen(name, "r");

    char *path = upcc_text("%s", amph_env_foreign("PATH") ? amph_env_foreign("PATH") : "");
    FILE *f = NULL;

    for (char *dir = strtok(path, ":"); dir && !f; dir = strtok(NULL, ":")) {
        char *file = upcc_text("%s/%s", dir, name);

        if (access(file, X_OK) == 0)
            f = fopen(file, "r");

        free(file);
    }

    free(path);
    return f;
}

/* Reads the line that amphora-upcc stored in the program.  Returns false if it has none. */
static bool read_stamp(FILE *f, struct stamp *stamp)
{
    static const char key[] = PLACE_STAMP;
    size_t n = 0;
    char line[128];

    for (int ch; (ch = getc_unlocked(f)) != EOF;) {
        if (ch == key[n])
            n++;
        else
            n = ch == key[0];

        if (key[n])
            continue;

        n = 0;

        size_t len = 0;

        while (len < sizeof line - 1 && (ch = getc_unlocked(f)) > 0)
            line[len++] = (char)ch;

        line[len] = 0;

        char *net = strstr(line, " network=");
        char *srv = strstr(line, " servers=");

        if (strncmp(line, " threads=", 9) != 0 || !net || !srv)
            continue;

        stamp->threads = atoi(line + 9);
        stamp->servers = atoi(srv + 9);
        snprintf(stamp->network, sizeof stamp->network, "%.*s", (int)strcspn(net + 9, " "),
                 net + 9);
        return true;
    }

    return false;
}

/* Reports, in one sentence for all threads, that this machine lacks the network, and why.  Other
 * hosts report for themselves. */
static void check_network(const char *bin, const char *network)
{
    char *command = upcc_text("'%s/amphora-info' -n 2>/dev/null", bin);
    char line[1024], name[32], has[8];
    FILE *f = popen(command, "r");

    while (f && fgets(line, sizeof line, f)) {
        const char *why = strstr(line, "not here: ");

        if (sscanf(line, "%31s %7s", name, has) != 2 || strcmp(name, network) || strcmp(has, "no"))
            continue;

        fprintf(stderr, "amphora-upcrun: -network %s cannot be used here: %s", network,
                why ? why + strlen("not here: ") : "amphora-info says why\n");
        exit(2);
    }

    if (f)
        pclose(f);

    free(command);
}

/* Allocates the command line of amphora-run, with room for all arguments and additions. */
struct line {
    char **argv;
    int n;
};

static void add(struct line *l, const char *arg)
{
    l->argv[l->n++] = (char *)arg;
}

/* Options of Berkeley's upcrun that have no effect here; a sentence names those that are given.  A
 * thread always has as much shared memory as there is. */
static bool foreign_option(int argc, char **argv, int *i)
{
    static const char *const alone[] = { "-q", "-quiet", "-bind-threads", "-norc" };
    static const char *const with_value[] = { "shared-heap", "shared-heap-max", "conf" };
    const char *a = argv[*i];
    bool ours = false;

    for (size_t k = 0; k < sizeof alone / sizeof *alone; k++)
        ours |= strcmp(a, alone[k]) == 0;

    for (size_t k = 0; k < sizeof with_value / sizeof *with_value && !ours; k++)
        ours = upcc_option_value(argc, argv, i, with_value[k]) != NULL;

    if (ours)
        fprintf(stderr, "amphora-upcrun: without effect here: %s\n", a);

    return ours;
}

/* Reads the options up to the program's name, and returns its index; options of amphora-run are
 * appended to run. */
static int take_options(int argc, char **argv, struct chosen *said, struct line *run)
{
    int i;

    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        const char *v;
        int first = i;

        if (strcmp(argv[i], "-help") == 0 || strcmp(argv[i], "--help") == 0 ||
            strcmp(argv[i], "-h") == 0) {
            fputs(usage, stdout);
            exit(0);
        }

        if (strcmp(argv[i], "-version") == 0 || strcmp(argv[i], "--version") == 0) {
            printf("amphora-upcrun %s\n", PACKAGE_VERSION);
            exit(0);
        }

        if ((v = upcc_option_value(argc, argv, &i, "n")) ||
            (v = upcc_option_value(argc, argv, &i, "np")))
            said->threads = number("-n", v, 1);
        else if ((v = upcc_option_value(argc, argv, &i, "servers")))
            said->servers = number("-servers", v, 0);
        else if ((v = upcc_option_value(argc, argv, &i, "network")) ||
                 (v = upcc_option_value(argc, argv, &i, "conduit")))
            said->network = v;
        else if (!foreign_option(argc, argv, &i)) {
            if (!stands_alone(argv[i]) && i + 1 < argc)
                i++;

            for (int k = first; k <= i; k++)
                add(run, argv[k]);
        }
    }

    return i;
}

/* Fills in what the command line left open from the line in the program, which must live as long as
 * `said`.  Returns 0, or the exit status after a message. */
static int complete(const char *program, struct stamp *built, struct chosen *said)
{
    FILE *f = open_program(program);

    if (f == NULL) {
        fprintf(stderr, "amphora-upcrun: %s: %s\n", program, strerror(errno ? errno : ENOENT));
        return 127;
    }

    (void)read_stamp(f, built); /* a C program with upc_bridge.h has no such line */
    fclose(f);

    if (built->threads && said->threads > 0 && said->threads != built->threads) {
        fprintf(stderr,
                "amphora-upcrun: %s was compiled for %d threads (amphora-upcc -T) and cannot run "
                "with %d\n",
                program, built->threads, said->threads);
        return 2;
    }

    if (said->threads < 0 && !built->threads) {
        fputs("amphora-upcrun: how many threads?  -n T\n", stderr);
        return 2;
    }

    if (said->threads < 0)
        said->threads = built->threads;

    if (said->servers < 0)
        said->servers = built->servers;

    if (!said->network && built->network[0] && !amph_env_is_set(AMPH_ENV_CONDUIT))
        said->network = built->network;

    return 0;
}

static bool names_hosts(const struct line *run)
{
    for (int k = 1; k < run->n; k++)
        if (strcmp(run->argv[k], "-hosts") == 0 || strcmp(run->argv[k], "--hosts") == 0)
            return true;

    return false;
}

int main(int argc, char **argv)
{
    struct chosen said = { -1, -1, NULL };
    struct stamp built = { 0 };
    struct place place;
    struct line run = { calloc((size_t)argc + 8, sizeof *run.argv), 1 };

    amph_stdout_check();

    if (run.argv == NULL)
        return 2;

    int i = take_options(argc, argv, &said, &run);

    if (i >= argc) {
        fputs("amphora-upcrun: no program is named; see amphora-upcrun -help\n", stderr);
        return 2;
    }

    int refused = complete(argv[i], &built, &said);
    if (refused)
        return refused;
    if (!upcc_place_find(&place, "amphora-upcrun"))
        return 2;

    /* the others exist on every machine */
    if (said.network && strcmp(said.network, "verbs") == 0 && !names_hosts(&run))
        check_network(place.bin, said.network);

    run.argv[0] = upcc_text("%s/amphora-run", place.bin);
    add(&run, "-n");
    add(&run, upcc_text("%d", said.threads));
    add(&run, "-servers");
    add(&run, upcc_text("%d", said.servers));

    if (said.network) {
        add(&run, "-conduit");
        add(&run, said.network);
    }

    while (i < argc)
        add(&run, argv[i++]);

    execv(run.argv[0], run.argv);
    fprintf(stderr, "amphora-upcrun: %s: %s\n", run.argv[0], strerror(errno));
    return 127;
}
