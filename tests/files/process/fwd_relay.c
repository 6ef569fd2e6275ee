/* SPDX-License-Identifier: BSD-3-Clause */
/* A static program for fwd_relay.sh: fwd_relay WHAT [ARGUMENT]. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void on_signal(int sig)
{
    static const char text[] = "caught\n";
    _exit(write(1, text, sizeof text - 1) > 0 ? 5 : 6);
}

static void put(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) < 0)
        exit(9);
}

static void copy(size_t most)
{
    char buf[10000];

    for (ssize_t n; most && (n = read(0, buf, most < sizeof buf ? most : sizeof buf)) > 0;
         most -= (size_t)n)
        if (write(1, buf, (size_t)n) != n)
            exit(9);
}

static void fifo_wait(const char *path, const char *mode)
{
    FILE *f = fopen(path, mode);

    if (f && mode[0] == 'r')
        (void)!fgetc(f);
    else if (f)
        fputs("x\n", f);

    if (!f || fclose(f) != 0)
        exit(8);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *more = argc > 2 ? argv[2] : "0";

    if (strcmp(what, "out") == 0)
        for (int i = 0, n = atoi(more); i < n; i++)
            put(1, i % 10 == 9 ? "012345678\n" : "abcdefghi ");
    else if (strcmp(what, "cat") == 0)
        copy((size_t)-1);
    else if (strcmp(what, "head") == 0)
        copy((size_t)atoi(more));
    else if (strcmp(what, "both") == 0)
        for (int i = 0; i < 5; i++)
            put(1 + i % 2, i % 2 ? "error\n" : "output\n");
    else if (strcmp(what, "exit") == 0)
        return atoi(more);
    else if (strcmp(what, "die") == 0)
        raise(atoi(more));
    else if (strcmp(what, "signal") == 0) {
        signal(SIGUSR1, on_signal);
        fifo_wait(more, "w");
        for (;;)
            pause();
    } else if (strcmp(what, "late") == 0 && fork() == 0) {
        fifo_wait(more, "r");
        put(1, "late\n");
    }

    return 0;
}
