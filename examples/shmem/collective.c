/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives over active sets.  Members signal each other by adding to words of their pSync, each
 * kind of signal to a word of its own, and take what they have waited for away again, so a pSync
 * holds zeros between calls.
 */
#include <stdlib.h>
#include <string.h>

#include "inside.h"

/* words of a pSync; 24 rounds are enough for any set */
enum {
    S_BARRIER = 0,
    S_UP = 24,
    S_DOWN = 48,
    S_PLACE = 49
};

struct set {
    int start, stride, size, me; /* me: this PE's place in the set */
    long *sync;
};

static struct set set_of(const char *call, int start, int logstride, int size, long *sync)
{
    shmemi_check_pe(call, start);

    int stride = logstride >= 0 && logstride < 31 ? 1 << logstride : 0;
    int me = stride ? (shmemi.pe - start) / stride : 0;

    if (!stride || size < 1 || start + (int64_t)stride * (size - 1) >= shmemi.npes)
        shmemi_fail(call, "PE_start %d, logPE_stride %d, PE_size %d is no set of the job's %d PEs",
                    start, logstride, size, shmemi.npes);

    if (shmemi.pe < start || (shmemi.pe - start) % stride || me >= size)
        shmemi_fail(call, "this PE is not in the set PE_start %d, logPE_stride %d, PE_size %d",
                    start, logstride, size);

    return (struct set){ start, stride, size, me, sync };
}

static int pe_of(const struct set *set, int member)
{
    return set->start + member * set->stride;
}

static void signal_add(const struct set *set, int member, int word, long value)
{
    shmemi_amo("collective", AMO_ADD, &set->sync[word], (int)sizeof(long), (uint64_t)value, 0,
               pe_of(set, member), 0);
}

/* Waits until value or more has been added to the word, and takes it away; value 0: takes all there
 * is.  Gives what was taken. */
static long signal_take(const struct set *set, int word, long value)
{
    long *at = &set->sync[word];
    long now;

    SHMEMI_WAIT((now = __atomic_load_n(at, __ATOMIC_ACQUIRE)) >= (value ? value : 1));
    now = value ? value : now;
    __atomic_fetch_sub(at, now, __ATOMIC_ACQ_REL);

    return now;
}

/* Dissemination: in round r each member tells the one 2^r behind it. */
static void set_sync(const struct set *set)
{
    for (int round = 0, step = 1; step < set->size; round++, step *= 2) {
        signal_add(set, (set->me + step) % set->size, S_BARRIER + round, 1);
        signal_take(set, S_BARRIER + round, 1);
    }
}

static void set_barrier(const struct set *set)
{
    shmem_quiet();
    set_sync(set);
    shmem_quiet();
}

void shmem_barrier(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
    struct set set = set_of("shmem_barrier", PE_start, logPE_stride, PE_size, pSync);
    set_barrier(&set);
}

void shmem_sync(int PE_start, int logPE_stride, int PE_size, long *pSync)
{
    struct set set = set_of("shmem_sync", PE_start, logPE_stride, PE_size, pSync);
    set_sync(&set);
}

/* ---- broadcast: a binomial tree; every member passes on what has arrived at its dest ---- */

static void spread(const struct set *set, int root, void *dest, const void *source, size_t nbytes)
{
    int from_root = (set->me - root + set->size) % set->size;
    int bit = 1;
    const void *have = from_root ? dest : source;

    while (bit < set->size && !(from_root & bit))
        bit *= 2;

    if (from_root)
        signal_take(set, S_DOWN, 1);

    for (bit /= 2; bit; bit /= 2)
        if (from_root + bit < set->size)
            shmem_putmem_nbi(dest, have, nbytes, pe_of(set, (set->me + bit) % set->size));

    bit = 1;
    while (bit < set->size && !(from_root & bit))
        bit *= 2;

    shmem_quiet();
    for (bit /= 2; bit; bit /= 2)
        if (from_root + bit < set->size)
            signal_add(set, (set->me + bit) % set->size, S_DOWN, 1);

    shmem_quiet();
}

/* ---- collect: everybody's block goes to all, behind those of the members before it ---- */

static void collect(const struct set *set, void *dest, const void *source, size_t nbytes,
                    size_t offset)
{
    for (int i = 0; i < set->size; i++)
        shmem_putmem_nbi((char *)dest + offset, source, nbytes,
                         pe_of(set, (set->me + i) % set->size));

    set_barrier(set);
}

/* Blocks of any length: each member hears from the one before it where its block begins, as a
 * number above 0. */
static size_t offset_in_chain(const struct set *set, size_t nbytes)
{
    size_t offset = set->me ? (size_t)signal_take(set, S_PLACE, 0) - 1 : 0;

    if (set->me + 1 < set->size)
        signal_add(set, set->me + 1, S_PLACE, (long)(offset + nbytes + 1));

    return offset;
}

static void exchange(const struct set *set, char *dest, const char *source, ptrdiff_t dst,
                     ptrdiff_t sst, size_t size, size_t nelems)
{
    for (int i = 0; i < set->size; i++) {
        int to = (set->me + i) % set->size;
        char *at = dest + (size_t)set->me * nelems * (size_t)dst * size;
        const char *from = source + (size_t)to * nelems * (size_t)sst * size;

        if (dst == 1 && sst == 1)
            shmem_putmem_nbi(at, from, nelems * size, pe_of(set, to));
        else if (size == 4)
            shmem_iput32(at, from, dst, sst, nelems, pe_of(set, to));
        else
            shmem_iput64(at, from, dst, sst, nelems, pe_of(set, to));
    }

    set_barrier(set);
}

