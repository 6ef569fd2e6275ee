/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inodes that the kernel knows.
 *
 * A lookup costs one request: an inode of the kernel is identified by device and inode number, and
 * by the name under which it was last found.  A handle (O_PATH) is opened for operations that must
 * not be diverted by another client's rename: for every directory in which names are looked up, and
 * every file whose attributes change.  The AMPH_MOUNT_HANDLES most recent handles are kept.  If a
 * name leads to another file by now, the call returns ESTALE, and the kernel looks the path up
 * again.
 *
 * Layer: iofwd.  Thread rule: see mount.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "iofwd/mount/mount.h"

#define CHAINS 16384
#define AMPH_MOUNT_HANDLES 4096

static struct {
    pthread_mutex_t lock;
    struct amph_mount_node root;
    struct amph_mount_node *chain[CHAINS];
    struct amph_mount_node *newest, *oldest; /* with handles; never the root */
    unsigned nhandles;
} nodes = { .lock = PTHREAD_MUTEX_INITIALIZER };

void amph_mount_lock(void)
{
    pthread_mutex_lock(&nodes.lock);
}

void amph_mount_unlock(void)
{
    pthread_mutex_unlock(&nodes.lock);
}

/* ---- handles ---- */

struct amph_mount_handle *amph_mount_handle_make(const struct amph_fwd_file *file)
{
    struct amph_mount_handle *handle = malloc(sizeof *handle);

    if (!handle) {
        amph_fwd_close(amph_mount.cl, file);
        return NULL;
    }

    handle->file = *file;
    atomic_init(&handle->refs, 1);
    return handle;
}

struct amph_mount_handle *amph_mount_handle_get(struct amph_mount_handle *handle)
{
    atomic_fetch_add(&handle->refs, 1);
    return handle;
}

void amph_mount_handle_put(struct amph_mount_handle *handle)
{
    if (!handle || atomic_fetch_sub(&handle->refs, 1) != 1)
        return;

    amph_fwd_close(amph_mount.cl, &handle->file);
    free(handle);
}

/* Removes the node from the list of nodes with a handle.  Lock held. */
static void unlist(struct amph_mount_node *node)
{
    *(node->newer ? &node->newer->older : &nodes.newest) = node->older;
    *(node->older ? &node->older->newer : &nodes.oldest) = node->newer;
    node->newer = node->older = NULL;
    nodes.nhandles--;
}

static void list_first(struct amph_mount_node *node)
{
    node->newer = NULL;
    node->older = nodes.newest;
    *(nodes.newest ? &nodes.newest->newer : &nodes.oldest) = node;
    nodes.newest = node;
    nodes.nhandles++;
}

/* Keeps a handle of the node.  Returns the handle that is dropped for it, or NULL.  Lock held. */
static struct amph_mount_handle *keep_handle(struct amph_mount_node *node,
                                             struct amph_mount_handle *handle)
{
    struct amph_mount_handle *dropped = NULL;

    if (nodes.nhandles >= AMPH_MOUNT_HANDLES) {
        struct amph_mount_node *oldest = nodes.oldest;

        unlist(oldest);
        dropped = oldest->handle;
        oldest->handle = NULL;
    }

    node->handle = handle;
    list_first(node);
    return dropped;
}

/* Returns the node's handle, or NULL.  Lock held. */
static struct amph_mount_handle *present(struct amph_mount_node *node)
{
    if (node->handle) {
        if (node != &nodes.root && node != nodes.newest) {
            unlist(node);
            list_first(node);
        }

        return amph_mount_handle_get(node->handle);
    }

    return node->open ? amph_mount_handle_get(node->open->handle) : NULL;
}

/* ---- identity ---- */

static struct amph_mount_node **chain_of(dev_t dev, ino_t ino)
{
    uint64_t mixed = (ino + dev * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    return &nodes.chain[mixed >> 40 & (CHAINS - 1)];
}

static struct amph_mount_node *find(dev_t dev, ino_t ino)
{
    if (dev == nodes.root.dev && ino == nodes.root.ino)
        return &nodes.root;

