/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: inode flags (lsattr, chattr).  The kernel asks for them by ioctl, with a file or directory
 * that it has opened for that.
 *
 * Layer: iofwd.  Thread rule: any thread of the session.
 */
#include <errno.h>
#include <string.h>

#include "iofwd/mount/mount.h"
#include "iofwd/wire/inode_requests.h"

static int get(const struct amph_fwd_file *file, size_t which, union amph_fwd_inode_value *value)
{
    char room[FWD_INODE_VALUE_BYTES];
    size_t len = 0;
    int err = amph_fwd_getmarks(amph_mount.cl, file, which, room, sizeof room, &len);

    if (!err)
        amph_fwd_inode_value_get(value, room, len);

    return err;
}

static int set(const struct amph_fwd_file *file, size_t which,
               const union amph_fwd_inode_value *value)
{
    char room[FWD_INODE_VALUE_BYTES];
    size_t len = amph_fwd_inode_value_put(room, which, value);

    return amph_fwd_setmarks(amph_mount.cl, file, which, room, len);
}

/* Directories, too: their records begin like those of files. */
static void do_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void *arg,
                     struct fuse_file_info *fi, unsigned flags, const void *in, size_t in_bytes,
                     size_t out_bytes)
{
    const struct amph_mount_open *open = (struct amph_mount_open *)(uintptr_t)fi->fh;
    const struct amph_fwd_file *file = &open->handle->file;
    const struct amph_fwd_inode_request *r = amph_fwd_inode_request_find(command);
    size_t bytes = r ? amph_fwd_inode_value_bytes(r->which) : 0;
    union amph_fwd_inode_value value = { 0 };
    int err = ENOTTY;

    if (r && r->sets && in_bytes >= bytes) {
        memcpy(&value, in, bytes);
        err = set(file, r->which, &value);
    } else if (r && !r->sets && out_bytes >= bytes) {
        err = get(file, r->which, &value);
    }

    if (err)
        fuse_reply_err(req, err);
    else
        fuse_reply_ioctl(req, 0, &value, r->sets ? 0 : bytes);
}

void amph_mount_flag_calls(struct fuse_lowlevel_ops *ops)
{
    ops->ioctl = do_ioctl;
}
