/* SPDX-License-Identifier: BSD-3-Clause */
/* Describes program files; see program_look.h.  Layer: base.  Thread rule: any thread. */
#include "base/program/program_look.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

static int open_file(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

void amph_image_of(const char *path, struct amph_image *image_p)
{
    static const struct amph_image_calls calls = { .open = open_file,
                                                   .close = close,
                                                   .fstat = fstat,
                                                   .fstatvfs = fstatvfs,
                                                   .fgetxattr = fgetxattr,
                                                   .pread = pread };

    amph_image_look(&calls, path, image_p);
}
