/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_left PID...: kills these processes in the midst of a change, when versions of files are under way, and
 * waits until a server that is left has ended them.  Exit code 0: it has; 1: it has not within 10 s after they
 * ended; 2: no such moment was found.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "iofwd/wire/versions.h"

#define TRIES 2000
#define STAYS_NS \
    (40 * \
     AMPH_NS_PER_MS) /* what is under way that long after the stop belongs to the stopped ones */
#define LIMIT_NS (10 * AMPH_NS_PER_S)
#define END_MS 40000 /* a process */

static void pause_ns(uint64_t ns)
{
    const struct timespec t = { .tv_nsec = (long)ns };

    nanosleep(&t, NULL);
}

static const struct amph_fwd_versions *map(void)
{
    char path[64];

    snprintf(path, sizeof path, "/dev/shm/iofwd-%lu/versions", (unsigned long)geteuid());

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(NULL, sizeof(struct amph_fwd_versions), PROT_READ, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED) {
        perror(path);
        exit(2);
    }

    return at;
}

static bool is_under_way(const struct amph_fwd_version *v)
{
    uint32_t version;

    return !amph_fwd_version_take(v, &version);
}

static unsigned count(const struct amph_fwd_versions *v)
{
    unsigned n = is_under_way(&v->names) + is_under_way(&v->cuts);

    for (uint32_t i = 0; i < FWD_VERSIONS_LINES; i++)
        n += is_under_way(&v->line[i].data) + is_under_way(&v->line[i].attributes);

    return n;
}

static void send(char *const *pids, int signal)
{
    for (; *pids; pids++)
        kill((pid_t)atol(*pids), signal);
}

/*
 * Waits until the processes have ended, or long enough.  One that is killed while the kernel writes or cuts a file for
 * it ends after that, which takes long if the disk is busy, and has its claims until then.
 */
static void wait_for_ends(char *const *pids)
{
    for (; *pids; pids++) {
        int fd = (int)syscall(SYS_pidfd_open, (pid_t)atol(*pids), 0);
        struct pollfd ended = { .fd = fd, .events = POLLIN };

        if (fd < 0)
            continue; /* it exists no more */

        if (poll(&ended, 1, END_MS) == 0)
            printf("process %s has not ended within %d ms after it was killed\n", *pids, END_MS);

        close(fd);
    }
}

/* Stops the processes.  Returns how many changes are under way then. */
static unsigned stop(char *const *pids, const struct amph_fwd_versions *v)
{
    send(pids, SIGSTOP);
    pause_ns(2 * AMPH_NS_PER_MS);

    unsigned n = count(v);

    if (n)
        pause_ns(STAYS_NS);

    return n ? count(v) : 0;
}

int main(int argc, char **argv)
{
    char *const *pids = argv + 1;
    const struct amph_fwd_versions *v = map();
    unsigned n = 0;

    if (argc < 2)
        return 2;

    for (int i = 1; i < argc; i++)
        if (atol(argv[i]) <= 1)
            return 2;

    for (int i = 0; i < TRIES && !(n = stop(pids, v)); i++) {
        send(pids, SIGCONT);
        pause_ns((uint64_t)(i % 7 + 1) * 300 * AMPH_NS_PER_US);
    }

    printf("%u changes are under way in what is stopped\n", n);
    send(pids, SIGKILL);
    if (!n)
        return 2;

    wait_for_ends(pids);

    uint64_t begin = amph_now_ns();

    while (count(v) && amph_now_ns() - begin < LIMIT_NS)
        pause_ns(AMPH_NS_PER_MS);

    printf("%u are under way %.0f ms after the last one ended\n", count(v),
           (double)(amph_now_ns() - begin) / 1e6);
    return amph_now_ns() - begin >= LIMIT_NS;
}
