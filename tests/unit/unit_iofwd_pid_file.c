/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of iofwd/server/pid_file.c: servers that end while others start.  The linker gives pid_file.c the flock of
 * this file (--wrap), so that they end at a moment of the test's choice. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/server/pid_file.h"

static char path[64];
static int removals; /* how often the file is removed between its open and its lock */

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);

int __wrap_flock(int fd, int operation)
{
    if (removals > 0) {
        removals--;
        cr_assert_eq(unlink(path), 0);
    }

    return __real_flock(fd, operation);
}

static void name_file(void)
{
    snprintf(path, sizeof path, "/tmp/unit_pid_file.%ld", (long)getpid());
    unlink(path);
}

static void drop_file(void)
{
    unlink(path);
}

/* Writes this process's number into the file that was taken, and looks for it at the path. */
static void write_and_find(int fd)
{
    char wanted[24];
    char found[24] = "";
    FILE *f;

    cr_assert(fd >= 0 && amph_server_pid_file_write(fd, path));
    snprintf(wanted, sizeof wanted, "%ld\n", (long)getpid());

    f = fopen(path, "r");
    cr_assert_not_null(f, "nobody finds the number");
    cr_assert_not_null(fgets(found, sizeof found, f));
    fclose(f);

    cr_assert_str_eq(found, wanted);
    close(fd);
}

TestSuite(pid_file, .init = name_file, .fini = drop_file);

Test(pid_file, holds_the_number)
{
    write_and_find(amph_server_pid_file_take(path));
}

Test(pid_file, is_made_anew_if_the_servers_that_had_it_remove_it_meanwhile)
{
    removals = 3;
    write_and_find(amph_server_pid_file_take(path));
    cr_assert_eq(removals, 0);
}

Test(pid_file, that_is_removed_each_time_is_given_up)
{
    char said[256] = "";

    cr_redirect_stderr();
    removals = 1000000;
    cr_assert_eq(amph_server_pid_file_take(path), -1);

    fflush(stderr);
    cr_assert_not_null(fgets(said, sizeof said, cr_get_redirected_stderr()));
    cr_assert(strstr(said, "removed or replaced"), "%s", said);
}

Test(pid_file, of_servers_that_still_run_is_left_alone)
{
    char said[256] = "";
    int fd = amph_server_pid_file_take(path);

    cr_redirect_stderr();
    cr_assert(fd >= 0);
    cr_assert_eq(amph_server_pid_file_take(path), -1);

    fflush(stderr);
    cr_assert_not_null(fgets(said, sizeof said, cr_get_redirected_stderr()));
    cr_assert(strstr(said, "still run (process "), "%s", said);
    write_and_find(fd);
}
