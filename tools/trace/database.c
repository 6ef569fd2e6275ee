/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events as tables; see trace.h.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include "tools/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* clang-format off */
static const char schema_text[] =
    "CREATE TABLE %1$s.processes(process INTEGER PRIMARY KEY, pid INT, ppid INT, rank INT, host TEXT,"
    " exe TEXT, cwd TEXT, start_ns INT, clock_error_ns INT, recorder TEXT);"

    "CREATE TABLE %1$s.names(name_id INTEGER PRIMARY KEY, name TEXT, class TEXT, async INT);"

    "CREATE TABLE %1$s.paths(path_id INTEGER PRIMARY KEY, path TEXT);"

    "CREATE TABLE %1$s.events(id INTEGER PRIMARY KEY, process INT, tid INT, name_id INT,"
    " fd INT, fd2 INT, path_id INT, path2_id INT, given INT,"
    " start_ns INT, ns INT, result INT, offset INT, length INT, flags INT, errno INT,"
    " failed INT, returned INT, forwarded INT, side TEXT, peer INT, server INT,"
    " requests INT, server_ns INT, queue_ns INT, file_ns INT, network_ns INT, layer TEXT,"
    " caused INT);"

    "CREATE TABLE %1$s.totals(process INT, name_id INT, path_id INT, calls INT, bytes INT, errors INT,"
    " ns INT, longest_ns INT, first_ns INT, last_ns INT);"

    "CREATE TABLE %1$s.losses(dropped_calls INT, summed_calls INT, dropped_texts INT, unfinished INT,"
    " bytes INT, zero_ns INT, unseen INT);"

    "CREATE VIEW %1$s.calls AS SELECT"
    " e.id, e.process, p.rank, p.host, p.pid, e.tid, n.name, n.class,"
    " a.path, b.path AS path2, e.fd, e.start_ns, e.start_ns + e.ns AS end_ns, e.ns, e.offset, e.length,"
    " CASE WHEN (n.class IN ('read', 'write', 'mpi-io', 'am', 'rma', 'coll')"
    " OR (n.class = 'stdio' AND e.length IS NOT NULL)) AND e.result > 0"
    " THEN e.result ELSE 0 END AS bytes,"
    " e.result, e.flags, e.errno, e.failed, e.returned, e.given, e.side, e.peer, e.server,"
    " e.requests, e.server_ns, e.queue_ns, e.file_ns, e.network_ns, e.layer, e.caused,"
    " n.async FROM events e JOIN processes p USING(process) JOIN names n USING(name_id)"
    " LEFT JOIN paths a ON a.path_id = e.path_id"
    " LEFT JOIN paths b ON b.path_id = e.path2_id;"

    /* Calls, and those beyond the budget, of which there are sums: a row stands for so many calls. */
    "CREATE VIEW %1$s.all_calls AS SELECT process, tid, name, class, layer, side, path, 1 AS calls,"
    " failed, bytes, ns, async FROM calls UNION ALL SELECT t.process, NULL, n.name, n.class,"
    " CASE WHEN n.class IN ('stdio', 'mpi-io') THEN n.class"
    " WHEN n.class IN ('am', 'rma', 'coll', 'wait') THEN 'message' ELSE 'posix' END, NULL, a.path,"
    " t.calls, t.errors, t.bytes, t.ns, n.async FROM totals t JOIN names n USING(name_id)"
    " LEFT JOIN paths a USING(path_id);";
/* clang-format on */

static bool run(sqlite3 *db, const char *sql)
{
    char *text = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &text) == SQLITE_OK)
        return true;

    trace_fail("the database refuses: %s", text ? text : sqlite3_errmsg(db));
    sqlite3_free(text);
    return false;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *schema, const char *table, int columns)
{
    char sql[256];
    int n = snprintf(sql, sizeof sql, "INSERT INTO %s.%s VALUES(?", schema, table);
    sqlite3_stmt *stmt = NULL;

    for (int i = 1; i < columns; i++)
        n += snprintf(sql + n, sizeof sql - (size_t)n, ",?");

    snprintf(sql + n, sizeof sql - (size_t)n, ")");
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        trace_fail("the database refuses: %s", sqlite3_errmsg(db));

    return stmt;
}

struct row {
    sqlite3_stmt *stmt;
    int column;
};

static void number(struct row *r, int64_t value)
{
    sqlite3_bind_int64(r->stmt, ++r->column, value);
}

static void number_if(struct row *r, bool known, int64_t value)
{
    if (known)
        number(r, value);
    else
        sqlite3_bind_null(r->stmt, ++r->column);
}

static void text(struct row *r, const char *value)
{
    sqlite3_bind_text(r->stmt, ++r->column, value, -1, SQLITE_STATIC);
}

static bool insert(struct row *r)
{
    bool ok = sqlite3_step(r->stmt) == SQLITE_DONE;

    sqlite3_reset(r->stmt);
    r->column = 0;
    return ok;
}

