/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a replay; see replay.h.
 *
 * Layer: tools.  Thread rule: see replay.h.
 *
 * Chosen are the files below -below; without it those that were forwarded, or, if none was, all but
 * devices, the kernel's own and those of the system.  Calls on other files, and the time between
 * calls, become time before the next step.
 *
 * A thread's step waits for the end of another thread if that end lies between this step and the
 * one before: a process that its parent waits for, a thread that is joined.  What was read from a
 * pipe waits for what was written to it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/replay.h"

enum {
    RECORDER_NS = 70 /* that the recorder itself takes between two calls */
};

static const struct {
    const char *start;
    enum replay_kind kind;
} kinds[] = {
    { "readlink", REPLAY_READLINK },  { "readdir", REPLAY_SKIP },
    { "readahead", REPLAY_SKIP },     { "read", REPLAY_READ },
    { "pread", REPLAY_READ },         { "write", REPLAY_WRITE },
    { "pwrite", REPLAY_WRITE },       { "copy_file_range", REPLAY_COPY },
    { "sendfile", REPLAY_COPY },      { "opendir", REPLAY_FOLDER },
    { "scandir", REPLAY_FOLDER },     { "open", REPLAY_OPEN },
    { "fopen", REPLAY_OPEN },         { "creat", REPLAY_OPEN },
    { "mkstemp", REPLAY_OPEN },       { "mkostemp", REPLAY_OPEN },
    { "closedir", REPLAY_SKIP },      { "closefrom", REPLAY_SKIP },
    { "close_range", REPLAY_SKIP },   { "close", REPLAY_CLOSE },
    { "lseek", REPLAY_SEEK },         { "llseek", REPLAY_SEEK },
    { "fsync", REPLAY_SYNC },         { "fdatasync", REPLAY_DATASYNC },
    { "ftruncate", REPLAY_TRUNCATE }, { "truncate", REPLAY_TRUNCATE },
    { "fallocate", REPLAY_ALLOCATE }, { "posix_fallocate", REPLAY_ALLOCATE },
    { "statfs", REPLAY_STATFS },      { "statvfs", REPLAY_STATFS },
    { "fstatfs", REPLAY_STATFS },     { "fstatvfs", REPLAY_STATFS },
    { "stat", REPLAY_STAT },          { "lstat", REPLAY_STAT },
    { "fstat", REPLAY_STAT },         { "newfstat", REPLAY_STAT },
    { "xstat", REPLAY_STAT },         { "lxstat", REPLAY_STAT },
    { "fxstat", REPLAY_STAT },        { "access", REPLAY_ACCESS },
    { "faccess", REPLAY_ACCESS },     { "euidaccess", REPLAY_ACCESS },
    { "eaccess", REPLAY_ACCESS },     { "chmod", REPLAY_CHMOD },
    { "fchmod", REPLAY_CHMOD },       { "chown", REPLAY_CHMOD },
    { "fchown", REPLAY_CHMOD },       { "utime", REPLAY_TIMES },
    { "futime", REPLAY_TIMES },       { "rename", REPLAY_RENAME },
    { "link", REPLAY_LINK },          { "symlink", REPLAY_SYMLINK },
    { "unlink", REPLAY_UNLINK },      { "remove", REPLAY_UNLINK },
    { "mkdir", REPLAY_MKDIR },        { "rmdir", REPLAY_RMDIR },
    { "fcntl", REPLAY_LOCK },         { "dup", REPLAY_DUP },
    { "async_read", REPLAY_START },   { "async_write", REPLAY_START },
    { "async_sync", REPLAY_START },
};

static enum replay_kind kind_of_name(const char *name)
{
    name += strspn(name, "_");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(name, kinds[i].start, strlen(kinds[i].start)) == 0)
            return kinds[i].kind;

    return REPLAY_SKIP;
}

static bool is_lock(uint32_t flags)
{
    int command = (int)(flags & 0xffff);

    return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK ||
           command == F_OFD_SETLKW || command == F_GETLK || command == F_OFD_GETLK;
}

