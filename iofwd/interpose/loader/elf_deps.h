/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs and libraries need of forwarded libraries.  The dynamic linker sees this host's files only; so each forwarded library
 * that a copied program or library needs is copied into memory too, and the copy of who needs it is changed to name that copy.
 * Layer: iofwd (preload).  Thread rule: a struct fwd_needs is one thread's.
 */
#ifndef AMPH_IOFWD_NEEDS_H
#define AMPH_IOFWD_NEEDS_H

#include "base/env_defs.h"
#include "iofwd/interpose/entry/libc_real.h"

#define FWD_NEEDS_MAX 256
#define FWD_NEEDS_NAME 64
#define FWD_NEEDS_SETTING AMPH_PRIVATE_LIBS
#define FWD_NEEDS_TOLD "IOFWD_PRIVATE_" /* and LD_PRELOAD=..., as it was before copies took the places of forwarded libraries in it */

struct fwd_need {
    int fd;      /* the copy, or -1: it is loaded already */
    dev_t dev;
    ino_t ino;
    void *held;  /* loaded already: kept loaded up to fwd_needs_end */
    char name[FWD_NEEDS_NAME]; /* for the linker; no other object of the process has it */
};

struct fwd_needs {
    const char *search; /* LD_LIBRARY_PATH, or NULL */
    bool loading;       /* for dlopen; else for a program that starts */
    bool apart;         /* for dlmopen: what is loaded elsewhere does not count */
    size_t n;
    struct fwd_need item[FWD_NEEDS_MAX];
    char preload[2 * PATH_MAX], told[2 * PATH_MAX + sizeof FWD_NEEDS_TOLD];
};

/* search, loading: as in the struct.  NULL: no memory. */
struct fwd_needs *fwd_needs_new(const char *search, bool loading);

/* Closes the copies.  What has been loaded from them stays. */
void fwd_needs_end(struct fwd_needs *needs);

/* May a list of directories, LD_LIBRARY_PATH's form, name a forwarded one?  Opens no client. */
bool fwd_needs_search(const char *list);

/* fd is a copy of the program at path: copies what it needs, changes its needs. */
void fwd_needs_complete(struct fwd_needs *needs, int fd, const char *path);

/* fd is the local program at path.  Where it needs forwarded libraries: a copy of it that does so by name; else -1. */
int fwd_needs_of_local(struct fwd_needs *needs, int fd, const char *path);

/* The forwarded library at path and what it needs; the copy or what is loaded of it, NULL with errno. */
const struct fwd_need *fwd_needs_library(struct fwd_needs *needs, const char *path);

/* Where a library of a name without a slash is found by LD_LIBRARY_PATH, if that place is a forwarded one. */
bool fwd_needs_find(const struct fwd_needs *needs, const char *name, char out[PATH_MAX]);

/* May LD_PRELOAD's value name a forwarded library?  Opens no client. */
bool fwd_needs_preload(const char *list, const char *search);

/* entry, LD_PRELOAD=...: copies what it names of forwarded libraries; needs->preload and needs->told are what the started program gets
 * in its place and beside it.  false: there is nothing to change. */
bool fwd_needs_complete_preload(struct fwd_needs *needs, const char *entry);

/* The setting that tells the started program of the copies: NAME=FD.DEV.INO,...; false: there are none, or they do not fit. */
bool fwd_needs_setting(const struct fwd_needs *needs, char *buf, size_t cap);

/* In the started program: closes what the setting's value names, and knows it for dlopen. */
void fwd_needs_loaded(const char *value);

#endif
