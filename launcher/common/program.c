/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds programs, and explains why one cannot be executed; see program.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/log.h"
#include "base/settings/env.h"
#include "base/settings/env_parse.h"
#include "base/program/program_image.h"
#include "launcher/common/program.h"
#include "launcher/common/message.h"

enum {
    LOG_ERROR = 1 /* the index of the word "error" of AMPHORA_LOG */
};

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int check(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0) {
        int code = errno == ENOENT || errno == ENOTDIR ? AMPH_PROGRAM_NOT_FOUND
                                                       : AMPH_PROGRAM_NOT_EXECUTABLE;

        amph_say("cannot start %s: %m", path);
        return code;
    }

    if (S_ISDIR(st.st_mode)) {
        amph_say("cannot start %s: it is a directory", path);
        return AMPH_PROGRAM_NOT_EXECUTABLE;
    }

    if (access(path, X_OK) < 0) {
        amph_say("cannot start %s: it is not executable (chmod +x changes that)", path);
        return AMPH_PROGRAM_NOT_EXECUTABLE;
    }

    return 0;
}

char *amph_program_search(const char *name, const char *dirs)
{
    for (const char *at = dirs ? dirs : "/usr/local/bin:/usr/bin:/bin"; *at;) {
        char path[4096];
        int len = (int)strcspn(at, ":");

        snprintf(path, sizeof path, "%.*s/%s", len ? len : 1, len ? at : ".", name);
        if (is_file(path) && access(path, X_OK) == 0)
            return strdup(path);

        at += len + (at[len] == ':');
    }

    return NULL;
}

int amph_program_find(const char *name, char **path_p)
{
    if (!name[0]) {
        amph_say("the name of the program is empty");
        return AMPH_PROGRAM_NOT_FOUND;
    }

    if (strchr(name, '/')) {
        int code = check(name);

        if (code == 0 && !(*path_p = strdup(name)))
            amph_fatal("there is no memory for the name of %s", name);

        return code;
    }

    errno = 0;
    if ((*path_p = amph_program_search(name, amph_env_foreign("PATH"))))
        return 0;

    if (errno == ENOMEM)
        amph_fatal("there is no memory for the name of %s", name);

    amph_say("there is no program %s in the directories of PATH%s", name,
             is_file(name) ? "; write ./ in front of one in this directory" : "");
    return AMPH_PROGRAM_NOT_FOUND;
}

/* ---- what it is ---- */

bool amph_program_warn(const struct amph_image *image, const char *more)
{
    bool strict = amph_env_bool(AMPH_ENV_IOFWD_STRICT);
    const char *between = more[0] ? "; " : "";
    char why[2048];

    amph_image_explain(image, why, sizeof why);
    if (strict)
        amph_say("%s%s%s (refused by IOFWD_STRICT)", why, between, more);
    else if (amph_env_enum(AMPH_ENV_LOG) != LOG_ERROR)
        amph_say("warning: %s%s%s", why, between, more);

    return !strict;
}

void amph_program_warn_record(const char *path)
{
    struct amph_image image;
    char why[2048];

    amph_image_of(path, &image);
    if (amph_image_explain_record(&image, why, sizeof why) > 0 &&
        amph_env_enum(AMPH_ENV_LOG) != LOG_ERROR)
        amph_say("warning: %s", why);
}

bool amph_program_may_forward(const char *path)
{
    struct amph_image image;

    amph_image_of(path, &image);
    return !amph_image_evades(&image) || amph_program_warn(&image, "");
}

/* ---- why not ---- */