static bool is_dup(uint32_t flags)
{
    int command = (int)(flags & 0xffff);

    return command == F_DUPFD || command == F_DUPFD_CLOEXEC;
}

/* ---- which files ---- */

static bool is_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);

    while (len > 1 && dir[len - 1] == '/')
        len--;

    return strncmp(path, dir, len) == 0 && (path[len] == '/' || !path[len] || len == 1);
}

static bool is_of_the_system(const char *path)
{
    static const char *const dirs[] = { "/dev",   "/proc", "/sys", "/usr", "/lib",
                                        "/lib64", "/etc",  "/bin", "/run" };

    if (path[0] != '/')
        return true;

    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (is_below(path, dirs[i]))
            return true;

    return strcmp(path, "/") == 0;
}

static bool choose(struct replay *r)
{
    const struct amph_trace *t = r->trace;
    bool any = false;

    r->chosen = calloc(t->nfiles + 1, 1);
    if (!r->chosen)
        return false;

    for (size_t i = 0; i < t->nevents; i++)
        if (t->events[i].side == AMPH_TRACE_FORWARDED && t->events[i].file) {
            r->chosen[t->events[i].file] = 1;
            any = true;
        }

    for (size_t f = 1; f < t->nfiles; f++)
        if (r->below)
            r->chosen[f] = is_below(t->files[f], r->below);
        else if (any)
            r->chosen[f] = r->chosen[f] && t->files[f][0] == '/';
        else
            r->chosen[f] = !is_of_the_system(t->files[f]);

    return true;
}

/* ---- threads ---- */

static int by_thread(const void *a, const void *b, void *trace)
{
    const struct amph_trace *t = trace;
    uint32_t i = *(const uint32_t *)a;
    uint32_t k = *(const uint32_t *)b;
    const struct amph_trace_event *x = &t->events[i];
    const struct amph_trace_event *y = &t->events[k];

    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;

    return (i > k) - (i < k);
}

/* The first thread of a process is the one that made its first call. */
static void first_thread_first(struct replay *r, struct replay_process *p)
{
    uint32_t first = p->first_thread;

    for (uint32_t i = first + 1; i < p->first_thread + p->nthreads; i++)
        if (r->order[r->threads[i].first_event] < r->order[r->threads[first].first_event])
            first = i;

    struct replay_thread chief = r->threads[first];

    r->threads[first] = r->threads[p->first_thread];
    r->threads[p->first_thread] = chief;
}

static bool find_threads(struct replay *r)
{
    const struct amph_trace *t = r->trace;

    r->order = malloc((t->nevents + 1) * sizeof *r->order);
    r->threads = calloc(t->nevents + 1, sizeof *r->threads);
    r->processes = calloc(t->nprocesses + 1, sizeof *r->processes);
    if (!r->order || !r->threads || !r->processes)
        return false;

    for (size_t i = 0; i < t->nevents; i++)
        r->order[i] = (uint32_t)i;

    qsort_r(r->order, t->nevents, sizeof *r->order, by_thread, (void *)(uintptr_t)t);
    for (uint32_t i = 0; i < t->nevents; i++) {
        const struct amph_trace_event *e = &t->events[r->order[i]];
        struct replay_thread *last = r->nthreads ? &r->threads[r->nthreads - 1] : NULL;

        if (last && last->process == e->process && last->tid == e->tid) {
            last->nevents++;
            continue;
        }

        struct replay_process *p = &r->processes[e->process];

        if (p->nthreads++ == 0)
            p->first_thread = (uint32_t)r->nthreads;

        r->threads[r->nthreads++] = (struct replay_thread){
            .process = e->process, .tid = e->tid, .first_event = i, .nevents = 1
        };
    }

    for (size_t i = 0; i < t->nprocesses; i++)
        if (r->processes[i].nthreads > 1)
            first_thread_first(r, &r->processes[i]);

    return true;
}

/* ---- steps ---- */

static enum amph_trace_class class_of(const struct replay *r, const struct amph_trace_event *e)
{
    return amph_trace_class_of(r->trace->names[e->name]);
}

