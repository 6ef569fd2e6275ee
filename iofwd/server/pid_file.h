/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file of iofwd-server -pid-file: it holds the number of the watching process, which keeps it locked.
 * Layer: iofwd (server).  Thread rule: the watching process has one thread.
 */
#ifndef AMPH_IOFWD_SERVER_PID_FILE_H
#define AMPH_IOFWD_SERVER_PID_FILE_H

#include <stdbool.h>

/* Takes the file for as long as this process lives.  Returns its descriptor; -1, with a sentence on stderr, if it
 * cannot be written, if other processes remove it again and again, or if other servers have it, whose number it
 * keeps. */
int amph_server_pid_file_take(const char *path);
/* Writes this process's number.  false, with a sentence: it could not be written. */
bool amph_server_pid_file_write(int fd, const char *path);

#endif
