/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of fwd_failover that checks shared offsets and calls whose server dies before the reply. */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "include/iofwd.h"
#include "tests/files/fwd_kill.h"
#include "tests/files/failover/fwd_failover.h"

/* ---- several processes write at one offset when the server dies: what was said to be written is
 * there, once and whole ---- */

enum {
    SHARERS = 3,
    RECORDS = 1500,
    LARGE_RECORDS = 60,
    RECORD_MIN = 20,
    RECORD_MAX = 3000,
    LARGE_MIN = 300000, /* a striped file's servers share out calls of this size */
    LARGE_MAX = 1000000
};

static bool large;

static size_t make_record(char *record, int who, int seq)
{
    size_t least = large ? LARGE_MIN : RECORD_MIN;
    size_t most = large ? LARGE_MAX : RECORD_MAX;
    size_t len = least + mix((uint32_t)(who * RECORDS + seq)) % (most - least);

    memset(record, 'a' + who, len);

    int n = snprintf(record, RECORD_MIN, "<%d:%05d:%07zu", who, seq, len);

    record[n] = ':';
    record[len - 1] = '>';
    return len;
}

int share_offset(int how, useconds_t after)
{
    static char record[LARGE_MAX];
    const int records = large ? LARGE_RECORDS : RECORDS;
    int result[SHARERS][2];
    int fd = open(in("shared", 0), O_RDWR | O_CREAT | O_TRUNC, 0600);
    int said[SHARERS];
    int lost = 0;
    pid_t pid[SHARERS];

    MUST(fd >= 0);
    for (int who = 0; who < SHARERS; who++) {
        MUST(pipe(result[who]) == 0);
        if ((pid[who] = fork()) == 0) {
            int seq = 0;

            while (seq < records && write(fd, record, make_record(record, who, seq)) > 0)
                seq++;

            _exit((seq < records && errno != EIO) ||
                  write(result[who][1], &seq, sizeof seq) != sizeof seq);
        }
    }

    usleep(delay);
    kills = 1;
    while (!kill_newest())
        usleep(1000);

    usleep(after);
    MUST(how == 0 || kill(pid[0], how) == 0);

    for (int who = SHARERS - 1, status; who >= 0; who--) {
        said[who] = 0;
        MUST(who != 0 || how != SIGSTOP || kill(pid[0], SIGCONT) == 0);
        MUST(waitpid(pid[who], &status, 0) == pid[who] &&
             (status == 0 || (who == 0 && how == SIGKILL)));
        MUST(status != 0 || read(result[who][0], &said[who], sizeof said[who]) == sizeof said[who]);
    }

    int again = open(in("shared", 0), O_RDONLY);
    struct stat st;

    MUST(again >= 0 && fstat(again, &st) == 0);

    char *all = calloc(1, (size_t)st.st_size + 1);

    MUST(all && pread(again, all, (size_t)st.st_size, 0) == st.st_size);

    static int times[SHARERS][RECORDS];

    for (char *at = all; (at = memchr(at, '<', (size_t)(all + st.st_size - at))); at++) {
        int who, seq;
        char head[16] = "";

        memcpy(head, at,
               sizeof head - 1 < (size_t)(all + st.st_size - at) ? sizeof head - 1
                                                                 : (size_t)(all + st.st_size - at));
        if (sscanf(head, "<%d:%5d:", &who, &seq) != 2 || who < 0 || who >= SHARERS || seq < 0 ||
            seq >= RECORDS)
            continue;

        size_t len = make_record(record, who, seq);

        times[who][seq] += len <= (size_t)(all + st.st_size - at) && memcmp(at, record, len) == 0;
    }

    for (int who = 0; who < SHARERS; who++)
        for (int seq = 0; seq < said[who]; seq++)
            lost += times[who][seq] != 1;

    printf("%d %d %d of %d records each, %d lost or twice\n", said[0], said[1], said[2], records,
           lost);
    free(all);
    return lost != 0;
}

int share_striped(void)
{
    large = true;
    return share_offset(0, 0);
}

/* ---- a process is killed whose call at the shared offset was executed but not recorded, the server
 * lives, and the processes that used the file since end: the next one must not write over their data ---- */

