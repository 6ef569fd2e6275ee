/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens the file client of the process, with its first links to servers.
 *
 * Layer: iofwd.  Thread rule: see client/internal.h.
 */
#include "am/am.h"
#include "iofwd/client/client.h"
#include "iofwd/client/state.h"
#include "iofwd/wire/handshake.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/os/limits.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "boot/control.h"
#include "boot/standing.h"
#include "iofwd/client/coalesce/coalesce.h"
#include "iofwd/client/versions.h"
#include "iofwd/client/recovery/failover.h"
#include "iofwd/client/attach/private_server.h"
#include "iofwd/client/data/passthrough.h"
#include "iofwd/client/lookups.h"
#include "iofwd/client/data/stripe.h"

#define CLIENT_FDS 32 /* descriptors that opening a client needs at most */
#define SLOTS_MAX 64
#define AREA_MAX ((size_t)64 << 20) /* address space; pages are allocated on use */

static int host_fcntl(int fd, int command, void *arg)
{
    return fcntl(fd, command, arg);
}

static int host_openat2(int dir, const char *path, const struct open_how *how, size_t size)
{
    return (int)syscall(SYS_openat2, dir, path, how, size);
}

struct amph_client_state amph_client_state = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .layers.first = &amph_layer_forward,
    .host = { read, write, pread, pwrite, lseek, ftruncate, fsync, fdatasync, fstat, fstatat, statx,
              faccessat, readlinkat, host_openat2, close, host_fcntl, NULL },
    .fork.number_pipe = { -1, -1 },
    .private_server.fd = -1,
    .trace.fd = STDERR_FILENO,
    .files.lock = PTHREAD_MUTEX_INITIALIZER,
    .nonblocking.lock = PTHREAD_MUTEX_INITIALIZER,
    .nonblocking.work = PTHREAD_COND_INITIALIZER,
    .nonblocking.done = PTHREAD_COND_INITIALIZER,
};
_Thread_local struct amph_client_thread amph_client_thread;

/* ---- opening the client ---- */

/* The next of `left` servers gets half of the time until end_ns, and the last one all of it, so that
 * those that do not answer take no longer than a single one. */
static void give_share(struct amph_fwd_client *cl, uint64_t end_ns, uint32_t left)
{
    uint64_t now = amph_now_ns();
    uint64_t rest = end_ns > now ? end_ns - now : 0;

    cl->give_up_ns = now + (left > 1 ? rest / 2 : rest);
}

/* Asks the registrar, which is server 0, or the next one if that is dead. */
static enum amph_status join_servers(struct amph_fwd_client *cl, uint64_t end_ns)
{
    enum amph_status st = AMPH_ERR_PEER;

    for (uint32_t i = 0; i < cl->nlinks && st != AMPH_OK && st != AMPH_ERR_FULL; i++) {
        give_share(cl, end_ns, cl->nlinks - i);
        st = amph_client_link_join(cl, &cl->link[i]);
    }

    return st;
}

/* Occupies all free small descriptor numbers while the client opens, so that the client's
 * descriptors get high ones.  If the limit of descriptors is low, leaves as many free as the client
 * needs. */
static int fill_small_fds(int fds[AMPH_CLIENT_FDS_FROM])
{
    struct rlimit may;
    int min = AMPH_CLIENT_FDS_FROM;
    int n = 0;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (getrlimit(RLIMIT_NOFILE, &may) == 0 && may.rlim_cur < AMPH_CLIENT_FDS_FROM + CLIENT_FDS)
        min = (int)may.rlim_cur - CLIENT_FDS;

    while (fd >= 0 && fd < min) {
        fds[n++] = fd;
        fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
    }

    if (fd >= 0)
        close(fd);

    return n;
}

static enum amph_status open_area(struct amph_fwd_client *cl)
{
    struct amph_arena_part part;
    size_t page = amph_page_bytes();

    cl->piece = amph_env_size(AMPH_ENV_IOFWD_PIECE);
    cl->block = amph_env_size(AMPH_ENV_IOFWD_BLKSIZE);
    cl->nslots = (uint32_t)amph_env_int(AMPH_ENV_IOFWD_SLOTS);
    if (cl->nslots > SLOTS_MAX)
        cl->nslots = SLOTS_MAX;

    cl->nparts = cl->nlinks < AMPH_FWD_PARTS_MAX ? cl->nlinks : AMPH_FWD_PARTS_MAX;

    unsigned cores = amph_am_cores();

    cl->near_readers = cores + 1; /* one more than cores, so that no core idles between two */

    /* file systems serialise the writers of a file */
    cl->near_writers = cores > 2 ? cores - 1 : 1;
    cl->part_bytes = amph_area_part_bytes(page);
    while (cl->nparts > 1 && cl->nparts * cl->part_bytes > AREA_MAX)
        cl->nparts--;