static bool is_pipe(const struct replay *r, const struct amph_trace_event *e)
{
    const char *path = r->trace->files[e->file];

    return strncmp(path, "pipe:", 5) == 0 || strncmp(path, "socket:", 7) == 0;
}

/* Is it a call on an open file of which the record has no descriptor, as those of iofwd-mount? */
static bool lacks_descriptor(const struct replay *r, const struct amph_trace_event *e)
{
    return e->fd < 0 && !(e->has & AMPH_TRACE_HAS_PATH) &&
           r->trace->processes[e->process].recorder != AMPH_TRACE_BY_PRELOAD;
}

static enum replay_kind kind_of(const struct replay *r, const struct amph_trace_event *e)
{
    enum amph_trace_class cls = class_of(r, e);
    enum replay_kind kind = kind_of_name(r->trace->names[e->name]);
    bool moves_data = cls == AMPH_TRACE_READ || cls == AMPH_TRACE_WRITE;

    if (cls == AMPH_TRACE_PROCESS || (moves_data && is_pipe(r, e)))
        return REPLAY_MARK;
    if (kind == REPLAY_LOCK && is_dup(e->flags))
        kind = REPLAY_DUP;
    else if (kind == REPLAY_LOCK && !is_lock(e->flags))
        kind = REPLAY_SKIP;

    bool chosen = e->file && r->chosen[e->file] && !lacks_descriptor(r, e);

    if (kind == REPLAY_COPY)
        chosen = chosen && e->file2 && r->chosen[e->file2];
    if ((kind == REPLAY_RENAME || kind == REPLAY_LINK) && !e->file2)
        chosen = false;

    return chosen && e->end_ns ? kind : REPLAY_SKIP;
}

static int64_t end_of(const struct amph_trace_event *e)
{
    return e->end_ns ? e->end_ns : e->start_ns;
}

/* A moment of a thread: a call, or the end of a request that it has started. */
struct moment {
    int64_t ns;
    uint32_t event;
    bool ends;
};

static int by_moment(const void *a, const void *b)
{
    const struct moment *x = a;
    const struct moment *y = b;

    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    if (x->event != y->event)
        return x->event < y->event ? -1 : 1;

    return (int)x->ends - (int)y->ends;
}

static bool is_request(const struct replay *r, const struct amph_trace_event *e)
{
    return amph_trace_is_request(r->trace->names[e->name]);
}

/* The thread's moments in their order, for the caller to free.  NULL: no memory. */
static struct moment *moments_of(const struct replay *r, const struct replay_thread *th,
                                 size_t *n_p)
{
    struct moment *list = malloc((2 * (size_t)th->nevents + 1) * sizeof *list);
    size_t n = 0;

    for (uint32_t i = 0; list && i < th->nevents; i++) {
        uint32_t index = r->order[th->first_event + i];
        const struct amph_trace_event *e = &r->trace->events[index];

        list[n++] = (struct moment){ e->start_ns, index, false };
        if (is_request(r, e) && e->end_ns)
            list[n++] = (struct moment){ e->end_ns, index, true };
    }

    if (list)
        qsort(list, n, sizeof *list, by_moment);

    *n_p = n;
    return list;
}

/* Does the call wait for requests only?  Their own ends are steps. */
static bool awaits_requests(const char *name)
{
    return strncmp(name, "aio_suspend", 11) == 0 || strncmp(name, "io_getevents", 12) == 0 ||
           strncmp(name, "io_uring_wait", 13) == 0 || strstr(name, "io_uring_get_cqe") ||
           strncmp(name, "io_uring_submit_and_wait", 24) == 0 ||
           strncmp(name, "io_pgetevents", 13) == 0 || strncmp(name, "lio_listio", 10) == 0;
}

