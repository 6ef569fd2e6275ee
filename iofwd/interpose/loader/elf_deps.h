/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dependencies of programs and libraries on forwarded libraries.  The dynamic linker sees this
 * host's files only.  Each forwarded library that a copied program or library depends on is
 * therefore copied into memory too, and the dependent copy is changed to name that copy.
 *
 * Layer: iofwd (interposer).  Thread rule: one thread uses a struct amph_ip_elf_deps.
 */
#ifndef AMPH_IOFWD_NEEDS_H
#define AMPH_IOFWD_NEEDS_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings/env_defs.h"
#include "base/platform.h"
#include "iofwd/interpose/libc/libc_real.h"

#define AMPH_IP_ELF_DEPS_MAX 256
#define AMPH_IP_ELF_DEPS_NAME 64
#define AMPH_IP_ELF_DEPS_SETTING AMPH_PRIVATE_LIBS
/* A setting's entry that holds LD_PRELOAD=... as it was before copies replaced forwarded libraries. */
#define AMPH_IP_ELF_DEPS_ORIGINAL "IOFWD_PRIVATE_"

struct amph_ip_elf_dep {
    int fd; /* the copy, or -1: it is loaded already */
    dev_t dev;
    ino_t ino;
    void *held;                       /* loaded already: a reference until amph_ip_elf_deps_end */
    char name[AMPH_IP_ELF_DEPS_NAME]; /* for the linker; unique in the process */
};

struct amph_ip_elf_deps {
    const char *search; /* LD_LIBRARY_PATH, or NULL */
    bool loading;       /* for dlopen; otherwise for a program that starts */
    bool apart;         /* for dlmopen: libraries of other namespaces do not count */
    size_t n;
    struct amph_ip_elf_dep item[AMPH_IP_ELF_DEPS_MAX];
    char preload[2 * PATH_MAX], original[2 * PATH_MAX + sizeof AMPH_IP_ELF_DEPS_ORIGINAL];
};

/* search, loading: as in the struct.  NULL: no memory. */
struct amph_ip_elf_deps *amph_ip_elf_deps_new(const char *search, bool loading);

/* Closes the copies; libraries loaded from them stay loaded. */
void amph_ip_elf_deps_end(struct amph_ip_elf_deps *deps);

/* Can a directory list (in the form of LD_LIBRARY_PATH) name a forwarded directory?  Does not open
 * the client. */
bool amph_ip_elf_deps_search(const char *list);

/* fd is a copy of the program at path: copies its forwarded dependencies and rewrites their
 * names. */
void amph_ip_elf_deps_complete(struct amph_ip_elf_deps *deps, int fd, const char *path);

/* fd is the local program at path.  Returns a copy with rewritten names if it depends on forwarded
 * libraries; else -1. */
int amph_ip_elf_deps_of_local(struct amph_ip_elf_deps *deps, int fd, const char *path);

/* Copies the forwarded library at path and its dependencies.  Returns the copy, or the library if
 * it is loaded already; NULL with errno. */
const struct amph_ip_elf_dep *amph_ip_elf_deps_library(struct amph_ip_elf_deps *deps,
                                                       const char *path);

/* Finds a library named without a slash by LD_LIBRARY_PATH.  false: not found in a forwarded
 * directory. */
bool amph_ip_elf_deps_find(const struct amph_ip_elf_deps *deps, const char *name,
                           char out[PATH_MAX]);

/* Can LD_PRELOAD's value name a forwarded library?  Does not open the client. */
bool amph_ip_elf_deps_preload(const char *list, const char *search);

/* entry, LD_PRELOAD=...: copies the forwarded libraries in it.  deps->preload and deps->original are
 * the started program's settings: the changed entry and the original.  false: nothing to change. */
bool amph_ip_elf_deps_complete_preload(struct amph_ip_elf_deps *deps, const char *entry);

/* The setting that lists the copies for the started program: NAME=FD.DEV.INO,...  false: no copies,
 * or too long. */
bool amph_ip_elf_deps_setting(const struct amph_ip_elf_deps *deps, char *buf, size_t cap);

/* In the started program: closes the copies listed by the setting's value and remembers them for
 * dlopen. */
void amph_ip_elf_deps_loaded(const char *value);

struct amph_ip_loaded_copy;

typedef void *(*amph_ip_dlsym_fn)(void *restrict handle, const char *restrict name);

/* The state of loader/. */
struct amph_ip_loader_state {
    /* elf_deps.c: the copies that dlopen has loaded, to be found again as long as they are loaded;
     * under lock. */
    pthread_mutex_t lock;
    struct amph_ip_loaded_copy *copies;
    unsigned serial; /* elf_deps.c: of the last copy's name; atomic */

    /* library.c: LD_LIBRARY_PATH at program start, as the linker has read it; written by the
     * constructor. */
    const char *library_path;

    /* dl_error.c: has the texts freed at a thread's end. */
    pthread_once_t error_once;
    pthread_key_t error_key;
    bool has_error_key;

    /* symbol.c, atomic: the C library's dlsym and code (bytes), and a handle of this library, when they are
     * first needed. */
    amph_ip_dlsym_fn dlsym;
    uintptr_t libc_code;
    size_t libc_code_len;
    void *own;

    bool apart_said; /* library.c: that a library bypasses this one; atomic */
};

extern struct amph_ip_loader_state amph_ip_loader AMPH_HIDDEN;

/* Around a fork, whose child must not find the lock held. */
void amph_ip_loader_fork_lock(bool take);

#endif
