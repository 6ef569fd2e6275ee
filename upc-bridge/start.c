/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts and ends a UPC program.
 *
 * The start joins the job, registers handlers, attaches the segment, exchanges the segments'
 * addresses, sets up this library's own structures, allocates the static objects, and then calls
 * the program.  doc/bridge.md gives the reasons for this order.  UPC 1.3, 5.1.2; RL 7.2.1.
 *
 * Layer: upc-bridge.  Thread rule: one thread.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "gasnet_tools.h"
#include "iofwd.h"
#include "upc-bridge/upc.h"

struct upc_self upc_self = { .threads = 1 };
struct amph_upc_state amph_upc;

void amph_upc_fail(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "upc: thread %d: %s\n", upc_self.mythread, text);
    gasnet_exit(1);
}

void upc_static_add(struct upc_static *object)
{
    if (!amph_upc.program.last)
        amph_upc.program.last = &amph_upc.program.first;

    *amph_upc.program.last = object;
    amph_upc.program.last = &object->next;
}

/* Handles the message that another thread has called upc_global_exit. */
static void exit_handler(gex_Token_t token, gex_AM_Arg_t status)
{
    amph_upc.program.running = false;
    gex_AM_ReplyShort0(token, amph_upc.program.acknowledge, 0);
    gasnet_exit(status);
}

/* Runs in the thread that called upc_global_exit.  It exits once all others have acknowledged the
 * message, because then none of them is left that it would have to wait for in gasnet_exit. */
static void acknowledge_handler(gex_Token_t token)
{
    if (++amph_upc.program.nacknowledged < upc_self.threads - 1)
        return;

    amph_upc.program.running = false;
    gasnet_exit(amph_upc.program.status);
}

/* The handlers of this library and those of iofwd, in one table.  The runtime chooses the indices,
 * and each part reads its own. */
static void register_handlers(gex_EP_t ep)
{
    gex_AM_Entry_t rows[UPC_MAX_HANDLERS] = { { 0 } };
    const struct iofwd_handler *file_rows;
    size_t nfiles = iofwd_handlers(&file_rows);
    size_t n = 0;
    size_t nalloc, nlock;

    n += nalloc = amph_upc_alloc_handlers(rows);
    n += nlock = amph_upc_lock_handlers(rows + n);
    rows[n++] = (gex_AM_Entry_t){
        0, (gex_AM_Fn_t)exit_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "upc_exit"
    };
    rows[n++] = (gex_AM_Entry_t){
        0,         (gex_AM_Fn_t)acknowledge_handler, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL,
        "upc_told"
    };

    for (size_t i = 0; i < nfiles && n < UPC_MAX_HANDLERS; i++)
        rows[n++] = (gex_AM_Entry_t){ 0,
                                      (gex_AM_Fn_t)file_rows[i].fn,
                                      GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST,
                                      file_rows[i].nargs,
                                      NULL,
                                      file_rows[i].name };

    if (gex_EP_RegisterHandlers(ep, rows, n) != GASNET_OK)
        amph_upc_fail("the handlers could not be registered");

    amph_upc_alloc_handlers(rows);
    amph_upc_lock_handlers(rows + nalloc);
    amph_upc.program.exit = rows[nalloc + nlock].gex_index;
    amph_upc.program.acknowledge = rows[nalloc + nlock + 1].gex_index;
}

/* Returns the size of the shared memory of each thread. */
static uint64_t heap_bytes(int form)
{
    uint64_t max = gasnet_getMaxGlobalSegmentSize();
    uint64_t page = GASNET_PAGESIZE;
    uint64_t limit = UINT64_MAX;
    uint64_t wanted;

    if (form == 1)
        limit = (uint64_t)1 << UPC_PACKED_ADDR_BITS;

    wanted = (uint64_t)gasnett_getenv_int_withdefault("AMPHORA_UPC_HEAP", 0, 1);
    if (wanted > limit)
        amph_upc_fail("AMPHORA_UPC_HEAP asks for %llu bytes; packed pointers-to-shared reach %llu "
                      "(compile with -DUPC_PTS_STRUCT)",
                      (unsigned long long)wanted, (unsigned long long)limit);

    if (wanted > max)
        amph_upc_fail("AMPHORA_UPC_HEAP asks for %llu bytes; a process of this job can have %llu",
                      (unsigned long long)wanted, (unsigned long long)max);

    if (wanted == 0)
        wanted = max < limit ? max : limit;

    return wanted < page ? page : wanted / page * page;
}

static void find_places(void)
{
    struct upc_place *place = calloc((size_t)upc_self.threads, sizeof *place);
    void *owner, *here;
    uintptr_t size;

    if (!place)
        amph_upc_fail("no memory for the places of %d threads", upc_self.threads);

    for (int t = 0; t < upc_self.threads; t++) {
        gex_Event_Wait(
            gex_EP_QueryBoundSegmentNB(upc_self.tm, (gex_Rank_t)t, &owner, &here, &size, 0));
        place[t] = (struct upc_place){ .here = (uintptr_t)here, .owner = (uintptr_t)owner };
    }

    upc_self.place = place;
}

