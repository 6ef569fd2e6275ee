/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Saves and restores the process's signal state; see inherit.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/common/inherit.h"

#include <signal.h>
#include <stddef.h>

static const int ignored[AMPH_INHERIT_IGNORED] = { SIGPIPE, SIGTTIN, SIGTTOU, SIGXFSZ };

void amph_inherit_save(struct amph_inherit *inherit, const sigset_t *handled)
{
    struct sigaction ignore = { .sa_handler = SIG_IGN };

    sigprocmask(SIG_BLOCK, handled, &inherit->mask);
    for (size_t i = 0; i < AMPH_INHERIT_IGNORED; i++)
        sigaction(ignored[i], &ignore, &inherit->action[i]);

    getrlimit(RLIMIT_NOFILE, &inherit->files);

    struct rlimit more = { .rlim_cur = inherit->files.rlim_max,
                           .rlim_max = inherit->files.rlim_max };

    setrlimit(RLIMIT_NOFILE,
              &more); /* if this fails, a later open reports that the limit is reached */
}

void amph_inherit_restore(const struct amph_inherit *inherit)
{
    setrlimit(RLIMIT_NOFILE, &inherit->files);
    for (size_t i = 0; i < AMPH_INHERIT_IGNORED; i++)
        sigaction(ignored[i], &inherit->action[i], NULL);

    sigprocmask(SIG_SETMASK, &inherit->mask, NULL);
}
