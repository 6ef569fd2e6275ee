/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table at the end of wave: who was where in the host file, what each process spent its time on,
 * what each server carried. Process 0 prints; the others put their numbers into its segment.
 */
#include "wave.h"

#include <amphora.h>
#include <gasnet.h>
#include <iofwd.h>
#include <stdio.h>
#include <string.h>

/* What this process's server says it has carried for it. */
static void ask_server(struct wave_field *f)
{
    uint32_t server = amphora_server_of((uint32_t)f->rank);
    struct iofwd_stats stats;

    if (server == AMPHORA_NONE || iofwd_stats(server, &stats) != 0)
        return;

    wave_time[WAVE_CALLS] = (double)stats.calls;
    wave_time[WAVE_OUT] = (double)stats.bytes_written;
    wave_time[WAVE_IN] = (double)stats.bytes_read;
}

static const char *host_of(uint32_t number)
{
    struct amphora_proc proc;
    return amphora_proc(number, &proc) == GASNET_ERR_BAD_ARG || !proc.host_name ? "?"
                                                                                : proc.host_name;
}

static void print_processes(const struct wave_field *f)
{
    printf("  compute  number  host              rows           server      compute s     comm. s  "
           "    file s    file MB\n");
    for (int q = 0; q < f->procs; q++) {
        const double *t = f->box.times + (size_t)q * WAVE_TIMES;
        uint32_t number = amphora_member(AMPHORA_COMPUTE, (uint32_t)q);
        uint32_t server = amphora_server_of((uint32_t)q);
        char name[32] = "none";
        int first, rows;

        wave_rows(f->par->ny, f->procs, q, &first, &rows);
        if (server != AMPHORA_NONE)
            snprintf(name, sizeof name, "%u (%u)", server - amphora_member(AMPHORA_SERVERS, 0),
                     server);

        printf("  %7d  %6u  %-16.16s  %5d..%-6d  %-9s  %10.3f  %10.3f  %10.3f  %9.3f\n", q, number,
               host_of(number), first, first + rows - 1, name, t[WAVE_COMPUTE], t[WAVE_COMM],
               t[WAVE_FILE], t[WAVE_WRITTEN] / 1e6);
    }
}

static void print_server(const struct wave_field *f, uint32_t s)
{
    double sum[WAVE_TIMES] = { 0 };
    uint32_t number = amphora_member(AMPHORA_SERVERS, s);
    int clients = 0;

    for (int q = 0; q < f->procs; q++) {
        if (amphora_server_of((uint32_t)q) != number)
            continue;

        clients++;
        for (int i = 0; i < WAVE_TIMES; i++)
            sum[i] += f->box.times[(size_t)q * WAVE_TIMES + i];
    }

    printf("  %7u  %6u  %-16.16s  %14.0f  %14.0f  %10.0f  %8d\n", s, number, host_of(number),
           sum[WAVE_OUT], sum[WAVE_IN], sum[WAVE_CALLS], clients);
}

static void print_servers(const struct wave_field *f)
{
    uint32_t servers = amphora_group_size(AMPHORA_SERVERS);

    if (servers == 0) {
        printf("\n  no I/O servers: every process wrote its files itself\n");
        return;
    }

    printf("\n   server  number  host               bytes written      bytes read       calls   "
           "clients\n");
    for (uint32_t s = 0; s < servers; s++)
        print_server(f, s);
}

void wave_report(struct wave_field *f, double wall)
{
    ask_server(f);
    gasnet_put(0, f->root.times + (size_t)f->rank * WAVE_TIMES, wave_time, sizeof wave_time);
    wave_barrier();
    if (f->rank != 0)
        return;

    printf("\nwave: %d x %d cells, %d steps in %.2f s on %d compute processes and %u I/O servers; "
           "files in %s\n\n",
           f->nx, f->par->ny, f->step, wall, f->procs, amphora_group_size(AMPHORA_SERVERS),
           f->par->output);
    print_processes(f);
    print_servers(f);
    printf("\n");
    fflush(stdout);
}