    enum amph_status st = amph_arena_area(cl->part_bytes * cl->nparts, page, &part);
    if (st != AMPH_OK)
        return st;

    cl->area = part.base;
    if (part.len_bytes / cl->part_bytes < cl->nparts)
        cl->nparts = (uint32_t)(part.len_bytes / cl->part_bytes);

    return amph_am_mem_reg(cl->ep, part.base, part.len_bytes, part.fd, part.offset, &cl->area_mem);
}

static bool make_pends(struct amph_fwd_client *cl)
{
    uint8_t *mem = mmap(NULL, (size_t)AMPH_CLIENT_PENDING_MAX * AMPH_CLIENT_PENDING_BYTES,
                        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mem == MAP_FAILED)
        return false;

    for (unsigned i = 0; i < AMPH_CLIENT_PENDING_MAX; i++)
        cl->pend[i].buf = mem + (size_t)i * AMPH_CLIENT_PENDING_BYTES;

    atomic_store(&cl->pends, ~UINT64_C(0));
    return true;
}

/* Sets the client's number and servers from the job description.  A process of no group asks the
 * registrar for them. */
static bool number_client(struct amph_fwd_client *cl)
{
    const struct amph_jobdesc *job = cl->job;

    cl->rank = amph_boot_self(cl->boot);
    cl->hello_rank = cl->rank == AMPH_RANK_NONE && job->nproc[AMPH_COMPUTE] == 0
                         ? amph_boot_foreign_rank()
                         : cl->rank;
    cl->first = amph_boot_first(cl->boot, AMPH_SERVER);
    cl->nlinks = job->nproc[AMPH_SERVER];
    cl->number = amph_client_state.inherited.any ? amph_client_state.inherited.number
                                                 : FWD_NUMBER_NONE;
    cl->failover = amph_client_failover_on();
    cl->pid = getpid();
    cl->link = calloc(cl->nlinks, sizeof *cl->link);
    if (!cl->link)
        return false;

    for (uint32_t i = 0; i < cl->nlinks; i++) {
        cl->link[i].server = cl->first + i;
        cl->link[i].control_fd = cl->link[i].child_control_fd = -1;
    }

    if (cl->rank < job->nproc[AMPH_COMPUTE] && job->server_of) {
        uint32_t width = amph_client_stripe_width();
        uint32_t home = job->server_of[cl->rank] - cl->first;

        cl->nservers = width < cl->nlinks ? width : cl->nlinks;

        /* The default rule deals `width` servers to each client in turn.  Another rule names the
         * first one, and the others follow it. */
        if (home == cl->rank % cl->nlinks)
            home = (uint32_t)((uint64_t)cl->rank * cl->nservers % cl->nlinks);

        /* the ranks of an MPI program inside the job use different servers too */
        home += amph_boot_rank_inside(cl->boot) % cl->nlinks;
        for (uint32_t i = 0; i < cl->nservers; i++)
            cl->servers[i] = cl->first + (home + i) % cl->nlinks;
    }

    return true;
}

/* Skips a standing home server that is dead when the process attaches: it has none of the process's
 * files, so any other server can take its place. */
static void pass_over_home(struct amph_fwd_client *cl, enum amph_status why)
{
    uint32_t gone = cl->servers[0];

    if (cl->nservers > 1)
        memmove(cl->servers, cl->servers + 1, --cl->nservers * sizeof cl->servers[0]);
    else
        cl->servers[0] = cl->first + (gone - cl->first + 1) % cl->nlinks;

    amph_info("I/O server %" PRIu32
              " cannot be reached (%s): this process belongs to server %" PRIu32,
              amph_client_server_number(cl, gone), amph_status_text(why),
              amph_client_server_number(cl, cl->servers[0]));
}

/* Opens the links to servers with an inherited connection. */
static void open_inherited_links(struct amph_fwd_client *cl)
{
    struct amph_client_inherited *inh = &amph_client_state.inherited;

    for (uint32_t i = 0; inh->any && i < inh->n; i++) {
        if (inh->server[i] < cl->first || inh->server[i] - cl->first >= cl->nlinks)
            continue;

        struct amph_client_link *link = &cl->link[inh->server[i] - cl->first];
        enum amph_status st = amph_client_link_open(cl, link);

        if (st != AMPH_OK)
            /* that server has ended meanwhile; the other links are usable */
            amph_client_link_dead(cl, link, amph_status_text(st));
    }

    inh->any = false;
}

/* Opens the link to the home server.  If that is dead and another server can take its place, that one becomes the home
 * server. */
