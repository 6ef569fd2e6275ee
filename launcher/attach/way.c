/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses and prepares the way into a program; see way.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/attach/way.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/program/program_image.h"
#include "launcher/attach/mount.h"
#include "launcher/attach/namespace.h"
#include "launcher/common/message.h"
#include "launcher/common/program.h"

extern char **environ;

enum {
    REASON_BYTES = 512
};

static const char trap_program[] = "iofwd-trap";

const char *amph_attach_way_name(enum amph_way way)
{
    static const char *const names[] = { [AMPH_WAY_ANY] = "any",
                                         [AMPH_WAY_PRELOAD] = "preload",
                                         [AMPH_WAY_MOUNT] = "mount",
                                         [AMPH_WAY_TRAP] = "trap" };

    return names[way];
}

/* ---- what this host allows ---- */

/* Runs "SUPERVISOR -check", which says in one sentence why -trap is impossible here, and leaves that in
 * why. */
static bool ask_supervisor(char *supervisor, char *why, size_t cap)
{
    static const char before[] = "iofwd-run -trap: ";
    char option[] = "-check";
    char *argv[] = { supervisor, option, NULL };
    int pair[2], status = 0;
    size_t len = 0;
    ssize_t n;

    if (pipe2(pair, O_CLOEXEC) != 0) {
        snprintf(why, cap, "no pipe can be made (%s)", strerror(errno));
        return false;
    }

    pid_t child = fork();

    if (child == 0) {
        dup2(pair[1], STDOUT_FILENO);
        dup2(pair[1], STDERR_FILENO);
        unsetenv("LD_PRELOAD"); /* the supervisor would execute itself again without our library */
        execv(supervisor, argv);
        dprintf(STDERR_FILENO, "%s: %s", supervisor, strerror(errno));
        _exit(AMPH_PROGRAM_NOT_EXECUTABLE);
    }

    close(pair[1]);
    while ((n = read(pair[0], why + len, cap - 1 - len)) > 0 || (n < 0 && errno == EINTR))
        len += n > 0 ? (size_t)n : 0;

    why[len] = 0;
    why[strcspn(why, "\n")] = 0;

    char *remedy = strstr(why, "; iofwd-run -mount"); /* which is known to be impossible */

    if (remedy)
        *remedy = 0;

    close(pair[0]);
    if (child < 0)
        snprintf(why, cap, "no process can be started (%s)", strerror(errno));

    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;

    if (strncmp(why, before, sizeof before - 1) == 0)
        memmove(why, why + sizeof before - 1, len - (sizeof before - 1) + 1);

    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool can_trap(const struct amph_image *image, char *why, size_t cap)
{
    char *supervisor = amph_program_own(trap_program);
    bool possible = false;

    if (!supervisor)
        snprintf(why, cap, "%s is not part of this installation", trap_program);
    else if (image->kind == AMPH_IMAGE_OTHER_MACHINE)
        snprintf(why, cap, "the program is built for another machine or word size");
    else
        possible = ask_supervisor(supervisor, why, cap);

    if (possible)
        why[0] = 0;

    free(supervisor);
    return possible;
}

/* ---- the choice ---- */

static const char *trait(enum amph_image_kind kind)
{
    switch (kind) {
    case AMPH_IMAGE_STATIC:
        return "it is statically linked";
    case AMPH_IMAGE_GO:
        return "it contains Go code";
    case AMPH_IMAGE_OTHER_LIBC:
        return "it uses another C library (musl)";
    case AMPH_IMAGE_OTHER_MACHINE:
        return "it is built for another machine or word size";
    case AMPH_IMAGE_PRIVILEGED:
        return "it gains rights";
    case AMPH_IMAGE_UNKNOWN:
        return "its file cannot be read or is no ELF file, and preload is the default";
    default:
        return "the library catches its calls";
    }
}

/* Why no way suits; follows the sentence about the program. */
struct reasons {
    char mount[REASON_BYTES], trap[REASON_BYTES];
};

static bool warn(const struct amph_way_question *q, const struct amph_image *image,
                 const struct reasons *no)
{
    char why[2 * REASON_BYTES + 64];

    if (q->preloaded || !q->forwards) {
        if (q->records)
            amph_program_warn_record(q->program);
        return true; /* the preload library prints the warning at exec */
    }

    if (q->only_preload)
        snprintf(why, sizeof why, "no other way is possible: %s", q->only_preload);
    else if (no->mount[0] && no->trap[0])
        snprintf(why, sizeof why, "mount is not possible: %s; trap is not: %s", no->mount,
                 no->trap);
    else
        why[0] = 0;

    return amph_program_warn(image, why);
}

bool amph_attach_way_check_preload(const struct amph_way_question *q)
{
    struct amph_image image;

    amph_image_of(q->program, &image);
    return !amph_image_evades(&image) || warn(q, &image, &(struct reasons){ "", "" });
}

bool amph_attach_way_choose(const struct amph_way_question *q, enum amph_way *way_p)
{
    struct amph_image image;
    struct reasons no = { "", "" };

    amph_image_of(q->program, &image);

    /* A set-uid program gains no rights in a namespace of one user, and a filter prevents that it
     * gains any. */
    bool gains = image.kind == AMPH_IMAGE_PRIVILEGED;
    bool other = amph_image_evades(&image) && !q->only_preload;

    *way_p = AMPH_WAY_PRELOAD;
    if (other && (!gains || amph_attach_may_mount()) &&
        amph_attach_can_mount(no.mount, sizeof no.mount))
        *way_p = AMPH_WAY_MOUNT;
    else if (other && !gains && can_trap(&image, no.trap, sizeof no.trap))
        *way_p = AMPH_WAY_TRAP;

    bool evades = *way_p == AMPH_WAY_PRELOAD && amph_image_evades(&image);

    if (evades && !warn(q, &image, &no))
        return false;

    if (!q->verbose)
        return true;

    if (evades)
        amph_say("no way into %s suits, so its file calls are not forwarded: %s", q->program,
                 trait(image.kind));
    else
        amph_say("the way into %s is %s: %s%s%s", q->program, amph_attach_way_name(*way_p),
                 trait(image.kind), no.mount[0] ? ", and mount is not possible: " : "", no.mount);

    return true;
}

/* ---- preparing it ---- */

/* Takes our library out of LD_PRELOAD: the calls of the program are forwarded in another way. */
static void leave_preload(void)
{
    char *list = amph_program_preload_list(NULL);

    if (list && list[0])
        setenv("LD_PRELOAD", list, 1);
    else
        unsetenv("LD_PRELOAD");

    free(list);
}

bool amph_attach_way_set_preload(void)
{
    char *library = amph_program_library(AMPH_PRELOAD_NAME);
    bool suits = library && amph_program_can_preload(library);
    char *list = suits ? amph_program_preload_list(library) : NULL;
    bool ok = list && setenv("LD_PRELOAD", list, 1) == 0;

    if (!library)
        amph_say("the library %s, which forwards file calls, is found neither beside iofwd-run nor "
                 "in %s; install amphora again",
                 AMPH_PRELOAD_NAME, AMPH_MODULEDIR);
    else if (suits && !ok)
        amph_say("no memory");

    free(library);
    free(list);
    return ok;
}

bool amph_attach_way_set_mount(const char *address_file)
{
    const char *prefixes = amph_env_foreign(amph_env_name(AMPH_ENV_IOFWD_PREFIX));
    bool inside;
    bool ok = amph_env_bool(AMPH_ENV_IOFWD_OPTIONAL)
                  ? amph_attach_mount_or_stay(address_file, prefixes, &inside)
                  : amph_attach_mount(address_file, prefixes, &inside);

    if (!ok && (inside || !amph_attach_way_set_none()))
        return false;

    leave_preload();
    unsetenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX));
    return true;
}

bool amph_attach_way_set_none(void)
{
    if (!amph_env_bool(AMPH_ENV_IOFWD_OPTIONAL))
        return false;

    amph_say("IOFWD_OPTIONAL: the program goes on without forwarding");
    leave_preload();
    unsetenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX));
    unsetenv(amph_env_name(AMPH_ENV_JOB));
    return true;
}

int amph_attach_way_execute_trapped(char *program, char *const *argv)
{
    char *supervisor = amph_program_own(trap_program);
    size_t n = 0;

    while (argv[n])
        n++;

    char **words = calloc(n + 3, sizeof *words);

    if (!supervisor || !words) {
        amph_say(
            "the program %s, which -trap needs, is found neither beside iofwd-run nor where it "
            "was installed; install amphora again",
            trap_program);
        free(supervisor);
        free(words);
        return 1;
    }

    words[0] = supervisor;
    words[1] = program;
    memcpy(words + 2, argv, n * sizeof *argv);
    leave_preload();
    unsetenv("IOFWD_PRIVATE_CLIENT");
    execve(supervisor, words, environ);
    return amph_program_explain(supervisor, NULL, errno);
}
