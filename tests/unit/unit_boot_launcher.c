/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of launcher/: host files, the assignment of slots, mapping rules, options, the event
 * loop. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/os/clock.h"
#include "boot/control.h"
#include "launcher/common/loop.h"
#include "launcher/hosts/hostfile.h"
#include "launcher/common/message.h"

Test(netlist, forms_of_a_line)
{
    struct amph_hostfile list;

    cr_assert_eq(amph_hostfile_parse(&list, "f", "a\n  b:2  # two\n\n# none\nc slots=3\r\nb\nlast"),
                 AMPH_OK);

    static const uint32_t places[] = { 0, 1, 1, 2, 2, 2, 1, 3 };

    cr_assert_eq(list.nslots, 8);
    cr_assert_eq(list.nhosts, 4);
    cr_assert_arr_eq(list.slot, places, sizeof places);
    cr_assert_eq(list.again_line, 6);
    amph_hostfile_free(&list);
    cr_assert_eq(amph_hostfile_parse(&list, "f", "a\na\nb\nb:3\n"), AMPH_OK);
    cr_assert_eq(list.again_line, 0, "several times in a row is the usual form");
    amph_hostfile_free(&list);
}

Test(netlist, what_is_refused)
{
    static const char *const texts[] = {
        "",      "\n",     "# x\n",   "a b\n",         "a:\n",
        "a:0\n", "a:-1\n", "a:x\n",   "a:2000000\n",   "a slots=\n",
        "a$\n",  ":3\n",   "a:1 b\n", "a slots=2 x\n", "a:999999\nb:999999\n"
    };
    struct amph_hostfile list;

    for (size_t i = 0; i < AMPH_COUNTOF(texts); i++)
        cr_assert_eq(amph_hostfile_parse(&list, "f", texts[i]), AMPH_ERR_ARG, "text %zu", i);
}

/* A job of c compute processes and s servers on the hosts named in order. */
static struct amph_jobdesc deal(const char *text, uint32_t c, uint32_t s, const char *map)
{
    char path[] = "/tmp/amphora-unit-hosts-XXXXXX";
    struct amph_jobdesc job;
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);

    struct amph_options o = { .ncompute = c, .nservers = s, .hosts = path, .map = map };
    struct amph_hostset hosts;

    cr_assert_eq(amph_hostfile_job(&o, &job, &hosts), AMPH_OK);
    unlink(path);
    return job;
}

Test(netlist, first_places_compute_last_places_servers)
{
    struct amph_jobdesc job = deal("hostz\nhosta:2\nhostb\nhostc\nhostd\n", 2, 1, "mod");

    cr_assert_eq(job.nhosts, 3);
    cr_assert_str_eq(job.host_name[job.proc[0].host], "hostz");
    cr_assert_str_eq(job.host_name[job.proc[1].host], "hosta");
    cr_assert_str_eq(job.host_name[job.proc[2].host], "hostd");
    amph_boot_jobdesc_free(&job);
}

static void check_map(const char *hosts, uint32_t c, uint32_t s, const char *map,
                      const uint32_t *expected)
{
    struct amph_jobdesc job = deal(hosts, c, s, map);

    for (uint32_t i = 0; i < c; i++)
        cr_assert_eq(job.server_of[i], c + expected[i], "%s: compute %u", map, i);

    amph_boot_jobdesc_free(&job);
}

Test(mapping, rules)
{
    check_map("hosta:7\n", 5, 2, "mod", (uint32_t[]){ 0, 1, 0, 1, 0 });
    check_map("hosta:7\n", 5, 2, "block", (uint32_t[]){ 0, 0, 0, 1, 1 });
    check_map("hosta:7\n", 2, 5, "mod", (uint32_t[]){ 0, 1 });
    check_map("hosta:7\n", 2, 5, "block", (uint32_t[]){ 0, 2 });
    check_map("hosta:7\n", 4, 3, "2,0", (uint32_t[]){ 2, 0, 2, 0 });
    check_map("hosta:2\nhostb:2\nhosta:2\nhostb\n", 4, 3, "near", (uint32_t[]){ 0, 1, 2, 2 });
    check_map("hosta:2\nhostc:2\nhosta:2\nhostb\n", 4, 3, "near", (uint32_t[]){ 0, 1, 2, 0 });
}

