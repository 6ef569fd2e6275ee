/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that share an open file share its offset: by fork, by exec, by a descriptor in a
 * message.  Each of them writes whole records while the others do, or reads them: none is lost and
 * none is read twice, also with IOFWD_CONSISTENCY=session, where a process's own small calls are
 * gathered.   fwd_shares
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/fwd_is.h"
#include "tests/files/fwd_send.h"

enum {
    CHILDREN = 4,
    RECORDS = 200,
    RECORD = 16,
    ALL = CHILDREN * RECORDS
};

static void write_records(int fd, int who)
{
    char record[RECORD + 1];

    for (int i = 0; i < RECORDS; i++) {
        snprintf(record, sizeof record, "%06d%*d\n", who, RECORD - 7, i);
        if (write(fd, record, RECORD) != RECORD)
            _exit(1);
    }
}

/* How many of the records that all writers wrote are there, each once. */
static int count_records(const char *path)
{
    static char text[2 * ALL * RECORD];
    static bool seen[ALL];
    int fd = open(path, O_RDONLY);
    int n = 0;
    int who, i;
    ssize_t len = read(fd, text, sizeof text);

    memset(seen, 0, sizeof seen);
    for (ssize_t at = 0; at + RECORD <= len; at += RECORD)
        if (sscanf(text + at, "%6d%d", &who, &i) == 2 && who < CHILDREN && i < RECORDS &&
            !seen[who * RECORDS + i]) {
            seen[who * RECORDS + i] = true;
            n++;
        }

    close(fd);
    return len == (ssize_t)ALL * RECORD ? n : -1;
}

static bool wait_for_all(int n)
{
    bool well = true;
    int status;

    for (; n > 0; n--)
        well = wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 && well;

    return well;
}

/* The parent has written itself before, so that a run is under way. */
static void forked_writers(void)
{
    int fd = open("/fwd/forked", O_RDWR | O_CREAT | O_TRUNC, 0644);

    for (int who = 1; who < CHILDREN; who++)
        if (fork() == 0) {
            write_records(fd, who);
            _exit(0);
        }

    write_records(fd, 0);
    IS(wait_for_all(CHILDREN - 1), true);
    IS(lseek(fd, 0, SEEK_CUR), ALL * RECORD);
    close(fd);
    IS(count_records("/fwd/forked"), ALL);
}

/* Each reads records at the shared offset and says which. */
static void forked_readers(void)
{
    int fd = open("/fwd/forked", O_RDONLY);
    int answers[2];
    int n = 0;
    char record[RECORD];

    pipe(answers);
    IS(read(fd, record, RECORD) == RECORD && read(fd, record, RECORD) == RECORD, true);

    for (int who = 0; who < CHILDREN; who++)
        if (fork() == 0) {
            while (read(fd, record, RECORD) == RECORD)
                write(answers[1], "r", 1);

            _exit(0);
        }

    IS(wait_for_all(CHILDREN), true);
    close(answers[1]);
    while (read(answers[0], record, 1) == 1)
        n++;

    IS(n, ALL - 2);
    close(answers[0]);
    close(fd);
}

static void by_exec(const char *self)
{
    int fd = open("/fwd/exec", O_RDWR | O_CREAT | O_TRUNC, 0644);
    char number[2][12];

    snprintf(number[0], sizeof number[0], "%d", fd);
    for (int who = 1; who < CHILDREN; who++)
        if (fork() == 0) {
            snprintf(number[1], sizeof number[1], "%d", who);
            execl(self, self, number[0], number[1], (char *)NULL);
            _exit(1);
        }

    write_records(fd, 0);
    IS(wait_for_all(CHILDREN - 1), true);
    close(fd);
    IS(count_records("/fwd/exec"), ALL);
}

/* A file of this process's own, whose place the one that it is sent may get. */
static void use_another(int who)
{
    char path[40];

    snprintf(path, sizeof path, "/fwd/own.%d", who);

    int fd = open(path, O_RDWR | O_CREAT, 0644);

    if (write(fd, path, 1) != 1 || write(fd, path, 1) != 1 || close(fd) != 0)
        _exit(1);
}

/* The receivers live before the file is opened. */
static void by_message(void)
{
    char ready;
    int pair[CHILDREN][2];

    for (int who = 1; who < CHILDREN; who++) {
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair[who]);
        if (fork() == 0) {
            use_another(who);
            write(pair[who][1], "r", 1);
            write_records(receive_fd(pair[who][1]), who);
            _exit(0);
        }

        IS(read(pair[who][0], &ready, 1), 1);
    }

    int fd = open("/fwd/sent", O_RDWR | O_CREAT | O_TRUNC, 0644);

    for (int who = 1; who < CHILDREN; who++)
        send_fd(pair[who][0], fd);

    write_records(fd, 0);
    IS(wait_for_all(CHILDREN - 1), true);
    close(fd);
    IS(count_records("/fwd/sent"), ALL);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        write_records(atoi(argv[1]), atoi(argv[2]));
        return 0;
    }

    forked_writers();
    forked_readers();
    by_exec(argv[0]);
    by_message();

    return 0;
}
