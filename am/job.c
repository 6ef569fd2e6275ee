/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start of a runtime: joining the job, the endpoint over the own group, addresses, the job's
 * page size; and the events of the job.  Layer: am.  Thread rule: start by one thread; events are
 * handled by one thread at a time (amph_ep_tick).
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "am/ep.h"
#include "am/job.h"
#include "base/os/arena.h"
#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/os/limits.h"
#include "base/log.h"
#include "base/program/note.h"
#include "base/wire.h"
#include "boot/boot.h"

struct amph_job amph_job;

#define SERVERS_WAIT_NS (60 * AMPH_NS_PER_S)

/* Time for a process that must shut down to finish its output and exit by itself. */
#define SHUTDOWN_GRACE_NS (100 * AMPH_NS_PER_MS)

static const char *const group_name[AMPH_NGROUPS] = { "compute", "server" };

/* The description of a member of this process's group. */
static const struct amph_proc *member(const struct amph_jobdesc *desc, uint32_t rank)
{
    return &desc->proc[amph_job.first + rank];
}

static const char *host_of(const struct amph_jobdesc *desc, uint32_t absolute)
{
    uint32_t host = desc->proc[absolute].host;
    return host < desc->nhosts ? desc->host_name[host] : "?";
}

/* ---- events of the job ---- */

static void on_death(const struct amph_boot_event *e)
{
    char why[64];

    if (e->rank < amph_job.first || e->rank - amph_job.first >= amph_job.size)
        return; /* of the other group: iofwd handles it */

    amph_job.member_died = true;
    snprintf(why, sizeof why, "process %u died with exit code %d", e->rank, e->code);
    amph_am_peer_failed(amph_job.ep, e->rank - amph_job.first, AMPH_ERR_PEER, why);
}

static void on_drain(const struct amph_boot_event *e)
{
    /* for servers, through on_event */
}

static void on_shutdown(const struct amph_boot_event *e)
{
    if (amph_job.exiting || amph_job.shutdown_requested)
        return;

    amph_job.exit_code = e->code;
    amph_job.shutdown_requested = true;
    amph_job.shutdown_at_ns = amph_now_ns() + SHUTDOWN_GRACE_NS;
}

static void on_lost(const struct amph_boot_event *e)
{
    if (!amph_job.exiting)
        amph_fatal("the launcher of this job is gone, so this process ends; start the job again");
}

static void (*const on_event[])(const struct amph_boot_event *) = {
    [AMPH_BOOT_DEATH] = on_death,
    [AMPH_BOOT_DRAIN] = on_drain,
    [AMPH_BOOT_SHUTDOWN] = on_shutdown,
    [AMPH_BOOT_LOST] = on_lost,
};

/* Raises SIGQUIT if the client catches it, so that it can clean up and exit (GASNet-1 spec 3.1,
 * gasnet_exit). */
static void signal_client(void)
{
    struct sigaction sa;
    if (sigaction(SIGQUIT, NULL, &sa) == 0 && sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN)
        raise(SIGQUIT);
}

/* Ends this process if messages to or from a member were lost and the launcher has reported no death that
 * explains it: whoever waits for those messages would wait for ever. */
static void check_loss(void)
{
    uint64_t at_ns = __atomic_load_n(&amph_job.loss_at_ns, __ATOMIC_ACQUIRE);

    if (!at_ns || amph_job.exiting || amph_job.member_died || amph_job.shutdown_requested)
        return;

    /* Both sides may have found it at once: one sentence is enough. */
    uint64_t grace_ns = AMPH_JOB_LOSS_GRACE_NS +
                        (amph_job.rank > amph_job.loss_peer ? AMPH_JOB_SECOND_GRACE_NS : 0);

    if (amph_now_ns() - at_ns < grace_ns)
        return;

    const struct amph_jobdesc *desc = amph_boot_job(amph_job.boot);
    const char *remedy = amph_job.loss_st == AMPH_ERR_DENIED
                             ? "set it alike for all processes and servers of the job"
                             : "check the network between these hosts and start the job again";

    amph_fatal("%s %u on host %s cannot be reached: %s; %s",
               group_name[amph_boot_group(amph_job.boot)], amph_job.loss_peer,
               host_of(desc, amph_job.first + amph_job.loss_peer), amph_job.loss_why, remedy);
}