/* The steps of a thread, each with the time since the one before.  false: no memory. */
static bool put_steps(struct replay *r, struct replay_thread *th)
{
    const struct amph_trace *t = r->trace;
    int64_t at = t->events[r->order[th->first_event]].start_ns;
    uint64_t think = 0;
    uint64_t sleep = 0;
    size_t n;
    struct moment *moments = moments_of(r, th, &n);

    if (!moments)
        return false;

    th->first = (uint32_t)r->nsteps;
    for (size_t i = 0; i < n; i++) {
        const struct moment *m = &moments[i];
        const struct amph_trace_event *e = &t->events[m->event];

        enum amph_trace_class cls = class_of(r, e);

        if (amph_trace_layer_of((enum amph_trace_side)e->side, cls) != AMPH_TRACE_LAYER_POSIX)
            continue; /* its file calls are steps, the rest of its time is the program's */

        bool of_request = is_request(r, e);
        enum replay_kind kind = kind_of(r, e);
        int64_t end_ns = of_request ? m->ns : end_of(e);
        uint64_t took = awaits_requests(t->names[e->name]) ? 0 : (uint64_t)(end_ns - m->ns);

        think += m->ns > at + RECORDER_NS ? (uint64_t)(m->ns - at - RECORDER_NS) : 0;
        at = end_ns > at ? end_ns : at;
        r->skipped += kind <= REPLAY_MARK && !m->ends;
        if (cls == AMPH_TRACE_WAIT)
            sleep += took;
        else if (kind <= REPLAY_MARK && cls != AMPH_TRACE_PROCESS)
            think += took;

        if (kind == REPLAY_SKIP || (m->ends && kind != REPLAY_START))
            continue;
        if (m->ends)
            kind = REPLAY_AWAIT;

        r->steps[r->nsteps++] = (struct replay_step){ .event = m->event,
                                                      .kind = (uint8_t)kind,
                                                      .cls = (uint8_t)cls,
                                                      .thread = REPLAY_NONE,
                                                      .think_ns = think,
                                                      .sleep_ns = sleep };
        sleep = 0;
        think = cls == AMPH_TRACE_PROCESS ? took : 0; /* what it starts, starts at its begin */
    }

    free(moments);
    th->n = (uint32_t)r->nsteps - th->first;
    return true;
}

/* ---- who starts whom ---- */

static bool is_same_host(const struct amph_trace_process *a, const struct amph_trace_process *b)
{
    return strcmp(a->host, b->host) == 0;
}

/* The latest process of number pid that began before `before`; not process `except`. */
static uint32_t find_process(const struct replay *r, uint32_t except, int32_t pid)
{
    const struct amph_trace *t = r->trace;
    const struct amph_trace_process *of = &t->processes[except];
    uint32_t found = REPLAY_NONE;

    for (uint32_t i = 0; i < t->nprocesses; i++) {
        const struct amph_trace_process *p = &t->processes[i];

        if (i == except || p->pid != pid || !is_same_host(p, of) || p->start_ns > of->start_ns)
            continue;
        if (found == REPLAY_NONE || p->start_ns >= t->processes[found].start_ns)
            found = i;
    }

    return found;
}

/* The mark in process `parent` that began process `child`: the fork that gave its number, or else
 * the last one before its start. */
static uint32_t find_start(const struct replay *r, uint32_t parent, uint32_t child)
{
    const struct amph_trace *t = r->trace;
    const struct replay_process *p = &r->processes[parent];
    const struct amph_trace_process *c = &t->processes[child];
    uint32_t found = REPLAY_NONE;
    int64_t latest = INT64_MIN;

    for (uint32_t k = 0; k < p->nthreads; k++) {
        const struct replay_thread *th = &r->threads[p->first_thread + k];

        for (uint32_t s = th->first; s < th->first + th->n; s++) {
            const struct amph_trace_event *e = &t->events[r->steps[s].event];

            if (class_of(r, e) != AMPH_TRACE_PROCESS || e->start_ns > c->start_ns)
                continue;
            if (strstr(t->names[e->name], "fork") && e->result == c->pid)
                return s;
            if (e->start_ns >= latest) {
                latest = e->start_ns;
                found = s;
            }
        }
    }

    return found;
}

