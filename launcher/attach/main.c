/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-run: attaches a program to running I/O servers (iofwd-server -daemon, or a job of
 * amphora-run) and executes it.  Where there is a quick start (quick/quick.h), this program is named
 * iofwd-attach, and iofwd-run executes it for what is not usual.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/clock.h"
#include "base/os/limits.h"
#include "base/program/leave_preload.h"
#include "base/program/stdout_check.h"
#include "base/settings/env.h"
#include "boot/control.h"
#include "boot/standing.h"
#include "iofwd/instrument/check.h"
#include "launcher/attach/exported.h"
#include "launcher/attach/options.h"
#include "launcher/attach/way.h"
#include "launcher/common/forwarded.h"
#include "launcher/common/message.h"
#include "launcher/common/record_pack.h"
#include "launcher/master/launch.h"

/* Where the program's I/O servers are. */
enum source {
    SERVERS_OF_FILE,  /* named by an address file: standing servers, or those of a job */
    SERVERS_OF_JOB,   /* the last processes of this job of another launcher */
    SERVER_OF_PROGRAM /* the program starts one itself (IOFWD_SERVER_HOST) */
};

/* -check: answers from the program's file.  Returns the exit code. */
static int check_program(const char *name)
{
    char *library = amph_program_library(AMPH_PRELOAD_NAME);
    char *program;
    int code = amph_program_find(name, &program);

    if (code != 0)
        return code;

    code = amph_check_print(stdout, program, library ? library : "");
    free(library);
    free(program);
    return code;
}

static bool wait_for_file(const char *path, double seconds)
{
    uint64_t deadline = amph_now_ns() + (uint64_t)(seconds * 1e9);
    struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };

    while (access(path, R_OK) != 0) {
        if (amph_now_ns() >= deadline) {
            amph_say("there is no address file %s: %s; start iofwd-server -daemon, name its file "
                     "by -servers, or allow time by -wait",
                     path, strerror(errno));
            return false;
        }

        nanosleep(&pause, NULL);
    }

    return true;
}

/* Sets the environment of the program from the address file. */
static bool take_file(const struct amph_attach_options *o, const char *path)
{
    struct amph_standing set = { .n = 0 };
    const char *prefixes = o->prefixes;

    if (amph_boot_standing_is(path)) {
        if (amph_boot_standing_read(path, &set) != AMPH_OK)
            return false;

        const char *missing = prefixes ? amph_attach_not_exported(prefixes, set.prefix) : NULL;

        if (missing) {
            amph_say(
                "-iofwd %.*s: the servers of %s export %s; name one of these, or a path below it",
                (int)strcspn(missing, ":"), missing, path, set.prefix);
            amph_boot_standing_free(&set);
            return false;
        }

        if (!prefixes)
            prefixes = set.prefix;

        unsetenv(amph_env_name(AMPH_ENV_RANK)); /* it may be set by an outer job */
    } else {
        struct amph_jobfile job;

        if (amph_boot_jobfile_read(path, &job) != AMPH_OK)
            return false;

        /* the address file of a job has no prefixes */
        if (!prefixes)
            prefixes = amph_env_str(AMPH_ENV_IOFWD_PREFIX);

        if (!prefixes[0]) {
            amph_say(
                "%s is the address file of a job: give the forwarded directory with -iofwd PREFIX",
                path);
            return false;
        }
    }

    bool ok = setenv(amph_env_name(AMPH_ENV_JOB), path, 1) == 0 &&
              setenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX), prefixes, 1) == 0;

    amph_boot_standing_free(&set);
    if (!ok)
        amph_say("there is no memory for the environment of the program");

    return ok;
}

/* Is this a process of a job of another launcher, whose last processes are iofwd-server?  Then the
 * program connects to them when it starts. */
static bool joins(struct amph_attach_options *o)
{
    if (o->file || !amph_boot_among_servers())
        return false;

    if (o->prefixes)
        setenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX), o->prefixes, 1);

    amph_env_reload();
    setenv("IOFWD_PRIVATE_PLAIN", "1", 1);
    return true;
}