static void tick(struct amph_am_ep *ep)
{
    struct amph_boot_event e;

    while (amph_boot_progress(amph_job.boot, &e) == AMPH_OK) {
        if (amph_job.on_event)
            amph_job.on_event(&e);

        if ((size_t)e.kind < AMPH_COUNTOF(on_event))
            on_event[e.kind](&e);
    }

    if (amph_job.shutdown_requested && !amph_job.exiting &&
        amph_now_ns() >= amph_job.shutdown_at_ns) {
        amph_job.shutdown_at_ns = UINT64_MAX; /* only once, even if the client's handler polls */
        signal_client();
        amph_job_exit(amph_job.exit_code);
    }

    check_loss();
}

/* Only logs, and remembers it for amph_fatal: the launcher ends the job if a process dies, and a peer
 * that has left in order is no error.  If messages are lost, the peer's process may be alive:
 * check_loss.  Without memory this process ends. */
static void on_peer_error(struct amph_am_ep *ep, uint32_t peer, enum amph_status st,
                          const char *why)
{
    if (st == AMPH_ERR_NOMEM)
        amph_fatal("%s", why);

    __atomic_store_n(&amph_job.member_lost, true, __ATOMIC_RELAXED);
    if ((st == AMPH_ERR_LOST || st == AMPH_ERR_DENIED) &&
        !__atomic_load_n(&amph_job.loss_at_ns, __ATOMIC_RELAXED)) {
        amph_job.loss_peer = peer;
        amph_job.loss_st = st;
        snprintf(amph_job.loss_why, sizeof amph_job.loss_why, "%s", why);
        __atomic_store_n(&amph_job.loss_at_ns, amph_now_ns(), __ATOMIC_RELEASE);
    }

    amph_info("%s %u cannot be reached any more: %s", group_name[amph_boot_group(amph_job.boot)],
              peer, why);
}

/* ---- the start ---- */

static void set_identity(const struct amph_jobdesc *desc, enum amph_group group, uint32_t self)
{
    char who[96];

    snprintf(who, sizeof who, "%s %u (%s)", group_name[group], amph_job.rank, host_of(desc, self));
    amph_log_identity(who);
}

/* Counts the processes of the job on this host.  *one_host_p: all of this group are on it. */
static unsigned count_on_host(const struct amph_jobdesc *desc, uint32_t self, bool *one_host_p)
{
    uint32_t total = desc->nproc[AMPH_COMPUTE] + desc->nproc[AMPH_SERVER];
    uint32_t here = 0;

    for (uint32_t i = 0; i < total; i++)
        here += desc->proc[i].host == desc->proc[self].host;

    *one_host_p = true;
    for (uint32_t i = 0; i < amph_job.size; i++)
        *one_host_p &= member(desc, i)->host == desc->proc[self].host;

    return here;
}

static const struct {
    unsigned index;
    struct amph_am_entry entry;
} own_handlers[] = {
    { AMPH_AM_GATHER, { (void *)amph_am_gather_handler, false, 2, 1, 4, NULL, "gather" } },
    { AMPH_AM_EXITING, { (void *)amph_am_exiting_handler, false, 1, 3, 0, NULL, "exiting" } },
    { AMPH_AM_ALL_EXIT, { (void *)amph_am_all_exit_handler, false, 1, 1, 0, NULL, "all_exit" } },
};

/* GASNET_SUPERNODE_MAXSIZE divides the members on a host, by rank, into runs of this length, which
 * share no memory with each other.  Returns the run of this process.  *split_p: there are
 * several. */
static uint32_t supernode(const struct amph_jobdesc *desc, uint32_t self, bool *split_p)
{
    const uint32_t max = (uint32_t)amph_env_int(AMPH_ENV_SUPERNODE_MAXSIZE);
    const char *conduit = amph_conduit_effective_name(amph_job.built_conduit);
    uint32_t here = 0;
    uint32_t before = 0;

    for (uint32_t i = 0; i < amph_job.size; i++) {
        bool same = member(desc, i)->host == desc->proc[self].host;

        here += same;
        before += same && i < amph_job.rank;
    }

    *split_p = max && here > max && !amph_conduit_is_one_host(conduit);
    return *split_p ? before / max : 0;
}

/* Returns the number that identifies the processes that share memory with this one. */
static uint64_t memory_id(const struct amph_jobdesc *desc, uint32_t self, bool *split_p)
{
    char name[300];
    uint32_t run = supernode(desc, self, split_p);

    if (!*split_p)
        return amph_am_host_id(host_of(desc, self));

    snprintf(name, sizeof name, "%.255s, supernode %u", host_of(desc, self), run);
    return amph_am_host_id(name);
}

/* A process joins a network only if this number of descriptors is left: for its segments, its shared memory and
 * its first connections. */
enum {
    INCOMING_MIN = 11
};

