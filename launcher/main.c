/* SPDX-License-Identifier: BSD-3-Clause */
/* amphora-run: starts a job of compute processes and I/O servers.  Layer: launcher. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/env.h"
#include "launcher/launch.h"
#include "launcher/say.h"

enum { NOT_FOUND = 127 };

/* Descriptors 0 to 2 must be open, else something of ours would take their place. */
static void open_standard(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= 2)
        ;
    if (fd > 2)
        close(fd);
}

/* Puts the found file in front of the program's own words: { file, name as given, arguments, NULL }. */
static int find_program(struct amph_options *o)
{
    char *path;
    size_t n = 0;
    int code = amph_program_find(o->program[0], &path);
    if (code)
        return code;
    while (o->program[n])
        n++;
    char **words = calloc(n + 2, sizeof *words);
    if (!words)
        return 1;
    words[0] = path;
    for (size_t i = 0; i < n; i++)
        words[i + 1] = o->program[i];
    o->program = words;
    return 0;
}

static int find_server(struct amph_options *o)
{
    char *path;
    if (o->nservers == 0)
        return 0;
    if (o->server_program) {
        int code = amph_program_find(o->server_program, &path);
        if (code == 0)
            o->server_program = path;
        return code;
    }
    if ((o->server_program = amph_program_own("iofwd-server")))
        return 0;
    amph_say("the program iofwd-server is found neither beside amphora-run nor in %s; install amphora anew, or give "
             "-server-program",
             AMPH_BINDIR);
    return NOT_FOUND;
}

int main(int argc, char **argv)
{
    static struct amph_options o; /* what it leads to is needed to the end */
    open_standard();
    switch (amph_options_read(&o, argc, argv)) {
    case AMPH_OPTIONS_DONE:
        return 0;
    case AMPH_OPTIONS_WRONG:
        return 1;
    case AMPH_OPTIONS_RUN:
        break;
    }
    int code = find_program(&o);
    if (code == 0)
        code = find_server(&o);
    if (code == 0)
        code = amph_launch_run(&o);
    if (amph_env_bool(AMPH_ENV_STATS))
        amph_counters_print(stderr);
    return code;
}
