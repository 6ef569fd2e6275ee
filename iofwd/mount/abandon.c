/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: answers in the place of threads that a server keeps waiting.
 *
 * A program that is being killed waits in the kernel until its request has been answered, which a
 * server that hangs never does.  So each thread notes which request it executes; the kernel reports a
 * signal for a program that waits (FUSE_INTERRUPT), and a thread of its own then looks whether that
 * program is being killed.  If it is, the request is answered with EINTR: it is abandoned.  The thread
 * that executes it continues until its server answers, and its own reply, which comes too late, is
 * refused by the kernel (ENOENT).  A signal that the program handles changes nothing, as with a local
 * file system.
 *
 * The kernel closes files and forgets inodes once their requests have been answered, and an abandoned
 * request may still use them.  Therefore their end is put off until no abandoned request is left.
 *
 * Layer: iofwd.  Thread rule: any thread of the session; one lock guards the lists.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <linux/fuse.h>

#include "base/os/clock.h"
#include "base/os/thread.h"
#include "iofwd/mount/mount.h"

#define LOOK_NS (50 * AMPH_NS_PER_MS)
#define ROUNDS_UNKNOWN 20 /* looks for the thread of a request, which may not have noted it yet */
#define STACK_BYTES ((size_t)128 << 10)

/* Numbers of requests are even; the last bit of the noted number says that it was abandoned. */
#define ABANDONED UINT64_C(1)

#define PF_EXITING 0x4 /* of the kernel's flags in /proc/PID/stat */

/* A request whose program may be killed. */
struct suspect {
    struct suspect *next;
    uint64_t unique;
    unsigned rounds;
    bool known; /* a thread has noted it */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_key_t at_thread_end;
    struct amph_mount_request *first; /* of the threads */
    struct suspect *suspects;
    _Atomic unsigned abandoned; /* requests that are still executed */
    struct amph_mount_put_off *put_off;
} requests = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

/* ---- what is put off ---- */

/* The count rises before the answer from which the kernel concludes that it may end something. */
bool amph_mount_any_abandoned(void)
{
    return atomic_load(&requests.abandoned) > 0;
}

bool amph_mount_put_off(struct amph_mount_put_off *p)
{
    if (!amph_mount_any_abandoned())
        return false;

    pthread_mutex_lock(&requests.lock);

    bool later = amph_mount_any_abandoned();

    if (later) {
        p->next = requests.put_off;
        requests.put_off = p;
    }

    pthread_mutex_unlock(&requests.lock);
    return later;
}

/* One abandoned request less.  With the last one, what was put off is done. */
static void one_less(void)
{
    struct amph_mount_put_off *list = NULL;

    pthread_mutex_lock(&requests.lock);
    if (atomic_fetch_sub(&requests.abandoned, 1) == 1) {
        list = requests.put_off;
        requests.put_off = NULL;
    }

    pthread_mutex_unlock(&requests.lock);
    while (list) {
        struct amph_mount_put_off *next = list->next;

        list->run(list);
        list = next;
    }
}

/* ---- the requests of the threads ---- */

struct amph_mount_request *amph_mount_request_make(void)
{
    struct amph_mount_request *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;

    pthread_mutex_lock(&requests.lock);
    r->next = requests.first;
    requests.first = r;
    pthread_mutex_unlock(&requests.lock);
    return r;
}

void amph_mount_request_end(struct amph_mount_request *r)
{
    if (r && atomic_exchange(&r->unique, 0) & ABANDONED)
        one_less();
}

void amph_mount_request_free(struct amph_mount_request *r)
{
    if (!r)
        return;

    amph_mount_request_end(r);
    pthread_mutex_lock(&requests.lock);
    for (struct amph_mount_request **at = &requests.first; *at; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }

    pthread_mutex_unlock(&requests.lock);
    free(r);
}

void amph_mount_request_begin(struct amph_mount_request *r, uint64_t unique, pid_t tid, int fd)
{
    atomic_store_explicit(&r->tid, tid, memory_order_relaxed);
    atomic_store_explicit(&r->fd, fd, memory_order_relaxed);
    atomic_store_explicit(&r->unique, unique, memory_order_release);
}

/* The mark of a request that has been abandoned already moves with its number. */
void amph_mount_request_hand_over(struct amph_mount_request *from, struct amph_mount_request *to)
{
    pthread_mutex_lock(&requests.lock);
    amph_mount_request_begin(to, atomic_exchange(&from->unique, 0), atomic_load(&from->tid),
                             atomic_load(&from->fd));
    pthread_mutex_unlock(&requests.lock);
}

