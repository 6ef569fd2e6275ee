/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job whose hosts may differ in byte order, pointer width and page size: facts of the processes,
 * barriers with values, collectives and atomics on numbers, transfers of bytes, and files that one
 * process writes and another reads.  Nothing here relies on the form in which a host keeps numbers,
 * as messages do in the other tests of the API.   mixed [DIRECTORY for the files]
 */
#define _FILE_OFFSET_BITS 64 /* the files are large for 32-bit processes too */
#include <errno.h>
#include <stdbool.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <amphora.h>
#include <gasnetex.h>
#include <gasnet.h>
#include <gasnet_ratomic.h>

#include "tests/gex/gex_common.h"

enum {
    AREA = 1 << 20,
    COUNT = 20000,
    BIG_FILE = 3000001
};

static gex_TM_t team;
static gex_Rank_t me, size;

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
}

/* ---- who is there ---- */

static void say_facts(void)
{
    unsigned big = 0;
    unsigned narrow = 0;
    unsigned large = 0;
    uint32_t page = 0;

    for (uint32_t i = 0; i < amphora_group_size(AMPHORA_COMPUTE); i++) {
        struct amphora_proc p;

        CHECK(amphora_proc(amphora_member(AMPHORA_COMPUTE, i), &p) == 0);
        big += p.big_endian != 0;
        narrow += p.pointer_bytes == 4;
        large += p.page_bytes > 4096;
        page = p.page_bytes > page ? p.page_bytes : page;
        if (i == me)
            CHECK(getenv("AMPHORA_TEST_WIDTH") || p.pointer_bytes == sizeof(void *));
    }

    CHECK(GASNET_PAGESIZE >= page);
    if (me == 0)
        printf("%u processes: %u big-endian, %u 32-bit, %u with large pages, the job's page %u\n",
               size, big, narrow, large, (unsigned)GASNET_PAGESIZE);
}

/* Shared memory joins processes of one host and of one kind of machine only, and those all. */
static void test_neighbours(void)
{
    gex_RankInfo_t *info;
    gex_Rank_t n, mine;
    bool near[64] = { false };
    struct amphora_proc own, p;
    const char *smp = getenv("AMPHORA_SMP");

    gex_System_QueryNbrhdInfo(&info, &n, &mine);
    CHECK(info[mine].gex_jobrank == me && size <= 64);
    for (gex_Rank_t i = 0; i < n; i++)
        near[info[i].gex_jobrank] = true;

    CHECK(amphora_proc(amphora_member(AMPHORA_COMPUTE, me), &own) == 0);
    for (gex_Rank_t i = 0; i < size; i++) {
        CHECK(amphora_proc(amphora_member(AMPHORA_COMPUTE, i), &p) == 0);
        bool alike = strcmp(p.host_name, own.host_name) == 0 && p.big_endian == own.big_endian &&
                     p.pointer_bytes == own.pointer_bytes && p.page_bytes == own.page_bytes;

        CHECK(near[i] == (i == me || (alike && !(smp && smp[0] == '0'))));
    }
}

/* What a process with pointers of 32 bits has to name lies below 4 GiB; those that only pretend do
 * so too. */
static void test_low(void *const base[])
{
    struct amphora_proc p;
    bool any = false;

    for (gex_Rank_t i = 0; i < size; i++)
        any |= amphora_proc(amphora_member(AMPHORA_COMPUTE, i), &p) == 0 && p.pointer_bytes == 4;

    for (gex_Rank_t i = 0; any && i < size; i++)
        CHECK((uint64_t)(uintptr_t)base[i] + AREA <= UINT64_C(1) << 32);
}

/* ---- barriers ---- */

static void test_barriers(void)
{
    for (int i = 0; i < 20; i++) {
        int value = INT32_MAX - 7 * i;
        int given = value;

        gasnet_barrier_notify(value, i % 3 == 2 && me ? GASNET_BARRIERFLAG_ANONYMOUS : 0);
        CHECK(gasnet_barrier_wait(given, i % 3 == 2 && me ? GASNET_BARRIERFLAG_ANONYMOUS : 0) ==
              GASNET_OK);
        barrier();
    }

    if (size > 1)
        CHECK(gasnet_barrier((int)me, 0) == GASNET_ERR_BARRIER_MISMATCH);
}

/* ---- collectives ---- */

