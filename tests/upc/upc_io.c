/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UPC-IO against a file that is kept in memory: all calls, blocking and asynchronous, of random
 * layouts, sizes and places, with individual and common file pointers, weak and strong.  Arguments:
 * path, seed, rounds, and "served" where the job's servers must have done the work, each thread
 * sending what it has itself; "killed": one of the servers dies in the middle.
 */
#define _GNU_SOURCE 1
#include <errno.h>

#include "tests/files/fwd_kill.h"
#include "iofwd.h"
#include "tests/upc/upc_common.h"

#define REGION 40000 /* most bytes of a thread's region in a round */

static uint64_t common;
static unsigned char *model; /* what the file holds, the same in all threads */
static size_t model_size;
static const char *path;
static upc_file_t *fd;
static bool own_bytes; /* the servers fetch each byte of an array from the thread that has it */

static unsigned char value(uint64_t tag, uint64_t i)
{
    return (unsigned char)((i * 2654435761u + tag * 977u) >> 9);
}

static void model_write(size_t offset, uint64_t tag, size_t from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        model[offset + i] = value(tag, from + i);

    if (n && offset + n > model_size)
        model_size = offset + n;
}

static upc_flag_t random_flags(void)
{
    static const upc_flag_t f[] = { 0, UPC_IN_ALLSYNC | UPC_OUT_ALLSYNC,
                                    UPC_IN_MYSYNC | UPC_OUT_MYSYNC };
    return f[below(&common, 3)];
}

/* Waits for what a call with _async has started, or passes a blocking call's answer through. */
static upc_off_t finished(bool async, upc_off_t answer)
{
    int flag = 0;

    if (!async)
        return answer;

    CHECK(upc_all_fcntl(fd, UPC_ASYNC_OUTSTANDING, NULL) == 1);
    if (next_random(&common) % 2)
        return upc_all_fwait_async(fd);

    while (!flag)
        answer = upc_all_ftest_async(fd, &flag);

    CHECK(upc_all_fcntl(fd, UPC_ASYNC_OUTSTANDING, NULL) == 0);
    return answer;
}

/* ---- individual file pointers: each thread a region of its own ---- */

static void check_model(const unsigned char *buf, size_t at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        CHECK(buf[i] == model[at + i]);
}

static void individual(void)
{
    bool async = next_random(&common) % 2;
    bool shared = next_random(&common) % 2;
    size_t size = 1 + below(&common, 9);
    size_t nmemb = below(&common, REGION / 9);
    size_t n = size * nmemb;
    size_t gap = below(&common, 50);
    size_t first = below(&common, 2000);
    size_t at = first + (size_t)MYTHREAD * (n + gap);
    size_t block = below(&common, 30);

    /* the array begins inside a block */
    size_t skip = block && below(&common, 2) ? below(&common, 2 * (uint32_t)block) : 0;
    uint64_t tag = next_random(&common);
    upc_flag_t flags = random_flags();
    unsigned char *buf = malloc(n + 1);
    upc_pts_t base = upc_global_alloc((size_t)THREADS, REGION * 2);
    upc_pts_t array = upc_pts_add(base, REGION * 2, 1, (MYTHREAD * 3) % THREADS);
    upc_off_t got = 0;

    array = upc_pts_add(array, size, block, (ptrdiff_t)skip);
    CHECK(upc_all_fcntl(fd, UPC_SET_INDIVIDUAL_FP, NULL) == 0 &&
          upc_all_fcntl(fd, UPC_GET_FP, NULL) == UPC_INDIVIDUAL_FP);
    CHECK(upc_all_fseek(fd, (upc_off_t)at, UPC_SEEK_SET) == (upc_off_t)at);
    for (size_t i = 0; i < n; i++)
        buf[i] = value(tag + (uint64_t)MYTHREAD, i);

    for (size_t i = 0; shared && i < nmemb; i++)
        upc_memput(upc_pts_add(array, size, block, (ptrdiff_t)i), buf + i * size, size);

    if (shared && async)
        upc_all_fwrite_shared_async(fd, array, block, size, nmemb, flags);
    else if (shared)
        got = upc_all_fwrite_shared(fd, array, block, size, nmemb, flags);
    else if (async)
        upc_all_fwrite_local_async(fd, buf, size, nmemb, flags);
    else
        got = upc_all_fwrite_local(fd, buf, size, nmemb, flags);

    CHECK(finished(async, got) == (upc_off_t)n);
    CHECK(upc_all_fseek(fd, 0, UPC_SEEK_CUR) == (upc_off_t)(at + n));
    for (int t = 0; t < THREADS; t++)
        model_write(first + (size_t)t * (n + gap), tag + (uint64_t)t, 0, n);

    CHECK(upc_all_fsync(fd) == 0);

    /* the neighbour's region comes back */
    at = first + (size_t)((MYTHREAD + 1) % THREADS) * (n + gap);
    CHECK(upc_all_fseek(fd, (upc_off_t)at, UPC_SEEK_SET) == (upc_off_t)at);
    got = 0;

    if (shared && async)
        upc_all_fread_shared_async(fd, array, block, size, nmemb, flags);
    else if (shared)
        got = upc_all_fread_shared(fd, array, block, size, nmemb, flags);
    else if (async)
        upc_all_fread_local_async(fd, buf, size, nmemb, flags);
    else
        got = upc_all_fread_local(fd, buf, size, nmemb, flags);

    CHECK(finished(async, got) == (upc_off_t)n);
    for (size_t i = 0; shared && i < nmemb; i++)
        upc_memget(buf + i * size, upc_pts_add(array, size, block, (ptrdiff_t)i), size);

    check_model(buf, at, n);
    upc_free(base);
    free(buf);
    upc_barrier();
}