/* What a process of a job on one host takes of a stack, with its environment. */
#define SMP_STACK_MIN_BYTES ((size_t)32 << 10)

static enum amph_status open_endpoint(bool threaded, const struct amph_jobdesc *desc, uint32_t self,
                                      bool one_host)
{
    bool split;
    struct amph_am_config cfg = {
        .name = "am",
        .domain = 1,
        .max_peers = amph_job.size,
        .threaded = threaded,
        .anywhere = amph_job.built_anywhere,
        .use_smp = amph_env_bool(AMPH_ENV_SMP),
        .loopback_only = !desc->several_machines,
        .bursts = true,
        .incoming = INCOMING_MIN,
        .host_id = memory_id(desc, self, &split),
        .on_peer_error = on_peer_error,
    };

    memcpy(cfg.key, desc->key, sizeof cfg.key);

    bool all_near = one_host && cfg.use_smp && !split;
    enum amph_status st = AMPH_OK;

    /* libfabric needs more than shared memory does */
    size_t stack_bytes = all_near ? SMP_STACK_MIN_BYTES : AMPH_STACK_MIN_BYTES;

    if (amph_job.size > 1 && !amph_limit_stack_suffices("a process of this job", stack_bytes))
        return AMPH_ERR_NOMEM;

    if (amph_job.size > 1)
        st = amph_conduit_choose_for(amph_job.built_conduit, all_near, &cfg.net);

    if (st == AMPH_OK)
        st = amph_am_open(&cfg, &amph_job.ep);

    for (size_t i = 0; st == AMPH_OK && i < AMPH_COUNTOF(own_handlers); i++)
        st = amph_am_register(amph_job.ep, own_handlers[i].index, &own_handlers[i].entry);

    return st;
}

/* Negotiates the page size, after the descriptions of all members and servers have arrived. */
static enum amph_status negotiate_pages(const struct amph_jobdesc *desc)
{
    uint32_t total = desc->nproc[AMPH_COMPUTE] + desc->nproc[AMPH_SERVER];
    uint32_t page;
    uint32_t n = 0;
    uint32_t *pages = calloc(total, 2 * sizeof *pages);
    uint32_t *who = pages + total;
    size_t a, b;

    if (!pages)
        return AMPH_ERR_NOMEM;

    for (uint32_t i = 0; i < total; i++) {
        /* Servers do not wait for compute processes, whose description may be missing here. */
        if (desc->proc[i].stated) {
            who[n] = i;
            pages[n++] = desc->proc[i].page_bytes;
        }
    }

    enum amph_status st = amph_am_page_negotiate(pages, n, &page, &a, &b);

    if (st == AMPH_OK)
        amph_job.page_bytes = page;
    else if (n)
        amph_error("page sizes do not fit together: process %u on host %s has pages of %u bytes, "
                   "process %u on host %s of %u; the "
                   "largest must be a multiple of each, so leave one of these hosts out",
                   who[a], host_of(desc, who[a]), pages[a], who[b], host_of(desc, who[b]),
                   pages[b]);

    free(pages);
    return st;
}

/* Returns true if some member has pointers of 32 bits, which must be able to address all
 * segments. */
static bool any_narrow(const struct amph_jobdesc *desc)
{
    for (uint32_t i = 0; i < amph_job.size; i++)
        if (member(desc, i)->stated && member(desc, i)->pointer_bytes == 4)
            return true;

    return false;
}

void amph_job_await_cause(enum amph_status st)
{
    if (st != AMPH_ERR_PEER || !amph_fatal_hooks.await_cause)
        return;

    amph_job.member_lost = true;
    amph_fatal_hooks.await_cause();
}

/* Adds member i, which has this address, as a peer. */
static enum amph_status add_member(const struct amph_jobdesc *desc, uint32_t self,
                                   enum amph_group group, uint32_t i, const void *addr,
                                   size_t addr_len)
{
    const char *host = host_of(desc, amph_job.first + i);
    char name[128];
    struct amph_am_why why = { .peer = name, .self = "this process" };

    snprintf(name, sizeof name, "%s %u on host %s", group_name[group], i, host);

    enum amph_status st = amph_am_add_peer(amph_job.ep, i, addr, addr_len, amph_job.rank, self,
                                           amph_job.first + i, &why);

    amph_job_await_cause(st);
    if (st != AMPH_OK && why.text[0])
        amph_error("%s", why.text);
    else if (st != AMPH_OK)
        amph_error("%s cannot be reached: %s", name, amph_status_text(st));

    return st;
}

