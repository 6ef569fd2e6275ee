/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of host files, -host lists and -map: a user's, or a batch system's, text.  Run by
 * tests/fuzz/fuzz.sh. An input is four bytes of numbers, the rule of -map up to a line's end, and
 * the list.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/hosts/hostfile.h"
#include "launcher/common/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

void amph_say(const char *fmt, ...)
{
}

enum amph_status amph_hosts_find(const struct amph_jobdesc *job, bool ssh_given, bool pretend,
                                 bool *remote)
{
    for (uint32_t h = 0; h < job->nhosts; h++)
        remote[h] = job->host_name[h][0] == 'r';

    return AMPH_OK;
}

/* What comes out is whole: every number leads somewhere. */
static void look(const struct amph_options *o, const struct amph_jobdesc *job,
                 const struct amph_hostset *hosts)
{
    uint32_t total = o->ncompute + o->nservers;

    if (job->nproc[AMPH_COMPUTE] != o->ncompute || job->nproc[AMPH_SERVER] != o->nservers ||
        job->nhosts == 0 || job->nhosts > total)
        abort();

    for (uint32_t i = 0; i < total; i++)
        if (job->proc[i].host >= job->nhosts)
            abort();

    for (uint32_t i = 0; i < o->ncompute && o->nservers; i++)
        if (job->server_of[i] < o->ncompute || job->server_of[i] >= total)
            abort();

    for (uint32_t h = 0; h < job->nhosts; h++)
        for (int k = 0; k < AMPH_NPATHS; k++) {
            const char *path = amph_hostset_path(hosts, h, "s390x", (enum amph_path)k);

            if (!job->host_name[h][0] || strpbrk(job->host_name[h], " \t\n[]") ||
                (path && !path[0]))
                abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct amph_jobdesc job;
    struct amph_hostset hosts;

    if (len < 4)
        return 0;

    char *text = malloc(len - 3);

    memcpy(text, bytes + 4, len - 4);
    text[len - 4] = 0;

    char *map = text;
    char *list = text + strcspn(text, "\n");

    if (*list)
        *list++ = 0;

    struct amph_options o = { .ncompute = 1 + bytes[0] % 16,
                              .nservers = bytes[1] % 5,
                              .map = map,
                              .host_list = list,
                              .nhosts = bytes[2] % 4 == 3 ? UINT32_MAX : bytes[2] % 4 };

    if (amph_hostfile_job(&o, &job, &hosts) == AMPH_OK)
        look(&o, &job, &hosts);

    amph_hostset_free(&hosts, job.nhosts);
    amph_boot_jobdesc_free(&job);
    free(text);

    return 0;
}