/* ---- the common file pointer ---- */

static uint64_t bytes_sent(void)
{
    struct iofwd_counters c;

    iofwd_counters(&c);
    return c.bytes_written;
}

static void together(void)
{
    bool async = next_random(&common) % 2;
    const size_t blocks[] = { 0, 1, 2 + below(&common, 30), 1 + below(&common, 5000) };
    size_t size = 1 + below(&common, 12);
    size_t nmemb = below(&common, REGION * (uint32_t)THREADS / 12);
    size_t block = blocks[below(&common, 4)];
    size_t skip = block && below(&common, 2) ? below(&common, 2 * (uint32_t)block) : 0;
    size_t n = size * nmemb;
    size_t at = below(&common, 3000);
    size_t room = (block ? (skip + nmemb) / (block * (size_t)THREADS) + 2 : 1) * size;
    int first = (int)below(&common, (uint32_t)THREADS);
    uint64_t tag = next_random(&common);
    upc_flag_t flags = random_flags();

    room = block ? room * block : n + 1;

    upc_pts_t base = upc_all_alloc((size_t)THREADS, room);
    upc_pts_t array = upc_pts_add(base, room, 1, first);
    upc_pts_t p;
    unsigned char item[16];
    upc_off_t got = 0;

    CHECK(!upc_pts_is_null(base));
    array = upc_pts_add(array, size, block, (ptrdiff_t)skip);
    CHECK(upc_all_fcntl(fd, UPC_SET_COMMON_FP, NULL) == 0 &&
          upc_all_fseek(fd, (upc_off_t)at, UPC_SEEK_CUR) == (upc_off_t)at);

    for (size_t i = (size_t)MYTHREAD; i < nmemb; i += (size_t)THREADS) {
        for (size_t k = 0; k < size; k++)
            item[k] = value(tag, i * size + k);

        upc_memput(upc_pts_add(array, size, block, (ptrdiff_t)i), item, size);
    }

    upc_barrier();

    uint64_t sent = bytes_sent();
    uint64_t mine = 0;

    if (async)
        upc_all_fwrite_shared_async(fd, array, block, size, nmemb, flags);
    else
        got = upc_all_fwrite_shared(fd, array, block, size, nmemb, flags);

    CHECK(finished(async, got) == (upc_off_t)n);
    for (size_t i = 0; i < nmemb; i++)
        mine += (int)upc_threadof(upc_pts_add(array, size, block, (ptrdiff_t)i)) == MYTHREAD ? size
                                                                                             : 0;

    CHECK(!own_bytes || bytes_sent() - sent == mine);
    model_write(at, tag, 0, n);
    CHECK(upc_all_fseek(fd, 0, UPC_SEEK_CUR) == (upc_off_t)(at + n));
    CHECK(upc_all_fsync(fd) == 0);

    /* all of it from another place on, and what lies behind the end is not there */
    size_t from = below(&common, (uint32_t)at + 1);
    size_t expect = from + n > model_size ? model_size - from : n;

    CHECK(upc_all_fseek(fd, (upc_off_t)from - (upc_off_t)model_size, UPC_SEEK_END) ==
          (upc_off_t)from);
    got = 0;

    if (async)
        upc_all_fread_shared_async(fd, array, block, size, nmemb, flags);
    else
        got = upc_all_fread_shared(fd, array, block, size, nmemb, flags);

    CHECK(finished(async, got) == (upc_off_t)expect);
    upc_barrier();

    for (size_t i = (size_t)MYTHREAD; i < expect / size; i += (size_t)THREADS) {
        p = upc_pts_add(array, size, block, (ptrdiff_t)i);
        upc_memget(item, p, size);
        check_model(item, from + i * size, size);
    }

    upc_all_free(base);
}

