/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log lines about requests: which request a line concerns, calls that fail, calls that take long.
 *
 * Layer: iofwd.
 * Thread rule: amph_server_report_begin and _end in the thread that works on the request;
 * amph_server_report_call in the progress thread.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/log.h"
#include "iofwd/server/internal.h"
#include "iofwd/wire/encode.h"
#include "iofwd/wire/request_name.h"

#define SLOW_NS AMPH_NS_PER_S

struct amph_log_request amph_server_report_begin(const struct amph_server_request *rq)
{
    return amph_log_request_set((struct amph_log_request){
        amph_fwd_request_name, rq->peer ? rq->peer->number : 0, rq->seq });
}

const char *amph_server_file_name(const struct amph_server_handle *h, char *out, size_t size)
{
    char link[64], path[PATH_MAX];
    const struct amph_server_export *e = h->export;

    snprintf(link, sizeof link, "/proc/self/fd/%d", h->fd);

    ssize_t n = readlink(link, path, sizeof path - 1);

    path[n > 0 ? n : 0] = 0;

    size_t cut = e && e->dir_len > 1 ? e->dir_len : 0;
    bool below = e && strncmp(path, e->dir, cut) == 0;

    snprintf(out, size, "%s%s", below ? e->name : "", below ? path + cut : path);
    return out;
}

/* Layout of a path in the records of calls_server.h. */
struct path_arg {
    const struct amph_server_handle *dir;
    const char *name;
};

/* Writes what the call concerns: the name in its arguments, or that of its open file. */
static const char *subject(const struct amph_server_request *rq, char *out, size_t size)
{
    const struct amph_fwd_arg_desc *arg = amph_fwd_find_arg(rq->desc, FWD_IN_PATH);
    const struct path_arg *path = arg ? (const void *)((const char *)&rq->u + arg->server_at)
                                      : NULL;

    out[0] = 0;
    if (rq->file && (!path || !path->name[0]))
        return amph_server_file_name(rq->file, out, size);

    if (path)
        snprintf(out, size, "%s", path->name);

    return out;
}

void amph_server_report_call(const struct amph_server_request *rq)
{
    bool slow = rq->exec.ns > SLOW_NS;

    if (AMPH_LIKELY(!rq->exec.error && !slow))
        return;

    enum amph_log_level level = slow || amph_fwd_errno_is_storage(rq->exec.error) ? AMPH_LOG_INFO
                                                                                  : AMPH_LOG_DEBUG;

    if (!rq->desc || !amph_log_is_on(level))
        return;

    struct amph_log_request before = amph_server_report_begin(rq);
    const char *outcome = rq->exec.error ? strerror(rq->exec.error) : "done";
    const char *reason = rq->exec.error && rq->exec.reason ? rq->exec.reason : "";
    char name[512];

    amph_log(level, "%s of %s for process %" PRIu32 ": %s%s%s, after %.3f ms", rq->desc->name,
             subject(rq, name, sizeof name), rq->peer->pid, outcome, reason[0] ? ": " : "", reason,
             (double)rq->exec.ns / AMPH_NS_PER_MS);
    amph_log_request_set(before);
}
