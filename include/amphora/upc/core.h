/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start and end, static shared objects, upc_forall, barriers, locks, clock.
 */
#ifndef AMPHORA_UPC_CORE_H
#define AMPHORA_UPC_CORE_H

#include <stdint.h>

#include "amphora/upc/pts.h"

/* ---- start and end (UPC 1.3, 5.1.2; RL 7.2.1) ---- */

/* Starts the program: joins the job, makes the shared memory, makes and initialises the static
 * shared objects, calls user(argc, argv) and returns what it returns, after a barrier of all
 * threads (which exit() makes, too).  form: UPC_PTS_FORM; threads: those the program was compiled
 * for, or 0.  doc/bridge.md has the order of calls.  A program calls it through UPC_MAIN. */
int upc_run(int argc, char **argv, int (*user)(int, char **), int form, int threads);

#ifdef UPC_STATIC_THREADS
#define UPC_BUILT_THREADS (UPC_STATIC_THREADS)
#else
#define UPC_BUILT_THREADS 0
#endif

/* main for a program whose own is f: int f(int, char **), or int f(void). */
#define UPC_MAIN(f) \
    int main(int upc_argc, char **upc_argv) \
    { \
        return upc_run(upc_argc, upc_argv, f, UPC_PTS_FORM, UPC_BUILT_THREADS); \
    }
#define UPC_MAIN_VOID(f) \
    static int upc_main_of_void(int upc_argc, char **upc_argv) \
    { \
        (void)upc_argc, (void)upc_argv; \
        return f(); \
    } \
    UPC_MAIN(upc_main_of_void)

/* Flushes all streams of this process and ends the program in all threads (RL 7.2.1). */
void upc_global_exit(int status) AMPHORA_NORETURN;

/* ---- static shared objects (UPC 1.3, 6.5.1, 6.5.2) ---- */

/* One object; a constructor of its file puts it in a list, and upc_run gives it memory, zero, in
 * the order of the list, which is the same in all threads.  count and block are functions because
 * they may depend on THREADS. */
struct upc_static {
    upc_pts_t *pts; /* the program's variable */
    const char *name;
    size_t elem_size;
    size_t (*block)(void); /* elements; 0: indefinite */
    size_t (*count)(void); /* elements of the whole array */
    /* or NULL; run by thread 0 when all objects exist and before main anywhere */
    void (*initial)(void);
    struct upc_static *next;
};

void upc_static_add(struct upc_static *object);

/* shared [block] T name[count] with linkage `storage` (nothing, or static).  block and count:
 * expressions, also with THREADS; for the layout [*] give UPC_BLOCK_STAR(count).  T: a type that
 * can precede a * and in sizeof.  A scalar has block 1 and count 1.  name is a upc_pts_t
 * afterwards: the pointer to element 0.  At file scope, with a semicolon behind it. */