    struct amph_mount_node *node = *chain_of(dev, ino);

    while (node && (node->ino != ino || node->dev != dev))
        node = node->next;

    return node;
}

struct amph_mount_node *amph_mount_node_of(fuse_ino_t ino)
{
    return ino == FUSE_ROOT_ID ? &nodes.root : (struct amph_mount_node *)(uintptr_t)ino;
}

fuse_ino_t amph_mount_node_number(const struct amph_mount_node *node)
{
    return node == &nodes.root ? FUSE_ROOT_ID : (fuse_ino_t)(uintptr_t)node;
}

bool amph_mount_node_is(const struct amph_mount_node *node, const struct stat *st)
{
    return node->ino == st->st_ino && node->dev == st->st_dev &&
           node->type == (st->st_mode & S_IFMT);
}

/* Returns the inode number that programs see: the server's or, for files of another device than
 * the root's, one that differs from those of the root's device. */
static ino_t visible(const struct stat *st)
{
    if (st->st_dev == nodes.root.dev)
        return st->st_ino;

    return st->st_ino ^ ((uint64_t)st->st_dev * 0x9e3779b97f4a7c15u & 0xffffffff00000000u);
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* amph_mount_node_report with the lock held. */
static bool report(struct amph_mount_node *node, struct stat *st)
{
    bool same = node->reported && node->size == st->st_size &&
                same_time(&node->mtime, &st->st_mtim) && same_time(&node->ctime, &st->st_ctim);

    if (!same)
        node->no_capability = false;

    node->reported = true;
    node->size = st->st_size;
    node->mtime = st->st_mtim;
    node->ctime = st->st_ctim;
    st->st_ino = visible(st);
    return same;
}

bool amph_mount_node_report(struct amph_mount_node *node, struct stat *st)
{
    amph_mount_lock();

    bool same = report(node, st);

    amph_mount_unlock();
    return same;
}

/* ---- making and forgetting ---- */

int amph_mount_node_begin(const char *prefix)
{
    struct amph_fwd_file file;
    struct stat st;
    int err = amph_fwd_open(amph_mount.cl, NULL, prefix, O_PATH | O_DIRECTORY, 0, &file);

    if (err)
        return err;

    nodes.root.lookups = 1;
    nodes.root.handle = amph_mount_handle_make(&file);
    err = nodes.root.handle ? amph_fwd_fstat(amph_mount.cl, &file, &st) : ENOMEM;
    if (err)
        return err;

    nodes.root.dev = st.st_dev;
    nodes.root.ino = st.st_ino;
    nodes.root.type = S_IFDIR;
    return 0;
}

/* Frees the node, and its parents, if nothing refers to it.  Lock held; puts the handles to close
 * into a list that the caller closes without the lock. */
static void drop(struct amph_mount_node *node, struct amph_mount_handle **closed, size_t *n)
{
    while (node != &nodes.root && node->lookups == 0 && node->refs == 0 && !node->open &&
           !node->owners && *n < 64) {
        struct amph_mount_node *parent = node->parent;
        struct amph_mount_node **at = chain_of(node->dev, node->ino);

        while (*at != node)
            at = &(*at)->next;

        *at = node->next;
        if (node->handle) {
            unlist(node);
            closed[(*n)++] = node->handle;
        }

        free(node->name);
        free(node);
        if (!parent)
            return;

        parent->refs--;
        node = parent;
    }
}

/* Drops nodes that are no longer referred to.  Lock held, and released. */
static void drop_and_unlock(struct amph_mount_node *node)
{
    struct amph_mount_handle *closed[64];
    size_t n = 0;

    drop(node, closed, &n);
    amph_mount_unlock();
    while (n > 0)
        amph_mount_handle_put(closed[--n]);
}

void amph_mount_node_forget(struct amph_mount_node *node, uint64_t lookups)
{
    if (node == &nodes.root)
        return;

    amph_mount_lock();
    node->lookups -= lookups < node->lookups ? lookups : node->lookups;
    drop_and_unlock(node);
}

struct forget {
    struct amph_mount_put_off p;
    struct amph_mount_node *node;
    uint64_t lookups;
};

/* Of struct amph_mount_put_off. */
static void forget_now(struct amph_mount_put_off *p)
{
    struct forget *f = (struct forget *)p;

    amph_mount_node_forget(f->node, f->lookups);
    free(f);
}

void amph_mount_node_forget_later(struct amph_mount_node *node, uint64_t lookups)
{
    if (!amph_mount_any_abandoned()) {
        amph_mount_node_forget(node, lookups);
        return;
    }

    struct forget *f = malloc(sizeof *f);

    if (!f) /* the node stays, which does no harm */
        return;

    *f = (struct forget){ { .run = forget_now }, node, lookups };
    if (!amph_mount_put_off(&f->p))
        forget_now(&f->p);
}

/* Records parent and name.  Lock held.  Returns the parent that it had before, or NULL. */
static struct amph_mount_node *set_name(struct amph_mount_node *node,
                                        struct amph_mount_node *parent, const char *name)
{
    struct amph_mount_node *before = node->parent;

    if (node == &nodes.root || (before == parent && node->name && strcmp(node->name, name) == 0))
        return NULL;

    /* a directory is never below itself, but a stale tree may suggest it */
    for (struct amph_mount_node *up = parent; up; up = up->parent)
        if (up == node)
            return NULL;

    char *copy = strdup(name);

    if (!copy)
        return NULL;

    free(node->name);
    node->name = copy;
    node->parent = parent;
    parent->refs++;
    if (before)
        before->refs--;

    return before;
}

int amph_mount_node_found(struct amph_mount_node *parent, const char *name, const struct stat *st,
                          struct fuse_entry_param *e)
{
    amph_mount_lock();

    struct amph_mount_node *node = find(st->st_dev, st->st_ino);

    if (node && node != &nodes.root && node->type != (st->st_mode & S_IFMT)) {
        /* the inode number of a removed file has been reused; the kernel still knows the old
         * file, so the new one gets its own node before it in the chain */
        node = NULL;
    }

    if (!node) {
        struct amph_mount_node **at = chain_of(st->st_dev, st->st_ino);

        node = calloc(1, sizeof *node);
        if (!node) {
            amph_mount_unlock();
            return ENOMEM;
        }

        node->dev = st->st_dev;
        node->ino = st->st_ino;
        node->type = st->st_mode & S_IFMT;
        node->next = *at;
        *at = node;
    }

    struct amph_mount_node *before = set_name(node, parent, name);

    node->lookups++;
    node->missed = false;
    *e = (struct fuse_entry_param){ .ino = amph_mount_node_number(node),
                                    .attr = *st,
                                    .attr_timeout = amph_mount.timeout_s,
                                    .entry_timeout = amph_mount.timeout_s };
    report(node, &e->attr);
    if (before)
        drop_and_unlock(before);
    else
        amph_mount_unlock();

    return 0;
}

void amph_mount_node_moved(struct amph_mount_node *parent, const char *name, const struct stat *st)
{
    struct amph_mount_node *before = NULL;

    amph_mount_lock();

    struct amph_mount_node *node = find(st->st_dev, st->st_ino);

    if (node)
        before = set_name(node, parent, name);

    if (before)
        drop_and_unlock(before);
    else
        amph_mount_unlock();
}

void amph_mount_node_add_open(struct amph_mount_open *open)
{
    amph_mount_lock();
    open->next = open->node->open;
    open->node->open = open;
    amph_mount_unlock();
}

void amph_mount_node_remove_open(struct amph_mount_open *open)
{
    amph_mount_lock();
    for (struct amph_mount_open **at = &open->node->open; *at; at = &(*at)->next)
        if (*at == open) {
            *at = open->next;
            break;
        }

    drop_and_unlock(open->node);
}

/* ---- names for the server ---- */

void amph_mount_at_put(struct amph_mount_at *at)
{
    amph_mount_handle_put(at->dir);
}

/* Names the node. by_name: by its name, even if it has a handle. */
static int name_it(struct amph_mount_node *node, bool by_name, struct amph_mount_at *at)
{
    at->name[0] = 0;
    amph_mount_lock();

    struct amph_mount_node *parent = node->parent;

    at->dir = by_name && parent ? NULL : present(node);
    if (at->dir) {
        amph_mount_unlock();
        return 0;
    }

    if (!parent || strlen(node->name) >= sizeof at->name) {
        amph_mount_unlock();
        return ESTALE;
    }

    strcpy(at->name, node->name);
    at->dir = present(parent);
    if (!at->dir)
        parent->refs++; /* keeps it while its handle is being opened */

    amph_mount_unlock();
    if (at->dir)
        return 0;

    int err = amph_mount_node_pin(parent, &at->dir);

    amph_mount_lock();
    parent->refs--;
    drop_and_unlock(parent);
    return err;
}

int amph_mount_node_at(struct amph_mount_node *node, struct amph_mount_at *at)
{
    return name_it(node, false, at);
}

int amph_mount_node_at_name(struct amph_mount_node *node, struct amph_mount_at *at)
{
    amph_mount_lock();

    bool missed = node->missed;

    amph_mount_unlock();
    return name_it(node, !missed, at);
}

void amph_mount_node_missed(struct amph_mount_node *node)
{
    amph_mount_lock();
    node->missed = true;
    amph_mount_unlock();
}

int amph_mount_node_pin(struct amph_mount_node *node, struct amph_mount_handle **handle_p)
{
    struct amph_mount_at at;
    struct amph_fwd_file file;
    struct stat st;
    int err = amph_mount_node_at(node, &at);

    if (err)
        return err;

    if (!at.name[0]) {
        *handle_p = at.dir;
        return 0;
    }

    err = amph_fwd_open(amph_mount.cl, &at.dir->file, at.name, O_PATH | O_NOFOLLOW, 0, &file);
    amph_mount_at_put(&at);
    if (err)
        return err == ENOENT ? ESTALE : err;

    struct amph_mount_handle *handle = amph_mount_handle_make(&file);

    if (!handle)
        return ENOMEM;

    err = amph_fwd_fstat(amph_mount.cl, &file, &st);
    if (!err && !amph_mount_node_is(node, &st))
        err = ESTALE;

    if (err) {
        amph_mount_handle_put(handle);
        return err;
    }

    struct amph_mount_handle *dropped = NULL;

    amph_mount_lock();
    if (!node->handle)
        dropped = keep_handle(node, amph_mount_handle_get(handle));

    amph_mount_unlock();
    amph_mount_handle_put(dropped);
    *handle_p = handle;
    return 0;
}

int amph_mount_node_stat(struct amph_mount_node *node, struct stat *st_p)
{
    struct amph_mount_at at;
    int err = amph_mount_node_at(node, &at);

    if (err)
        return err;

    if (at.name[0])
        err = amph_fwd_stat(amph_mount.cl, &at.dir->file, at.name, AT_SYMLINK_NOFOLLOW, st_p);
    else
        err = amph_fwd_fstat(amph_mount.cl, &at.dir->file, st_p);

    if (at.name[0] && (err == ENOENT || (!err && !amph_mount_node_is(node, st_p))))
        err = ESTALE;

    amph_mount_at_put(&at);
    if (!err)
        amph_mount_node_report(node, st_p);

    return err;
}