int amph_program_explain(const char *path, const char *host, int error)
{
    struct amph_image image, own;

    if (host) { /* the file of that name on this host is not relevant */
        amph_say("cannot start %s on host %s: %s; the host file may give each host its own "
                 "(program=, server-program=)",
                 path, host,
                 error == ENOEXEC ? "it is not built for that machine" : strerror(error));
        return error == ENOENT ? AMPH_PROGRAM_NOT_FOUND : AMPH_PROGRAM_NOT_EXECUTABLE;
    }

    struct utsname u = { .machine = "" };

    uname(&u);
    amph_image_of(path, &image);
    amph_image_of("/proc/self/exe", &own);

    bool is_elf = image.machine != 0;

    if (error == ENOEXEC && is_elf && image.machine == own.machine)
        amph_say("cannot start %s: the file is damaged or incomplete; build or copy it again",
                 image.path);
    else if (error == ENOEXEC && is_elf)
        amph_say("cannot start %s: it is built for %s, and this machine (%s) cannot run it; build "
                 "it for this one",
                 image.path, amph_image_machine_name(image.machine), u.machine);
    else if (error == ENOEXEC)
        amph_say("cannot start %s: it is neither a program nor a script that starts with \"#!\"",
                 path);
    else if (error == ENOENT && is_file(path))
        amph_say("cannot start %s: the interpreter or loader that it names does not exist", path);
    else
        amph_say("cannot start %s: %s%s", path, strerror(error),
                 error == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");

    return error == ENOENT && !is_file(path) ? AMPH_PROGRAM_NOT_FOUND : AMPH_PROGRAM_NOT_EXECUTABLE;
}

/* ---- of this installation ---- */

/* Is the path, of n bytes, that of one of our libraries? */
static bool is_ours(const char *path, size_t n)
{
    static const char *const ours[] = { AMPH_PRELOAD_NAME, AMPH_MESSAGES_NAME };
    const char *slash = memrchr(path, '/', n);
    const char *name = slash ? slash + 1 : path;
    size_t len = (size_t)(path + n - name);

    for (size_t i = 0; i < AMPH_COUNTOF(ours); i++)
        if (strlen(ours[i]) == len && strncmp(name, ours[i], len) == 0)
            return true;

    return false;
}

bool amph_program_can_preload(const char *path)
{
    struct amph_image library;

    if (path[strcspn(path, ": ")]) {
        amph_say(
            "the library %s, which forwards file calls, cannot be preloaded, because LD_PRELOAD "
            "takes no path with a blank or a colon; install amphora at another path",
            path);
        return false;
    }

    if (access(path, R_OK) != 0) {
        amph_say("the library %s, which forwards file calls, cannot be read: %s", path,
                 strerror(errno));
        return false;
    }

    amph_image_of(path, &library);
    if (library.machine && library.kind != AMPH_IMAGE_OTHER_MACHINE && !library.damaged)
        return true;

    amph_say("the library %s, which forwards file calls, is damaged or not built for this machine; "
             "install amphora again",
             path);
    return false;
}

char *amph_program_preload_list(const char *add)
{
    const char *now = amph_env_foreign("LD_PRELOAD");
    char *text = NULL;
    size_t len = 0;
    bool ok = true;
    FILE *out = open_memstream(&text, &len);

    if (!out)
        return NULL;

    for (const char *at = now ? now : ""; *at;) {
        size_t n = strcspn(at, ": ");

        if (n && !is_ours(at, n))
            ok &= fprintf(out, "%s%.*s", ftell(out) ? ":" : "", (int)n, at) >= 0;

        at += n + (at[n] != 0);
    }

    if (add)
        ok &= fprintf(out, "%s%s", ftell(out) ? ":" : "", add) >= 0;
    if (add && amph_record_kinds(amph_env_str(AMPH_ENV_IOFWD_RECORD), NULL))
        ok &= fprintf(out, ":%.*s" AMPH_MESSAGES_NAME,
                      (int)(strlen(add) - strlen(AMPH_PRELOAD_NAME)), add) >= 0;

    /* a list without our library would have the program's calls not forwarded */
    if (fclose(out) == 0 && ok)
        return text;

    free(text);
    return NULL;
}

static char *join(const char *dir, const char *between, const char *name)
{
    char *path;

    if (asprintf(&path, "%s/%s%s", dir, between, name) < 0)
        amph_fatal("there is no memory for the name of %s", name);
    if (is_file(path))
        return path;

    free(path);
    return NULL;
}

/* Returns the directory of the running amphora-run.  In a build tree that is libtool's ".libs", which
 * contains the real files. */
static bool own_directory(char *dir, size_t cap)
{
    ssize_t n = readlink("/proc/self/exe", dir, cap - 1);

    if (n <= 0)
        return false;

    dir[n] = 0;

    char *slash = strrchr(dir, '/');
    if (!slash)
        return false;

    *slash = 0;
    return true;
}

char *amph_program_own(const char *name)
{
    char dir[4096];
    char *path = own_directory(dir, sizeof dir) ? join(dir, "", name) : NULL;

    if (!path && strrchr(dir, '/') && strcmp(strrchr(dir, '/'), "/.libs") == 0)
        path = join(dir, "../", name); /* a program without a libtool wrapper is outside ".libs" */

    return path ? path : join(AMPH_BINDIR, "", name);
}

char *amph_program_library(const char *name)
{
    char dir[4096];
    char *path = NULL;

    if (own_directory(dir, sizeof dir)) {
        bool build = strrchr(dir, '/') && strcmp(strrchr(dir, '/'), "/.libs") == 0;

        path = build ? join(dir, "", name) : join(dir, "../lib/amphora/", name);
        if (!path && !build) /* in a build tree, a program without a libtool wrapper */
            path = join(dir, ".libs/", name);
    }

    return path ? path : join(AMPH_MODULEDIR, "", name);
}
