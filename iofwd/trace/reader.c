/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the files of a recorded run; see reader.h.
 *
 * Layer: iofwd (trace).  Thread rule: see reader.h.
 */
#include "iofwd/trace/reader.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "iofwd/trace/pack.h"
#include "iofwd/trace/unroll.h"

enum {
    LOCAL_NAMES = 1 << 16,
    EXTRA_LOOKS = 64,
    OPEN_CALLS = 16, /* of one thread, handlers of signals within one another */
    DEPTH = 16       /* of relative paths on one another */
};

/* No run takes a year: a longer time is damage, and would overflow sums. */
static const uint64_t LONGEST_NS = UINT64_C(365) * 24 * 3600 * 1000000000;

struct amph_trace_text_entry {
    uint64_t number; /* 0: free */
    uint64_t base;
    uint32_t index; /* in files; 0: not made yet */
    uint16_t total, got;
    char *text;
};

static bool fail(char *why, size_t why_len, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool fail(char *why, size_t why_len, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vsnprintf(why, why_len, format, ap);
    va_end(ap);
    return false;
}

/* Makes room for one more element of an array.  NULL: no memory. */
static void *one_more(void **array, size_t *n, size_t *room, size_t size)
{
    if (*n == *room) {
        size_t more = *room ? *room * 2 : 64;
        void *longer = realloc(*array, more * size);

        if (!longer)
            return NULL;

        *array = longer;
        *room = more;
    }

    void *at = (char *)*array + (*n)++ * size;

    memset(at, 0, size);
    return at;
}

/* ---- texts ---- */

static struct amph_trace_text_entry *find_text(const struct amph_trace *t, uint64_t number)
{
    if (!t->text_room || !number)
        return NULL;

    for (size_t at = number & (t->text_room - 1);; at = (at + 1) & (t->text_room - 1))
        if (t->texts[at].number == number || !t->texts[at].number)
            return &t->texts[at];
}

static bool more_texts(struct amph_trace *t)
{
    struct amph_trace bigger = { .text_room = t->text_room ? t->text_room * 2 : 1024 };

    bigger.texts = calloc(bigger.text_room, sizeof *bigger.texts);
    if (!bigger.texts)
        return false;

    for (size_t i = 0; i < t->text_room; i++)
        if (t->texts[i].number)
            *find_text(&bigger, t->texts[i].number) = t->texts[i];

    free(t->texts);
    t->texts = bigger.texts;
    t->text_room = bigger.text_room;
    return true;
}

static bool take_text(struct amph_trace *t, const struct amph_trace_text *text, unsigned part)
{
    size_t at = (size_t)part * AMPH_TRACE_TEXT_PART;

    if (!text->file || text->total < sizeof(uint64_t) || text->total > AMPH_TRACE_TEXT_MAX ||
        at >= text->total)
        return true;

    if (t->ntexts * 2 >= t->text_room && !more_texts(t))
        return false;

    struct amph_trace_text_entry *e = find_text(t, text->file);
    size_t n = text->total - at < AMPH_TRACE_TEXT_PART ? text->total - at : AMPH_TRACE_TEXT_PART;

    if (!e->number) {
        e->text = calloc(1, text->total + 1u);
        if (!e->text)
            return false;

        e->number = text->file;
        e->total = text->total;
        t->ntexts++;
    }

    if (at + n <= e->total) {
        memcpy(e->text + at, text->part, n);
        e->got = (uint16_t)(e->got + n < UINT16_MAX ? e->got + n : UINT16_MAX);
    }

    return true;
}

/* Removes "//" and "/./" from a path.  Keeps "..", because the part before it may be a link. */
static void clean(char *path)
{
    char *to = path;

    if (path[0] != '/')
        return;

    for (const char *at = path; *at;) {
        if (at[0] == '/' && (at[1] == '/' || (at[1] == '.' && (at[2] == '/' || !at[2])))) {
            at += at[1] == '/' ? 1 : 2;
            continue;
        }

        *to++ = *at++;
    }

    if (to == path)
        *to++ = '/';
    if (to > path + 1 && to[-1] == '/')
        to--;

    *to = 0;
}

static uint32_t index_of_path(struct amph_trace *t, char *path)
{
    /* texts with other bases may be one path */
    uint64_t h = 14695981039346656037u;

    for (const char *c = path; *c; c++)
        h = (h ^ (uint8_t)*c) * 1099511628211u;

    h |= 1;
    if (t->ntexts * 2 >= t->text_room && !more_texts(t))
        return 0;

    /* paths get odd hashes; the text is compared */
    for (;; h += 2) {
        struct amph_trace_text_entry *e = find_text(t, h ^ UINT64_C(0x5bd1e9955bd1e995));

        if (e->number && (e->text || strcmp(t->files[e->index], path) != 0))
            continue;
        if (e->number)
            return e->index;

        size_t room = t->nfiles;
        char **longer = (room & (room - 1)) == 0 ? realloc(t->files, room * 2 * sizeof *longer)
                                                 : t->files;

        if (!longer)
            return 0;

        t->files = longer;
        if (!(t->files[t->nfiles] = strdup(path)))
            return 0;

        e->number = h ^ UINT64_C(0x5bd1e9955bd1e995);
        e->index = (uint32_t)t->nfiles++;
        t->ntexts++;
        return e->index;
    }
}

static size_t put_path(struct amph_trace *t, uint64_t number, char *path, size_t room, int depth)
{
    struct amph_trace_text_entry *e = find_text(t, number);
    uint64_t base;

    if (!e || !e->number || !e->text || e->got < e->total || depth > DEPTH)
        return (size_t)snprintf(path, room, "?");

    memcpy(&base, e->text, sizeof base);

    size_t len = base ? put_path(t, base, path, room, depth + 1) : 0;

    if (len >= room)
        return room - 1;

    len += (size_t)snprintf(path + len, room - len, "%s%s", base ? "/" : "", e->text + sizeof base);
    return len < room ? len : room - 1;
}

static uint32_t file_index(struct amph_trace *t, uint64_t number)
{
    const size_t room = DEPTH * AMPH_TRACE_TEXT_MAX;
    struct amph_trace_text_entry *e = find_text(t, number);

    if (!e || !e->number || !e->text || e->got < e->total)
        return 0;

    if (!e->index) {
        if (!t->path)
            t->path = malloc(room);
        if (!t->path)
            return 0;

        put_path(t, number, t->path, room, 0);
        clean(t->path);

        uint32_t index = index_of_path(t, t->path);

        e = find_text(t, number); /* the table may have grown */
        e->index = index;
    }

    return e->index;
}

/* ---- names ---- */

static uint32_t name_index(struct amph_trace *t, const char *name)
{
    for (size_t i = 0; i < t->nnames; i++)
        if (strcmp(t->names[i], name) == 0)
            return (uint32_t)i;

    char **at = one_more((void **)&t->names, &t->nnames, &t->name_room, sizeof *at);

    if (at && !(*at = strdup(name)))
        t->nnames--;

    return at && *at ? (uint32_t)(t->nnames - 1) : UINT32_MAX;
}

/* ---- one file ---- */

struct source {
    const union amph_trace_slot *slots;
    size_t n;
    uint32_t process;
    int32_t tid;
    struct amph_trace_axis axis; /* from the host's clock to the job's */
    uint64_t began_ns;           /* by the host's clock */
    uint32_t *names; /* [LOCAL_NAMES] maps the file's numbers to ours; UINT32_MAX: no such name */
    size_t first_event;
    size_t
        open[OPEN_CALLS]; /* events of calls that have not returned yet, the oldest is replaced */
    unsigned nopen;
};

static bool same_process(const struct amph_trace_process *p, const struct amph_trace_header *h)
{
    return p->pid == h->pid && p->began_ns == h->began_ns &&
           strncmp(p->host, h->host, sizeof p->host - 1) == 0;
}

static bool find_process(struct amph_trace *t, const struct amph_trace_header *h, struct source *s)
{
    int64_t start_ns = amph_trace_job_time(&s->axis, h->monotonic_ns);

    for (size_t i = 0; i < t->nprocesses; i++)
        if (same_process(&t->processes[i], h)) {
            s->process = (uint32_t)i;
            s->axis = t->processes[i].axis; /* so that a time is the same in all its files */
            return true;
        }

    struct amph_trace_process *p = one_more((void **)&t->processes, &t->nprocesses,
                                            &t->process_room, sizeof *p);

    if (!p)
        return false;

    p->pid = h->pid;
    p->ppid = h->ppid;
    p->rank = h->rank;
    p->start_ns = start_ns;
    p->axis = s->axis;
    p->clock_error_ns = s->axis.error_ns;
    p->began_ns = h->began_ns;
    p->recorder = h->recorder < AMPH_TRACE_RECORDERS ? h->recorder : AMPH_TRACE_BY_PRELOAD;
    memcpy(p->host, h->host, sizeof p->host - 1);
    memcpy(p->exe, h->exe, sizeof p->exe - 1);
    memcpy(p->cwd, h->cwd, sizeof p->cwd - 1);
    s->process = (uint32_t)(t->nprocesses - 1);
    return true;
}

/* The event of a call, which may be there as one that has not returned.  NULL: no memory. */
static struct amph_trace_event *event_of(struct amph_trace *t, const struct source *s,
                                         uint32_t name, int64_t start_ns)
{
    bool is_request = amph_trace_is_request(t->names[name]); /* see join_requests */

    for (unsigned i = 0; !is_request && i < s->nopen && i < OPEN_CALLS; i++) {
        struct amph_trace_event *e = &t->events[s->open[i]];

        if (!e->end_ns && e->start_ns == start_ns && e->name == name) {
            t->unfinished--;
            return e;
        }
    }

    return one_more((void **)&t->events, &t->nevents, &t->event_room, sizeof(*t->events));
}

/* Is a time of the host's clock within a year of the file's beginning? */
static bool is_near(const struct source *s, uint64_t ns)
{
    return ns - s->began_ns <= LONGEST_NS || s->began_ns - ns <= LONGEST_NS;
}

static bool take_call(struct amph_trace *t, struct source *s, const struct amph_trace_call *c)
{
    unsigned state = c->commit >> 16 & 0xff;
    uint32_t name = s->names[c->commit & 0xffff];

    if (name == UINT32_MAX || (state != AMPH_TRACE_STARTED && state != AMPH_TRACE_DONE))
        return true;

    if (!is_near(s, c->start_ns) || (state == AMPH_TRACE_DONE && !is_near(s, c->end_ns))) {
        t->damaged++;
        return true;
    }

    struct amph_trace_event *e = event_of(t, s, name, amph_trace_job_time(&s->axis, c->start_ns));

    if (!e)
        return false;

    e->name = name;
    e->process = s->process;
    e->tid = s->tid;
    e->start_ns = amph_trace_job_time(&s->axis, c->start_ns);
    e->side = c->side < AMPH_TRACE_SIDES ? c->side : AMPH_TRACE_LOCAL;

    bool is_message = e->side == AMPH_TRACE_MESSAGE;

    e->fd = c->has & AMPH_TRACE_HAS_FD && !is_message ? c->fd : -1;
    e->peer = c->has & AMPH_TRACE_HAS_FD && is_message ? c->fd : -1;
    e->fd2 = -1;
    e->has = (uint8_t)(c->has & ~(unsigned)AMPH_TRACE_HAS_POSITION);
    e->caused = c->has & AMPH_TRACE_HAS_CAUSE;
    e->file = file_index(t, c->file);
    e->offset = c->has & AMPH_TRACE_HAS_OFFSET ? c->offset : -1;
    e->length = c->has & AMPH_TRACE_HAS_LENGTH ? c->length : 0;
    if (state == AMPH_TRACE_STARTED && amph_trace_is_request(t->names[name]))
        return true;

    if (state == AMPH_TRACE_STARTED) {
        s->open[s->nopen++ % OPEN_CALLS] = (size_t)(e - t->events);
        t->unfinished++;
        return true;
    }

    e->end_ns = amph_trace_job_time(&s->axis, c->end_ns);
    if (e->end_ns < e->start_ns)
        e->end_ns = e->start_ns;

    e->result = c->result;
    e->flags = c->flags;
    e->err = c->err;
    return true;
}

/* The file of a record is the one that the call changes, and these calls name their source first. */
static void put_target_first(const char *name, struct amph_trace_event *e)
{
    uint32_t source = e->file;
    int32_t source_fd = e->fd;

    if (strcmp(name, "copy_file_range") != 0 && strcmp(name, "splice") != 0)
        return;

    e->file = e->file2;
    e->fd = e->fd2;
    e->file2 = source;
    e->fd2 = source_fd;
}

static void take_extra(struct amph_trace *t, const struct source *s,
                       const struct amph_trace_extra *x)
{
    int64_t start_ns = amph_trace_job_time(&s->axis, x->start_ns);

    for (size_t i = t->nevents, looks = 0; i-- > s->first_event && looks < EXTRA_LOOKS; looks++) {
        struct amph_trace_event *e = &t->events[i];

        if (e->start_ns != start_ns || !(e->has & AMPH_TRACE_HAS_EXTRA))
            continue;

        e->file2 = file_index(t, x->file2);
        e->fd2 = x->fd2;
        e->server = x->server;
        e->requests = x->requests;
        e->server_ns = x->server_ns < LONGEST_NS ? x->server_ns : 0;
        e->queue_ns = x->queue_ns < e->server_ns ? x->queue_ns : e->server_ns;
        put_target_first(t->names[e->name], e);
        return;
    }
}

static bool take_sum(struct amph_trace *t, const struct source *s, size_t i)
{
    const struct amph_trace_sum *sum = &s->slots[i].sum;
    const struct amph_trace_sizes *sizes = i + 1 < s->n ? &s->slots[i + 1].sizes : NULL;
    uint32_t name = s->names[sum->commit & 0xffff];

    if (name == UINT32_MAX)
        return true;

    /* the calls of a sum may overlap, in as many threads as there are calls */
    if (!is_near(s, sum->first_ns) || !is_near(s, sum->last_ns) || sum->longest_ns > LONGEST_NS ||
        sum->total_ns / LONGEST_NS > sum->calls) {
        t->damaged++;
        return true;
    }

    struct amph_trace_total *total = one_more((void **)&t->totals, &t->ntotals, &t->total_room,
                                              sizeof *total);

    if (!total)
        return false;

    *total = (struct amph_trace_total){ .name = name,
                                        .process = s->process,
                                        .file = file_index(t, sum->file),
                                        .calls = sum->calls,
                                        .bytes = sum->bytes,
                                        .errors = sum->errors,
                                        .total_ns = sum->total_ns,
                                        .longest_ns = sum->longest_ns,
                                        .first_ns = amph_trace_job_time(&s->axis, sum->first_ns),
                                        .last_ns = amph_trace_job_time(&s->axis, sum->last_ns) };

    if (sizes && sizes->commit >> 24 == AMPH_TRACE_SIZES && sizes->file == sum->file)
        memcpy(total->bucket, sizes->bucket, sizeof total->bucket);

    return true;
}

/* Reads names and texts first, because calls refer to them. */
static bool take_names(struct amph_trace *t, struct source *s)
{
    char name[sizeof((struct amph_trace_name *)0)->name];

    for (size_t i = 0; i < s->n; i++) {
        uint32_t word = s->slots[i].commit;

        if (word >> 24 == AMPH_TRACE_NAME) {
            memcpy(name, s->slots[i].name.name, sizeof name);
            name[sizeof name - 1] = 0;
            if (name[0] && t->nnames < LOCAL_NAMES)
                s->names[word & 0xffff] = name_index(t, name);
        } else if (word >> 24 == AMPH_TRACE_TEXT && !take_text(t, &s->slots[i].text, word & 0xffff))
            return false;
    }

    return true;
}

static bool take_slots(struct amph_trace *t, struct source *s)
{
    bool ok = true;

    for (size_t i = 0; ok && i < s->n; i++) {
        switch (s->slots[i].commit >> 24) {
        case AMPH_TRACE_CALL:
            ok = take_call(t, s, &s->slots[i].call);
            break;
        case AMPH_TRACE_EXTRA:
            take_extra(t, s, &s->slots[i].extra);
            break;
        case AMPH_TRACE_THREAD:
            s->tid = s->slots[i].thread.tid;
            break;
        case AMPH_TRACE_SUM:
            ok = take_sum(t, s, i);
            break;
        default:
            break;
        }
    }

    return ok;
}

static bool check_header(const struct amph_trace_header *h, size_t len, char *why, size_t why_len)
{
    if (len < sizeof *h || len < AMPH_TRACE_HEADER)
        return fail(why, why_len, "it has %zu bytes, fewer than a header", len);
    if (memcmp(h->magic, AMPH_TRACE_MAGIC, sizeof h->magic) != 0)
        return fail(why, why_len, "it is no file of recorded calls");
    if (h->order != AMPH_TRACE_ORDER)
        return fail(why, why_len,
                    "it was written by a machine of the other byte order; read it there, "
                    "and take its export");
    if (h->version < AMPH_TRACE_OLDEST || h->version > AMPH_TRACE_VERSION)
        return fail(why, why_len,
                    "it has version %u of the format, this program reads versions %d to %d",
                    h->version, AMPH_TRACE_OLDEST, AMPH_TRACE_VERSION);
    if (h->header_bytes != AMPH_TRACE_HEADER || h->slot_bytes != AMPH_TRACE_SLOT ||
        (h->ring_slots && h->ring_slots != AMPH_TRACE_RING))
        return fail(why, why_len, "its header is damaged: sizes %u and %u", h->header_bytes,
                    h->slot_bytes);

    return true;
}

static bool add_row(struct amph_trace *t, const void *bytes, size_t len, char *why, size_t why_len)
{
    struct amph_trace_header h;

    memcpy(&h, bytes, sizeof h);

    struct source s = { .n = (len - AMPH_TRACE_HEADER) / AMPH_TRACE_SLOT,
                        .tid = h.tid,
                        .began_ns = h.monotonic_ns,
                        .first_event = t->nevents };

    /* without a measured clock: the hosts' real time */
    s.axis = amph_trace_axis_of(&t->clocks, h.version >= AMPH_TRACE_WITH_CLOCKS ? h.clock : 0,
                                (int64_t)(h.realtime_ns - h.monotonic_ns));
    s.names = malloc(LOCAL_NAMES * sizeof *s.names);

    union amph_trace_slot *slots = s.names ? malloc(s.n * AMPH_TRACE_SLOT + 1) : NULL;

    if (slots) {
        memset(s.names, 0xff, LOCAL_NAMES * sizeof *s.names);
        memcpy(slots, (const char *)bytes + AMPH_TRACE_HEADER, s.n * AMPH_TRACE_SLOT);
        s.slots = slots;
    }

    bool ok = slots && find_process(t, &h, &s) && take_names(t, &s) && take_slots(t, &s);

    if (ok) {
        t->dropped_calls += h.dropped_calls;
        t->summed_calls += h.summed_calls;
        t->dropped_texts += h.dropped_texts;
        t->missing += h.flushed > s.n ? h.flushed - s.n : 0;
    }

    free(slots);
    free(s.names);
    return ok || fail(why, why_len, "there is not enough memory for its calls");
}

static bool add_plain(struct amph_trace *t, const void *bytes, size_t len, char *why,
                      size_t why_len)
{
    struct amph_trace_header h = { 0 };
    void *row;
    size_t row_len;

    if (len >= sizeof h)
        memcpy(&h, bytes, sizeof h);
    if (!check_header(&h, len, why, why_len))
        return false;
    if (!h.ring_slots)
        return add_row(t, bytes, len, why, why_len);
    if (!amph_trace_unroll(bytes, len, &row, &row_len))
        return fail(why, why_len, "there is not enough memory for its calls");

    bool ok = add_row(t, row, row_len, why, why_len);

    free(row);
    return ok;
}

bool amph_trace_add(struct amph_trace *t, const void *bytes, size_t len, char *why, size_t why_len)
{
    if (!t->files) {
        t->files = malloc(sizeof *t->files);
        if (!t->files || !(t->files[0] = strdup("")))
            return fail(why, why_len, "there is not enough memory");

        t->nfiles = 1;
    }

    t->bytes += len;
    if (!amph_trace_is_packed(bytes, len))
        return add_plain(t, bytes, len, why, why_len);

    void *plain;
    size_t plain_len;

    if (!amph_trace_unpack(bytes, len, &plain, &plain_len, why, why_len))
        return false;

    bool ok = add_plain(t, plain, plain_len, why, why_len);

    free(plain);
    return ok;
}

static int by_time(const void *a, const void *b)
{
    const struct amph_trace_event *x = a;
    const struct amph_trace_event *y = b;

    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;

    return (x->process > y->process) - (x->process < y->process);
}

bool amph_trace_add_clocks(struct amph_trace *t, const void *bytes, size_t len, char *why,
                           size_t why_len)
{
    t->bytes += len;
    return amph_trace_clocks_add(&t->clocks, bytes, len, why, why_len);
}

static bool read_file(struct amph_trace *t, const char *path, bool is_clocks, char *why,
                      size_t why_len)
{
    struct stat st;

    /* a FIFO would be waited for */
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return fail(why, why_len, "it is no regular file");

    FILE *f = fopen(path, "rb");

    if (!f || fstat(fileno(f), &st) != 0) {
        fail(why, why_len, "it cannot be opened: %s", strerror(errno));
        if (f)
            fclose(f);

        return false;
    }

    size_t len = (size_t)st.st_size;
    char *bytes = malloc(len + 1);
    bool ok = bytes && fread(bytes, 1, len, f) == len;

    if (!ok)
        fail(why, why_len, bytes ? "it cannot be read: %s" : "%s",
             bytes ? strerror(errno) : "there is not enough memory for it");
    else
        ok = is_clocks ? amph_trace_add_clocks(t, bytes, len, why, why_len)
                       : amph_trace_add(t, bytes, len, why, why_len);

    free(bytes);
    fclose(f);
    return ok;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name);
    size_t m = strlen(end);

    return n > m && strcmp(name + n - m, end) == 0;
}

