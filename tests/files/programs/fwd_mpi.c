/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of an MPI program, each an I/O client of its own: a file of each, one file of all by
 * pwrite, one by MPI's own file calls; each rank checks what its neighbour wrote.   fwd_mpi
 * DIRECTORY
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BYTES = 300001
};

static char mine[BYTES], other[BYTES];

static void need(int ok, const char *what)
{
    if (ok)
        return;

    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void fill(char *buf, int rank)
{
    for (int i = 0; i < BYTES; i++)
        buf[i] = (char)(i * 31 + rank * 7 + i / 1000);
}

int main(int argc, char **argv)
{
    int rank, size;
    char path[4200], want[4200];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    int next = (rank + 1) % size;

    fill(mine, rank);

    snprintf(path, sizeof path, "%s/rank.%d", argv[1], rank);

    FILE *f = fopen(path, "w");

    need(f && fwrite(mine, 1, BYTES, f) == BYTES && fclose(f) == 0, "a file of each");
    snprintf(path, sizeof path, "%s/all", argv[1]);

    int fd = open(path, O_RDWR | O_CREAT, 0644);

    need(fd >= 0 && pwrite(fd, mine, BYTES, (off_t)rank * BYTES) == BYTES, "one file of all");
    MPI_Barrier(MPI_COMM_WORLD);
    need(pread(fd, other, BYTES, (off_t)next * BYTES) == BYTES && close(fd) == 0,
         "the neighbour's part");
    fill(mine, next);
    need(memcmp(mine, other, BYTES) == 0, "the neighbour's part: contents");
    snprintf(want, sizeof want, "%s/rank.%d", argv[1], next);
    f = fopen(want, "r");
    need(f && fread(other, 1, BYTES, f) == BYTES && fclose(f) == 0 &&
             memcmp(mine, other, BYTES) == 0,
         "the neighbour's file");

    MPI_File mf;
    MPI_Status st;

    fill(mine, rank);
    snprintf(path, sizeof path, "%s/mpi-io", argv[1]);
    need(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &mf) ==
             MPI_SUCCESS,
         "MPI_File_open");
    need(MPI_File_write_at_all(mf, (MPI_Offset)rank * BYTES, mine, BYTES, MPI_BYTE, &st) ==
             MPI_SUCCESS,
         "MPI_File_write_at_all");
    MPI_File_sync(mf);
    MPI_Barrier(MPI_COMM_WORLD);
    need(MPI_File_read_at(mf, (MPI_Offset)next * BYTES, other, BYTES, MPI_BYTE, &st) == MPI_SUCCESS,
         "MPI_File_read_at");
    fill(mine, next);
    need(memcmp(mine, other, BYTES) == 0, "MPI's own file calls: contents");
    MPI_File_close(&mf);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks\n", size);

    MPI_Finalize();
    return 0;
}
