/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The versions that this process moves; see near_versions.h.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.  The versions are mapped once, by the
 * thread that changes `state` first; until it is done the others leave their changes to the servers.  An entry
 * belongs to the thread that has set its number to AMPH_IP_NEAR_NUMBER_TAKEN.
 *
 * A child that shares this process's memory until it starts another program has descriptors of its own, so what it
 * closes and copies says nothing about the entries.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/interpose/path/near_versions.h"

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/memory/pages.h"
#include "iofwd/interpose/path/near_exports.h"
#include "iofwd/interpose/path/near_place.h"
#include "iofwd/wire/writers.h"

struct amph_ip_near_versions amph_ip_near_versions;

/* ---- the object ---- */

/* Maps the object that the address file names.  false: it is not there any more, is another program version's, or
 * its servers number processes in another way. */
static bool map_versions(uint64_t id)
{
    int dir = amph_ip_space_open();
    int fd = dir < 0 ? -1
                     : amph_ip_kernel_openat(dir, FWD_VERSIONS_NAME,
                                             O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
    struct amph_fwd_versions *v = MAP_FAILED;
    struct stat st;

    if (fd >= 0 && amph_ip_kernel_fstat(fd, &st) == 0 && st.st_size == sizeof *v)
        v = amph_ip_kernel_mmap(NULL, sizeof *v, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (fd >= 0)
        amph_ip_kernel_close(fd);

    if (dir >= 0)
        amph_ip_kernel_close(dir);

    if (v == MAP_FAILED)
        return false;

    if (v->layout == FWD_VERSIONS_LAYOUT && v->id == id &&
        amph_ip_kernel_fstatat(AT_FDCWD, "/proc/self/ns/pid", &st, 0) == 0 &&
        st.st_ino == v->pid_space) {
        amph_ip_near_versions.map = v;
        return true;
    }

    amph_ip_kernel_munmap(v, sizeof *v);
    return false;
}

static bool take_record(uint64_t versions)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;

    if (!nv->map && !map_versions(versions))
        return false;

    nv->own = amph_fwd_writer_take(nv->map, nv->pid);
    return nv->own;
}

static bool look(void)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;

    nv->pid = (uint32_t)amph_ip_kernel_getpid();
    if (!amph_ip_near.says_versions)
        return false;

    return amph_ip_near.versions == 0 || take_record(amph_ip_near.versions);
}

/* Have the servers gone, whose object it was?  Others would not see in it what this process changes. */
static bool is_gone(void)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;

    return nv->map && atomic_load_explicit(&nv->map->gone, memory_order_relaxed);
}

bool amph_ip_near_may_change(void)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;
    int now = atomic_load_explicit(&nv->state, memory_order_acquire);
    int saved = errno;

    if (AMPH_LIKELY(now == AMPH_IP_NEAR_MOVES))
        return !is_gone() && (!nv->map || nv->own) && nv->pid == (uint32_t)amph_ip_kernel_getpid();
    if (now != AMPH_IP_NEAR_MOVES_NOT_YET ||
        !atomic_compare_exchange_strong(&nv->state, &now, AMPH_IP_NEAR_MOVES_LOOKS))
        return false;

    bool moves = look();

    amph_ip_debug("files are written by %s", moves ? "the process itself" : "the servers");
    atomic_store_explicit(&nv->state, moves ? AMPH_IP_NEAR_MOVES : AMPH_IP_NEAR_MOVES_NOT,
                          memory_order_release);
    errno = saved;
    return moves && !is_gone();
}

/* Does this process move these versions?  The first call maps them, if those of the files that it opens by itself have
 * not been mapped. */