static int is_trace(const struct dirent *d)
{
    return ends_in(d->d_name, AMPH_TRACE_SUFFIX) || ends_in(d->d_name, AMPH_TRACE_PACKED_SUFFIX);
}

static int is_clocks(const struct dirent *d)
{
    return ends_in(d->d_name, AMPH_TRACE_CLOCKS_SUFFIX);
}

/* Takes the compressed form of list[i] out of list, which is sorted: pack was ended before it could
 * remove the other, which is whole as long as it is there. */
static void drop_packed_form(struct dirent **list, int n, int i)
{
    const char *plain = list[i]->d_name;
    size_t len = strlen(plain);

    if (!ends_in(plain, AMPH_TRACE_SUFFIX))
        return;

    size_t stem = len - strlen(AMPH_TRACE_SUFFIX);

    for (int k = i + 1; k < n && list[k] && strncmp(list[k]->d_name, plain, len) == 0; k++)
        if (strcmp(list[k]->d_name + stem, AMPH_TRACE_PACKED_SUFFIX) == 0) {
            free(list[k]);
            list[k] = NULL;
        }
}

/* By their bytes, whatever the locale is. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Reads the files of a folder that the filter chooses.  Returns how many there are, *good_p how many could
 * be read; below 0: the folder cannot be read. */
