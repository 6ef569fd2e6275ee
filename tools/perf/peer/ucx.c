/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The benchmark's calls by UCX's UCP API.  UCX has neither a launcher nor collectives: the program forks the processes,
 * all on this host, and measures what two of them do.  Its first arguments are "-n PROCESSES".
 *
 * Layer: tools.  Processes meet in memory that they share (struct meeting), and make progress while they wait there:
 * over tcp a target takes part in puts, gets and atomic operations.
 */
#include <ucp/api/ucp.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/perf/peer/peer.h"

enum {
    MESSAGE,
    PROCS_MAX = 64,
    NAME_BYTES = 4096, /* of a worker's address and of a key */
    WINDOW = 64
};

/* What a process tells the others. */
struct card {
    char address[NAME_BYTES], key[NAME_BYTES];
    size_t address_bytes;
    uint64_t segment;
};

struct meeting {
    atomic_ulong arrivals; /* at barriers, of all processes since the start */
    unsigned long count;   /* of peer_agree */
    struct card cards[PROCS_MAX];
};

static struct meeting *meeting;
static unsigned rank, size;
static unsigned long barriers;
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_mem_h memory;
static ucp_ep_h ep; /* to the other process of the pair */
static ucp_rkey_h key;
static unsigned char *segment, *own;
static unsigned long arrived, awaited;  /* messages of the other one, since the start */
static const ucp_request_param_t plain; /* of operations without anything particular */

static void need(bool holds, const char *what)
{
    if (holds)
        return;

    fprintf(stderr, "peer: %s failed\n", what);
    exit(1);
}

/* Waits for an operation that has been started. */
static void finish(ucs_status_ptr_t request)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (UCS_PTR_IS_PTR(request)) {
        while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
            ucp_worker_progress(worker);

        ucp_request_free(request);
    }

    need(status == UCS_OK, ucs_status_string(status));
}

/* ---- start and end ---- */

static void on_long_message(void *request, ucs_status_t status, size_t bytes, void *arg)
{
    need(status == UCS_OK, "receiving");
    arrived++;
    ucp_request_free(request);
}

/* The header says where in the segment the data go. */
static ucs_status_t on_message(void *arg, const void *header, size_t header_bytes, void *data,
                               size_t bytes, const ucp_am_recv_param_t *message)
{
    uint64_t offset;

    memcpy(&offset, header, sizeof offset);
    if (!(message->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        memcpy(segment + offset, data, bytes);
        arrived++;
        return UCS_OK;
    }

    const ucp_request_param_t how = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
                                      .cb.recv_am = on_long_message };
    ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker, data, segment + offset, bytes, &how);

    need(!UCS_PTR_IS_ERR(request), "receiving");
    arrived += !request;
    return UCS_INPROGRESS;
}

static void start_worker(void)
{
    const ucp_params_t features = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                                    .features = UCP_FEATURE_AM | UCP_FEATURE_RMA |
                                                UCP_FEATURE_AMO64 };
    const ucp_worker_params_t one_thread = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                             .thread_mode = UCS_THREAD_MODE_SINGLE };
    const ucp_am_handler_param_t handler = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                           UCP_AM_HANDLER_PARAM_FIELD_CB,
                                             .id = MESSAGE,
                                             .cb = on_message };

    need(ucp_init(&features, NULL, &context) == UCS_OK, "ucp_init");
    need(ucp_worker_create(context, &one_thread, &worker) == UCS_OK, "ucp_worker_create");
    need(ucp_worker_set_am_recv_handler(worker, &handler) == UCS_OK,
         "ucp_worker_set_am_recv_handler");
}

/* UCX's own memory, so that the other process can map it where the transport is shared memory. */
static void make_segment(void)
{
    const ucp_mem_map_params_t wanted = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                        UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                          .length = PEER_MAX_BYTES,
                                          .flags = UCP_MEM_MAP_ALLOCATE };
    ucp_mem_attr_t got = { .field_mask = UCP_MEM_ATTR_FIELD_ADDRESS };

    need(ucp_mem_map(context, &wanted, &memory) == UCS_OK, "ucp_mem_map");
    need(ucp_mem_query(memory, &got) == UCS_OK, "ucp_mem_query");
    segment = got.address;
    memset(segment, 0, PEER_MAX_BYTES);
}

static void write_card(struct card *card)
{
    ucp_address_t *address;
    void *packed;
    size_t bytes;

    need(ucp_worker_get_address(worker, &address, &bytes) == UCS_OK && bytes <= NAME_BYTES,
         "ucp_worker_get_address");
    memcpy(card->address, address, bytes);
    card->address_bytes = bytes;
    ucp_worker_release_address(worker, address);

    need(ucp_rkey_pack(context, memory, &packed, &bytes) == UCS_OK && bytes <= NAME_BYTES,
         "ucp_rkey_pack");
    memcpy(card->key, packed, bytes);
    ucp_rkey_buffer_release(packed);
    card->segment = (uintptr_t)segment;
}

static void connect_to(const struct card *card)
{
    const ucp_ep_params_t there = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                    .address = (const ucp_address_t *)card->address };

    need(ucp_ep_create(worker, &there, &ep) == UCS_OK, "ucp_ep_create");
    need(ucp_ep_rkey_unpack(ep, card->key, &key) == UCS_OK, "ucp_ep_rkey_unpack");
}