/* Publishes this endpoint's address, receives those of all members and adds them as peers. */
static enum amph_status exchange(const struct amph_jobdesc *desc, uint32_t self,
                                 enum amph_group group)
{
    const void *const *value;
    const size_t *len;
    size_t addr_len;
    const void *addr = amph_am_address(amph_job.ep, &addr_len);
    enum amph_status st = amph_boot_publish(amph_job.boot, "am", addr, addr_len);

    /* A compute process that forwards files has one server's transfer area before its segment. */
    bool forwards = group == AMPH_COMPUTE && desc->nproc[AMPH_SERVER] &&
                    amph_env_str(AMPH_ENV_IOFWD_PREFIX)[0];
    uint64_t area_bytes = forwards ? amph_area_part_bytes(amph_page_bytes()) : 0;

    if (st == AMPH_OK)
        st = amph_boot_state(amph_job.boot, amph_avail_mem_bytes(), area_bytes);

    if (st == AMPH_OK)
        st = amph_boot_exchange(amph_job.boot, "am", &value, &len);

    if (st == AMPH_OK && group == AMPH_COMPUTE && desc->nproc[AMPH_SERVER])
        st = amph_boot_wait_servers(amph_job.boot, SERVERS_WAIT_NS);

    if (st == AMPH_OK)
        st = negotiate_pages(desc);

    if (st == AMPH_OK && any_narrow(desc))
        amph_arena_stay_low();

    for (uint32_t i = 0; st == AMPH_OK && i < amph_job.size; i++)
        st = add_member(desc, self, group, i, value[i], len[i]);

    amph_boot_forget(amph_job.boot);
    return st;
}

/* ---- servers of another launcher's job ---- */

int (*amph_job_serve)(struct amph_boot *boot);

__attribute__((section(".note.amphora"), used, aligned(4))) static const struct amph_note note = {
    .namesz = 8, .type = AMPH_NOTE_JOB, .name = AMPH_NOTE_NAME
};

/* Loads libiofwd, preferably from the directory of this library.  Its constructor sets
 * amph_job_serve. */
static void load_server(void)
{
    char path[4096] = "";
    Dl_info info;

    if (dladdr((void *)(uintptr_t)amph_job_start, &info) && info.dli_fname &&
        strrchr(info.dli_fname, '/'))
        snprintf(path, sizeof path, "%.*s/libiofwd.so.0",
                 (int)(strrchr(info.dli_fname, '/') - info.dli_fname), info.dli_fname);

    if (!path[0] || !dlopen(path, RTLD_NOW | RTLD_GLOBAL))
        dlopen("libiofwd.so.0", RTLD_NOW | RTLD_GLOBAL);
}

/* Does not return to the client's program; its atexit handlers do not run. */
static void become_server(void) AMPH_NORETURN;
static void become_server(void)
{
    if (!amph_job_serve)
        load_server();

    if (!amph_job_serve)
        amph_fatal("by AMPHORA_SERVERS this process is an I/O server of its job, but libiofwd.so.0 "
                   "cannot be loaded; install it beside "
                   "libamphora, or link the program with -liofwd");

    _exit(amph_job_serve(amph_job.boot));
}

enum amph_status amph_job_start(bool threaded)
{
    if (amph_job.joined)
        return AMPH_ERR_STATE;

    amph_wire_setup();

    /* to join takes a stack, too */
    if (amph_env_str(AMPH_ENV_JOB)[0] &&
        !amph_limit_stack_suffices("a process of this job", SMP_STACK_MIN_BYTES))
        return AMPH_ERR_NOMEM;

    enum amph_status st = amph_boot_join(&amph_job.boot);
    if (st != AMPH_OK)
        return st;

    const struct amph_jobdesc *desc = amph_boot_job(amph_job.boot);
    const enum amph_group group = amph_boot_group(amph_job.boot);

    if (group == AMPH_SERVER && strcmp(amph_boot_kind(amph_job.boot), "launcher") != 0)
        become_server();

    const uint32_t self = amph_boot_self(amph_job.boot);

    amph_job.first = amph_boot_first(amph_job.boot, group);
    amph_job.rank = self - amph_job.first;
    amph_job.size = desc->nproc[group];
    amph_job.joined = true;
    set_identity(desc, group, self);
    amph_am_exit_setup();

    bool one_host;

    amph_am_set_oversubscribed(count_on_host(desc, self, &one_host));
    st = amph_am_gather_setup();
    if (st == AMPH_OK)
        st = open_endpoint(threaded, desc, self, one_host);

    if (st == AMPH_OK) {
        amph_am_set_tick(amph_job.ep, tick);
        st = exchange(desc, self, group);
        amph_job_await_cause(st);
    }

    return st;
}
