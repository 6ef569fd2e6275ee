/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open, main loop and close of one server; see server.h and internal.h.
 *
 * Layer: iofwd.
 * Thread rule: the progress thread, which is the thread that calls amph_server_open.
 */
#include "base/auth.h"
#include "iofwd/server/server.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "base/settings/env.h"
#include "base/os/limits.h"
#include "base/log.h"
#include "iofwd/server/internal.h"

/* A server that has not this many descriptors left for what it listens with, and for the connections and
 * files of its first clients, does not start. */
#define INCOMING_MIN 11

/* Time for the last clients to finish after the last compute process has left. */
#define DRAIN_NS (30 * AMPH_NS_PER_S)

static void on_wake(int sig)
{
}

static void set_limits(void)
{
    /* Interrupts the system call of the thread that receives it, and does nothing else. */
    struct sigaction wake = { .sa_handler = on_wake };
    struct rlimit lim;

    sigaction(AMPH_SERVER_WAKE_SIGNAL, &wake, NULL);
    umask(0); /* each request carries its client's umask */
    signal(SIGPIPE, SIG_IGN);
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 128 << 20);

    signal(SIGXFSZ, SIG_IGN); /* a write beyond a limit of file sizes is its client's EFBIG */

    if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        lim.rlim_cur = lim.rlim_max;
        setrlimit(RLIMIT_NOFILE, &lim);
    }
}

static void on_peer_error(struct amph_am_ep *ep, uint32_t peer, enum amph_status st,
                          const char *why)
{
    if (st == AMPH_ERR_NOMEM)
        amph_fatal("%s", why);

    /* its control connection ends when it has gone */
    bool alive = st == AMPH_ERR_LOST || st == AMPH_ERR_DENIED;

    if (!alive || !amph_server_peer_disconnect(amph_am_user(ep), peer)) {
        amph_debug("client %" PRIu32 " of the endpoint cannot be reached: %s", peer, why);
        return;
    }

    amph_warn("client %" PRIu32
              " is disconnected: %s; its program gets EIO, or continues at another "
              "server",
              peer, why);
}

static enum amph_status open_endpoint(struct amph_server *s)
{
    struct amph_am_config cfg = { .name = "iofwd",
                                  .domain = 2,
                                  .max_peers = s->max_peers,
                                  .threaded = true,
                                  .use_smp = amph_env_bool(AMPH_ENV_SMP),
                                  .loopback_only = !s->job->several_machines,
                                  .incoming = INCOMING_MIN,
                                  .on_peer_error = on_peer_error,
                                  .user = s };

    cfg.host_id = amph_am_host_id(s->job->host_name[s->job->proc[s->self].host]);
    memcpy(cfg.key, s->job->key, AMPH_KEY_BYTES);
    amph_fwd_note_oversubscribed(s->job, s->job->proc[s->self].host);

    if (amph_fwd_needs_network(s->job)) {
        enum amph_status st = amph_fwd_choose_network(s->job, &cfg.net);
        if (st != AMPH_OK)
            return st;
    }

    enum amph_status st = amph_am_open(&cfg, &s->ep);
    if (st != AMPH_OK)
        return st;

    struct amph_am_entry request = { .fn = (void *)amph_server_on_request,
                                     .kinds = 2,
                                     .dirs = 1,
                                     .nargs = 0,
                                     .name = "iofwd request" };

    return amph_am_register(s->ep, FWD_AM_REQUEST, &request);
}

static enum amph_status publish(struct amph_server *s)
{
    uint8_t where[128];

    const void *const *value;

    const size_t *len;
    size_t n = amph_fwd_server_addr_build(where, sizeof where, &s->address);
    enum amph_status st = amph_boot_state(s->boot, amph_phys_mem_bytes(), 0);

    if (st == AMPH_OK)
        st = amph_boot_publish(s->boot, FWD_CONTROL_KEY, where, n);

    return st == AMPH_OK ? amph_boot_exchange(s->boot, FWD_CONTROL_KEY, &value, &len) : st;
}

static enum amph_status open_all(struct amph_server *s)
{
    enum amph_status st = s->boot ? AMPH_OK : amph_boot_join(&s->boot);

    if (st != AMPH_OK)
        return st;

    s->job = amph_boot_job(s->boot);
    s->self = amph_boot_self(s->boot);

    if (amph_boot_group(s->boot) != AMPH_SERVER) {
        amph_error("iofwd-server was started as compute process %" PRIu32
                   "; start it with amphora-run -servers",
                   s->self);
        return AMPH_ERR_STATE;
    }

