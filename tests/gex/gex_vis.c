/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vector, indexed and strided transfers against a model: random shapes cut differently on both
 * sides, every form of synchronisation, over the whole team, a reversed one and pairs; local
 * completion, peer completion, degenerate ones; GASNet-1's forms.  gex_vis SEED
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gasnet.h>
#include <gasnet_vis.h>

#include "tests/gex/gex_common.h"

enum {
    SEGMENT = 1 << 20,
    REGION = 200000,
    PIECES = 400,
    HIDX = 200
};

static gex_TM_t team;
static gex_Rank_t me, size;
static unsigned char *segment;
static unsigned char local[REGION], model[REGION], before[REGION];
static volatile int told;
static unsigned char told_data[64];
static size_t told_bytes;
static gex_Rank_t told_by;

static size_t below(size_t n)
{
    return n ? (size_t)((unsigned long)random() % n) : 0;
}

static unsigned char *segment_of(gex_Rank_t rank)
{
    void *base;
    uintptr_t len;

    CHECK(gex_Segment_QueryBound(team, rank, &base, NULL, &len) == 0 && len >= SEGMENT);
    return base;
}

/* Each process uses a region of its own in each other's segment. */
static unsigned char *region_at(gex_Rank_t rank)
{
    return segment_of(rank) + (size_t)(me % 4) * REGION;
}

/* Random pieces in [0, REGION) that do not overlap, `total` bytes together (less where there is no
 * room). */
static size_t cut(gex_Memvec_t *list, unsigned char *base, size_t *total_p)
{
    size_t at = 0;
    size_t n = 0;
    size_t total = 0;

    while (n < PIECES && total < *total_p && at < REGION) {
        static const size_t most[] = { 1, 8, 100, 3000, 20000 };
        size_t len = 1 + below(most[below(5)]);
        size_t gap = below(3) ? below(200) : 0;

        at += gap;
        if (at >= REGION)
            break;

        len = len < REGION - at ? len : REGION - at;
        len = len < *total_p - total ? len : *total_p - total;
        list[n++] = (gex_Memvec_t){ base + at, len };
        at += len;
        total += len;
    }

    *total_p = total;
    return n;
}

static void shuffle(gex_Memvec_t *list, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = below(i);
        gex_Memvec_t t = list[i - 1];

        list[i - 1] = list[k];
        list[k] = t;
    }
}

/* Cuts a side to exactly `total` bytes. */
static size_t trim(gex_Memvec_t *list, size_t n, size_t total)
{
    size_t sum = 0;
    size_t i = 0;

    for (; i < n && sum < total; i++) {
        if (sum + list[i].gex_len > total)
            list[i].gex_len = total - sum;

        sum += list[i].gex_len;
    }

    return i;
}

static void fill_any(unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (unsigned char)random();
}

/* What the transfer does, byte by byte, on copies that lie at dst_base and src_base. */
static void simulate(const gex_Memvec_t *dst, size_t ndst, unsigned char *dst_model,
                     const unsigned char *dst_base, const gex_Memvec_t *src, size_t nsrc,
                     const unsigned char *src_model, const unsigned char *src_base)
{
    size_t si = 0;
    size_t so = 0;

    for (size_t i = 0; i < ndst; i++)
        for (size_t k = 0; k < dst[i].gex_len; k++) {
            while (si < nsrc && so == src[si].gex_len) {
                si++;
                so = 0;
            }

            dst_model[(unsigned char *)dst[i].gex_addr + k - dst_base] =
                src_model[(unsigned char *)src[si].gex_addr + so++ - src_base];
        }
}

