/* SPDX-License-Identifier: BSD-3-Clause */
/* Work stealing in the manner of UTS, UPC behind the macros of a portable .c file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__UPC__)
#include <upc.h>
#define PARALLEL 1
#define COMPILER_TYPE 1
#define SHARED shared
#define SHARED_INDEF shared[0]
#define VOLATILE strict
#define GET_NUM_THREADS THREADS
#define GET_THREAD_NUM MYTHREAD
#define SMEMCPY upc_memget
#define LOCK_T upc_lock_t
#define SET_LOCK(zlk) upc_lock(zlk)
#define UNSET_LOCK(zlk) upc_unlock(zlk)
#define INIT_LOCK(zlk) zlk = upc_global_lock_alloc()
#define INIT_SINGLE_LOCK(zlk) zlk = upc_all_lock_alloc()
#define BARRIER upc_barrier;
#define ALLOC upc_alloc
#else
#error not UPC
#endif
struct state_t {
    unsigned char state[20];
};
typedef struct node_t Node;
struct node_t {
    int type;
    int height;
    int numChildren;
    struct state_t state;
};
#define MAXSTACKDEPTH 20000
enum {
    SS_WORK,
    SS_SEARCH,
    SS_IDLE,
    SS_NSTATES
};
struct stealStack_t {
    int stackSize;
    int workAvail;
    int sharedStart;
    int local;
    int top;
    int maxStackDepth;
    int nNodes, maxTreeDepth;
    int nAcquire, nRelease, nSteal, nFail;
    int wakeups, falseWakeups;
    double time[SS_NSTATES];
    SHARED_INDEF Node *stack;
    LOCK_T *stackLock;
};
typedef struct stealStack_t StealStack;
typedef SHARED StealStack *SharedStealStackPtr;
SHARED StealStack stealStack[THREADS];
static VOLATILE SHARED int cb_cancel, cb_count, cb_done;
LOCK_T *cb_lock;

static unsigned rng(unsigned x)
{
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return x;
}

static void ss_init(StealStack *s, int n)
{
    INIT_LOCK(s->stackLock);
    s->stack = (SHARED_INDEF Node *)ALLOC(n * sizeof(Node));
    if (!s->stack) {
        printf("no mem\n");
        upc_global_exit(4);
    }
    s->maxStackDepth = n;
    s->top = s->local = s->sharedStart = s->workAvail = s->nNodes = 0;
}

static void ss_push(StealStack *s, Node *c)
{
    if (s->top >= s->maxStackDepth)
        upc_global_exit(5);
    memcpy((void *)&s->stack[s->top], c, sizeof(Node));
    s->top++;
    s->nNodes++;
}

static Node *ss_top(StealStack *s)
{
    return (Node *)&s->stack[s->top - 1];
}

static int ss_release(StealStack *s, int k)
{
    SET_LOCK(s->stackLock);
    int ok = s->top - s->local >= 2 * k;
    if (ok) {
        s->local += k;
        s->workAvail += k;
        s->nRelease++;
    }
    UNSET_LOCK(s->stackLock);
    return ok;
}

static int ss_acquire(StealStack *s, int k)
{
    SET_LOCK(s->stackLock);
    int avail = s->local - s->sharedStart;
    if (avail >= k) {
        s->local -= k;
        s->workAvail -= k;
    }
    UNSET_LOCK(s->stackLock);
    return avail >= k;
}

static int ss_steal(StealStack *s, int victim, int k)
{
    if (s->sharedStart != s->top)
        exit(6);
    SET_LOCK(stealStack[victim].stackLock);
    int vs = stealStack[victim].sharedStart, avail = stealStack[victim].local - vs;
    int ok = avail >= k;
    if (ok) {
        stealStack[victim].sharedStart = vs + k;
        stealStack[victim].workAvail -= k;
    }
    UNSET_LOCK(stealStack[victim].stackLock);
    if (ok) {
        SHARED_INDEF Node *vb = stealStack[victim].stack + vs;
        SMEMCPY((Node *)&s->stack[s->top], vb, k * sizeof(Node));
        s->nSteal++;
        s->top += k;
    }
    return ok;
}

static int cbarrier_wait(void)
{
    int l;
    SET_LOCK(cb_lock);
    cb_count++;
    if (cb_count == THREADS)
        cb_done = 1;
    UNSET_LOCK(cb_lock);
    do {
        l = 0;
        for (int i = 0; i < THREADS; i++)
            if (stealStack[i].workAvail > 0)
                l = 1;
    } while (!l && !cb_done);
    SET_LOCK(cb_lock);
    cb_count--;
    int d = cb_done;
    UNSET_LOCK(cb_lock);
    return d;
}

static shared int total, leaves;

int main(int argc, char *argv[])
{
    (void)argc;
    (void)argv;
    StealStack *ss = (StealStack *)&stealStack[MYTHREAD];
    ss_init(ss, MAXSTACKDEPTH);
    INIT_SINGLE_LOCK(cb_lock);
    const int k = 2;
    int nleaf = 0;
    if (MYTHREAD == 0) {
        Node root;
        memset(&root, 0, sizeof root);
        root.height = 0;
        *(unsigned *)root.state.state = 12345;
        ss_push(ss, &root);
    }
    BARRIER
    int done = 0;
    Node child;
    memset(&child, 0, sizeof child);
    while (!done) {
        while (ss->top > ss->local) {
            Node p = *ss_top(ss);
            ss->top--;
            unsigned r = *(unsigned *)p.state.state;
            int n = p.height < 10 ? (p.height == 0 ? 8 : (int)(rng(r) % 4)) : 0;
            if (n == 0)
                nleaf++;
            for (int i = 0; i < n; i++) {
                child.height = p.height + 1;
                *(unsigned *)child.state.state = rng(r * 31 + i + 1);
                ss_push(ss, &child);
            }
            ss_release(ss, k);
        }
        if (ss_acquire(ss, k))
            continue;
        {
            ss->sharedStart = ss->local = ss->top;
            int good = 0;
            for (int i = 1; i < THREADS && !good; i++) {
                int v = (MYTHREAD + i) % THREADS;
                if (stealStack[v].workAvail >= k) {
                    ss->sharedStart = ss->local = ss->top = 0;
                    good = ss_steal(ss, v, k);
                }
            }
            if (good)
                continue;
        }
        done = cbarrier_wait();
    }
    BARRIER
    SET_LOCK(cb_lock);
    total += ss->nNodes;
    leaves += nleaf;
    UNSET_LOCK(cb_lock);
    BARRIER
    if (MYTHREAD == 0)
        if (total != 824 || leaves != 417) {
            fprintf(stderr, "%d nodes, %d leaves\n", total, leaves);
            return 1;
        }
    return 0;
}
