/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start of the preload library: reads what the launcher left in the environment and switches forwarding on, last of all.
 * Layer: iofwd (preload).  Thread rule: runs once, before main.
 *
 * A program that touches no prefix pays for what happens here and for nothing else, so libamphora with its registry of settings is not
 * there yet: the four settings that matter now are looked up in the environment that the dynamic linker passes.
 */
#include "iofwd/preload/catch.h"
#include "iofwd/preload/names.h"
#include "iofwd/preload/targets.h"

static const char *setting(char **env, const char *name)
{
    size_t len = strlen(name);
    for (; env && *env; env++)
        if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
            return *env + len + 1;
    return NULL;
}

static void refuse(const char *value, const char *why)
{
    char line[512];
    int n = snprintf(line, sizeof line, "amphora: IOFWD_PREFIX=\"%.300s\" is not allowed: %s; nothing is forwarded\n", value, why);
    (void)!real_write(2, line, (size_t)n);
}

/* The program before this one left us in a forwarded directory, unless something between has gone elsewhere. */
static void restore_cwd(char **env)
{
    char real[PATH_MAX];
    const char *cwd = setting(env, "IOFWD_PRIVATE_CWD");
    if (cwd && fwd_prefix_match(&fwd_state.prefixes, cwd) && !real_getcwd(real, sizeof real) && errno == ENOENT)
        fwd_state.cwd = strdup(cwd);
}

const char fwd_init_linked = 1;

static void __attribute__((constructor)) start(int argc, char **argv, char **env)
{
    const char *prefixes = setting(env, "IOFWD_PREFIX"), *optional = setting(env, "IOFWD_OPTIONAL"), *why;
    int saved = errno;
    if (!prefixes || !prefixes[0])
        return;
    if (optional && strchr("1yYtT", optional[0]) && optional[0] && !setting(env, "AMPHORA_JOB") &&
        !setting(env, "IOFWD_SERVER_HOST") && !setting(env, "IOFWD_PRIVATE_SERVERS"))
        return;
    if (!fwd_prefix_parse(&fwd_state.prefixes, prefixes, &why)) {
        refuse(prefixes, why);
        return;
    }
    if (!fwd_state.prefixes.count)
        return;
    mode_t mask = real_umask(0);
    real_umask(mask);
    fwd_state.umask = mask;
    fwd_environment_keep(env);
    restore_cwd(env);
    fwd_state.on = true;
    for (int fd = 0; fd < 3; fd++)
        if (fwd_fd(fd))
            fwd_stream_landed(fd);
    errno = saved;
}
