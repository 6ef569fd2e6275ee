/* SPDX-License-Identifier: BSD-3-Clause */
/* put, get and their like.  One pair of functions does the work; the calls of all types come from
 * the tables of shmem_types.h. */
#include <string.h>

#include "inside.h"

/* nbi: the source may not be used again before shmem_quiet. */
static void put(const char *call, void *dest, const void *source, size_t nbytes, int pe, int nbi)
{
    shmemi_check_pe(call, pe);

    struct place place = shmemi_place(call, dest, nbytes);

    if (pe == shmemi.pe)
        memmove(dest, source, nbytes);
    else if (place.where == IN_PROGRAM)
        shmemi_variables_put(place, source, nbytes, pe);
    else if (nbi)
        gasnet_put_nbi_bulk((gasnet_node_t)pe, shmemi_there(place, pe), (void *)source, nbytes);
    else
        gasnet_put_nbi((gasnet_node_t)pe, shmemi_there(place, pe), (void *)source, nbytes);
}

static void get(const char *call, void *dest, const void *source, size_t nbytes, int pe, int nbi)
{
    shmemi_check_pe(call, pe);

    struct place place = shmemi_place(call, source, nbytes);

    gasnet_AMPoll(); /* who spins on a get still answers others */
    if (pe == shmemi.pe)
        memmove(dest, source, nbytes);
    else if (place.where == IN_PROGRAM)
        shmemi_variables_get(dest, place, nbytes, pe);
    else if (nbi)
        gasnet_get_nbi_bulk(dest, (gasnet_node_t)pe, shmemi_there(place, pe), nbytes);
    else
        gasnet_get_bulk(dest, (gasnet_node_t)pe, shmemi_there(place, pe), nbytes);

    if (place.where == IN_PROGRAM && !nbi)
        GASNET_BLOCKUNTIL(shmemi.answered == shmemi.asked);
}

void shmem_putmem(void *dest, const void *source, size_t nbytes, int pe)
{
    put("shmem_putmem", dest, source, nbytes, pe, 0);
}

void shmem_getmem(void *dest, const void *source, size_t nbytes, int pe)
{
    get("shmem_getmem", dest, source, nbytes, pe, 0);
}

void shmem_putmem_nbi(void *dest, const void *source, size_t nbytes, int pe)
{
    put("shmem_putmem_nbi", dest, source, nbytes, pe, 1);
}

void shmem_getmem_nbi(void *dest, const void *source, size_t nbytes, int pe)
{
    get("shmem_getmem_nbi", dest, source, nbytes, pe, 1);
}

/* ---- strided: elements of size bytes, dst and sst of them apart ---- */

/* One strided transfer of GASNet, which packs it where that is faster. */
static void iput(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t size,
                 size_t nelems, int pe)
{
    shmemi_check_pe("shmem_iput", pe);
    if (nelems == 0)
        return;

    struct place place = shmemi_place("shmem_iput", dest, ((nelems - 1) * (size_t)dst + 1) * size);
    size_t to_step = (size_t)dst * size;
    size_t from_step = (size_t)sst * size;
    size_t count[] = { size, nelems };

    if (place.where == IN_HEAP && pe != shmemi.pe)
        gasnet_puts_bulk((gasnet_node_t)pe, shmemi_there(place, pe), &to_step, (void *)source,
                         &from_step, count, 1);
    else
        for (size_t i = 0; i < nelems; i++)
            put("shmem_iput", (char *)dest + i * to_step, (const char *)source + i * from_step,
                size, pe, 0);
}

static void iget(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t size,
                 size_t nelems, int pe)
{
    shmemi_check_pe("shmem_iget", pe);
    if (nelems == 0)
        return;

    struct place place = shmemi_place("shmem_iget", source,
                                      ((nelems - 1) * (size_t)sst + 1) * size);
    size_t to_step = (size_t)dst * size;
    size_t from_step = (size_t)sst * size;
    size_t count[] = { size, nelems };

    if (place.where == IN_HEAP && pe != shmemi.pe) {
        gasnet_gets_bulk(dest, &to_step, (gasnet_node_t)pe, shmemi_there(place, pe), &from_step,
                         count, 1);
        return;
    }

    for (size_t i = 0; i < nelems; i++)
        get("shmem_iget", (char *)dest + i * to_step, (const char *)source + i * from_step, size,
            pe, 1);

    GASNET_BLOCKUNTIL(shmemi.answered == shmemi.asked);
}

/* ---- the calls of all types ---- */

#define DEFINE_RMA(NAME, T) \
    void shmem_##NAME##_put(T *dest, const T *source, size_t nelems, int pe) \
    { \
        put("shmem_" #NAME "_put", dest, source, nelems * sizeof(T), pe, 0); \
    } \
    void shmem_##NAME##_get(T *dest, const T *source, size_t nelems, int pe) \
    { \
        get("shmem_" #NAME "_get", dest, source, nelems * sizeof(T), pe, 0); \
    } \
    void shmem_##NAME##_put_nbi(T *dest, const T *source, size_t nelems, int pe) \
    { \
        put("shmem_" #NAME "_put_nbi", dest, source, nelems * sizeof(T), pe, 1); \
    } \
    void shmem_##NAME##_get_nbi(T *dest, const T *source, size_t nelems, int pe) \
    { \
        get("shmem_" #NAME "_get_nbi", dest, source, nelems * sizeof(T), pe, 1); \
    } \
    void shmem_##NAME##_iput(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, \
                             size_t nelems, int pe) \
    { \
        iput(dest, source, dst, sst, sizeof(T), nelems, pe); \
    } \
    void shmem_##NAME##_iget(T *dest, const T *source, ptrdiff_t dst, ptrdiff_t sst, \
                             size_t nelems, int pe) \
    { \
        iget(dest, source, dst, sst, sizeof(T), nelems, pe); \
    } \
    void shmem_##NAME##_p(T *dest, T value, int pe) \
    { \
        put("shmem_" #NAME "_p", dest, &value, sizeof value, pe, 0); \
    } \
    T shmem_##NAME##_g(const T *source, int pe) \
    { \
        T value; \
        get("shmem_" #NAME "_g", &value, source, sizeof value, pe, 0); \
        return value; \
    }
SHMEM_RMA_TYPES(DEFINE_RMA)

#define DEFINE_SIZED(BITS, BYTES) \
    void shmem_put##BITS(void *dest, const void *source, size_t nelems, int pe) \
    { \
        put("shmem_put" #BITS, dest, source, nelems *BYTES, pe, 0); \
    } \
    void shmem_get##BITS(void *dest, const void *source, size_t nelems, int pe) \
    { \
        get("shmem_get" #BITS, dest, source, nelems *BYTES, pe, 0); \
    } \
    void shmem_put##BITS##_nbi(void *dest, const void *source, size_t nelems, int pe) \
    { \
        put("shmem_put" #BITS "_nbi", dest, source, nelems *BYTES, pe, 1); \
    } \
    void shmem_get##BITS##_nbi(void *dest, const void *source, size_t nelems, int pe) \
    { \
        get("shmem_get" #BITS "_nbi", dest, source, nelems *BYTES, pe, 1); \
    } \
    void shmem_iput##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
                          size_t nelems, int pe) \
    { \
        iput(dest, source, dst, sst, BYTES, nelems, pe); \
    } \
    void shmem_iget##BITS(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, \
                          size_t nelems, int pe) \
    { \
        iget(dest, source, dst, sst, BYTES, nelems, pe); \
    }
SHMEM_SIZES(DEFINE_SIZED)
