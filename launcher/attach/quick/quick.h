/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The quick start of iofwd-run.
 *
 * Layer: launcher.  Thread rule: one thread.
 *
 * iofwd-run starts before each program, and the start of the C library takes longer than all that it
 * has to do: 0.3 to 0.45 ms on a virtual machine, which must emulate the CPUID instructions of the
 * library and of the dynamic linker.  So iofwd-run is a program without a C library, which recognises
 * the usual case: standing servers, a program that the preload library suits, and nothing to say.  It
 * prepares the environment and executes the program.  In every other case, and whenever it is in
 * doubt, it executes iofwd-attach (launcher/attach/main.c) with the same words, which does the same
 * work with all its messages.  Nothing has changed by then.
 */
#ifndef AMPH_LAUNCHER_QUICK_H
#define AMPH_LAUNCHER_QUICK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Who runs this process, from the kernel's vector of facts. */
struct amph_quick_user {
    unsigned long uid, euid, gid, egid;
};

/* What the address file says. */
struct amph_quick_servers {
    char path[PATH_MAX];     /* its absolute path */
    char prefixes[PATH_MAX]; /* of the servers' exports */
};

/* Reads the address file of standing servers; true: it is whole and to be trusted. */
bool amph_quick_read_servers(const char *path, const struct amph_quick_user *user,
                             struct amph_quick_servers *servers);

/* Is the file at path a program that the preload library suits, or a script whose interpreter is? */
bool amph_quick_suits(const char *path, const struct amph_quick_user *user);
/* Is the file at path a library of this machine? */
bool amph_quick_is_library(const char *path);

#endif