static bool moves(uint64_t versions)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;
    int now = atomic_load_explicit(&nv->state, memory_order_acquire);
    int saved = errno;

    if (now == AMPH_IP_NEAR_MOVES)
        return !is_gone() && nv->own && nv->map->id == versions &&
               nv->pid == (uint32_t)amph_ip_kernel_getpid();

    /* it has a map if it is not to be used any more */
    if (now == AMPH_IP_NEAR_MOVES_LOOKS || nv->map ||
        !atomic_compare_exchange_strong(&nv->state, &now, AMPH_IP_NEAR_MOVES_LOOKS))
        return false;

    nv->pid = (uint32_t)amph_ip_kernel_getpid();

    bool moves = take_record(versions);

    amph_ip_debug("mapped files are changed in %s", moves ? "the files themselves" : "copies");
    atomic_store_explicit(&nv->state, moves ? AMPH_IP_NEAR_MOVES : AMPH_IP_NEAR_MOVES_NOT,
                          memory_order_release);
    errno = saved;
    return moves && !is_gone();
}

/* Around each move of versions: a child of a handler that interrupts it makes the rest of it as well (leave_moves). */
static void begin_move(void)
{
    amph_ip_thread.near_moves++;
    atomic_signal_fence(memory_order_seq_cst);
}

static void end_move(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    amph_ip_thread.near_moves--;
}

struct amph_fwd_writer *amph_ip_near_change_begin(bool cuts)
{
    begin_move();

    struct amph_fwd_writer *own = amph_ip_near_versions.own;

    if (own)
        amph_fwd_writer_begin(amph_ip_near_versions.map, own, cuts);

    end_move();
    return own;
}

void amph_ip_near_change_end(struct amph_fwd_writer *record, bool cuts)
{
    begin_move();
    if (record && record == amph_ip_near_versions.own)
        amph_fwd_writer_end(amph_ip_near_versions.map, record, cuts);

    end_move();
}

/* ---- files ---- */

static unsigned index_of(const struct amph_ip_near_writing *e)
{
    return (unsigned)(e - amph_ip_near_versions.item);
}

static bool take(struct amph_ip_near_writing *e, uint32_t number)
{
    return atomic_compare_exchange_strong(&e->number, &number, AMPH_IP_NEAR_NUMBER_TAKEN);
}

void amph_ip_near_writing_give_up(struct amph_ip_near_writing *e)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;

    if (e == &nv->more)
        return;

    begin_move();
    if (nv->own)
        amph_fwd_writer_close(nv->map, nv->own, index_of(e));

    end_move();
    atomic_store(&e->number, 0);
    atomic_fetch_sub(&nv->n, 1);
}

/* Is the descriptor still one of the file? */
static bool is_open(const struct amph_ip_near_writing *e, uint32_t number)
{
    struct stat st;

    return amph_ip_kernel_fstat((int)number - 1, &st) == 0 &&
           st.st_dev == atomic_load_explicit(&e->dev, memory_order_relaxed) &&
           st.st_ino == atomic_load_explicit(&e->ino, memory_order_relaxed);
}

/* Is it the number of an entry that has a descriptor, and that no thread fills in or gives up? */
static bool is_descriptor(uint32_t number)
{
    return number != 0 && number < AMPH_IP_NEAR_NUMBER_MAPPED;
}

/* Gives up an entry whose descriptor was closed unseen.  It looks again when it has taken one: until then another
 * thread can have given it to another file with the same number. */
static void sweep_one(struct amph_ip_near_writing *e)
{
    uint32_t number = atomic_load(&e->number);

    if (is_descriptor(number) && !is_open(e, number) && take(e, number))
        amph_ip_near_writing_left(e, (int)number - 1, !is_open(e, number));
}

/* Looks at the next entry in use: a look at all would cost a program with many open files a system call for each of
 * them at every open. */
static void sweep_next(void)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;
    unsigned at = atomic_load_explicit(&nv->swept, memory_order_relaxed);

    for (unsigned i = 1; i <= FWD_WRITER_FILES; i++) {
        struct amph_ip_near_writing *e = &nv->item[(at + i) % FWD_WRITER_FILES];

        if (!is_descriptor(atomic_load(&e->number)))
            continue;

        atomic_store_explicit(&nv->swept, at + i, memory_order_relaxed);
        sweep_one(e);
        return;
    }
}

static void sweep_all(void)
{
    for (size_t i = 0; i < FWD_WRITER_FILES; i++)
        sweep_one(&amph_ip_near_versions.item[i]);
}

