/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that bypass the interposer: static ones, Go's, those of another machine or with rights of
 * their own (base/program/program_image.h).  Each exec and spawn checks its program here first; the user is
 * warned once a program, or the program is refused (IOFWD_STRICT).
 *
 * Layer: iofwd (interposer).  Thread rule: as execve, also in a child of vfork.
 */
#ifndef AMPH_IOFWD_BYPASS_H
#define AMPH_IOFWD_BYPASS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/program/program_image.h"

/* Reads the settings from the program's environment.  Called by the constructor, before the
 * environment for other programs is kept. */
void amph_ip_bypass_start(char **env);
/* What the environment of other programs must hold, NAME=VALUE; "": nothing. */
const char *amph_ip_bypass_setting(void);

/* Checks the program at path before it is started.  Returns 0, or -1 with EPERM if it is refused. */
int amph_ip_bypass_check(const char *path);
/* The same for the arguments of a program that loads another one by itself (valgrind). */
int amph_ip_bypass_check_arguments(const char *path, char *const argv[]);
/* The path of the program at path, relative to a directory as execveat takes it.  false: no such file. */
bool amph_ip_bypass_path(int dir, const char *path, char full[PATH_MAX]);
/* The same for fd, a copy of the forwarded program at path. */
int amph_ip_bypass_check_file(int fd, const char *path);
/* The same for what execvp finds along PATH. */
int amph_ip_bypass_check_name(const char *file);

/* Does the program at path bypass the interposer?  Says nothing and keeps errno. */
bool amph_ip_bypasses(const char *path);

/* Describes the program at path.  Returns whether it is one that the interposer is loaded into, by the
 * dynamic linker that *image_p names. */
bool amph_ip_bypass_look(const char *path, struct amph_image *image_p);

/* The list of programs holds other facts, too, each a number other than 0 beside the file.  note enters
 * one for all processes that the ancestor started; known returns whether it is there. */
bool amph_ip_bypass_known(dev_t dev, ino_t ino, uint64_t about);
void amph_ip_bypass_note(dev_t dev, ino_t ino, uint64_t about);

/* A recorded process is about to execute file, a path or a name that is searched for.  Prints a
 * warning if the calls of that program cannot be recorded, once for each program of a run, and notes
 * it in the folder dir of the records. */
void amph_ip_bypass_record(const char *file, const char *dir);

#endif
