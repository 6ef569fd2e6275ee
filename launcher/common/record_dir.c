/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The folder of -record and -trace; see record_dir.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/common/record_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/settings/env_parse.h"
#include "launcher/common/message.h"

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

    if (setenv(amph_env_name(AMPH_ENV_IOFWD_TRACE_DIR), path, 1) != 0)
        return false;

    amph_env_reload();
    return true;
}
