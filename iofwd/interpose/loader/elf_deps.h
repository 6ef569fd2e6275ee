/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs and libraries need of forwarded libraries.  The dynamic linker sees this host's
 * files only; so each forwarded library that a copied program or library needs is copied into
 * memory too, and the copy of who needs it is changed to name that copy.
 *
 * Layer: iofwd (interposer).  Thread rule: a struct amph_ip_elf_deps is one thread's.
 */
#ifndef AMPH_IOFWD_NEEDS_H
#define AMPH_IOFWD_NEEDS_H

#include "base/env_defs.h"
#include "iofwd/interpose/entry/libc_real.h"

#define AMPH_IP_ELF_DEPS_MAX 256
#define AMPH_IP_ELF_DEPS_NAME 64
#define AMPH_IP_ELF_DEPS_SETTING AMPH_PRIVATE_LIBS
#define AMPH_IP_ELF_DEPS_REPORTED \
    "IOFWD_PRIVATE_" /* and LD_PRELOAD=..., as it was before copies took the places of forwarded libraries in it */

struct amph_ip_elf_dep {
    int fd; /* the copy, or -1: it is loaded already */
    dev_t dev;
    ino_t ino;
    void *held;                       /* loaded already: kept loaded up to amph_ip_elf_deps_end */
    char name[AMPH_IP_ELF_DEPS_NAME]; /* for the linker; no other object of the process has it */
};

struct amph_ip_elf_deps {
    const char *search; /* LD_LIBRARY_PATH, or NULL */
    bool loading;       /* for dlopen; else for a program that starts */
    bool apart;         /* for dlmopen: what is loaded elsewhere does not count */
    size_t n;
    struct amph_ip_elf_dep item[AMPH_IP_ELF_DEPS_MAX];
    char preload[2 * PATH_MAX], told[2 * PATH_MAX + sizeof AMPH_IP_ELF_DEPS_REPORTED];
};

/* search, loading: as in the struct.  NULL: no memory. */
struct amph_ip_elf_deps *amph_ip_elf_deps_new(const char *search, bool loading);

/* Closes the copies.  What has been loaded from them stays. */
void amph_ip_elf_deps_end(struct amph_ip_elf_deps *needs);

/* May a list of directories, LD_LIBRARY_PATH's form, name a forwarded one?  Opens no client. */
bool amph_ip_elf_deps_search(const char *list);

/* fd is a copy of the program at path: copies what it needs, changes its needs. */
void amph_ip_elf_deps_complete(struct amph_ip_elf_deps *needs, int fd, const char *path);

/* fd is the local program at path.  Where it needs forwarded libraries: a copy of it that does so
 * by name; else -1. */
int amph_ip_elf_deps_of_local(struct amph_ip_elf_deps *needs, int fd, const char *path);

/* The forwarded library at path and what it needs; the copy or what is loaded of it, NULL with
 * errno. */
const struct amph_ip_elf_dep *amph_ip_elf_deps_library(struct amph_ip_elf_deps *needs,
                                                       const char *path);

/* Where a library of a name without a slash is found by LD_LIBRARY_PATH, if that place is a
 * forwarded one. */
bool amph_ip_elf_deps_find(const struct amph_ip_elf_deps *needs, const char *name,
                           char out[PATH_MAX]);

/* May LD_PRELOAD's value name a forwarded library?  Opens no client. */
bool amph_ip_elf_deps_preload(const char *list, const char *search);

/* entry, LD_PRELOAD=...: copies what it names of forwarded libraries; needs->preload and
 * needs->told are what the started program gets in its place and beside it.  false: there is
 * nothing to change. */
bool amph_ip_elf_deps_complete_preload(struct amph_ip_elf_deps *needs, const char *entry);

/* The setting that tells the started program of the copies: NAME=FD.DEV.INO,...; false: there are
 * none, or they do not fit. */
bool amph_ip_elf_deps_setting(const struct amph_ip_elf_deps *needs, char *buf, size_t cap);

/* In the started program: closes what the setting's value names, and knows it for dlopen. */
void amph_ip_elf_deps_loaded(const char *value);

#endif