static void vector_round(gex_TM_t tm, gex_Rank_t rank, gex_Rank_t team_rank)
{
    static gex_Memvec_t a[PIECES], b[PIECES];
    static unsigned char remote_copy[REGION];
    unsigned char *remote = region_at(team_rank);
    size_t total = below(120000);
    size_t other;
    size_t na = cut(a, local, &total);
    size_t nb;

    other = total;
    nb = cut(b, remote, &other);
    if (other < total)
        na = trim(a, na, other);

    shuffle(a, na);
    shuffle(b, nb);
    fill_any(local, REGION);
    fill_any(before, REGION);
    gex_RMA_PutBlocking(team, team_rank, remote, before, REGION, 0);

    int put = (int)below(2);
    int how = (int)below(3);
    gex_Event_t e = GEX_EVENT_INVALID;

    memcpy(model, put ? before : local, REGION);
    if (put) {
        simulate(b, nb, model, remote, a, na, local, local);
        if (how == 0)
            CHECK(gex_VIS_VectorPutBlocking(tm, rank, nb, b, na, a, 0) == 0);
        else if (how == 1)
            e = gex_VIS_VectorPutNB(tm, rank, nb, b, na, a, 0);
        else
            CHECK(gex_VIS_VectorPutNBI(tm, rank, nb, b, na, a, 0) == 0);
    } else {
        simulate(a, na, model, local, b, nb, before, remote);
        if (how == 0)
            CHECK(gex_VIS_VectorGetBlocking(tm, na, a, rank, nb, b, 0) == 0);
        else if (how == 1)
            e = gex_VIS_VectorGetNB(tm, na, a, rank, nb, b, 0);
        else
            CHECK(gex_VIS_VectorGetNBI(tm, na, a, rank, nb, b, 0) == 0);
    }

    gex_Event_Wait(e);
    gex_NBI_Wait(put ? GEX_EC_PUT : GEX_EC_GET, 0);
    gex_RMA_GetBlocking(team, remote_copy, team_rank, remote, REGION, 0);
    CHECK(memcmp(put ? remote_copy : local, model, REGION) == 0);
}

static void indexed_round(gex_Rank_t rank)
{
    static void *a[PIECES], *b[PIECES];
    unsigned char *remote = region_at(rank);
    size_t la = 1 + below(200);
    size_t lb, na, nb;

    lb = below(2) ? la : la * (1 + below(3));
    nb = 1 + below(40);
    na = nb * lb / la;
    if (na > PIECES || na * la != nb * lb)
        return;

    for (size_t i = 0; i < na; i++)
        a[i] = local + (na - 1 - i) * (la + 3);

    for (size_t i = 0; i < nb; i++)
        b[i] = remote + i * (lb + (lb > 9));

    fill_any(local, REGION);
    gex_VIS_IndexedPutBlocking(team, rank, nb, b, lb, na, a, la, 0);

    static unsigned char back[REGION];
    unsigned char *backs[PIECES];

    for (size_t i = 0; i < na; i++)
        backs[i] = back + ((unsigned char *)a[i] - local);

    gex_Event_Wait(gex_VIS_IndexedGetNB(team, na, (void *const *)backs, la, rank, nb, b, lb, 0));
    for (size_t i = 0; i < na; i++)
        CHECK(memcmp(backs[i], a[i], la) == 0);

    memset(back, 0, sizeof back);
    CHECK(gex_VIS_IndexedGetNBI(team, na, (void *const *)backs, la, rank, nb, b, lb, 0) == 0);
    CHECK(gex_VIS_IndexedPutNBI(team, rank, 0, b, lb, 0, a, la, 0) == 0);
    gex_NBI_Wait(GEX_EC_ALL, 0);
    for (size_t i = 0; i < na; i++)
        CHECK(memcmp(backs[i], a[i], la) == 0);

    gex_Event_Wait(gex_VIS_IndexedPutNB(team, rank, nb, b, lb, na, a, la, 0));
}

