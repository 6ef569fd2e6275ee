/* SPDX-License-Identifier: BSD-3-Clause */
/* fwd_static DIRECTORY: plain stdio and POSIX calls of a static program; fwd_static.sh links it by
 * iofwd-static's flags. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char path[4096];
    char text[50] = "";
    struct stat st;

    snprintf(path, sizeof path, "%s/static", argc > 1 ? argv[1] : ".");

    FILE *f = fopen(path, "w");
    if (!f || fprintf(f, "from a static program\n") != 22 || fclose(f) != 0)
        return 1;

    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) != 0 || read(fd, text, sizeof text - 1) != 22 || close(fd) != 0)
        return 2;

    printf("%s%ld bytes\n", text, (long)st.st_size);
    f = fopen(path, "a");
    return !f || fprintf(f, "last words\n") != 11; /* written after main */
}