/* ---- lists: the threads' pieces alternate in the file ---- */

static void lists(void)
{
    enum {
        PIECES = 40
    };

    bool async = next_random(&common) % 2;
    bool shared = next_random(&common) % 2;
    size_t piece = 1 + below(&common, 700);
    size_t first = below(&common, 100);
    size_t n = PIECES * piece;
    size_t cut = 1 + below(&common, (uint32_t)n);
    uint64_t tag = next_random(&common);
    upc_flag_t flags = random_flags();
    struct upc_filevec file[PIECES + 1];
    unsigned char *buf = malloc(2 * n);
    upc_pts_t array = upc_alloc(2 * n);
    struct upc_local_memvec local[3] = { { buf + n, cut }, { buf, 0 }, { buf, n - cut } };
    struct upc_shared_memvec far[3] = { { upc_pts_offset(array, n), 0, cut },
                                        { array, 5, 0 },
                                        { array, 0, n - cut } };
    upc_off_t got = 0;

    for (size_t i = 0; i < n; i++)
        (i < cut ? buf + n + i : buf + i - cut)[0] = value(tag + (uint64_t)MYTHREAD, i);

    upc_memput(array, buf, 2 * n);
    for (size_t i = 0; i < PIECES; i++)
        file[i] = (struct upc_filevec){
            (upc_off_t)(first + (i * (size_t)THREADS + (size_t)MYTHREAD) * piece), piece
        };

    file[PIECES] = (struct upc_filevec){ file[PIECES - 1].offset, 0 };
    if (shared && async)
        upc_all_fwrite_list_shared_async(fd, 3, far, PIECES + 1, file, flags);
    else if (shared)
        got = upc_all_fwrite_list_shared(fd, 3, far, PIECES + 1, file, flags);
    else if (async)
        upc_all_fwrite_list_local_async(fd, 3, local, PIECES + 1, file, flags);
    else
        got = upc_all_fwrite_list_local(fd, 3, local, PIECES + 1, file, flags);

    CHECK(finished(async, got) == (upc_off_t)n);
    for (int t = 0; t < THREADS; t++)
        for (size_t i = 0; i < PIECES; i++)
            model_write(first + (i * (size_t)THREADS + (size_t)t) * piece, tag + (uint64_t)t,
                        i * piece, piece);

    CHECK(upc_all_fsync(fd) == 0);
    for (size_t i = 0; i < PIECES; i++)
        file[i].offset = (upc_off_t)(first + (i * (size_t)THREADS +
                                              (size_t)(MYTHREAD + 1) % (size_t)THREADS) *
                                                 piece);

    file[PIECES].offset = file[PIECES - 1].offset;
    memset(buf, 0, 2 * n);
    got = 0;

    if (shared && async)
        upc_all_fread_list_shared_async(fd, 3, far, PIECES + 1, file, flags);
    else if (shared)
        got = upc_all_fread_list_shared(fd, 3, far, PIECES + 1, file, flags);
    else if (async)
        upc_all_fread_list_local_async(fd, 3, local, PIECES + 1, file, flags);
    else
        got = upc_all_fread_list_local(fd, 3, local, PIECES + 1, file, flags);

    CHECK(finished(async, got) == (upc_off_t)n);
    if (shared)
        upc_memget(buf, array, 2 * n);

    for (size_t i = 0; i < n; i++)
        CHECK((i < cut ? buf + n + i : buf + i - cut)[0] ==
              model[(size_t)file[i / piece].offset + i % piece]);

    upc_free(array);
    free(buf);
    upc_barrier();
}

