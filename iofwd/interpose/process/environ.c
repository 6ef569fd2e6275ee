/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the environment of a program that this one starts, so that its file calls are forwarded too.
 *
 * Layer: iofwd (interposer).  Thread rule: as execve.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings/env_defs.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/libc/kept.h"
#include "iofwd/interpose/loader/elf_deps.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/process/bypass.h"
#include "iofwd/interpose/process/start.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/process/state.h"

#define CWD_NAME AMPH_PRIVATE_CWD
#define OWN_LIBRARY "libiofwd_preload"
#define OWN_MESSAGES "libiofwd_messages"

struct amph_ip_process_state amph_ip_process = {
    .mpi_job = { .pmi_fd = -1 },
    .shells = { .lock = PTHREAD_MUTEX_INITIALIZER },
    .actions = { .lock = PTHREAD_MUTEX_INITIALIZER },
};

static size_t name_len(const char *entry)
{
    return strcspn(entry, "=");
}

bool amph_ip_env_is(const char *entry, const char *name)
{
    size_t len = strlen(name);
    return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

/* Is it a launcher's setting for this process only? */
static bool is_own(const char *entry)
{
    static const char *const ranks[] = { "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID" };
    bool own = strncmp(entry, "PMI_", 4) == 0;

    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        own = own || amph_ip_env_is(entry, ranks[i]);

    return own;
}

/* Keeps only this library, and libiofwd_messages, of a preload list: whether to pass on the others is
 * the program's decision. */
static char *own_preload(const char *entry)
{
    size_t room = strlen(entry) + 1;
    char *own = amph_ip_keep_bytes(room);
    int n = 0;

    for (const char *at = entry + sizeof "LD_PRELOAD=" - 1; own && *at; at += *at != 0) {
        size_t len = strcspn(at, " :");

        if (memmem(at, len, OWN_LIBRARY, sizeof OWN_LIBRARY - 1) ||
            memmem(at, len, OWN_MESSAGES, sizeof OWN_MESSAGES - 1))
            n += snprintf(own + n, room - (size_t)n, "%s%.*s", n ? ":" : "LD_PRELOAD=", (int)len,
                          at);

        at += len;
    }

    return n ? own : NULL;
}

/* A program that was linked with the interposer needs no preload list; what it starts does. */
static void keep_own_preload(void)
{
    const char *library = amph_ip_library_path();
    size_t room = library ? sizeof "LD_PRELOAD=" + strlen(library) : 0;
    char *entry = library && amph_ip_process.nkept < AMPH_IP_ENV_KEPT ? amph_ip_keep_bytes(room)
                                                                      : NULL;

    if (entry) {
        snprintf(entry, room, "LD_PRELOAD=%s", library);
        amph_ip_process.kept[amph_ip_process.nkept++] = entry;
    }

    amph_ip_process.linked = library;
    amph_ip_process.lost_library = !library && amph_ip_client_is_linked;
}

/* What iofwd-instrument has baked into the program: the C library's own starts (system, popen) take the
 * environment as it is. */
static void give_settings(void)
{
    char name[64];

    for (size_t i = 0; i < amph_ip_process.nkept; i++) {
        const char *entry = amph_ip_process.kept[i];
        size_t len = name_len(entry);
        bool setting = strncmp(entry, "AMPHORA_", 8) == 0 || strncmp(entry, "IOFWD_", 6) == 0;

        if (!setting || !entry[len] || len >= sizeof name)
            continue;

        memcpy(name, entry, len);
        name[len] = 0;
        setenv(name, entry + len + 1, 0);
    }
}

void amph_ip_environment_preload(void)
{
    char *list = NULL;

    for (char **e = amph_ip_process.linked ? environ : NULL; e && *e && !list; e++)
        if (amph_ip_env_is(*e, "LD_PRELOAD") && (*e)[sizeof "LD_PRELOAD"] &&
            asprintf(&list, "%s:%s", amph_ip_process.linked, *e + sizeof "LD_PRELOAD") < 0)
            return;

    if (amph_ip_process.linked) {
        setenv("LD_PRELOAD", list ? list : amph_ip_process.linked, 1);
        give_settings();
    }

    free(list);
}

void amph_ip_environment_keep(char **env)
{
    bool preloaded = false;

    for (; env && *env && amph_ip_process.nkept < AMPH_IP_ENV_KEPT; env++) {
        if (amph_ip_env_is(*env, CWD_NAME) || amph_ip_env_is(*env, AMPH_PRIVATE_NEAR) ||
            amph_ip_env_is(*env, AMPH_IP_LOCKS_NAME) ||
            amph_ip_env_is(*env, AMPH_IP_ELF_DEPS_SETTING) ||
            amph_ip_env_is(*env, AMPH_PRIVATE_REPORTED))
            continue;

        if (amph_ip_env_is(*env, "LD_PRELOAD")) {
            amph_ip_process.kept[amph_ip_process.nkept] = own_preload(*env);
            preloaded = preloaded || amph_ip_process.kept[amph_ip_process.nkept];
            amph_ip_process.nkept += amph_ip_process.kept[amph_ip_process.nkept] != NULL;
        } else if (strncmp(*env, "AMPHORA_", 8) == 0 || strncmp(*env, "IOFWD_", 6) == 0 ||
                   is_own(*env))
            amph_ip_process.nkept +=
                (amph_ip_process.kept[amph_ip_process.nkept] = amph_ip_keep_text(*env)) != NULL;
    }

    if (!preloaded)
        keep_own_preload();

    if (amph_ip_bypass_setting()[0] && amph_ip_process.nkept < AMPH_IP_ENV_KEPT)
        amph_ip_process.kept[amph_ip_process.nkept++] = (char *)amph_ip_bypass_setting();
}

char *const *amph_ip_environment_kept(void)
{
    return amph_ip_process.kept;
}

static bool has_name_of(char *const *env, size_t n, const char *entry)
{
    size_t len = name_len(entry) + 1;

    for (size_t i = 0; i < n; i++)
        if (strncmp(env[i], entry, len) == 0)
            return true;

    return false;
}

/* The program has a preload list of its own: ours goes before it, unless it is in it already. */
static char *preload_entry(char *theirs, struct amph_ip_env_room *room)
{
    const char *ours = NULL;

    for (size_t i = 0; i < amph_ip_process.nkept; i++)
        if (amph_ip_env_is(amph_ip_process.kept[i], "LD_PRELOAD"))
            ours = amph_ip_process.kept[i];

    if (!ours || strstr(theirs, OWN_LIBRARY))
        return theirs;

    int n = snprintf(room->preload, sizeof room->preload, "%s:%s", ours,
                     theirs + sizeof "LD_PRELOAD=" - 1);

    return n > 0 && (size_t)n < sizeof room->preload ? room->preload : theirs;
}

size_t amph_ip_env_entries(char *const list[])
{
    size_t n = 0;

    while (list && list[n])
        n++;

    return n;
}

/* Is it a setting for one program only? */
static bool is_for_one(const char *entry)
{
    return amph_ip_env_is(entry, CWD_NAME) || amph_ip_env_is(entry, AMPH_IP_CLIENT_NAME) ||
           amph_ip_env_is(entry, AMPH_PRIVATE_NEAR) || amph_ip_env_is(entry, AMPH_IP_LOCKS_NAME) ||
           amph_ip_env_is(entry, AMPH_IP_ELF_DEPS_SETTING) ||
           amph_ip_env_is(entry, AMPH_PRIVATE_REPORTED);
}

bool amph_ip_env_leaves(char *const env[])
{
    return has_name_of(env, amph_ip_env_entries(env), AMPH_PRIVATE_LEFT "=");
}

/* The copy stays in memory: the process becomes another program, or starts few. */
char *const *amph_ip_env_plain(char *const envp[])
{
    static const char name[] = "IOFWD_PREFIX";
    static const char none[] = "IOFWD_PREFIX=";

    if (AMPH_LIKELY(!amph_ip_state.left_local) || !envp)
        return envp;

    size_t n = amph_ip_env_entries(envp);
    char **copy = malloc((n + 1) * sizeof *copy);

    if (!copy)
        return envp;

    for (size_t i = 0; i <= n; i++)
        copy[i] = envp[i] && amph_ip_env_is(envp[i], name) ? (char *)none : envp[i];

    return copy;
}

void amph_ip_env_make(char *const envp[], char **out, struct amph_ip_env_room *room,
                      bool same_process)
{
    bool leaves = amph_ip_env_leaves(envp);
    size_t n = 0;

    if (same_process)
        amph_ip_maps_flush(NULL);

    for (; envp && *envp; envp++) {
        if (is_for_one(*envp))
            continue;

        bool adds = !leaves && amph_ip_env_is(*envp, "LD_PRELOAD");

        out[n++] = adds ? preload_entry(*envp, room) : *envp;
    }

    if (leaves) {
        out[n] = NULL;
        return;
    }

    for (size_t i = 0; i < amph_ip_process.nkept; i++)
        if (!amph_ip_env_is(amph_ip_process.kept[i], AMPH_IP_CLIENT_NAME) &&
            !is_own(amph_ip_process.kept[i]) && !has_name_of(out, n, amph_ip_process.kept[i]))
            out[n++] = amph_ip_process.kept[i];

    if (amph_ip_cwd()->name) {
        amph_ip_cwd_to_kernel();
        snprintf(room->cwd, sizeof room->cwd, CWD_NAME "=%d:%s", amph_ip_cwd()->fd,
                 amph_ip_cwd()->name);
        out[n++] = room->cwd;
    }

    strcpy(room->near, AMPH_PRIVATE_NEAR "=");

    size_t at = strlen(room->near);

    if (amph_ip_near_list(room->near + at, sizeof room->near - at))
        out[n++] = room->near;

    const char *own = amph_ip_client.loaded ? amph_ip_client.fwd.own_env() : NULL;

    if (own && !has_name_of(out, n, own))
        out[n++] = (char *)own;

    out[n] = NULL;
}