static const char *const layers[AMPH_TRACE_LAYERS] = { "posix", "stdio", "mpi-io", "message" };
const char *const trace_sides[AMPH_TRACE_SIDES] = { "local", "forwarded", "mpi-io", "message" };

/* What is left of the call's time: the network, and Amphora's work in the client. */
static int64_t network_ns(const struct amph_trace_event *e)
{
    int64_t ns = e->end_ns - e->start_ns - (int64_t)e->server_ns;

    return ns > 0 ? ns : 0;
}

/* Times begin with the run. */
static bool put_events(sqlite3 *db, const char *schema, const struct amph_trace *t, int64_t zero)
{
    struct row r = { prepare(db, schema, "events", 29), 0 };
    bool ok = r.stmt != NULL;

    for (size_t i = 0; ok && i < t->nevents; i++) {
        const struct amph_trace_event *e = &t->events[i];
        bool returned = e->end_ns != 0;

        number(&r, (int64_t)i + 1);
        number(&r, e->process);
        number(&r, e->tid);
        number(&r, e->name);
        number_if(&r, e->fd >= 0, e->fd);
        number_if(&r, e->fd2 >= 0, e->fd2);
        number_if(&r, e->file, e->file);
        number_if(&r, e->file2, e->file2);
        number(&r, (e->has & AMPH_TRACE_HAS_PATH) != 0);
        number(&r, e->start_ns - zero);
        number_if(&r, returned, e->end_ns - e->start_ns);
        number_if(&r, returned, e->result);
        number_if(&r, e->has & (AMPH_TRACE_HAS_OFFSET | AMPH_TRACE_HAS_POSITION), e->offset);
        number_if(&r, e->has & AMPH_TRACE_HAS_LENGTH, (int64_t)e->length);
        number_if(&r, e->has & AMPH_TRACE_HAS_FLAGS, e->flags);
        number(&r, e->err);
        number(&r, (e->has & AMPH_TRACE_HAS_FAILED) != 0);
        number(&r, returned);
        number(&r, e->side == AMPH_TRACE_FORWARDED);
        text(&r, trace_sides[e->side]);
        number_if(&r, e->peer >= 0, e->peer);
        number_if(&r, e->requests, e->server);
        number(&r, e->requests);
        number_if(&r, e->requests, (int64_t)e->server_ns);
        number_if(&r, e->requests, (int64_t)e->queue_ns);
        number_if(&r, e->requests, (int64_t)(e->server_ns - e->queue_ns));
        number_if(&r, e->requests && returned, network_ns(e));
        text(&r, layers[amph_trace_layer_of((enum amph_trace_side)e->side,
                                            amph_trace_class_of(t->names[e->name]))]);
        number(&r, e->caused);
        ok = insert(&r);
    }

    sqlite3_finalize(r.stmt);
    return ok;
}

static bool put_processes(sqlite3 *db, const char *schema, const struct amph_trace *t, int64_t zero)
{
    static const char *const recorders[] = { [AMPH_TRACE_BY_PRELOAD] = "preload",
                                             [AMPH_TRACE_BY_TRAP] = "trap",
                                             [AMPH_TRACE_BY_MOUNT] = "mount" };
    struct row r = { prepare(db, schema, "processes", 10), 0 };
    bool ok = r.stmt != NULL;

    for (size_t i = 0; ok && i < t->nprocesses; i++) {
        const struct amph_trace_process *p = &t->processes[i];

        number(&r, (int64_t)i);
        number(&r, p->pid);
        number(&r, p->ppid);
        number_if(&r, p->rank >= 0, p->rank);
        text(&r, p->host);
        text(&r, p->exe);
        text(&r, p->cwd);
        number(&r, p->start_ns - zero);
        number_if(&r, p->clock_error_ns != UINT64_MAX, (int64_t)p->clock_error_ns);
        text(&r, recorders[p->recorder]);
        ok = insert(&r);
    }

    sqlite3_finalize(r.stmt);
    return ok;
}

static bool put_texts(sqlite3 *db, const char *schema, const struct amph_trace *t)
{
    struct row name = { prepare(db, schema, "names", 4), 0 };
    struct row path = { prepare(db, schema, "paths", 2), 0 };
    bool ok = name.stmt && path.stmt;

    for (size_t i = 0; ok && i < t->nnames; i++) {
        number(&name, (int64_t)i);
        text(&name, t->names[i]);
        text(&name, amph_trace_class_names[amph_trace_class_of(t->names[i])]);
        number(&name, amph_trace_is_request(t->names[i]));
        ok = insert(&name);
    }

    for (size_t i = 1; ok && i < t->nfiles; i++) {
        number(&path, (int64_t)i);
        text(&path, t->files[i]);
        ok = insert(&path);
    }

    sqlite3_finalize(name.stmt);
    sqlite3_finalize(path.stmt);
    return ok;
}