static enum amph_status open_home_link(struct amph_fwd_client *cl, uint64_t end_ns)
{
    enum amph_status last = AMPH_ERR_PEER; /* the last refusal, if any server is alive */

    for (uint32_t i = 0; i < cl->nlinks; i++) {
        struct amph_client_link *home = &cl->link[cl->servers[0] - cl->first];
        uint32_t state = atomic_load(&home->state);
        enum amph_status st = AMPH_OK;

        give_share(cl, end_ns, cl->nlinks - i);
        if (state == AMPH_CLIENT_LINK_NONE)
            st = amph_client_link_open(cl, home);
        else if (state == AMPH_CLIENT_LINK_DEAD)
            st = AMPH_ERR_PEER;

        if (st == AMPH_OK || st == AMPH_ERR_FULL || !(cl->failover || amph_client_is_standing(cl)))
            return st;

        if (st != AMPH_ERR_PEER)
            last = st;

        if (!cl->failover) {
            pass_over_home(cl, st);
            continue;
        }

        if (state == AMPH_CLIENT_LINK_NONE)
            amph_client_link_dead(cl, home, amph_status_text(st));

        amph_client_failover_rotate(cl);
    }

    return last;
}

/* Opens the client's first links; the others are opened when a call needs them. */
static enum amph_status open_links(struct amph_fwd_client *cl)
{
    uint64_t end_ns = amph_now_ns() + FWD_CONTROL_TIMEOUT_NS;

    cl->give_up_ns = end_ns;
    open_inherited_links(cl);

    enum amph_status st = cl->nservers == 0 ? join_servers(cl, end_ns) : AMPH_OK;

    if (st == AMPH_OK)
        st = open_home_link(cl, end_ns);

    cl->give_up_ns = 0;
    return st;
}

/* Reports why the client could not be opened.  opens: the failure was in reaching the servers. */
static void say_why(const struct amph_fwd_client *cl, bool opens, enum amph_status st)
{
    bool standing = amph_client_is_standing(cl);

    if (st == AMPH_ERR_FULL)
        amph_error("files cannot be forwarded: the I/O servers take no further process now; "
                   "calls give ENFILE");
    else if (st == AMPH_ERR_DENIED && opens)
        amph_error(
            "files cannot be forwarded: the I/O servers refuse this process; calls give EACCES");
    else if (st == AMPH_ERR_DENIED)
        amph_error("files cannot be forwarded: the I/O servers serve one user, and this process "
                   "runs as another (%lu)",
                   (unsigned long)geteuid());

    else if (st == AMPH_ERR_NOSYS && opens)
        amph_error("files cannot be forwarded: this process and the I/O servers have no network in "
                   "common; calls give EIO");
    else if (st == AMPH_ERR_NOMEM)
        amph_error("files cannot be forwarded: %s; calls give ENOMEM", amph_status_text(st));

    /* the job continues without that server (-on-server-death) */
    else if (st == AMPH_ERR_PEER && cl->nservers && !standing)
        amph_error("files cannot be forwarded: I/O server %" PRIu32
                   ", to which this process belongs, has ended; its calls give EIO",
                   amph_client_server_number(cl, cl->servers[0]));
    else if (!opens && cl->boot)
        amph_error("files cannot be forwarded: %s", amph_status_text(st));
    else
        amph_error(
            "files cannot be forwarded: no connection to the I/O servers (%s); is %s running?",
            amph_status_text(st), standing ? "iofwd-server -daemon" : "amphora-run -servers");
}

static int errno_of_open(enum amph_status st)
{
    switch (st) {
    case AMPH_ERR_DENIED:
        return EACCES;
    case AMPH_ERR_NOMEM:
        return ENOMEM;
    case AMPH_ERR_FULL:
        return ENFILE;
    default:
        return EIO;
    }
}

/* Was it logged why amph_boot_attach failed?  An address file was missing, damaged or another user's. */
static bool is_logged(enum amph_status st)
{
    const char *path = amph_env_str(AMPH_ENV_JOB);

    if (!path[0])
        return false;

    return st == AMPH_ERR_NOENT ||
           (st == AMPH_ERR_PROTO && (amph_boot_standing_is(path) || !amph_boot_jobfile_is(path))) ||
           (st == AMPH_ERR_DENIED && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0);
}

/* Joins the job whose servers the client uses.  Returns an errno value after a message, or ENOTCONN if there are no
 * servers. */