/* A transposed and mirrored box there and back again. */
static void strided_round(gex_Rank_t rank)
{
    unsigned char *remote = region_at(rank);
    size_t elem = 1 + below(40);
    size_t count[3] = { 1 + below(9), 1 + below(9), 1 + below(5) };
    ptrdiff_t row = (ptrdiff_t)(elem + below(5));
    ptrdiff_t plane = row * 10;
    ptrdiff_t cube = plane * 10;
    ptrdiff_t there[3] = { cube, -row, plane };
    ptrdiff_t here[3] = { row, plane, cube };
    unsigned char *start = remote + row * (ptrdiff_t)(count[1] - 1);
    static unsigned char back[REGION];

    fill_any(local, REGION);
    memset(back, 0, sizeof back);

    /* there: cube stride must leave room */
    gex_VIS_StridedPutBlocking(team, rank, start, there, local, here, elem, count, 3, 0);
    gex_Event_Wait(gex_VIS_StridedGetNB(team, back, here, rank, start, there, elem, count, 3, 0));

    for (size_t z = 0; z < count[2]; z++)
        for (size_t y = 0; y < count[1]; y++)
            for (size_t x = 0; x < count[0]; x++) {
                ptrdiff_t off = (ptrdiff_t)x * row + (ptrdiff_t)y * plane + (ptrdiff_t)z * cube;
                CHECK(memcmp(back + off, local + off, elem) == 0);
            }

    unsigned char probe[64];
    size_t x = below(count[0]);
    size_t y = below(count[1]);
    size_t z = below(count[2]);

    gex_RMA_GetBlocking(team, probe, rank,
                        start + (ptrdiff_t)x * cube - (ptrdiff_t)y * row + (ptrdiff_t)z * plane,
                        elem, 0);
    CHECK(memcmp(probe, local + (ptrdiff_t)x * row + (ptrdiff_t)y * plane + (ptrdiff_t)z * cube,
                 elem) == 0);
    CHECK(gex_VIS_StridedPutNBI(team, rank, start, there, local, here, elem, count, 3, 0) == 0);
    CHECK(gex_VIS_StridedGetNBI(team, back, here, rank, start, there, 0, count, 3, 0) == 0);
    gex_NBI_Wait(GEX_EC_ALL, 0);

    size_t none[3] = { 3, 0, 2 };

    CHECK(gex_VIS_StridedPutBlocking(team, rank, NULL, there, NULL, here, elem, none, 3, 0) == 0);
    CHECK(gex_VIS_StridedGetBlocking(team, back, NULL, rank, remote, NULL, 10, NULL, 0, 0) == 0);
    gex_Event_Wait(gex_VIS_StridedPutNB(team, rank, remote, NULL, local, NULL, 10, NULL, 0, 0));
    gex_RMA_GetBlocking(team, probe, rank, remote, 10, 0);
    CHECK(memcmp(probe, local, 10) == 0);
}

/* Every length of a piece up to 140 bytes by lists of both kinds on one side or both and by strides, with
 * gaps that must stay as they were. */
