/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the servers of an address file, connects to them and asks; see ctl.h.  Layer: tools. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/clock.h"
#include "base/platform.h"
#include "base/settings/env.h"
#include "base/status.h"
#include "base/wire.h"
#include "boot/standing.h"
#include "tools/ctl/ctl.h"

#define LOOKUP_NS (5 * AMPH_NS_PER_S)
#define SUPERVISOR_LOOK_NS (10 * AMPH_NS_PER_MS)
#define ROWS_MAX 10000000u /* a server that sends more is broken */

bool ctl_open(const char *file, struct ctl_set *set)
{
    *set = (struct ctl_set){ .file = file };

    if (!file)
        file = set->file = amph_boot_standing_default();

    if (access(file, R_OK) != 0) {
        ctl_fail("there are no servers at %s: %s (-servers ADDRESSFILE names others)", file,
                 strerror(errno));
        return false;
    }

    if (setenv(amph_env_name(AMPH_ENV_JOB), file, 1) != 0) {
        ctl_fail("there is no memory for the name of %s", file);
        return false;
    }

    amph_env_reload();

    enum amph_status st = amph_boot_attach(&set->boot);

    if (st != AMPH_OK) {
        if (!amph_log_error_said())
            ctl_fail("the servers of %s cannot be found: %s", set->file, amph_status_text(st));

        return false;
    }

    set->job = amph_boot_job(set->boot);
    set->standing = strcmp(amph_boot_kind(set->boot), "standing") == 0;
    set->n = set->job->nproc[AMPH_SERVER];
    set->server = calloc(set->n ? set->n : 1, sizeof *set->server);
    set->input = malloc(sizeof *set->input);
    if (!set->server || !set->input) {
        ctl_fail("there is no memory for %u servers", set->n);
        set->n = 0; /* none has a descriptor yet */
        ctl_close(set);
        return false;
    }

    if (set->n == 0) {
        ctl_fail("the job of %s has no I/O servers (amphora-run -servers S)", set->file);
        ctl_close(set);
        return false;
    }

    uint32_t first = amph_boot_first(set->boot, AMPH_SERVER);

    for (uint32_t i = 0; i < set->n; i++) {
        set->server[i].rank = first + i;
        set->server[i].fd = -1;
        set->server[i].same_host = set->job->proc[first + i].host == set->job->self_host;
    }

    return true;
}

void ctl_close(struct ctl_set *set)
{
    for (uint32_t i = 0; set->server && i < set->n; i++)
        if (set->server[i].fd >= 0)
            close(set->server[i].fd);

    free(set->server);
    free(set->input);
    if (set->boot)
        amph_boot_close(set->boot);

    *set = (struct ctl_set){ .file = set->file };
}

/* ---- connections ---- */

static void drop(struct ctl_server *server, const char *why)
{
    if (server->fd >= 0)
        close(server->fd);

    server->fd = -1;
    snprintf(server->why, sizeof server->why, "%s", why);
}

static enum amph_status look_up(const struct ctl_set *set, const struct ctl_server *server,
                                struct amph_fwd_server_addr *addr)
{
    void *value;
    size_t len;
    enum amph_status st = amph_boot_lookup(set->boot, server->rank, FWD_CONTROL_KEY, LOOKUP_NS,
                                           &value, &len);

    if (st != AMPH_OK)
        return st;

    bool ok = amph_fwd_server_addr_parse(value, len, addr);

    free(value);
    return ok ? AMPH_OK : AMPH_ERR_PROTO;
}

static const char *sentence_of(enum amph_status st)
{
    static const struct {
        enum amph_status st;
        const char *sentence;
    } sentences[] = {
        { AMPH_ERR_PEER, "it does not listen; it has ended, or died" },
        { AMPH_ERR_TIMEOUT, "it does not answer; see its process on its host" },
        { AMPH_ERR_DENIED, "it refuses the key; the address file is another set's" },
    };

    for (size_t i = 0; i < AMPH_COUNTOF(sentences); i++)
        if (sentences[i].st == st)
            return sentences[i].sentence;

    return amph_status_text(st);
}

