/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses and prepares the way into a program; see way.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/attach/way.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/program/program_image.h"
#include "launcher/attach/mount.h"
#include "launcher/common/message.h"
#include "launcher/common/program.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

extern char **environ;

enum {
    REASON_BYTES = 512
};

static const char trap_program[] = "iofwd-trap";

const char *amph_way_name(enum amph_way way)
{
    static const char *const names[] = { [AMPH_WAY_ANY] = "any",
                                         [AMPH_WAY_PRELOAD] = "preload",
                                         [AMPH_WAY_MOUNT] = "mount",
                                         [AMPH_WAY_TRAP] = "trap" };

    return names[way];
}

/* ---- what this host allows ---- */

/* Tests whether the kernel reports calls to a supervisor.  A child tries it, because a filter
 * cannot be removed. */
static int try_filter(void)
{
    struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
    struct sock_fprog program = { .len = 1, .filter = code };
    pid_t child = fork();
    int status = 0;

    if (child < 0)
        return errno;

    if (child == 0) {
        bool ok = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                  syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                          SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
                          &program) >= 0;

        _exit(ok ? 0 : errno);
    }

    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;

    return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

static bool can_trap(const struct amph_image *image, char *why, size_t cap)
{
    char *supervisor = amph_program_own(trap_program);
    bool installed = supervisor != NULL;

    free(supervisor);
    if (!installed) {
        snprintf(why, cap, "%s is not part of this installation", trap_program);
        return false;
    }

    if (image->kind == AMPH_IMAGE_OTHER_MACHINE) {
        snprintf(why, cap, "the program is built for another machine or word size");
        return false;
    }

    int err = try_filter();

    if (err == EBUSY)
        snprintf(why, cap, "another supervisor receives this process's calls already");
    else if (err)
        snprintf(why, cap, "the kernel reports no calls to a supervisor (%s)", strerror(err));

    return err == 0;
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

    if (q->preloaded)
        return true; /* the preload library prints the warning at exec */

    if (q->only_preload)
        snprintf(why, sizeof why, "no other way is possible: %s", q->only_preload);
    else if (no->mount[0] && no->trap[0])
        snprintf(why, sizeof why, "mount is not possible: %s; trap is not: %s", no->mount,
                 no->trap);
    else
        why[0] = 0;

    return amph_program_warn(image, why);
}

bool amph_way_check_preload(const struct amph_way_question *q)
{
    struct amph_image image;

    amph_program_look(q->program, &image);
    return !amph_image_evades(&image) || warn(q, &image, &(struct reasons){ "", "" });
}

bool amph_way_choose(const struct amph_way_question *q, enum amph_way *way_p)
{
    struct amph_image image;
    struct reasons no = { "", "" };

    amph_program_look(q->program, &image);

    /* A set-uid program gains no rights in a namespace of one user, and a filter prevents that it
     * gains any. */
    bool other = amph_image_evades(&image) && image.kind != AMPH_IMAGE_PRIVILEGED &&
                 !q->only_preload;

    *way_p = AMPH_WAY_PRELOAD;
    if (other && amph_attach_can_mount(no.mount, sizeof no.mount))
        *way_p = AMPH_WAY_MOUNT;
    else if (other && can_trap(&image, no.trap, sizeof no.trap))
        *way_p = AMPH_WAY_TRAP;

    bool ok = *way_p != AMPH_WAY_PRELOAD || !amph_image_evades(&image) || warn(q, &image, &no);

    if (!q->verbose || !ok)
        return ok;

    amph_say("the way into %s is %s: %s%s%s", q->program, amph_way_name(*way_p), trait(image.kind),
             no.mount[0] ? ", and mount is not possible: " : "", no.mount);
    return true;
}

/* ---- preparing it ---- */

/* Takes our library out of LD_PRELOAD: the calls of the program are forwarded in another way. */
static void leave_preload(void)
{
    char *list = amph_preload_list(NULL);

    if (list && list[0])
        setenv("LD_PRELOAD", list, 1);
    else
        unsetenv("LD_PRELOAD");

    free(list);
}

bool amph_way_set_preload(void)
{
    char *library = amph_library_own(AMPH_PRELOAD_NAME);
    char *list = library ? amph_preload_list(library) : NULL;
    bool ok = list && setenv("LD_PRELOAD", list, 1) == 0;

    if (!ok)
        amph_say("the library %s, which forwards file calls, is found neither beside iofwd-run nor "
                 "in %s; install amphora again",
                 AMPH_PRELOAD_NAME, AMPH_MODULEDIR);

    free(library);
    free(list);
    return ok;
}

bool amph_way_set_mount(const char *address_file)
{
    bool inside;
    bool ok = amph_attach_mount(address_file,
                                amph_env_foreign(amph_env_name(AMPH_ENV_IOFWD_PREFIX)), &inside);

    if (!ok && (inside || !amph_env_bool(AMPH_ENV_IOFWD_OPTIONAL)))
        return false;

    if (!ok)
        amph_say("IOFWD_OPTIONAL: the program goes on without forwarding");

    leave_preload();
    unsetenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX));
    return true;
}

int amph_way_execute_trapped(char *program, char *const *argv)
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
    unsetenv("IOFWD_DOOR");
    execve(supervisor, words, environ);
    return amph_program_explain(supervisor, NULL, errno);
}
