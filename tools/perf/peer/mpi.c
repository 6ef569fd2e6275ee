/* SPDX-License-Identifier: BSD-3-Clause */
/* The benchmark's calls by MPI.  Layer: tools. */
#include <mpi.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/perf/peer/peer.h"

enum {
    TAG_PING,
    TAG_DATA,
    TAG_DONE,
    WINDOW = 64
};

static int rank, size;
static MPI_Win win;
static unsigned char *segment, *own;

const char *peer_name(void)
{
    static char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int len;

    MPI_Get_library_version(name, &len);
    name[strcspn(name, ",\n")] = 0;
    return name;
}

void peer_start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate((MPI_Aint)PEER_MAX_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &segment, &win);
    memset(segment, 0, PEER_MAX_BYTES);
    MPI_Win_lock_all(0, win);
    own = aligned_alloc(4096, PEER_MAX_BYTES);
    if (!own)
        MPI_Abort(MPI_COMM_WORLD, 1);

    memset(own, 1, PEER_MAX_BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
}

void peer_end(int code)
{
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Finalize();
}

unsigned peer_rank(void)
{
    return (unsigned)rank;
}

unsigned peer_size(void)
{
    return (unsigned)size;
}

void peer_barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

unsigned long peer_agree(unsigned long count)
{
    MPI_Bcast(&count, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
    return count;
}

/* ---- messages ---- */

static void send(const void *data, size_t bytes, int tag)
{
    MPI_Send(data, (int)bytes, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD);
}

static void receive(size_t bytes, int tag)
{
    MPI_Recv(segment, (int)bytes, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void peer_round_trips(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        if (rank == 0) {
            memset(own, (int)i, bytes);
            send(own, bytes, TAG_PING);
        }

        receive(bytes, TAG_PING);
        if (rank == 1)
            send(segment, bytes, TAG_PING);
    }
}

static size_t place(size_t bytes, unsigned long i)
{
    const size_t places = PEER_MAX_BYTES / bytes < WINDOW ? 1 : WINDOW;

    return i % places * bytes;
}

/* Message i may be written while those before it are under way. */
static void *block(size_t bytes, unsigned long i)
{
    return own + place(bytes, i);
}

void peer_flood(size_t bytes, unsigned long count)
{
    MPI_Request request[WINDOW];
    int n = 0;

    for (unsigned long i = 0; i < count; i++) {
        if (rank == 0) {
            memset(block(bytes, i), (int)i, bytes);
            MPI_Isend(block(bytes, i), (int)bytes, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD,
                      &request[n++]);
        } else {
            MPI_Irecv(segment + place(bytes, i), (int)bytes, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD,
                      &request[n++]);
        }

        if (n == WINDOW || i + 1 == count) {
            MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
            n = 0;
        }
    }

    if (rank == 0)
        receive(8, TAG_DONE);
    else
        send(own, 8, TAG_DONE);
}

/* ---- one-sided ---- */

static void put(size_t bytes, unsigned long i)
{
    MPI_Put(own, (int)bytes, MPI_BYTE, 1, (MPI_Aint)place(bytes, i), (int)bytes, MPI_BYTE, win);
}

static void get(size_t bytes, unsigned long i)
{
    MPI_Get(own, (int)bytes, MPI_BYTE, 1, (MPI_Aint)place(bytes, i), (int)bytes, MPI_BYTE, win);
}

void peer_puts(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        put(bytes, 0);
        MPI_Win_flush(1, win);
    }
}

void peer_gets(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        get(bytes, 0);
        MPI_Win_flush(1, win);
    }
}

void peer_fetch_adds(size_t bytes, unsigned long count)
{
    const uint64_t one = 1;
    uint64_t before;

    for (unsigned long i = 0; i < count; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, 1, 0, MPI_SUM, win);
        MPI_Win_flush(1, win);
    }
}

void peer_put_windows(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        put(bytes, i);
        if (i % WINDOW == WINDOW - 1)
            MPI_Win_flush(1, win);
    }

    MPI_Win_flush(1, win);
}

void peer_get_windows(size_t bytes, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        get(bytes, i);
        if (i % WINDOW == WINDOW - 1)
            MPI_Win_flush(1, win);
    }

    MPI_Win_flush(1, win);
}

/* ---- collectives ---- */

static void broadcast(int root, void *dst, void *src, int bytes)
{
    MPI_Bcast(rank == root ? src : dst, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void reduce(int root, void *dst, void *src, int bytes)
{
    MPI_Reduce(src, dst, bytes / 8, MPI_UINT64_T, MPI_SUM, root, MPI_COMM_WORLD);
}

static void reduce_all(int root, void *dst, void *src, int bytes)
{
    MPI_Allreduce(src, dst, bytes / 8, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void scatter(int root, void *dst, void *src, int bytes)
{
    MPI_Scatter(src, bytes, MPI_BYTE, dst, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void gather(int root, void *dst, void *src, int bytes)
{
    MPI_Gather(src, bytes, MPI_BYTE, dst, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void gather_all(int root, void *dst, void *src, int bytes)
{
    MPI_Allgather(src, bytes, MPI_BYTE, dst, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void exchange(int root, void *dst, void *src, int bytes)
{
    MPI_Alltoall(src, bytes, MPI_BYTE, dst, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

void peer_collective(enum peer_coll kind, unsigned root, void *dst, void *src, size_t bytes)
{
    static void (*const colls[PEER_COLLS])(int root, void *dst, void *src, int bytes) = {
        [PEER_BROADCAST] = broadcast, [PEER_REDUCE] = reduce, [PEER_REDUCE_ALL] = reduce_all,
        [PEER_SCATTER] = scatter,     [PEER_GATHER] = gather, [PEER_GATHER_ALL] = gather_all,
        [PEER_EXCHANGE] = exchange,
    };

    colls[kind]((int)root, dst, src, (int)bytes);
}