static bool connect_server(struct ctl_set *set, struct ctl_server *server)
{
    struct amph_fwd_hello h = amph_fwd_watch_hello();
    struct amph_fwd_server_addr addr;
    struct amph_fwd_welcome wc;
    int fd = -1;
    uint64_t deadline_ns = amph_now_ns() + FWD_CONTROL_TIMEOUT_NS;
    enum amph_status st = look_up(set, server, &addr);

    if (st == AMPH_OK)
        st = amph_fwd_control_connect(&addr, server->same_host, deadline_ns, &fd);

    if (st == AMPH_OK)
        st = amph_fwd_control_greet(fd, set->job->key, &h, false, deadline_ns, set->input->frame,
                                    &wc);

    server->fd = fd;
    server->deaf = st == AMPH_ERR_PEER;
    if (st != AMPH_OK)
        drop(server, sentence_of(st));

    return st == AMPH_OK;
}

bool ctl_await_end(struct ctl_set *set, uint32_t i, uint64_t timeout_ns)
{
    struct ctl_server *server = &set->server[i];
    uint64_t deadline_ns = amph_now_ns() + timeout_ns;
    char byte;

    while (server->fd >= 0) {
        uint64_t now = amph_now_ns();
        struct pollfd p = { .fd = server->fd, .events = POLLIN };

        if (now >= deadline_ns)
            return false;

        int n = poll(&p, 1, (int)((deadline_ns - now) / AMPH_NS_PER_MS) + 1);

        if (n > 0 && read(server->fd, &byte, 1) <= 0)
            drop(server, "it has ended");
    }

    return true;
}

bool ctl_end_supervisor(const struct ctl_set *set, uint64_t timeout_ns)
{
    const struct timespec pause = { .tv_nsec = SUPERVISOR_LOOK_NS };
    uint64_t deadline_ns = amph_now_ns() + timeout_ns;
    struct amph_standing standing;

    for (uint32_t i = 0; i < set->n; i++)
        if (!set->server[i].deaf)
            return false;

    if (!set->standing || !set->server[0].same_host ||
        amph_boot_standing_read(set->file, &standing) != AMPH_OK)
        return false;

    const uint64_t pid = standing.watch_pid;

    amph_boot_standing_free(&standing);
    if (!pid || !amph_boot_standing_lives(pid) || kill((pid_t)pid, SIGTERM) != 0)
        return false;

    while (amph_boot_standing_lives(pid) && amph_now_ns() < deadline_ns)
        nanosleep(&pause, NULL);

    return !amph_boot_standing_lives(pid);
}

/* ---- answers ---- */

static void row_free(struct ctl_row *row)
{
    for (size_t i = 0; i < row->n; i++) {
        free(row->cell[i].text);
        free(row->cell[i].latency);
    }

    free(row->cell);
}

void ctl_rows_free(struct ctl_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        row_free(&rows->row[i]);

    free(rows->row);
    *rows = (struct ctl_rows){ 0 };
}

const struct ctl_cell *ctl_cell_of(const struct ctl_row *row, const char *name)
{
    for (size_t i = 0; i < row->n; i++)
        if (strcmp(row->cell[i].name, name) == 0)
            return &row->cell[i];

    return NULL;
}

uint64_t ctl_value_of(const struct ctl_row *row, const char *name)
{
    const struct ctl_cell *cell = ctl_cell_of(row, name);

    return cell ? cell->value : 0;
}

const char *ctl_text_of(const struct ctl_row *row, const char *name)
{
    const struct ctl_cell *cell = ctl_cell_of(row, name);

    return cell && cell->text ? cell->text : "";
}

/* Ends the program if there is no memory. */
static void *checked(void *memory)
{
    if (memory)
        return memory;

    ctl_fail("there is no memory for what the servers answer");
    exit(1);
}

static void *grown(void *array, size_t n, size_t size)
{
    const bool is_full = (n & (n - 1)) == 0; /* doubled at each power of two */
    const size_t room = n ? 2 * n : 1;

    return is_full ? checked(realloc(array, room * size)) : array;
}

static void add_row(struct ctl_rows *rows)
{
    rows->row = grown(rows->row, rows->n, sizeof *rows->row);
    rows->row[rows->n++] = (struct ctl_row){ 0 };
}

