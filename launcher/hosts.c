/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is a host name of the netlist this machine's?  Layer: launcher.  Thread rule: one thread.
 *
 * A name that stands for an address of this machine, and a name that stands for nothing, are hosts of this machine (the second kind
 * is pretended); a name or number that stands for another machine's address is refused, since processes cannot be started there.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/netlist.h"
#include "launcher/say.h"

enum { RESOLVE_LIMIT_MS = 500 };

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family != b->sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return a->sa_family == AF_INET6 && memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                                              &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static bool is_ours(const struct sockaddr *address, const struct ifaddrs *list)
{
    if (address->sa_family == AF_INET && (ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24) == 127)
        return true;
    for (const struct ifaddrs *i = list; i; i = i->ifa_next)
        if (i->ifa_addr && same_address(i->ifa_addr, address))
            return true;
    return false;
}

/* What a name stands for: nothing or an address of ours gives true; else text says which address. */
static bool name_is_ours(const char *name, const struct ifaddrs *ours, char text[INET6_ADDRSTRLEN])
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    bool ok = true;
    if (getaddrinfo(name, NULL, &hints, &list) != 0)
        return true;
    for (struct addrinfo *a = list; a; a = a->ai_next) {
        ok = is_ours(a->ai_addr, ours);
        if (ok)
            break;
        getnameinfo(a->ai_addr, a->ai_addrlen, text, INET6_ADDRSTRLEN, NULL, 0, NI_NUMERICHOST);
    }
    freeaddrinfo(list);
    return ok;
}

/* The part that may take long (name servers), in a process of its own: exit code 1 after a sentence. */
static int check_all(const struct amph_jobdesc *job)
{
    struct ifaddrs *ours = NULL;
    char text[INET6_ADDRSTRLEN] = "";
    if (getifaddrs(&ours) != 0)
        ours = NULL;
    for (uint32_t h = 0; h < job->nhosts; h++)
        if (!name_is_ours(job->host_name[h], ours, text)) {
            amph_say("the host %s is another machine (%s); this version starts processes on this machine only: name localhost, or "
                     "names that stand for no machine (they become pretended hosts)",
                     job->host_name[h], text);
            return 1;
        }
    return 0;
}

static bool needs_resolving(const struct amph_jobdesc *job)
{
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    for (uint32_t h = 0; h < job->nhosts; h++)
        if (strcmp(job->host_name[h], "localhost") != 0 && strcmp(job->host_name[h], own) != 0)
            return true;
    return false;
}

enum amph_status amph_hosts_check(const struct amph_jobdesc *job)
{
    int fds[2], status = 0;
    if (!needs_resolving(job) || pipe(fds) < 0)
        return AMPH_OK;
    pid_t pid = fork();
    if (pid == 0)
        _exit(check_all(job));
    close(fds[1]);
    /* A name server that does not answer must not hold up a job of pretended hosts: no answer counts as "stands for nothing". */
    struct pollfd p = { .fd = fds[0], .events = POLLIN };
    if (pid > 0 && poll(&p, 1, RESOLVE_LIMIT_MS) == 0)
        kill(pid, SIGKILL);
    close(fds[0]);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 1 ? AMPH_ERR_ARG : AMPH_OK;
}