/* Intervals of one region, dealt out at random, some to nobody; what a thread has is in two
 * pieces that are in the wrong order. */
enum {
    CUTS = 150
};

struct deal {
    struct upc_filevec mine[CUTS];
    size_t nmine, bytes;                    /* of this thread */
    size_t at[CUTS], len[CUTS], from[CUTS]; /* from: within what its thread has */
    int thread[CUTS];
};

static void deal_out(struct deal *d, size_t at)
{
    size_t have[64] = { 0 };
    uint32_t most = 1u << below(&common, 10);
    uint32_t holes = below(&common, 20);

    d->nmine = d->bytes = 0;
    for (size_t i = 0; i < CUTS; i++) {
        int t = (int)below(&common, (uint32_t)THREADS);

        d->len[i] = 1 + below(&common, most);
        d->at[i] = at;
        at += d->len[i];
        d->thread[i] = t = holes == 0 && i % 9 == 0 ? -1 : t;
        if (t < 0)
            continue;

        d->from[i] = have[t];
        have[t] += d->len[i];
        if (t == MYTHREAD)
            d->mine[d->nmine++] = (struct upc_filevec){ (upc_off_t)d->at[i], d->len[i] };
    }

    d->bytes = have[MYTHREAD];
}

/* The memory of a deal: private, or blocks over all threads, or another's; as bytes in order by put
 * and get. */
struct memory {
    bool shared;
    size_t n, cut, block;
    unsigned char *buf;
    upc_pts_t array; /* its first part may begin inside a block */
    upc_pts_t rest;  /* in one piece */
};

static upc_pts_t memory_at(const struct memory *m, size_t i)
{
    return i < m->cut ? upc_pts_add(m->array, 1, m->block, (ptrdiff_t)i)
                      : upc_pts_offset(m->rest, i - m->cut);
}

static void memory_copy(const struct memory *m, unsigned char *bytes, bool in)
{
    if (!m->shared) {
        unsigned char *part[2] = { m->buf + m->n, m->buf };

        memcpy(in ? part[0] : bytes, in ? bytes : part[0], m->cut);
        memcpy(in ? part[1] : bytes + m->cut, in ? bytes + m->cut : part[1], m->n - m->cut);
        return;
    }

    for (size_t i = 0, len; i < m->n; i += len) { /* block by block */
        size_t left = m->block - upc_phaseof(memory_at(m, i));

        len = m->n - i;
        if (i < m->cut)
            len = m->cut - i < left ? m->cut - i : left;

        if (in)
            upc_memput_nbi(memory_at(m, i), bytes + i, len);
        else
            upc_memget_nbi(bytes + i, memory_at(m, i), len);
    }

    upc_synci();
}

static upc_off_t memory_move(const struct memory *m, const struct deal *d, bool writing, bool async,
                             upc_flag_t flags)
{
    const struct upc_local_memvec local[2] = { { m->buf + m->n, m->cut },
                                               { m->buf, m->n - m->cut } };
    const struct upc_shared_memvec far[2] = { { m->array, m->block, m->cut },
                                              { m->rest, 0, m->n - m->cut } };
    upc_off_t got = 0;

    if (m->shared && async)
        (writing ? upc_all_fwrite_list_shared_async
                 : upc_all_fread_list_shared_async)(fd, 2, far, d->nmine, d->mine, flags);
    else if (m->shared)
        got = (writing ? upc_all_fwrite_list_shared
                       : upc_all_fread_list_shared)(fd, 2, far, d->nmine, d->mine, flags);
    else if (async && writing)
        upc_all_fwrite_list_local_async(fd, 2, local, d->nmine, d->mine, flags);
    else if (async)
        upc_all_fread_list_local_async(fd, 2, local, d->nmine, d->mine, flags);
    else
        got = writing ? upc_all_fwrite_list_local(fd, 2, local, d->nmine, d->mine, flags)
                      : upc_all_fread_list_local(fd, 2, local, d->nmine, d->mine, flags);

    return finished(async, got);
}