    s->max_peers = s->job->nproc[AMPH_COMPUTE] + (uint32_t)amph_env_int(AMPH_ENV_IOFWD_CLIENTS);
    s->client_files = (uint32_t)amph_env_int(AMPH_ENV_IOFWD_CLIENT_FILES);
    s->client_memory = amph_env_size(AMPH_ENV_IOFWD_CLIENT_MEMORY);
    s->memory_limit = amph_env_size(AMPH_ENV_IOFWD_SERVER_MEMORY);
    if (s->memory_limit == 0)
        s->memory_limit = amph_phys_mem_bytes() / 4;

    s->passes = amph_env_bool(AMPH_ENV_IOFWD_PASSTHROUGH) && amph_server_trust_open(&s->rights);
    s->progress.pipes_max = (uint32_t)amph_env_int(AMPH_ENV_IOFWD_PIPES);
    amph_server_limits_open(s);
    s->stage_bytes = amph_env_size(AMPH_ENV_IOFWD_PIECE);
    s->progress.peer = calloc(s->max_peers, sizeof *s->progress.peer);
    s->progress.reply = malloc(AMPH_SERVER_OUT_BYTES);

    if (!s->progress.peer || !s->progress.reply) {
        amph_error("the I/O server has no memory for %" PRIu32 " clients", s->max_peers);
        return AMPH_ERR_NOMEM;
    }

    if ((st = amph_server_exports_open(amph_env_str(AMPH_ENV_IOFWD_PREFIX), &s->exports)) !=
            AMPH_OK ||
        (st = amph_server_exports_protect(&s->exports, amph_env_str(AMPH_ENV_IOFWD_READONLY))) !=
            AMPH_OK)
        return st;

    if (s->self == amph_boot_first(s->boot, AMPH_SERVER)) /* once for all servers of the job */
        amph_server_exports_warn(&s->exports);

    if ((st = open_endpoint(s)) != AMPH_OK)
        return st;

    amph_server_limits_mapped(s);
    if ((st = amph_server_listener_open(s)) != AMPH_OK)
        return st;

    amph_server_versions_open(s);
    return publish(s);
}

/* Runs a server in a GASNet client that another launcher has started, if AMPHORA_SERVERS makes it
 * one. */
static int serve(struct amph_boot *boot)
{
    struct amph_server *server;

    if (amph_server_open(boot, &server) != AMPH_OK)
        return 1;

    int code = amph_server_run(server);

    amph_server_close(server);
    return code;
}

__attribute__((constructor)) static void offer_to_serve(void)
{
    amph_job_serve = serve;
}

/* Does the job end, so that its launcher says why? */
static bool job_ends(const struct amph_server *s, enum amph_status st)
{
    /* without boot the job ended before this server had joined it */
    const bool launched = s->boot ? strcmp(amph_boot_kind(s->boot), "launcher") == 0
                                  : amph_env_str(AMPH_ENV_JOB)[0] != 0;

    return launched && st == AMPH_ERR_PEER;
}

enum amph_status amph_server_open(struct amph_boot *boot, struct amph_server **server_p)
{
    struct amph_server *s = calloc(1, sizeof *s);

    if (!s) {
        amph_error("the I/O server has no memory");
        return AMPH_ERR_NOMEM;
    }

    s->boot = boot;
    s->opened_ns = amph_now_ns();
    set_limits();

    if (!amph_limit_stack_suffices("an I/O server", AMPH_STACK_MIN_BYTES)) {
        free(s);
        return AMPH_ERR_NOMEM;
    }

    s->listener.epoll_fd = s->listener.stop_fd = s->listener.unix_fd = s->listener.tcp_fd =
        s->listener.first_fd = s->notify_fd = s->versions_fd = -1;
    s->progress.unsent_tail = &s->progress.unsent;
    s->progress.transfers_tail = &s->progress.transfers;
    s->shared.work_tail = &s->shared.work;
    s->shared.done_tail = &s->shared.done;
    s->shared.events_tail = &s->shared.events;
    pthread_mutex_init(&s->shared.lock, NULL);
    pthread_cond_init(&s->shared.work_cond, NULL);
    sem_init(&s->collected, 0, 0);

    enum amph_status st = open_all(s);

    if (st == AMPH_OK)
        st = amph_server_listener_start(s);

    if (st == AMPH_OK && !amph_server_limits_spare(s)) {
        amph_error("the I/O server may have too few descriptors open to take a client%s",
                   amph_limit_remedy(EMFILE));
        st = AMPH_ERR_NOMEM;
    }

