/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * summary, files, ranks, timeline and diff; see trace.h.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/trace.h"

#define MS(ns) "printf('%.3f', (" ns ") / 1e6)"

/* What is not in the events is said, not hidden. */
void trace_say_losses(sqlite3 *db, const char *schema, FILE *out)
{
    static const struct {
        const char *sql, *sentence;
    } losses[] = {
        { "SELECT count(*) FROM %1$s.processes WHERE recorder <> 'preload'",
          "%lld processes were recorded by iofwd-trap or iofwd-mount, which see the forwarded "
          "calls of a program only: its local calls are not here.\n" },
        { "SELECT count(*) FROM %1$s.processes WHERE recorder = 'mount'",
          "%lld of these processes were recorded by iofwd-mount: calls on the mount that the "
          "kernel answers by "
          "itself, from what it remembers or because it refuses them, are not here either.\n" },
        { "SELECT count(*) FROM %1$s.calls WHERE NOT failed AND name = 'io_uring_setup'",
          "%lld rings of io_uring were made by a program's own system calls: what it submits to "
          "them is "
          "not recorded; use its other engine (libaio, threads), or one with the shared "
          "liburing.\n" },
        { "SELECT unfinished FROM %1$s.losses", "%lld calls had not returned when their thread or "
                                                "process ended (exec and exit never do).\n" },
        { "SELECT unseen FROM %1$s.losses", "%lld requests were started whose ends the program has "
                                            "not looked for, or not in a way that "
                                            "is recorded.\n" },
        { "SELECT summed_calls FROM %1$s.losses",
          "%lld calls were beyond IOFWD_TRACE_BUDGET and are in the sums by file only.\n" },
        { "SELECT dropped_calls FROM %1$s.losses",
          "%lld calls are lost: there was no room for them; "
          "a larger IOFWD_TRACE_BUDGET keeps them.\n" },
        { "SELECT dropped_texts FROM %1$s.losses",
          "%lld paths are lost: there was no room for them.\n" },
        { "SELECT count(DISTINCT host) FROM %1$s.processes WHERE clock_error_ns IS NULL AND "
          "(SELECT count(DISTINCT host) FROM %1$s.processes) > 1",
          "The clocks of %lld hosts were not measured: times of different hosts are compared by "
          "their real-time clocks; amphora-run -record measures them, and so do clients of I/O "
          "servers.\n" },
    };

    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        char sql[256];

        snprintf(sql, sizeof sql, losses[i].sql, schema);

        long long n = trace_number(db, sql);

        if (n)
            fprintf(out, losses[i].sentence, n);
    }
}

static int is_unrecorded(const struct dirent *d)
{
    const size_t end = sizeof AMPH_TRACE_UNRECORDED_SUFFIX - 1;
    size_t len = strlen(d->d_name);

    return len > end && strcmp(d->d_name + len - end, AMPH_TRACE_UNRECORDED_SUFFIX) == 0;
}

/* Programs of the run into which the recorder could not be loaded. */
static void say_unrecorded(const char *dir)
{
    struct dirent **list;
    int n = scandir(dir, &list, is_unrecorded, alphasort);

    for (int i = 0; i < n; i++) {
        char path[4096 + 256], line[2048] = "";

        snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);

        FILE *f = fopen(path, "r");

        if (f && fgets(line, sizeof line, f))
            printf("%s", line);
        if (f)
            fclose(f);

        free(list[i]);
    }

    if (n >= 0)
        free(list);
}

static int with(const char *dir, const char *const *queries, const char *const *titles)
{
    sqlite3 *db = trace_open(dir);
    int code = db ? 0 : 1;

    for (size_t i = 0; db && !code && queries[i]; i++) {
        printf("%s%s%s", i ? "\n" : "", titles[i], titles[i][0] ? "\n" : "");
        code = trace_print(db, stdout, TRACE_TEXT, queries[i]);
    }

    if (db && !code) {
        trace_say_losses(db, "main", stdout);
        say_unrecorded(dir);
    }

    sqlite3_close(db);
    return code;
}

