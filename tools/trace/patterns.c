/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Findings: what a run does badly, on which file, what it costs, and the setting that mends it.
 *
 * Layer: tools.  Thread rule: one thread.
 *
 * A rule is a query that gives one row for each finding: its subject, the number of calls, their time
 * and a detail.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/trace/trace.h"

struct rule {
    const char *name;
    const char *shows; /* the calls that it is about, in the language of the page's filter */
    const char *remedy, *query;
};

/* A path in all calls that are given or have a descriptor of it: programs' own files only. */
#define FILES \
    "layer = 'posix' AND path LIKE '/%' AND path NOT LIKE '/dev/%' AND path NOT LIKE '/proc/%' " \
    "AND path NOT LIKE '/sys/%'"

/* clang-format off */
/* Who reads and writes each file: the last eight rules, of which a file belongs to one. */
#define PROCESSES_THAT(cond) "count(DISTINCT CASE WHEN " cond " AND bytes > 0 THEN process END)"
static const char file_uses[] =
    "CREATE TABLE file_uses AS SELECT path, " PROCESSES_THAT("class = 'read'") " AS r, "
    PROCESSES_THAT("class = 'write'") " AS w, "
    PROCESSES_THAT("class IN ('read', 'write')") " AS users, "
    "sum((calls - failed) * (class = 'open')) AS opens, sum(ns) AS ns, sum(calls) AS n, sum(bytes) AS bytes "
    "FROM all_calls WHERE " FILES " GROUP BY path";
#define USE_OF_FILES \
    "SELECT 'all such files', sum(n), sum(ns), printf('%d files, %d bytes, such as %s', count(*), " \
    "sum(bytes), max(path)) FROM file_uses WHERE "
#define ALL_SUCH_FILES " HAVING count(*) > 0"

/*
 * Writes that touch bytes which another process also writes, by sweeps over sorted offsets.  The writes of
 * one process are joined to ranges first.  Ranges of one process are disjoint, so a range that begins
 * before the end of an earlier one meets another process, and the bytes they share are an overlap.
 */