static void attach(int form)
{
    gex_Segment_t segment;
    uint64_t size = heap_bytes(form);

    if (gex_Segment_Attach(&segment, upc_self.tm, size) != GASNET_OK)
        amph_upc_fail("there is no memory for %llu bytes of shared memory; AMPHORA_UPC_HEAP says "
                      "how much to make",
                      (unsigned long long)size);

    upc_self.size = size;
    find_places();
    amph_upc_heaps_init(size);
}

/* Returns the bytes that the object takes in each thread. */
static uint64_t static_bytes(const struct upc_static *s, int form)
{
    uint64_t count = s->count();
    uint64_t block = s->block();
    uint64_t rows;

    if (form == 1 && block > UPC_MAX_BLOCK_SIZE)
        amph_upc_fail("%s has blocks of %llu elements; packed pointers-to-shared count to %d "
                      "(compile with -DUPC_PTS_STRUCT)",
                      s->name, (unsigned long long)block, UPC_MAX_BLOCK_SIZE);

    if (block == 0)
        return count * s->elem_size;

    rows = (count + block * (uint64_t)upc_self.threads - 1) / (block * (uint64_t)upc_self.threads);
    return rows * block * s->elem_size;
}

static void place_statics(int form)
{
    uint64_t sum = 1;

    for (struct upc_static *s = amph_upc.program.first; s; s = s->next) {
        uint64_t bytes = static_bytes(s, form);
        uint64_t addr = amph_upc_static_alloc(bytes);
        struct upc_wide w = { addr, 0, 0 };

        if (!addr)
            amph_upc_fail("there is no room for the shared object %s (%llu bytes a thread); "
                          "AMPHORA_UPC_HEAP makes more",
                          s->name, (unsigned long long)bytes);

        if (form == 1)
            *(struct upc_packed *)(void *)s->pts = upc_packed_of_wide(w);
        else
            *(struct upc_wide *)(void *)s->pts = w;

        sum = sum * 31 + bytes + addr;
    }

    if (amph_upc_max(sum) != sum || ~amph_upc_max(~sum) != sum)
        amph_upc_fail("the threads have different shared objects: they are not one program");

    amph_upc_sync();
    for (struct upc_static *s = amph_upc.program.first; s && upc_self.mythread == 0; s = s->next)
        if (s->initial)
            s->initial();

    amph_upc_sync();
}

/* Handles exit() and the end of main: all threads synchronise (UPC 1.3, 5.1.2.1), then each leaves
 * the job. */
static void at_end(void)
{
    if (!amph_upc.program.running)
        return;

    amph_upc.program.running = false;
    amph_upc_files_end();
    amph_upc_end_barrier();
}

int upc_run(int argc, char **argv, int (*user)(int, char **), int form, int threads)
{
    gex_Client_t client;
    gex_EP_t ep;

    if (gex_Client_Init(&client, &ep, &upc_self.tm, "AMPHORA_UPC", &argc, &argv, 0) != GASNET_OK)
        return 1; /* after a message */

    upc_self.threads = (int)gex_TM_QuerySize(upc_self.tm);
    upc_self.mythread = (int)gex_TM_QueryRank(upc_self.tm);

    if (threads && threads != upc_self.threads)
        amph_upc_fail("this program was compiled for %d threads and started with %d", threads,
                      upc_self.threads);

    if (form == 1 && upc_self.threads > 1 << UPC_PACKED_THREAD_BITS)
        amph_upc_fail("%d threads are more than packed pointers-to-shared count (%d; compile with "
                      "-DUPC_PTS_STRUCT)",
                      upc_self.threads, 1 << UPC_PACKED_THREAD_BITS);

    register_handlers(ep);
    attach(form);
    amph_upc_locks_init();
    place_statics(form);
    amph_upc.program.running = true;
    atexit(at_end);

    return user(argc, argv);
}

#define EXIT_NS 200000000u /* how long upc_global_exit waits for the acknowledgements */

/* Sends the message to one more thread, from *next_p on, if there is room for it; does not wait for
 * a thread that does not poll. */
static void send_exit(int *next_p, int status)
{
    int t = *next_p;

    if (t < upc_self.threads &&
        (t == upc_self.mythread ||
         gex_AM_RequestShort1(upc_self.tm, (gex_Rank_t)t, amph_upc.program.exit, GEX_FLAG_IMMEDIATE,
                              (gex_AM_Arg_t)status) == 0))
        ++*next_p;
}

/* A thread that waits inside the library handles the message at once.  A thread that computes is
 * ended by amphora-run some seconds later. */
void upc_global_exit(int status)
{
    upc_tick_t start = upc_ticks_now();
    int next = 0;

    amph_upc.program.status = status;
    while (amph_upc.program.running && upc_self.threads > 1 &&
           upc_ticks_to_ns(upc_ticks_now() - start) < EXIT_NS) {
        send_exit(&next, status);
        gasnet_AMPoll(); /* also because messages in flight would be lost with this process */
    }

    amph_upc.program.running = false;
    gasnet_exit(status);
}

upc_thread_info_t upc_thread_info(size_t thread)
{
    int near = thread < (size_t)upc_self.threads && upc_self.place[thread].here ? UPC_CASTABLE_ALL
                                                                                : 0;
    return (upc_thread_info_t){ .guaranteedCastable = near, .probablyCastable = near };
}
