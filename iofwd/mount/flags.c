/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: inode flags (lsattr, chattr).  The kernel asks for them by ioctl, with a file or directory
 * that it has opened for that.
 *
 * Layer: iofwd.  Thread rule: any thread of the session.
 */
#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>

#include "iofwd/mount/mount.h"
#include "iofwd/wire/inode_flags.h"

static const struct request {
    unsigned request;
    size_t which; /* which of a file's flags */
    bool sets;
} requests[] = {
    { (unsigned)FS_IOC_GETFLAGS, FWD_INODE_FLAGS_FLAGS, false },
    { (unsigned)FS_IOC_SETFLAGS, FWD_INODE_FLAGS_FLAGS, true },
    { (unsigned)FS_IOC_GETVERSION, FWD_INODE_FLAGS_VERSION, false },
    { (unsigned)FS_IOC_SETVERSION, FWD_INODE_FLAGS_VERSION, true },
    { (unsigned)FS_IOC_FSGETXATTR, FWD_INODE_FLAGS_EXTENDED, false },
    { (unsigned)FS_IOC_FSSETXATTR, FWD_INODE_FLAGS_EXTENDED, true },
};

/* An int, although the number of the request names another type, or a struct fsxattr, which begins with
 * words. */
union value {
    struct fsxattr extended;
    uint32_t word[FWD_INODE_FLAGS_MAX];
};

static int get(const struct amph_fwd_file *file, size_t which, union value *value)
{
    char room[FWD_INODE_FLAGS_MAX * FWD_INODE_FLAG_BYTES];
    size_t len = 0;
    int err = amph_fwd_getmarks(amph_mount.cl, file, which, room, sizeof room, &len);

    for (size_t i = 0; i < len / FWD_INODE_FLAG_BYTES && !err; i++)
        value->word[i] = amph_fwd_inode_flag_get(room, i);

    return err;
}

static int set(const struct amph_fwd_file *file, size_t which, size_t n, const union value *value)
{
    char room[FWD_INODE_FLAGS_MAX * FWD_INODE_FLAG_BYTES];

    for (size_t i = 0; i < n; i++)
        amph_fwd_inode_flag_put(room, i, value->word[i]);

    return amph_fwd_setmarks(amph_mount.cl, file, which, room, n * FWD_INODE_FLAG_BYTES);
}

static const struct request *request_of(unsigned command)
{
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        if (requests[i].request == command)
            return &requests[i];

    return NULL;
}

/* Directories, too: their records begin like those of files. */
static void do_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void *arg,
                     struct fuse_file_info *fi, unsigned flags, const void *in, size_t in_bytes,
                     size_t out_bytes)
{
    const struct amph_mount_open *open = (struct amph_mount_open *)(uintptr_t)fi->fh;
    const struct amph_fwd_file *file = &open->handle->file;
    const struct request *r = request_of(command);
    bool extended = r && r->which == FWD_INODE_FLAGS_EXTENDED;
    size_t bytes = extended ? sizeof(struct fsxattr) : sizeof(uint32_t);
    union value value;
    int err = ENOTTY;

    memset(&value, 0, sizeof value);
    if (r && r->sets && in_bytes >= bytes) {
        memcpy(&value, in, bytes);
        err = set(file, r->which, extended ? FWD_INODE_FLAGS_MAX : 1, &value);
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
