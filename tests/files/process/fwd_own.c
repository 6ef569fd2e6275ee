/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_own own HOST SERVER DIR | attach FILE: a program that asks for its servers by the functions
 * of iofwd.h.  It must not notice what is started for it: no SIGCHLD, no child to wait for, the
 * same environment, the same next descriptor.  Run by fwd_own.sh.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iofwd.h"

extern char **environ;
static volatile sig_atomic_t children;

static void on_child(int sig)
{
    children++;
}

static size_t environment(void)
{
    size_t n = 0;
    size_t sum = 0;

    for (; environ[n]; n++)
        sum += strlen(environ[n]);

    return sum * 1000 + n;
}

enum {
    NEXT = 5
};

/* The lowest free descriptors. */
static void look_for_next(int next[NEXT])
{
    for (int i = 0; i < NEXT; i++)
        next[i] = dup(0);

    for (int i = 0; i < NEXT; i++)
        close(next[i]);
}

int main(int argc, char **argv)
{
    char prefix[4096];
    char word[16] = "";
    int next[NEXT], again[NEXT];
    iofwd_file_t *file;
    size_t done = 0;
    size_t before = environment();
    struct sigaction sa = { .sa_handler = on_child };
    bool own = argc == 5 && strcmp(argv[1], "own") == 0;

    look_for_next(next);
    sigaction(SIGCHLD, &sa, NULL);
    if (!own && argc != 3)
        return 2;

    snprintf(prefix, sizeof prefix, own && argv[4][0] ? "/fwd=%s" : "", argv[own ? 4 : 2]);

    struct iofwd_stats none;

    /* a call before there are servers spoils nothing */
    int early = own ? ENOTCONN : iofwd_stats(IOFWD_NONE, &none);
    int err = 1000;

    if (early == ENOTCONN)
        err = own ? iofwd_start_server(argv[2], argv[3], prefix) : iofwd_attach(argv[2]);

    look_for_next(again); /* before the first message, which may open a doorbell */
    if (!err)
        err = iofwd_open("/fwd/api", O_RDWR | O_CREAT | O_TRUNC, 0600, &file);

    if (!err)
        err = iofwd_pwrite(file, "by name", 7, 0, &done);

    if (!err)
        err = iofwd_pread(file, word, sizeof word, 0, &done);

    if (!err)
        err = iofwd_close(file);

    printf("error %d word %s children %d wait %d environment %s next %s late %d\n", err, word,
           (int)children, waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? 0 : 1,
           before == environment() ? "same" : "changed",
           memcmp(next, again, sizeof next) == 0 ? "same" : "changed",
           own ? iofwd_start_server("localhost", NULL, NULL) == EALREADY
               : iofwd_attach("x") == EALREADY);
    return err != 0;
}
