/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * amphora-info: prints version, conduits (and why one is not available), topology and settings.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/os/arena.h"
#include "base/settings/env.h"
#include "base/platform.h"
#include "base/program/stdout_check.h"
#include "base/os/topo.h"
#include "conduits/conduit.h"

static void print_version(void)
{
    printf("amphora %s\n", PACKAGE_VERSION);
    printf("byte order %s, pointers %zu bits, page size %zu bytes, memory %" PRIu64 " MiB\n",
           AMPH_BIG_ENDIAN ? "big" : "little", 8 * sizeof(void *), amph_page_bytes(),
           amph_phys_mem_bytes() >> 20);
}

static void print_conduits(void)
{
    char why[512];

    for (const struct amph_conduit_ops *const *ops = amph_conduit_list(); *ops; ops++) {
        why[0] = '\0';

        enum amph_status st = (*ops)->probe(why, sizeof why);

        printf("%-7s %-5s %s%s%s\n", (*ops)->name, st == AMPH_OK ? "yes" : "no", (*ops)->summary,
               st == AMPH_OK ? "" : "; not here: ", st == AMPH_OK ? "" : why);
        if (st == AMPH_OK && why[0])
            printf("%14s%s\n", "", why);
    }
}

static void print_topology(void)
{
    struct amph_topo *topo;

    if (amph_topo_open(&topo) != AMPH_OK)
        exit(1);

    amph_topo_print(topo, stdout);
    amph_topo_close(topo);
}

static void print_settings(void)
{
    amph_env_print(stdout);
}

static const struct {
    const char *name, *title, *help;
    char letter;
    void (*print)(void);
} parts[] = {
    { "version", "Build", "version, byte order, page size, memory", 'V', print_version },
    { "conduits", "Conduits", "networks, and why one cannot be used", 'n', print_conduits },
    { "topology", "Topology", "packages, cores, NUMA nodes", 't', print_topology },
    { "settings", "Settings", "every setting with its value and where it came from", 'c',
      print_settings },
};

static void usage(FILE *out)
{
    fprintf(out, "usage: amphora-info [OPTION]...\nWithout options everything but the settings.\n");
    for (size_t i = 0; i < AMPH_COUNTOF(parts); i++)
        fprintf(out, "  -%c, --%-10s %s\n", parts[i].letter, parts[i].name, parts[i].help);

    fprintf(out, "  -h, --help       this text\n");
}

int main(int argc, char **argv)
{
    struct option options[AMPH_COUNTOF(parts) + 2] = { { "help", no_argument, NULL, 'h' } };
    char letters[AMPH_COUNTOF(parts) + 2] = "h";

    amph_stdout_check();

    for (size_t i = 0; i < AMPH_COUNTOF(parts); i++) {
        options[i + 1] = (struct option){ parts[i].name, no_argument, NULL, parts[i].letter };
        letters[i + 1] = parts[i].letter;
    }

    int letter;
    int printed = 0;

    opterr = 0; /* what is wrong is said below */
    while ((letter = getopt_long_only(argc, argv, letters, options, NULL)) != -1) {
        if (letter == 'h') {
            usage(stdout);
            return 0;
        }

        if (letter == '?') {
            fprintf(stderr,
                    "amphora-info: there is no option \"%s\"; amphora-info -h lists those that "
                    "there are\n",
                    argv[optind - 1]);
            return 2;
        }

        for (size_t i = 0; i < AMPH_COUNTOF(parts); i++)
            if (parts[i].letter == letter)
                parts[i].print(), printed++;
    }

    if (optind < argc) {
        fprintf(stderr, "amphora-info: what is \"%s\"? It takes options only.\n", argv[optind]);
        return 2;
    }

    for (size_t i = 0; !printed && i + 1 < AMPH_COUNTOF(parts); i++) {
        printf("%s%s\n", i ? "\n" : "", parts[i].title);
        parts[i].print();
    }

    return 0;
}
