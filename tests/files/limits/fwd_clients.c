/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_clients N FILE: N children, each a client of its own, append a line to FILE and keep it open
 * until all have done so or been refused.  Prints how many wrote, how many were refused with ENFILE,
 * and how many failed otherwise; on stderr each other error.  At most ATTACHING children open their
 * client at a time: a client waits 10 s for its server, too short for thousands that share a few cores.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LINE_BYTES = 8,
    ATTACHING = 256 /* children that have not reported yet */
};

/* Returns 0 or the errno of the call that failed. */
static int append(const char *path, int number)
{
    char line[LINE_BYTES + 1];
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);

    if (fd < 0)
        return errno;

    snprintf(line, sizeof line, "%07d\n", number % 10000000);
    return write(fd, line, LINE_BYTES) == LINE_BYTES ? 0 : errno;
}

/* A child: tells the parent how it went, then waits until the parent closes its end of `go`. */
static void child(const char *path, int number, int told, int go)
{
    int err = append(path, number);
    char none;

    if (write(told, &err, sizeof err) != sizeof err)
        _exit(2);

    _exit(read(go, &none, 1) != 0);
}

/* Forks child number i.  Returns false if that failed. */
static bool start_child(const char *path, int i, const int told[2], const int go[2])
{
    pid_t pid = fork();

    if (pid < 0)
        perror("fork");

    if (pid == 0) {
        close(told[0]);
        close(go[1]);
        child(path, i, told[1], go[0]);
    }

    return pid > 0;
}

int main(int argc, char **argv)
{
    int n = argc == 3 ? atoi(argv[1]) : 0;
    int told[2], go[2];
    int started = 0;
    int wrote = 0;
    int refused = 0;
    int failed = 0;

    if (n <= 0 || pipe(told) || pipe(go)) {
        fprintf(stderr, "usage: fwd_clients N FILE\n");
        return 2;
    }

    while (wrote + refused + failed < n) {
        int err;

        if (started < n && started - (wrote + refused + failed) < ATTACHING) {
            if (!start_child(argv[2], started++, told, go))
                return 2;

            continue;
        }

        if (read(told[0], &err, sizeof err) != sizeof err)
            break;

        wrote += err == 0;
        refused += err == ENFILE;
        if (err != 0 && err != ENFILE) {
            fprintf(stderr, "a client failed: %s\n", strerror(err));
            failed++;
        }
    }

    close(told[1]);
    close(go[0]);
    printf("%d wrote, %d refused, %d failed\n", wrote, refused, failed);
    close(go[1]);

    int ended_badly = 0;

    for (int status; wait(&status) > 0;)
        ended_badly += status != 0;

    return ended_badly != 0;
}
