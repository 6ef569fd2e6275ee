/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended attributes.  Layer: iofwd (preload).  Thread rule: any thread.
 */
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/resolve.h"

#define CLIENT fwd_core.client

/* What a server gives of one value or list; the calls with a length of 0 ask for the size. */
#define XATTR_MOST 65536

static ssize_t result(int err, const char *value, size_t len, void *buf, size_t cap)
{
    if (err)
        return fwd_fail(err);
    if (cap == 0)
        return (ssize_t)len;
    if (len > cap)
        return fwd_fail(ERANGE);
    if (!fwd_can_write(buf, len))
        return fwd_fail(EFAULT);
    memcpy(buf, value, len);
    return (ssize_t)len;
}

ssize_t x_getxattr(const char *path, const char *name, void *buf, size_t cap, int flags)
{
    if (!fwd_can_read_text(name))
        return fwd_fail(EFAULT);
    struct fwd_where w;
    char value[XATTR_MOST];
    size_t len = 0;
    if (!fwd_where_find(&w, AT_FDCWD, path, false))
        return -1;
    if (w.local)
        return flags ? real_lgetxattr(w.path, name, buf, cap) : real_getxattr(w.path, name, buf, cap);
    int err = fwd_core.getxattr(CLIENT, FWD_AT(&w), name, flags, value, sizeof value, &len);
    if (fwd_went_out(&w, err, flags))
        return flags ? real_lgetxattr(w.path, name, buf, cap) : real_getxattr(w.path, name, buf, cap);
    fwd_where_end(&w, 0);
    return result(err, value, len, buf, cap);
}

ssize_t x_fgetxattr(int fd, const char *name, void *buf, size_t cap)
{
    if (!fwd_can_read_text(name))
        return fwd_fail(EFAULT);
    char value[XATTR_MOST];
    size_t len = 0;
    struct fwd_ofile *of;
    if (fwd_file_begin(fd, &of) != 0)
        return -1;
    int err = fwd_core.fgetxattr(CLIENT, &of->file, name, value, sizeof value, &len);
    fwd_file_end(of, 0);
    return result(err, value, len, buf, cap);
}

ssize_t x_listxattr(const char *path, char *buf, size_t cap, int flags)
{
    struct fwd_where w;
    char names[XATTR_MOST];
    size_t len = 0;
    if (!fwd_where_find(&w, AT_FDCWD, path, false))
        return -1;
    if (w.local)
        return flags ? real_llistxattr(w.path, buf, cap) : real_listxattr(w.path, buf, cap);
    int err = fwd_core.listxattr(CLIENT, FWD_AT(&w), flags, names, sizeof names, &len);
    if (fwd_went_out(&w, err, flags))
        return flags ? real_llistxattr(w.path, buf, cap) : real_listxattr(w.path, buf, cap);
    fwd_where_end(&w, 0);
    return result(err, names, len, buf, cap);
}

ssize_t x_flistxattr(int fd, char *buf, size_t cap)
{
    char names[XATTR_MOST];
    size_t len = 0;
    struct fwd_ofile *of;
    if (fwd_file_begin(fd, &of) != 0)
        return -1;
    int err = fwd_core.flistxattr(CLIENT, &of->file, names, sizeof names, &len);
    fwd_file_end(of, 0);
    return result(err, names, len, buf, cap);
}

int x_setxattr(const char *path, const char *name, const void *value, size_t len, int how, int flags)
{
    if (!fwd_can_read_text(name) || (len <= XATTR_MOST && !fwd_can_read(value, len)))
        return fwd_fail(EFAULT);
    struct fwd_where w;
    if (!fwd_where_find(&w, AT_FDCWD, path, false))
        return -1;
    if (!w.local) {
        int err = fwd_core.setxattr(CLIENT, FWD_AT(&w), name, value, len, how, flags);
        if (!fwd_went_out(&w, err, flags))
            return fwd_where_end(&w, err);
    }
    return flags ? real_lsetxattr(w.path, name, value, len, how) : real_setxattr(w.path, name, value, len, how);
}

int x_fsetxattr(int fd, const char *name, const void *value, size_t len, int how)
{
    if (!fwd_can_read_text(name) || (len <= XATTR_MOST && !fwd_can_read(value, len)))
        return fwd_fail(EFAULT);
    struct fwd_ofile *of;
    return fwd_file_begin(fd, &of) != 0 ? -1 : fwd_file_end(of, fwd_core.fsetxattr(CLIENT, &of->file, name, value, len, how));
}

int x_removexattr(const char *path, const char *name, int flags)
{
    if (!fwd_can_read_text(name))
        return fwd_fail(EFAULT);
    struct fwd_where w;
    if (!fwd_where_find(&w, AT_FDCWD, path, false))
        return -1;
    if (!w.local) {
        int err = fwd_core.removexattr(CLIENT, FWD_AT(&w), name, flags);
        if (!fwd_went_out(&w, err, flags))
            return fwd_where_end(&w, err);
    }
    return flags ? real_lremovexattr(w.path, name) : real_removexattr(w.path, name);
}

int x_fremovexattr(int fd, const char *name)
{
    if (!fwd_can_read_text(name))
        return fwd_fail(EFAULT);
    struct fwd_ofile *of;
    return fwd_file_begin(fd, &of) != 0 ? -1 : fwd_file_end(of, fwd_core.fremovexattr(CLIENT, &of->file, name));
}