static void lengths_round(gex_Rank_t rank)
{
    enum {
        N = 7,
        GAP = 3
    };
    static unsigned char before[REGION], after[REGION];
    unsigned char *remote = region_at(rank);

    for (size_t len = 1; len <= 140; len++) {
        size_t step = len + GAP;
        size_t used = N * step;
        void *apart_here[N], *apart_there[N], *whole_there[1] = { remote };
        gex_Memvec_t vec_here[N], vec_there[N];
        const size_t count[1] = { N };
        const ptrdiff_t strides[1] = { (ptrdiff_t)step };

        for (size_t i = 0; i < N; i++) {
            size_t other = (i * 3) % N; /* another order here than there */

            apart_there[i] = remote + i * step;
            apart_here[i] = local + other * step;
            vec_there[i] = (gex_Memvec_t){ apart_there[i], len };
            vec_here[i] = (gex_Memvec_t){ apart_here[i], len };
        }

        for (unsigned way = 0; way < 5; way++) {
            fill_any(local, used);
            gex_RMA_GetBlocking(team, before, rank, remote, used, 0);

            if (way == 0)
                gex_VIS_IndexedPutBlocking(team, rank, N, apart_there, len, N, apart_here, len, 0);
            else if (way == 1)
                gex_VIS_IndexedPutBlocking(team, rank, 1, whole_there, N * len, N, apart_here, len,
                                           0);
            else if (way == 2)
                gex_VIS_VectorPutBlocking(team, rank, N, vec_there, N, vec_here, 0);
            else if (way == 3)
                gex_VIS_StridedPutBlocking(team, rank, remote, strides, local, strides, len, count,
                                           1, 0);
            else
                gex_VIS_IndexedPutBlocking(team, rank, N, apart_there, len, 1, (void *[]){ local },
                                           N * len, 0);

            for (size_t i = 0; i < N; i++) {
                const unsigned char *from = apart_here[i];

                if (way == 3)
                    from = local + i * step;
                else if (way == 4)
                    from = local + i * len;

                memcpy(before + i * (way == 1 ? len : step), from, len);
            }

            gex_RMA_GetBlocking(team, after, rank, remote, used, 0);
            CHECK(memcmp(before, after, used) == 0);

            memcpy(before, local, used);
            for (size_t i = 0; i < N; i++)
                memcpy(before + ((unsigned char *)apart_here[i] - local), after + i * step, len);

            if (way == 2)
                gex_VIS_VectorGetBlocking(team, N, vec_here, rank, N, vec_there, 0);
            else
                gex_VIS_IndexedGetBlocking(team, N, apart_here, len, rank, N, apart_there, len, 0);

            CHECK(memcmp(before, local, used) == 0);
        }
    }
}

/* Lists of short pieces against one piece: of one length, and with lengths that differ behind the first pieces but
 * have the same sum. */
static void list_round(gex_Rank_t rank)
{
    enum {
        N = 9
    };
    static const size_t lengths[] = { 4, 8, 16, 32, 64 };
    static unsigned char before[REGION], after[REGION];
    unsigned char *remote = region_at(rank);

    for (size_t k = 0; k < 2 * sizeof lengths / sizeof *lengths; k++) {
        const size_t len = lengths[k / 2];
        const size_t shift = k % 2 ? len / 2 : 0; /* from one piece to another */
        const gex_Memvec_t here[] = { { local, N * len } };
        gex_Memvec_t there[N];
        const unsigned char *from = local;

        for (size_t i = 0; i < N; i++)
            there[i] = (gex_Memvec_t){ remote + (N - i) * 3 * len, len };

        there[N - 3].gex_len -= shift;
        there[N - 2].gex_len += shift;

        fill_any(local, N * len);
        gex_RMA_GetBlocking(team, before, rank, remote, REGION, 0);
        for (size_t i = 0; i < N; from += there[i++].gex_len)
            memcpy(before + ((unsigned char *)there[i].gex_addr - remote), from, there[i].gex_len);

        gex_VIS_VectorPutBlocking(team, rank, N, there, 1, here, 0);
        gex_RMA_GetBlocking(team, after, rank, remote, REGION, 0);
        CHECK(memcmp(before, after, REGION) == 0);

        memcpy(before, local, N * len);
        memset(local, 0, N * len);
        gex_VIS_VectorGetBlocking(team, 1, here, rank, N, there, 0);
        CHECK(memcmp(before, local, N * len) == 0);
    }
}

