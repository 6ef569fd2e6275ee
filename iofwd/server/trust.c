/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Could a client's process open the server's files by itself?
 *
 * Layer: iofwd.
 * Thread rule: progress thread; amph_server_trust_open before it starts.
 *
 * A descriptor is more than the right to read and write: its holder can map the file, or open it again by
 * /proc/self/fd, and has it when the server has ended.  So only a process with all of the server's rights to
 * files gets one: the process that sent the last greeting on the connection, as the kernel says.
 *
 * A process with capabilities can give up groups and other rights while it runs.  Others keep their rights until
 * they execute a program, which greets again.
 */
#include "iofwd/server/trust.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/platform.h"

#define STATUS_BYTES \
    8192 /* of /proc/PID/status; a process with 700 groups has more, and is not trusted */

/* What a process must have in common with the server: the files that it sees, and what its user, groups and
 * capabilities mean. */
static const char *const objects[AMPH_SERVER_TRUST_OBJECTS] = { "ns/mnt", "ns/user", "root" };

static bool look_at_objects(const char *process, struct amph_server_rights *rights)
{
    for (size_t i = 0; i < AMPH_COUNTOF(objects); i++) {
        char path[64];
        struct stat st;

        snprintf(path, sizeof path, "/proc/%s/%s", process, objects[i]);
        if (stat(path, &st) != 0)
            return false;

        rights->object[i].dev = st.st_dev;
        rights->object[i].ino = st.st_ino;
    }

    return true;
}

/* Reads /proc/PROCESS/status as a text. */
static bool read_status(const char *process, char text[STATUS_BYTES])
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%s/status", process);

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, STATUS_BYTES);

    if (fd >= 0)
        close(fd);

    if (n <= 0 || n == STATUS_BYTES)
        return false;

    text[n] = 0;
    return true;
}

/* Returns the value of a line of the status, or NULL.  name: with the colon. */
static const char *value_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at && at > text && at[-1] == '\n' ? at + strlen(name) : NULL;
}

/* Reads the numbers up to the end of the line; returns how many there are. */
static size_t take_numbers(const char *at, uint32_t *number, size_t max)
{
    size_t n = 0;

    while (n < max) {
        at += strspn(at, " \t");
        if (*at < '0' || *at > '9')
            break;

        char *end;

        number[n++] = (uint32_t)strtoul(at, &end, 10);
        at = end;
    }

    return n;
}

static bool parse_status(const char *text, struct amph_server_rights *rights)
{
    enum {
        REAL,
        EFFECTIVE,
        SAVED,
        FILES,
        IDS
    };
    const char *users = value_of(text, "Uid:");
    const char *group = value_of(text, "Gid:");
    const char *groups = value_of(text, "Groups:");
    const char *permitted = value_of(text, "CapPrm:");
    const char *effective = value_of(text, "CapEff:");
    uint32_t uid[IDS], gid[IDS];

    if (!users || !group || !groups || !permitted || !effective ||
        take_numbers(users, uid, IDS) != IDS || take_numbers(group, gid, IDS) != IDS ||
        uid[EFFECTIVE] != uid[FILES])
        return false;

    rights->uid = uid[FILES];
    rights->group[0] = gid[FILES];
    rights->ngroups = 1 + take_numbers(groups, rights->group + 1, AMPH_SERVER_TRUST_GROUPS);
    rights->permitted = strtoull(permitted, NULL, 16);
    rights->effective = strtoull(effective, NULL, 16);

    return rights->ngroups <= AMPH_SERVER_TRUST_GROUPS;
}

static bool look_at(const char *process, struct amph_server_rights *rights)
{
    char text[STATUS_BYTES];

    return look_at_objects(process, rights) && read_status(process, text) &&
           parse_status(text, rights);
}

static bool is_member(const struct amph_server_rights *rights, uint32_t group)
{
    for (size_t i = 0; i < rights->ngroups; i++)
        if (rights->group[i] == group)
            return true;

    return false;
}

/* Has a process with these rights all that the server has? */
static bool includes(const struct amph_server_rights *theirs, const struct amph_server_rights *ours)
{
    if (theirs->uid != ours->uid || (ours->effective & ~theirs->effective) != 0)
        return false;

    for (size_t i = 0; i < AMPH_SERVER_TRUST_OBJECTS; i++)
        if (theirs->object[i].dev != ours->object[i].dev ||
            theirs->object[i].ino != ours->object[i].ino)
            return false;

    for (size_t i = 0; i < ours->ngroups; i++)
        if (!is_member(theirs, ours->group[i]))
            return false;

    return true;
}

bool amph_server_trust_open(struct amph_server_rights *ours)
{
    return look_at("self", ours);
}

enum amph_server_trust amph_server_trust_of(const struct amph_server_rights *ours, pid_t pid)
{
    struct amph_server_rights theirs;
    char process[16];

    snprintf(process, sizeof process, "%d", (int)pid);
    if (pid <= 0 || !look_at(process, &theirs) || !includes(&theirs, ours))
        return AMPH_SERVER_TRUST_NONE;

    return theirs.permitted ? AMPH_SERVER_TRUST_NOW : AMPH_SERVER_TRUST_LASTS;
}
