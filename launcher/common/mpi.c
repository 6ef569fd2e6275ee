/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects programs of Open MPI; see mpi.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 *
 * A library often hides MPI from the program's own headers, so the dynamic linker is asked for all
 * libraries that it would load (ld.so --list), which takes about a millisecond.
 */
#include "launcher/common/mpi.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/program/open_mpi.h"
#include "launcher/common/message.h"
#include "launcher/common/program.h"

extern char **environ;

/* Starts "LINKER --list PROGRAM".  Returns its output, or NULL. */
static FILE *open_list(const struct amph_image *image, pid_t *pid_p)
{
    char *argv[] = { (char *)image->linker, (char *)"--list", (char *)image->path, NULL };
    posix_spawn_file_actions_t actions;
    int pipe_fds[2];

    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return NULL;

    posix_spawn_file_actions_init(&actions);

    /* without memory for them, the list would be output of the job */
    int error = posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);

    if (!error)
        error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!error)
        error = posix_spawn(pid_p, argv[0], &actions, NULL, argv, environ);

    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);

    FILE *out = error ? NULL : fdopen(pipe_fds[0], "r");

    if (!out)
        close(pipe_fds[0]);

    if (!out && !error)
        waitpid(*pid_p, NULL, 0);

    return out;
}

static bool loads_open_mpi(const struct amph_image *image)
{
    struct amph_open_mpi found = { false, false };
    char line[4096], name[256];
    pid_t pid;
    FILE *list = open_list(image, &pid);

    if (!list)
        return false;

    while (fgets(line, sizeof line, list))
        if (sscanf(line, " %255s", name) == 1)
            amph_open_mpi_take(&found, name);

    fclose(list);
    waitpid(pid, NULL, 0);
    return amph_open_mpi_is(&found);
}

bool amph_mpi_can_start(const char *path, uint32_t nprocs)
{
    struct amph_image image;
    char why[AMPH_OPEN_MPI_WHY_BYTES];

    if (nprocs < 2 || amph_env_bool(AMPH_ENV_MPI_SINGLETONS))
        return true;

    amph_image_of(path, &image);
    if (!image.linker[0] || !loads_open_mpi(&image))
        return true;

    amph_say("%s", amph_open_mpi_explain(image.path, nprocs, why));
    return false;
}
