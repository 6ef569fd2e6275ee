/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program file is to forwarding: can the preload library catch its calls, and if not, why?
 *
 * Layer: base.  Thread rule: any thread, also a child of vfork; no state, no allocation.
 *
 * Used by the launchers before they start a program, and by the interposer at each exec.  A file is
 * read, never mapped, and nothing in it is trusted.
 */
#ifndef AMPH_BASE_PROGRAM_IMAGE_H
#define AMPH_BASE_PROGRAM_IMAGE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>

/* The functions that look at the file: the C library's own, behind the interposer. */
struct amph_image_calls {
    int (*open)(const char *path); /* for reading, without waiting for a FIFO's writer */
    int (*close)(int fd);
    int (*fstat)(int fd, struct stat *st);
    int (*fstatvfs)(int fd, struct statvfs *fs);
    ssize_t (*fgetxattr)(int fd, const char *name, void *value, size_t len_bytes);
    ssize_t (*pread)(int fd, void *buf, size_t len_bytes, off_t at);
};

enum amph_image_kind {
    AMPH_IMAGE_UNKNOWN,       /* not readable, damaged, or not started by the kernel itself */
    AMPH_IMAGE_FORWARDS,      /* the preload library catches its calls, or it is linked in */
    AMPH_IMAGE_STATIC,        /* without a dynamic linker */
    AMPH_IMAGE_GO,            /* Go's run-time library makes system calls by itself */
    AMPH_IMAGE_OTHER_LIBC,    /* its dynamic linker is that of another C library */
    AMPH_IMAGE_OTHER_MACHINE, /* built for another processor or word size than the library */
    AMPH_IMAGE_PRIVILEGED     /* it gains rights, and the dynamic linker ignores LD_PRELOAD */
};

struct amph_image {
    enum amph_image_kind kind;
    char path[PATH_MAX]; /* the program; for a script its interpreter */
    dev_t dev;
    ino_t ino;
    uint16_t machine; /* EM_..., and the word size in bits; 0: not an ELF file */
    uint16_t bits;
    bool damaged;     /* for this machine, but its headers lead nowhere, or beyond the file's end */
    bool linked;      /* iofwd-cc has linked the forwarding into it: it needs no library */
    char linker[256]; /* the dynamic linker that it names; "": none */
};

/* Describes the program that the kernel runs for path.  Keeps errno. */
void amph_image_look(const struct amph_image_calls *calls, const char *path,
                     struct amph_image *image_p);

/* The same for an open file, whose interpreter is not followed; path is its name in messages. */
void amph_image_look_at(const struct amph_image_calls *calls, int fd, const char *path,
                        struct amph_image *image_p);

/* Is there a reason why this program's file calls are not forwarded? */
bool amph_image_evades(const struct amph_image *image);

/* Is it one of valgrind's tools?  They are static, but load the program that they are given with its
 * libraries, so that its calls are forwarded. */
bool amph_image_loads_programs(const struct amph_image *image);

/* Writes the sentence about a program for which amph_image_evades is true: what it is, what happens
 * to its files, and the remedy.  No newline.  Returns its length. */
size_t amph_image_explain(const struct amph_image *image, char *buf, size_t cap);
/* The same sentence for a program whose calls are to be recorded. */
size_t amph_image_explain_record(const struct amph_image *image, char *buf, size_t cap);

/* The name of a processor (EM_...). */
const char *amph_image_machine_name(uint16_t machine);

#endif