/* Has this process a file of these versions that is used unseen? */
static bool is_kept(uint32_t line)
{
    const struct amph_fwd_writer *own = amph_ip_near_versions.own;
    bool kept = false;

    for (unsigned i = 0; i < FWD_WRITER_FILES && own; i++)
        kept |= atomic_load(&own->line[i]) == (FWD_WRITER_KEPT | (line + 1));

    return kept;
}

/* All files count as changed from now on: what clients hold of them is of no use without the versions of names and of
 * cuts. */
static struct amph_ip_near_writing *take_all(void)
{
    if (!atomic_exchange(&amph_ip_near_versions.all, true))
        (void)amph_ip_near_change_begin(true);

    return &amph_ip_near_versions.more;
}

static struct amph_ip_near_writing *find_free(void)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;

    for (unsigned i = 0; i < FWD_WRITER_FILES; i++) {
        bool kept = nv->own && atomic_load(&nv->own->line[i]);

        if (!kept && take(&nv->item[i], 0)) {
            atomic_fetch_add(&nv->n, 1);
            return &nv->item[i];
        }
    }

    return NULL;
}

struct amph_ip_near_writing *amph_ip_near_writing_reserve(void)
{
    int saved = errno;

    if (atomic_load(&amph_ip_near_versions.n))
        sweep_next();

    struct amph_ip_near_writing *e = find_free();

    if (!e) {
        sweep_all();
        e = find_free();
    }

    errno = saved;
    return e ? e : take_all();
}

void amph_ip_near_writing_fill(struct amph_ip_near_writing *e, int fd, const struct stat *st)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;

    if (e == &nv->more)
        return;

    atomic_store_explicit(&e->dev, st->st_dev, memory_order_relaxed);
    atomic_store_explicit(&e->ino, st->st_ino, memory_order_relaxed);
    e->line = amph_fwd_versions_line_of(st->st_dev, st->st_ino);
    begin_move();
    if (nv->own)
        amph_fwd_writer_open(nv->map, nv->own, index_of(e), e->line);

    end_move();
    atomic_store_explicit(&e->number, (uint32_t)fd + 1, memory_order_release);
}

static bool is_ours(void)
{
    return amph_ip_near_versions.pid == (uint32_t)amph_ip_kernel_getpid();
}

struct amph_ip_near_writing *amph_ip_near_writing_leave(int fd)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;

    if (AMPH_LIKELY(!amph_ip_near_writes(fd)) || !is_ours())
        return NULL;

    for (size_t i = 0; i < FWD_WRITER_FILES; i++)
        if (take(&nv->item[i], (uint32_t)fd + 1))
            return &nv->item[i];

    return NULL;
}

void amph_ip_near_writing_left(struct amph_ip_near_writing *e, int fd, bool closed)
{
    if (closed)
        amph_ip_near_writing_give_up(e);
    else
        atomic_store_explicit(&e->number, (uint32_t)fd + 1, memory_order_release);
}

void amph_ip_near_writing_keep(int fd)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;
    struct amph_ip_near_writing *e = nv->own ? amph_ip_near_writing_leave(fd) : NULL;

    if (!e)
        return;

    if (is_kept(e->line)) {
        amph_ip_near_writing_give_up(e);
        return;
    }

    /* the line stays in the record, and so the entry is not free (find_free) */
    atomic_fetch_or(&nv->own->line[index_of(e)], FWD_WRITER_KEPT);
    atomic_store(&e->number, 0);
    atomic_fetch_sub(&nv->n, 1);
}

int amph_ip_near_mapped_begin(uint64_t versions, const struct stat *st)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;

    if (!moves(versions))
        return -1;

    struct amph_ip_near_writing *e = amph_ip_near_writing_reserve();

    if (e == &nv->more)
        return FWD_WRITER_FILES;

    e->line = amph_fwd_versions_line_of(st->st_dev, st->st_ino);
    begin_move();
    amph_fwd_writer_open(nv->map, nv->own, index_of(e), e->line);
    end_move();
    atomic_store_explicit(&e->number, AMPH_IP_NEAR_NUMBER_MAPPED, memory_order_release);
    return (int)index_of(e);
}

