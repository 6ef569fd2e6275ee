/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job's private directory; see jobdir.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/master/jobdir.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auth.h"
#include "base/settings/env.h"
#include "base/log.h"

static bool is_directory(const char *path)
{
    struct stat st;
    return path && *path == '/' && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *amph_launch_jobdir_name(bool forwards)
{
    uint64_t number;
    char *path;
    const char *tmp = amph_env_str(AMPH_ENV_TMPDIR);

    if (!is_directory(tmp))
        tmp = amph_env_foreign("TMPDIR");

    /* a directory that does not exist here may be below a forwarded prefix */
    if (!tmp || *tmp != '/' || (forwards && !is_directory(tmp)))
        tmp = "/tmp";

    amph_random(&number, sizeof number);
    return asprintf(&path, "%s/amphora-%016" PRIx64, tmp, number) < 0 ? NULL : path;
}

enum amph_status amph_launch_jobdir_create(const char *path)
{
    if (mkdir(path, 0700) == 0)
        return AMPH_OK;

    amph_error(
        "cannot create the job's directory %s: %m; set TMPDIR to a directory that can be written",
        path);
    return AMPH_ERR_SYS;
}

void amph_launch_jobdir_remove(const char *path)
{
    DIR *d = opendir(path);

    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, AMPH_JOBDIR_FILE) == 0 ||
            strncmp(e->d_name, AMPH_LOG_SHARED_FILE, sizeof AMPH_LOG_SHARED_FILE - 1) == 0)
            unlinkat(dirfd(d), e->d_name, 0);

    if (d)
        closedir(d);

    rmdir(path);
}