    if (st != AMPH_OK) {
        amph_log(amph_log_error_said() || job_ends(s, st) ? AMPH_LOG_INFO : AMPH_LOG_ERROR,
                 "the I/O server cannot start: %s", amph_status_text(st));
        amph_server_close(s);
        return st;
    }

    *server_p = s;
    return AMPH_OK;
}

void amph_server_set_incarnation(struct amph_server *s, unsigned before)
{
    s->incarnation = (uint8_t)before;
    amph_random(&s->progress.next_number, sizeof s->progress.next_number);
}

static void on_gone(struct amph_server *s, const struct amph_server_event *events)
{
    amph_server_peer_gone(s, events->conn);
}

static void on_notify(struct amph_server *s, const struct amph_server_event *events)
{
    amph_server_notify_send(s);
}

static void on_drain(struct amph_server *s, const struct amph_server_event *events)
{
    s->progress.draining = true;
    s->progress.drain_ns = amph_now_ns();
}

static void on_stop(struct amph_server *s, const struct amph_server_event *events)
{
    s->progress.stop = true;
    s->progress.exit_code = 0;
}

static unsigned handle_events(struct amph_server *s)
{
    static void (*const on[])(struct amph_server *, const struct amph_server_event *) = {
        [AMPH_SERVER_EVENT_HELLO] = amph_server_peer_hello,
        [AMPH_SERVER_EVENT_GONE] = on_gone,
        [AMPH_SERVER_EVENT_DRAIN] = on_drain,
        [AMPH_SERVER_EVENT_STOP] = on_stop,
        [AMPH_SERVER_EVENT_NOTIFY] = on_notify,
        [AMPH_SERVER_EVENT_QUERY] = amph_server_watch_query,
        [AMPH_SERVER_EVENT_KEEP] = amph_server_exec_keep,
    };

    unsigned n = 0;

    pthread_mutex_lock(&s->shared.lock);

    struct amph_server_event *events = s->shared.events;
    struct amph_server_event *next;

    s->shared.events = NULL;
    s->shared.events_tail = &s->shared.events;
    pthread_mutex_unlock(&s->shared.lock);

    for (; events; events = next, n++) {
        next = events->next;
        on[events->kind](s, events);
        free(events);
    }

    return n;
}

int amph_server_run(struct amph_server *s)
{
    struct amph_waiter w = AMPH_WAITER_INIT;
    const bool has_processes = s->job->nproc[AMPH_COMPUTE] > 0 && !s->job->plain;

    amph_server_own(&s->progress.owner);

    while (!s->progress.stop) {
        unsigned handled = 0;

        if (__atomic_load_n(&s->shared.posted, __ATOMIC_ACQUIRE)) {
            __atomic_store_n(&s->shared.posted, false, __ATOMIC_RELEASE);
            handled += handle_events(s);
            handled += amph_server_flow_progress(s);
        } else if (s->progress.unsent || s->progress.transfers || s->progress.locks ||
                   s->progress.nleaving)
            handled += amph_server_flow_progress(s);

        if (s->progress.draining &&
            (s->progress.npeers == 0 ||
             (has_processes && amph_now_ns() - s->progress.drain_ns > DRAIN_NS)))
            break;

        if (handled)
            w = (struct amph_waiter)AMPH_WAITER_INIT;

        /* the cores are busy with copies of the workers */
        if (w.rounds == 0 && amph_server_pipes_busy(s))
            w.phase = AMPH_WAITER_SLEEPS;

        /* what is queued now is with workers or lock agents, which may need this core */
        w.yields_early = amph_count_now(AMPH_COUNTER_SERVER_QUEUED) > 0;
        amph_am_wait_step(s->ep, &w);
        if (w.rounds)
            s->progress.busy_since_ns = 0;
    }

    return s->progress.exit_code;
}

void amph_server_close(struct amph_server *s)
{
    amph_server_work_stop(s);
    amph_server_passthrough_collect_all(s);
    amph_server_listener_stop(s);
    if (amph_env_bool(AMPH_ENV_STATS) && s->job)
        amph_server_print_stats(s);

    amph_server_readers_stop(s);
    amph_server_refs_check(s);

    for (uint32_t i = 0; i < s->progress.nslots; i++)
        if (s->progress.handle[i])
            close(s->progress.handle[i]->fd);

    amph_server_versions_close(s);
    amph_server_exports_close(&s->exports);
    if (s->ep)
        amph_am_close(s->ep);

    if (s->boot)
        amph_boot_leave(s->boot, false, s->progress.exit_code);

    /* Workers may still execute file calls that never return, so the memory is not freed; the
     * process ends right after this. */
}
