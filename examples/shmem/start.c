/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end of the library, its queries, and the places of symmetric objects. */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/arena.h"
#include "inside.h"

struct shmemi shmemi;

/* The program's own variables, between two names of the linker's. */
extern char __data_start[], _end[];

enum {
    HEAP_DEFAULT = 64 << 20
};

void shmemi_fail(const char *call, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "PE %d: %s: ", shmemi.pe, call);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    gasnet_exit(1);
}

void shmemi_check_pe(const char *call, int pe)
{
    if (!shmemi.started) {
        fprintf(stderr, "%s was called before shmem_init\n", call);
        exit(1);
    }

    if (pe < 0 || pe >= shmemi.npes)
        shmemi_fail(call, "there is no PE %d; the job has %d", pe, shmemi.npes);
}

/* SHMEM_SYMMETRIC_SIZE (or the older SHMEM_SYMMETRIC_HEAP_SIZE): a number, with K, M or G behind it
 * or without. */
static uint64_t heap_asked_for(void)
{
    const char *text = gasnet_getenv("SHMEM_SYMMETRIC_SIZE");

    if (!text)
        text = gasnet_getenv("SHMEM_SYMMETRIC_HEAP_SIZE");

    if (!text)
        return HEAP_DEFAULT;

    char *unit;
    double value = strtod(text, &unit);
    const char *units = "KMGT";
    const char *at = *unit ? strchr(units, *unit & ~0x20) : NULL;

    for (long i = at ? at - units : -1; i >= 0; i--)
        value *= 1024;

    if (unit == text || (*unit && !at) || !(value >= 1) || value > (double)((uint64_t)1 << 60))
        shmemi_fail("shmem_init", "SHMEM_SYMMETRIC_SIZE=%s is no size; examples: 512M, 2G", text);

    return (uint64_t)value;
}

static void start(void)
{
    /* clang-format off */
    gasnet_handlerentry_t handlers[] = {
        { H_VARIABLE_PUT, shmemi_variable_put },
        { H_VARIABLE_PUT_DONE, shmemi_answered },
        { H_VARIABLE_GET, shmemi_variable_get },
        { H_VARIABLE_GET_DONE, shmemi_variable_got },
        { H_AMO, shmemi_amo_asked },
        { H_AMO_DONE, shmemi_amo_done },
    };

    /* clang-format on */
    int err = gasnet_init(NULL, NULL);

    if (err != GASNET_OK) {
        fprintf(stderr, "shmem_init: gasnet_init: %s\n", gasnet_ErrorDesc(err));
        exit(1);
    }

    shmemi.pe = (int)gasnet_mynode();
    shmemi.npes = (int)gasnet_nodes();
    shmemi.heap_bytes = (heap_asked_for() + GASNET_PAGESIZE - 1) / GASNET_PAGESIZE *
                        GASNET_PAGESIZE;

    if (shmemi.heap_bytes > gasnet_getMaxGlobalSegmentSize())
        shmemi_fail(
            "shmem_init",
            "a symmetric heap of %llu bytes is more than the %llu that every process can give",
            (unsigned long long)shmemi.heap_bytes,
            (unsigned long long)gasnet_getMaxGlobalSegmentSize());

    err = gasnet_attach(handlers, sizeof handlers / sizeof *handlers, shmemi.heap_bytes, 0);
    if (err != GASNET_OK)
        shmemi_fail("shmem_init", "gasnet_attach: %s", gasnet_ErrorDesc(err));

    shmemi.heaps = calloc((size_t)shmemi.npes, sizeof *shmemi.heaps);
    shmemi.mappings = calloc((size_t)shmemi.npes, sizeof *shmemi.mappings);
    shmemi.arena = arena_create(shmemi.heap_bytes);
    if (!shmemi.heaps || !shmemi.mappings || !shmemi.arena)
        shmemi_fail("shmem_init", "no memory for the tables of %d processes", shmemi.npes);

    if (gasnet_getSegmentInfo(shmemi.heaps, shmemi.npes) != GASNET_OK ||
        gasnet_getNodeInfo(shmemi.mappings, shmemi.npes) != GASNET_OK)
        shmemi_fail("shmem_init", "GASNet does not tell where the segments are");

    shmemi.program = __data_start;
    shmemi.program_bytes = (uint64_t)(_end - __data_start);
    shmemi.started = 1;
    shmem_barrier_all();
}

