/* SPDX-License-Identifier: BSD-3-Clause */
/* IP addresses of the networks; see inet.h.  Layer: conduits.  Thread rule: any thread. */
#include "conduits/inet.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os/limits.h"
#include "base/log.h"
#include "base/wire.h"

#define BLOB_VERSION 1

size_t amph_conduit_inet_len(const struct sockaddr_storage *sa)
{
    return sa->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static bool parse_ip(const char *text, struct sockaddr_storage *sa)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)sa;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)sa;

    memset(sa, 0, sizeof *sa);
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        sa->ss_family = AF_INET;
        return true;
    }

    if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
        sa->ss_family = AF_INET6;
        return true;
    }

    return false;
}

/* Returns the address of the interface called name or, if name is NULL, of the first one that is
 * not loopback.  Prefers IPv4; never returns a link-local IPv6 address. */
static bool interface_ip(const char *name, struct sockaddr_storage *sa)
{
    struct ifaddrs *all, *i;
    bool found = false;

    if (getifaddrs(&all) != 0)
        return false;

    for (int pass = 0; pass < 2 && !found; pass++)
        for (i = all; i && !found; i = i->ifa_next) {
            int family = pass == 0 ? AF_INET : AF_INET6;

            if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP) ||
                (name ? strcmp(i->ifa_name, name) != 0 : (i->ifa_flags & IFF_LOOPBACK) != 0))
                continue;

            memset(sa, 0, sizeof *sa);
            sa->ss_family = (sa_family_t)family;
            memcpy(sa, i->ifa_addr, amph_conduit_inet_len(sa));
            found = family == AF_INET ||
                    !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)sa)->sin6_addr);
        }

    freeifaddrs(all);
    return found;
}

/* Finds the source address of the route to `to`: connects a datagram socket, which sends nothing, and
 * asks for its local address. */
static bool source_ip(struct sockaddr_storage to, struct sockaddr_storage *sa)
{
    /* the port is at the same offset in both families */
    ((struct sockaddr_in *)&to)->sin_port = htons(9);

    int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;

    memset(sa, 0, sizeof *sa);

    socklen_t len = sizeof *sa;
    bool ok = connect(fd, (struct sockaddr *)&to, (socklen_t)amph_conduit_inet_len(&to)) == 0 &&
              getsockname(fd, (struct sockaddr *)sa, &len) == 0;

    close(fd);
    return ok;
}

static bool route_ip(const char *far_away, struct sockaddr_storage *sa)
{
    struct sockaddr_storage to;

    return parse_ip(far_away, &to) && source_ip(to, sa);
}

static void print_ip(const struct sockaddr_storage *sa, char *text)
{
    const void *ip = sa->ss_family == AF_INET6
                         ? (const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr
                         : (const void *)&((const struct sockaddr_in *)sa)->sin_addr;

    if (!inet_ntop(sa->ss_family, ip, text, INET6_ADDRSTRLEN))
        strcpy(text, "?");
}

bool amph_conduit_inet_source(const struct sockaddr_storage *to, char *text)
{
    struct sockaddr_storage sa;

    if (!source_ip(*to, &sa))
        return false;

    print_ip(&sa, text);
    return true;
}

static bool choose(const char *interface, bool loopback_only, struct sockaddr_storage *sa)
{
    if (interface && interface[0])
        return parse_ip(interface, sa) || interface_ip(interface, sa);

    /* An isolated cluster has no default route, but it has an interface. */
    return !loopback_only &&
           (route_ip("198.51.100.1", sa) || route_ip("2001:db8::1", sa) || interface_ip(NULL, sa));
}

static bool is_any(const struct sockaddr_storage *sa)
{
    return sa->ss_family == AF_INET6
               ? IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)sa)->sin6_addr)
               : ((const struct sockaddr_in *)sa)->sin_addr.s_addr == INADDR_ANY;
}

