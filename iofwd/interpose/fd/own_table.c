/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptor tables of tasks that have left the process's first one; see own_table.h.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; state under amph_ip_fds.own.lock, with signals blocked.
 *
 * The kernel copies a table at one moment; other threads open and close descriptors before and after
 * it.  The copy here is therefore made before the kernel's, and compared with the kernel's
 * afterwards: what a placeholder names is right.  From before the kernel's copy to the end of the
 * comparison no file is closed at its server, so that a descriptor of the kernel's copy has its file
 * even if it was opened after the copy here and closed soon.
 *
 * Amphora's own descriptors (connections) must be in each table under the same number, so all of them
 * are opened before a table is copied.
 */
#include "iofwd/interpose/fd/own_table.h"
#include "iofwd/wire/file.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/entry/state.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/state.h"

#define SLOT_FREE 0
#define SLOT_TAKEN (-1) /* its task has not started */

struct amph_ip_table_child {
    int (*fn)(void *);
    void *arg;
    struct amph_fdtab *table;         /* NULL: the parent's */
    struct amph_ip_table_slot *slot;  /* NULL: the child has thread-local storage of its own */
    int pid;                          /* 0: not known yet */
    struct amph_ip_table_child *next; /* in amph_ip_fds.own.starting */
};

static int own_tid(void)
{
    return (int)libc_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

static void take_lock(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
    pthread_mutex_lock(&amph_ip_fds.own.lock);
}

static void release_lock(const sigset_t *before)
{
    pthread_mutex_unlock(&amph_ip_fds.own.lock);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* ---- queries ---- */

static struct amph_ip_table_slot *slot_of_task(void)
{
    int tid = own_tid();

    for (int i = 0; i < AMPH_IP_TABLE_SLOTS; i++) {
        struct amph_ip_table_slot *slot = &amph_ip_fds.own.slots[i];

        if (__atomic_load_n(&slot->tid, __ATOMIC_ACQUIRE) == tid &&
            slot->storage == &amph_fdtab_mine)
            return slot;
    }

    return NULL;
}

struct amph_fdtab *amph_fdtab_of_task(void)
{
    const struct amph_ip_table_slot *slot = slot_of_task();

    return slot ? slot->table : &amph_fdtab_first;
}

bool amph_ip_tables_many(void)
{
    return __atomic_load_n(&amph_ip_fds.own.tables, __ATOMIC_ACQUIRE) != NULL;
}

bool amph_ip_tables_had(void)
{
    return __atomic_load_n(&amph_ip_fds.own.had, __ATOMIC_RELAXED);
}

bool amph_ip_table_is_selfs(void)
{
    if (AMPH_LIKELY(!amph_ip_tables_many()))
        return true;

    const struct amph_fdtab *table = amph_fdtab_current();
    const struct amph_fdtab *leader = __atomic_load_n(&amph_ip_fds.own.leader, __ATOMIC_ACQUIRE);

    return table == (leader ? leader : &amph_fdtab_first);
}

const char *amph_ip_table_directory(void)
{
    return AMPH_LIKELY(amph_ip_table_is_selfs()) ? "/proc/self/fd" : "/proc/thread-self/fd";
}

void amph_ip_tables_others(void (*fn)(struct amph_fdtab *table, void *arg), void *arg)
{
    struct amph_fdtab *mine = amph_fdtab_current();
    sigset_t before;

    if (AMPH_LIKELY(!amph_ip_tables_many()))
        return;

    take_lock(&before);
    if (mine != &amph_fdtab_first)
        fn(&amph_fdtab_first, arg);

    for (struct amph_fdtab *table = amph_ip_fds.own.tables; table; table = table->next)
        if (table != mine)
            fn(table, arg);

    release_lock(&before);
}

bool amph_ip_table_is_unshared(void)
{
    const struct amph_fdtab *mine = amph_fdtab_current();
    sigset_t before;
    struct stat st;

    take_lock(&before);

    bool alone = mine->tasks == 1;

    if (mine == &amph_fdtab_first) {
        unsigned elsewhere = 0;

        for (const struct amph_fdtab *table = amph_ip_fds.own.tables; table; table = table->next)
            elsewhere += table->is_childs ? 0 : table->tasks;

        /* the directory of a process has one link for each of its threads, and two more */
        alone = !amph_ip_fds.own.children && libc_stat64("/proc/self/task", &st) == 0 &&
                st.st_nlink == elsewhere + 3;
    }

    release_lock(&before);
    return alone;
}

/* ---- beginning and end of a table ---- */

/* Returns a copy of the caller's table that no task uses yet; NULL: no memory. */
static struct amph_fdtab *copy_table(void)
{
    sigset_t before;

    /* a client that is not open yet would be opened in one table only */
    if (amph_ip_client_enter() == 0)
        amph_ip_client.fwd.connect_all();

    take_lock(&before);

    struct amph_fdtab *table = amph_ip_fds.own.spare;

    if (table)
        amph_ip_fds.own.spare = table->next;

    /* numbers are reused, so that the servers need no more lock agents than there are tables */
    uint32_t number = table ? table->number : ++amph_ip_fds.own.numbers;

    release_lock(&before);

    if (!table && number <= AMPH_FWD_TABLES_MAX) {
        table = amph_ip_kernel_mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (table == MAP_FAILED)
            table = NULL;
    }

    if (!table)
        return NULL;

    table->number = number;
    table->has_locks = table->is_childs = false;
    table->aio_threads = table->aio_idle = 0;
    table->tasks = 0;

    if (amph_fdtab_copy(table, amph_fdtab_current()) &&
        amph_ip_epoll_table_copied(amph_fdtab_current(), table))
        return table;

    amph_ip_kernel_munmap(table, sizeof *table);
    return NULL;
}

static void unlock_one(int fd, struct amph_fd_file *of, void *arg)
{
    const uint32_t *number = arg;

    amph_ip_client.fwd.punlock(amph_ip_client.client, &of->file, *number);
}

/* Drops the open files of a table that no task uses any more. */
static void retire(struct amph_fdtab *table)
{
    sigset_t before;

    if (table->has_locks && amph_ip_client_enter() == 0)
        amph_fdtab_each_in(table, 0, FDTAB_MAX - 1, unlock_one, &table->number);

    amph_ip_epoll_table_left(table);
    amph_fdtab_empty(table);

    take_lock(&before);
    table->next = amph_ip_fds.own.spare;
    amph_ip_fds.own.spare = table;
    release_lock(&before);
}

/* The lock is held. */
static void unlink_table(struct amph_fdtab *table)
{
    struct amph_fdtab **at = &amph_ip_fds.own.tables;

    while (*at && *at != table)
        at = &(*at)->next;

    if (*at)
        __atomic_store_n(at, table->next, __ATOMIC_RELEASE);

    if (amph_ip_fds.own.leader == table)
        amph_ip_fds.own.leader = NULL;
}

/* A task no longer uses table. */
static void leave(struct amph_fdtab *table)
{
    sigset_t before;

    if (table == &amph_fdtab_first)
        return;

    take_lock(&before);

    bool last = --table->tasks == 0;

    if (last)
        unlink_table(table);

    release_lock(&before);

    if (last)
        retire(table);
    else
        amph_ip_aio_table_left(table);
}

/* Compares a descriptor with the kernel's copy. */
static void check_one(int fd, struct amph_fd_file *of, void *arg)
{
    char text[AMPH_FWD_TEXT_BYTES];
    struct amph_fwd_file file;

    if (amph_ip_placeholder_text(fd, text, sizeof text) &&
        amph_ip_client.fwd.file_parse(text, &file) && amph_fdtab_same_file(&file, &of->file))
        return;

    struct amph_fd_file *was = amph_fdtab_set(fd, NULL, FDTAB_UNKNOWN);

    if (was)
        amph_fdtab_put(was);
}

/* Enters a descriptor that only the kernel's copy has.  A file that is not in use in this process was
 * inherited; it is adopted when the descriptor is used. */
static void enter_one(int fd, void *arg)
{
    char text[AMPH_FWD_TEXT_BYTES];
    struct amph_fwd_file file;

    if (amph_fdtab_class(fd) != FDTAB_UNKNOWN)
        return;

    if (!amph_ip_placeholder_text(fd, text, sizeof text)) {
        /* its open has not returned in the table that was copied, so it is not the program's yet */
        if (amph_ip_placeholder_is_unfinished(fd))
            amph_ip_kernel_close(fd);

        return;
    }

    struct amph_fd_file *of = amph_ip_client.fwd.file_parse(text, &file) ? amph_fdtab_find(&file)
                                                                         : NULL;

    if (!of)
        return;

    struct amph_fd_file *was = amph_fdtab_set(fd, of, FDTAB_FORWARDED);

    if (was)
        amph_fdtab_put(was);
}

/* Makes the calling task's new table agree with the kernel's. */
static void compare_with_kernel(void)
{
    amph_fdtab_each(0, FDTAB_MAX - 1, check_one, NULL);
    amph_ip_each_open_fd(enter_one, NULL);
}

/* Runs at the end of a thread, after the program's own destructors, which may use files. */
static void thread_ends(void *arg)
{
    if (arg != amph_fdtab_mine)
        return; /* the thread has forked, or has a newer table */

    if (++amph_ip_thread.table.rounds < PTHREAD_DESTRUCTOR_ITERATIONS)
        pthread_setspecific(amph_ip_fds.own.key, arg);
    else
        leave(arg);
}

/* The calling task uses table from now on. */
static void use(struct amph_fdtab *table)
{
    struct amph_ip_table_slot *slot = amph_fdtab_mine->asks ? slot_of_task() : NULL;

    if (slot) {
        slot->table = table;
        return;
    }

    amph_fdtab_mine = table;
    if (amph_ip_fds.own.has_key)
        pthread_setspecific(amph_ip_fds.own.key, table);
}

/* Enters a new table, whose task the caller counts, in the list. */
static void link_table(struct amph_fdtab *table)
{
    sigset_t before;

    take_lock(&before);
    if (!amph_ip_fds.own.has_key)
        amph_ip_fds.own.has_key = pthread_key_create(&amph_ip_fds.own.key, thread_ends) == 0;

    amph_ip_fds.own.had = true;
    table->tasks++;
    table->next = amph_ip_fds.own.tables;
    __atomic_store_n(&amph_ip_fds.own.tables, table, __ATOMIC_RELEASE);
    release_lock(&before);
}

/* The kernel copies the caller's table, which becomes `table`.  Returns 0 or an errno value. */
static int unshare_into(struct amph_fdtab *table, int (*unshare_by)(void *arg), void *arg)
{
    sigset_t before;

    if (unshare_by(arg) != 0)
        return errno;

    if (own_tid() == amph_ip_kernel_getpid()) {
        take_lock(&before);
        __atomic_store_n(&amph_ip_fds.own.leader, table, __ATOMIC_RELEASE);
        release_lock(&before);
    }

    use(table);
    compare_with_kernel();
    return 0;
}

int amph_ip_table_unshare(int (*unshare_by)(void *arg), void *arg)
{
    struct amph_fdtab *was = amph_fdtab_current();
    struct amph_fdtab *table = copy_table();
    int saved = errno;
    sigset_t all, before;
    int cancel;

    if (!table)
        return amph_ip_fail(ENOMEM);

    link_table(table);

    /* a thread that does not return from here would hold all closes for ever */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    amph_fdtab_closes_hold();

    int err = unshare_into(table, unshare_by, arg);

    amph_fdtab_closes_release();
    pthread_setcancelstate(cancel, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    leave(err ? table : was);
    if (err)
        return amph_ip_fail(err);

    errno = saved;
    return 0;
}

/* ---- threads ---- */

struct amph_fdtab *amph_ip_table_thread_begin(void)
{
    struct amph_fdtab *table = amph_fdtab_current();
    sigset_t before;

    if (AMPH_LIKELY(table == &amph_fdtab_first))
        return table;

    take_lock(&before);
    table->tasks++;
    release_lock(&before);
    return table;
}

void amph_ip_table_thread_enter(struct amph_fdtab *table)
{
    if (table != &amph_fdtab_first)
        use(table);
}

void amph_ip_table_thread_cancel(struct amph_fdtab *table)
{
    leave(table);
}

/* ---- children that share memory ---- */

static bool has_ended(int tid)
{
    return libc_syscall(SYS_kill, tid, 0, 0, 0, 0, 0) < 0 && errno == ESRCH;
}

/* The lock is held.  NULL: all are taken. */
static struct amph_ip_table_slot *take_slot(int tid, struct amph_fdtab *table)
{
    for (int i = 0; i < AMPH_IP_TABLE_SLOTS; i++) {
        struct amph_ip_table_slot *slot = &amph_ip_fds.own.slots[i];

        /* a task that was killed or has executed a program did not release its slot */
        if (slot->tid > 0 && slot->tid != own_tid() && has_ended(slot->tid))
            slot->tid = SLOT_FREE;

        if (slot->tid != SLOT_FREE)
            continue;

        slot->storage = &amph_fdtab_mine;
        slot->table = table;
        __atomic_store_n(&slot->tid, tid, __ATOMIC_RELEASE);
        return slot;
    }

    return NULL;
}

/* Releases a child's slot.  A task that no longer shares its storage uses amph_fdtab_mine again. */
static void free_slot(struct amph_ip_table_slot *slot)
{
    struct amph_ip_table_slot *left = NULL;
    unsigned count = 0;
    sigset_t before;

    take_lock(&before);
    __atomic_store_n(&slot->tid, SLOT_FREE, __ATOMIC_RELEASE);

    for (int i = 0; i < AMPH_IP_TABLE_SLOTS; i++)
        if (amph_ip_fds.own.slots[i].tid != SLOT_FREE &&
            amph_ip_fds.own.slots[i].storage == &amph_fdtab_mine) {
            left = &amph_ip_fds.own.slots[i];
            count++;
        }

    if (count == 1 && left->tid > 0) {
        amph_fdtab_mine = left->table;
        __atomic_store_n(&left->tid, SLOT_FREE, __ATOMIC_RELEASE);
    }

    release_lock(&before);
}

/* Prepares for a child that shares amph_fdtab_mine with the caller: it becomes FDTAB_ASK.  The
 * tables of both are found by the task. */
static struct amph_ip_table_slot *share_storage(struct amph_fdtab *childs)
{
    sigset_t before;

    take_lock(&before);

    if (!amph_ip_fds.own.asking) {
        struct amph_fdtab *asking = amph_ip_kernel_mmap(
            NULL, sizeof *asking, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (asking != MAP_FAILED) {
            memset(asking->classes, FDTAB_ASK, sizeof asking->classes);
            asking->asks = true;
            amph_ip_fds.own.asking = asking;
        }
    }

    struct amph_ip_table_slot *own = slot_of_task();
    bool had = own != NULL;

    if (amph_ip_fds.own.asking && !own)
        own = take_slot(own_tid(), amph_fdtab_mine);

    struct amph_ip_table_slot *slot = amph_ip_fds.own.asking && own ? take_slot(SLOT_TAKEN, childs)
                                                                    : NULL;

    if (slot)
        amph_fdtab_mine = amph_ip_fds.own.asking;
    else if (own && !had)
        own->tid = SLOT_FREE;

    release_lock(&before);
    return slot;
}

/* The child is about to be created: closes are held until it has compared its table. */
static void begin_start(struct amph_ip_table_child *child)
{
    sigset_t before;

    amph_fdtab_closes_hold();
    take_lock(&before);
    child->next = amph_ip_fds.own.starting;
    amph_ip_fds.own.starting = child;
    release_lock(&before);
}

/* The child has compared its table or will not do so.  Only the first call has an effect. */
static void end_start(const struct amph_ip_table_child *child)
{
    sigset_t before;

    take_lock(&before);

    struct amph_ip_table_child **at = &amph_ip_fds.own.starting;

    while (*at && *at != child)
        at = &(*at)->next;

    bool found = *at != NULL;

    if (found)
        *at = child->next;

    release_lock(&before);
    if (found)
        amph_fdtab_closes_release();
}

static bool has_been_killed(const struct amph_ip_table_child *child)
{
    int pid = __atomic_load_n(&child->pid, __ATOMIC_RELAXED);

    return pid > 0 && has_ended(pid);
}

static const struct amph_ip_table_child *killed_at_start(void)
{
    sigset_t before;

    take_lock(&before);

    const struct amph_ip_table_child *child = amph_ip_fds.own.starting;

    while (child && !has_been_killed(child))
        child = child->next;

    release_lock(&before);
    return child;
}

void amph_ip_tables_forget_killed(void)
{
    const struct amph_ip_table_child *child;
    int saved = errno;

    while ((child = killed_at_start()))
        end_start(child);

    errno = saved;
}

int amph_ip_table_child_begin(int flags, int (*fn)(void *), void *arg,
                              struct amph_ip_table_child **child_p)
{
    struct amph_ip_table_child *child = calloc(1, sizeof *child);

    if (!child)
        return amph_ip_fail(ENOMEM);

    child->fn = fn;
    child->arg = arg;
    *child_p = child;

    if (flags & CLONE_FILES) {
        __atomic_fetch_add(&amph_ip_fds.own.children, 1, __ATOMIC_RELAXED);
        return 0;
    }

    child->table = copy_table();
    if (!child->table) {
        free(child);
        return amph_ip_fail(ENOMEM);
    }

    child->table->is_childs = true;
    link_table(child->table);

    if (!(flags & CLONE_SETTLS) && !(child->slot = share_storage(child->table))) {
        leave(child->table);
        free(child);
        return amph_ip_fail(EAGAIN);
    }

    begin_start(child);
    return 0;
}

int amph_ip_table_child_run(void *arg)
{
    struct amph_ip_table_child *child = arg;
    int (*fn)(void *) = child->fn;
    void *fn_arg = child->arg;

    if (child->slot)
        __atomic_store_n(&child->slot->tid, own_tid(), __ATOMIC_RELEASE);
    else if (child->table)
        amph_fdtab_mine = child->table;

    if (child->table) {
        compare_with_kernel();
        end_start(child);
    }

    int r = fn(fn_arg);

    amph_ip_table_exit();
    return r;
}

bool amph_ip_table_exit(void)
{
    struct amph_fdtab *table = amph_fdtab_current();

    if (AMPH_LIKELY(table == &amph_fdtab_first) || !table->is_childs)
        return false;

    struct amph_ip_table_slot *slot = amph_fdtab_mine->asks ? slot_of_task() : NULL;

    leave(table);
    if (slot)
        free_slot(slot);

    return true;
}

void amph_ip_table_child_end(struct amph_ip_table_child *child, int flags, int pid)
{
    struct amph_fdtab *table = child->table;
    struct amph_ip_table_slot *slot = child->slot;

    if (pid < 0 && !table)
        __atomic_fetch_sub(&amph_ip_fds.own.children, 1, __ATOMIC_RELAXED);

    /* the child was not created, or has ended or executed a program and so resumed its parent */
    bool gone = pid < 0 || (flags & CLONE_VFORK);
    bool has_left = slot ? __atomic_load_n(&slot->tid, __ATOMIC_ACQUIRE) == SLOT_FREE : false;

    if (gone)
        end_start(child);
    else
        __atomic_store_n(&child->pid, pid, __ATOMIC_RELAXED);

    if (table && gone && !has_left) {
        if (slot || pid < 0)
            leave(table);
        if (slot)
            free_slot(slot);
    }

    /* a running child reads its record at any time, so that one is not freed */
    if (gone)
        free(child);
}

/* ---- fork ---- */

void amph_ip_tables_fork_lock(bool take)
{
    if (take)
        pthread_mutex_lock(&amph_ip_fds.own.lock);
    else
        pthread_mutex_unlock(&amph_ip_fds.own.lock);
}

bool amph_ip_tables_alone(void)
{
    return !amph_ip_fds.own.tables && !amph_ip_fds.own.children;
}

void amph_ip_tables_forking(void)
{
    amph_ip_thread.table.forking = amph_fdtab_current();
}

void amph_ip_tables_forked(void)
{
    struct amph_fdtab *table = amph_ip_thread.table.forking;

    amph_ip_epoll_tables_forked(table);

    /* the C library's own threads begin with the first table */
    if (table != &amph_fdtab_first)
        memcpy(&amph_fdtab_first, table, sizeof *table);

    amph_fdtab_first.is_childs = false;
    amph_fdtab_first.tasks = 0;
    amph_fdtab_first.aio_threads = amph_fdtab_first.aio_idle = 0;
    amph_fdtab_first.has_locks = false;
    amph_fdtab_mine = &amph_fdtab_first;

    amph_ip_fds.own.tables = amph_ip_fds.own.leader = NULL;
    amph_ip_fds.own.children = 0;
    amph_ip_fds.own.starting = NULL;
    amph_ip_fds.closes_held = 0;
    memset(amph_ip_fds.own.slots, 0, sizeof amph_ip_fds.own.slots);
}

void amph_ip_tables_forked_last(void)
{
    amph_fdtab_first.number = 0;
}
