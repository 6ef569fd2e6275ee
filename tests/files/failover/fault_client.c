/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client whose attach is to fail (fwd_start_faults.sh): writes the file given and reads it back.  Prints
 * "through", or the call that failed and its errno; exit code 0 or 1.  `fault_client FILE`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char text[] = "through";

static int failed(const char *call)
{
    fprintf(stderr, "%s: %s\n", call, strerrorname_np(errno));
    return 1;
}

int main(int argc, char **argv)
{
    char got[sizeof text];
    int fd = open(argc > 1 ? argv[1] : "", O_RDWR | O_CREAT, 0644);

    if (fd < 0)
        return failed("open");

    if (write(fd, text, sizeof text) != sizeof text)
        return failed("write");

    if (pread(fd, got, sizeof got, 0) != sizeof got || memcmp(got, text, sizeof got) != 0)
        return failed("pread");

    if (close(fd) != 0)
        return failed("close");

    puts(text);
    return 0;
}