void shmem_init(void)
{
    if (!shmemi.started)
        start();
}

int shmem_init_thread(int requested, int *provided)
{
    (void)requested;
    shmem_init();
    *provided = SHMEM_THREAD_FUNNELED;
    return 0;
}

void shmem_query_thread(int *provided)
{
    *provided = SHMEM_THREAD_FUNNELED;
}

void shmem_finalize(void)
{
    if (!shmemi.started)
        return;

    shmem_barrier_all();
    shmemi.started = 0;
    arena_destroy(shmemi.arena);
    free(shmemi.mappings);
    free(shmemi.heaps);
}

void shmem_global_exit(int status)
{
    fflush(NULL);
    gasnet_exit(status);
}

int shmem_my_pe(void)
{
    return shmemi.started ? shmemi.pe : -1;
}

int shmem_n_pes(void)
{
    return shmemi.started ? shmemi.npes : -1;
}

int shmem_pe_accessible(int pe)
{
    return shmemi.started && pe >= 0 && pe < shmemi.npes;
}

int shmem_addr_accessible(const void *addr, int pe)
{
    struct place place;
    return shmem_pe_accessible(pe) && shmemi_find(addr, 1, &place) == 0;
}

void *shmem_ptr(const void *dest, int pe)
{
    struct place place;
    if (!shmem_pe_accessible(pe) || shmemi_find(dest, 1, &place))
        return NULL;

    return shmemi_mapped(place, pe);
}

void shmem_info_get_version(int *major, int *minor)
{
    *major = SHMEM_MAJOR_VERSION;
    *minor = SHMEM_MINOR_VERSION;
}

void shmem_info_get_name(char *name)
{
    strcpy(name, SHMEM_VENDOR_STRING);
}

/* ---- places ---- */

static int within(const void *addr, uint64_t nbytes, const void *base, uint64_t size,
                  uint64_t *offset)
{
    *offset = (uint64_t)((uintptr_t)addr - (uintptr_t)base);
    return *offset < size && nbytes <= size - *offset;
}

int shmemi_find(const void *addr, uint64_t nbytes, struct place *place)
{
    place->where = IN_HEAP;
    if (within(addr, nbytes, shmemi.heaps[shmemi.pe].addr, shmemi.heap_bytes, &place->offset))
        return 0;

    place->where = IN_PROGRAM;
    return within(addr, nbytes, shmemi.program, shmemi.program_bytes, &place->offset) ? 0 : -1;
}

struct place shmemi_place(const char *call, const void *addr, uint64_t nbytes)
{
    struct place place;

    if (shmemi_find(addr, nbytes, &place))
        shmemi_fail(
            call,
            "%llu bytes at %p are neither in the symmetric heap nor a variable of the program",
            (unsigned long long)nbytes, addr);

    return place;
}

void *shmemi_here(struct place place, uint64_t nbytes)
{
    uint64_t size = place.where == IN_HEAP ? shmemi.heap_bytes : shmemi.program_bytes;
    char *base = place.where == IN_HEAP ? (char *)shmemi.heaps[shmemi.pe].addr : shmemi.program;

    return place.offset <= size && nbytes <= size - place.offset ? base + place.offset : NULL;
}

void *shmemi_mapped(struct place place, int pe)
{
    if (pe == shmemi.pe)
        return shmemi_here(place, 0);
    if (place.where != IN_HEAP ||
        shmemi.mappings[pe].supernode != shmemi.mappings[shmemi.pe].supernode)
        return NULL;

    return (char *)shmemi_there(place, pe) + shmemi.mappings[pe].offset;
}

/* ---- waiting ---- */

enum {
    TURNS_BEFORE_YIELD = 100
};

void shmemi_pause(unsigned *turns)
{
    gasnet_AMPoll();
    if (++*turns > TURNS_BEFORE_YIELD)
        sched_yield();
}
