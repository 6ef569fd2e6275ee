/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting a program file that may be forwarded (start.c), and what its environment must hold
 * (environ.c).
 *
 * Layer: iofwd (interposer).
 */
#ifndef AMPH_IOFWD_START_H
#define AMPH_IOFWD_START_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* One way to start a program; path is for the C library to open.  Returns 0, or -1 with errno. */
typedef int (*amph_ip_start_fn)(void *how, const char *path, char *const argv[], char **env);

/* Starts path, which may lie below a prefix.  env: made by amph_ip_env_make. */
int amph_ip_start_program(const char *path, char *const argv[], char **env, amph_ip_start_fn start,
                          void *how);
/* Local programs need it too if this environment gives them libraries from forwarded directories:
 * use amph_ip_start_program. */
bool amph_ip_start_has_libraries(char *const *env);

#define AMPH_IP_CLIENT_NAME "IOFWD_PRIVATE_CLIENT"
#define AMPH_IP_ENV_KEPT 64
#define AMPH_IP_ENV_EXTRA (AMPH_IP_ENV_KEPT + 8) /* entries; two are for the copies of libraries */
struct amph_ip_env_room {
    char cwd[PATH_MAX + 64], preload[2 * PATH_MAX], near[1024];
};

size_t amph_ip_env_entries(char *const list[]); /* also for argv */
bool amph_ip_env_is(const char *entry, const char *name);
/* Is this the environment of a program that leaves the preload library (base/program/leave_preload.h)?
 * It gets nothing from this process. */
bool amph_ip_env_leaves(char *const env[]);

/* Fills out (with room for amph_ip_env_entries(envp) + AMPH_IP_ENV_EXTRA entries) with envp and the
 * settings that the program needs.  room must live as long as out. */
/* The environment of a program that this one starts while it forwards nothing.  It says so where
 * IOFWD_OPTIONAL has turned forwarding off; else it is envp. */
char *const *amph_ip_env_plain(char *const envp[]);
void amph_ip_env_make(char *const envp[], char **out, struct amph_ip_env_room *room,
                      bool same_process);

#endif
