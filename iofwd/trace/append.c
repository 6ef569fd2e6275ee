/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file of recorded calls without ring and stream; see append.h.
 *
 * Layer: iofwd (trace).  Thread rule: see append.h.
 */
#include "iofwd/trace/append.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "iofwd/trace/writer.h"

enum {
    FIRST = 1 << 13,      /* bytes of a new file */
    STEP_UNIT = 1 << 12,  /* by which a file grows: it doubles up to DOUBLE_MAX, */
    DOUBLE_MAX = 1 << 18, /* then a quarter of its size is added, but at most STEP_MAX */
    STEP_MAX = 1 << 22,
    TRIES = 64 /* names of a file */
};

static struct amph_trace_header *header_of(struct amph_trace_append *a)
{
    return (struct amph_trace_header *)(void *)a->base;
}

static union amph_trace_slot *slot_at(struct amph_trace_append *a, uint64_t number)
{
    return (union amph_trace_slot *)(void *)(a->base + AMPH_TRACE_HEADER) + number;
}

/* ---- the file ---- */

/* A limit of file sizes would send the process a signal. */
static bool is_below_limit(uint64_t bytes)
{
    struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

    getrlimit(RLIMIT_FSIZE, &limit);
    return limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

/* Blocks are allocated, because a full disk would end the process at a store into the mapping. */
static int grow(struct amph_trace_append *a, uint64_t bytes)
{
    int err = is_below_limit(bytes)
                  ? posix_fallocate(a->fd, (off_t)a->bytes, (off_t)(bytes - a->bytes))
                  : EFBIG;

    if (err)
        return err;

    void *at = a->base ? mremap(a->base, a->bytes, bytes, MREMAP_MAYMOVE)
                       : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);

    if (at == MAP_FAILED)
        return errno;

    madvise(at, bytes, MADV_DONTFORK);
    madvise(at, bytes, MADV_DONTDUMP);
    a->base = at;
    a->bytes = bytes;
    return 0;
}

/* Is there room for n slots?  may_fail: in the part that is kept for calls that have failed, too. */
static bool has_room(struct amph_trace_append *a, uint64_t n, bool is_error)
{
    uint64_t max = is_error ? a->max : a->max - AMPH_TRACE_APPEND_ERRORS;
    uint64_t needed = AMPH_TRACE_HEADER + (a->next + n) * AMPH_TRACE_SLOT;

    if (a->error || a->next + n > max)
        return false;
    if (needed <= a->bytes)
        return true;

    uint64_t to = a->bytes;

    while (to < needed) {
        uint64_t step = to < DOUBLE_MAX ? to : to / 4 & ~(uint64_t)(STEP_UNIT - 1);

        to += step < STEP_MAX ? step : STEP_MAX;
    }

    a->error = grow(a, to);
    return !a->error;
}

/* One of the processes that record for others may be another one's, in another namespace of numbers:
 * the file is not there yet. */
static int open_new(const char *dir, const struct amph_trace_header *h)
{
    char path[PATH_MAX];

    for (unsigned serial = 1; serial <= TRIES; serial++) {
        int n = snprintf(path, sizeof path, "%s/%s.%d.%llx.%u" AMPH_TRACE_SUFFIX, dir, h->host,
                         (int)h->pid, (unsigned long long)h->began_ns, serial);

        if (n >= (int)sizeof path) {
            errno = ENAMETOOLONG;
            return -1;
        }

        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

        if (fd >= 0 || errno != EEXIST)
            return fd;
    }

    return -1;
}

int amph_trace_append_begin(struct amph_trace_append *a, const char *dir,
                            const struct amph_trace_header *who, uint64_t budget)
{
    struct amph_trace_header h = *who;

    amph_trace_header_begin(&h);
    h.budget = budget;
    *a = (struct amph_trace_append){ .max = budget / AMPH_TRACE_SLOT, .tid = who->tid };
    a->fd = open_new(dir, &h);
    if (a->fd < 0)
        return errno;

    int err = grow(a, FIRST);

    if (err) {
        close(a->fd);
        return err;
    }

    memcpy(a->base, &h, sizeof h);
    return 0;
}

void amph_trace_append_end(struct amph_trace_append *a)
{
    if (!a->base)
        return;

    header_of(a)->flushed = a->next;
    munmap(a->base, a->bytes);
    a->base = NULL;

    /* what is left is empty slots, which a reader passes over */
    (void)!ftruncate(a->fd, (off_t)(AMPH_TRACE_HEADER + a->next * AMPH_TRACE_SLOT));
    close(a->fd);
}

/* ---- slots ---- */

/* Has room been asked for?  The slot is empty. */
static union amph_trace_slot *take(struct amph_trace_append *a)
{
    return slot_at(a, a->next++);
}