#define OVERLAPPING_WRITES \
    "WITH w AS MATERIALIZED (SELECT path, process, offset AS a, offset + bytes AS b, ns FROM calls WHERE " \
    "class = 'write' AND offset >= 0 AND bytes > 0 AND " FILES "), " \
    "begun AS (SELECT path, process, a, b, coalesce(a > max(b) OVER (PARTITION BY path, process ORDER BY a, b " \
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 1) AS begins FROM w), " \
    "numbered AS (SELECT path, process, a, b, sum(begins) OVER (PARTITION BY path, process ORDER BY a, b " \
    "ROWS UNBOUNDED PRECEDING) AS number FROM begun), " \
    "ranges AS (SELECT path, min(a) AS a, max(b) AS b FROM numbered GROUP BY path, process, number), " \
    "reached AS (SELECT path, a, b, max(b) OVER (PARTITION BY path ORDER BY a, b " \
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reach FROM ranges), " \
    "shared AS MATERIALIZED (SELECT path, a, min(b, reach) AS b FROM reached WHERE reach > a), " \
    "both AS (SELECT path, a, b, ns, NULL AS first, NULL AS last FROM w WHERE path IN (SELECT path FROM shared) " \
    "UNION ALL SELECT path, a, b, NULL, a, b FROM shared), " \
    "met AS (SELECT path, a, b, ns, max(last) OVER (PARTITION BY path ORDER BY a) AS before, " \
    "min(first) OVER (PARTITION BY path ORDER BY a DESC) AS after FROM both) " \
    "SELECT path, count(*), sum(ns), printf('first at offset %d', (SELECT min(a) FROM shared s WHERE " \
    "s.path = met.path)) FROM met WHERE ns IS NOT NULL AND (before > a OR after < b) GROUP BY path"

/* Calls that neither continue the one before, nor repeat its place, nor go on by the same step. */
#define ELSEWHERE \
    "sum(offset <> expected AND offset <> former AND " \
    "(offset < former OR offset - former IS NOT former - before))"

/* A rank may consist of several processes. */
#define RANKS "count(DISTINCT coalesce('rank ' || rank, process))"

/* Neither waiting for input nor for processes is a file's fault. */
#define NOT_WAITING "class NOT IN ('wait', 'process')"

/* How far a file reaches, not how many bytes have moved: a small file may be written many times. */
#define LARGE_FILE "sum(bytes) >= 100000000 AND (max(offset + bytes) >= 100000000 OR coalesce(min(offset), -1) < 0)"

static const struct rule rules[] = {
    { "many small writes", "kind:write", "IOFWD_CONSISTENCY=session holds small consecutive writes back",
      "SELECT path, sum(calls), sum(ns), printf('%d bytes each', sum(bytes) / sum(calls)) FROM all_calls WHERE "
      "class = 'write' AND bytes > 0 AND " FILES
      " GROUP BY path HAVING sum(calls) >= 100 AND sum(bytes) / sum(calls) < 16384" },
    { "many small reads", "kind:read",
      "IOFWD_CONSISTENCY=session reads ahead; IOFWD_BLKSIZE makes stdio ask for more",
      "SELECT path, sum(calls), sum(ns), printf('%d bytes each', sum(bytes) / sum(calls)) FROM all_calls WHERE "
      "class = 'read' AND bytes > 0 AND " FILES
      " GROUP BY path HAVING sum(calls) >= 100 AND sum(bytes) / sum(calls) < 16384" },
    { "a file that is opened again and again", "kind:open", "keep it open in the program",
      "SELECT path, sum(calls - failed), sum(ns), printf('%d processes', count(DISTINCT process)) FROM all_calls WHERE "
      "class = 'open' AND calls > failed AND " FILES
      " GROUP BY path HAVING sum(calls - failed) >= 10 AND sum(calls - failed) >= 5 * count(DISTINCT process)" },
    { "opens of files that do not exist", "kind:open,meta errno:ENOENT",
      "shorten the search path that the program goes through (PATH, PYTHONPATH, LD_LIBRARY_PATH)",
      "SELECT 'all paths', count(*), sum(ns), printf('%d paths, such as %s', count(DISTINCT path), "
      "max(path)) FROM calls WHERE class IN ('open', 'meta') AND errno = 2 HAVING count(*) >= 20" },
    { "many calls on names and attributes", "kind:meta",
      "fewer stat calls in the program; forwarded ones are one request each",
      "SELECT 'process ' || pid, count(*), sum(ns), printf('%d %% of its time in calls', 100 * sum(ns) / "
      "(SELECT max(1, sum(ns)) FROM calls d WHERE layer = 'posix' AND NOT async AND d.process = calls.process)) FROM calls WHERE class = "
      "'meta' GROUP BY process HAVING count(*) >= 1000 AND sum(ns) * 4 > (SELECT sum(ns) FROM calls d "
      "WHERE layer = 'posix' AND NOT async AND d.process = calls.process)" },
    { "the same file read by all processes", "kind:read",
      "read it once and send it to the others (a collective, or a broadcast); several processes "
      "read it now",
      "SELECT path, count(*), sum(ns), printf('%d ' || CASE WHEN max(rank) IS NULL THEN 'processes' ELSE 'ranks' END || "
      "', %d bytes', " RANKS ", sum(bytes)) FROM calls WHERE class = 'read' AND NOT failed AND " FILES
      " GROUP BY path HAVING " RANKS " >= 4 AND " RANKS " >= (SELECT " RANKS " FROM processes) * 9 / 10" },
    { "a file written by several processes at once, with overlap", "kind:write",
      "order the writers (a lock or a barrier); with IOFWD_CONSISTENCY=session each needs fsync",
      OVERLAPPING_WRITES },
    { "data read back that has just been written", "kind:read,write", "keep it in memory, or in one descriptor",
      "SELECT path, count(*), sum(ns), printf('%d bytes', sum(bytes)) FROM calls JOIN (SELECT path AS "
      "written, min(start_ns) AS first_ns, min(coalesce(offset, 0)) AS a, max(coalesce(offset + bytes, 1 << 62)) AS b "
      "FROM calls WHERE class = 'write' AND bytes > 0 AND " FILES " GROUP BY path) ON path = written "
      "WHERE class = 'read' AND bytes > 0 AND start_ns > first_ns "
      "AND (offset IS NULL OR (offset < b AND offset + bytes > a)) "
      "GROUP BY path HAVING sum(bytes) >= 4096" },
    { "reads or writes in no order", "kind:read,write",
      "sort the requests, or read larger blocks; IOFWD_CONSISTENCY=posix avoids useless read-ahead",
      "WITH o AS (SELECT path, process, class, offset, bytes, ns, lag(offset + bytes) OVER same AS expected, "
      "lag(offset) OVER same AS former, lag(offset, 2) OVER same AS before FROM calls WHERE class IN ('read', 'write') "
      "AND bytes > 0 AND offset >= 0 AND " FILES
      " WINDOW same AS (PARTITION BY path, process, class ORDER BY start_ns)"
      ") SELECT path, count(*), sum(ns), printf('%d of %d calls begin elsewhere', " ELSEWHERE ", "
      "count(expected)) FROM o GROUP BY path HAVING count(expected) >= 50 AND " ELSEWHERE
      " * 2 > count(expected)" },
    { "the same step between calls", "kind:read,write", "a collective call, or one that takes the whole range and picks",
      "WITH o AS (SELECT path, process, ns, offset, offset - lag(offset) OVER (PARTITION BY path, "
      "process ORDER BY start_ns) AS step, bytes FROM calls WHERE class IN ('read', 'write') AND bytes > "
      "0 AND offset >= 0 AND " FILES
      "), s AS (SELECT path, step, count(*) AS n, sum(ns) AS ns, max(bytes) AS bytes FROM o WHERE step > "
      "0 GROUP BY path, step) SELECT path, n, ns, printf('%d bytes each %d', bytes, step) FROM s WHERE n "
      ">= 50 AND step > bytes" },
    { "large calls that do not begin at a block's start", "kind:read,write bytes>=65536",
      "IOFWD_STRIPE with a UNIT that divides the offsets, or aligned calls",
      "SELECT path, count(*), sum(ns), printf('of %d calls of 64 KiB or more', (SELECT count(*) FROM "
      "calls d WHERE d.layer = 'posix' AND d.path = calls.path AND d.bytes >= 65536)) FROM calls WHERE class IN ('read', "
      "'write') AND bytes >= 65536 AND offset % 4096 <> 0 AND offset >= 0 AND " FILES
      " GROUP BY path HAVING count(*) >= 10" },
    { "one process waits longer than the others", "",
      "IOFWD_STRIPE spreads its file over servers; or share the work out evenly",
      "WITH t AS (SELECT rank, process, sum(ns) AS ns, count(*) AS n FROM calls WHERE rank IS NOT NULL AND layer = 'posix' "
      "AND NOT async AND " NOT_WAITING " GROUP BY rank) SELECT 'rank ' || rank, n, ns, printf('%.1f times the mean', ns * 1.0 / (SELECT "
      "avg(ns) FROM t)) FROM t WHERE (SELECT count(*) FROM t) >= 4 AND ns > 2 * (SELECT avg(ns) FROM t) "
      "AND ns > 1000000" },
    { "one slow large file at one server", "kind:read,write side:forwarded", "IOFWD_STRIPE=4 spreads its data over four servers",
      "SELECT path, count(*), sum(ns), printf('%d MB, server %d', sum(bytes) / 1000000, max(server)) "
      "FROM calls WHERE side = 'forwarded' AND class IN ('read', 'write') AND server IS NOT NULL GROUP BY "
      "path HAVING " LARGE_FILE " AND count(DISTINCT server) = 1" },
    { "requests wait at a server for their turn", "side:forwarded",
      "more servers (-servers), and IOFWD_STRIPE if it is one file; waits for locks and for the other "
      "processes of a collective call also count",
      "SELECT 'server ' || server, count(*), sum(queue_ns), printf('%d of %d us at the server', sum(queue_ns) / 1000, "
      "sum(server_ns) / 1000) FROM calls WHERE server IS NOT NULL GROUP BY server HAVING sum(queue_ns) * 2 > "
      "sum(server_ns) AND sum(queue_ns) * 10 > sum(ns) AND sum(queue_ns) > 10000000" },
    { "written and never read back", "kind:write", "nothing, if a later program reads it; else leave it out",
      "SELECT 'all such files', count(*), sum(ns), printf('%d files, %d bytes', count(DISTINCT path), "
      "sum(bytes)) FROM calls WHERE class = 'write' AND bytes > 0 AND " FILES
      " AND path NOT IN (SELECT path FROM calls WHERE class = 'read' AND path IS NOT NULL) HAVING "
      "sum(bytes) > 0" },
    { "attributes that were set and that nobody asks for", "call:chmod,chown,utime,setxattr", "leave the calls out",
      "SELECT 'all such files', count(*), sum(ns), printf('%d files', count(DISTINCT path)) FROM calls "
      "WHERE (name LIKE '%chmod%' OR name LIKE '%chown%' OR name LIKE '%utime%' OR name LIKE "
      "'%setxattr') AND NOT failed AND path NOT IN (SELECT path FROM calls WHERE (name LIKE '%stat%' OR "
      "name LIKE '%access%' OR name LIKE '%getxattr') AND path IS NOT NULL) HAVING count(*) > 0" },
    { "files synchronised often", "kind:sync", "fewer fsync calls; IOFWD_CONSISTENCY=session makes data visible at close",
      "SELECT path, sum(calls), sum(ns), '' FROM all_calls WHERE class = 'sync' AND " FILES
      " GROUP BY path HAVING sum(calls) >= 10" },
    { "files read by one process, once", "kind:read",
      "none: this is the cheapest way",
      USE_OF_FILES "w = 0 AND r = 1 AND opens <= 1" ALL_SUCH_FILES },
    { "files read by one process, again and again", "kind:read",
      "keep them open in the program",
      USE_OF_FILES "w = 0 AND r = 1 AND opens > 1" ALL_SUCH_FILES },
    { "files read by several processes", "kind:read",
      "read them once and send them to the others",
      USE_OF_FILES "w = 0 AND r > 1" ALL_SUCH_FILES },
    { "files written by one process, once", "kind:write",
      "IOFWD_CONSISTENCY=session holds data back until the file is closed",
      USE_OF_FILES "r = 0 AND w = 1 AND opens <= 1" ALL_SUCH_FILES },
    { "files written by one process, again and again", "kind:write",
      "keep them open in the program; each close sends what is held back",
      USE_OF_FILES "r = 0 AND w = 1 AND opens > 1" ALL_SUCH_FILES },
    { "files written by several processes", "kind:write",
      "a file for each process, or IOFWD_STRIPE, which spreads the file over servers",
      USE_OF_FILES "r = 0 AND w > 1" ALL_SUCH_FILES },
    { "files written and read by the same process only", "kind:read,write",
      "keep them on the program's own host: leave their folder out of IOFWD_PREFIX",
      USE_OF_FILES "r = 1 AND w = 1 AND users = 1" ALL_SUCH_FILES },
    { "files written by one process and read by another", "kind:read,write",
      "a message between them; with IOFWD_CONSISTENCY=session the writer must close before the reader opens",
      USE_OF_FILES "r > 0 AND w > 0 AND users > 1" ALL_SUCH_FILES },
};
/* clang-format on */

static bool names_settings_only(const struct rule *rule)
{
    for (const char *at = strstr(rule->remedy, "IOFWD_"); at; at = strstr(at + 1, "IOFWD_")) {
        size_t len = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");

        if (!trace_is_setting(at, len)) {
            trace_fail("a finding names %.*s, which is no setting; build amphora again", (int)len,
                       at);
            return false;
        }
    }

    return true;
}

/* Findings become a table, so that they are printed as any other answer. */
static bool look(sqlite3 *db, const struct rule *rule)
{
    char *sql = sqlite3_mprintf("INSERT INTO findings SELECT %Q, %Q, f.* FROM (%s) f", rule->name,
                                rule->remedy, rule->query);
    char *text = NULL;
    bool ok = sql && sqlite3_exec(db, sql, NULL, NULL, &text) == SQLITE_OK;

    if (!ok)
        trace_fail("the rule \"%s\" cannot be applied: %s", rule->name, text ? text : "no memory");

    sqlite3_free(text);
    sqlite3_free(sql);
    return ok;
}

/* The table of findings: as it is, or for a reader: a line for each finding, with its dearest subjects. */
static const char all_findings[] = "SELECT * FROM findings ORDER BY ns DESC";
/* clang-format off */
static const char readable_findings[] =
    "WITH f AS (SELECT *, row_number() OVER (PARTITION BY finding ORDER BY ns DESC, subject) AS place "
    "FROM findings) "
    "SELECT finding, count(*) AS times, sum(calls) AS calls, printf('%.3f', sum(ns) / 1e6) AS cost_ms, "
    "printf('%.1f', 100.0 * sum(ns) / (SELECT max(1, sum(ns)) FROM all_calls WHERE layer = 'posix')) AS percent, "
    "max(CASE WHEN place = 1 THEN detail END) AS detail, "
    "group_concat(CASE WHEN place <= 3 THEN subject END, ', ') || "
    "CASE WHEN count(*) > 3 THEN printf(' and %d more', count(*) - 3) ELSE '' END AS subject, remedy "
    "FROM f GROUP BY finding ORDER BY sum(ns) DESC";
/* clang-format on */

bool trace_find(sqlite3 *db)
{
    bool ok = sqlite3_exec(db,
                           "CREATE TABLE findings(finding TEXT, remedy TEXT, subject TEXT, "
                           "calls INT, ns INT, detail TEXT)",
                           NULL, NULL, NULL) == SQLITE_OK &&
              sqlite3_exec(db, file_uses, NULL, NULL, NULL) == SQLITE_OK;

    if (!ok)
        trace_fail("the findings cannot be made: %s", sqlite3_errmsg(db));

    for (size_t i = 0; ok && i < sizeof rules / sizeof *rules; i++)
        ok = names_settings_only(&rules[i]) && look(db, &rules[i]);

    return ok;
}

const char *trace_finding_shows(const char *finding)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, finding) == 0)
            return rules[i].shows;

    return "";
}

int trace_patterns(const char *dir, enum trace_form form)
{
    sqlite3 *db = trace_open(dir);
    int code = 1;

    if (db && trace_find(db)) {
        code = trace_print(db, stdout, form, form == TRACE_TEXT ? readable_findings : all_findings);
        trace_say_losses(db, "main", form == TRACE_TEXT ? stdout : stderr);
    }

    sqlite3_close(db);
    return code;
}
