/* SPDX-License-Identifier: BSD-3-Clause */
/* iofwd on the wire: the table, every call there and back, the handshake's proofs, and
 * unauthenticated bytes. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "tests/fuzz/fuzz_iofwd.h"
#include "iofwd.h"
#include "iofwd/client/client.h"
#include "iofwd/server/internal.h"
#include "iofwd/wire/file.h"
#include "tests/unit/native_order.h"

Test(table, services_are_found)
{
    for (unsigned i = 0; i < AMPH_FWD_NCALLS; i++)
        cr_assert_eq(amph_fwd_call_of_service(amph_fwd_calls[i].service), (enum amph_fwd_id)i, "%s",
                     amph_fwd_calls[i].name);

    cr_assert_eq(amph_fwd_call_of_service(0), AMPH_FWD_NCALLS);
    cr_assert_eq(amph_fwd_call_of_service(199), AMPH_FWD_NCALLS);
    cr_assert_eq(amph_fwd_call_of_service(65535), AMPH_FWD_NCALLS);
    cr_assert_eq(amph_fwd_calls[AMPH_FWD_OPEN].service, 1, "numbers on the wire never change");
    cr_assert_eq(amph_fwd_calls[AMPH_FWD_PWRITE].service, 7);
    cr_assert_eq(amph_fwd_calls[AMPH_FWD_SYNCFS].service, 43);
}

static struct amph_fwd_file file = { .nparts = 1,
                                     .part = { { .server = 4, .handle = FUZZ_HANDLE } } };

static size_t build(enum amph_fwd_id id, const void *args, const struct amph_fwd_bulk *bulk,
                    const void *data, uint8_t *buf, size_t room)
{
    struct amph_wr w;

    amph_wr_init(&w, buf, room);
    w.at += FWD_REQ_HEAD_BYTES;
    cr_assert_eq(amph_fwd_put_args(&w, &amph_fwd_calls[id], args, 4), 0);
    if (bulk)
        amph_fwd_put_bulk(&w, bulk);

    if (data)
        amph_wr_bytes(&w, data, bulk->len);

    cr_assert(!w.bad);

    size_t n = amph_wr_len(&w);
    struct amph_fwd_req_head head = { .magic = FWD_MAGIC,
                                      .version = FWD_VERSION,
                                      .service = amph_fwd_calls[id].service,
                                      .length = (uint32_t)n,
                                      .client = FUZZ_CLIENT,
                                      .seq = 99,
                                      .cookie = FUZZ_COOKIE };

    amph_wr_init(&w, buf, FWD_REQ_HEAD_BYTES);
    amph_fwd_put_req_head(&w, &head);
    return n;
}

Test(request, golden_bytes_of_an_open)
{
    uint8_t buf[256];
    struct amph_fwd_args_open args = { .path = "/fwd/a",
                                       .flags = O_WRONLY | O_CREAT,
                                       .mode = 0644 };
    static const uint8_t golden[] = {
        /* header */
        'F', 'I', 'O', 'D', 5,    0,    1,   0,   59,  0,   0, 0,    3, 0, 0, 0,    99, 0, 0, 0,
        0,   0,   0,   0,   0x34, 0x12, 0,   0,   0,   0,   0, 0,    0, 0, 0, 0,    0,  0, 0, 0,
        7,   0,   0,   0,   '/',  'f',  'w', 'd', '/', 'a', 0, 0x11, 0, 0, 0, 0xa4, 1,  0, 0,
    };
    size_t n = build(AMPH_FWD_OPEN, &args, NULL, NULL, buf, sizeof buf);

    cr_assert_eq(n, sizeof golden);
    cr_assert_arr_eq(buf, golden, sizeof golden);
}

Test(request, all_that_is_cut_is_refused)
{
    uint8_t buf[512];
    struct amph_fwd_args_pwrite args = { .file = &file, .off = 1 << 20 };
    struct amph_fwd_bulk bulk = { .where = FWD_INLINE,
                                  .flags = FWD_PIECE_FIRST | FWD_PIECE_LAST,
                                  .len = 5 };
    size_t n = build(AMPH_FWD_PWRITE, &args, &bulk, "hello", buf, sizeof buf);

    cr_assert_eq(fuzz_iofwd_feed(buf, n), 1, "the whole request is good");
    for (size_t cut = 0; cut < n; cut++) {
        uint32_t len = amph_le32((uint32_t)cut);

        memcpy(buf + 8, &len, 4); /* even where the header's length agrees */
        cr_assert_eq(fuzz_iofwd_feed(buf, cut), 0, "cut at %zu", cut);
    }
}

