/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended attributes.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/resolve.h"

#define CLIENT amph_ip_client.client

/* The reply of a server with one value or list; calls with a length of 0 ask for the size. */
#define XATTR_MAX 65536

static ssize_t result(int err, const char *value, size_t len, void *buf, size_t cap)
{
    if (err)
        return amph_ip_fail(err);
    if (cap == 0)
        return (ssize_t)len;
    if (len > cap)
        return amph_ip_fail(ERANGE);
    if (!amph_ip_can_write(buf, len))
        return amph_ip_fail(EFAULT);

    memcpy(buf, value, len);
    return (ssize_t)len;
}

/* Of an attribute's name, as the kernel has it. */
static int name_error(const char *name)
{
    int err = amph_ip_text_error(name);

    return err == ENAMETOOLONG ? ERANGE : err;
}

/* The C library's own call.  name: of the attribute; NULL: the list of all. */
static ssize_t local_get(const char *path, const char *name, void *buf, size_t cap, int flags)
{
    if (!name)
        return flags ? libc_llistxattr(path, buf, cap) : libc_listxattr(path, buf, cap);

    return flags ? libc_lgetxattr(path, name, buf, cap) : libc_getxattr(path, name, buf, cap);
}

/* An attribute by its name; NULL: the list of all. */
static ssize_t get(const char *path, const char *name, void *buf, size_t cap, int flags)
{
    struct amph_ip_resolved w;
    char value[XATTR_MAX];
    size_t len = 0;
    ssize_t got;
    int err;

    if (!amph_ip_resolve_near(&w, AT_FDCWD, path, false))
        return -1;

    if (w.local)
        return local_get(w.path, name, buf, cap, flags);

    if (amph_ip_near_xattr(&w, flags, name, buf, cap, &got, &err))
        return amph_ip_resolve_end(&w, err) ? -1 : got;

    if (!amph_ip_resolve_enter(&w))
        return -1;

    err = name ? amph_ip_client.fwd.getxattr(CLIENT, AMPH_IP_AT(&w), name, flags, value,
                                             sizeof value, &len)
               : amph_ip_client.fwd.listxattr(CLIENT, AMPH_IP_AT(&w), flags, value, sizeof value,
                                              &len);

    if (amph_ip_went_out(&w, err, flags))
        return local_get(w.path, name, buf, cap, flags);

    amph_ip_resolve_end(&w, 0);
    return result(err, value, len, buf, cap);
}

static ssize_t get_of_file(int fd, const char *name, void *buf, size_t cap)
{
    char value[XATTR_MAX];
    size_t len = 0;
    struct amph_fd_file *of;

    if (amph_ip_file_begin(fd, &of) != 0)
        return -1;

    int err = name
                  ? amph_ip_client.fwd.fgetxattr(CLIENT, &of->file, name, value, sizeof value, &len)
                  : amph_ip_client.fwd.flistxattr(CLIENT, &of->file, value, sizeof value, &len);

    amph_ip_file_end(of, 0);
    return result(err, value, len, buf, cap);
}

ssize_t amph_do_getxattr(const char *path, const char *name, void *buf, size_t cap, int flags)
{
    int bad = name_error(name);

    return bad ? amph_ip_fail(bad) : get(path, name, buf, cap, flags);
}

ssize_t amph_do_fgetxattr(int fd, const char *name, void *buf, size_t cap)
{
    int bad = name_error(name);

    return bad ? amph_ip_fail(bad) : get_of_file(fd, name, buf, cap);
}

ssize_t amph_do_listxattr(const char *path, char *buf, size_t cap, int flags)
{
    return get(path, NULL, buf, cap, flags);
}

ssize_t amph_do_flistxattr(int fd, char *buf, size_t cap)
{
    return get_of_file(fd, NULL, buf, cap);
}

int amph_do_setxattr(const char *path, const char *name, const void *value, size_t len, int how,
                     int flags)
{
    int bad = name_error(name);

    if (!bad && len <= XATTR_MAX && !amph_ip_can_read(value, len))
        bad = EFAULT;

    if (bad)
        return amph_ip_fail(bad);

    struct amph_ip_resolved w;
    if (!amph_ip_resolve(&w, AT_FDCWD, path, false))
        return -1;

    if (!w.local) {
        int err = amph_ip_client.fwd.setxattr(CLIENT, AMPH_IP_AT(&w), name, value, len, how, flags);
        if (!amph_ip_went_out(&w, err, flags))
            return amph_ip_resolve_end(&w, err);
    }

    return flags ? libc_lsetxattr(w.path, name, value, len, how)
                 : libc_setxattr(w.path, name, value, len, how);
}

int amph_do_fsetxattr(int fd, const char *name, const void *value, size_t len, int how)
{
    int bad = name_error(name);

    if (!bad && len <= XATTR_MAX && !amph_ip_can_read(value, len))
        bad = EFAULT;

    if (bad)
        return amph_ip_fail(bad);

    struct amph_fd_file *of;

    return amph_ip_file_begin(fd, &of) != 0
               ? -1
               : amph_ip_file_end(
                     of, amph_ip_client.fwd.fsetxattr(CLIENT, &of->file, name, value, len, how));
}

int amph_do_removexattr(const char *path, const char *name, int flags)
{
    int bad = name_error(name);

    if (bad)
        return amph_ip_fail(bad);

    struct amph_ip_resolved w;
    if (!amph_ip_resolve(&w, AT_FDCWD, path, false))
        return -1;

    if (!w.local) {
        int err = amph_ip_client.fwd.removexattr(CLIENT, AMPH_IP_AT(&w), name, flags);
        if (!amph_ip_went_out(&w, err, flags))
            return amph_ip_resolve_end(&w, err);
    }

    return flags ? libc_lremovexattr(w.path, name) : libc_removexattr(w.path, name);
}

int amph_do_fremovexattr(int fd, const char *name)
{
    int bad = name_error(name);

    if (bad)
        return amph_ip_fail(bad);

    struct amph_fd_file *of;

    return amph_ip_file_begin(fd, &of) != 0
               ? -1
               : amph_ip_file_end(of, amph_ip_client.fwd.fremovexattr(CLIENT, &of->file, name));
}
