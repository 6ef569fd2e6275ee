/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The folder of -record and -trace; see record_dir.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/common/record_dir.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/settings/env_parse.h"
#include "launcher/common/message.h"

static bool ends_in(const char *name, const char *end)
{
    size_t len = strlen(name);
    size_t end_len = strlen(end);

    return len > end_len && strcmp(name + len - end_len, end) == 0;
}

/* As iofwd/trace/format.h names them. */
static bool is_record(const struct dirent *d)
{
    return ends_in(d->d_name, ".trace") || ends_in(d->d_name, ".tracez");
}

/* The ranks of a job, and what a recorded program starts, share a folder. */
static bool shares_folder(const char *path)
{
    static const enum amph_env_id ranks[] = { AMPH_ENV_RANK, AMPH_ENV_PMIX_RANK, AMPH_ENV_PMI_RANK,
                                              AMPH_ENV_OMPI_RANK, AMPH_ENV_SLURM_PROCID };

    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        if (amph_env_is_set(ranks[i]))
            return true;

    return strcmp(amph_env_str(AMPH_ENV_IOFWD_TRACE_DIR), path) == 0;
}

static void look_for_earlier(const char *option, const char *dir, const char *path)
{
    DIR *d = shares_folder(path) ? NULL : opendir(path);
    const struct dirent *e;

    while (d && (e = readdir(d)))
        if (is_record(e)) {
            amph_say("-%s %s: records of an earlier run are there; iofwd-trace counts both runs "
                     "together, unless you remove them or name another folder",
                     option, dir);
            break;
        }

    if (d)
        closedir(d);
}

bool amph_record_dir(const char *option, const char *dir)
{
    const char *kinds = amph_env_str(AMPH_ENV_IOFWD_RECORD);
    const char *wrong;
    char path[PATH_MAX];
    struct stat st;
    bool ok = (mkdir(dir, 0777) == 0 || errno == EEXIST) && realpath(dir, path) &&
              stat(path, &st) == 0 && access(path, W_OK) == 0;

    if (ok && !S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        ok = false;
    }

    if (!ok) {
        amph_say("-%s %s: records cannot be written there: %s", option, dir, strerror(errno));
        return false;
    }

    amph_record_kinds(kinds, &wrong);
    if (wrong) {
        amph_say("IOFWD_RECORD=%s: %.*s is none of am, rma and coll", kinds,
                 (int)strcspn(wrong, ","), wrong);
        return false;
    }

    look_for_earlier(option, dir, path);
    if (setenv(amph_env_name(AMPH_ENV_IOFWD_TRACE_DIR), path, 1) != 0)
        return false;

    amph_env_reload();
    return true;
}