/* The client's part of its area and its segment are 2048 bytes long. */
/* One bit of any checked word of a head: it is refused. */
Test(head, other_words_are_refused)
{
    static const struct amph_fwd_req_head request = {
        .magic = FWD_MAGIC, .version = FWD_VERSION, .service = 1, .length = FWD_REQ_HEAD_BYTES
    };
    static const struct amph_fwd_rep_head reply = {
        .magic = FWD_MAGIC, .version = FWD_VERSION, .service = 1, .length = FWD_REP_HEAD_BYTES
    };
    uint8_t buf[64];
    struct amph_wr w;
    struct amph_rd r;
    struct amph_fwd_req_head req;
    struct amph_fwd_rep_head rep;

    /* the server's times come through with 16 and 11 bits, and never longer than they were */
    for (uint64_t ns = 1; ns < UINT64_MAX / 7; ns = ns * 7 + 5) {
        rep = reply;
        rep.file_ns = ns;
        rep.queue_ns = ns;
        amph_wr_init(&w, buf, sizeof buf);
        amph_fwd_put_rep_head(&w, &rep);
        amph_rd_init(&r, buf, amph_wr_len(&w));
        cr_assert(amph_fwd_get_rep_head(&r, &rep));
        cr_assert(rep.file_ns <= ns && ns - rep.file_ns <= ns >> 15, "%llu ns",
                  (unsigned long long)ns);
        cr_assert(rep.queue_ns <= ns && (ns >> 42 || ns - rep.queue_ns <= ns >> 10), "%llu ns",
                  (unsigned long long)ns);
    }

    for (int wrong = 0; wrong < 4; wrong++) {
        req = request;
        rep = reply;
        req.magic ^= wrong == 1;
        req.version ^= wrong == 2;
        req.length ^= wrong == 3;
        rep.magic ^= wrong == 1;
        rep.version ^= wrong == 2;
        rep.length ^= wrong == 3;
        amph_wr_init(&w, buf, sizeof buf);
        amph_fwd_put_req_head(&w, &req);
        amph_rd_init(&r, buf, amph_wr_len(&w));
        cr_assert_eq(amph_fwd_get_req_head(&r, &req), wrong == 0, "request, word %d", wrong);
        amph_wr_init(&w, buf, sizeof buf);
        amph_fwd_put_rep_head(&w, &rep);
        amph_rd_init(&r, buf, amph_wr_len(&w));
        cr_assert_eq(amph_fwd_get_rep_head(&r, &rep), wrong == 0, "reply, word %d", wrong);
    }
}

Test(head, other_pieces_are_refused)
{
    static const struct amph_fwd_bulk bulks[] = {
        { .where = FWD_RECEIVED, .flags = FWD_PIECE_ALL, .rwf = AMPH_FWD_RWF_SENT },
        { .where = FWD_DATA_LOCATIONS },
        { .flags = (uint8_t)(FWD_PIECE_ALL + 1) },
        { .rwf = (uint16_t)(AMPH_FWD_RWF_SENT + 1) }
    };
    uint8_t buf[64];

    for (size_t i = 0; i < AMPH_COUNTOF(bulks); i++) {
        struct amph_wr w;
        struct amph_rd r;
        struct amph_fwd_bulk b;

        amph_wr_init(&w, buf, sizeof buf);
        amph_fwd_put_bulk(&w, &bulks[i]);
        amph_rd_init(&r, buf, amph_wr_len(&w));
        cr_assert_eq(amph_fwd_get_bulk(&r, &b), i == 0, "piece %zu", i);
    }
}

