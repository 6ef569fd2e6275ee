/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records the agents' locks, so that F_GETLK can report the client that holds a lock: the kernel
 * knows only the server's process.
 *
 * Layer: iofwd.
 * Thread rule: any thread; amph_server_state.agents_lock guards the list and its records.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/server/lock/lock.h"
#include "iofwd/server/state.h"

static bool range_of(int fd, const struct flock *l, struct amph_fwd_range *r)
{
    struct stat st = { .st_size = 0 };
    int64_t base = l->l_whence == SEEK_CUR ? lseek(fd, 0, SEEK_CUR) : 0;

    if (base < 0 || (l->l_whence == SEEK_END && fstat(fd, &st) != 0))
        return false;

    base += st.st_size;
    r->from = base + l->l_start + (l->l_len < 0 ? l->l_len : 0);

    if (l->l_len < 0)
        r->to = base + l->l_start;
    else if (l->l_len == 0 || l->l_len > FWD_RANGE_END - r->from)
        r->to = FWD_RANGE_END;
    else
        r->to = r->from + l->l_len;

    r->type = l->l_type;
    r->kind = 0;

    return true;
}

static struct amph_server_agent_file *first_of(struct amph_server_agent_file *k, dev_t dev,
                                               ino_t ino)
{
    while (k && (k->dev != dev || k->ino != ino))
        k = k->next;

    return k;
}

void amph_server_held_record(struct amph_server_lock_agent *lk, int fd, const struct flock *l)
{
    struct amph_fwd_range r;
    struct stat st;

    if (fstat(fd, &st) != 0 || !range_of(fd, l, &r))
        return;

    pthread_mutex_lock(&amph_server_state.agents_lock);

    struct amph_server_agent_file *k = first_of(lk->kept, st.st_dev, st.st_ino);

    if (k)
        amph_fwd_ranges_set(&k->held, r); /* if there is no memory, F_GETLK reports the server */

    pthread_mutex_unlock(&amph_server_state.agents_lock);
}

static bool holds(const struct amph_server_lock_agent *lk, dev_t dev, ino_t ino,
                  const struct amph_fwd_range *r)
{
    const struct amph_server_agent_file *k = first_of(lk->kept, dev, ino);

    return k && amph_fwd_ranges_holds(&k->held, r);
}

/* Returns the process of the client that holds the lock through this server, as FWD_SERVICE_HOLDER, or 0. */
static uint64_t holder(dev_t dev, ino_t ino, const struct amph_fwd_range *r)
{
    uint64_t found = 0;

    pthread_mutex_lock(&amph_server_state.agents_lock);
    for (const struct amph_server_lock_agent *lk = amph_server_state.agents; lk && !found;
         lk = lk->next)
        if (!atomic_load(&lk->dropped) && holds(lk, dev, ino, r))
            found = lk->pid | (lk->elsewhere ? FWD_HOLDER_ELSEWHERE : 0);

    pthread_mutex_unlock(&amph_server_state.agents_lock);
    return found;
}

uint64_t amph_server_lock_holder(dev_t dev, ino_t ino, off_t from, off_t len, short type)
{
    bool to_end = len <= 0 || len > FWD_RANGE_END - from;
    return holder(dev, ino,
                  &(struct amph_fwd_range){
                      .from = from, .to = to_end ? FWD_RANGE_END : from + len, .type = type });
}

bool amph_server_lock_owner(int fd, struct flock *found)
{
    struct amph_fwd_range r;
    struct stat st;

    if (found->l_type == F_UNLCK || found->l_pid != getpid() || fstat(fd, &st) != 0 ||
        !range_of(fd, found, &r))
        return true;

    pid_t pid = (pid_t)holder(st.st_dev, st.st_ino, &r);

    if (pid)
        found->l_pid = pid;

    return pid;
}

void amph_server_held_add_agent(struct amph_server_lock_agent *lk)
{
    pthread_mutex_lock(&amph_server_state.agents_lock);
    lk->next = amph_server_state.agents;
    amph_server_state.agents = lk;
    pthread_mutex_unlock(&amph_server_state.agents_lock);
}

void amph_server_held_remove_agent(struct amph_server_lock_agent *lk)
{
    pthread_mutex_lock(&amph_server_state.agents_lock);

    struct amph_server_lock_agent **at = &amph_server_state.agents;

    while (*at != lk)
        at = &(*at)->next;

    *at = lk->next;
    pthread_mutex_unlock(&amph_server_state.agents_lock);
}

void amph_server_held_add_file(struct amph_server_lock_agent *lk, struct amph_server_agent_file *k)
{
    pthread_mutex_lock(&amph_server_state.agents_lock);

    struct amph_server_agent_file **at = &lk->kept;

    while (*at)
        at = &(*at)->next;

    *at = k;
    pthread_mutex_unlock(&amph_server_state.agents_lock);
}

static void close_kept(struct amph_server_agent_file *k)
{
    /* the kernel releases all locks of this table on the file */
    amph_server_agent_close(k->fd);
    free(k->held.item);
    free(k);
}

void amph_server_held_close_file(struct amph_server_lock_agent *lk, dev_t dev, ino_t ino)
{
    pthread_mutex_lock(&amph_server_state.agents_lock);
    for (struct amph_server_agent_file **at = &lk->kept; *at;) {
        struct amph_server_agent_file *k = *at;

        if (k->dev != dev || k->ino != ino) {
            at = &k->next;
            continue;
        }

        *at = k->next;
        close_kept(k);
    }

    pthread_mutex_unlock(&amph_server_state.agents_lock);
}

void amph_server_held_close_all(struct amph_server_lock_agent *lk)
{
    while (lk->kept) {
        struct amph_server_agent_file *k = lk->kept;

        lk->kept = k->next;
        close_kept(k);
    }
}
