/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting threads, and blocking calls; see thread.h.  Layer: base. */
#include "base/os/thread.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_once_t once;
    unsigned running; /* threads that amph_thread_start has started; atomic */
    void (*wait_mask)(sigset_t *mask_p);
    uint32_t (*fd_table)(void);
} state = { .once = PTHREAD_ONCE_INIT };

struct start {
    void *(*run)(void *arg);
    void *arg;
    sigset_t end_mask;
};

static void forget_threads(void)
{
    __atomic_store_n(&state.running, 0, __ATOMIC_RELAXED);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_threads);
}

static void *run_thread(void *arg)
{
    struct start start = *(struct start *)arg;

    free(arg);
    __atomic_add_fetch(&state.running, 1, __ATOMIC_RELAXED);

    void *result = start.run(start.arg);

    /* If the program's threads have ended before, the C library calls exit in this thread when it
     * returns: signals that would have ended the program must end it then, too.  Otherwise they are
     * for the program's threads until the very end. */
    bool is_last = amph_thread_program_ended();

    __atomic_sub_fetch(&state.running, 1, __ATOMIC_RELAXED);
    if (is_last)
        pthread_sigmask(SIG_SETMASK, &start.end_mask, NULL);

    return result;
}

int amph_thread_start(pthread_t *thread_p, bool detached, size_t stack_bytes,
                      void *(*run)(void *arg), void *arg)
{
    struct start *start = malloc(sizeof *start);
    pthread_attr_t attr;
    sigset_t all, before;

    if (!start)
        return ENOMEM;

    pthread_once(&state.once, watch_forks);
    amph_thread_wait_begin(&before);
    *start = (struct start){ .run = run, .arg = arg };
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &start->end_mask);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr,
                                detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
    if (stack_bytes)
        pthread_attr_setstacksize(&attr, stack_bytes);

    int err = pthread_create(thread_p, &attr, run_thread, start);

    if (err)
        free(start);

    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

/* Has the first thread ended?  The kernel keeps it as a zombie until the others have ended, too. */
static bool has_main_ended(void)
{
    char path[64], line[512];
    char word = 0;

    snprintf(path, sizeof path, "/proc/self/task/%ld/stat", (long)getpid());

    FILE *stat = fopen(path, "re");

    if (!stat)
        return false;

    const char *end = fgets(line, sizeof line, stat) ? strrchr(line, ')') : NULL;

    if (end && end[1] == ' ')
        word = end[2];

    fclose(stat);
    return word == 'Z' || word == 'X';
}

bool amph_thread_program_ended(void)
{
    unsigned tasks = 0;

    if (!has_main_ended())
        return false;

    DIR *dir = opendir("/proc/self/task");

    if (!dir)
        return false;

    for (const struct dirent *entry; (entry = readdir(dir));)
        tasks += entry->d_name[0] != '.';

    closedir(dir);
    return tasks <= 1 + __atomic_load_n(&state.running, __ATOMIC_RELAXED);
}

void amph_thread_set_wait_mask(void (*fn)(sigset_t *mask_p))
{
    __atomic_store_n(&state.wait_mask, fn, __ATOMIC_RELAXED);
}

void amph_thread_wait_begin(sigset_t *before_p)
{
    void (*fn)(sigset_t *) = __atomic_load_n(&state.wait_mask, __ATOMIC_RELAXED);
    sigset_t mask;

    pthread_sigmask(SIG_SETMASK, NULL, before_p);
    if (!fn)
        return;

    mask = *before_p;
    fn(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

void amph_thread_wait_end(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

void amph_thread_fd_table_by(uint32_t (*number)(void))
{
    state.fd_table = number;
}

uint32_t amph_thread_fd_table(void)
{
    return state.fd_table ? state.fd_table() : 0;
}