Test(request, data_outside_the_part_the_segment_or_the_receive_area_is_refused)
{
    static const struct {
        uint8_t where;
        const char *name;
    } places[] = { { FWD_AREA, "area" }, { FWD_SEGMENT, "segment" }, { FWD_RECEIVED, "received" } };
    static const struct {
        uint64_t at;
        uint32_t len;
        int good;
    } rows[] = {
        { 0, 2048, 1 }, { 2048, 0, 1 },       { 2047, 1, 1 }, { 0, 2049, 0 },
        { 1, 2048, 0 }, { UINT64_MAX, 1, 0 }, { 2049, 0, 0 }, { UINT64_MAX - 10, 20, 0 },
    };
    for (size_t i = 0; i < AMPH_COUNTOF(places) * AMPH_COUNTOF(rows); i++) {
        uint8_t buf[512];
        struct amph_fwd_args_pwrite args = { .file = &file };
        struct amph_fwd_bulk bulk = { .where = places[i % 3].where,
                                      .flags = FWD_PIECE_FIRST,
                                      .len = rows[i / 3].len,
                                      .at = rows[i / 3].at };
        size_t n = build(AMPH_FWD_PWRITE, &args, &bulk, NULL, buf, sizeof buf);

        cr_assert_eq(fuzz_iofwd_feed(buf, n), rows[i / 3].good, "row %zu, %s", i / 3,
                     places[i % 3].name);
    }
}

/* Rows of a collective call: in order, apart, within the extent, and as many bytes as the data. */
Test(request, rows_outside_the_extent_are_refused)
{
    /* clang-format off */
    static const struct { struct amph_fwd_extent row[2]; uint32_t nrows, len; int good; } rows[] = {
        { { { 0, 5, 0, 1 } }, 1, 5, 1 },
        { { { 0, 5, 0, 1 } }, 1, 4, 0 },
        { { { 95, 5, 0, 1 } }, 1, 5, 1 },
        { { { 96, 5, 0, 1 } }, 1, 5, 0 },
        { { { 0, 5, 5, 20 } }, 1, 100, 1 },
        { { { 0, 5, 4, 20 } }, 1, 100, 0 },
        { { { 0, 5, 5, 21 } }, 1, 105, 0 },
        { { { 0, 1, 99, 2 } }, 1, 2, 1 },
        { { { 0, 1, 100, 2 } }, 1, 2, 0 },
        { { { 0, 5, 0, 1 }, { 5, 5, 0, 1 } }, 2, 10, 1 },
        { { { 0, 5, 0, 1 }, { 4, 5, 0, 1 } }, 2, 10, 0 },
        { { { 5, 5, 0, 1 }, { 0, 5, 0, 1 } }, 2, 10, 0 },
        { { { 0, 0, 0, 1 } }, 1, 0, 0 },
        { { { 0, 5, 0, 0 } }, 1, 0, 0 },
        { { { UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX } }, 1, 1, 0 },
        { { { 0, 1, UINT32_MAX, UINT32_MAX } }, 1, UINT32_MAX, 0 },
        { { { 0 } }, 0, 0, 1 },
    };

    /* clang-format on */
    static const char data[128];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t buf[512], shape[FWD_VIEW_BYTES + 2 * FWD_EXTENT_BYTES];
        struct amph_wr w;

        amph_wr_init(&w, shape, sizeof shape);
        amph_fwd_put_view(&w, &(struct amph_fwd_view){ .number = 7, .processes = 2 });
        for (uint32_t k = 0; k < rows[i].nrows; k++)
            amph_fwd_put_extent(&w, &rows[i].row[k]);

        struct amph_fwd_args_pwritej args = {
            .file = &file, .len = 100, .shape = shape, .shape_len = amph_wr_len(&w)
        };
        bool fits = rows[i].len <= sizeof data;
        struct amph_fwd_bulk bulk = { .where = fits ? FWD_INLINE : FWD_AREA,
                                      .flags = FWD_PIECE_FIRST | FWD_PIECE_LAST,
                                      .len = rows[i].len };
        size_t n = build(AMPH_FWD_PWRITEJ, &args, &bulk, fits ? data : NULL, buf, sizeof buf);

        cr_assert_eq(fuzz_iofwd_feed(buf, n), rows[i].good, "row %zu", i);
        args.shape_len--;
        n = build(AMPH_FWD_PWRITEJ, &args, &bulk, fits ? data : NULL, buf, sizeof buf);
        cr_assert_eq(fuzz_iofwd_feed(buf, n), 0, "row %zu, cut", i);
    }

    /* of no processes */
    uint8_t buf[512];
    uint8_t shape[FWD_VIEW_BYTES] = { 0 };
    struct amph_fwd_args_preadj args = {
        .file = &file, .len = 100, .shape = shape, .shape_len = sizeof shape
    };
    struct amph_fwd_bulk bulk = { .where = FWD_INLINE, .flags = FWD_PIECE_FIRST | FWD_PIECE_LAST };

    cr_assert_eq(fuzz_iofwd_feed(buf, build(AMPH_FWD_PREADJ, &args, &bulk, NULL, buf, sizeof buf)),
                 0);
    shape[8] = 1;
    cr_assert_eq(fuzz_iofwd_feed(buf, build(AMPH_FWD_PREADJ, &args, &bulk, NULL, buf, sizeof buf)),
                 1);
    args.off = -1;
    cr_assert_eq(fuzz_iofwd_feed(buf, build(AMPH_FWD_PREADJ, &args, &bulk, NULL, buf, sizeof buf)),
                 0);
}