/* The program starts a server of its own (IOFWD_SERVER_HOST), so it is attached to no others. */
static bool has_own_server(const struct amph_attach_options *o)
{
    if (o->file || !amph_env_str(AMPH_ENV_IOFWD_SERVER_HOST)[0])
        return false;

    if (o->prefixes)
        setenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX), o->prefixes, 1);

    unsetenv(amph_env_name(AMPH_ENV_JOB));
    unsetenv(amph_env_name(AMPH_ENV_RANK));
    amph_env_reload();
    return true;
}

/* Calls are recorded and none is forwarded: nobody has named servers, and none are running. */
static bool records_alone(const struct amph_attach_options *o, bool file_given)
{
    if (!o->records || file_given || o->prefixes || access(o->file, F_OK) == 0)
        return false;

    unsetenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX));
    unsetenv(amph_env_name(AMPH_ENV_JOB));
    amph_info("there is no address file %s: calls are recorded, none is forwarded", o->file);
    return true;
}

/* Does the preload library forward in this process already, as under another iofwd-run?  Then it
 * checks the program itself. */
static bool is_preloaded(void)
{
    const char *list = amph_env_foreign("LD_PRELOAD");

    return list && strstr(list, AMPH_PRELOAD_NAME) && amph_env_str(AMPH_ENV_IOFWD_PREFIX)[0];
}

/* Why the program can be preloaded only, or NULL. */
static const char *only_preload(bool has_standing)
{
    return has_standing ? NULL
                        : "mount and trap need servers that run already (iofwd-server -daemon)";
}

/* Finds the way, or checks the one that was given.  Returns an exit code, or -1 to continue. */
static int choose_way(struct amph_attach_options *o, const char *program, const char *only,
                      bool preloaded)
{
    const struct amph_way_question q = { .program = program,
                                         .only_preload = only,
                                         .preloaded = preloaded,
                                         .verbose = o->verbose,
                                         .records = o->records,
                                         .forwards = !o->alone };

    if ((o->way == AMPH_WAY_MOUNT || o->way == AMPH_WAY_TRAP) && only) {
        amph_say("-%s is not possible: %s", amph_attach_way_name(o->way), only);
        return AMPH_ATTACH_WRONG;
    }

    const bool given = o->way != AMPH_WAY_ANY;
    bool ok = true;

    if (!given)
        ok = amph_attach_way_choose(&q, &o->way);
    else if (o->way == AMPH_WAY_PRELOAD)
        ok = amph_attach_way_check_preload(&q);

    if (ok && given && o->verbose)
        amph_say("the way into %s is %s: an option says so", program ? program : o->program[0],
                 amph_attach_way_name(o->way));

    return ok ? -1 : AMPH_PROGRAM_NOT_EXECUTABLE;
}

/* Can no way start this program?  The kernel starts a file that is cut off, and kills it without a word;
 * under -trap programs of another machine are not run by an emulator.  Returns an exit code after a message,
 * or -1. */
static int check_image(const struct amph_attach_options *o, const char *program)
{
    struct amph_image image;

    amph_image_of(program, &image);
    if (image.damaged || (o->way == AMPH_WAY_TRAP && image.kind == AMPH_IMAGE_OTHER_MACHINE))
        return amph_program_explain(program, NULL, ENOEXEC);

    return -1;
}

/* Finds the program on this host.  Returns an exit code after a message, or -1 to continue. */
static int find_here(const struct amph_attach_options *o, char **program_p)
{
    int code = amph_program_find(o->program[0], program_p);

    return code != 0 ? code : check_image(o, *program_p);
}

/* Has this host a program of the name, along PATH, that must not be started by preload? */
static bool is_here_for_other_way(const struct amph_attach_options *o)
{
    const char *name = o->program[0];
    char *path = strchr(name, '/') ? NULL : amph_program_search(name, amph_env_foreign("PATH"));
    struct amph_image image;

    if (!path)
        return false;

    amph_image_of(path, &image);
    free(path);
    return o->way == AMPH_WAY_TRAP || (o->way == AMPH_WAY_ANY && amph_image_evades(&image));
}

