/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends processes whose MPI library would misunderstand which job they belong to; see mpi_job.h.
 *
 * Layer: iofwd (interposer).
 */
#include "iofwd/interpose/process/mpi_job.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/program/open_mpi.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/settings.h"
#include "iofwd/interpose/process/die.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/process/state.h"

/* The MPI libraries that are loaded. */
struct libraries {
    struct amph_open_mpi open_mpi;
    bool mpich;
};

void amph_ip_mpi_job_start(char **env)
{
    int64_t nprocs = amph_ip_foreign_int(env, AMPH_IP_FOREIGN_PMI_SIZE);
    int64_t servers = amph_ip_setting_int(env, AMPH_ENV_SERVERS);
    bool pmi1 = amph_ip_foreign_text(env, AMPH_IP_FOREIGN_PMI_FD) ||
                amph_ip_foreign_text(env, AMPH_IP_FOREIGN_PMI_PORT);
    bool pmix = amph_ip_foreign_text(env, AMPH_IP_FOREIGN_PMIX_NAMESPACE);
    bool ours = amph_ip_setting_text(env, AMPH_ENV_JOB);

    if (!pmi1 || pmix)
        return;

    if (!ours && servers > 0) {
        amph_ip_process.mpi_job.servers = (uint32_t)servers;
        amph_ip_process.mpi_job.pmi_fd = (int)amph_ip_foreign_int(env, AMPH_IP_FOREIGN_PMI_FD);
    }

    if (ours && amph_ip_setting_text(env, AMPH_ENV_RANK) && nprocs > 1 &&
        !amph_ip_setting_bool(env, AMPH_ENV_MPI_SINGLETONS))
        amph_ip_process.mpi_job.nprocs = (uint32_t)nprocs;
}

/* libmpich is Debian's name; libmpi.so.12 is that of the ABI that MPICH and its relatives share. */
static bool is_mpich(const char *library)
{
    const char *slash = strrchr(library, '/');
    const char *name = slash ? slash + 1 : library;

    return strncmp(name, "libmpich.so", 11) == 0 || strcmp(name, "libmpi.so.12") == 0 ||
           strncmp(name, "libmpi.so.12.", 13) == 0;
}

static int take(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct libraries *seen = arg;

    if (!info->dlpi_name)
        return 0;

    amph_open_mpi_take(&seen->open_mpi, info->dlpi_name);
    seen->mpich = seen->mpich || is_mpich(info->dlpi_name);

    return 0;
}

/* Waits, for a tenth of a second at most, until the launcher has read what is in the pipe of standard
 * error: when a process ends the job, hydra's proxy does not pass on what it has not read. */
static void await_reader(void)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    int unread = 0;

    for (unsigned i = 0; i < 100; i++) {
        if (ioctl(STDERR_FILENO, FIONREAD, &unread) != 0 || unread == 0)
            return;

        nanosleep(&pause, NULL);
    }
}

/* Ends the job: the servers wait for this process. */
static void abort_job(void)
{
    static const char words[] = "cmd=init pmi_version=1 pmi_subversion=1\ncmd=abort exitcode=1\n";

    await_reader();
    if (amph_ip_process.mpi_job.pmi_fd >= 0)
        (void)!libc_write(amph_ip_process.mpi_job.pmi_fd, words, sizeof words - 1);
}

void amph_ip_mpi_job_check(void)
{
    struct libraries seen = { { false, false }, false };
    char why[AMPH_OPEN_MPI_WHY_BYTES];

    if (AMPH_LIKELY(!amph_ip_process.mpi_job.nprocs && !amph_ip_process.mpi_job.servers))
        return;

    dl_iterate_phdr(take, &seen);
    if (amph_ip_process.mpi_job.nprocs && amph_open_mpi_is(&seen.open_mpi))
        amph_ip_die(
            1, "%s",
            amph_open_mpi_explain(program_invocation_name, amph_ip_process.mpi_job.nprocs, why));

    if (!amph_ip_process.mpi_job.servers || !seen.mpich)
        return;

    amph_ip_die_say(
        "%s uses MPICH, which would take the %u I/O servers of this job for its ranks: "
        "start the servers by iofwd-server -daemon and the program alone by mpiexec -n N "
        "iofwd-run, or all by amphora-run -n N -servers %u (see mpi.md)",
        program_invocation_name, amph_ip_process.mpi_job.servers, amph_ip_process.mpi_job.servers);
    abort_job();
    amph_ip_die_reported();
}
