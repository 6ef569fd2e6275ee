/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides whether a host name of the host file is this machine's.
 *
 * A name with an address of this machine is a (perhaps pretended) host of this machine.  A name with
 * another address is reached by ssh.  A name without an address may be known to ssh only
 * (ssh_config), so it is left to ssh if other hosts of the job are reached by ssh or the user gave
 * the command.  Otherwise it must be a pretended host, by -pretend or by its form, so that a mistyped
 * name does not make the whole job run on this machine.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/platform.h"
#include "base/status.h"
#include "launcher/hosts/hostfile.h"
#include "launcher/common/message.h"

enum {
    RESOLVE_LIMIT_MS = 500,
    PATIENT_LIMIT_MS = 10000
};

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;

    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;

    return a->sa_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static bool is_ours(const struct sockaddr *address, const struct ifaddrs *list)
{
    if (address->sa_family == AF_INET &&
        (ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24) == 127)
        return true;

    for (const struct ifaddrs *i = list; i; i = i->ifa_next)
        if (i->ifa_addr && same_address(i->ifa_addr, address))
            return true;

    return false;
}

/* The kind of address that a name has. */
enum kind {
    NOTHING,
    OURS,
    ANOTHER
};

static enum kind kind_of(const char *name, const struct ifaddrs *ours)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *list = NULL;
    enum kind kind = ANOTHER;

    if (getaddrinfo(name, NULL, &hints, &list) != 0)
        return NOTHING;

    for (struct addrinfo *a = list; a && kind == ANOTHER; a = a->ai_next)
        if (is_ours(a->ai_addr, ours))
            kind = OURS;

    freeaddrinfo(list);
    return kind;
}

/* Looks the names up in a child process, because name servers may be slow.  Writes one byte for each
 * host. */
static void look_up_all(const struct amph_jobdesc *job, int fd) AMPH_NORETURN;
static void look_up_all(const struct amph_jobdesc *job, int fd)
{
    struct ifaddrs *ours = NULL;

    if (getifaddrs(&ours) != 0)
        ours = NULL;

    for (uint32_t h = 0; h < job->nhosts; h++) {
        uint8_t kind = (uint8_t)kind_of(job->host_name[h], ours);
        if (write(fd, &kind, 1) != 1)
            break;
    }

    _exit(0);
}

/* Reads the kinds from the child and returns how many arrived in time.  The time is short, so that a
 * slow name server does not delay a job of pretended hosts; it is longer after a name of another
 * machine was found. */
static uint32_t take_kinds(int fd, uint32_t n, bool patient, uint8_t *kind)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    uint32_t have = 0;

    while (have < n && poll(&p, 1, patient ? PATIENT_LIMIT_MS : RESOLVE_LIMIT_MS) > 0) {
        ssize_t got = read(fd, kind + have, n - have);

        if (got <= 0)
            break;

        for (ssize_t i = 0; i < got; i++)
            patient = patient || kind[have + (uint32_t)i] == ANOTHER;

        have += (uint32_t)got;
    }

    return have;
}

static bool needs_resolving(const struct amph_jobdesc *job, const char *own)
{
    for (uint32_t h = 0; h < job->nhosts; h++)
        if (strcmp(job->host_name[h], "localhost") != 0 && strcmp(job->host_name[h], own) != 0)
            return true;

    return false;
}

static void look_up(const struct amph_jobdesc *job, bool ssh_given, uint8_t *kind)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return;

    pid_t pid = fork();

    if (pid == 0)
        look_up_all(job, fds[1]);

    close(fds[1]);

    uint32_t have = pid > 0 ? take_kinds(fds[0], job->nhosts, ssh_given, kind) : 0;

    close(fds[0]);
    if (have < job->nhosts)
        amph_say("warning: the host name %s could not be looked up in time; it is treated as a "
                 "name without an address",
                 job->host_name[have]);

    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

/* host0, host1... (as -N makes them) and hostA, hostB... */
static bool has_pretended_form(const char *name)
{
    static const char word[] = "host";
    const char *rest = name + sizeof word - 1;

    if (strncmp(name, word, sizeof word - 1) != 0 || !*rest)
        return false;

    return rest[strspn(rest, "0123456789")] == 0 ||
           (isalpha((unsigned char)rest[0]) && rest[1] == 0);
}

static enum amph_status refuse(const char *name)
{
    amph_say("the host name %s has no address: correct it, or give -ssh if only ssh knows "
             "it, or -pretend if such names are "
             "pretended hosts on this machine (host0, hostA and the like always are)",
             name);
    return AMPH_ERR_NOENT;
}

enum amph_status amph_hosts_find(const struct amph_jobdesc *job, bool ssh_given, bool pretend,
                                 bool *remote)
{
    enum amph_status st = AMPH_OK;
    char own[256] = "";

    gethostname(own, sizeof own - 1);

    uint8_t *kind = calloc(job->nhosts, 1); /* NOTHING */
    bool any = ssh_given;

    if (kind && needs_resolving(job, own))
        look_up(job, ssh_given, kind);

    for (uint32_t h = 0; kind && h < job->nhosts; h++)
        any |= kind[h] == ANOTHER;

    for (uint32_t h = 0; kind && st == AMPH_OK && h < job->nhosts; h++) {
        const char *name = job->host_name[h];
        bool here = strcmp(name, "localhost") == 0 || strcmp(name, own) == 0 || kind[h] == OURS;

        remote[h] = any && !here;
        if (!any && !here && !pretend && !has_pretended_form(name))
            st = refuse(name);
    }

    free(kind);
    return kind ? st : AMPH_ERR_NOMEM;
}