/* Calls, and those that are in the sums only. */
#define ALL_BY_NAME \
    "(SELECT n.class || CASE n.async WHEN 1 THEN ', async' ELSE '' END AS kind, n.class, " \
    "n.async, n.name, e.failed, e.ns, CASE WHEN (n.class IN ('read', 'write') OR n.class " \
    "= " \
    "'stdio' AND length IS NOT NULL) AND result > 0 " \
    "THEN result ELSE 0 END AS bytes, 1 AS calls, e.ns AS longest FROM events e JOIN names n " \
    "USING(name_id) UNION ALL SELECT n.class || CASE n.async WHEN 1 THEN ', async' ELSE '' END, " \
    "n.class, n.async, n.name, t.errors, t.ns, t.bytes, t.calls, " \
    "t.longest_ns FROM totals t JOIN names n USING(name_id))"

/* Columns that several answers have. */
#define READ_BYTES "sum(CASE class WHEN 'read' THEN bytes ELSE 0 END) AS bytes_read"
#define WRITTEN_BYTES "sum(CASE class WHEN 'write' THEN bytes ELSE 0 END) AS bytes_written"
/* Calls of MPI-IO and of streams contain file calls, and messages are none. */
#define FILE_CALL "layer = 'posix'"
/* A request's time is not that of a call: its thread goes on meanwhile. */
#define FILE_NS "coalesce(sum(ns) FILTER (WHERE " FILE_CALL " AND NOT async), 0)"
#define FILE_MS MS(FILE_NS)
#define FILE_CALLS "sum(" FILE_CALL ")"
#define STDIO_CALLS \
    "sum(layer = 'stdio') AS stdio, " \
    "sum(CASE layer WHEN 'stdio' THEN bytes ELSE 0 END) AS stdio_bytes, "
#define OTHER_CALLS \
    STDIO_CALLS "sum(side = 'mpi-io') AS mpi_io, sum(side = 'message') AS messages, "
/* The same of all_calls, whose rows stand for several calls. */
#define SUMMED_STDIO \
    "sum(calls * (layer = 'stdio')) AS stdio, " \
    "sum(CASE layer WHEN 'stdio' THEN bytes ELSE 0 END) AS stdio_bytes, "
#define SUMMED_OTHERS \
    SUMMED_STDIO "sum(calls * (layer = 'mpi-io')) AS mpi_io, sum(calls * (layer = 'message')) AS " \
                 "messages, "
#define RUN_NS "max(start_ns + coalesce(ns, 0)) - min(start_ns)"

/* Times of forwarded calls by server: in its queue, at its files, and the rest; sums and medians. */
#define RANK(column) "row_number() OVER (PARTITION BY server ORDER BY " column ")"
#define MEDIAN_US(column, rank) \
    "printf('%.1f', max(" column ") FILTER (WHERE " rank " = n / 2 + 1) / 1e3)"
/* clang-format off */
#define SERVERS \
    "WITH m AS (SELECT server, requests, queue_ns, file_ns, network_ns, " \
    RANK("queue_ns") " AS q, " RANK("file_ns") " AS f, " RANK("network_ns") " AS w, " \
    "count(*) OVER (PARTITION BY server) AS n FROM calls " \
    "WHERE server IS NOT NULL AND network_ns IS NOT NULL) " \
    "SELECT server, count(*) AS calls, sum(requests) AS requests, " \
    MS("sum(queue_ns)") " AS queue_ms, " MS("sum(file_ns)") " AS file_ms, " \
    MS("sum(network_ns)") " AS network_ms, " MEDIAN_US("queue_ns", "q") " AS queue_us, " \
    MEDIAN_US("file_ns", "f") " AS file_us, " MEDIAN_US("network_ns", "w") " AS network_us " \
    "FROM m GROUP BY server ORDER BY server"
/* clang-format on */

/* Requests by name: with the time during which at least one of the name was in flight, and how many were on
 * average, from what each adds to the end of those before. */
/* clang-format off */
#define REQUESTS \
    "WITH r AS (SELECT name, failed, returned, bytes, ns, start_ns AS a, end_ns AS b, " \
    "max(end_ns) OVER (PARTITION BY name ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) " \
    "AS reach FROM calls WHERE async), " \
    "s AS (SELECT name, count(*) AS n, sum(failed) AS failed, sum(NOT returned) AS unseen, sum(bytes) AS bytes, " \
    "sum(max(0, b - max(a, coalesce(reach, a)))) AS span, sum(ns) AS ns, max(ns) AS longest FROM r GROUP BY name) " \
    "SELECT name AS request, n AS times, failed, unseen, bytes, " MS("coalesce(span, 0)") " AS in_flight_ms, " \
    "CASE WHEN span > 0 THEN printf('%.1f', ns * 1.0 / span) END AS at_once, " \
    "CASE WHEN n > unseen THEN printf('%.1f', ns / 1e3 / (n - unseen)) END AS us_each, " \
    MS("longest") " AS longest_ms, CASE WHEN span > 0 THEN printf('%.1f', bytes * 1e3 / span) END AS MB_per_s " \
    "FROM s ORDER BY span DESC"