static void add_item(struct ctl_rows *rows, const struct amph_fwd_item *item)
{
    if (item->kind == FWD_ITEM_ROW || rows->n == 0)
        add_row(rows);

    if (item->kind == FWD_ITEM_ROW)
        return;

    struct ctl_row *row = &rows->row[rows->n - 1];

    row->cell = grown(row->cell, row->n, sizeof *row->cell);

    struct ctl_cell *cell = &row->cell[row->n++];

    *cell = (struct ctl_cell){ .kind = item->kind, .value = item->value };
    memcpy(cell->name, item->name, sizeof cell->name);
    if (item->kind == FWD_ITEM_TEXT)
        cell->text = checked(strdup(item->text));

    if (item->kind == FWD_ITEM_LATENCY) {
        cell->latency = checked(malloc(sizeof *cell->latency));
        *cell->latency = item->latency;
    }
}

static bool send_query(struct ctl_server *server, enum amph_fwd_watch query, uint64_t cursor,
                       const char *text)
{
    uint8_t body[FWD_WATCH_QUERY_BYTES + 256];
    uint8_t frame[FWD_FRAME_HEAD_BYTES + sizeof body];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u8(&w, (uint8_t)query);
    amph_wr_u64(&w, cursor);
    amph_wr_bytes(&w, text, strlen(text));
    if (w.bad)
        return false;

    size_t n = amph_fwd_frame_build(frame, FWD_FRAME_QUERY, body, amph_wr_len(&w));

    return amph_fwd_control_send(server->fd, frame, n) == AMPH_OK;
}

/* Receives one page.  false: server->why. */
static bool receive_page(struct ctl_input *input, struct ctl_server *server,
                         enum amph_fwd_watch query, struct ctl_rows *rows, uint64_t *cursor_p)
{
    struct amph_fwd_frame_in in;
    struct amph_rd r;
    enum amph_status st = amph_fwd_control_receive(server->fd, input->frame, &in);

    if (st != AMPH_OK) {
        drop(server, st == AMPH_ERR_PEER ? "it has ended" : sentence_of(st));
        return false;
    }

    if (in.type == FWD_FRAME_REFUSE) {
        char why[200];

        snprintf(why, sizeof why, "%.*s", (int)in.len, (const char *)in.body);
        drop(server, why);
        server->refused = true;
        return false;
    }

    amph_rd_init(&r, in.body, in.len);

    bool expected = in.type == FWD_FRAME_ANSWER && amph_rd_u8(&r) == query;

    *cursor_p = amph_rd_u64(&r);
    while (expected && amph_fwd_watch_next(&r, &input->item))
        add_item(rows, &input->item);

    if (expected && !r.bad && rows->n < ROWS_MAX)
        return true;

    drop(server, "its answer does not parse; use the iofwd-ctl of its own version");
    return false;
}

/* Connects to a server that has no connection yet. */
static bool is_connected(struct ctl_set *set, struct ctl_server *server)
{
    server->refused = false;
    return server->fd >= 0 || connect_server(set, server);
}

bool ctl_ask(struct ctl_set *set, uint32_t i, enum amph_fwd_watch query, const char *text,
             struct ctl_rows *rows)
{
    struct ctl_server *server = &set->server[i];
    uint64_t cursor = 0;

    *rows = (struct ctl_rows){ 0 };
    if (!is_connected(set, server))
        return false;

    while (cursor != FWD_WATCH_END) {
        uint64_t from = cursor;

        if (!send_query(server, query, cursor, text)) {
            drop(server, "it has ended");
            break;
        }

        if (!receive_page(set->input, server, query, rows, &cursor))
            break;

        if (cursor <= from && cursor != FWD_WATCH_END) {
            drop(server, "its list does not end; use the iofwd-ctl of its own version");
            break;
        }
    }

    if (server->fd >= 0)
        return true;

    ctl_rows_free(rows);
    return false;
}

bool ctl_ask_final(struct ctl_set *set, uint32_t i)
{
    struct ctl_server *server = &set->server[i];

    if (!is_connected(set, server))
        return false;

    if (send_query(server, FWD_WATCH_FINAL, 0, ""))
        return true;

    drop(server, "it has ended");
    return false;
}

bool ctl_take_final(struct ctl_set *set, uint32_t i, struct ctl_rows *rows)
{
    struct ctl_server *server = &set->server[i];
    uint64_t cursor;

    *rows = (struct ctl_rows){ 0 };
    if (receive_page(set->input, server, FWD_WATCH_FINAL, rows, &cursor) && rows->n > 0)
        return true;

    ctl_rows_free(rows);
    return false;
}
