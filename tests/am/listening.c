/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which addresses a job listens on: every TCP and UDP socket of its processes, servers and launcher
 * is looked up in the kernel's tables; each that accepts unauthenticated peers must be bound to the job's
 * interface.   listening ADDRESS [MIN]   (how many there must be at least)
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <unistd.h>

#include <amphora.h>
#include <gasnetex.h>

#include "tests/gex/gex_common.h"

enum {
    TCP_LISTEN = 10,
    SOCKETS_MAX = 4096
};

static unsigned long inode[SOCKETS_MAX];
static size_t ninodes;

static void add_sockets(long pid)
{
    char path[300], target[64];

    snprintf(path, sizeof path, "/proc/%ld/fd", pid);

    DIR *dir = opendir(path);

    CHECK(dir);
    for (struct dirent *d; (d = readdir(dir)) && ninodes < SOCKETS_MAX;) {
        snprintf(path, sizeof path, "/proc/%ld/fd/%s", pid, d->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);

        target[n > 0 ? n : 0] = 0;
        ninodes += sscanf(target, "socket:[%lu]", &inode[ninodes]) == 1;
    }

    closedir(dir);
}

static long parent_of(long pid)
{
    char path[64], line[256];
    long parent = 0;

    snprintf(path, sizeof path, "/proc/%ld/status", pid);

    FILE *f = fopen(path, "r");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "PPid: %ld", &parent) == 1)
            break;

    if (f)
        fclose(f);

    return parent;
}

/* The sockets of one table that are ours and open to unauthenticated peers; each must be bound to `wanted`. */
static unsigned check_table(const char *name, bool v6, bool udp, const char *wanted)
{
    char path[64], line[512], local[64], remote[64], text[INET6_ADDRSTRLEN];
    unsigned count = 0;

    snprintf(path, sizeof path, "/proc/net/%s", name);

    FILE *f = fopen(path, "r");

    while (f && fgets(line, sizeof line, f)) {
        unsigned state;
        unsigned word[4] = { 0 };
        unsigned long number;

        if (sscanf(line, " %*d: %63s %63s %x %*s %*s %*s %*u %*u %lu", local, remote, &state,
                   &number) != 4)
            continue;

        bool ours = false;
        bool open = udp ? strspn(remote, "0:") == strlen(remote) : state == TCP_LISTEN;

        for (size_t i = 0; i < ninodes && !ours; i++)
            ours = inode[i] == number;

        if (!ours || !open)
            continue;

        sscanf(local, "%8x%8x%8x%8x", &word[0], &word[1], &word[2], &word[3]);
        CHECK(inet_ntop(v6 ? AF_INET6 : AF_INET, word, text, sizeof text));

        if (strcmp(text, wanted) != 0)
            fprintf(stderr, "a socket of the job (%s) waits on %s, not on %s\n", name, text,
                    wanted);

        CHECK(strcmp(text, wanted) == 0);
        count++;
    }

    if (f)
        fclose(f);

    return count;
}

int main(int argc, char **argv)
{
    gex_TM_t team;

    CHECK(gex_Client_Init(NULL, NULL, &team, "LISTENING", &argc, &argv, 0) == GASNET_OK);
    CHECK(argc > 1);
    add_sockets(getpid());

    for (uint32_t i = 0; i < amphora_group_size(AMPHORA_SERVERS); i++) {
        struct amphora_proc p;
        if (amphora_proc(amphora_member(AMPHORA_SERVERS, i), &p) == 0)
            add_sockets((long)p.pid);
    }

    long agent = parent_of(getpid());

    add_sockets(agent);
    if (parent_of(agent) > 1)
        add_sockets(parent_of(agent));

    unsigned n = check_table("tcp", false, false, argv[1]) +
                 check_table("tcp6", true, false, argv[1]) +
                 check_table("udp", false, true, argv[1]) +
                 check_table("udp6", true, true, argv[1]);

    CHECK(n >= (argc > 2 ? (unsigned)atoi(argv[2]) : 1));
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    gasnet_exit(0);
}