static void scattered(void)
{
    static const char *const sizes[] = { "4096", "5001", "2097152" };
    static const char *const units[] = { "1", "1000", "65536" };
    static const char *const nodes[] = { "1", "64" };
    const upc_hint_t hints[] = { { "cb_buffer_size", sizes[below(&common, 3)] },
                                 { "striping_unit", units[below(&common, 3)] },
                                 { "cb_nodes", nodes[below(&common, 2)] } };
    struct deal d;
    bool async = below(&common, 4) == 0;
    uint64_t tag = next_random(&common);
    upc_flag_t flags = random_flags();

    for (int i = 0; i < 3; i++)
        CHECK(upc_all_fcntl(fd, UPC_SET_HINT, (void *)(uintptr_t)&hints[i]) == 0);

    for (int reading = 0; reading < 2; reading++) {
        struct memory m = { .shared = below(&common, 3) == 0, .block = 1 + below(&common, 200) };

        deal_out(&d, reading && model_size > 20000 ? model_size - 20000 : below(&common, 5000));
        m.n = d.bytes;
        m.cut = m.n / 3;
        m.buf = malloc(2 * m.n + 1);

        upc_pts_t base = upc_global_alloc((size_t)THREADS, 2 * m.n + 600);

        m.array = upc_pts_add(base, 2 * m.n + 600, 1, (MYTHREAD + 1) % THREADS);
        m.rest = upc_pts_offset(m.array, m.n + 600);
        m.array = upc_pts_add(m.array, 1, m.block, (ptrdiff_t)below(&common, 300));

        unsigned char *bytes = calloc(1, m.n + 1);
        size_t want = 0;

        for (size_t i = 0; i < CUTS && !reading; i++) {
            if (d.thread[i] >= 0)
                model_write(d.at[i], tag + (uint64_t)d.thread[i], d.from[i], d.len[i]);

            for (size_t k = 0; k < d.len[i] && d.thread[i] == MYTHREAD; k++)
                bytes[d.from[i] + k] = value(tag + (uint64_t)MYTHREAD, d.from[i] + k);
        }

        memory_copy(&m, bytes, true);
        for (size_t i = 0; i < d.nmine; i++) {
            size_t from = (size_t)d.mine[i].offset;

            if (from + d.mine[i].len <= model_size)
                want += d.mine[i].len;
            else if (from < model_size)
                want += model_size - from;
        }

        CHECK(memory_move(&m, &d, !reading, async, flags) == (upc_off_t)want);
        memory_copy(&m, bytes, false);

        for (size_t i = 0; i < CUTS; i++)
            for (size_t k = 0; k < d.len[i] && d.thread[i] == MYTHREAD; k++)
                CHECK(bytes[d.from[i] + k] == (d.at[i] + k < model_size ? model[d.at[i] + k] : 0));

        CHECK(upc_all_fsync(fd) == 0);
        free(bytes);
        free(m.buf);
        upc_free(base);
    }
}

/* ---- strong consistency: overlapping calls are wholes, and are seen at once ---- */