static void leaf_round(gex_Rank_t rank)
{
    static unsigned char big[100000];
    unsigned char *remote = region_at(rank);
    gex_Memvec_t src[3] = { { big, 50000 }, { big + 60000, 7 }, { big + 70000, 9 } };
    gex_Memvec_t dst[1] = { { remote, 50016 } };

    fill_any(big, sizeof big);

    unsigned char copy[7];

    memcpy(copy, big + 60000, 7);

    gex_Event_t e = gex_VIS_VectorPutNB(team, rank, 1, dst, 3, src, GEX_FLAG_ENABLE_LEAF_LC);

    if (e != GEX_EVENT_INVALID) {
        gex_Event_Wait(gex_Event_QueryLeaf(e, GEX_EC_LC));
        memset(big, 0, sizeof big);
    }

    gex_Event_Wait(e);

    unsigned char got[7];

    gex_RMA_GetBlocking(team, got, rank, remote + 50000, 7, 0);
    CHECK(memcmp(got, copy, 7) == 0);
    CHECK(gex_VIS_VectorPutNBI(team, rank, 1, dst, 3, src, GEX_FLAG_ENABLE_LEAF_LC) == 0);
    gex_NBI_Wait(GEX_EC_LC, 0);
    gex_NBI_Wait(GEX_EC_PUT, 0);
}

static void on_told(gex_Token_t token, void *buf, size_t nbytes)
{
    gex_Token_Info_t info;
    gex_TI_t got = gex_Token_Info(token, &info, GEX_TI_ALL);

    CHECK((got & GEX_TI_IS_REQ) && !info.gex_is_req && !info.gex_is_long);
    CHECK((got & GEX_TI_ENTRY) && info.gex_entry->gex_index == HIDX);
    told_by = info.gex_srcrank;
    told_bytes = nbytes;
    memcpy(told_data, buf, nbytes);

    /* What the put wrote is here already. */
    CHECK(memcmp(segment + (size_t)(told_by % 4) * REGION, "told!", 5) == 0);
    told++;
}

static void peer_completion(gex_Rank_t rank)
{
    char word[5] = { 't', 'o', 'l', 'd', '!' };
    unsigned char *remote = region_at(rank);
    gex_Memvec_t src[2] = { { word, 2 }, { word + 2, 3 } };
    gex_Memvec_t dst[1] = { { remote, 5 } };

    told = 0;
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    gex_VIS_SetPeerCompletionHandler(HIDX, "never", 5, 0);
    gex_VIS_SetPeerCompletionHandler(0, NULL, 0, 0); /* none after all */
    gex_VIS_VectorPutBlocking(team, rank, 1, dst, 2, src, 0);
    gex_VIS_SetPeerCompletionHandler(HIDX, "and done", 8, 0);
    gex_Event_Wait(gex_VIS_VectorPutNB(team, rank, 1, dst, 2, src, 0));
    gex_VIS_VectorPutBlocking(team, rank, 1, dst, 2, src, 0); /* only the next one */
    GASNET_BLOCKUNTIL(told >= 1);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    CHECK(told == 1 && told_bytes == 8 && memcmp(told_data, "and done", 8) == 0 &&
          told_by == (me + size - 1) % size);
}