Test(mapping, wrong_lists)
{
    static const char *const wrong[] = { "", "x", "2", "0,", "0,2", "0;1", "-1", "0 1" };
    struct amph_proc procs[4] = { { .host = 0 } };

    for (size_t i = 0; i < AMPH_COUNTOF(wrong); i++) {
        struct amph_jobdesc job = { .nproc = { 2, 2 }, .proc = procs };

        cr_assert_eq(amph_launch_map_servers(&job, wrong[i]), AMPH_ERR_ARG, "\"%s\"", wrong[i]);
        free(job.server_of);
    }
}

Test(options, one_or_two_dashes_and_both_forms)
{
    struct amph_options o;
    char *argv[] = { "amphora-run",
                     "-n",
                     "4",
                     "--servers=2",
                     "--network",
                     "tcp",
                     "-iofwd=/a=/b",
                     "-iofwd",
                     "/c",
                     "--label",
                     "-timeout",
                     "2.5",
                     "-on-server-death",
                     "eio",
                     "-v",
                     "--",
                     "-prog",
                     "-n",
                     "9",
                     NULL };

    cr_assert_eq(amph_launch_options_read(&o, (int)AMPH_COUNTOF(argv) - 1, argv), AMPH_OPTIONS_RUN);
    cr_assert(o.ncompute == 4 && o.nservers == 2 && o.label && o.verbose &&
              strcmp(o.on_server_death, "eio") == 0 && o.timeout_s == 2.5);
    cr_assert_str_eq(o.conduit, "tcp");
    cr_assert_str_eq(o.prefixes, "/a=/b:/c");
    cr_assert_str_eq(o.program[0], "-prog");
    cr_assert_str_eq(o.program[2], "9");
    free(o.prefixes);
}

Test(options, distance)
{
    cr_assert_eq(amph_text_distance("servers", "servers"), 0);
    cr_assert_eq(amph_text_distance("servrs", "servers"), 1);
    cr_assert_eq(amph_text_distance("", "abc"), 3);
}

static int calls;
static struct amph_watch *watch;

static void count_and_stop(void *arg, uint32_t events)
{
    if (++calls == 3)
        amph_watch_del(watch);
}

static void count_timer(void *arg)
{
    ++*(int *)arg;
}

Test(loop, plain_files_count_as_ready)
{
    struct amph_loop loop;
    struct amph_timer timer = { 0 };
    int rang = 0;
    char path[] = "/tmp/amphora-unit-loop-XXXXXX";
    int fd = mkstemp(path);

    unlink(path);
    cr_assert_eq(amph_loop_open(&loop), AMPH_OK);
    watch = amph_watch_add(&loop, fd, EPOLLIN, count_and_stop, NULL);
    cr_assert(watch->always);
    for (int i = 0; i < 3; i++)
        amph_loop_step(&loop);

    cr_assert_eq(calls, 3);
    amph_timer_set(&loop, &timer, 5 * AMPH_NS_PER_MS, count_timer, &rang);
    while (!rang)
        amph_loop_step(&loop); /* sleeps now: nothing is ready any more */

    cr_assert_eq(calls, 3);
    amph_loop_close(&loop);
}

Test(loop, a_watch_that_wants_nothing_is_not_woken_by_a_closed_end)
{
    struct amph_loop loop;
    struct amph_timer timer = { 0 };
    int fds[2];
    int rang = 0;

    cr_assert_eq(pipe(fds), 0);
    cr_assert_eq(amph_loop_open(&loop), AMPH_OK);
    watch = amph_watch_add(&loop, fds[0], EPOLLIN, count_and_stop, NULL);
    amph_watch_want(watch, 0);
    close(fds[1]);
    amph_timer_set(&loop, &timer, 10 * AMPH_NS_PER_MS, count_timer, &rang);
    while (!rang)
        amph_loop_step(&loop);

    cr_assert_eq(calls, 0);
    amph_watch_want(watch, EPOLLIN);
    amph_loop_step(&loop);
    cr_assert_eq(calls, 1);
    amph_loop_close(&loop);
}