static void strong(void)
{
    enum {
        N = 5000
    };

    unsigned char buf[N];

    CHECK(upc_all_fcntl(fd, UPC_SET_STRONG_CA_SEMANTICS, NULL) == 0 &&
          upc_all_fcntl(fd, UPC_GET_CA_SEMANTICS, NULL) == UPC_STRONG_CA);
    CHECK(upc_all_fcntl(fd, UPC_SET_INDIVIDUAL_FP, NULL) == 0);
    CHECK(upc_all_fseek(fd, 0, UPC_SEEK_SET) == 0);
    memset(buf, MYTHREAD + 1, N);
    CHECK(upc_all_fwrite_local(fd, buf, 1, N, 0) == N);
    CHECK(upc_all_fseek(fd, 0, UPC_SEEK_SET) == 0);
    CHECK(upc_all_fread_local(fd, buf, 1, N, UPC_IN_NOSYNC | UPC_OUT_NOSYNC) == N);
    for (int i = 1; i < N; i++)
        CHECK(buf[i] == buf[0] && buf[0] >= 1 && buf[0] <= THREADS);

    memcpy(model, buf, N);
    model_size = model_size < N ? N : model_size;
    CHECK(upc_all_fcntl(fd, UPC_SET_WEAK_CA_SEMANTICS, NULL) == 0 &&
          upc_all_fcntl(fd, UPC_GET_CA_SEMANTICS, NULL) == 0);
}

/* ---- sizes, modes, errors ---- */

static void sizes(void)
{
    size_t size = 1 + below(&common, (uint32_t)model_size);

    CHECK(upc_all_fget_size(fd) == (upc_off_t)model_size);
    upc_barrier();
    CHECK(upc_all_fset_size(fd, (upc_off_t)size) == 0 && upc_all_fget_size(fd) == (upc_off_t)size);
    memset(model + size, 0, model_size - size);
    upc_barrier();
    CHECK(upc_all_fpreallocate(fd, (upc_off_t)size + 10000) == 0 &&
          upc_all_fget_size(fd) == (upc_off_t)size + 10000);
    upc_barrier();
    CHECK(upc_all_fpreallocate(fd, 10) == 0 && upc_all_fget_size(fd) == (upc_off_t)size + 10000);
    model_size = size + 10000;
    memset(model + size, 0, 10000);
    upc_barrier();
}

static void modes(void)
{
    const upc_hint_t hints[] = { { "cb_nodes", "2" },
                                 { "unheard_of", "x" },
                                 { "file_perm", "0600" } };
    const upc_hint_t *list;
    const upc_hint_t more = { "cb_nodes", "1" };
    const char *name;
    char other[600];
    char c = 'x';
    upc_file_t *f;

    snprintf(other, sizeof other, "%s.other", path);
    errno = 0;
    CHECK(!upc_all_fopen(other, UPC_RDONLY | UPC_COMMON_FP, 0, NULL) && errno == ENOENT);
    CHECK(!upc_all_fopen(other, UPC_RDONLY, 0, NULL) && errno == EINVAL);
    CHECK(!upc_all_fopen(other, UPC_RDWR | UPC_COMMON_FP | UPC_EXCL, 0, NULL) && errno == EINVAL);
    f = upc_all_fopen(other,
                      UPC_WRONLY | UPC_INDIVIDUAL_FP | UPC_CREATE | UPC_EXCL | UPC_DELETE_ON_CLOSE,
                      3, hints);
    CHECK(f && f != fd);
    CHECK(!upc_all_fopen(other, UPC_WRONLY | UPC_COMMON_FP | UPC_CREATE | UPC_EXCL, 0, NULL) &&
          errno == EEXIST);
    CHECK(upc_all_fcntl(f, UPC_GET_FN, &name) == 0 && strcmp(name, other) == 0);
    CHECK(upc_all_fcntl(f, UPC_GET_FN, NULL) == -1 && errno == EINVAL);
    CHECK(upc_all_fcntl(f, UPC_GET_HINTS, &list) == 3 && strcmp(list[0].value, "2") == 0);
    CHECK(upc_all_fcntl(f, UPC_SET_HINT, (void *)(uintptr_t)&more) == 0 &&
          upc_all_fcntl(f, UPC_GET_HINTS, &list) == 3);
    CHECK(strcmp(list[0].value, "1") == 0 && upc_all_fcntl(f, 99, NULL) == -1);
    CHECK(upc_all_fcntl(f, UPC_GET_FL, NULL) ==
          (UPC_WRONLY | UPC_INDIVIDUAL_FP | UPC_CREATE | UPC_EXCL | UPC_DELETE_ON_CLOSE));
    CHECK(upc_all_fread_local(f, &c, 1, 1, 0) == -1 && errno == EBADF);
    CHECK(upc_all_fseek(f, -1, UPC_SEEK_SET) == -1 && upc_all_fseek(f, 0, 9) == -1);
    CHECK(upc_all_fwrite_local(f, &c, (size_t)-1, (size_t)-1, 0) == -1 && errno == EINVAL);
    CHECK(upc_all_fwrite_list_local(f, 1, &(struct upc_local_memvec){ &c, 1 }, 1,
                                    &(struct upc_filevec){ 0, 2 }, 0) == -1);
    CHECK(!upc_all_fopen(other, UPC_WRONLY | UPC_COMMON_FP | 1 << 20, 0, NULL) && errno == EINVAL);
    CHECK(upc_all_fseek(f, 30, UPC_SEEK_SET) == 30 &&
          upc_all_fcntl(f, UPC_SET_INDIVIDUAL_FP, NULL) == 0);

    /* the beginning, though the mode was that already */
    CHECK(upc_all_fseek(f, 0, UPC_SEEK_CUR) == 0);
    CHECK(upc_all_fcntl(f, UPC_SET_COMMON_FP, NULL) == 0);
    CHECK(upc_all_fwrite_local(f, &c, 1, 1, 0) == -1 && errno == EINVAL);
    CHECK(upc_all_fclose(f) == 0 && upc_all_fclose(f) == -1 && errno == EBADF &&
          upc_all_fsync(NULL) == -1);
    CHECK(!upc_all_fopen(other, UPC_RDONLY | UPC_COMMON_FP, 0, NULL) && errno == ENOENT);
}