enum {
    BLOCK = 4096,
    LOOKS = 200 /* at the size, before a process that was stopped too early goes on */
};

struct written {
    _Atomic long blocks; /* by the process that is killed */
};

static void write_for_ever(int fd, struct written *w)
{
    static char block[BLOCK];

    memset(block, 'a', sizeof block);
    while (write(fd, block, sizeof block) == sizeof block)
        w->blocks++;

    _exit(1);
}

/* Stops the writer at a moment when the file has a block more than it knows of; the first block of
 * the file is another's. */
static void stop_with_answer_unread(pid_t pid, struct written *w, int look)
{
    for (;;) {
        struct stat st = { .st_size = 0 };
        int status;

        MUST(kill(pid, SIGSTOP) == 0 && waitpid(pid, &status, WUNTRACED) == pid &&
             WIFSTOPPED(status));
        for (int i = 0; i < LOOKS; i++) {
            MUST(fstat(look, &st) == 0);
            if (w->blocks > 0 && st.st_size > (w->blocks + 1) * BLOCK)
                return;
        }

        MUST(kill(pid, SIGCONT) == 0);
        while (process_state(pid) == 'T')
            usleep(100);
    }
}

int killed_sharer(void)
{
    struct written *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                             -1, 0);
    int fd = open(in("shared", 0), O_RDWR | O_CREAT | O_TRUNC, 0600);
    int status, go[2], said[2];
    char c, block[BLOCK], found[BLOCK];
    pid_t killed_one, other;

    MUST(w != MAP_FAILED && fd >= 0 && pipe(go) == 0 && pipe(said) == 0);
    if ((other = fork()) == 0) {
        memset(block, 'b', sizeof block);
        for (int i = 0; i < 2; i++)
            if (read(go[0], &c, 1) != 1 || write(fd, block, sizeof block) != sizeof block ||
                write(said[1], "", 1) != 1)
                _exit(1);

        _exit(0);
    }

    MUST(kill_and_wait(newest_server()));
    MUST(write(go[1], "", 1) == 1 && read(said[0], &c, 1) == 1);
    if ((killed_one = fork()) == 0)
        write_for_ever(fd, w);

    int look = open(in("shared", 0), O_RDONLY);

    MUST(look >= 0);
    stop_with_answer_unread(killed_one, w, look);
    MUST(kill(killed_one, SIGKILL) == 0 && waitpid(killed_one, &status, 0) == killed_one);

    MUST(write(go[1], "", 1) == 1 && read(said[0], &c, 1) == 1);
    MUST(waitpid(other, &status, 0) == other && status == 0);

    memset(block, 'c', sizeof block);

    ssize_t n = write(fd, block, sizeof block);
    struct stat st;
    int others = 0;

    MUST(n == sizeof block || (n < 0 && errno == EIO));
    MUST(fstat(look, &st) == 0);
    memset(block, 'b', sizeof block);
    for (off_t at = 0; at + BLOCK <= st.st_size; at += BLOCK) {
        MUST(pread(look, found, BLOCK, at) == BLOCK);
        others += memcmp(found, block, BLOCK) == 0;
    }

    printf("%d of 2 blocks of the process that ended are left, the next one's write gives %zd\n",
           others, n);
    return others != 2;
}

/* ---- calls whose server dies when they have come to it, and nobody knows whether they have been
 * done ---- */

static int append(int fd)
{
    return write(fd, "abc", 3) == 3 ? 0 : errno;
}

static int append_at(int fd)
{
    return pwrite(fd, "abc", 3, 0) == 3 ? 0 : errno;
}

static int append_once(int fd)
{
    struct iovec v = { "abc", 3 };
    return pwritev2(fd, &v, 1, 0, RWF_APPEND) == 3 ? 0 : errno;
}