/* clang-format on */

int trace_summary(const char *dir)
{
    /* clang-format off */
    static const char *const titles[] = { "", "Time by kind of call", "Calls", "Requests", "Servers", "Errors" };
    static const char *const queries[] = {
        "SELECT (SELECT count(*) FROM processes) AS processes, "
        "(SELECT count(DISTINCT host) FROM processes) AS hosts, "
        "(SELECT count(DISTINCT rank) FROM processes) AS ranks, "
        "(SELECT count(DISTINCT process || ' ' || tid) FROM events) AS threads, "
        "sum(calls) AS calls, sum(failed) AS failed, " READ_BYTES ", " WRITTEN_BYTES ", "
        "(SELECT count(DISTINCT path_id) FROM events) AS files, "
        "(SELECT sum(forwarded) FROM events) AS forwarded, "
        "(SELECT " MS(RUN_NS) " FROM events) AS run_ms FROM " ALL_BY_NAME,

        "SELECT kind, sum(calls) AS calls, sum(failed) AS failed, sum(bytes) AS bytes, "
        MS("sum(ns)") " AS ms, "
        "CASE WHEN sum(ns) > 0 AND NOT async THEN printf('%.1f', sum(bytes) * 1e3 / sum(ns)) END AS MB_per_s "
        "FROM " ALL_BY_NAME " GROUP BY kind ORDER BY sum(ns) DESC",

        "SELECT name AS call, sum(calls) AS calls, sum(failed) AS failed, sum(bytes) AS bytes, "
        MS("sum(ns)") " AS ms, printf('%.1f', sum(ns) / 1e3 / sum(calls)) AS us_each, "
        MS("max(longest)") " AS longest_ms "
        "FROM " ALL_BY_NAME " GROUP BY name ORDER BY sum(ns) DESC LIMIT 25",

        REQUESTS,

        SERVERS,

        "SELECT n.name AS call, "
        "CASE side WHEN 'mpi-io' THEN 'class ' || e.errno ELSE errno_name(e.errno) END AS error, "
        "count(*) AS times, p.path AS first_path "
        "FROM events e JOIN names n USING(name_id) LEFT JOIN paths p USING(path_id) "
        "WHERE failed GROUP BY n.name, e.errno ORDER BY times DESC LIMIT 15",
        NULL
    };
    /* clang-format on */

    return with(dir, queries, titles);
}

int trace_files(const char *dir)
{
    static const char *const titles[] = { "" };
    /* clang-format off */
    static const char *const queries[] = {
        "SELECT count(DISTINCT process) AS procs, sum(CASE class WHEN 'open' THEN calls - failed ELSE 0 END) AS opens, "
        "sum(calls * (class = 'read')) AS reads, " READ_BYTES ", sum(calls * (class = 'write')) AS writes, "
        WRITTEN_BYTES ", sum(calls * (class = 'meta')) AS meta, sum(failed) AS failed, "
        SUMMED_STDIO "sum(calls * (class = 'mpi-io')) AS mpi_io, " FILE_MS " AS ms, "
        "coalesce(max(side) FILTER (WHERE layer IN ('posix', 'stdio')), '-') AS side, path "
        "FROM all_calls WHERE path IS NOT NULL GROUP BY path ORDER BY " FILE_NS " DESC",
        NULL
    };
    /* clang-format on */

    return with(dir, queries, titles);
}

int trace_ranks(const char *dir)
{
    static const char *const titles[] = { "" };
    /* clang-format off */
    static const char *const queries[] = {
        "SELECT coalesce(p.rank, '-') AS rank, p.host, p.pid, count(DISTINCT tid) AS threads, "
        "sum(calls * (" FILE_CALL ")) AS calls, sum(failed) AS failed, " READ_BYTES ", " WRITTEN_BYTES ", "
        FILE_MS " AS ms, " SUMMED_OTHERS "coalesce(p.clock_error_ns, '-') AS clock_error_ns, p.exe "
        "FROM all_calls c JOIN processes p USING(process) GROUP BY c.process ORDER BY p.rank, c.process",
        NULL
    };
    /* clang-format on */

    return with(dir, queries, titles);
}

