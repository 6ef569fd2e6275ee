/* SPDX-License-Identifier: BSD-3-Clause */
/* For fwd_valgrind.sh: PROGRAM FILE.  Reads into memory that is there, not written yet, and into memory that is
 * not. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int argc, char **argv)
{
    static void *volatile nowhere = (void *)8;
    const char *path = argc == 2 ? argv[1] : "";
    int fd = open(path, O_RDWR);
    char on_stack[60000];
    char *large = malloc(1 << 20);
    void *read_only = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (fd < 0 || !large || read_only == MAP_FAILED)
        return fail(path);

    if (pread(fd, on_stack, sizeof on_stack, 0) <= 0 || pread(fd, large, 1 << 20, 0) <= 0)
        return fail("pread");

    if (read(fd, nowhere, 4) != -1 || errno != EFAULT)
        return fail("read to nowhere");

    if (stat(path, nowhere) != -1 || errno != EFAULT)
        return fail("stat to nowhere");

    if (pread(fd, read_only, 10, 0) != -1 || errno != EFAULT)
        return fail("pread to memory that can only be read");

    free(large);
    return 0;
}
