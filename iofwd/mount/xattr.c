/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: extended attributes.
 *
 * Layer: iofwd.  Thread rule: any thread of the session.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "iofwd/mount/mount.h"
#include "iofwd/wire/marshal.h"

/* The kernel asks for this attribute before each write, to remove the privileges of a program
 * that is changed.  A mount grants no privileges, so an earlier answer is valid until the
 * attributes change. */
static const char capability[] = "security.capability";

static bool known_to_have_none(struct amph_mount_node *node)
{
    amph_mount_lock();

    bool none = node->no_capability && amph_mount.o.cache != AMPH_MOUNT_CACHE_NONE;

    amph_mount_unlock();
    return none;
}

static void note_none(struct amph_mount_node *node, bool none)
{
    amph_mount_lock();
    node->no_capability = none;
    amph_mount_unlock();
}

static void reply_value(fuse_req_t req, int err, const char *value, size_t len, size_t size)
{
    if (!err && size && len > size)
        err = ERANGE;

    if (err)
        fuse_reply_err(req, err);
    else if (size == 0)
        fuse_reply_xattr(req, len);
    else
        fuse_reply_buf(req, value, len);
}

static void do_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    struct amph_mount_node *node = amph_mount_node_of(ino);
    struct amph_mount_handle *handle;
    bool of_kernel = strcmp(name, capability) == 0;
    char value[FWD_BLOB_MAX];
    size_t len = 0;

    if (of_kernel && known_to_have_none(node)) {
        fuse_reply_err(req, ENODATA);
        return;
    }

    int err = amph_mount_node_pin(node, &handle);

    if (!err) {
        err = amph_fwd_getxattr(amph_mount.cl, &handle->file, "", name, 0, value, sizeof value,
                                &len);
        amph_mount_handle_put(handle);
    }

    if (of_kernel && (err == ENODATA || err == EOPNOTSUPP))
        note_none(node, true);

    reply_value(req, err, value, len, size);
}

static void do_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    struct amph_mount_handle *handle;
    char names[FWD_BLOB_MAX];
    size_t len = 0;
    int err = amph_mount_node_pin(amph_mount_node_of(ino), &handle);

    if (!err) {
        err = amph_fwd_listxattr(amph_mount.cl, &handle->file, "", 0, names, sizeof names, &len);
        amph_mount_handle_put(handle);
    }

    reply_value(req, err, names, len, size);
}

static void do_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
                        size_t size, int flags)
{
    struct amph_mount_node *node = amph_mount_node_of(ino);
    struct amph_mount_handle *handle;

    if (size > FWD_BLOB_MAX) {
        fuse_reply_err(req, E2BIG);
        return;
    }

    int err = amph_mount_node_pin(node, &handle);

    if (!err) {
        err = amph_fwd_setxattr(amph_mount.cl, &handle->file, "", name, value, size, flags, 0);
        amph_mount_handle_put(handle);
    }

    note_none(node, false);
    fuse_reply_err(req, err);
}

static void do_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    struct amph_mount_handle *handle;
    int err = amph_mount_node_pin(amph_mount_node_of(ino), &handle);

    if (!err) {
        err = amph_fwd_removexattr(amph_mount.cl, &handle->file, "", name, 0);
        amph_mount_handle_put(handle);
    }

    fuse_reply_err(req, err);
}

void amph_mount_xattr_calls(struct fuse_lowlevel_ops *ops)
{
    ops->getxattr = do_getxattr;
    ops->listxattr = do_listxattr;
    ops->setxattr = do_setxattr;
    ops->removexattr = do_removexattr;
}