int trace_timeline(const char *dir)
{
    static const char *const titles[] = { "Forty parts of the run" };
    /* clang-format off */
    static const char *const queries[] = {
        "WITH RECURSIVE parts(part) AS (VALUES(0) UNION ALL SELECT part + 1 FROM parts WHERE part < 39), "
        "span AS (SELECT min(start_ns) AS zero, (" RUN_NS ") / 40.0 + 1 AS step FROM events), "
        "requests AS MATERIALIZED (SELECT start_ns - zero AS a, start_ns - zero + ns AS b FROM span, events JOIN names "
        "USING(name_id) WHERE async AND ns IS NOT NULL), "
        /* how many requests are in flight in a part, on average */
        "flights AS (SELECT part, sum(min(b, step * (part + 1)) - max(a, step * part)) / step AS in_flight "
        "FROM span, parts JOIN requests ON a < step * (part + 1) AND b > step * part GROUP BY part), "
        "begun AS (SELECT CAST((start_ns - zero) / step AS INT) AS part, " FILE_CALLS " AS calls, "
        "count(DISTINCT tid) AS threads, " READ_BYTES ", " WRITTEN_BYTES ", "
        "sum(class = 'meta' OR class = 'open') AS meta, sum(failed) AS failed, "
        FILE_MS " AS ms_in_calls, " OTHER_CALLS
        "substr('########################################', 1, "
        "CAST(40.0 * " FILE_NS " / (step * count(DISTINCT tid)) AS INT)) AS busy "
        "FROM calls, span GROUP BY part) "
        "SELECT part, " MS("part * step") " AS from_ms, coalesce(calls, 0) AS calls, coalesce(threads, 0) AS threads, "
        "coalesce(bytes_read, 0) AS bytes_read, coalesce(bytes_written, 0) AS bytes_written, coalesce(meta, 0) AS meta, "
        "coalesce(failed, 0) AS failed, coalesce(ms_in_calls, '0.000') AS ms_in_calls, "
        "printf('%.1f', coalesce(in_flight, 0)) AS in_flight, coalesce(stdio, 0) AS stdio, "
        "coalesce(stdio_bytes, 0) AS stdio_bytes, coalesce(mpi_io, 0) AS mpi_io, coalesce(messages, 0) AS messages, "
        "coalesce(busy, '') AS busy "
        "FROM span, parts LEFT JOIN begun USING(part) LEFT JOIN flights USING(part) "
        "WHERE calls IS NOT NULL OR in_flight > 0 ORDER BY part",
        NULL
    };
    /* clang-format on */

    return with(dir, queries, titles);
}

/* clang-format off */
#define SUMS(of) \
    "(SELECT name, sum(calls) AS calls, sum(bytes) AS bytes, sum(failed) AS failed, sum(ns) AS ns " \
    "FROM " of ".all_calls GROUP BY name)"
static const char differences[] =
    "WITH one AS " SUMS("main") ", two AS " SUMS("b") ", "
    "both AS (SELECT name FROM one UNION SELECT name FROM two) "
    "SELECT name AS call, coalesce(one.calls, 0) AS calls_a, coalesce(two.calls, 0) AS calls_b, "
    "coalesce(one.failed, 0) AS failed_a, coalesce(two.failed, 0) AS failed_b, "
    "coalesce(one.bytes, 0) AS bytes_a, coalesce(two.bytes, 0) AS bytes_b, "
    MS("coalesce(one.ns, 0)") " AS ms_a, " MS("coalesce(two.ns, 0)") " AS ms_b, "
    MS("coalesce(two.ns, 0) - coalesce(one.ns, 0)") " AS more_ms "
    "FROM both LEFT JOIN one USING(name) LEFT JOIN two USING(name) "
    "ORDER BY abs(coalesce(two.ns, 0) - coalesce(one.ns, 0)) DESC";
/* clang-format on */

int trace_diff(const char *a, const char *b)
{
    sqlite3 *db = trace_open(a);
    int code = 1;

    if (db && sqlite3_exec(db, "ATTACH ':memory:' AS b", NULL, NULL, NULL) == SQLITE_OK &&
        trace_load(db, "b", b)) {
        code = trace_print(db, stdout, TRACE_TEXT, differences);
        printf("\n%s:\n", a);
        trace_say_losses(db, "main", stdout);
        printf("%s:\n", b);
        trace_say_losses(db, "b", stdout);
    }

    sqlite3_close(db);
    return code;
}
