/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests in flight, and their records; see record_request.h.
 *
 * Layer: iofwd (interposer).  Thread rule: see record_request.h.
 *
 * A table of keys, each with a flight beside it.  A slot is taken by exchanging its key for TAKEN, so
 * that a signal handler may interrupt anything.  A thread that waits for requests can see an end before the
 * thread that has started the request comes to write it down: such ends are kept for a while.
 */
#include "iofwd/interpose/entry/record_request.h"

#include <errno.h>
#include <sys/mman.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/record.h"
#include "iofwd/interpose/entry/record_event.h"
#include "iofwd/interpose/libc/kernel.h"

enum {
    SLOTS = 8192,
    PROBES = 64,          /* slots that a key may have */
    PROBES_SHARED = 1024, /* of one that several requests in flight may have */
    EARLY = 64,           /* ends that are kept */
    RINGS = 256
};

#define FREE UINT64_C(0)
#define TAKEN UINT64_C(1)
#define TAKEN_RING ((const void *)(uintptr_t)TAKEN)

static const char *const names[AMPH_IP_ASYNC_NAMES] = {
    [AMPH_IP_ASYNC_READ] = "async_read",          [AMPH_IP_ASYNC_WRITE] = "async_write",
    [AMPH_IP_ASYNC_OPEN] = "async_open",          [AMPH_IP_ASYNC_CLOSE] = "async_close",
    [AMPH_IP_ASYNC_STAT] = "async_stat",          [AMPH_IP_ASYNC_ALLOCATE] = "async_fallocate",
    [AMPH_IP_ASYNC_SYNC] = "async_sync",          [AMPH_IP_MPI_ASYNC_READ] = "MPI_async_read",
    [AMPH_IP_MPI_ASYNC_WRITE] = "MPI_async_write"
};

struct flight {
    struct amph_trace_call call;
    struct amph_ip_recording *t; /* whose ring has the record, if it has a slot */
    uint64_t slot_number;
    uint32_t serial;
    bool has_slot;
    unsigned name;
};

struct end {
    uint64_t key;
    uint64_t end_ns;
    int64_t result;
    int err;
};

/* Wiped in a child of fork, whose requests these are not. */
struct amph_ip_flights {
    uint64_t in_flight, early_next;
    struct end early[EARLY];
    struct {
        const void *ring; /* NULL: free */
        uint32_t seen;
    } rings[RINGS];
    uint64_t key[SLOTS];
    struct flight flight[SLOTS];
};

/* Made at the first request.  NULL: there can be none. */
static struct amph_ip_flights *flights_made(void)
{
    struct amph_ip_flights *f = __atomic_load_n(&amph_ip_state.recorder.flights, __ATOMIC_ACQUIRE);
    struct amph_ip_flights *none = NULL;
    int saved = errno;

    if (AMPH_LIKELY(f != NULL))
        return f;

    f = amph_ip_kernel_mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f == MAP_FAILED)
        f = NULL;
    else
        madvise(f, sizeof *f, MADV_WIPEONFORK);

    if (f && !__atomic_compare_exchange_n(&amph_ip_state.recorder.flights, &none, f, false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        amph_ip_kernel_munmap(f, sizeof *f);
        f = none;
    }

    errno = saved;
    return f;
}

bool amph_ip_request_any(void)
{
    const struct amph_ip_flights *f = __atomic_load_n(&amph_ip_state.recorder.flights,
                                                      __ATOMIC_ACQUIRE);

    return f && __atomic_load_n(&f->in_flight, __ATOMIC_RELAXED) > 0;
}

static bool is_shared(uint64_t key)
{
    return key >> 56 == AMPH_IP_REQUEST_RING || key >> 56 == AMPH_IP_REQUEST_MPI;
}

static size_t probes_of(uint64_t key)
{
    return is_shared(key) ? PROBES_SHARED : PROBES;
}

static size_t index_of(uint64_t key)
{
    return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 51) % SLOTS;
}