#define UPC_SHARED(storage, name, T, block, count) \
    storage upc_pts_t name; \
    static size_t name##_upc_block(void) \
    { \
        return (size_t)(block); \
    } \
    static size_t name##_upc_count(void) \
    { \
        return (size_t)(count); \
    } \
    static struct upc_static name##_upc_static = { \
        &name, #name, sizeof(T), name##_upc_block, name##_upc_count, 0, 0 \
    }; \
    __attribute__((constructor)) static void name##_upc_add(void) \
    { \
        upc_static_add(&name##_upc_static); \
    } \
    struct upc_static

/* Behind UPC_SHARED in the same file: a body that gives the object its value: UPC_SHARED_INITIAL(x)
 * { UPC_STORE(int, x, 5); } */
#define UPC_SHARED_INITIAL(name) \
    static void name##_upc_initial(void); \
    __attribute__((constructor)) static void name##_upc_set(void) \
    { \
        name##_upc_static.initial = name##_upc_initial; \
    } \
    static void name##_upc_initial(void)

/* The block size of [*] (6.5.1.1). */
#define UPC_BLOCK_STAR(count) (((size_t)(count) + (size_t)THREADS - 1) / (size_t)THREADS)

/* ---- upc_forall (UPC 1.3, 6.6.2) ---- */

/* Only the outermost upc_forall that has an affinity chooses: inside it, also in functions called
 * from it, others run through all. */
struct upc_forall_scope {
    int outer, once;
};

AMPHORA_INLINE struct upc_forall_scope upc_forall_enter(void)
{
    struct upc_forall_scope scope = { upc_self.forall, 1 };

    upc_self.forall = 1;
    return scope;
}

AMPHORA_INLINE void upc_forall_leave(struct upc_forall_scope *scope)
{
    upc_self.forall = scope->outer;
}

/* Are iterations with this affinity expression the calling thread's? */
AMPHORA_INLINE int upc_mine_int(int64_t affinity)
{
    int64_t thread;

    upc_floor_div(affinity, THREADS, &thread);
    return thread == MYTHREAD;
}
#define UPC_MINE_INT(e) upc_mine_int((int64_t)(e))
#define UPC_MINE_PTS(e) ((int)upc_pts_thread(e) == MYTHREAD)

/* upc_forall (int i = 0, i < n, i++, UPC_MINE_INT(i)) statement;  break, continue, return and goto
 * have their meaning. */
#define upc_forall(start, condition, step, mine) \
    for (struct upc_forall_scope upc_scope \
         __attribute__((cleanup(upc_forall_leave))) = upc_forall_enter(); \
         upc_scope.once; upc_scope.once = 0) \
        for (start; condition; step) \
            if (upc_scope.outer || (mine))

/* ---- barriers and fence (UPC 1.3, 6.6.1) ---- */

/* All are strict references.  The _value forms: threads whose values differ end the job with a
 * sentence; those without one match any. */
void upc_notify(void);
void upc_wait(void);
void upc_barrier(void);
void upc_notify_value(int value);
void upc_wait_value(int value);
void upc_barrier_value(int value);

/* Lets messages of others in and, now and then, other processes run.  A thread that spins on a
 * strict read or on atomics waits for others, who may need it: so every 64th strict access and
 * atomic operation polls. */
void upc_poll(void);
AMPHORA_INLINE void upc_look(void)
{
    if (AMPHORA_UNLIKELY((++upc_self.looks & 63) == 0))
        upc_poll();
}

/* A null strict reference: all accesses before it are complete before any behind it. */
AMPHORA_INLINE void upc_fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    upc_look();
}

/* ---- locks (RL 7.2.4) ---- */

/* Opaque; a upc_lock_t * means the same lock in all threads and may lie in shared memory.  Locks
 * are fair: threads get them in the order in which they asked.  upc_lock and upc_unlock are
 * strict. */
typedef struct upc_lock upc_lock_t;

/* 7.2.4.2: not collective; each call makes a lock, with affinity to the caller */
upc_lock_t *upc_global_lock_alloc(void);
/* 7.2.4.3: collective; one lock, the same pointer everywhere */
upc_lock_t *upc_all_lock_alloc(void);
void upc_lock_free(upc_lock_t *lock);     /* 7.2.4.4: by one thread; NULL: nothing */
void upc_all_lock_free(upc_lock_t *lock); /* 7.2.4.5: collective */
void upc_lock(upc_lock_t *lock);          /* 7.2.4.6: waits; not by a thread that holds it */
int upc_lock_attempt(upc_lock_t *lock);   /* 7.2.4.7: 1: it is the caller's now; 0: another's */
void upc_unlock(upc_lock_t *lock);        /* 7.2.4.8: by the thread that holds it */

/* ---- wall clock (RL 7.5) ---- */

typedef uint64_t upc_tick_t;
#define UPC_TICK_MIN ((upc_tick_t)0)
#define UPC_TICK_MAX ((upc_tick_t)-1)
upc_tick_t upc_ticks_now(void);
uint64_t upc_ticks_to_ns(upc_tick_t ticks);

/* ---- castability (OL 7.6) ---- */

#include "amphora/upc/castable_words.h"

/* The address of *p in this process, or NULL: not mapped here, or a null pointer. */
AMPHORA_INLINE void *upc_cast(upc_pts_t p)
{
    struct upc_wide w = upc_pts_wide(p);
    uintptr_t here = upc_self.place[w.thread].here;

    return here && w.addr ? (void *)(here + w.addr) : 0;
}

/* Both fields are UPC_CASTABLE_ALL or 0. */
upc_thread_info_t upc_thread_info(size_t thread);

#endif