#define DEFINE_REDUCE(NAME, T) \
    static void test_reduce_##NAME(size_t count) \
    { \
        T *in = malloc(count * sizeof *in), *out = malloc(count * sizeof *out); \
        CHECK(in &&out); \
        for (int again = 0; again < 2; again++) { \
            gex_OP_t op = again ? GEX_OP_MAX : GEX_OP_ADD; \
            for (size_t i = 0; i < count; i++) \
                in[i] = (T)(i % 1000 * 3 + me + 1); \
            gex_Event_Wait(gex_Coll_ReduceToAllNB(team, out, in, GEX_DT_##NAME, sizeof(T), count, \
                                                  op, NULL, NULL, 0)); \
            for (size_t i = 0; i < count; i++) \
                CHECK(out[i] == (T)(again ? i % 1000 * 3 + size \
                                          : i % 1000 * 3 * size + size * (size + 1) / 2)); \
            for (gex_Rank_t root = 0; root < size; root++) { \
                memset(out, 0, count * sizeof *out); \
                gex_Event_Wait(gex_Coll_ReduceToOneNB(team, root, out, in, GEX_DT_##NAME, \
                                                      sizeof(T), count, op, NULL, NULL, 0)); \
                for (size_t i = 0; me == root && i < count; i++) \
                    CHECK(out[i] == (T)(again ? i % 1000 * 3 + size \
                                              : i % 1000 * 3 * size + size * (size + 1) / 2)); \
            } \
            for (size_t i = 0; i < count; i++) \
                CHECK(in[i] == (T)(i % 1000 * 3 + me + 1)); \
        } \
        free(in); \
        free(out); \
    }
/* clang-format off */
DEFINE_REDUCE(I32, int32_t)
DEFINE_REDUCE(U64, uint64_t)
DEFINE_REDUCE(FLT, float)
DEFINE_REDUCE(DBL, double)
/* clang-format on */

static void test_collectives(void)
{
    static const size_t counts[] = { 1, 3, 500, COUNT };
    static unsigned char bytes[100000];

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        test_reduce_I32(counts[i]);
        test_reduce_U64(counts[i]);
        test_reduce_FLT(counts[i]);
        test_reduce_DBL(counts[i]);
    }

    for (gex_Rank_t root = 0; root < size; root++)
        for (size_t n = 1; n <= sizeof bytes; n = n * 7 + 1) {
            memset(bytes, 0, n);
            if (me == root)
                fill(bytes, n, root, (uint32_t)n);

            gex_Event_Wait(gex_Coll_BroadcastNB(team, root, bytes, bytes, n, 0));
            CHECK(right(bytes, n, root, (uint32_t)n) == n);
        }
}

/* ---- atomics ---- */

