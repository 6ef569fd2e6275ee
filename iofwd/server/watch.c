/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers the queries of iofwd-ctl (wire/watch.h).
 *
 * Layer: iofwd.
 * Thread rule: amph_server_watch_take runs in the listener thread.  It answers STATUS from counters
 * that it reads by relaxed atomics, so a server whose progress thread is inside a file call still
 * answers, after a short wait for what clients have counted themselves (passthrough.c).  All other
 * queries run in the progress thread, which owns clients, files and limits.
 */
#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/os/clock.h"
#include "base/os/host_clock.h"
#include "base/settings/counters.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/wire.h"
#include "iofwd/server/internal.h"
#include "iofwd/wire/request_name.h"

#define COLLECTION_NS (50 * AMPH_NS_PER_MS)

/* ---- answers ---- */

struct answer {
    uint8_t frame[FWD_FRAME_HEAD_BYTES + FWD_FRAME_BODY_MAX];
    struct amph_wr items;
    uint8_t query;
};

static void begin(struct answer *a, uint8_t query)
{
    a->query = query;
    amph_wr_init(&a->items, a->frame + FWD_FRAME_HEAD_BYTES + FWD_WATCH_QUERY_BYTES,
                 FWD_FRAME_BODY_MAX - FWD_WATCH_QUERY_BYTES);
}

/* Sends the answer.  There is room for it in the socket: a watcher has one query in flight.  A
 * connection that has none ends. */