static int read_files(struct amph_trace *t, const char *dir, int (*filter)(const struct dirent *),
                      int *good_p)
{
    struct dirent **list;
    int n = scandir(dir, &list, filter, by_name);
    char what[512];

    *good_p = 0;
    for (int i = 0; i < n; i++) {
        char path[4096 + 256];

        if (!list[i])
            continue;

        drop_packed_form(list, n, i);
        snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);

        uint64_t damaged = t->damaged;
        uint64_t missing = t->missing;

        if (read_file(t, path, filter == is_clocks, what, sizeof what))
            ++*good_p;
        else
            fprintf(stderr, "iofwd-trace: %s: %s; it is left out\n", path, what);

        if (t->damaged > damaged)
            fprintf(stderr,
                    "iofwd-trace: %s: %llu of its records have impossible times and are left out; "
                    "the file is damaged: record the run again\n",
                    path, (unsigned long long)(t->damaged - damaged));
        if (t->missing > missing)
            fprintf(stderr,
                    "iofwd-trace: %s: up to %llu of its records are missing: it was cut off or "
                    "damaged, or is being written now\n",
                    path, (unsigned long long)(t->missing - missing));

        free(list[i]);
    }

    if (n >= 0)
        free(list);

    return n;
}

bool amph_trace_read(struct amph_trace *t, const char *dir, char *why, size_t why_len)
{
    int good;
    int n = read_files(t, dir, is_clocks, &good);

    if (n >= 0)
        n = read_files(t, dir, is_trace, &good);
    if (n < 0)
        return fail(why, why_len, "%s cannot be read: %s", dir, strerror(errno));

    if (!good)
        return fail(
            why, why_len,
            n ? "%s: none of its files can be read"
              : "%s has no files of recorded calls; iofwd-run -record %s PROGRAM writes them",
            dir, dir);

    return amph_trace_finish(t) || fail(why, why_len, "there is not enough memory");
}