Test(request, an_unauthenticated_peer_is_refused)
{
    uint8_t buf[512];
    struct amph_fwd_args_fstat args = { .file = &file };
    size_t n = build(AMPH_FWD_FSTAT, &args, NULL, NULL, buf, sizeof buf);

    cr_assert_eq(fuzz_iofwd_feed(buf, n), 1);
    buf[24] ^= 1; /* cookie */
    cr_assert_eq(fuzz_iofwd_feed(buf, n), 0);
    buf[24] ^= 1;
    buf[12] ^= 1; /* client */
    cr_assert_eq(fuzz_iofwd_feed(buf, n), 0);
    buf[12] ^= 1;
    buf[4] = FWD_VERSION + 1; /* version */
    cr_assert_eq(fuzz_iofwd_feed(buf, n), 0);
}

/* Good requests with bytes changed, by a fixed sequence of pseudo-random numbers. */
Test(request, bytes_changed_at_random, .timeout = 60)
{
    uint64_t state = 88172645463325252u;
    uint8_t whole[512], buf[512];
    struct amph_fwd_args_rename two = { .from = "/fwd/a/b", .to_dir = &file, .to = "c" };
    struct amph_fwd_args_pwrite wr = { .file = &file, .off = 7 };
    struct amph_fwd_args_waitlock lk = { .file = &file,
                                         .lock = &(struct flock){ .l_type = F_WRLCK, .l_len = 9 } };
    struct amph_fwd_args_getxattr xa = { .path = "/fwd/x", .name = "user.a", .value_cap = 100 };
    struct amph_fwd_bulk bulk = { .where = FWD_INLINE, .flags = FWD_PIECE_FIRST, .len = 5 };
    int good = 0;

    for (unsigned round = 0; round < 200000; round++) {
        size_t n = 0;

        switch (round % 4) {
        case 0:
            n = build(AMPH_FWD_RENAME, &two, NULL, NULL, whole, sizeof whole);
            break;
        case 1:
            n = build(AMPH_FWD_PWRITE, &wr, &bulk, "hello", whole, sizeof whole);
            break;
        case 2:
            n = build(AMPH_FWD_WAITLOCK, &lk, NULL, NULL, whole, sizeof whole);
            break;
        default:
            n = build(AMPH_FWD_GETXATTR, &xa, NULL, NULL, whole, sizeof whole);
        }

        memcpy(buf, whole, n);
        for (unsigned k = 0; k < 1 + round % 3; k++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            buf[FWD_REQ_HEAD_BYTES + state % (n - FWD_REQ_HEAD_BYTES)] = (uint8_t)(state >> 32);
        }

        good += fuzz_iofwd_feed(buf, n);
    }

    cr_assert_gt(good, 1000, "some changes leave a request good (%d)", good);
    cr_assert_lt(good, 190000, "most changes are noticed (%d)", good);
}

/* Every call's request and reply, with bodies that are mostly small numbers and zeros, so that many
 * are nearly right. */
Test(request, every_call_takes_any_body, .timeout = 60)
{
    uint64_t state = 0x2545f4914f6cdd1du;

    for (unsigned call = 0; call < AMPH_FWD_NCALLS; call++) {
        int seen = 0;

        for (unsigned round = 0; round < 4000; round++) {
            uint8_t body[300];
            size_t len = 0;
            size_t most = round % 8 ? 16 + round % 64 : sizeof body;

            for (; len < most; len++) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                body[len] = (uint8_t)(state >> 32) % (round % 3 ? 4 : 255);
                if (state % 4)
                    body[len] = 0;
            }

            if (round % 2) /* the handle that is known, where a file or directory comes first */
                for (unsigned k = 0; k < 8; k++)
                    body[k] = (uint8_t)(FUZZ_HANDLE >> (8 * k));

            seen |= fuzz_iofwd_call(call, body, len);
        }

        cr_assert(seen & 2, "%s: no reply was ever taken", amph_fwd_calls[call].name);
    }
}