static void find_parents(struct replay *r)
{
    const struct amph_trace *t = r->trace;

    for (uint32_t i = 0; i < t->nprocesses; i++) {
        struct replay_process *p = &r->processes[i];
        uint32_t before = find_process(r, i, t->processes[i].pid); /* an exec */
        uint32_t parent = before != REPLAY_NONE ? before : find_process(r, i, t->processes[i].ppid);

        p->parent = REPLAY_NONE;
        if (parent == REPLAY_NONE || !r->processes[parent].nthreads)
            continue;

        p->start_step = find_start(r, parent, i);
        if (p->start_step == REPLAY_NONE)
            continue;

        p->parent = parent;
        r->steps[p->start_step].starts = true;
    }
}

/* ---- waits between processes ---- */

/* The step of a thread that is the first to begin at ns or later, as an index of steps. */
static uint32_t step_after(const struct replay *r, const struct replay_thread *th, int64_t ns)
{
    uint32_t low = th->first;
    uint32_t high = th->first + th->n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (r->trace->events[r->steps[middle].event].start_ns < ns)
            low = middle + 1;
        else
            high = middle;
    }

    return low;
}

/* Step s cannot begin before the n-th step of thread `other` is done, which ended at ns; what is
 * left of the time before s counts from there. */
static void depend(struct replay *r, uint32_t s, uint32_t other, uint32_t n, int64_t ns)
{
    struct replay_step *step = &r->steps[s];
    int64_t start_ns = r->trace->events[step->event].start_ns;
    uint64_t left = start_ns > ns ? (uint64_t)(start_ns - ns) : 0;

    if (step->thread != REPLAY_NONE && step->think_ns + step->sleep_ns <= left)
        return;

    step->thread = other;
    step->done = n;
    if (step->think_ns + step->sleep_ns > left) {
        step->think_ns = left;
        step->sleep_ns = 0;
    }
}

/* The end of thread b lies between two steps of thread a: the later one has waited for it. */
static void depend_on_end(struct replay *r, uint32_t a, uint32_t b)
{
    const struct replay_thread *of = &r->threads[b];
    const struct replay_thread *waits = &r->threads[a];
    const struct amph_trace_event *last =
        &r->trace->events[r->order[of->first_event + of->nevents - 1]];
    int64_t ns = end_of(last);
    uint32_t s = step_after(r, waits, ns);

    if (!of->n || s == waits->first || s == waits->first + waits->n)
        return;
    if (end_of(&r->trace->events[r->steps[s - 1].event]) <= ns ||
        r->steps[s - 1].kind == REPLAY_MARK)
        depend(r, s, b, of->n, ns);
}

/* A thread begins after the step of another one of its process that came before its first call. */
static void depend_on_start(struct replay *r, uint32_t th, uint32_t chief)
{
    const struct replay_thread *t = &r->threads[th];
    const struct replay_thread *c = &r->threads[chief];
    int64_t began = r->trace->events[r->order[t->first_event]].start_ns;
    uint32_t s = step_after(r, c, began);

    if (!t->n || s == c->first)
        return;

    int64_t ns = end_of(&r->trace->events[r->steps[s - 1].event]);

    r->steps[t->first].think_ns += (uint64_t)(began > ns ? began - ns : 0);
    r->steps[t->first].thread = chief;
    r->steps[t->first].done = s - c->first;
}

static void find_waits(struct replay *r)
{
    const struct amph_trace *t = r->trace;

    for (uint32_t i = 0; i < t->nprocesses; i++) {
        const struct replay_process *p = &r->processes[i];

        for (uint32_t k = p->first_thread + 1; k < p->first_thread + p->nthreads; k++) {
            depend_on_start(r, k, p->first_thread);
            depend_on_end(r, p->first_thread, k);
        }

        /* an exec has no one left to wait for it but the parent of both */
        uint32_t parent = p->parent;

        while (parent != REPLAY_NONE && t->processes[parent].pid == t->processes[i].pid)
            parent = r->processes[parent].parent;
        if (parent == REPLAY_NONE || !p->nthreads)
            continue;

        const struct replay_process *of = &r->processes[parent];

        for (uint32_t k = of->first_thread; k < of->first_thread + of->nthreads; k++)
            depend_on_end(r, k, p->first_thread);
    }
}