/* Puts the end of a request into the event of its start; both are among the n events of one process and one
 * time, which are few: no two requests of a thread have the same.  The thread stays that of the start. */
static void join_request(const struct amph_trace_event *end, struct amph_trace_event *events,
                         size_t n, bool *joined_p)
{
    for (size_t i = 0; i < n && i < EXTRA_LOOKS && !*joined_p; i++) {
        struct amph_trace_event *e = &events[i];
        int32_t tid = e->tid;

        if (e->end_ns || e->name != end->name || e->fd != end->fd || e->file != end->file)
            continue;

        *e = *end;
        e->tid = tid;
        *joined_p = true;
    }
}

/* A request has a record of its start and, if it was not completed in place, one of its end, maybe in the file
 * of another thread: after sorting, both are neighbours. */
static void join_requests(struct amph_trace *t)
{
    size_t kept = 0;

    for (size_t i = 0, next; i < t->nevents; i = next) {
        const struct amph_trace_event *first = &t->events[i];

        for (next = i + 1; next < t->nevents && by_time(first, &t->events[next]) == 0; next++) {
        }

        for (size_t k = i; k < next; k++) {
            const struct amph_trace_event *e = &t->events[k];
            bool joined = false;

            if (e->end_ns && next - i > 1 && amph_trace_is_request(t->names[e->name]))
                join_request(e, &t->events[i], next - i, &joined);
            if (joined)
                t->events[k].side = AMPH_TRACE_SIDES; /* left out */
        }

        for (size_t k = i; k < next; k++)
            if (t->events[k].side < AMPH_TRACE_SIDES)
                t->events[kept++] = t->events[k];
    }

    t->nevents = kept;
    for (size_t i = 0; i < t->nevents; i++)
        t->unseen += !t->events[i].end_ns && amph_trace_is_request(t->names[t->events[i].name]);
}

bool amph_trace_finish(struct amph_trace *t)
{
    if (t->nevents)
        qsort(t->events, t->nevents, sizeof *t->events, by_time);

    join_requests(t);

    return amph_trace_complete_offsets(t);
}

void amph_trace_free(struct amph_trace *t)
{
    for (size_t i = 0; i < t->nnames; i++)
        free(t->names[i]);
    for (size_t i = 0; i < t->nfiles; i++)
        free(t->files[i]);
    for (size_t i = 0; i < t->text_room; i++)
        free(t->texts[i].text);

    free(t->names);
    free(t->files);
    free(t->texts);
    free(t->path);
    free(t->events);
    free(t->processes);
    free(t->totals);
    free(t->clocks.all);
    *t = (struct amph_trace){ 0 };
}
