/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: finds its servers, and detects their end.
 *
 * A server that dies leaves the mount in place: calls on its files give EIO, or the next server
 * takes over (AMPHORA_ON_SERVER_DEATH=failover).  The directory below must not appear in its place,
 * or programs would write there.  When the whole set of servers has been ended, which removes its
 * address file, the mount ends too.
 *
 * Layer: iofwd.  Thread rule: the functions by main; a thread of its own watches.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/os/thread.h"
#include "boot/standing.h"
#include "iofwd/mount/mount.h"
#include "iofwd/wire/prefix.h"

#define LOOK_MS 200 /* interval of checks for the address file while a server is dead */

/* ---- start ---- */

/* Chooses the prefix: the given one, the one with the mount point's name, or the only one. */
static bool choose_prefix(const char *served)
{
    struct amph_fwd_prefixes *set = &amph_mount.served;
    const char *why = NULL;
    const char *wanted = amph_mount.o.prefix;

    if (!amph_fwd_prefix_parse(set, served, &why) || set->count == 0) {
        amph_mount_say("the prefixes \"%s\": %s", served, why ? why : "there are none");
        return false;
    }

    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->item[i].path, wanted ? wanted : amph_mount.o.mountpoint) == 0 ||
            (!wanted && set->count == 1)) {
            snprintf(amph_mount.prefix, sizeof amph_mount.prefix, "%s", set->item[i].path);
            return true;
        }

    if (wanted)
        amph_mount_say("the servers export no prefix %s, but %s", wanted, served);
    else
        amph_mount_say("the servers export several prefixes, %s: choose one by -iofwd PREFIX",
                       served);

    return false;
}

static bool take_address_file(void)
{
    const char *path = amph_mount.o.address_file;
    struct amph_standing set = { .n = 0 };

    if (!path)
        path = amph_boot_standing_default();

    if (!realpath(path, amph_mount.address_file)) {
        amph_mount_say("there is no address file %s: %s; start iofwd-server -daemon, or name its "
                       "file by -servers",
                       path, strerror(errno));
        return false;
    }

    path = amph_mount.address_file;

    bool standing = amph_boot_standing_is(path);
    const char *prefixes = amph_mount.o.prefix;

    if (standing) {
        if (amph_boot_standing_read(path, &set) != AMPH_OK)
            return false; /* it was logged */

        prefixes = set.prefix;
        unsetenv(amph_env_name(AMPH_ENV_RANK)); /* it may be set by an outer job */
    } else if (!prefixes) {
        prefixes = amph_env_str(AMPH_ENV_IOFWD_PREFIX);
    }

    if (!prefixes[0])
        amph_mount_say("%s is no address file of iofwd-server -daemon; if it is a job's, give the "
                       "prefix by -iofwd PREFIX",
                       path);

    bool ok = prefixes[0] && choose_prefix(prefixes) &&
              setenv(amph_env_name(AMPH_ENV_JOB), path, 1) == 0 &&
              setenv(amph_env_name(AMPH_ENV_IOFWD_PREFIX), prefixes, 1) == 0 &&
              setenv(amph_env_name(AMPH_ENV_IOFWD_CONSISTENCY), "posix", 1) == 0;

    amph_boot_standing_free(&set);
    amph_env_reload();
    return ok;
}

bool amph_mount_servers_open(void)
{
    if (!take_address_file())
        return false;

    amph_fwd_record_for_others(AMPH_FWD_WAY_MOUNT);

    int err = amph_fwd_process(&amph_mount.cl);

    if (err == ENOTCONN)
        amph_mount_say("%s names no servers", amph_mount.address_file);

    if (err) /* else it was logged */
        return false;

    err = amph_mount_node_begin(amph_mount.prefix);
    if (err)
        amph_mount_say("%s cannot be opened at its server: %s", amph_mount.prefix, strerror(err));

    return !err;
}

/* ---- end ---- */

/* The program for which iofwd-run -mount has made this mount has ended.  Its standard error, to which
 * messages went, is closed here too, because the reader of a pipe waits for that. */
static void release_owner(struct pollfd *owner)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (null >= 0)
        dup2(null, STDERR_FILENO);
    else
        close(STDERR_FILENO);

    if (null >= 0)
        close(null);

    close(owner->fd);
    owner->fd = -1;
}

/* Waits for the end of a connection or of the owner or, once a server is dead, for LOOK_MS. */
static bool look(bool dead)
{
    struct pollfd *owner = &amph_mount.watched.fd[amph_mount.watched.n];

    if (poll(amph_mount.watched.fd, amph_mount.watched.n + 1, dead ? LOOK_MS : -1) <= 0)
        return dead;

    if (owner->revents)
        release_owner(owner);

    for (nfds_t i = 0; i < amph_mount.watched.n; i++)
        if (amph_mount.watched.fd[i].fd >= 0 && amph_mount.watched.fd[i].revents &&
            !amph_fwd_notifier_drain(&amph_mount.watched.notifier[i])) {
            amph_mount.watched.fd[i].fd = -1;
            amph_fwd_notifier_release(&amph_mount.watched.notifier[i], true);
            dead = true;
        }

    return dead;
}

static void *watch(void *unused)
{
    bool dead = false;

    while (!dead || access(amph_mount.address_file, F_OK) == 0)
        dead = look(dead);

    fprintf(stderr, "iofwd-mount: the I/O servers have ended, and so does the mount\n");
    kill(getpid(), SIGTERM); /* to the main thread; all others block it */
    return NULL;
}

bool amph_mount_servers_watch(void)
{
    const uint32_t *servers;
    size_t n = amph_fwd_client_servers(amph_mount.cl, &servers);
    pthread_t thread;

    for (size_t i = 0; i < n && i < AMPH_FWD_PARTS_MAX; i++) {
        struct amph_fwd_notifier *notifier = &amph_mount.watched.notifier[amph_mount.watched.n];

        if (amph_fwd_notifier_acquire(amph_mount.cl, servers[i], true, notifier) != 0)
            continue;

        amph_mount.watched.fd[amph_mount.watched.n++] = (struct pollfd){ .fd = notifier->fd,
                                                                         .events = POLLIN };
    }

    struct amph_mount_options *o = &amph_mount.o;
    struct pollfd *owner = &amph_mount.watched.fd[amph_mount.watched.n];

    *owner = (struct pollfd){ .fd = -1, .events = POLLIN };
    if (o->owner > 0)
        owner->fd = (int)syscall(SYS_pidfd_open, o->owner, 0);
    if (owner->fd < 0)
        o->owner = 0; /* it has ended, or the kernel is older than 5.3 */

    int err = amph_mount.watched.n ? amph_thread_start(&thread, true, 0, watch, NULL) : EIO;

    if (err)
        amph_mount_say("the servers cannot be watched: %s", strerror(err));

    return !err;
}
