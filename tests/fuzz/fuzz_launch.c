/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of the launcher's side of the control protocol: what processes say, as agents of
 * other hosts carry it.  Run by tests/fuzz/fuzz.sh. An input is a row of steps: a byte that names
 * the step and the connection, a byte of length, and the bytes.  One of the steps is a greeting
 * that proves the job's key, which chance would not find.
 */
#include <stdlib.h>
#include <string.h>

#include "launcher/master/launch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    COMPUTE = 3,
    SERVERS = 2,
    TOTAL = COMPUTE + SERVERS,
    AGENTS = 2,
    CONNS = 4
};

enum step {
    OPEN,
    GREET,
    BYTES,
    CLOSE,
    ENDED,
    EVENT,
    FRAME,
    NSTEPS
};

static struct amph_launch l;
static struct amph_lagent agent[AGENTS];
/* what each connection was challenged with */
static uint8_t nonce[AGENTS][CONNS][AMPH_CONTROL_NONCE_BYTES];

/* ---- what the other files of the launcher do ---- */

static void told(struct amph_lagent *to, uint32_t number, struct amph_rd *r)
{
    if (to < agent || to >= agent + AGENTS || number == 0 || number > to->nconns)
        abort();

    uint32_t body_len = amph_rd_u32(r);
    uint16_t type = amph_rd_u16(r);

    if (r->bad || body_len != amph_rd_left(r) || type == 0 || type >= AMPH_CONTROL_NTYPES)
        abort(); /* an answer is one frame */

    if (type == AMPH_CONTROL_CHALLENGE && number <= CONNS)
        memcpy(nonce[to - agent][number - 1], r->at + 6, AMPH_CONTROL_NONCE_BYTES);
}

void amph_tree_report(struct amph_lagent *to, uint16_t type, const void *body, size_t len_bytes)
{
    struct amph_rd r;

    amph_rd_init(&r, body, len_bytes);

    uint32_t number = amph_rd_u32(&r);
    uint8_t what = amph_rd_u8(&r);

    if (r.bad || type != AMPH_AGENT_CONN || (what != AMPH_CONN_BYTES && what != AMPH_CONN_CLOSED))
        abort();

    if (what == AMPH_CONN_BYTES)
        told(to, number, &r);
}

bool amph_tree_spread(struct amph_launch *launch, struct amph_lagent *const *via,
                      const uint32_t *number, uint32_t n, const void *bytes, size_t len_bytes)
{
    for (uint32_t i = 0; i < n; i++) {
        struct amph_rd r;

        amph_rd_init(&r, bytes, len_bytes);
        told(via[i], number[i], &r);
    }

    return true;
}

void amph_launch_check_absent(struct amph_launch *launch, enum amph_group group, const char *where)
{
}

/* Every third input is a job that continues without its dead servers. */
static bool survives;

bool amph_launch_proc_is_replaced(const struct amph_lproc *p)
{
    return survives && p->group == AMPH_SERVER && p->ended;
}

uint32_t amph_launch_proc_number(const struct amph_lproc *p)
{
    return p->rank;
}

void amph_launch_table_check(struct amph_launch *launch)
{
}

void amph_launch_proc_left(struct amph_lproc *p, bool exit_called, int code)
{
    p->left = true;
}

void amph_launch_proc_abort(struct amph_lproc *p, int code)
{
    p->death_code = code;
}

void amph_launch_proc_lost(struct amph_lproc *p)
{
    p->ended = true;
    amph_launch_control_changed(p);
}

/* ---- steps ---- */

static void carried(struct amph_lagent *a, uint32_t number, uint8_t what, const void *bytes,
                    size_t len)
{
    /* exactly as long, so that a sanitizer sees each byte too many */
    uint8_t *body = malloc(5 + len);
    struct amph_wr w;
    struct amph_rd r;

    amph_wr_init(&w, body, 5 + len);
    amph_wr_u32(&w, number);
    amph_wr_u8(&w, what);
    amph_wr_bytes(&w, bytes, len);
    amph_rd_init(&r, body, amph_wr_len(&w));
    amph_launch_control_carried(a, &r);
    free(body);
}

