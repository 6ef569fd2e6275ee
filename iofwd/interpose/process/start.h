/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting a program file that may be forwarded (start.c), and what its environment must hold (environ.c).  Layer: iofwd (preload). */
#ifndef AMPH_IOFWD_START_H
#define AMPH_IOFWD_START_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* One way to start a program; path is the C library's to open.  0, or -1 with errno. */
typedef int (*fwd_start_fn)(void *how, const char *path, char *const argv[], char **env);

/* Starts path, which may lie under a prefix.  env: as fwd_env_make gave it. */
int fwd_start_program(const char *path, char *const argv[], char **env, fwd_start_fn start, void *how);
/* A local program, too, gets libraries from forwarded directories in this environment: it is for fwd_start_program. */
bool fwd_start_has_libraries(char *const *env);
/* Nothing can be loaded into this program file.  Keeps errno. */
bool fwd_is_static_at(const char *path);

#define FWD_ENV_KEPT 64
#define FWD_ENV_EXTRA (FWD_ENV_KEPT + 7) /* entries; two are for the copies of libraries */
struct fwd_env_room {
    char door[512], cwd[PATH_MAX + 64], preload[2 * PATH_MAX], locks[1024];
};
size_t fwd_env_entries(char *const list[]); /* of argv, too */
bool fwd_env_is(const char *entry, const char *name);
/* Fills out (room for fwd_env_entries(envp) + FWD_ENV_EXTRA) with envp and what has to be in it; room lives as long as out. */
void fwd_env_make(char *const envp[], char **out, struct fwd_env_room *room, bool same_process);

#endif
