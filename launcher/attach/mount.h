/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-run -mount: the servers' prefixes as file systems in a namespace, without privilege.
 *
 * Layer: launcher.  Thread rule: one thread.
 *
 * The room's files: main.c (iofwd-run), way.c, .h (which way into the program, and what it needs), mount.c,
 * .h (who is in the namespace), namespace.c, .h (the namespace itself), root.c, .h (mount points that the host
 * does not have).
 */
#ifndef AMPH_LAUNCHER_MOUNT_H
#define AMPH_LAUNCHER_MOUNT_H

#include <stdbool.h>
#include <stddef.h>

/* Moves this process into the namespace in which `prefixes` (PATH[:PATH]...) of the
 * servers of address_file are mounted; creates it if no other program of this user is in it.  The
 * namespace lives as long as this process, after its exec too, and its children.  Returns false
 * after a message; *inside_p: the process is in a namespace without mounts and must end. */
bool amph_attach_mount(const char *address_file, const char *prefixes, bool *inside_p);

/* The same, but another process creates the namespace, so that this one stays outside if that fails: no
 * process leaves a namespace. */
bool amph_attach_mount_or_stay(const char *address_file, const char *prefixes, bool *inside_p);

/* Does this host allow such a namespace?  Tries it in a process of its own.  false: the phrase in why
 * says what is missing. */
bool amph_attach_can_mount(char *why, size_t cap);

#endif