/* "-n PROCESSES" is taken out of the arguments. */
static void fork_processes(int *argc, char ***argv)
{
    need(*argc > 2 && strcmp((*argv)[1], "-n") == 0, "reading \"-n PROCESSES\"");
    size = (unsigned)strtoul((*argv)[2], NULL, 10);
    need(size >= 2 && size <= PROCS_MAX, "starting 2 to 64 processes");
    *argc -= 2;
    *argv += 2;

    meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    need(meeting != MAP_FAILED, "mmap");
    for (unsigned i = 1; i < size && rank == 0; i++) {
        pid_t child = fork();

        need(child >= 0, "fork");
        rank = child ? 0 : i;
    }

    if (rank > 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
}

const char *peer_name(void)
{
    static char name[32];

    snprintf(name, sizeof name, "UCX %s", ucp_get_version_string());
    return name;
}

void peer_start(int *argc, char ***argv)
{
    fork_processes(argc, argv);
    start_worker();
    make_segment();
    write_card(&meeting->cards[rank]);
    own = aligned_alloc(4096, PEER_MAX_BYTES);
    need(own, "aligned_alloc");
    memset(own, 1, PEER_MAX_BYTES);

    peer_barrier();
    if (rank < 2)
        connect_to(&meeting->cards[1 - rank]);

    peer_barrier();
}

void peer_end(int code)
{
    int status = 0;
    bool well = true;

    peer_barrier();
    if (rank < 2) {
        ucp_rkey_destroy(key);
        finish(ucp_ep_close_nbx(ep, &plain));
    }

    peer_barrier();
    ucp_mem_unmap(context, memory);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    if (rank > 0)
        exit(0);

    while (wait(&status) > 0)
        well = well && status == 0;

    need(well, "another process");
}

unsigned peer_rank(void)
{
    return rank;
}

unsigned peer_size(void)
{
    return size;
}

void peer_barrier(void)
{
    const unsigned long all = ++barriers * size;

    atomic_fetch_add(&meeting->arrivals, 1);
    while (atomic_load(&meeting->arrivals) < all)
        ucp_worker_progress(worker);
}

unsigned long peer_agree(unsigned long count)
{
    if (rank == 0)
        meeting->count = count;

    peer_barrier();
    count = meeting->count;
    peer_barrier();

    return count;
}

/* ---- messages ---- */

static void wait_for_messages(void)
{
    while (arrived < awaited)
        ucp_worker_progress(worker);
}

static ucs_status_ptr_t start_message(const void *data, size_t bytes, const uint64_t *offset)
{
    return ucp_am_send_nbx(ep, MESSAGE, offset, sizeof *offset, data, bytes, &plain);
}

void peer_round_trips(size_t bytes, unsigned long count)
{
    static const uint64_t start = 0;

    for (unsigned long i = 0; i < count; i++) {
        awaited++;
        if (rank == 0) {
            memset(own, (int)i, bytes);
            finish(start_message(own, bytes, &start));
        }

        wait_for_messages();
        if (rank == 1)
            finish(start_message(segment, bytes, &start));
    }
}

static size_t place(size_t bytes, unsigned long i)
{
    const size_t places = PEER_MAX_BYTES / bytes < WINDOW ? 1 : WINDOW;

    return i % places * bytes;
}

void peer_flood(size_t bytes, unsigned long count)
{
    ucs_status_ptr_t request[WINDOW] = { NULL };
    uint64_t offset[WINDOW];

    for (unsigned long i = 0; i < count && rank == 0; i++) {
        const unsigned slot = i % WINDOW;

        finish(request[slot]);
        offset[slot] = place(bytes, i);
        memset(own + offset[slot], (int)i, bytes);
        request[slot] = start_message(own + offset[slot], bytes, &offset[slot]);
    }

    for (unsigned i = 0; i < WINDOW; i++)
        finish(request[i]);

    if (rank == 1)
        awaited += count;

    wait_for_messages();
    peer_round_trips(8, 1);
}

/* ---- one-sided ---- */

static uint64_t there(size_t bytes, unsigned long i)
{
    return meeting->cards[1].segment + place(bytes, i);
}

static void flush(void)
{
    finish(ucp_ep_flush_nbx(ep, &plain));
}

void peer_puts(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        finish(ucp_put_nbx(ep, own, bytes, there(bytes, 0), key, &plain));
        flush();
    }
}

void peer_gets(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++)
        finish(ucp_get_nbx(ep, own, bytes, there(bytes, 0), key, &plain));
}

void peer_fetch_adds(size_t bytes, unsigned long count)
{
    const uint64_t one = 1;
    uint64_t before;
    const ucp_request_param_t how = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE |
                                                      UCP_OP_ATTR_FIELD_REPLY_BUFFER,
                                      .datatype = ucp_dt_make_contig(8),
                                      .reply_buffer = &before };

    for (unsigned long i = 0; i < count; i++)
        finish(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &one, 1, there(8, 0), key, &how));
}

/* Operations of a window that have not ended at once; all are released together. */
struct window {
    ucs_status_ptr_t request[WINDOW];
    unsigned n;
};

static void end_window(struct window *w)
{
    for (unsigned i = 0; i < w->n; i++)
        finish(w->request[i]);

    w->n = 0;
}

void peer_put_windows(size_t bytes, unsigned long count)
{
    struct window w = { .n = 0 };

    for (unsigned long i = 0; i < count; i++) {
        w.request[w.n++] = ucp_put_nbx(ep, own, bytes, there(bytes, i), key, &plain);
        if (w.n < WINDOW && i + 1 < count)
            continue;

        end_window(&w);
        flush();
    }
}

void peer_get_windows(size_t bytes, unsigned long count)
{
    struct window w = { .n = 0 };

    for (unsigned long i = 0; i < count; i++) {
        w.request[w.n++] = ucp_get_nbx(ep, own, bytes, there(bytes, i), key, &plain);
        if (w.n == WINDOW || i + 1 == count)
            end_window(&w);
    }
}

/* ---- collectives ---- */

void peer_collective(enum peer_coll kind, unsigned root, void *dst, void *src, size_t bytes)
{
    need(false, "a collective: UCX has none, which");
}
