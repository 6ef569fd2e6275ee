/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processes and threads of a replay; see replay.h.
 *
 * Layer: tools.  Thread rule: as in the recorded run.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/trace/replay.h"
#include "tools/trace/trace.h"

enum {
    SPINS = 200,
    STEP_WAIT_NS = 100000000 /* after which a wait looks whether the replay has failed */
};

struct thread_arg {
    const struct replay *r;
    uint32_t thread;
    int *fds;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void wait_for(const struct replay *r, _Atomic uint32_t *word, uint32_t min)
{
    const struct timespec limit = { 0, STEP_WAIT_NS };

    for (unsigned i = 0;; i++) {
        uint32_t value = atomic_load(word);

        if (value >= min || atomic_load(&r->shared->failed))
            return;
        if (i >= SPINS)
            syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
    }
}

/* Computes until the time `until`, as the program did. */
static void think(uint64_t until, uint64_t sleep_ns)
{
    if (sleep_ns) {
        const struct timespec pause = { (time_t)(sleep_ns / 1000000000),
                                        (long)(sleep_ns % 1000000000) };

        nanosleep(&pause, NULL);
    }

    while (now_ns() < until) {
    }
}

/* What a thread has done, added to the whole when it ends. */
struct sums {
    uint64_t calls, other_results;
    uint64_t class_ns[AMPH_TRACE_CLASSES], class_calls[AMPH_TRACE_CLASSES];
};

static void note(const struct replay *r, struct sums *sums, const struct replay_step *s,
                 int64_t result, uint64_t ns)
{
    const struct amph_trace_event *e = &r->trace->events[s->event];
    bool failed = e->has & AMPH_TRACE_HAS_FAILED;
    bool awaits = s->kind == REPLAY_AWAIT;
    bool moves_data = s->kind == REPLAY_READ || s->kind == REPLAY_WRITE || awaits;
    uint32_t none = REPLAY_NONE;

    /* a request is one call, whose result comes last */
    sums->calls += !awaits;
    sums->class_ns[s->cls] += ns;
    sums->class_calls[s->cls] += !awaits;
    if (s->kind == REPLAY_START)
        return;

    if (failed == (result < 0) && !(moves_data && !failed && result != e->result))
        return;

    sums->other_results++;
    atomic_compare_exchange_strong(&r->shared->first_other, &none, s->event);
}

static void add_up(struct replay_shared *shared, const struct sums *sums, uint64_t at)
{
    uint64_t end = atomic_load(&shared->end_ns);

    atomic_fetch_add(&shared->calls, sums->calls);
    atomic_fetch_add(&shared->other_results, sums->other_results);
    for (int c = 0; c < AMPH_TRACE_CLASSES; c++) {
        atomic_fetch_add(&shared->class_ns[c], sums->class_ns[c]);
        atomic_fetch_add(&shared->class_calls[c], sums->class_calls[c]);
    }

    while (end < at && !atomic_compare_exchange_weak(&shared->end_ns, &end, at)) {
    }
}

static void run_process(const struct replay *r, uint32_t process, int *fds);

static bool start_children(const struct replay *r, uint32_t process, uint32_t step, int *fds)
{
    for (uint32_t i = 0; i < r->trace->nprocesses; i++) {
        const struct replay_process *p = &r->processes[i];

        if (!p->nthreads || p->parent != process ||
            (p->parent != REPLAY_NONE && p->start_step != step))
            continue;

        pid_t pid = fork();

        if (pid == 0)
            run_process(r, i, fds);
        if (pid < 0) {
            trace_fail("a process cannot be started: %s", strerror(errno));
            return false;
        }
    }

    return true;
}

static void *run_thread(void *argument)
{
    const struct thread_arg *arg = argument;
    const struct replay *r = arg->r;
    const struct replay_thread *th = &r->threads[arg->thread];
    _Atomic uint32_t *done = &r->shared->done[arg->thread];
    struct replay_task task = { .r = r, .fds = arg->fds };
    struct sums sums = { 0 };

    task.data = mmap(NULL, REPLAY_BYTES_MAX, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (task.data == MAP_FAILED) {
        trace_fail("there is not enough memory");
        atomic_store(&r->shared->failed, 1);
        return NULL;
    }

    wait_for(r, &r->shared->go, 1);

    uint64_t at = now_ns();

    for (uint32_t s = th->first; s < th->first + th->n && !atomic_load(&r->shared->failed); s++) {
        const struct replay_step *step = &r->steps[s];

        if (step->thread != REPLAY_NONE) {
            wait_for(r, &r->shared->done[step->thread], step->done);
            at = now_ns();
        }

        if (r->thinks)
            think(at + step->sleep_ns + step->think_ns, step->sleep_ns);

        if (step->starts && !start_children(r, th->process, s, arg->fds))
            atomic_store(&r->shared->failed, 1);

        uint64_t from = now_ns();

        if (step->kind != REPLAY_MARK) {
            int64_t result = replay_call(&task, step);

            at = now_ns();
            note(r, &sums, step, result, at - from);
        } else
            at = from;

        if (step->awaited) {
            atomic_store(done, s + 1 - th->first);
            syscall(SYS_futex, done, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        }
    }

    replay_await_all(&task);
    add_up(r->shared, &sums, at);
    munmap(task.data, REPLAY_BYTES_MAX);
    return NULL;
}

/* In the process itself; does not return.  A process ends with its last child. */
static void run_process(const struct replay *r, uint32_t process, int *fds)
{
    const struct replay_process *p = &r->processes[process];
    struct thread_arg *args = calloc(p->nthreads, sizeof *args);
    pthread_t *threads = calloc(p->nthreads, sizeof *threads);
    uint32_t started = 1;
    int status = 0;

    for (uint32_t i = 0; args && threads && i < p->nthreads; i++) {
        args[i] = (struct thread_arg){ r, p->first_thread + i, fds };
        if (i > 0 && pthread_create(&threads[i], NULL, run_thread, &args[i]) != 0)
            break;

        started = i + 1;
    }

    bool ok = args && threads && started == p->nthreads;

    if (ok)
        run_thread(&args[0]);
    else
        atomic_store(&r->shared->failed, 1);

    for (uint32_t i = 1; threads && i < started; i++)
        pthread_join(threads[i], NULL);

    while (wait(&status) > 0)
        ok = ok && status == 0;

    if (!ok)
        atomic_store(&r->shared->failed, 1);

    exit(ok ? 0 : 1);
}

uint64_t replay_run(struct replay *r)
{
    size_t bytes = sizeof *r->shared + (r->nthreads + 1) * sizeof r->shared->done[0];
    int *fds = malloc(REPLAY_FDS * sizeof *fds);
    int status = 0;

    r->shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r->shared == MAP_FAILED || !fds) {
        free(fds);
        trace_fail("there is not enough memory");
        return 0;
    }

    for (int i = 0; i < REPLAY_FDS; i++)
        fds[i] = -1;

    atomic_store(&r->shared->first_other, REPLAY_NONE);
    fflush(stdout);

    bool ok = start_children(r, REPLAY_NONE, REPLAY_NONE, fds);
    uint64_t from = now_ns();

    atomic_store(&r->shared->go, 1);
    syscall(SYS_futex, &r->shared->go, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    while (wait(&status) > 0)
        if (status != 0) {
            atomic_store(&r->shared->failed, 1);
            ok = false;
        }

    free(fds);
    if (!ok || atomic_load(&r->shared->failed)) {
        trace_fail("the replay has failed: one of its processes ended too early");
        return 0;
    }

    return atomic_load(&r->shared->end_ns) - from;
}
