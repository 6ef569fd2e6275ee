/* SPDX-License-Identifier: BSD-3-Clause */
/* A C program for fwd_cc.sh: streams, directories and names in the directory that is its argument.  Its exit code is
 * FWD_CC_CODE. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory, in order. */
static void list(const char *path)
{
    char *names[64];
    size_t n = 0;
    DIR *dir = opendir(path);
    struct dirent *e;

    while (dir && n < 64 && (e = readdir(dir)))
        if (e->d_name[0] != '.')
            names[n++] = strdup(e->d_name);

    printf("%zu names, errno %d:", n, dir ? 0 : errno);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) {
        printf(" %s", names[i]);
        free(names[i]);
    }

    putchar('\n');
    if (dir)
        closedir(dir);
}

static void streams(void)
{
    char line[64] = "";
    int number = 0;
    FILE *f = fopen("text", "w+");

    fprintf(f, "a line %d\nanother\n", 42);
    fseek(f, 2, SEEK_SET);
    printf("%d, ", fscanf(f, "line %d", &number));
    printf("%d at %ld\n", number, ftell(f));
    fclose(f);

    f = fopen("text", "a");
    setvbuf(f, NULL, _IOLBF, 16);
    fputs("appended\n", f);
    fclose(f);

    f = fopen("text", "r");
    while (fgets(line, sizeof line, f))
        printf("text: %s", line);

    fclose(f);
    f = fopen("nothing/there", "r");
    printf("%s\n", f ? "opened" : strerror(errno));
}

static void names(void)
{
    char cwd[4096];
    struct stat st;

    printf("%s\n", getcwd(cwd, sizeof cwd));
    mkdir("sub", 0750);
    printf("rename %d\n", rename("text", "sub/moved"));
    printf("stat %d, ", stat("sub/moved", &st));
    printf("%ld bytes, mode %o\n", (long)st.st_size, st.st_mode);
    printf("symlink %d\n", symlink("sub/moved", "link"));
    printf("access %d %d\n", access("link", R_OK), access("text", R_OK));
    list(".");
    list("sub");
    list("none");
}

static void descriptors(void)
{
    char buf[8] = "";
    int fd = open("raw", O_RDWR | O_CREAT | O_EXCL, 0640);

    printf("%zd %zd\n", write(fd, "0123456789", 10), pwrite(fd, "ab", 2, 4));
    printf("%ld %zd %s\n", (long)lseek(fd, -8, SEEK_END), read(fd, buf, 5), buf);
    printf("truncate %d\n", ftruncate(fd, 7));
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc < 2 || chdir(argv[1]) != 0) {
        perror(argc > 1 ? argv[1] : "usage");
        return 1;
    }

    streams();
    names();
    descriptors();
    fprintf(stderr, "done\n");

    return getenv("FWD_CC_CODE") ? atoi(getenv("FWD_CC_CODE")) : 0;
}