static int join_job(struct amph_fwd_client *cl)
{
    enum amph_status st = amph_boot_attach(&cl->boot);

    if (st != AMPH_OK && is_logged(st))
        return st == AMPH_ERR_DENIED ? EACCES : EIO;
    if (st == AMPH_ERR_NOENT)
        return ENOTCONN;

    if (st != AMPH_OK) {
        say_why(cl, false, st);
        return errno_of_open(st);
    }

    cl->job = amph_boot_job(cl->boot);
    if (cl->job->nproc[AMPH_SERVER] > 0)
        return 0;

    amph_boot_close(cl->boot);
    return ENOTCONN;
}

static void open_layers(void)
{
    amph_client_versions_open();
    amph_client_coalesce_open();
    amph_client_attributes_open();
    amph_client_passthrough_open();
    amph_client_lookups_open();
    amph_client_offsets_open();
    amph_client_closes_open();
    amph_client_trace_open();
}

/* Makes what the client needs before it opens links: its number, its endpoint and its transfer area. */
static enum amph_status prepare_links(struct amph_fwd_client *cl)
{
    if (!number_client(cl) || !make_pends(cl))
        return AMPH_ERR_NOMEM;

    amph_shm_set_maker(amph_client_make_memory, cl);

    enum amph_status st = amph_client_open_endpoint(cl);

    return st == AMPH_OK ? open_area(cl) : st;
}

static void discard(struct amph_fwd_client *cl)
{
    amph_shm_set_maker(NULL, NULL);
    if (cl->ep)
        amph_am_close(cl->ep);

    amph_boot_close(cl->boot);
    free(cl->link);
    free(cl);
}

static int open_client(struct amph_fwd_client **client_p)
{
    struct amph_fwd_client *cl = calloc(1, sizeof *cl);

    if (!cl) {
        amph_error("files cannot be forwarded: the client needs %zu bytes of memory%s; calls give "
                   "ENOMEM",
                   sizeof *cl, amph_limit_remedy(ENOMEM));
        return ENOMEM;
    }

    pthread_mutex_init(&cl->boot_lock, NULL);
    amph_thread_set_wait_mask(amph_client_wait_mask);

    if (!amph_fwd_join_mpmd(false)) {
        fflush(NULL);
        _exit(1); /* amph_fwd_join_mpmd has logged why */
    }

    int err = amph_client_private_server_start() == 0 ? join_job(cl) : EIO;

    if (err) {
        free(cl);
        return err;
    }

    open_layers();

    enum amph_status st = prepare_links(cl);
    bool prepared = st == AMPH_OK;

    if (prepared)
        st = open_links(cl);

    if (st != AMPH_OK) {
        say_why(cl, prepared, st);
        discard(cl);
        return errno_of_open(st);
    }

    amph_client_clock_measure(cl);
    *client_p = cl;
    return 0;
}

int amph_fwd_process(struct amph_fwd_client **client_p)
{
    *client_p = atomic_load_explicit(&amph_client_state.client, memory_order_acquire);
    if (AMPH_LIKELY(*client_p != NULL))
        return 0;

    struct amph_client_sigguard g;
    int fds[AMPH_CLIENT_FDS_FROM];

    amph_client_sigguard_enter(&g);
    pthread_mutex_lock(&amph_client_state.lock);
    *client_p = atomic_load(&amph_client_state.client);
    if (amph_client_state.failed == EACCES && amph_client_state.failed_euid != geteuid())
        amph_client_state.failed = 0; /* the servers may accept the present user */

    if (!*client_p && !amph_client_state.failed) {
        int nfds = fill_small_fds(fds);

        (void)amph_fwd_inherited(); /* reads IOFWD_PRIVATE_CLIENT */
        amph_client_state.failed_euid = geteuid();
        amph_client_state.failed = amph_limit_stack_suffices("a client that forwards files",
                                                             AMPH_STACK_MIN_BYTES)
                                       ? open_client(client_p)
                                       : ENOMEM;
        for (int i = 0; i < nfds; i++)
            close(fds[i]);

        if (!amph_client_state.failed)
            atomic_store_explicit(&amph_client_state.client, *client_p, memory_order_release);
    }

    int err = *client_p ? 0 : amph_client_state.failed;

    pthread_mutex_unlock(&amph_client_state.lock);
    amph_client_sigguard_leave(&g);
    return err;
}

void amph_fwd_try_again(void)
{
    pthread_mutex_lock(&amph_client_state.lock);
    amph_client_state.failed = 0;
    pthread_mutex_unlock(&amph_client_state.lock);
}

struct amph_fwd_client *amph_fwd_process_if_open(void)
{
    return atomic_load_explicit(&amph_client_state.client, memory_order_acquire);
}

uint32_t amph_fwd_client_number(const struct amph_fwd_client *cl)
{
    return cl->number;
}

size_t amph_fwd_client_servers(const struct amph_fwd_client *cl, const uint32_t **servers_p)
{
    *servers_p = cl->servers;
    return cl->nservers;
}
