/* SPDX-License-Identifier: BSD-3-Clause */
/* A distributed hash table in the manner of HipMer: lists across threads, locks, atomics,
 * callbacks, non-blocking copies. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <assert.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>
#include <upc.h>
#include <upc_tick.h>
#include <upc_atomic.h>
#include <upc_nb.h>
#define KMER 21
#define DIE(fmt, ...) \
    do { \
        fprintf(stderr, "[%d] %s:%d %s " fmt, MYTHREAD, __FILE__, __LINE__, __func__, \
                ##__VA_ARGS__); \
        fflush(stderr); \
        upc_global_exit(1); \
    } while (0)
#define LOGF(fmt, ...) \
    ({ \
        if (0) \
            fprintf(stderr, fmt, ##__VA_ARGS__); \
        0; \
    })
#define CHECK_BOUNDS(p, n) \
    ((p) < (n) ? (p) : ({ \
        DIE("bounds %ld\n", (long)(p)); \
        (p); \
    }))
#define UPC_TICK_T upc_tick_t
typedef struct list_t list_t;
typedef shared[] list_t *shared_list_ptr;
struct list_t {
    shared_list_ptr next;
    char kmer[(KMER + 3) / 4];
    uint8_t used;
    int64_t count;
};
typedef struct {
    shared_list_ptr head;
} bucket_t;
typedef struct {
    int64_t size;
    shared[1] bucket_t *table;
} hash_table_t;
typedef struct {
    shared[] list_t *heap_ptr;
    int64_t idx, cap;
} heap_struct;
typedef shared[] list_t *shared_heap_ptr;
typedef struct {
    shared_heap_ptr ptr;
} heap_dir_t;
typedef enum {
    UNUSED = 0,
    USED,
    ABORTED
} state_e;
typedef struct {
    union {
        struct {
            uint32_t lo, hi;
        };
        uint64_t u64;
    };
} mixed_t;
typedef int (*cb_t)(shared[] list_t *, void *arg);
shared heap_dir_t dirs[THREADS];
shared int64_t heap_idx[THREADS];
upc_atomicdomain_t *dom;

static uint64_t hashk(const char *k, int n)
{
    uint64_t h = 1469598103934665603ULL;
    for (int i = 0; i < n; i++) {
        h ^= (unsigned char)k[i];
        h *= 1099511628211ULL;
    }
    return h;
}

static hash_table_t *create(int64_t size)
{
    hash_table_t *h = calloc(1, sizeof *h);
    h->size = size;
    h->table = (shared[1] bucket_t *)upc_all_alloc(size, sizeof(bucket_t));
    if (h->table == NULL)
        DIE("no table %lld\n", (long long)size);
    for (int64_t i = MYTHREAD; i < size; i += THREADS)
        h->table[i].head = NULL;
    upc_barrier;
    return h;
}

static int insert(hash_table_t *h, heap_struct *hp, const char *k, upc_lock_t **locks, int nl)
{
    uint64_t b = hashk(k, sizeof(((list_t *)0)->kmer)) % h->size;
    upc_lock_t *l = locks[b % nl];
    int added = 0;
    upc_lock(l);
    shared_list_ptr p = h->table[b].head;
    list_t copy;
    for (; p != NULL; p = copy.next) {
        copy = *p;
        if (memcmp(copy.kmer, k, sizeof copy.kmer) == 0) {
            p->count++;
            break;
        }
    }
    if (!p) {
        shared_list_ptr n = hp->heap_ptr + CHECK_BOUNDS(hp->idx, hp->cap);
        hp->idx++;
        list_t e = { .used = USED, .count = 1 };
        memcpy(e.kmer, k, sizeof e.kmer);
        e.next = h->table[b].head;
        *n = e;
        upc_fence;
        h->table[b].head = n;
        added = 1;
    }
    upc_unlock(l);
    return added;
}

static int visit(hash_table_t *h, cb_t cb, void *a)
{
    int n = 0;
    upc_forall(int64_t i = 0; i < h->size; i++; i)
    {
        for (shared_list_ptr p = h->table[i].head; p; p = p->next)
            n += cb(p, a);
    }
    return n;
}

static int count_cb(shared[] list_t *e, void *a)
{
    *(int64_t *)a += e->count;
    return e->used == USED;
}

static shared int64_t results[2 * THREADS];

int main(int argc, char **argv)
{
    UPC_TICK_T start = upc_ticks_now();
    (void)argv;
    (void)argc;
    dom = upc_all_atomicdomain_alloc(UPC_INT64, UPC_ADD | UPC_GET | UPC_INC, 0);
    hash_table_t *h = create(97 * THREADS);
    heap_struct hp = { 0 };
    hp.cap = 1000;
    hp.heap_ptr = (shared[] list_t *)upc_alloc(hp.cap * sizeof(list_t));
    dirs[MYTHREAD].ptr = hp.heap_ptr;
    enum {
        NL = 8
    };
    upc_lock_t *locks[NL];
    for (int i = 0; i < NL; i++)
        locks[i] = upc_all_lock_alloc();
    if (hp.heap_ptr == NULL)
        DIE("heap\n");
    mixed_t m;
    m.u64 = 1;
    assert(m.lo == 1);
    int added = 0;
    for (int i = 0; i < 300; i++) {
        char k[(KMER + 3) / 4];
        for (size_t j = 0; j < sizeof k; j++)
            k[j] = (char)((i * 7 + j) % 50);
        added += insert(h, &hp, k, locks, NL);
    }
    int64_t one = added, old;
    upc_atomic_relaxed(dom, &old, UPC_ADD, &heap_idx[0], &one, NULL);
    LOGF("%d\n", added);
    upc_barrier __LINE__;
    int64_t tot = 0;
    int seen = visit(h, count_cb, &tot);
    results[MYTHREAD] = tot;
    results[THREADS + MYTHREAD] = seen;
    list_t first;
    upc_handle_t hd = upc_memget_nb(&first, dirs[(MYTHREAD + 1) % THREADS].ptr, sizeof first);
    upc_sync(hd);
    upc_barrier;
    int64_t t = 0, s = 0;
    for (int i = 0; i < THREADS; i++) {
        t += results[i];
        s += results[THREADS + i];
    }
    if (t != 300LL * THREADS || s != 50 || heap_idx[0] != 50)
        DIE("t %ld s %ld idx %ld\n", (long)t, (long)s, (long)heap_idx[0]);
    if (upc_ticks_to_ns(upc_ticks_now() - start) == 0)
        DIE("no time passed\n");
    upc_all_free(h->table);
    upc_barrier;
    return 0;
}