Test(handshake, lists_of_kept_files)
{
    static const uint8_t none[FWD_NONCE_BYTES], some[FWD_NONCE_BYTES] = { [3] = 1 };
    static struct amph_fwd_keep keep;
    uint8_t body[FWD_FRAME_BODY_MAX + 1];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_bytes(&w, some, sizeof some);
    amph_wr_u32(&w, 2);
    amph_wr_u64(&w, 17);
    amph_wr_u64(&w, UINT64_MAX);
    cr_assert(amph_fwd_keep_parse(body, amph_wr_len(&w), &keep));
    cr_assert(keep.n == 2 && keep.handles[0] == 17 && keep.handles[1] == UINT64_MAX);
    cr_assert(amph_fwd_keep_has_successor(&keep));
    for (size_t len = 0; len < amph_wr_len(&w); len++)
        cr_assert(!amph_fwd_keep_parse(body, len, &keep), "%zu bytes", len);

    cr_assert(!amph_fwd_keep_parse(body, amph_wr_len(&w) + 1, &keep), "a byte too many");

    amph_wr_init(&w, body, sizeof body);
    amph_wr_bytes(&w, none, sizeof none);
    amph_wr_u32(&w, FWD_KEEP_ALL);
    cr_assert(amph_fwd_keep_parse(body, amph_wr_len(&w), &keep) && keep.n == FWD_KEEP_ALL);
    cr_assert(!amph_fwd_keep_has_successor(&keep));

    amph_wr_init(&w, body, sizeof body);
    amph_wr_bytes(&w, none, sizeof none);
    amph_wr_u32(&w, (uint32_t)FWD_KEEP_MAX + 1);
    cr_assert(!amph_fwd_keep_parse(body, sizeof body, &keep), "more than there is room for");
}

Test(handshake, hello_needs_the_key)
{
    uint8_t body[FWD_FRAME_BODY_MAX];
    uint8_t key[AMPH_KEY_BYTES] = { 1 };
    uint8_t other[AMPH_KEY_BYTES] = { 2 };
    uint8_t nonce[FWD_NONCE_BYTES] = { 3 };
    uint8_t wrong[FWD_NONCE_BYTES] = { 4 };
    struct amph_fwd_hello h = { .kind = FWD_HELLO_NEW,
                                .pointer_bytes = 8,
                                .page_bytes = 65536,
                                .rank = 5,
                                .number = 6,
                                .addr = "addr",
                                .addr_len = 4,
                                .area_key = "key",
                                .area_key_len = 3,
                                .part_at = 7,
                                .part_len = 8 };
    struct amph_fwd_hello back;
    size_t n = amph_fwd_hello_build(body, sizeof body, &h, key, nonce);

    cr_assert_gt(n, 0u);
    cr_assert_eq(amph_fwd_hello_parse(body, n, &back, key, nonce), AMPH_OK);
    cr_assert(back.rank == 5 && back.number == 6 && back.page_bytes == 65536 && back.part_at == 7 &&
              back.part_len == 8);
    cr_assert(back.addr_len == 4 && memcmp(back.addr, "addr", 4) == 0);
    cr_assert_eq(amph_fwd_hello_parse(body, n, &back, other, nonce), AMPH_ERR_DENIED);
    cr_assert_eq(amph_fwd_hello_parse(body, n, &back, key, wrong), AMPH_ERR_DENIED,
                 "a recorded HELLO is good for nothing");

    for (size_t i = 0; i < n; i++) {
        body[i] ^= 0x80;
        cr_assert_neq(amph_fwd_hello_parse(body, n, &back, key, nonce), AMPH_OK, "byte %zu", i);
        body[i] ^= 0x80;
    }
}

Test(handshake, frames)
{
    uint8_t buf[64];
    struct amph_fwd_frame_in in;
    size_t used;
    size_t n = amph_fwd_frame_build(buf, FWD_FRAME_GREET, "0123456789abcdef", 16);

    for (size_t have = 0; have < n; have++)
        cr_assert_eq(amph_fwd_frame_parse(buf, have, &in, &used), AMPH_AGAIN);

    cr_assert_eq(amph_fwd_frame_parse(buf, n, &in, &used), AMPH_OK);
    cr_assert(used == n && in.type == FWD_FRAME_GREET && in.len == 16);

    uint32_t huge = amph_le32(FWD_FRAME_BODY_MAX + 1);

    memcpy(buf + 8, &huge, 4);
    cr_assert_eq(amph_fwd_frame_parse(buf, n, &in, &used), AMPH_ERR_PROTO);
}