static void end_thread(void *arg)
{
    free(amph_mount_thread.buf);
    amph_mount_thread.buf = NULL;
    amph_mount_thread.buf_bytes = 0;
    amph_mount_thread.request = NULL;
    amph_mount_request_free(arg);
}

struct amph_mount_request *amph_mount_request_of_thread(struct amph_mount_request *r)
{
    if (amph_mount_thread.request)
        return amph_mount_thread.request;

    amph_mount_thread.request = r ? r : amph_mount_request_make();
    if (amph_mount_thread.request)
        pthread_setspecific(requests.at_thread_end, amph_mount_thread.request);

    return amph_mount_thread.request;
}

/* ---- who is being killed ---- */

/* Reads a file of the thread's folder in /proc. */
static bool read_of(pid_t tid, const char *name, char *text, size_t len)
{
    char path[48];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)tid, name);

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, len - 1) : -1;

    if (fd >= 0)
        close(fd);

    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Is the thread being ended?  The kernel gives SIGKILL to each thread that a fatal signal ends,
 * whichever signal that was; once it ends, it has none any more. */
static bool is_doomed(pid_t tid)
{
    char text[4096];
    unsigned long long pending = 0;
    unsigned flags = 0;

    if (tid <= 0) /* in a PID namespace that this process does not see */
        return false;

    if (read_of(tid, "status", text, sizeof text)) {
        const char *at = strstr(text, "\nSigPnd:");

        if (at && sscanf(at, "\nSigPnd: %llx", &pending) == 1 && pending & 1ULL << (SIGKILL - 1))
            return true;
    }

    if (!read_of(tid, "stat", text, sizeof text))
        return false;

    const char *at = strrchr(text, ')');

    return at && sscanf(at, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & PF_EXITING;
}

/* ---- the thread ---- */

static struct amph_mount_request *find_request(uint64_t unique)
{
    struct amph_mount_request *r = requests.first;

    while (r && atomic_load_explicit(&r->unique, memory_order_acquire) != unique)
        r = r->next;

    return r;
}

/* Lock held.  Returns true if the request was marked, and is to be answered. */
static bool abandon(struct amph_mount_request *r, uint64_t unique)
{
    atomic_fetch_add(&requests.abandoned, 1);
    if (atomic_compare_exchange_strong(&r->unique, &unique, unique | ABANDONED))
        return true;

    /* its thread has just ended it; nothing can have been put off under the lock */
    atomic_fetch_sub(&requests.abandoned, 1);
    return false;
}

static void answer(int fd, uint64_t unique)
{
    struct fuse_out_header head = { .len = sizeof head, .error = -EINTR, .unique = unique };

    /* An error means that the request has been answered, or the mount has ended. */
    while (write(fd, &head, sizeof head) < 0 && errno == EINTR)
        ;
}

/* Lock held.  Returns whether there is more to expect of the suspect. */
static bool look_at(struct suspect *s)
{
    struct amph_mount_request *r = find_request(s->unique);

    s->rounds++;
    if (!r)
        return !s->known && s->rounds < ROUNDS_UNKNOWN;

    int fd = atomic_load(&r->fd);

    s->known = true;
    if (!is_doomed(atomic_load(&r->tid)))
        return true;

    if (abandon(r, s->unique))
        answer(fd, s->unique);

    return false;
}

static void *look(void *unused)
{
    pthread_mutex_lock(&requests.lock);
    for (;;) {
        struct timespec next;

        for (struct suspect **at = &requests.suspects; *at;) {
            struct suspect *s = *at;

            if (look_at(s)) {
                at = &s->next;
                continue;
            }

            *at = s->next;
            free(s);
        }

        if (!requests.suspects) {
            pthread_cond_wait(&requests.changed, &requests.lock);
            continue;
        }

        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_nsec += LOOK_NS;
        if (next.tv_nsec >= (long)AMPH_NS_PER_S) {
            next.tv_nsec -= (long)AMPH_NS_PER_S;
            next.tv_sec++;
        }

        pthread_cond_clockwait(&requests.changed, &requests.lock, CLOCK_MONOTONIC, &next);
    }

    return NULL;
}

void amph_mount_suspect(uint64_t unique)
{
    struct suspect *s = malloc(sizeof *s);

    if (!s) /* the program then ends when its server answers */
        return;

    *s = (struct suspect){ .unique = unique };
    pthread_mutex_lock(&requests.lock);
    s->next = requests.suspects;
    requests.suspects = s;
    pthread_cond_signal(&requests.changed);
    pthread_mutex_unlock(&requests.lock);
}

int amph_mount_abandon_begin(void)
{
    pthread_t thread;
    int err = pthread_key_create(&requests.at_thread_end, end_thread);

    return err ? err : amph_thread_start(&thread, true, STACK_BYTES, look, NULL);
}