static bool take_key(struct amph_ip_flights *f, size_t at, uint64_t key)
{
    return __atomic_compare_exchange_n(&f->key[at], &key, TAKEN, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

static void give_key(struct amph_ip_flights *f, size_t at, uint64_t key)
{
    __atomic_store_n(&f->key[at], key, __ATOMIC_RELEASE);
}

/* Keeps a request in flight, until its end is seen.  One for which no slot is free stays without an end. */
static void keep(struct amph_ip_flights *f, uint64_t key, const struct flight *flight)
{
    for (size_t i = 0; i < probes_of(key); i++) {
        size_t at = (index_of(key) + i) % SLOTS;

        if (f->key[at] != FREE || !take_key(f, at, FREE))
            continue;

        f->flight[at] = *flight;
        __atomic_add_fetch(&f->in_flight, 1, __ATOMIC_RELAXED);
        give_key(f, at, key);
        return;
    }
}

bool amph_ip_request_is_in_flight(uint64_t key)
{
    const struct amph_ip_flights *f = __atomic_load_n(&amph_ip_state.recorder.flights,
                                                      __ATOMIC_ACQUIRE);

    for (size_t i = 0; f && i < probes_of(key); i++)
        if (__atomic_load_n(&f->key[(index_of(key) + i) % SLOTS], __ATOMIC_ACQUIRE) == key)
            return true;

    return false;
}

/* Takes the oldest request of that key out of the table. */
static bool take(struct amph_ip_flights *f, uint64_t key, struct flight *flight)
{
    size_t found = SLOTS;
    uint64_t oldest = UINT64_MAX;

    for (size_t i = 0; i < probes_of(key); i++) {
        size_t at = (index_of(key) + i) % SLOTS;

        if (__atomic_load_n(&f->key[at], __ATOMIC_ACQUIRE) != key ||
            f->flight[at].call.start_ns > oldest)
            continue;

        oldest = f->flight[at].call.start_ns;
        found = at;
        if (!is_shared(key))
            break;
    }

    if (found == SLOTS || !take_key(f, found, key))
        return false;

    *flight = f->flight[found];
    __atomic_sub_fetch(&f->in_flight, 1, __ATOMIC_RELAXED);
    give_key(f, found, FREE);
    return true;
}

/* ---- records ---- */

/* The slot in which the request was begun, as far as it is this thread's and still in the ring; or
 * another one. */
static union amph_trace_slot *slot_of(struct amph_ip_recording *t, const struct flight *flight)
{
    uint64_t number;

    if (flight->has_slot && flight->t == t && flight->serial == t->serial &&
        flight->slot_number >= t->flushed)
        return &t->ring[flight->slot_number % AMPH_TRACE_RING];

    return amph_ip_record_take(t, &number);
}

static void write_end(struct flight *flight, const struct end *end)
{
    struct amph_ip_recording *t = amph_ip_record_this();
    struct amph_trace_call *call = &flight->call;
    unsigned number = AMPH_IP_EVENT_REQUEST + flight->name;

    if (!t)
        return;

    call->end_ns = end->end_ns > call->start_ns ? end->end_ns : call->start_ns + 1;
    call->result = end->result;
    if (end->err) {
        call->result = -1;
        call->err = (uint16_t)end->err;
        call->has |= AMPH_TRACE_HAS_FAILED;
    }

    if (flight->name == AMPH_IP_ASYNC_OPEN && !end->err)
        amph_ip_record_set_file((int)end->result, call->file);

    amph_ip_record_name(t, number, names[flight->name]);

    union amph_trace_slot *slot = slot_of(t, flight);

    if (!slot) {
        call->commit = number;
        amph_ip_record_beyond(t, call);
        return;
    }

    call->commit = slot->commit; /* until all is there */
    slot->call = *call;
    amph_ip_record_commit(t, &slot->commit, AMPH_TRACE_CALL, AMPH_TRACE_DONE, number);
}

/* ---- ends that were seen before their beginnings ---- */

static void keep_early(struct amph_ip_flights *f, const struct end *end)
{
    uint64_t n = __atomic_fetch_add(&f->early_next, 1, __ATOMIC_RELAXED);
    struct end *kept = &f->early[n % EARLY];

    __atomic_store_n(&kept->key, TAKEN, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    kept->end_ns = end->end_ns;
    kept->result = end->result;
    kept->err = end->err;
    __atomic_store_n(&kept->key, end->key, __ATOMIC_RELEASE);
}

static bool was_early(struct amph_ip_flights *f, uint64_t key, uint64_t start_ns, struct end *end)
{
    for (unsigned i = 0; i < EARLY; i++) {
        struct end *kept = &f->early[i];

        if (__atomic_load_n(&kept->key, __ATOMIC_ACQUIRE) != key)
            continue;

        *end = *kept;
        if (__atomic_exchange_n(&kept->key, TAKEN, __ATOMIC_ACQ_REL) == key &&
            end->end_ns >= start_ns)
            return true;
    }

    return false;
}

/* ---- what the callers see ---- */

void amph_ip_request_start(uint64_t key, unsigned name, const struct amph_trace_call *call)
{
    struct amph_ip_recording *t = amph_ip_record_this();
    struct amph_ip_flights *f = flights_made();
    struct flight flight = { .call = *call, .t = t, .name = name };
    unsigned number = AMPH_IP_EVENT_REQUEST + name;
    struct end end;

    if (!t || !f)
        return;

    amph_ip_record_name(t, number, names[name]);

    union amph_trace_slot *slot = amph_ip_record_take(t, &flight.slot_number);

    flight.has_slot = slot != NULL;
    flight.serial = t->serial;
    if (slot) {
        slot->call = *call;
        slot->call.commit = 0;
        amph_ip_record_commit(t, &slot->commit, AMPH_TRACE_CALL, AMPH_TRACE_STARTED, number);
    }

    if (was_early(f, key, call->start_ns, &end))
        write_end(&flight, &end);
    else
        keep(f, key, &flight);
}

bool amph_ip_request_end(uint64_t key, int64_t result, int err)
{
    struct amph_ip_flights *f = flights_made();
    struct end end = { .key = key, .end_ns = amph_ip_record_now(), .result = result, .err = err };
    struct flight flight;

    if (!f)
        return false;

    if (!take(f, key, &flight)) {
        keep_early(f, &end);
        return false;
    }

    write_end(&flight, &end);
    return true;
}

uint32_t *amph_ip_request_ring(const void *ring, uint32_t head)
{
    struct amph_ip_flights *f = flights_made();

    for (unsigned i = 0; f && i < RINGS; i++) {
        if (__atomic_load_n(&f->rings[i].ring, __ATOMIC_ACQUIRE) == ring)
            return &f->rings[i].seen;
    }

    for (unsigned i = 0; f && i < RINGS; i++) {
        const void *none = NULL;

        if (!__atomic_compare_exchange_n(&f->rings[i].ring, &none, TAKEN_RING, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;

        f->rings[i].seen = head;
        __atomic_store_n(&f->rings[i].ring, ring, __ATOMIC_RELEASE);
        return &f->rings[i].seen;
    }

    return NULL;
}

void amph_ip_request_ring_ends(const void *ring)
{
    struct amph_ip_flights *f = flights_made();

    for (unsigned i = 0; f && i < RINGS; i++)
        if (__atomic_load_n(&f->rings[i].ring, __ATOMIC_ACQUIRE) == ring)
            __atomic_store_n(&f->rings[i].ring, NULL, __ATOMIC_RELEASE);
}