enum amph_status amph_conduit_inet_choose(const char *conduit, bool loopback_only,
                                          const char *interface, struct sockaddr_storage *sa)
{
    if (!choose(interface, loopback_only, sa)) {
        if (interface && interface[0]) {
            amph_error_shared("AMPHORA_INTERFACE=%s is neither an IP address nor an interface of "
                              "this host that is up and has one",
                              interface);
            return AMPH_ERR_NOENT;
        }

        if (!loopback_only)
            amph_warn_shared("this host has no interface but loopback; %s listens on 127.0.0.1 "
                             "(set AMPHORA_INTERFACE to choose)",
                             conduit);

        parse_ip("127.0.0.1", sa);
    }

    if (is_any(sa)) {
        amph_error_shared("AMPHORA_INTERFACE=%s stands for all interfaces, but %s tells others one "
                          "address by which to reach it; name an "
                          "interface, or one of this host's addresses",
                          interface, conduit);
        return AMPH_ERR_ARG;
    }

    ((struct sockaddr_in *)sa)->sin_port = 0; /* the port is at the same offset in both families */
    return AMPH_OK;
}

void amph_conduit_inet_report(const struct sockaddr_storage *sa, int err)
{
    char text[INET6_ADDRSTRLEN];

    print_ip(sa, text);

    const char *remedy = amph_limit_remedy(err);

    amph_error_shared("cannot listen on %s: %s%s", text, strerror(err),
                      *remedy ? remedy : "; AMPHORA_INTERFACE chooses another interface");
}

size_t amph_conduit_inet_put(const struct sockaddr_storage *sa, uint8_t *blob)
{
    bool v6 = sa->ss_family == AF_INET6;
    const struct sockaddr_in *in4 = (const struct sockaddr_in *)sa;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;

    blob[0] = BLOB_VERSION;
    blob[1] = v6 ? 6 : 4;
    memcpy(blob + 2, v6 ? &in6->sin6_port : &in4->sin_port, 2);
    memcpy(blob + 4, v6 ? (const void *)&in6->sin6_addr : (const void *)&in4->sin_addr,
           v6 ? 16 : 4);

    return v6 ? 20 : 8;
}

bool amph_conduit_inet_same_host(const uint8_t *blob, const uint8_t *other, size_t len_bytes)
{
    return blob[1] == other[1] && memcmp(blob + 4, other + 4, len_bytes - 4) == 0;
}

enum amph_status amph_conduit_inet_get(const void *blob, size_t len_bytes,
                                       struct sockaddr_storage *sa_p)
{
    const uint8_t *b = blob;
    struct sockaddr_in *in4 = (struct sockaddr_in *)sa_p;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)sa_p;

    memset(sa_p, 0, sizeof *sa_p);
    if (len_bytes == 8 && b[0] == BLOB_VERSION && b[1] == 4) {
        in4->sin_family = AF_INET;
        memcpy(&in4->sin_port, b + 2, 2);
        memcpy(&in4->sin_addr, b + 4, 4);
        return in4->sin_port ? AMPH_OK : AMPH_ERR_PROTO;
    }

    if (len_bytes == 20 && b[0] == BLOB_VERSION && b[1] == 6) {
        in6->sin6_family = AF_INET6;
        memcpy(&in6->sin6_port, b + 2, 2);
        memcpy(&in6->sin6_addr, b + 4, 16);
        return in6->sin6_port ? AMPH_OK : AMPH_ERR_PROTO;
    }

    return AMPH_ERR_PROTO;
}

size_t amph_conduit_inet_put_port(const struct sockaddr_storage *sa, uint32_t datagram,
                                  uint8_t *blob)
{
    uint32_t wire = amph_le32(datagram);
    size_t n = amph_conduit_inet_put(sa, blob);

    memcpy(blob + n, &wire, sizeof wire);
    return n + sizeof wire;
}

enum amph_status amph_conduit_inet_get_port(const void *blob, size_t len_bytes,
                                            struct sockaddr_storage *sa_p, uint32_t *datagram_p)
{
    uint32_t takes;

    if (len_bytes <= sizeof takes ||
        amph_conduit_inet_get(blob, len_bytes - sizeof takes, sa_p) != AMPH_OK)
        return AMPH_ERR_PROTO;

    memcpy(&takes, (const uint8_t *)blob + len_bytes - sizeof takes, sizeof takes);
    *datagram_p = amph_le32(takes);
    return *datagram_p >= 512 && *datagram_p <= AMPH_INET_DATAGRAM_MAX && *datagram_p % 8 == 0
               ? AMPH_OK
               : AMPH_ERR_PROTO;
}