static bool put_totals(sqlite3 *db, const char *schema, const struct amph_trace *t, int64_t zero)
{
    struct row r = { prepare(db, schema, "totals", 10), 0 };
    struct row losses = { prepare(db, schema, "losses", 7), 0 };
    bool ok = r.stmt && losses.stmt;

    for (size_t i = 0; ok && i < t->ntotals; i++) {
        const struct amph_trace_total *s = &t->totals[i];

        number(&r, s->process);
        number(&r, s->name);
        number_if(&r, s->file, s->file);
        number(&r, (int64_t)s->calls);
        number(&r, (int64_t)s->bytes);
        number(&r, (int64_t)s->errors);
        number(&r, (int64_t)s->total_ns);
        number(&r, (int64_t)s->longest_ns);
        number(&r, s->first_ns - zero);
        number(&r, s->last_ns - zero);
        ok = insert(&r);
    }

    if (ok) {
        number(&losses, (int64_t)t->dropped_calls);
        number(&losses, (int64_t)t->summed_calls);
        number(&losses, (int64_t)t->dropped_texts);
        number(&losses, (int64_t)t->unfinished);
        number(&losses, (int64_t)t->bytes);
        number(&losses, zero); /* the host's real time when the run began */
        number(&losses, (int64_t)t->unseen);
        ok = insert(&losses);
    }

    sqlite3_finalize(r.stmt);
    sqlite3_finalize(losses.stmt);
    return ok;
}

bool trace_moves(enum amph_trace_class cls)
{
    static const enum amph_trace_class moving[] = { AMPH_TRACE_READ, AMPH_TRACE_WRITE,
                                                    AMPH_TRACE_MPI,  AMPH_TRACE_AM,
                                                    AMPH_TRACE_RMA,  AMPH_TRACE_COLL };

    for (size_t i = 0; i < sizeof moving / sizeof *moving; i++)
        if (moving[i] == cls)
            return true;

    return false;
}

int64_t trace_zero(const struct amph_trace *t)
{
    int64_t zero = INT64_MAX;

    for (size_t i = 0; i < t->nprocesses; i++)
        if (t->processes[i].start_ns < zero)
            zero = t->processes[i].start_ns;

    return zero;
}

bool trace_tables(sqlite3 *db, const char *schema, const struct amph_trace *t)
{
    char sql[sizeof schema_text * 2];
    int64_t zero = trace_zero(t);

    snprintf(sql, sizeof sql, schema_text, schema);

    bool ok = run(db, sql) && run(db, "BEGIN") && put_texts(db, schema, t) &&
              put_processes(db, schema, t, zero) && put_events(db, schema, t, zero) &&
              put_totals(db, schema, t, zero) && run(db, "COMMIT");

    return ok || !trace_fail("the calls cannot be put into tables: %s", sqlite3_errmsg(db));
}

bool trace_load(sqlite3 *db, const char *schema, const char *dir)
{
    struct amph_trace t = { 0 };
    char why[512];
    bool ok = amph_trace_read(&t, dir, why, sizeof why);

    if (!ok)
        trace_fail("%s", why);
    else
        ok = trace_tables(db, schema, &t);

    amph_trace_free(&t);
    return ok;
}

/* errno_name(N): "ENOENT"; the number itself if it has no name. */
static void errno_name(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    const char *name = strerrorname_np(sqlite3_value_int(argv[0]));

    if (name)
        sqlite3_result_text(context, name, -1, SQLITE_STATIC);
    else
        sqlite3_result_value(context, argv[0]);
}

static bool add_functions(sqlite3 *db)
{
    return sqlite3_create_function(db, "errno_name", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL,
                                   errno_name, NULL, NULL) == SQLITE_OK;
}

sqlite3 *trace_database(void)
{
    sqlite3 *db = NULL;

    if (sqlite3_open(":memory:", &db) == SQLITE_OK && add_functions(db))
        return db;

    trace_fail("SQLite cannot be used: %s", sqlite3_errmsg(db));
    sqlite3_close(db);
    return NULL;
}

/* Allows what reads the tables of the run, and nothing that changes them or reaches another file. */
static int allow(void *arg, int action, const char *first, const char *second, const char *schema,
                 const char *view)
{
    static const char *const pragmas[] = { "table_info",    "table_xinfo",   "table_list",
                                           "database_list", "function_list", "compile_options" };

    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION: /* its name is the second text */
        return strcasecmp(second, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_UPDATE: /* asked for json_each; a query cannot change this table */
        return strcmp(first, "sqlite_master") == 0 ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_PRAGMA:
        for (size_t i = 0; i < sizeof pragmas / sizeof *pragmas; i++)
            if (strcasecmp(first, pragmas[i]) == 0)
                return SQLITE_OK;

        return SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

void trace_read_only(sqlite3 *db)
{
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_set_authorizer(db, allow, NULL);
}

sqlite3 *trace_open(const char *dir)
{
    sqlite3 *db = trace_database();

    if (db && !trace_load(db, "main", dir)) {
        sqlite3_close(db);
        return NULL;
    }

    return db;
}
