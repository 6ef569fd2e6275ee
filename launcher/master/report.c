/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of processes, and the mapping table of -v.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "boot/boot.h"
#include "launcher/master/launch.h"

#define TABLE_NS (2 * AMPH_NS_PER_S)

static const char *const group_name[AMPH_NGROUPS] = { "compute", "server" };

uint32_t amph_launch_proc_number(const struct amph_lproc *p)
{
    return p->rank - (p->group == AMPH_SERVER ? p->launch->job.nproc[AMPH_COMPUTE] : 0);
}

const char *amph_launch_proc_name(const struct amph_lproc *p)
{
    char *text = p->launch->proc_name;
    size_t cap = sizeof p->launch->proc_name;
    const struct amph_jobdesc *job = &p->launch->job;
    const char *host = job->host_name[job->proc[p->rank].host];

    if (p->pid)
        snprintf(text, cap, "%s %u (process %d) on %s", group_name[p->group],
                 amph_launch_proc_number(p), (int)p->pid, host);
    else
        snprintf(text, cap, "%s %u on %s", group_name[p->group], amph_launch_proc_number(p), host);

    return text;
}

/* Formats a number of bytes in the largest unit that divides it. */
static void print_bytes(char *text, size_t cap, uint64_t bytes)
{
    static const char *const units[] = { "", "K", "M", "G", "T" };
    size_t u = 0;

    while (bytes && bytes % 1024 == 0 && u + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        u++;
    }

    snprintf(text, cap, "%" PRIu64 "%s", bytes, units[u]);
}

static void print_row(FILE *out, const struct amph_launch *l, uint32_t rank, int host_width)
{
    const struct amph_jobdesc *job = &l->job;
    const struct amph_lproc *p = &l->procs[rank];
    const struct amph_proc *facts = &job->proc[rank];
    char server[16] = "-";
    char page[32] = "-";
    char area[32] = "-";
    const char *order = "-";
    uint32_t relative = amph_launch_proc_number(p);

    if (p->group == AMPH_COMPUTE && job->server_of)
        snprintf(server, sizeof server, "%u", job->server_of[rank] - job->nproc[AMPH_COMPUTE]);

    if (facts->stated) {
        print_bytes(page, sizeof page, facts->page_bytes);
        print_bytes(area, sizeof area, facts->area_bytes);
        order = facts->big_endian ? "big" : "little";
    }

    fprintf(out, "%-7s %8u %8u  %-*s %6s  %-6s %4s %8s\n", group_name[p->group], relative, rank,
            host_width, job->host_name[facts->host], server, order, page, area);
}

void amph_launch_table_print(struct amph_launch *l)
{
    char *text = NULL;
    size_t len = 0;
    int width = 4;

    if (!l->o->verbose || l->table_printed)
        return;

    l->table_printed = true;

    FILE *out = open_memstream(&text, &len);
    if (!out)
        return;

    for (uint32_t h = 0; h < l->job.nhosts; h++)
        if ((int)strlen(l->job.host_name[h]) > width)
            width = (int)strlen(l->job.host_name[h]);

    fprintf(out, "%-7s %8s %8s  %-*s %6s  %-6s %4s %8s\n", "group", "relative", "absolute", width,
            "host", "server", "order", "page", "transfer");
    for (uint32_t i = 0; i < amph_boot_jobdesc_total(&l->job); i++)
        print_row(out, l, i, width);

    fclose(out);

    /* Each row is one write to standard error, so that the job's standard output is unchanged. */
    for (size_t at = 0; at < len;) {
        ssize_t n = write(STDERR_FILENO, text + at, len - at);
        if (n <= 0)
            break;

        at += (size_t)n;
    }

    free(text);
}

static void on_table_due(void *arg)
{
    amph_launch_table_print(arg); /* some programs never join, and so never report */
}

void amph_launch_table_start(struct amph_launch *l)
{
    if (l->o->verbose)
        amph_timer_set(&l->loop, &l->table_timer, TABLE_NS, on_table_due, l);
}

void amph_launch_table_check(struct amph_launch *l)
{
    if (l->nstated[AMPH_COMPUTE] == l->job.nproc[AMPH_COMPUTE] &&
        l->nstated[AMPH_SERVER] == l->job.nproc[AMPH_SERVER])
        amph_launch_table_print(l);
}