static void gasnet1(gex_Rank_t rank)
{
    unsigned char *remote = region_at(rank);
    unsigned char back[100];
    gasnet_memvec_t a[2] = { { local, 10 }, { local + 50, 20 } };
    gasnet_memvec_t b[1] = { { remote, 30 } };
    gasnet_memvec_t c[1] = { { back, 30 } };
    void *ia[3] = { local + 8, local, local + 16 };
    void *ib[1] = { remote + 100 };
    void *ic[1] = { back };
    size_t near[1] = { 10 };
    size_t far[1] = { 4 };
    size_t box[2] = { 4, 5 };

    fill_any(local, 200);
    gasnet_putv_bulk(rank, 1, b, 2, a);
    gasnet_getv_bulk(1, c, rank, 1, b);
    CHECK(memcmp(back, local, 10) == 0 && memcmp(back + 10, local + 50, 20) == 0);
    gasnet_wait_syncnb(gasnet_puti_nb_bulk(rank, 1, ib, 12, 3, ia, 4));
    gasnet_geti_nbi_bulk(1, ic, 12, rank, 1, ib, 12);
    gasnet_wait_syncnbi_all();
    CHECK(memcmp(back, local + 8, 4) == 0 && memcmp(back + 4, local, 4) == 0 &&
          memcmp(back + 8, local + 16, 4) == 0);
    gasnet_puts_nbi_bulk(rank, remote + 200, far, local, near, box, 1);
    gasnet_wait_syncnbi_puts();
    gasnet_wait_syncnb(gasnet_gets_nb_bulk(back, near, rank, remote + 200, far, box, 1));
    for (int i = 0; i < 5; i++)
        CHECK(memcmp(back + 10 * i, local + 10 * i, 4) == 0);

    gasnet_puti_bulk(rank, 1, ib, 12, 3, ia, 4);
    gasnet_geti_bulk(1, ic, 12, rank, 1, ib, 12);
    gasnet_puts_bulk(rank, remote + 200, far, local, near, box, 1);
    gasnet_gets_bulk(back, near, rank, remote + 200, far, box, 1);
    gasnet_putv_nbi_bulk(rank, 1, b, 2, a);
    gasnet_getv_nbi_bulk(1, c, rank, 1, b);
    gasnet_puti_nbi_bulk(rank, 1, ib, 12, 3, ia, 4);
    gasnet_gets_nbi_bulk(back + 50, near, rank, remote + 200, far, box, 1);
    gasnet_wait_syncnbi_all();
    gasnet_wait_syncnb(gasnet_putv_nb_bulk(rank, 1, b, 2, a));
    gasnet_wait_syncnb(gasnet_getv_nb_bulk(1, c, rank, 1, b));
    gasnet_wait_syncnb(gasnet_geti_nb_bulk(1, ic, 12, rank, 1, ib, 12));
    gasnet_wait_syncnb(gasnet_puts_nb_bulk(rank, remote + 200, far, local, near, box, 1));
    CHECK(memcmp(back, local + 8, 4) == 0);
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_Segment_t seg;
    gex_TM_t reversed;
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[argc - 1]) : 1;
    const char *wanted = getenv("GEX_ROUNDS");
    int rounds = wanted ? atoi(wanted) : 6;

    CHECK(gex_Client_Init(&client, &ep, &team, "VISTEST", &argc, &argv, GEX_FLAG_USES_GASNET1) ==
          GASNET_OK);
    CHECK(gex_Segment_Attach(&seg, team, SEGMENT) == GASNET_OK);

    gex_AM_Entry_t entry = {
        HIDX, (gex_AM_Fn_t)on_told, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, NULL, "told"
    };

    CHECK(gex_EP_RegisterHandlers(ep, &entry, 1) == GASNET_OK);
    me = gex_TM_QueryRank(team);
    size = gex_TM_QuerySize(team);
    segment = gex_Segment_QueryAddr(seg);
    srandom(seed + me);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    CHECK(gex_TM_Split(&reversed, team, 0, (int)(size - me), NULL, 0, GEX_FLAG_TM_NO_SCRATCH) == 0);

    gex_Rank_t next = (me + 1) % size;

    peer_completion(next);
    for (int i = 0; i < rounds; i++) {
        gex_Rank_t rank = (gex_Rank_t)below(size);

        rank = (me + (me % 4 < size ? rank : 1)) % size;

        /* Regions are by rank modulo 4: those of ranks 4 apart must not meet at one target at a
         * time. */
        if (size > 4)
            rank = next;

        vector_round(team, rank, rank);
        vector_round(reversed, gex_TM_TranslateJobrankToRank(reversed, rank), rank);
        vector_round(gex_TM_Pair(ep, 0), rank, rank);
        indexed_round(rank);
        strided_round(rank);
        if (i == 0) {
            lengths_round(rank);
            list_round(rank);
        }
    }

    leaf_round(next);
    gasnet1(next);
    gex_Event_Wait(gex_Coll_BarrierNB(team, 0));
    gasnet_exit(0);

    return 0;
}