/* May the program be one that only the servers have?  Their prefixes are known if they were given. */
static bool is_elsewhere(const struct amph_attach_options *o)
{
    const char *dirs = amph_env_foreign("PATH");

    return amph_program_is_elsewhere(o->program[0], dirs) &&
           (!o->prefixes || amph_program_is_forwarded(o->program[0], dirs, o->prefixes)) &&
           !is_here_for_other_way(o);
}

/* Finds a program that is not on this host, below a prefix.  Returns an exit code after a message, or -1
 * to continue. */
static int find_at_servers(struct amph_attach_options *o, char **program_p)
{
    const char *name = o->program[0];
    const char *prefixes = amph_env_foreign(amph_env_name(AMPH_ENV_IOFWD_PREFIX));

    if (!amph_program_is_forwarded(name, amph_env_foreign("PATH"), prefixes))
        return find_here(o, program_p);

    if (o->way == AMPH_WAY_TRAP) {
        amph_say("cannot start %s by -trap: it is below a forwarded prefix, where the kernel does "
                 "not find it; copy it to this host, or leave out -trap",
                 name);
        return AMPH_PROGRAM_NOT_EXECUTABLE;
    }

    if (o->way == AMPH_WAY_MOUNT) {
        *program_p = NULL; /* it is found when its directory is mounted */
        return -1;
    }

    o->program = amph_program_by_exec(o->program, program_p);
    return o->program ? -1 : 1;
}

/* Will the way be mount or trap?  Then iofwd-run's own calls must not be forwarded.  program: NULL if it is not on this
 * host. */
static bool takes_other_way(const struct amph_attach_options *o, const char *program,
                            bool has_standing)
{
    struct amph_image image;

    if (o->way != AMPH_WAY_ANY || only_preload(has_standing) || !program)
        return o->way == AMPH_WAY_MOUNT || o->way == AMPH_WAY_TRAP;

    amph_image_of(program, &image);
    return amph_image_evades(&image);
}

/* Finds out whose servers the program uses.  Completes o->file if an address file names them, and sets
 * *file_given_p if the user has chosen that file.  Returns false after a message. */
static bool find_source(struct amph_attach_options *o, enum source *source_p, bool *file_given_p)
{
    if (joins(o)) {
        if (!amph_env_str(AMPH_ENV_IOFWD_PREFIX)[0]) {
            amph_say("AMPHORA_SERVERS says that this job has I/O servers, but not what is "
                     "forwarded to them: set IOFWD_PREFIX for all");
            return false;
        }

        *source_p = SERVERS_OF_JOB;
        return true;
    }

    if (has_own_server(o)) {
        if (!amph_env_str(AMPH_ENV_IOFWD_PREFIX)[0]) {
            amph_say("IOFWD_SERVER_HOST says where the I/O server is started, but not what is "
                     "forwarded to it: give -iofwd PREFIX=DIRECTORY, or set IOFWD_PREFIX");
            return false;
        }

        *source_p = SERVER_OF_PROGRAM;
        return true;
    }

    *source_p = SERVERS_OF_FILE;
    *file_given_p = o->file || amph_env_str(AMPH_ENV_JOB)[0];
    if (!o->file)
        o->file = amph_boot_standing_default();

    return true;
}

/* Waits for the address file, makes its path absolute and sets the environment of the program.
 * Returns false after a message. */
static bool attach_to_file(const struct amph_attach_options *o, char path[PATH_MAX])
{
    if (!wait_for_file(o->file, o->wait_s))
        return false;

    if (!amph_attach_absolute(o->file, path)) {
        amph_say("the path of the address file %s cannot be resolved: %s", o->file,
                 strerror(errno));
        return false;
    }

    return take_file(o, path);
}

/* program: its path, or NULL if it is to be found now.  Returns an exit code if the program cannot be executed, after a
 * message. */
static int execute_program(const struct amph_attach_options *o, char *program)
{
    int code = program ? 0 : amph_program_find(o->program[0], &program);

    if (code != 0)
        return code;

    unsetenv("IOFWD_PRIVATE_CLIENT");
    execve(program, o->program, environ);
    return amph_program_explain(program, NULL, errno);
}

/* Executes the program by the way that was chosen; address_file is the one for -mount.  Returns an
 * exit code, after a message. */
