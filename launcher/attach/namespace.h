/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The namespace of iofwd-run -mount: how it is made and entered.  Who is in it: mount.c.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_NAMESPACE_H
#define AMPH_LAUNCHER_NAMESPACE_H

#include <stdbool.h>
#include <sys/types.h>

/* May this process mount in a namespace whose users are those of this host?  Else there is one user in its
 * namespaces. */
bool amph_attach_may_mount(void);

/* Enters a new mount namespace, from which no mount is propagated to another; *has_users_p: with the users of
 * this host.  false: after a sentence. */
bool amph_attach_enter_new(bool *has_users_p);

/* Enters the namespace of a process.  false: it has ended, or the kernel forbids it, which is said. */
bool amph_attach_enter(long pid);

/* Mounts with an open /dev/fuse.  has_users: all of them may use the mount, and the kernel checks permissions.
 * Returns 0 or an errno value. */
int amph_attach_mount_fuse(int fd, const char *source, const char *target, bool has_users);

#endif