/* ---- pipes ---- */

struct pipes {
    struct {
        uint32_t thread, step;
    } * where; /* of each event */
    struct {
        uint32_t file, thread, done;
        int64_t end_ns;
    } * last; /* what was written last to each pipe */
    size_t n;
};

static void pipe_event(struct replay *r, struct pipes *p, uint32_t index)
{
    const struct amph_trace_event *e = &r->trace->events[index];
    uint32_t thread = p->where[index].thread;
    uint32_t s = p->where[index].step;
    size_t i = 0;

    while (i < p->n && p->last[i].file != e->file)
        i++;

    if (class_of(r, e) == AMPH_TRACE_WRITE) {
        p->last[i].file = e->file;
        p->last[i].thread = thread;
        p->last[i].done = s - r->threads[thread].first + 1;
        p->last[i].end_ns = end_of(e);
        p->n += i == p->n;
    } else if (i < p->n && p->last[i].thread != thread && p->last[i].end_ns <= end_of(e))
        depend(r, s, p->last[i].thread, p->last[i].done, p->last[i].end_ns);
}

static bool find_pipes(struct replay *r)
{
    const struct amph_trace *t = r->trace;
    struct pipes p = { .where = calloc(t->nevents + 1, sizeof *p.where),
                       .last = calloc(t->nfiles + 1, sizeof *p.last) };
    bool ok = p.where && p.last;

    for (uint32_t k = 0; ok && k < r->nthreads; k++)
        for (uint32_t s = r->threads[k].first; s < r->threads[k].first + r->threads[k].n; s++) {
            p.where[r->steps[s].event].thread = k;
            p.where[r->steps[s].event].step = s;
        }

    for (uint32_t i = 0; ok && i < t->nevents; i++) {
        const struct amph_trace_event *e = &t->events[i];

        if (e->end_ns && is_pipe(r, e) && kind_of(r, e) == REPLAY_MARK)
            pipe_event(r, &p, i);
    }

    free(p.where);
    free(p.last);
    return ok;
}

/* ---- the whole ---- */

/* The first step of a process counts from its start; of one that nobody started, from the first
 * call of the run. */
static void place_starts(struct replay *r)
{
    const struct amph_trace *t = r->trace;

    for (uint32_t i = 0; i < t->nprocesses; i++) {
        const struct replay_process *p = &r->processes[i];

        if (!p->nthreads || !r->threads[p->first_thread].n)
            continue;

        const struct replay_thread *th = &r->threads[p->first_thread];
        int64_t began = t->events[r->order[th->first_event]].start_ns;
        int64_t from = r->zero_ns;

        if (p->parent != REPLAY_NONE)
            from = t->events[r->steps[p->start_step].event].start_ns;
        if (began > from)
            r->steps[th->first].think_ns += (uint64_t)(began - from);
    }
}

bool replay_plan(struct replay *r)
{
    const struct amph_trace *t = r->trace;

    /* a request has two */
    r->steps = calloc(2 * t->nevents + 1, sizeof *r->steps);
    r->zero_ns = t->nevents ? t->events[0].start_ns : 0;
    for (size_t i = 0; i < t->nprocesses; i++)
        if (t->processes[i].start_ns < r->zero_ns)
            r->zero_ns = t->processes[i].start_ns;

    if (!r->steps || !choose(r) || !find_threads(r))
        return false;

    for (size_t i = 0; i < r->nthreads; i++)
        if (!put_steps(r, &r->threads[i]))
            return false;

    find_parents(r);
    place_starts(r);
    find_waits(r);
    if (!find_pipes(r))
        return false;

    for (size_t s = 0; s < r->nsteps; s++)
        if (r->steps[s].thread != REPLAY_NONE)
            r->steps[r->threads[r->steps[s].thread].first + r->steps[s].done - 1].awaited = true;

    return true;
}

void replay_free(struct replay *r)
{
    free(r->order);
    free(r->steps);
    free(r->threads);
    free(r->processes);
    free(r->chosen);
}