#define DEFINE_COLLECTIVES(BITS) \
    void shmem_broadcast##BITS(void *dest, const void *source, size_t nelems, int PE_root, \
                               int PE_start, int logPE_stride, int PE_size, long *pSync) \
    { \
        struct set set = set_of("shmem_broadcast" #BITS, PE_start, logPE_stride, PE_size, pSync); \
        if (PE_root < 0 || PE_root >= PE_size) \
            shmemi_fail("shmem_broadcast" #BITS, "PE_root is %d; it counts within the set of %d", \
                        PE_root, PE_size); \
        spread(&set, PE_root, dest, source, nelems *(BITS / 8)); \
    } \
    void shmem_collect##BITS(void *dest, const void *source, size_t nelems, int PE_start, \
                             int logPE_stride, int PE_size, long *pSync) \
    { \
        struct set set = set_of("shmem_collect" #BITS, PE_start, logPE_stride, PE_size, pSync); \
        collect(&set, dest, source, nelems *(BITS / 8), \
                offset_in_chain(&set, nelems *(BITS / 8))); \
    } \
    void shmem_fcollect##BITS(void *dest, const void *source, size_t nelems, int PE_start, \
                              int logPE_stride, int PE_size, long *pSync) \
    { \
        struct set set = set_of("shmem_fcollect" #BITS, PE_start, logPE_stride, PE_size, pSync); \
        collect(&set, dest, source, nelems *(BITS / 8), (size_t)set.me *nelems *(BITS / 8)); \
    } \
    void shmem_alltoall##BITS(void *dest, const void *source, size_t nelems, int PE_start, \
                              int logPE_stride, int PE_size, long *pSync) \
    { \
        struct set set = set_of("shmem_alltoall" #BITS, PE_start, logPE_stride, PE_size, pSync); \
        exchange(&set, (char *)dest, (const char *)source, 1, 1, BITS / 8, nelems); \
    } \
    void shmem_alltoalls##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
                               size_t nelems, int PE_start, int logPE_stride, int PE_size, \
                               long *pSync) \
    { \
        struct set set = set_of("shmem_alltoalls" #BITS, PE_start, logPE_stride, PE_size, pSync); \
        exchange(&set, (char *)dest, (const char *)source, dst, sst, BITS / 8, nelems); \
    }
DEFINE_COLLECTIVES(32)
DEFINE_COLLECTIVES(64)

/* ---- reductions: up a binomial tree, where parents fetch the children's parts, and down again
 * ---- */

typedef void (*combine_fn)(void *into, const void *with, size_t count);

enum {
    CHUNK = 16 << 10 /* bytes of a child's part that are fetched at once */
};

static void reduce(const struct set *set, void *dest, const void *source, size_t count, size_t size,
                   combine_fn combine)
{
    char chunk[CHUNK] __attribute__((__aligned__(16)));
    memmove(dest, source, count * size);

    for (int round = 0, bit = 1; bit < set->size; round++, bit *= 2) {
        if (set->me & bit) {
            signal_add(set, set->me - bit, S_UP + round, 1);
            break;
        }

        if (set->me + bit >= set->size)
            continue;

        signal_take(set, S_UP + round, 1);

        size_t per_chunk = CHUNK / size;

        for (size_t done = 0, n; done < count; done += n) {
            n = count - done < per_chunk ? count - done : per_chunk;
            shmem_getmem(chunk, (char *)dest + done * size, n * size, pe_of(set, set->me + bit));
            combine((char *)dest + done * size, chunk, n);
        }
    }

    spread(set, 0, dest, dest, count * size);
    set_barrier(set);
}

#define DEFINE_TO_ALL(OP, NAME, T, expression) \
    static void combine_##NAME##_##OP(void *into, const void *with, size_t count) \
    { \
        T *a = (T *)into; \
        const T *b = (const T *)with; \
        for (size_t i = 0; i < count; i++) \
            a[i] = (T)(expression); \
    } \
    void shmem_##NAME##_##OP##_to_all(T *dest, const T *source, int nreduce, int PE_start, \
                                      int logPE_stride, int PE_size, T *pWrk, long *pSync) \
    { \
        struct set set = set_of("shmem_" #NAME "_" #OP "_to_all", PE_start, logPE_stride, PE_size, \
                                pSync); \
        (void)pWrk; \
        reduce(&set, dest, source, (size_t)nreduce, sizeof(T), combine_##NAME##_##OP); \
    }
#define DEFINE_BITS(NAME, T) \
    DEFINE_TO_ALL(and, NAME, T, a[i] & b[i]) \
    DEFINE_TO_ALL(or, NAME, T, a[i] | b[i]) DEFINE_TO_ALL(xor, NAME, T, a[i] ^ b[i])
#define DEFINE_MINMAX(NAME, T) \
    DEFINE_TO_ALL(min, NAME, T, a[i] < b[i] ? a[i] : b[i]) \
    DEFINE_TO_ALL(max, NAME, T, a[i] > b[i] ? a[i] : b[i])
#define DEFINE_SUMPROD(NAME, T) \
    DEFINE_TO_ALL(sum, NAME, T, a[i] + b[i]) DEFINE_TO_ALL(prod, NAME, T, a[i] * b[i])
/* clang-format off */
SHMEM_TO_ALL_WHOLE(DEFINE_BITS)
SHMEM_TO_ALL_REAL(DEFINE_MINMAX)
SHMEM_TO_ALL_TYPES(DEFINE_SUMPROD)
/* clang-format on */