void amph_ip_near_mapped_end(int number)
{
    if (number >= 0 && number < (int)FWD_WRITER_FILES)
        amph_ip_near_writing_give_up(&amph_ip_near_versions.item[number]);
}

int amph_ip_near_copied(int fd, int copy)
{
    struct stat st;

    if (copy >= 0 && amph_ip_near_has(fd))
        amph_ip_near_note_file(copy);
    if (copy < 0 || copy == fd || !amph_ip_near_writes(fd) || !is_ours())
        return copy;

    struct amph_ip_near_writing *e = amph_ip_near_writing_reserve();

    if (amph_ip_kernel_fstat(copy, &st) == 0)
        amph_ip_near_writing_fill(e, copy, &st);
    else
        amph_ip_near_writing_give_up(e);

    return copy;
}

void amph_ip_near_writing_inherit(int fd, const struct stat *st)
{
    if (amph_ip_near_may_change())
        amph_ip_near_writing_fill(amph_ip_near_writing_reserve(), fd, st);
}

/* What another thread of the parent was doing with an entry ends here.  Without a record a mapped file counts as
 * changed as long as the servers stay, and nothing is repaired, which costs messages. */
static void begin_again(struct amph_ip_near_writing *e)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;
    uint32_t number = atomic_load(&e->number);

    if (number == AMPH_IP_NEAR_NUMBER_TAKEN) {
        atomic_store(&e->number, 0);
        atomic_fetch_sub(&nv->n, 1);
    } else if (number && nv->own) {
        amph_fwd_writer_open(nv->map, nv->own, index_of(e), e->line);
    } else if (number == AMPH_IP_NEAR_NUMBER_MAPPED && nv->map) {
        atomic_fetch_add(&nv->map->others, 1);
        amph_fwd_version_begin(&nv->map->line[e->line].data);
        amph_fwd_version_begin(&nv->map->line[e->line].attributes);
    }
}

/* The files that the parent uses unseen. */
static void keep_again(struct amph_fwd_versions *v, const struct amph_fwd_writer *parents,
                       struct amph_fwd_writer *own)
{
    for (unsigned i = 0; i < FWD_WRITER_FILES; i++) {
        uint32_t line = atomic_load((_Atomic uint32_t *)&parents->line[i]);

        if (!(line & FWD_WRITER_KEPT))
            continue;

        amph_fwd_writer_open(v, own, i, (line & ~FWD_WRITER_KEPT) - 1);
        atomic_fetch_or(&own->line[i], FWD_WRITER_KEPT);
    }
}

/* The thread was moving versions when a handler forked.  The process makes the rest of the move, and so does the
 * child, if its handler returns: what it moves is memory of its own from here on.  Its own changes are left to the
 * servers.  The files that it has open for writing stay in its record until it ends. */
static void leave_moves(struct amph_ip_near_versions *nv)
{
    if (nv->map)
        amph_ip_kernel_mmap(nv->map, sizeof *nv->map, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

    atomic_store(&nv->state, AMPH_IP_NEAR_MOVES_NOT);
}

void amph_ip_near_versions_forked(void)
{
    struct amph_ip_near_versions *nv = &amph_ip_near_versions;

    if (atomic_load(&nv->state) == AMPH_IP_NEAR_MOVES_LOOKS)
        atomic_store(&nv->state, AMPH_IP_NEAR_MOVES_NOT_YET);
    if (atomic_load(&nv->state) != AMPH_IP_NEAR_MOVES)
        return;

    const struct amph_fwd_writer *parents = nv->own;

    nv->pid = (uint32_t)amph_ip_kernel_getpid();
    if (nv->map)
        nv->own = amph_fwd_writer_take(nv->map, nv->pid);

    if (parents && nv->own)
        keep_again(nv->map, parents, nv->own);
    if (atomic_load(&nv->all))
        (void)amph_ip_near_change_begin(true);

    for (size_t i = 0; i < FWD_WRITER_FILES; i++)
        begin_again(&nv->item[i]);

    if (amph_ip_thread.near_moves)
        leave_moves(nv);
}