static int make(int fd)
{
    return open(in("exclusive", 0), O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0 ? 0 : errno;
}

static int make_or_open(int fd)
{
    return open(in("either", 0), O_CREAT | O_WRONLY, 0600) >= 0 ? 0 : errno;
}

static int make_directory(int fd)
{
    return mkdir(in("made", 0), 0700) == 0 ? 0 : errno;
}

static int make_attribute(int fd)
{
    return fsetxattr(fd, "user.made", "abc", 3, XATTR_CREATE) == 0 ? 0 : errno;
}

static int make_attribute_of_path(int fd)
{
    return setxattr(in("attributed", 0), "user.made", "abc", 3, XATTR_CREATE) == 0 ? 0 : errno;
}

static int set_attribute(int fd)
{
    return fsetxattr(fd, "user.set", "abc", 3, 0) == 0 ? 0 : errno;
}

static const struct {
    int (*call)(int fd);
    int flags, wanted;
} unanswered[] = { { append, O_APPEND, EIO },  { append_at, O_APPEND, EIO },
                   { append_once, 0, EIO },

                   { make, 0, EIO },           { make_directory, 0, EIO },
                   { append, 0, 0 },           { make_or_open, 0, 0 },
                   { make_attribute, 0, EIO }, { make_attribute_of_path, 0, EIO },
                   { set_attribute, 0, 0 } };

int unanswered_only(void)
{
    _Atomic int *begun = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                              0);
    int wrong = 0;
    int status, ready[2], go[2];
    char c;

    MUST(begun != MAP_FAILED && pipe(ready) == 0 && pipe(go) == 0);
    MUST(close(open(in("attributed", 0), O_RDWR | O_CREAT, 0600)) == 0);
    for (int i = 0; i < (int)(sizeof unanswered / sizeof *unanswered); i++) {
        struct stat st;
        int fd = open(in("unanswered.", i + 1), O_RDWR | O_CREAT | unanswered[i].flags, 0600);

        MUST(fd >= 0);

        pid_t server = newest_server();
        pid_t pid = fork();

        *begun = 0;
        if (pid == 0) {
            MUST(fsync(fd) == 0 && write(ready[1], "", 1) == 1 && read(go[0], &c, 1) == 1);
            *begun = 1;
            _exit(unanswered[i].call(fd));
        }

        MUST(read(ready[0], &c, 1) == 1 && kill(server, SIGSTOP) == 0 && write(go[1], "", 1) == 1);
        while (!*begun || process_state(pid) != 'S')
            usleep(200);

        MUST(kill_and_wait(server));
        MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
        /* file systems without extended attributes */
        if (WEXITSTATUS(status) != unanswered[i].wanted && WEXITSTATUS(status) != EOPNOTSUPP)
            wrong += printf("call %d gives %s\n", i, strerrorname_np(WEXITSTATUS(status)));

        MUST(fstat(fd, &st) == 0 && st.st_size <= 3);
        close(fd);
    }

    return wrong != 0;
}

/* ---- offsets that are not the sum of what has been read and written ---- */
int placed_only(void)
{
    enum {
        ENTRIES = 3000
    };

    static char seen[ENTRIES];
    char name[80];
    int n = 0;
    int number;
    int fd = open(in("placed", 0), O_RDWR | O_CREAT, 0600);

    MUST(fd >= 0 && write(fd, "0123456789", 10) == 10 && close(fd) == 0);
    fd = open(in("placed", 0), O_RDWR | O_APPEND);
    MUST(fd >= 0 && write(fd, "abc", 3) == 3);
    MUST(mkdir(in("many", 0), 0700) == 0);

    for (int i = 0; i < ENTRIES; i++) {
        snprintf(name, sizeof name, "many/a_name_that_is_long_enough_for_several_calls_%04d", i);
        int made = open(in(name, 0), O_WRONLY | O_CREAT, 0600);

        MUST(made >= 0 && close(made) == 0);
    }

    DIR *d = opendir(in("many", 0));
    const struct dirent *e;

    MUST(d != NULL);
    kills = 1;

    while ((e = readdir(d))) {
        if (n == ENTRIES / 2)
            MUST(kill_newest());

        if (sscanf(e->d_name, "a_name_that_is_long_enough_for_several_calls_%d", &number) == 1) {
            seen[number]++;
            n++;
        }
    }

    MUST(n == ENTRIES && memchr(seen, 0, ENTRIES) == NULL);
    MUST(lseek(fd, 0, SEEK_CUR) == 13);
    return 0;
}