/* The whole file as another open sees it, then at its end. */
static void reopened(void)
{
    unsigned char *buf = malloc(model_size + 1);

    CHECK(upc_all_fclose(fd) == 0);
    fd = upc_all_fopen(path, UPC_RDWR | UPC_INDIVIDUAL_FP | UPC_APPEND, 0, NULL);
    CHECK(fd && upc_all_fseek(fd, 0, UPC_SEEK_CUR) == (upc_off_t)model_size);
    CHECK(upc_all_fread_local(fd, buf, 1, 1, 0) == 0);
    CHECK(upc_all_fseek(fd, 0, UPC_SEEK_SET) == 0);
    CHECK(upc_all_fread_local(fd, buf, 1, model_size + 1, 0) == (upc_off_t)model_size);
    check_model(buf, 0, model_size);
    free(buf);
}

static int test_main(int argc, char **argv)
{
    CHECK(argc > 3);
    path = argv[1];
    common = strtoull(argv[2], NULL, 10);
    model = calloc(1, (size_t)REGION * (size_t)(THREADS + 2) * 4);
    fd = upc_all_fopen(path, UPC_RDWR | UPC_COMMON_FP | UPC_CREATE | UPC_TRUNC, 0, NULL);
    CHECK(fd);
    modes();

    bool killing = argc > 4 && strcmp(argv[4], "killed") == 0;

    own_bytes = argc > 4 && !killing && THREADS > 1 && !getenv("IOFWD_CONSISTENCY");
    for (int round = atoi(argv[3]); round > 0; round--) {
        individual();
        together();
        if (killing && MYTHREAD == THREADS - 1)
            CHECK(kill_server());

        if (killing) {
            CHECK(upc_all_fcntl(fd, UPC_SET_INDIVIDUAL_FP, NULL) == 0); /* which rewinds */
            together();
        }

        killing = false;
        lists();
        for (int i = 0; i < 2; i++)
            scattered();

        strong();
        CHECK(upc_all_fcntl(fd, UPC_SET_HINT,
                            (void *)(uintptr_t) & (struct upc_hint){ "cb_nodes", "64" }) == 0);
        sizes();
        reopened();
    }

    if (argc > 4 && strcmp(argv[4], "killed") != 0) {
        struct iofwd_stats stats;
        CHECK(iofwd_stats(IOFWD_NONE, &stats) == 0 && stats.bytes_written > 0 &&
              stats.bytes_read >= model_size);
    }

    upc_barrier();
    return 0; /* the file is closed by the end of the program */
}

UPC_MAIN(test_main)