#define DEFINE_ATOMICS(NAME, T) \
    static void test_atomics_##NAME(void *const base[]) \
    { \
        gex_AD_t ad; \
        T *mine = base[me], old; \
        const gex_OP_t ops = GEX_OP_ADD | GEX_OP_FADD | GEX_OP_GET | GEX_OP_SET | GEX_OP_FCAS; \
        gex_AD_Create(&ad, team, GEX_DT_##NAME, ops, 0); \
        *mine = 1000; \
        barrier(); \
        for (gex_Rank_t r = 0; r < size; r++) \
            for (int i = 0; i < 50; i++) { \
                gex_Event_Wait( \
                    gex_AD_OpNB_##NAME(ad, &old, r, base[r], GEX_OP_FADD, (T)(me + 1), 0, 0)); \
                CHECK(old >= 1000 && old < (T)(1000 + 50 * size * (size + 1) / 2)); \
            } \
        barrier(); \
        CHECK(*mine == (T)(1000 + 50 * size * (size + 1) / 2)); \
        barrier(); \
        if (me == 0) \
            for (gex_Rank_t r = 0; r < size; r++) { \
                gex_Event_Wait( \
                    gex_AD_OpNB_##NAME(ad, NULL, r, base[r], GEX_OP_SET, (T)(70000 + r), 0, 0)); \
                gex_Event_Wait(gex_AD_OpNB_##NAME(ad, &old, r, base[r], GEX_OP_FCAS, \
                                                  (T)(70000 + r), (T)(90000 + r), 0)); \
                CHECK(old == (T)(70000 + r)); \
            } \
        barrier(); \
        CHECK(*mine == (T)(90000 + me)); \
        gex_AD_Destroy(ad); \
        barrier(); \
    }
/* clang-format off */
DEFINE_ATOMICS(I32, int32_t)
DEFINE_ATOMICS(U64, uint64_t)
DEFINE_ATOMICS(DBL, double)
/* clang-format on */

/* ---- bytes ---- */

static void test_bytes(void *const base[])
{
    static unsigned char out[AREA / 8], back[AREA / 8];

    for (gex_Rank_t r = 0; r < size; r++)
        for (size_t n = 1; n <= sizeof out && n <= AREA / size; n = n * 5 + 3) {
            unsigned char *at = (unsigned char *)base[r] + (size_t)AREA / size * me;

            fill(out, n, me, (uint32_t)(r + n));
            CHECK(gex_RMA_PutBlocking(team, r, at, out, n, 0) == 0);
            memset(back, 0, n);
            CHECK(gex_RMA_GetBlocking(team, back, r, at, n, 0) == 0);
            CHECK(right(back, n, me, (uint32_t)(r + n)) == n);
        }
}

/* ---- files ---- */

static int open_file(const char *dir, gex_Rank_t rank, int flags)
{
    char name[512];

    snprintf(name, sizeof name, "%s/mixed.%u", dir, rank);

    int fd = open(name, flags, 0640);

    if (fd < 0)
        fprintf(stderr, "%s: %s\n", name, strerror(errno));

    CHECK(fd >= 0);
    return fd;
}

static void test_files(const char *dir)
{
    const off_t far_off = ((off_t)5 << 30) + 17; /* beyond what 32 bits hold */
    static unsigned char data[BIG_FILE], back[BIG_FILE];
    gex_Rank_t other = (me + 1) % size;
    struct stat st;
    int fd = open_file(dir, me, O_RDWR | O_CREAT | O_TRUNC);

    fill(data, sizeof data, me, 5);
    for (size_t at = 0, n = 1; at < sizeof data;
         at += n, n = n * 3 + 1 < sizeof data - at ? n * 3 + 1 : sizeof data - at)
        CHECK(write(fd, data + at, n) == (ssize_t)n);

    CHECK(pwrite(fd, data, 5000, far_off) == 5000);
    CHECK(close(fd) == 0);
    barrier();
    fill(data, sizeof data, other, 5);
    fd = open_file(dir, other, O_RDONLY);
    CHECK(fstat(fd, &st) == 0 && st.st_size == far_off + 5000 && (st.st_mode & 0777) == 0640);

    for (size_t at = 0, n = sizeof back; at < sizeof back;
         at += n, n = 70001 < sizeof back - at ? 70001 : sizeof back - at) {
        n = at ? n : 1000000; /* one in pieces through the transfer area, others at once */
        CHECK(read(fd, back + at, n) == (ssize_t)n);
    }

    CHECK(memcmp(back, data, sizeof back) == 0);
    CHECK(lseek(fd, far_off - 3, SEEK_SET) == far_off - 3 && read(fd, back, sizeof back) == 5003);
    CHECK(!back[0] && !back[2] && memcmp(back + 3, data, 5000) == 0);
    errno = 0;
    CHECK(write(fd, back, 1) == -1 && errno == EBADF);
    CHECK(close(fd) == 0);
    barrier();
}

int main(int argc, char **argv)
{
    gex_Segment_t seg;

    CHECK(gex_Client_Init(NULL, NULL, &team, "MIXED", &argc, &argv, GEX_FLAG_USES_GASNET1) ==
          GASNET_OK);
    me = gex_TM_QueryRank(team);
    size = gex_TM_QuerySize(team);
    CHECK(gex_Segment_Attach(&seg, team, AREA) == GASNET_OK);

    void **base = calloc(size, sizeof *base);

    for (gex_Rank_t r = 0; r < size; r++)
        CHECK(gex_Segment_QueryBound(team, r, &base[r], NULL, NULL) == 0);

    say_facts();
    test_neighbours();
    test_low(base);
    test_barriers();
    test_bytes(base);
    barrier();
    test_atomics_I32(base);
    test_atomics_U64(base);
    test_atomics_DBL(base);
    test_collectives();
    if (argc > 1)
        test_files(argv[1]);

    barrier();
    gasnet_exit(0);
}
