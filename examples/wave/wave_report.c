/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table at the end of wave: who was where in the netlist, what each process spent its time on, what each server carried.
 * Process 0 prints; the others put their numbers into its segment.
 */
#include "wave.h"

#include <amphora.h>
#include <gasnet.h>
#include <iofwd.h>
#include <stdio.h>
#include <string.h>

/* There only when files are forwarded: libiofwd is not linked, the preload library brings it. */
extern int iofwd_stats(uint32_t server, struct iofwd_stats *stats_p) __attribute__((weak));

/* What this process's server says it has carried for it. */
static void ask_server(struct wave_field *f)
{
    struct iofwd_stats stats;
    if (amphora_servers() == 0 || !iofwd_stats || iofwd_stats(amphora_server_of((uint32_t)f->rank), &stats) != 0)
        return;
    wave_time[WAVE_CALLS] = (double)stats.calls;
    wave_time[WAVE_OUT] = (double)stats.bytes_out;
    wave_time[WAVE_IN] = (double)stats.bytes_in;
}

static void print_processes(const struct wave_field *f)
{
    printf("\n  compute   number    rows          server              compute s    comm. s    files s    written MB\n");
    for (int q = 0; q < f->procs; q++) {
        const double *t = f->box.times + (size_t)q * WAVE_TIMES;
        char server[48] = "none";
        int first, rows;
        wave_rows(f->par->ny, f->procs, q, &first, &rows);
        if (amphora_servers() > 0) {
            uint32_t s = amphora_server_of((uint32_t)q);
            snprintf(server, sizeof server, "%u (number %u)", s - amphora_computes(), s);
        }
        printf("  %7d  %7d    %4d..%-6d  %-18s  %9.3f  %9.3f  %9.3f  %12.3f\n", q, q, first, first + rows - 1, server, t[WAVE_COMPUTE],
               t[WAVE_COMM], t[WAVE_FILE], t[WAVE_WRITTEN] / 1e6);
    }
}

static void print_servers(const struct wave_field *f)
{
    if (amphora_servers() == 0) {
        printf("\n  no I/O servers: every process wrote its files itself\n");
        return;
    }
    printf("\n   server   number          bytes in    bytes out        calls   clients\n");
    for (uint32_t s = 0; s < amphora_servers(); s++) {
        double sum[WAVE_TIMES] = { 0 };
        int clients = 0;
        for (int q = 0; q < f->procs; q++) {
            if (amphora_server_of((uint32_t)q) != amphora_computes() + s)
                continue;
            clients++;
            for (int i = 0; i < WAVE_TIMES; i++)
                sum[i] += f->box.times[(size_t)q * WAVE_TIMES + i];
        }
        printf("  server %u %8u written %.0f read %.0f calls %.0f clients %d\n", s, amphora_computes() + s, sum[WAVE_OUT], sum[WAVE_IN],
               sum[WAVE_CALLS], clients);
    }
}

void wave_report(struct wave_field *f, double wall)
{
    ask_server(f);
    gasnet_put(0, f->root.times + (size_t)f->rank * WAVE_TIMES, wave_time, sizeof wave_time);
    wave_barrier();
    if (f->rank != 0)
        return;
    printf("\nwave: %d x %d cells, %d steps in %.2f s on %d compute processes and %u I/O servers; files in %s\n", f->nx, f->par->ny, f->step, wall,
           f->procs, amphora_servers(), f->par->output);
    print_processes(f);
    print_servers(f);
    printf("\n");
    fflush(stdout);
}