Test(file, text_form)
{
    char text[AMPH_FWD_TEXT_BYTES];
    struct amph_fwd_file f = { .nparts = AMPH_FWD_PARTS_MAX };
    struct amph_fwd_file back;

    for (unsigned i = 0; i < AMPH_FWD_PARTS_MAX; i++)
        f.part[i] = (struct amph_fwd_ref){ .server = UINT32_MAX - i, .handle = UINT64_MAX - i };

    size_t n = amph_fwd_file_print(&f, text, sizeof text);

    cr_assert(n > 0 && n < sizeof text, "the longest one fits");
    cr_assert(amph_fwd_file_parse(text, &back));
    cr_assert(amph_fwd_file_equal(&f, &back));

    static const char *const bad[] = { "", "1", "1.", ".5", "1.0", "x.5", "1.5,", "99999999999.1" };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_not(amph_fwd_file_parse(bad[i], &back), "\"%s\"", bad[i]);
}

/* Sources with the former names of iofwd.h compile, */
_Static_assert(IOFWD_ROWS_MOST == IOFWD_ROWS_MAX && IOFWD_STRETCH_MOST == IOFWD_EXTENT_MAX,
               "former names");
static struct iofwd_joint *former_part;
static struct iofwd_place *former_place;

static size_t (*const by_former_name)(const iofwd_file_t *) = iofwd_joint_most;
#undef iofwd_joint_most
#undef iofwd_pwrite_joint
#undef iofwd_pread_joint
/* and programs that were linked with them find the functions. */
size_t iofwd_joint_most(const iofwd_file_t *file);
int iofwd_pwrite_joint(struct iofwd_extent *extents, size_t n);
int iofwd_pread_joint(struct iofwd_extent *extents, size_t n);

Test(api, former_names_remain)
{
    struct iofwd_extent *extent = former_part;
    struct iofwd_slot *slot = former_place;

    cr_assert(!extent && !slot);
    cr_assert(by_former_name == iofwd_collective_max);
    cr_assert(iofwd_joint_most == iofwd_collective_max);
    cr_assert_eq(iofwd_pwrite_joint(NULL, 0), 0);
    cr_assert_eq(iofwd_pread_joint(NULL, 0), 0);
}

Test(split, last_slots_are_servers)
{
    struct iofwd_slot p[7];

    cr_assert_eq(iofwd_split(7, 2, p), 0);
    cr_assert(!p[0].is_server && p[0].server == 5 && p[1].server == 6 && p[4].server == 5 &&
              p[4].relative == 4);
    cr_assert(p[5].is_server && p[5].absolute == 5 && p[5].relative == 0 && p[6].relative == 1 &&
              p[6].server == IOFWD_NONE);
    cr_assert_eq(iofwd_split(2, 2, p), EINVAL);
    cr_assert_eq(iofwd_split(1, 0, p), 0);
    cr_assert_eq(p[0].server, IOFWD_NONE);
}

Test(handshake, its_address_of_either_family)
{
    uint8_t buf[128];
    struct amph_fwd_server_addr a = { .unix_name = "amphora-control-1" };
    struct amph_fwd_server_addr back;

    for (int family = 0; family < 3; family++) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&a.tcp;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a.tcp;

        memset(&a.tcp, 0, sizeof a.tcp);
        if (family == 1)
            *v4 = (struct sockaddr_in){ .sin_family = AF_INET,
                                        .sin_port = htons(4711),
                                        .sin_addr.s_addr = htonl(0x0a000001) };
        else if (family == 2)
            *v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
                                         .sin6_port = htons(4711),
                                         .sin6_addr = IN6ADDR_LOOPBACK_INIT };

        size_t n = amph_fwd_server_addr_build(buf, sizeof buf, &a);

        cr_assert_gt(n, 0u);
        cr_assert(amph_fwd_server_addr_parse(buf, n, &back));
        cr_assert_eq(memcmp(&a, &back, sizeof a), 0, "family %d", family);
        for (size_t cut = 0; cut < n; cut++)
            cr_assert_not(amph_fwd_server_addr_parse(buf, cut, &back), "%zu bytes of %zu", cut, n);
    }
}
