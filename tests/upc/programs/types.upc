/* SPDX-License-Identifier: BSD-3-Clause */
/* Types: typedefs of shared arrays, pointers at several levels, parameters, functions' results, wide and narrow elements. */
#include <upc_relaxed.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "check.h"

typedef shared [4] int four_t[16 * THREADS];
typedef shared int *int_ptr;
typedef shared struct pixel pixel_t;
struct pixel {
    uint8_t rgb[3];
    float depth[2][2];
    pixel_t *up;
    union {
        int as_int;
        struct {
            short low, high;
        };
    };
};

four_t blocks;
shared [2] struct pixel image[2 * THREADS][3];
int_ptr shared slots[THREADS];
shared int_ptr shared *shared directory;
shared bool truth[THREADS];
shared int64_t big[THREADS];
shared const char *shared message;
shared [3] char letters[3 * THREADS];
shared [] struct {
    int x, y;
} unnamed[4];
int_ptr pick(int_ptr list[], int n);
struct both {
    int_ptr p;
    int n;
};

int_ptr pick(int_ptr list[], int n)
{
    return list[n];
}
static struct both make(int_ptr p, int n)
{
    struct both b = { .n = n, .p = p };
    return b;
}
static long total(shared [4] int a[], int n)
{
    long t = 0;
    while (n--)
        t += *a++;
    return t;
}
static float deepest(shared [2] struct pixel p[][3], int rows)
{
    float d = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < 3; j++)
            if (p[i][j].depth[1][0] > d)
                d = p[i][j].depth[1][0];
    return d;
}
static int (*chosen(void))(shared void *, size_t)
{
    static int (*nothing)(shared void *, size_t) = NULL;
    return nothing;
}
static void swap(int_ptr *a, int_ptr *b)
{
    int_ptr t = *a;
    *a = *b;
    *b = t;
}

static void alone(void)
{
    int i, j, n = 16 * THREADS;
    for (i = 0; i < n; i++)
        blocks[i] = i;
    CHECK(total(blocks, n) == (long)n * (n - 1) / 2 && total(&blocks[3], 2) == 7 && sizeof(four_t) == 64 * THREADS);
    int_ptr list[3] = { (int_ptr)&blocks[0], NULL, (shared int *)(shared void *)&blocks[4] }, *pp = list;
    CHECK(pick(list, 1) == NULL && *pick(list, 0) == 0 && **pp == 0 && *pp[2] == 4 && pp[2][0] == 4 && !*(pp + 1));
    swap(&list[0], pp + 2);
    CHECK(*list[0] == 4 && **pp++ == 4 && *pp == NULL && sizeof list == 24 && sizeof *list[0] == 4);
    CHECK(make(list[0], 3).n == 3 && *make(list[0], 3).p == 4 && make(list[0], 1).p[0] == 4);
    slots[THREADS - 1] = list[0];
    *slots[THREADS - 1] += 10;
    directory = &slots[THREADS - 1];
    (**directory)++;
    CHECK(blocks[4] == 15 && *directory == slots[THREADS - 1] && **directory == 15 && directory[0][0] == 15);
    for (i = 0; i < 2 * THREADS; i++)
        for (j = 0; j < 3; j++) {
            image[i][j].rgb[j] = (uint8_t)(250 + 3 * i + j);
            image[i][j].depth[1][0] = i + j / 4.0f;
            image[i][j].up = i ? (pixel_t *)&image[i - 1][j] : NULL;
            image[i][j].low = (short)i;
            image[i][j].high = 1;
        }
    CHECK(deepest(image, 2 * THREADS) == 2 * THREADS - 1 + 0.5f);
    pixel_t *at = (pixel_t *)&image[1][2];
    CHECK(at->up->depth[1][0] == 0.5f && at->up->up == NULL && at->rgb[2] == (uint8_t)255 && at->as_int == 65537);
    struct pixel copy = *at, other = image[0][0];
    other.depth[0][1] = copy.depth[1][0] * 2;
    image[0][1] = other;
    CHECK(image[0][1].depth[0][1] == 3.0f && image[0][1].rgb[0] == 250 && (*&image[0][1]).up == NULL);
    CHECK(image[0][0].rgb[0]++ == 250 && ++image[0][0].rgb[0] == 252 && (image[0][0].rgb[0] += 5) == 1);
    truth[0] = 5;
    big[0] = INT64_C(1) << 40, big[0] |= 7;
    CHECK(truth[0] == 1 && big[0] == (INT64_C(1) << 40) + 7 && big[0] >> 38 == 4 && (int)big[0] == 7);
    for (i = 0; i < 3; i++)
        letters[i] = "abc"[i];
    message = (shared const char *)letters;
    CHECK(*message == 'a' && memcmp((char *)&letters[0], "abc", 3) == 0);
    unnamed[2].x = 4, unnamed[3] = unnamed[2];
    CHECK(unnamed[3].x == 4 && chosen() == NULL);
    int which = blocks[1], table[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
    CHECK(table[which][blocks[2]] == 6 && (which ? blocks : blocks + 4)[2] == 2 && blocks[blocks[blocks[3]]] == 3);
    shared [4] int *from = blocks + 1, *to = from + 9;
    CHECK(to - from == 9 && *(to - 9) == 1 && from[-1] == 0 && &to[-9] == from && (from <= to) + (to <= from) == 1);
    typeof(blocks[0] + 0) same = blocks[6];
    __typeof__(from) again = to;
    CHECK(same == 6 && again == to && __builtin_types_compatible_p(int, int) && __alignof__(blocks[0]) == 4);
    char *text = malloc(blocks[12]), line[20];
    snprintf(line, sizeof line, "%d %s", blocks[7], blocks[8] > 7 ? "yes" : "no");
    CHECK(strcmp(line, "7 yes") == 0 && text != NULL);
    free(text);
    struct pixel *heap = calloc(2, sizeof *heap);
    heap[1].up = at;
    CHECK(heap[1].up->low == 1 && !heap->up && heap->up == heap[0].up);
    free(heap);
    unsigned char small = 200;
    i = small + blocks[1] > 200 ? blocks[2] ? 1 : 2 : 3;
    CHECK(i == 1 && (blocks[0] || blocks[1]) && !(blocks[0] && blocks[1]) && (blocks[5], blocks[6]) == 6);
}

int main()
{
    if (MYTHREAD == 0)
        alone();
    upc_barrier;
    return 0;
}