static int execute(const struct amph_attach_options *o, char *program, const char *address_file)
{
    if (o->way == AMPH_WAY_TRAP)
        return amph_attach_way_execute_trapped(program, o->program);

    bool prepared = o->way == AMPH_WAY_MOUNT ? amph_attach_way_set_mount(address_file)
                                             : amph_attach_way_set_preload();

    return prepared ? execute_program(o, program) : 1;
}

/* -check where no servers can be asked: says so if this host does not have the program. */
static int check_here_only(const char *name, const char *why)
{
    int code = check_program(name);

    if (code == AMPH_PROGRAM_NOT_FOUND)
        amph_say("only this host was searched: %s", why);

    return code;
}

/* -check of a program that only the servers may have: a process that forwards, of this program, answers from the file
 * that they have.  Returns the exit code. */
static int check_at_servers(struct amph_attach_options *o, enum source source, bool file_given)
{
    const char *name = o->program[0];
    char path[PATH_MAX];

    if (source != SERVERS_OF_FILE)
        return check_here_only(name, "the job's servers are not asked");
    if (!file_given && o->wait_s == 0 && access(o->file, F_OK) != 0)
        return check_here_only(name, "there is no address file of servers");

    bool attached = attach_to_file(o, path);
    const char *prefixes = amph_env_foreign(amph_env_name(AMPH_ENV_IOFWD_PREFIX));

    if (!attached || !amph_program_is_forwarded(name, amph_env_foreign("PATH"), prefixes))
        return check_program(name);

    char *own = amph_program_own(AMPH_ATTACH_NAME);

    if (!own) /* without a quick start iofwd-run is the whole one */
        own = amph_program_own("iofwd-run");
    if (!own)
        return amph_program_explain("iofwd-run", NULL, ENOENT);

    char check[] = "-check";

    o->program = (char *[]){ program_invocation_short_name, check, o->program[0], NULL };
    o->way = AMPH_WAY_PRELOAD;
    return execute(o, own, path);
}

/* Attaches the program to its servers and executes it.  Returns an exit code if that fails, after a message. */
static int run(struct amph_attach_options *o, char **argv, enum source source, bool file_given,
               bool preloaded)
{
    char *program = NULL;
    bool elsewhere = is_elsewhere(o);
    int code = elsewhere ? -1 : find_here(o, &program);

    if (code >= 0)
        return code;

    bool has_file = source == SERVERS_OF_FILE;

    if (preloaded && takes_other_way(o, program, has_file))
        amph_leave_preload(argv);

    o->alone = has_file && records_alone(o, file_given);
    if (o->alone)
        has_file = false;

    char path[PATH_MAX] = "";
    bool attached = !has_file || attach_to_file(o, path);

    if (!attached && !amph_attach_way_set_none()) {
        code = elsewhere ? find_here(o, &program) : -1;
        return code >= 0 ? code : 1;
    }

    code = elsewhere ? find_at_servers(o, &program) : -1;
    if (code >= 0)
        return code;
    if (!attached)
        return execute_program(o, program);

    code = choose_way(o, program, only_preload(has_file), preloaded);
    if (code >= 0)
        return code;

    bool has_ended = o->records && amph_record_pack_after(&code) > 0;

    return has_ended ? code : execute(o, program, path);
}

int main(int argc, char **argv)
{
    struct amph_attach_options o = { 0 };
    bool preloaded = is_preloaded();
    int code = amph_program_exec(argv);

    if (code >= 0)
        return code;

    code = amph_attach_parse(&o, argv);
    amph_stdout_check();
    if (code >= 0)
        return code;
    if (o.check && (preloaded || !is_elsewhere(&o)))
        return check_program(o.program[0]);
    if (!amph_limit_stack_suffices("iofwd-run", AMPH_STACK_MIN_BYTES))
        return 1;

    enum source source;
    bool file_given = false;

    if (!find_source(&o, &source, &file_given))
        return AMPH_ATTACH_WRONG;

    return o.check ? check_at_servers(&o, source, file_given)
                   : run(&o, argv, source, file_given, preloaded);
}
