/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A link in DIRECTORY is now one to FREE, now one to FIXED, which is exported read-only; meanwhile
 * it is opened for writing, in each way.
 *   fwd_exports FREE FIXED DIRECTORY TIMES
 * Ends with 0 where all went into FREE, and some openings were refused.  What is in FIXED the
 * caller looks at.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char one[256], two[256];
static atomic_bool over;

static void *flip(void *arg)
{
    (void)arg;
    while (!atomic_load(&over))
        if (renameat2(AT_FDCWD, one, AT_FDCWD, two, RENAME_EXCHANGE) != 0) {
            perror("renameat2");
            exit(2);
        }

    return NULL;
}

int main(int argc, char **argv)
{
    static const int flags[] = { O_WRONLY,
                                 O_RDWR,
                                 O_WRONLY | O_TRUNC,
                                 O_WRONLY | O_CREAT,
                                 O_RDWR | O_CREAT | O_TRUNC,
                                 O_RDONLY | O_TRUNC };
    const size_t nflags = sizeof flags / sizeof flags[0];
    long written = 0;
    long refused = 0;
    long strange = 0;
    pthread_t t;

    if (argc != 5)
        return 2;

    snprintf(one, sizeof one, "%s/one", argv[3]);
    snprintf(two, sizeof two, "%s/two", argv[3]);
    if (symlink(argv[1], one) != 0 || symlink(argv[2], two) != 0 ||
        pthread_create(&t, NULL, flip, NULL) != 0)
        return 2;

    for (long i = 0, n = atol(argv[4]); i < n || (written == 0 && i < 100 * n); i++) {
        int fd = open(one, flags[(size_t)i % nflags], 0600);

        if (fd < 0) {
            refused += errno == EROFS;
            strange += errno != EROFS;
            continue;
        }

        written += write(fd, "written", 7) == 7;
        close(fd);
    }

    atomic_store(&over, true);
    pthread_join(t, NULL);
    printf("%ld written, %ld refused, %ld strange answers\n", written, refused, strange);

    return !written || !refused || strange;
}
