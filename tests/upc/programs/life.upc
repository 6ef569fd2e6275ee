/* SPDX-License-Identifier: BSD-3-Clause */
/* Conway's Game of Life on a torus, rows in blocks, against the same game played alone. */
#include <upc_relaxed.h>
#include "check.h"
#define W 40
#define ROWS 6
#define H (ROWS * THREADS)
#define STEPS 20

shared [ROWS * W] unsigned char world[2][ROWS * THREADS][W];

static unsigned char alone[2][ROWS * 8][W];

int main(int argc, char **argv)
{
    int x, y, dx, dy, step, now = 0;
    unsigned seed = 12345;
    CHECK(argc == 1 && argv[1] == NULL);
    for (y = 0; y < H; y++)
        for (x = 0; x < W; x++) {
            seed = seed * 1103515245u + 12345u;
            alone[0][y][x] = (seed >> 16) % 3 == 0;
            if (upc_threadof(&world[0][y][x]) == MYTHREAD)
                world[0][y][x] = alone[0][y][x];
        }
    upc_barrier;
    for (step = 0; step < STEPS; step++, now = !now) {
        upc_forall (y = 0; y < H; y++; &world[!now][y][0]) {
            for (x = 0; x < W; x++) {
                int n = 0;
                for (dy = -1; dy <= 1; dy++)
                    for (dx = -1; dx <= 1; dx++)
                        if (dx || dy)
                            n += world[now][(y + dy + H) % H][(x + dx + W) % W];
                world[!now][y][x] = n == 3 || (n == 2 && world[now][y][x]);
            }
        }
        for (y = 0; y < H; y++)
            for (x = 0; x < W; x++) {
                int n = 0;
                for (dy = -1; dy <= 1; dy++)
                    for (dx = -1; dx <= 1; dx++)
                        if (dx || dy)
                            n += alone[now][(y + dy + H) % H][(x + dx + W) % W];
                alone[!now][y][x] = n == 3 || (n == 2 && alone[now][y][x]);
            }
        upc_barrier step;
    }
    int living = 0;
    for (y = 0; y < H; y++)
        for (x = 0; x < W; x++) {
            CHECK(world[now][y][x] == alone[now][y][x]);
            living += world[now][y][x];
        }
    CHECK(living > 0);
    return 0;
}