static void frame(struct amph_lagent *a, uint32_t number, uint16_t type, const uint8_t *body,
                  size_t len)
{
    uint8_t whole[AMPH_FRAME_HEAD_BYTES + 512];
    struct amph_wr w;

    amph_wr_init(&w, whole, sizeof whole);
    amph_wr_u32(&w, (uint32_t)len);
    amph_wr_u16(&w, type);
    amph_wr_bytes(&w, body, len);
    carried(a, number, AMPH_CONN_BYTES, whole, amph_wr_len(&w));
}

static void greet(struct amph_lagent *a, uint32_t number, bool joins, uint32_t rank)
{
    uint8_t body[AMPH_CONTROL_HELLO_BYTES + AMPH_MAC_BYTES] = { 0 };
    struct amph_wr w;

    if (number == 0 || number > CONNS)
        return;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, AMPH_CONTROL_MAGIC);
    amph_wr_u16(&w, AMPH_CONTROL_VERSION);
    amph_wr_u8(&w, joins);
    amph_wr_u32(&w, rank);
    amph_boot_control_mac(l.file.key, nonce[a - agent][number - 1], body, AMPH_CONTROL_HELLO_BYTES,
                          body + AMPH_CONTROL_HELLO_BYTES);
    frame(a, number, AMPH_CONTROL_HELLO, body, sizeof body);
}

static void step(unsigned what, const uint8_t *bytes, size_t len)
{
    struct amph_lagent *a = &agent[what & 1];
    uint32_t number = 1 + (what >> 1 & 3);
    uint8_t first = len ? bytes[0] : 0;

    switch ((enum step)((what >> 3) % NSTEPS)) {
    case OPEN:
        carried(a, a->nconns < CONNS ? a->nconns + 1 : number, AMPH_CONN_OPENED, "", 0);
        break;
    case GREET:
        greet(a, number, first & 1, first >> 1 == 127 ? AMPH_RANK_NONE : first >> 1);
        break;
    case BYTES:
        carried(a, number, AMPH_CONN_BYTES, bytes, len);
        break;
    case CLOSE:
        carried(a, number, AMPH_CONN_CLOSED, bytes, len);
        break;
    case ENDED:
        l.procs[first % TOTAL].ended = true;
        amph_launch_control_changed(&l.procs[first % TOTAL]);
        break;
    case EVENT:
        amph_launch_control_event(&l, first % 3, first & 8,
                                  (struct amph_boot_event){ AMPH_BOOT_DEATH, first % TOTAL, 1 });
        break;
    case FRAME:
        if (len)
            frame(a, number, first % (AMPH_CONTROL_NTYPES + 1), bytes + 1, len - 1);
        break;
    case NSTEPS:
        break;
    }
}

static void set_up(void)
{
    static struct amph_proc place[TOTAL];
    static struct amph_lproc procs[TOTAL];
    static char *hosts[] = { "h0", "h1" };
    static uint32_t server_of[COMPUTE] = { 3, 4, 3 };

    memset(&l, 0, sizeof l);
    memset(place, 0, sizeof place);
    memset(procs, 0, sizeof procs);
    memset(agent, 0, sizeof agent);
    l.job = (struct amph_jobdesc){ .nproc = { COMPUTE, SERVERS },
                                   .proc = place,
                                   .nhosts = 2,
                                   .host_name = hosts,
                                   .server_of = server_of,
                                   .several_machines = true };
    l.procs = procs;
    l.agents = agent;
    l.nagents = AGENTS;
    l.listen_fd = -1;

    for (uint32_t i = 0; i < TOTAL; i++) {
        place[i].host = i % 2;
        procs[i] = (struct amph_lproc){ .launch = &l,
                                        .rank = i,
                                        .group = i < COMPUTE ? AMPH_COMPUTE : AMPH_SERVER };
    }

    for (uint32_t i = 0; i < AGENTS; i++)
        agent[i].launch = &l;

    if (amph_boot_jobdesc_encode(&l.job, &l.desc, &l.desc_len) != AMPH_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    set_up();
    survives = len % 3 == 0;
    while (len >= 2) {
        size_t n = bytes[1] < len - 2 ? bytes[1] : len - 2;

        step(bytes[0], bytes + 2, n);
        bytes += 2 + n;
        len -= 2 + n;
    }

    amph_launch_control_agent_gone(&agent[0]);
    amph_launch_control_stop(&l);
    for (uint32_t i = 0; i < AGENTS; i++)
        free(agent[i].conn);

    return 0;
}
