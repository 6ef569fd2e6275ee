/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that become a job without a launcher, as with GASNet: smp programs with
 * GASNET_PSHM_NODES=N, and udp programs called as "PROGRAM N ARGUMENTS".  The process becomes the
 * launcher, which starts the program N times.  Layer: extended.  Thread rule: during
 * initialisation.
 */
#include <dlfcn.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/log.h"
#include "boot/boot.h"
#include "conduits/conduit.h"
#include "extended/gex.h"

enum {
    PROCESSES_MAX = 1000000
};

/* Finds this installation's launcher for a conduit: beside libamphora's directory (installed, or
 * in the build tree), or in the configured directory. */
static bool find_launcher(const char *conduit, char *path, size_t cap)
{
    char self[4096];
    Dl_info info;
    bool found = false;

    if (dladdr((void *)(uintptr_t)amph_gex_segment_attach, &info) && info.dli_fname) {
        snprintf(self, sizeof self, "%s", info.dli_fname);

        const char *dir = dirname(self);

        snprintf(path, cap, "%s/../bin/gasnetrun_%s", dir, conduit);
        found = access(path, X_OK) == 0;

        if (!found) {
            snprintf(path, cap, "%s/../dropin/gasnetrun_%s", dir, conduit);
            found = access(path, X_OK) == 0;
        }
    }

    if (found)
        return true;

    snprintf(path, cap, AMPH_BINDIR "/gasnetrun_%s", conduit);
    return access(path, X_OK) == 0;
}

/* Parses a number of processes ("4").  Returns 0 if text is not such a number. */
static uint32_t count_of(const char *text)
{
    char *end;
    long n = text && *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : 0;

    return n > 0 && n <= PROCESSES_MAX && !*end ? (uint32_t)n : 0;
}

/* What stands after the program's name.  list: NULL if nobody has said it. */
struct args {
    char **list;
    size_t count;
};

/* The client's.  Many make them up for gasnet_init, without the NULL at their end. */
static struct args args_of_client(const int *argc, char ***argv)
{
    struct args args = { NULL, 0 };

    if (!argc || !argv || !*argv || *argc < 1)
        return args;

    args.list = *argv + 1;
    while (args.count + 1 < (size_t)*argc && args.list[args.count])
        args.count++;

    return args;
}

/* The kernel's, for clients that have none (a Fortran program's main() is not the runtime's).  They
 * are never freed: execv() follows. */
static struct args args_of_process(void)
{
    struct args args = { NULL, 0 };
    char *word = NULL;
    size_t cap = 0;
    FILE *file = fopen("/proc/self/cmdline", "re");

    /* the first word is the program's name */
    bool named = file && getdelim(&word, &cap, 0, file) >= 0;

    for (word = NULL, cap = 0; named && getdelim(&word, &cap, 0, file) >= 0; word = NULL, cap = 0) {
        char **list = realloc(args.list, (args.count + 1) * sizeof *list);

        if (!list)
            amph_fatal("there is no memory left for this program's arguments");

        args.list = list;
        args.list[args.count++] = word;
    }

    if (file)
        fclose(file);

    return args;
}

/* Becomes the launcher of `count` processes of this program with these arguments. */
static void become_job(const char *conduit, uint32_t count, struct args args)
{
    char launcher[4300], number[16], program[4096];
    size_t used = 0;
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);

    if (len < 0 || !find_launcher(conduit, launcher, sizeof launcher))
        amph_fatal(
            "this program cannot become a job of %u processes: %s; start it by amphora-run -n %u",
            count,
            len < 0 ? "/proc is not mounted" : "its launcher is not installed beside the library",
            count);

    program[len] = 0;
    snprintf(number, sizeof number, "%u", count);

    char **words = calloc(args.count + 6, sizeof *words);

    if (!words)
        amph_fatal("there is no memory left to start %u processes", count);

    words[used++] = launcher;
    words[used++] = (char *)"-n";
    words[used++] = number;
    words[used++] = (char *)"--";
    words[used++] = program;
    for (size_t i = 0; i < args.count; i++)
        words[used++] = args.list[i];

    execv(launcher, words);
    amph_fatal("cannot start %s: %s", launcher, strerror(errno));
}

static void start_by_setting(const char *conduit, struct args args)
{
    uint32_t count = (uint32_t)amph_env_int(AMPH_ENV_PSHM_NODES);

    /* a program started without a launcher is one process anyway */
    if (count > 1)
        become_job(conduit, count, args.list ? args : args_of_process());
}

static void start_by_argument(const char *conduit, struct args args)
{
    uint32_t count = args.count ? count_of(args.list[0]) : 0;

    if (count)
        become_job(conduit, count, (struct args){ args.list + 1, args.count - 1 });
}

static void (*const starts[])(const char *conduit, struct args args) = {
    [AMPH_SELF_START_SETTING] = start_by_setting,
    [AMPH_SELF_START_ARGUMENT] = start_by_argument,
};

void amph_gex_start_by_itself(const int *argc, char ***argv)
{
    const char *built = amph_job.built_conduit;

    if (!built || !amph_boot_alone())
        return;

    enum amph_self_start how = amph_conduit_self_start(built);

    if (how != AMPH_SELF_START_NONE)
        starts[how](built, args_of_client(argc, argv));
}
