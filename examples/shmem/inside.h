/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations that the files of the OpenSHMEM-like library share.  The library uses GASNet-1 calls
 * only, and no internals of Amphora. */
#ifndef SHMEM_INSIDE_H
#define SHMEM_INSIDE_H

#include <gasnet.h>
#include <stdint.h>

#include "shmem.h"

struct arena;

/* The position of a symmetric object: the same two numbers in all processes, whose addresses may
 * differ. */
enum {
    IN_HEAP,
    IN_PROGRAM
};

struct place {
    int where;
    uint64_t offset;
};

/* The state of this process. */
struct shmemi {
    int started, pe, npes;
    struct arena *arena;
    gasnet_seginfo_t *heaps;     /* [npes] */
    gasnet_nodeinfo_t *mappings; /* [npes] */
    uint64_t heap_bytes;
    char *program; /* the program's variables, initialised ones first */
    uint64_t program_bytes;
    volatile uint64_t asked, answered; /* requests whose answers shmem_quiet waits for */
};

extern struct shmemi shmemi;

/* Ends the job with a sentence: call: ... */
void shmemi_fail(const char *call, const char *format, ...)
    __attribute__((__noreturn__, __format__(__printf__, 2, 3)));

/* Ends the job where the library has not been started or there is no such PE. */
void shmemi_check_pe(const char *call, int pe);

/* The place of [addr, addr + nbytes); 0, or -1: not symmetric. */
int shmemi_find(const void *addr, uint64_t nbytes, struct place *place);
/* The same; ends the job if it is not. */
struct place shmemi_place(const char *call, const void *addr, uint64_t nbytes);
/* Its address here; NULL: outside. */
void *shmemi_here(struct place place, uint64_t nbytes);
/* Its address at pe, for the calls of GASNet: in the heap only. */
static inline void *shmemi_there(struct place place, int pe)
{
    return (char *)shmemi.heaps[pe].addr + place.offset;
}

/* Its address in this process if pe's memory is mapped here, else NULL. */
void *shmemi_mapped(struct place place, int pe);

/* Messages carry 64-bit numbers as two arguments, places as one number. */
#define ARG_HIGH(v) ((gasnet_handlerarg_t)((uint64_t)(v) >> 32))
#define ARG_LOW(v) ((gasnet_handlerarg_t)(uint64_t)(v))
static inline uint64_t shmemi_joined(gasnet_handlerarg_t high, gasnet_handlerarg_t low)
{
    return (uint64_t)(uint32_t)high << 32 | (uint32_t)low;
}

static inline uint64_t shmemi_packed(struct place place)
{
    return place.offset << 1 | (unsigned)place.where;
}

static inline struct place shmemi_unpacked(uint64_t packed)
{
    return (struct place){ (int)(packed & 1), packed >> 1 };
}
#define POINTER_OF(high, low) ((void *)(uintptr_t)shmemi_joined(high, low))

/* The handlers; each file registers its own. */
enum {
    H_VARIABLE_PUT = 200,
    H_VARIABLE_PUT_DONE,
    H_VARIABLE_GET,
    H_VARIABLE_GET_DONE,
    H_AMO,
    H_AMO_DONE,
};

void shmemi_variable_put(gasnet_token_t token, void *data, size_t nbytes, gasnet_handlerarg_t at1,
                         gasnet_handlerarg_t at0);
void shmemi_answered(gasnet_token_t token);
void shmemi_variable_get(gasnet_token_t token, gasnet_handlerarg_t at1, gasnet_handlerarg_t at0,
                         gasnet_handlerarg_t nbytes, gasnet_handlerarg_t to1,
                         gasnet_handlerarg_t to0);
void shmemi_variable_got(gasnet_token_t token, void *data, size_t nbytes, gasnet_handlerarg_t to1,
                         gasnet_handlerarg_t to0);
void shmemi_amo_asked(gasnet_token_t token, gasnet_handlerarg_t how, gasnet_handlerarg_t at1,
                      gasnet_handlerarg_t at0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a0,
                      gasnet_handlerarg_t b1, gasnet_handlerarg_t b0, gasnet_handlerarg_t to1,
                      gasnet_handlerarg_t to0);
void shmemi_amo_done(gasnet_token_t token, gasnet_handlerarg_t v1, gasnet_handlerarg_t v0,
                     gasnet_handlerarg_t to1, gasnet_handlerarg_t to0);

/* Copies between the program's variables of pe and memory here, by messages (variables.c). */
void shmemi_variables_put(struct place place, const void *source, uint64_t nbytes, int pe);
void shmemi_variables_get(void *dest, struct place place, uint64_t nbytes, int pe);

/* One operation on the word of bytes (4 or 8) at pe; gives what was there.  With fetch 0 it may not
 * have happened before shmem_quiet. */
enum amo {
    AMO_GET,
    AMO_SET,
    AMO_ADD,
    AMO_AND,
    AMO_OR,
    AMO_XOR,
    AMO_CSWAP,
    AMO_COUNT
};

uint64_t shmemi_amo(const char *call, enum amo op, const void *dest, int bytes, uint64_t a,
                    uint64_t b, int pe, int fetch);

/* One step of a wait for something that any process may change by a plain store: lets messages in,
 * then others run. */
void shmemi_pause(unsigned *turns);
#define SHMEMI_WAIT(cond) \
    do { \
        unsigned turns_ = 0; \
        while (!(cond)) \
            shmemi_pause(&turns_); \
        __atomic_thread_fence(__ATOMIC_ACQUIRE); \
    } while (0)

#endif