static void commit(uint32_t *word, uint32_t kind, uint32_t state, uint32_t value)
{
    __atomic_store_n(word, AMPH_TRACE_COMMIT(kind, state, value), __ATOMIC_RELEASE);
}

uint64_t amph_trace_append_text(struct amph_trace_append *a, const char *text)
{
    char whole[AMPH_TRACE_TEXT_MAX];
    size_t len = strlen(text);
    uint64_t file = amph_trace_text_number(0, text, len);
    uint64_t *seen = &a->seen[file % (sizeof a->seen / sizeof *a->seen)];

    if (*seen == file)
        return file;

    size_t total = amph_trace_text_whole(whole, 0, text, len);
    uint32_t parts = amph_trace_text_parts(total);

    if (!has_room(a, parts, true)) {
        header_of(a)->dropped_texts++;
        return file;
    }

    for (uint32_t part = 0; part < parts; part++) {
        union amph_trace_slot *slot = take(a);

        amph_trace_text_fill(&slot->text, file, whole, total, part);
        commit(&slot->commit, AMPH_TRACE_TEXT, AMPH_TRACE_DONE, part);
    }

    *seen = file;
    return file;
}

static void write_thread(struct amph_trace_append *a, int32_t tid, uint64_t start_ns)
{
    union amph_trace_slot *slot = take(a);

    slot->thread.tid = a->tid = tid;
    slot->thread.start_ns = start_ns;
    commit(&slot->commit, AMPH_TRACE_THREAD, AMPH_TRACE_DONE, 0);
}

static void write_name(struct amph_trace_append *a, unsigned number, const char *name)
{
    union amph_trace_slot *slot = take(a);

    strncpy(slot->name.name, name, sizeof slot->name.name - 1);
    commit(&slot->commit, AMPH_TRACE_NAME, AMPH_TRACE_DONE, number);
    a->named[number] = true;
}

/* Takes a slot for the call, and writes what it refers to before it. */
static uint64_t take_call(struct amph_trace_append *a, int32_t tid, unsigned number,
                          const char *name, const struct amph_trace_call *call, bool is_error)
{
    bool is_named = number >= AMPH_TRACE_APPEND_CALLS || a->named[number];
    bool is_same_thread = a->tid == tid;

    /* the call, its extra, its name, its thread */
    if (!has_room(a, 4, is_error))
        return AMPH_TRACE_APPEND_NONE;

    if (!is_named)
        write_name(a, number, name);
    if (!is_same_thread)
        write_thread(a, tid, call->start_ns);

    take(a);
    return a->next - 1;
}

/* Stores all but the word, which comes last. */
static void put(struct amph_trace_append *a, uint64_t slot, unsigned number, uint32_t state,
                const struct amph_trace_call *call)
{
    struct amph_trace_call *to = &slot_at(a, slot)->call;
    struct amph_trace_call copy = *call;

    copy.commit = to->commit;
    *to = copy;
    commit(&to->commit, AMPH_TRACE_CALL, state, number);
}

uint64_t amph_trace_append_start(struct amph_trace_append *a, int32_t tid, unsigned number,
                                 const char *name, const struct amph_trace_call *call)
{
    uint64_t slot = take_call(a, tid, number, name, call, false);

    if (slot != AMPH_TRACE_APPEND_NONE)
        put(a, slot, number, AMPH_TRACE_STARTED, call);

    return slot;
}

void amph_trace_append_done(struct amph_trace_append *a, int32_t tid, uint64_t slot,
                            unsigned number, const char *name, const struct amph_trace_call *call,
                            const struct amph_trace_extra *extra)
{
    if (slot == AMPH_TRACE_APPEND_NONE && call->has & AMPH_TRACE_HAS_FAILED)
        slot = take_call(a, tid, number, name, call, true);

    if (slot == AMPH_TRACE_APPEND_NONE) {
        header_of(a)->dropped_calls++;
        return;
    }

    /* without room for the extra, the call does not say that it has one */
    struct amph_trace_call whole = *call;
    bool has_extra = extra && has_room(a, 1, true);

    if (!has_extra)
        whole.has &= (uint8_t)~AMPH_TRACE_HAS_EXTRA;

    put(a, slot, number, AMPH_TRACE_DONE, &whole);
    if (!has_extra)
        return;

    union amph_trace_slot *to = take(a);
    struct amph_trace_extra copy = *extra;

    copy.commit = 0;
    to->extra = copy;
    commit(&to->commit, AMPH_TRACE_EXTRA, AMPH_TRACE_DONE, 0);
}

void amph_trace_append_result(struct amph_trace_append *a, uint64_t slot, int64_t result)
{
    if (a->base && slot != AMPH_TRACE_APPEND_NONE)
        slot_at(a, slot)->call.result = result;
}
