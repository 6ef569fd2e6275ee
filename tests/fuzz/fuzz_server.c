/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of the launcher's PMI server: the lines of the job's processes, in pieces as a stream
 * brings them.  Run by tests/fuzz/fuzz.sh. An input is a row of pieces: a byte that names the
 * process and the length, then the bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "boot/pmi1.h"
#include "launcher/master/launch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    COMPUTE = 3,
    SERVERS = 1
};

static struct amph_lagent agent;
static unsigned answers;

struct amph_lagent *amph_launch_agent_of(struct amph_lproc *p)
{
    return &agent;
}

/* An answer is one line to one process, whatever was asked. */
void amph_tree_report(struct amph_lagent *to, uint16_t type, const void *body, size_t len_bytes)
{
    struct amph_rd r;

    amph_rd_init(&r, body, len_bytes);

    uint32_t rank = amph_rd_u32(&r);
    size_t n = amph_rd_left(&r);

    if (to != &agent || type != AMPH_AGENT_PMI || r.bad || rank >= COMPUTE + SERVERS || n == 0 ||
        n > AMPH_PMI_LINE_BYTES || memchr(r.at, '\n', n) != r.at + n - 1)
        abort();

    answers++;
}

void amph_launch_check_absent(struct amph_launch *l, enum amph_group group, const char *where)
{
}

bool amph_launch_proc_is_replaced(const struct amph_lproc *p)
{
    return false;
}

void amph_launch_proc_abort(struct amph_lproc *p, int code)
{
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct amph_proc place[COMPUTE + SERVERS] = {
        { .host = 0 }, { .host = 1 }, { .host = 1 }, { .host = 0 }
    };
    static struct amph_launch l;
    static struct amph_lproc procs[COMPUTE + SERVERS];

    memset(&l, 0, sizeof l);
    memset(procs, 0, sizeof procs);
    l.job.nproc[AMPH_COMPUTE] = COMPUTE;
    l.job.nproc[AMPH_SERVER] = SERVERS;
    l.job.proc = place;
    l.procs = procs;

    for (uint32_t i = 0; i < COMPUTE + SERVERS; i++) {
        procs[i].launch = &l;
        procs[i].rank = i;
        procs[i].group = i < COMPUTE ? AMPH_COMPUTE : AMPH_SERVER;
    }

    if (amph_launch_pmi_start(&l) != AMPH_OK)
        abort();

    while (len > 0) {
        size_t n = bytes[0] >> 2 ? bytes[0] >> 2 : len; /* 0: all that is left */

        n = n < len - 1 ? n : len - 1;

        /* exactly as long, so that a sanitizer sees each byte too many */
        uint8_t *copy = malloc(n ? n : 1);

        memcpy(copy, bytes + 1, n);
        amph_launch_pmi_bytes(&procs[bytes[0] % 4], copy, n);
        free(copy);
        bytes += 1 + n;
        len -= 1 + n;
    }

    amph_launch_pmi_stop(&l);
    return 0;
}