static void send_answer(const struct amph_server_conn *c, struct answer *a, uint64_t cursor)
{
    struct amph_wr head;
    size_t len = FWD_WATCH_QUERY_BYTES + amph_wr_len(&a->items);

    amph_wr_init(&head, a->frame + FWD_FRAME_HEAD_BYTES, FWD_WATCH_QUERY_BYTES);
    amph_wr_u8(&head, a->query);
    amph_wr_u64(&head, cursor);

    size_t n = amph_fwd_frame_build(a->frame, FWD_FRAME_ANSWER, a->frame + FWD_FRAME_HEAD_BYTES,
                                    len);

    if (send(c->fd, a->frame, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
        shutdown(c->fd, SHUT_RDWR);
}

static void refuse(const struct amph_server_conn *c, const char *why)
{
    uint8_t frame[FWD_FRAME_HEAD_BYTES + AMPH_ENV_WHY_BYTES];
    size_t n = amph_fwd_frame_build(frame, FWD_FRAME_REFUSE, why, strlen(why));
    ssize_t ignored = send(c->fd, frame, n, MSG_NOSIGNAL | MSG_DONTWAIT);

    (void)ignored;
    shutdown(c->fd, SHUT_RDWR); /* the listener thread sees the end and frees the connection */
}

static void put(struct amph_wr *w, enum amph_fwd_column_id id, uint64_t value)
{
    amph_fwd_watch_put_value(w, amph_fwd_columns[id].name, value);
}

/* ---- the server: listener thread ---- */

static void put_exports(struct amph_wr *w, const struct amph_server_exports *ex)
{
    char text[FWD_WATCH_TEXT_MAX] = "";
    size_t at = 0;

    for (size_t i = 0; i < ex->n && at < sizeof text; i++) {
        int n = snprintf(text + at, sizeof text - at, "%s%s=%s%s", i ? ":" : "",
                         ex->item[i].name[0] ? ex->item[i].name : "/", ex->item[i].dir,
                         ex->item[i].readonly ? " (read-only)" : "");
        at += n > 0 ? (size_t)n : 0;
    }

    amph_fwd_watch_put_text(w, "exports", text);
}

static void answer_status(struct amph_server *s, const struct amph_server_conn *c, uint8_t query)
{
    struct answer a;
    struct amph_wr *w = &a.items;

    begin(&a, query);
    amph_fwd_watch_put_value(w, "server", amph_server_number(s));
    amph_fwd_watch_put_text(w, "host", s->job->host_name[s->job->proc[s->self].host]);
    amph_fwd_watch_put_value(w, "process", (uint64_t)getpid());
    amph_fwd_watch_put_text(w, "version", PACKAGE_VERSION);
    amph_fwd_watch_put_text(w, "state", atomic_load(&s->refuses_joins) ? "draining" : "serving");
    amph_fwd_watch_put_text(w, "log", amph_log_level_name());
    amph_fwd_watch_put_value(w, "uptime_ns", amph_now_ns() - s->opened_ns);
    put_exports(w, &s->exports);
    amph_fwd_watch_put_value(w, "limit_clients", s->max_peers);
    amph_fwd_watch_put_value(w, "limit_client_files",
                             __atomic_load_n(&s->client_files, __ATOMIC_RELAXED));
    amph_fwd_watch_put_value(w, "limit_client_memory",
                             __atomic_load_n(&s->client_memory, __ATOMIC_RELAXED));
    amph_fwd_watch_put_value(w, "limit_server_memory",
                             __atomic_load_n(&s->memory_limit, __ATOMIC_RELAXED));

    for (unsigned i = 0; i < AMPH_COUNTER_COUNT; i++)
        amph_fwd_watch_put_value(w, amph_counters_row(i)->name, amph_count_now(i));

    amph_fwd_watch_put_latency(w, "latency", &s->latency);
    send_answer(c, &a, FWD_WATCH_END);
}

/* The real time is the one that CLOCK_MONOTONIC had at the first question, plus what has passed since: all
 * clients get one axis, also if somebody sets the real clock. */
static void answer_clock(struct amph_server *s, const struct amph_server_conn *c)
{
    uint64_t now_ns = amph_now_ns();
    struct answer a;
    struct timespec real;

    if (!s->clock.number) {
        clock_gettime(CLOCK_REALTIME, &real);
        s->clock.number = amph_host_clock();
        s->clock.base_ns = (uint64_t)real.tv_sec * AMPH_NS_PER_S + (uint64_t)real.tv_nsec - now_ns;
        now_ns = amph_now_ns();
    }

    begin(&a, FWD_WATCH_CLOCK);
    amph_fwd_watch_put_value(&a.items, "clock", s->clock.number);
    amph_fwd_watch_put_value(&a.items, "monotonic_ns", now_ns);
    amph_fwd_watch_put_value(&a.items, "real_ns", now_ns + s->clock.base_ns);
    send_answer(c, &a, FWD_WATCH_END);
}

/* Returns why the connection may not give this order, or NULL. */
static const char *forbids(const struct amph_server *s, const struct amph_server_conn *c,
                           uint8_t query)
{
    if (query < FWD_WATCH_DRAIN || query == FWD_WATCH_CLOCK)
        return NULL;
    if (!c->listener.same_user)
        return "it takes orders on its own host only, from its own user or root; run iofwd-ctl "
               "there";

    if (query != FWD_WATCH_SET && !s->overseer.report)
        return "it belongs to a job and ends with it; end the job (signal its amphora-run)";

    return NULL;
}

/* Forgets collections that came too late for their query. */
static void forget_collections(struct amph_server *s)
{
    while (sem_trywait(&s->collected) == 0 || errno == EINTR)
        continue;
}

/* Waits until the progress thread has collected what clients have counted themselves.  A thread that hangs is not
 * waited for long, since the status must be seen then. */
static void await_collection(struct amph_server *s)
{
    uint64_t end_ns = amph_now_ns() + COLLECTION_NS;
    struct timespec until = { .tv_sec = (time_t)(end_ns / AMPH_NS_PER_S),
                              .tv_nsec = (long)(end_ns % AMPH_NS_PER_S) };

    while (sem_clockwait(&s->collected, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR)
        continue;
}

const char *amph_server_watch_take(struct amph_server *s, struct amph_server_conn *c,
                                   const struct amph_fwd_frame_in *in,
                                   void (*post)(struct amph_server *s, struct amph_server_conn *c,
                                                const struct amph_fwd_frame_in *in))
{
    amph_server_assert_owner(&s->listener.owner);

    uint8_t query = in->len >= FWD_WATCH_QUERY_BYTES ? in->body[0] : 0;

    if (query == 0 || query >= FWD_WATCH_COUNT)
        return "it does not know this query; use the iofwd-ctl of the server's own version";

    const char *why = forbids(s, c, query);

    if (why)
        return why;

    if (query == FWD_WATCH_STATUS) {
        if (s->passes) {
            forget_collections(s);
            post(s, c, in);
            await_collection(s);
        }

        answer_status(s, c, query);
    } else if (query == FWD_WATCH_CLOCK)
        answer_clock(s, c);
    else if (query == FWD_WATCH_FINAL)
        c->listener.wants_final = true;
    else
        post(s, c, in);

    return NULL;
}

void amph_server_watch_end(struct amph_server *s, const struct amph_server_conn *c)
{
    if (c->listener.wants_final)
        answer_status(s, c, FWD_WATCH_FINAL);
}

/* ---- clients and files: progress thread ---- */

static void put_client(struct amph_wr *w, const struct amph_server_peer *p)
{
    char name[FWD_CLIENT_NAME_BYTES];

    amph_fwd_watch_put_row(w);
    amph_fwd_watch_put_text(w, amph_fwd_columns[FWD_COLUMN_CLIENT].name,
                            amph_fwd_client_name(p->number, name));
    put(w, FWD_COLUMN_PROCESS, p->pid);
    put(w, FWD_COLUMN_CLIENT_FILES, p->nheld);
    put(w, FWD_COLUMN_CLIENT_QUEUED, p->queued);
    put(w, FWD_COLUMN_CLIENT_MEMORY, p->memory);
    put(w, FWD_COLUMN_CLIENT_CALLS, p->calls);
    put(w, FWD_COLUMN_CLIENT_ERRORS, p->errors);
    put(w, FWD_COLUMN_CLIENT_WRITTEN, p->bytes_out);
    put(w, FWD_COLUMN_CLIENT_READ, p->bytes_in);
    amph_fwd_watch_put_latency(w, amph_fwd_columns[FWD_COLUMN_CLIENT_LATENCY].name, &p->latency);
}

static void put_file(struct amph_wr *w, const struct amph_server_handle *h)
{
    char name[FWD_CLIENT_NAME_BYTES], path[FWD_WATCH_TEXT_MAX];

    amph_fwd_watch_put_row(w);
    amph_fwd_watch_put_text(w, amph_fwd_columns[FWD_COLUMN_PATH].name,
                            amph_server_file_name(h, path, sizeof path));
    amph_fwd_watch_put_text(w, amph_fwd_columns[FWD_COLUMN_OPENER].name,
                            amph_fwd_client_name(h->opener, name));
    put(w, FWD_COLUMN_HOLDERS, h->progress.nholders);
    put(w, FWD_COLUMN_FILE_QUEUED, h->progress.inflight);
    put(w, FWD_COLUMN_FILE_CALLS, h->progress.calls);
    put(w, FWD_COLUMN_FILE_WRITTEN, h->progress.bytes_out);
    put(w, FWD_COLUMN_FILE_READ, h->progress.bytes_in);
}

static bool put_client_at(const struct amph_server *s, uint64_t i, struct amph_wr *w)
{
    if (i >= s->max_peers)
        return false;

    if (s->progress.peer[i] && !s->progress.peer[i]->gone)
        put_client(w, s->progress.peer[i]);

    return true;
}

static bool put_file_at(const struct amph_server *s, uint64_t i, struct amph_wr *w)
{
    if (i >= s->progress.nslots)
        return false;

    if (s->progress.handle[i])
        put_file(w, s->progress.handle[i]);

    return true;
}

/* Answers with the rows from the cursor on, as many as one frame has room for. */
static void answer_rows(const struct amph_server *s, const struct amph_server_conn *c,
                        uint8_t query, uint64_t cursor,
                        bool (*put_at)(const struct amph_server *s, uint64_t i, struct amph_wr *w))
{
    struct answer a;
    uint64_t i = cursor;

    begin(&a, query);
    for (;; i++) {
        uint8_t *row = a.items.at;

        if (!put_at(s, i, &a.items)) {
            i = FWD_WATCH_END;
            break;
        }

        if (a.items.bad) { /* it goes to the next page */
            a.items.at = row;
            a.items.bad = false;
            break;
        }
    }

    send_answer(c, &a, i);
}

/* The listener waits for this before it answers. */
static void on_status(struct amph_server *s, struct amph_server_conn *c, uint64_t cursor,
                      const char *text)
{
    amph_server_passthrough_collect_all(s);
    sem_post(&s->collected);
}

static void on_clients(struct amph_server *s, struct amph_server_conn *c, uint64_t cursor,
                       const char *text)
{
    amph_server_passthrough_collect_all(s);
    answer_rows(s, c, FWD_WATCH_CLIENTS, cursor, put_client_at);
}

static void on_files(struct amph_server *s, struct amph_server_conn *c, uint64_t cursor,
                     const char *text)
{
    amph_server_passthrough_collect_all(s);
    answer_rows(s, c, FWD_WATCH_FILES, cursor, put_file_at);
}

/* ---- orders: progress thread ---- */

static void confirm(const struct amph_server_conn *c, uint8_t query)
{
    struct answer a;

    begin(&a, query);
    send_answer(c, &a, FWD_WATCH_END);
}

void amph_server_watch_clients_changed(struct amph_server *s)
{
    if (atomic_load_explicit(&s->refuses_joins, memory_order_relaxed))
        s->overseer.report(s->overseer.arg,
                           s->progress.npeers ? AMPH_SERVER_SAYS_BUSY : AMPH_SERVER_SAYS_EMPTY);
}

void amph_server_refuse_joins(struct amph_server *s)
{
    atomic_store(&s->refuses_joins, true);
    amph_server_watch_clients_changed(s);
}

void amph_server_set_overseer(struct amph_server *s, const struct amph_server_overseer *overseer)
{
    s->overseer = *overseer;
}

static void on_drain(struct amph_server *s, struct amph_server_conn *c, uint64_t cursor,
                     const char *text)
{
    amph_info("takes no further clients, and ends when the last of %" PRIu32 " has left",
              s->progress.npeers);
    confirm(c, FWD_WATCH_DRAIN);
    amph_server_refuse_joins(s);
}

static void on_stop(struct amph_server *s, struct amph_server_conn *c, uint64_t cursor,
                    const char *text)
{
    confirm(c, FWD_WATCH_STOP);
    s->overseer.report(s->overseer.arg, AMPH_SERVER_SAYS_STOP);
}

static void set_log(struct amph_server *s, int64_t value)
{
    amph_log_set_level((unsigned)value);
}

static void set_client_files(struct amph_server *s, int64_t value)
{
    __atomic_store_n(&s->client_files, (uint32_t)value, __ATOMIC_RELAXED);
}

static void set_client_memory(struct amph_server *s, int64_t value)
{
    __atomic_store_n(&s->client_memory, (uint64_t)value, __ATOMIC_RELAXED);
}

static void set_server_memory(struct amph_server *s, int64_t value)
{
    uint64_t bytes = value ? (uint64_t)value : (uint64_t)amph_phys_mem_bytes() / 4;

    __atomic_store_n(&s->memory_limit, bytes, __ATOMIC_RELAXED);
}

/* The settings that may change while the server runs. */
static const struct {
    enum amph_env_id id;
    void (*set)(struct amph_server *s, int64_t value);
} settable[] = {
    { AMPH_ENV_LOG, set_log },
    { AMPH_ENV_IOFWD_CLIENT_FILES, set_client_files },
    { AMPH_ENV_IOFWD_CLIENT_MEMORY, set_client_memory },
    { AMPH_ENV_IOFWD_SERVER_MEMORY, set_server_memory },
};

static bool is_setting(const char *name, size_t len)
{
    for (unsigned id = 0; id < AMPH_ENV_COUNT; id++) {
        const char *known = amph_env_name((enum amph_env_id)id);

        if (strlen(known) == len && memcmp(known, name, len) == 0)
            return true;
    }

    return false;
}

/* Sets NAME=VALUE.  false: why says the reason. */
static bool set(struct amph_server *s, const char *text, char why[AMPH_ENV_WHY_BYTES])
{
    size_t len = strcspn(text, "=");

    for (size_t i = 0; i < AMPH_COUNTOF(settable); i++) {
        const char *name = amph_env_name(settable[i].id);
        int64_t value;

        if (strlen(name) != len || memcmp(name, text, len) != 0 || text[len] != '=')
            continue;

        if (!amph_env_read(settable[i].id, text + len + 1, &value, why, AMPH_ENV_WHY_BYTES))
            return false;

        settable[i].set(s, value);
        amph_info("%s is set now", text);
        return true;
    }

    if (!is_setting(text, len)) {
        snprintf(
            why, AMPH_ENV_WHY_BYTES,
            "there is no setting %.*s; those that can change are AMPHORA_LOG, IOFWD_CLIENT_FILES, "
            "IOFWD_CLIENT_MEMORY and IOFWD_SERVER_MEMORY",
            len < 100 ? (int)len : 100, text);
        return false;
    }

    snprintf(why, AMPH_ENV_WHY_BYTES,
             "%.*s cannot change while a server runs (AMPHORA_LOG, IOFWD_CLIENT_FILES, "
             "IOFWD_CLIENT_MEMORY and IOFWD_SERVER_MEMORY can); restart the servers with it",
             len < 100 ? (int)len : 100, text);
    return false;
}

static bool reopen_log(struct amph_server *s)
{
    if (!s->overseer.report)
        return true; /* a job's servers have the job's standard error */

    s->overseer.report(s->overseer.arg, AMPH_SERVER_SAYS_LOG);
    return s->overseer.reopen_log(s->overseer.arg);
}

static void on_set(struct amph_server *s, struct amph_server_conn *c, uint64_t cursor,
                   const char *text)
{
    char why[AMPH_ENV_WHY_BYTES] = "its log file cannot be opened again; see the old one";
    bool ok = text[0] ? set(s, text, why) : reopen_log(s);

    if (ok)
        confirm(c, FWD_WATCH_SET);
    else
        refuse(c, why);
}

void amph_server_watch_query(struct amph_server *s, const struct amph_server_event *event)
{
    static void (*const on[])(struct amph_server *, struct amph_server_conn *, uint64_t,
                              const char *) = {
        [FWD_WATCH_STATUS] = on_status, [FWD_WATCH_CLIENTS] = on_clients,
        [FWD_WATCH_FILES] = on_files,   [FWD_WATCH_DRAIN] = on_drain,
        [FWD_WATCH_STOP] = on_stop,     [FWD_WATCH_SET] = on_set,
    };

    amph_server_assert_owner(&s->progress.owner);

    struct amph_rd r;
    char text[256];

    amph_rd_init(&r, event->body, event->len);

    uint8_t query = amph_rd_u8(&r);
    uint64_t cursor = amph_rd_u64(&r);
    size_t len = amph_rd_left(&r);
    const void *bytes = amph_rd_bytes(&r, len);

    if (len >= sizeof text || memchr(bytes, 0, len))
        return refuse(event->conn, "the query's text is too long, or has a byte 0");

    memcpy(text, bytes, len);
    text[len] = 0;
    on[query](s, event->conn, cursor, text);
}
