/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names and offsets of open files, for records; see trace_record.h.
 *
 * All descriptors of an open file pass through this process, so that it can follow the offset.
 *
 * Layer: iofwd.  Thread rule: under the recorder's lock.
 */
#include "iofwd/client/trace_record.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "iofwd/wire/marshal.h"

/* An open file, known by its handle at its first server. */
struct amph_client_recorded_file {
    struct amph_client_recorded_file *next; /* of its chain */
    struct amph_fwd_ref ref;
    char *name;
    int64_t at; /* offset of the next read or write; below 0: not known */
    bool appends;
};

static struct amph_client_recorded_file **slot_of(const struct amph_fwd_file *file)
{
    const struct amph_fwd_ref *ref = &file->part[0];
    uint64_t mixed = (ref->handle ^ ref->server) * UINT64_C(0x9e3779b97f4a7c15);
    struct amph_client_recorded_file **at =
        &amph_client_recorder.file[(mixed >> 32) % AMPH_CLIENT_RECORDER_BUCKETS];

    while (*at && ((*at)->ref.handle != ref->handle || (*at)->ref.server != ref->server))
        at = &(*at)->next;

    return at;
}

static struct amph_client_recorded_file *known(const struct amph_fwd_file *file)
{
    return file && file->nparts ? *slot_of(file) : NULL;
}

static void enter(const struct amph_fwd_file *file, const char *name, bool appends)
{
    struct amph_client_recorded_file **at = slot_of(file);
    struct amph_client_recorded_file *f = *at;

    if (!f) {
        f = calloc(1, sizeof *f);
        if (!f)
            return;

        f->ref = file->part[0];
        *at = f;
    }

    free(f->name);
    f->name = name[0] ? strdup(name) : NULL;
    f->at = 0;
    f->appends = appends;
}

static void forget(const struct amph_fwd_file *file)
{
    struct amph_client_recorded_file *f = known(file);

    if (!f)
        return;

    *slot_of(file) = f->next;
    free(f->name);
    free(f);
}

/* ---- names ---- */

void amph_client_recorder_name(const struct amph_fwd_file *file, char out[PATH_MAX])
{
    const struct amph_client_recorded_file *f = known(file);

    snprintf(out, PATH_MAX, "%s", f && f->name ? f->name : "");
}

void amph_client_recorder_path(const struct amph_fwd_file *dir, const char *path,
                               char out[PATH_MAX])
{
    out[0] = 0;
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
        return;
    }

    amph_client_recorder_name(dir, out);

    size_t len = strlen(out);

    if (len && path[0])
        snprintf(out + len, PATH_MAX - len, "/%s", path);
}

/* What follows on the path `above` in name, or NULL if name is not below it. */
static const char *rest_of(const char *name, const char *above)
{
    size_t len = strlen(above);

    if (!len || strncmp(name, above, len) != 0)
        return NULL;

    return name[len] == 0 || name[len] == '/' ? name + len : NULL;
}

static void move_name(struct amph_client_recorded_file *f, const char *from, const char *to)
{
    const char *rest = rest_of(f->name, from);
    char name[PATH_MAX];

    if (!rest || !to[0] || snprintf(name, sizeof name, "%s%s", to, rest) >= (int)sizeof name)
        return;

    char *longer = strdup(name);

    if (longer) {
        free(f->name);
        f->name = longer;
    }
}

/* Open files are named by what is above them now. */
static void move_names(const char *from, const char *to, bool exchanged)
{
    for (unsigned i = 0; i < AMPH_CLIENT_RECORDER_BUCKETS; i++)
        for (struct amph_client_recorded_file *f = amph_client_recorder.file[i]; f; f = f->next) {
            if (!f->name)
                continue;

            bool is_other = exchanged && rest_of(f->name, to);

            move_name(f, is_other ? to : from, is_other ? from : to);
        }
}

/* ---- offsets ---- */

/* A read or write at the file's own offset has moved n bytes. */
static void advance(struct amph_client_recording *r, struct amph_client_recorded_file *f,
                    const struct amph_fwd_file *file, size_t n, bool writes)
{
    if (writes && (f->appends || file->rwf & RWF_APPEND)) /* at the file's end, wherever that is */
        f->at = -1;
    if (f->at < 0)
        return;

    r->call.offset = f->at;
    r->call.has |= AMPH_TRACE_HAS_OFFSET;
    f->at += (int64_t)n;
}

/* The first argument or result of that type, which the call has. */
static const void *argument(const struct amph_fwd_call *call, enum amph_fwd_word word)
{
    return (const char *)&call->u + amph_fwd_find_arg(&amph_fwd_calls[call->id], word)->client_at;
}

static bool has(const struct amph_fwd_call *call, enum amph_fwd_word word)
{
    return amph_fwd_calls[call->id].words & FWD_WORD(word);
}

/* Of a call on an open file. */
static void change_file(struct amph_client_recording *r, const struct amph_fwd_call *call,
                        const struct amph_fwd_file *file)
{
    struct amph_client_recorded_file *f = known(file);
    bool moves = amph_fwd_calls[call->id].flags & FWD_CALL_OFFSET;

    if (!f)
        return;

    if (moves && has(call, FWD_OUT_OFFSET))
        f->at = r->call.result;
    else if (moves && r->call.result >= 0)
        advance(r, f, file, (size_t)r->call.result, has(call, FWD_IN_DATA));

    if (has(call, FWD_IN_SFLAGS))
        f->appends = *(const int *)argument(call, FWD_IN_SFLAGS) & O_APPEND;
}

void amph_client_recorder_effect(struct amph_client_recording *r, const struct amph_fwd_call *call,
                                 bool failed)
{
    const struct amph_fwd_file *file = NULL;

    if (has(call, FWD_IN_FILE))
        file = *(const struct amph_fwd_file *const *)argument(call, FWD_IN_FILE);
    if (file && !failed)
        change_file(r, call, file);

    /* a close: whatever it has returned */
    if (file && amph_fwd_calls[call->id].failover_flags & FWD_FAILOVER_FORGET)
        forget(file);

    if (!failed && has(call, FWD_OUT_NEWFILE))
        enter(*(const struct amph_fwd_file *const *)argument(call, FWD_OUT_NEWFILE), r->path,
              *(const int *)argument(call, FWD_IN_OFLAGS) & O_APPEND);

    if (!failed && has(call, FWD_IN_RFLAGS))
        move_names(r->path, r->path2,
                   *(const unsigned *)argument(call, FWD_IN_RFLAGS) & RENAME_EXCHANGE);
}
