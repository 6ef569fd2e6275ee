/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of base/: wire words, status, settings, keys, shared memory. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/auth.h"
#include "base/copy.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/os/fence.h"
#include "base/status.h"
#include "base/wire.h"
#include "tests/unit/native_order.h"

Test(wire, golden_bytes)
{
    static const uint8_t golden[] = { 0x01, 0x23, 0x02, 0x67, 0x45, 0x23, 0x01, 0xef,
                                      0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, 3,
                                      0,    0,    0,    'a',  'b',  'c' };
    uint8_t buf[64];
    struct amph_wr w;

    amph_wr_init(&w, buf, sizeof buf);
    amph_wr_u8(&w, 0x01);
    amph_wr_u16(&w, 0x0223);
    amph_wr_u32(&w, 0x01234567);
    amph_wr_u64(&w, UINT64_C(0x0123456789abcdef));
    amph_wr_blob(&w, "abc", 3);
    cr_assert(!w.bad);
    cr_assert_eq(amph_wr_len(&w), sizeof golden);
    cr_assert_arr_eq(buf, golden, sizeof golden);
}

Test(wire, swapped_order_reverses_each_word)
{
    uint8_t buf[8];
    struct amph_wr w;

    amph_wire_swapped = true;
    amph_wr_init(&w, buf, sizeof buf);
    amph_wr_u64(&w, 1);
    cr_assert_eq(buf[7], 1);

    struct amph_rd r;

    amph_rd_init(&r, buf, sizeof buf);
    cr_assert_eq(amph_rd_u64(&r), 1);
}

Test(wire, a_cursor_never_runs_over_its_end)
{
    uint8_t buf[4] = { 0xff, 0xff, 0xff, 0xff };
    struct amph_wr w;

    amph_wr_init(&w, buf, 3);
    amph_wr_u32(&w, 0);
    cr_assert(w.bad);
    cr_assert_eq(buf[0], 0xff);
    amph_wr_u8(&w, 0);
    cr_assert_eq(buf[0], 0xff, "a bad cursor writes nothing more");

    struct amph_rd r;
    size_t len;

    amph_rd_init(&r, buf, sizeof buf);
    cr_assert_null(amph_rd_blob(&r, &len), "a length of 4 GiB in a message of 4 bytes");
    cr_assert(r.bad);
    cr_assert_eq(amph_rd_u8(&r), 0);
}

Test(status, errno_and_libfabric_codes)
{
    cr_assert_eq(amph_status_from_errno(0), AMPH_OK);
    cr_assert_eq(amph_status_from_errno(ENOMEM), AMPH_ERR_NOMEM);
    cr_assert_eq(amph_status_from_fi(-EAGAIN), AMPH_AGAIN);
    cr_assert_eq(amph_status_from_fi(-257), AMPH_ERR_SYS);
    for (int st = 0; st < AMPH_STATUS_COUNT; st++)
        cr_assert(amph_status_text((enum amph_status)st)[0]);
}

Test(env, types_and_defaults)
{
    setenv("AMPHORA_TEST_PAGE", "64K", 1);
    setenv("AMPHORA_SPIN", "5us", 1);
    setenv("AMPHORA_CONDUIT", "tcp", 1);
    setenv("AMPHORA_SMP", "off", 1);
    cr_assert_eq(amph_env_size(AMPH_ENV_TEST_PAGE), 65536);
    cr_assert_eq(amph_env_ns(AMPH_ENV_SPIN), 5000);
    cr_assert_str_eq(amph_env_str(AMPH_ENV_CONDUIT), "tcp");
    cr_assert_eq(amph_env_enum(AMPH_ENV_CONDUIT), 2);
    cr_assert(!amph_env_bool(AMPH_ENV_SMP));
    cr_assert(!amph_env_is_set(AMPH_ENV_WAIT));
    cr_assert_str_eq(amph_env_str(AMPH_ENV_WAIT), "adaptive");
}

Test(env, an_empty_value_is_the_default)
{
    setenv("AMPHORA_STATS", "", 1);
    setenv("AMPHORA_CONDUIT", "", 1);
    cr_assert(!amph_env_bool(AMPH_ENV_STATS));
    cr_assert(!amph_env_is_set(AMPH_ENV_STATS));
    cr_assert_str_eq(amph_env_str(AMPH_ENV_CONDUIT), "auto");
}

Test(env, settings_are_printed_in_groups_with_readable_times)
{
    char text[65536] = "";
    FILE *out = fmemopen(text, sizeof text - 1, "w");

    cr_assert_not_null(out);
    amph_env_print(out);
    fclose(out);
    cr_assert_not_null(strstr(text, "GASNET_EXITTIMEOUT=5s "));
    cr_assert_not_null(strstr(text, "AMPHORA_SPIN=20us "));
    cr_assert_null(strstr(text, "5ms, ns"), "the unit of a time is in its value");

    const char *job = strstr(text, "# job\n");

    cr_assert_not_null(job);
    cr_assert_null(strstr(job + 1, "# job\n"), "a group has one heading");
}

static char told[8][64];
static unsigned ntold;

static void tell(const char *name, const char *value, bool is_default)
{
    if (ntold < AMPH_COUNTOF(told))
        snprintf(told[ntold++], sizeof told[0], "%s=%.30s %d", name, value, is_default);
}

Test(env, each_setting_is_told_at_its_first_use)
{
    setenv("AMPHORA_SPIN", "5us", 1);
    setenv("GASNET_HOST_DETECT", "hostname", 1);
    amph_env_ns(AMPH_ENV_SPIN);
    amph_env_ns(AMPH_ENV_SPIN);
    amph_env_describe(tell);
    amph_env_str(AMPH_ENV_CONDUIT);
    amph_env_str(AMPH_ENV_CONDUIT);
    cr_assert_str_eq(told[0], "AMPHORA_SPIN=5us 0");
    cr_assert_str_eq(told[1], "GASNET_HOST_DETECT=hostname [no effect: the launc 0");
    cr_assert_str_eq(told[2], "AMPHORA_CONDUIT=auto 1");
    cr_assert_eq(ntold, 3);
}

Test(env, exit_timeout)
{
    cr_assert_eq(amph_env_exit_timeout_ns(4), 5000000000u);
    setenv("GASNET_EXITTIMEOUT_FACTOR", "100ms", 1);
    setenv("GASNET_EXITTIMEOUT_MAX", "6s", 1);
    amph_env_reload();
    cr_assert_eq(amph_env_exit_timeout_ns(4), 5400000000u);
    cr_assert_eq(amph_env_exit_timeout_ns(1000000), 6000000000u);
    setenv("GASNET_EXITTIMEOUT", "1.5", 1);
    amph_env_reload();
    cr_assert_eq(amph_env_exit_timeout_ns(1000000), 1500000000u);
}

Test(env, a_bad_value_ends_the_process_with_a_sentence, .exit_code = 1, .init = cr_redirect_stderr)
{
    setenv("AMPHORA_CONDUIT", "carrier-pigeon", 1);
    amph_env_str(AMPH_ENV_CONDUIT);
}

Test(env, out_of_bounds_ends_the_process, .exit_code = 1, .init = cr_redirect_stderr)
{
    setenv("IOFWD_SLOTS", "1", 1);
    amph_env_int(AMPH_ENV_IOFWD_SLOTS);
}

Test(env, an_unknown_name_is_told_with_the_nearest)
{
    char text[256] = "";
    FILE *out = tmpfile();

    cr_assert_not_null(out);
    fflush(stderr);
    dup2(fileno(out), STDERR_FILENO);
    setenv("AMPHORA_CONDIUT", "tcp", 1);
    amph_env_str(AMPH_ENV_CONDUIT);
    cr_assert_gt(pread(fileno(out), text, sizeof text - 1, 0), 0);
    cr_assert_str_eq(text, "amphora: there is no setting AMPHORA_CONDIUT; did you mean "
                           "AMPHORA_CONDUIT? (amphora-info -c lists them)\n");
}

Test(env, an_unknown_setting_unlike_all_others_is_named_alone)
{
    char text[256] = "";
    FILE *out = tmpfile();

    cr_assert_not_null(out);
    fflush(stderr);
    dup2(fileno(out), STDERR_FILENO);
    setenv("AMPHORA_TIMOUT", "3", 1);
    amph_env_str(AMPH_ENV_CONDUIT);
    cr_assert_gt(pread(fileno(out), text, sizeof text - 1, 0), 0);
    cr_assert_str_eq(text,
                     "amphora: there is no setting AMPHORA_TIMOUT (amphora-info -c lists all)\n");
}

Test(env, sizes)
{
    uint64_t n;

    cr_assert(amph_parse_size("1.5G", &n));
    cr_assert_eq(n, UINT64_C(3) << 29);
    cr_assert(!amph_parse_size("12 parsecs", &n));
    cr_assert(!amph_parse_size("", &n));
    cr_assert(!amph_parse_size("-1", &n));
}

/* Is this the MAC, in hexadecimal, and does a prepared key give its beginning?  A key that is shorter than
 * ours is padded with zeros, as HMAC itself would pad it. */
static bool has_mac(const void *key_bytes, size_t key_len, const void *text, size_t text_len,
                    const char *wanted)
{
    uint8_t key[AMPH_KEY_BYTES] = { 0 };
    uint8_t mac[AMPH_MAC_BYTES];
    char hex[2 * AMPH_MAC_BYTES + 1];
    struct amph_mac_key prepared;
    struct amph_mac_part part = { text, text_len };
    uint64_t word = 0;

    memcpy(key, key_bytes, key_len);
    amph_mac(key, text, text_len, mac);
    for (unsigned i = 0; i < sizeof mac; i++)
        snprintf(hex + 2 * i, 3, "%02x", mac[i]);

    for (unsigned i = 0; i < sizeof word; i++)
        word |= (uint64_t)mac[i] << 8 * i;

    amph_mac_key_init(&prepared, key);
    return strcmp(hex, wanted) == 0 && amph_mac64(&prepared, &part, 1) == word;
}

Test(auth, macs_of_published_vectors)
{
    /* RFC 4231, 4.2 to 4.5: the test cases whose keys are no longer than ours */
    uint8_t key[25], text[50];

    memset(key, 0x0b, 20);
    cr_assert(has_mac(key, 20, "Hi There", 8,
                      "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"));

    cr_assert(has_mac("Jefe", 4, "what do ya want for nothing?", 28,
                      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"));

    memset(key, 0xaa, 20);
    memset(text, 0xdd, sizeof text);
    cr_assert(has_mac(key, 20, text, sizeof text,
                      "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"));

    for (unsigned i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)(i + 1);

    memset(text, 0xcd, sizeof text);
    cr_assert(has_mac(key, sizeof key, text, sizeof text,
                      "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"));
}

Test(auth, macs_that_differ_are_not_equal)
{
    uint8_t mac[AMPH_MAC_BYTES], other[AMPH_MAC_BYTES];

    memset(mac, 5, sizeof mac);
    memcpy(other, mac, sizeof other);
    cr_assert(amph_mac_equal(mac, other, sizeof mac));

    other[sizeof other - 1] ^= 1;
    cr_assert(!amph_mac_equal(mac, other, sizeof mac));
}

Test(auth, a_prepared_key_gives_the_same_code)
{
    uint8_t key[AMPH_KEY_BYTES], text[300], mac[AMPH_MAC_BYTES];
    struct amph_mac_key prepared;

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i * 7);

    memcpy(key, text + 100, sizeof key);
    amph_mac_key_init(&prepared, key);

    for (size_t len = 0; len <= sizeof text; len += 23) {
        struct amph_mac_part part[2] = { { text, len / 3 }, { text + len / 3, len - len / 3 } };
        uint64_t word = 0;

        amph_mac(key, text, len, mac);
        for (unsigned i = 0; i < 8; i++)
            word |= (uint64_t)mac[i] << 8 * i;

        cr_assert_eq(amph_mac64(&prepared, part, 2), word, "%zu bytes", len);
    }
}

Test(auth, cookies_differ_by_direction_and_domain)
{
    uint8_t key[AMPH_KEY_BYTES];

    amph_random(key, sizeof key);
    cr_assert_neq(amph_cookie(key, 1, 2, 3), amph_cookie(key, 1, 3, 2));
    cr_assert_neq(amph_cookie(key, 1, 2, 3), amph_cookie(key, 2, 2, 3));
    cr_assert_eq(amph_cookie(key, 1, 2, 3), amph_cookie(key, 1, 2, 3));
}

Test(arena, area_lies_before_segment_on_the_page_asked_for)
{
    struct amph_arena_part area, again, segment;
    size_t page = 65536;

    cr_assert_eq(amph_arena_segment(1000, page, &segment), AMPH_OK);
    memset(segment.base, 7, segment.len_bytes);
    cr_assert_eq(amph_arena_area(100000, page, &area), AMPH_OK);
    cr_assert_eq((uintptr_t)area.base % page, 0);
    cr_assert_eq((uintptr_t)segment.base % page, 0);
    cr_assert_eq(segment.len_bytes, page);
    cr_assert_eq(area.len_bytes, 2 * page);
    cr_assert_lt((uintptr_t)area.base, (uintptr_t)segment.base);
    cr_assert_eq(((char *)segment.base)[segment.len_bytes - 1], 7,
                 "an area made late leaves the segment alone");
    cr_assert_eq(amph_arena_area(5, page, &again), AMPH_OK);
    cr_assert_eq(again.base, area.base);
    cr_assert_eq(amph_arena_segment(1000, page, &again), AMPH_ERR_STATE);

    void *peer;

    cr_assert_eq(amph_shm_map_peer(getpid(), segment.fd, segment.offset, segment.len_bytes, &peer),
                 AMPH_OK);
    ((char *)peer)[5] = 42;
    cr_assert_eq(((char *)segment.base)[5], 42);
}

Test(arena, a_core_file_has_no_reserved_addresses)
{
    struct amph_arena_part part;
    char line[512], flags[512] = "no such mapping";
    unsigned long from, to;
    bool found = false;

    cr_assert_eq(amph_arena_segment(65536, 65536, &part), AMPH_OK);

    uintptr_t reserved = (uintptr_t)part.base + part.len_bytes;
    FILE *maps = fopen("/proc/self/smaps", "r");

    cr_assert_neq(maps, NULL);
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx", &from, &to) == 2)
            found = from <= reserved && reserved < to;
        else if (found && strncmp(line, "VmFlags:", 8) == 0)
            strcpy(flags, line);
    }

    fclose(maps);
    cr_assert_neq(strstr(flags, " dd"), NULL, "%s", flags);
}

Test(arena, memory_that_its_owner_could_shrink_is_not_mapped, .init = cr_redirect_stderr)
{
    int fd;
    void *addr;

    cr_assert_eq(amph_shm_create("test", 8192, &fd), AMPH_OK);
    cr_assert_lt(ftruncate(fd, 4096), 0, "sealed");
    cr_assert_eq(amph_shm_map_peer(getpid(), fd, 4096, 8192, &addr), AMPH_ERR_ARG,
                 "beyond its end");

    int loose = memfd_create("loose", 0);

    cr_assert_eq(ftruncate(loose, 8192), 0);
    cr_assert_eq(amph_shm_map_peer(getpid(), loose, 0, 8192, &addr), AMPH_ERR_ARG);
}

Test(arena, more_than_the_memory_is_refused, .init = cr_redirect_stderr)
{
    struct amph_arena_part part;
    cr_assert_eq(amph_arena_segment((size_t)1 << 50, 4096, &part), AMPH_ERR_NOMEM);
}

Test(log, a_fatal_error_tells_the_hook_and_ends, .exit_code = 1, .init = cr_redirect_stderr)
{
    amph_log_identity("compute 3 (node07)");
    amph_fatal("the value %d is wrong", 7);
}

/* Says it, reports that it has, and lives on until *hold is closed at the other end. */
static pid_t start_sayer(int to, int told, int hold, int unheld, const char *text)
{
    char c;
    pid_t pid = fork();

    if (pid != 0)
        return pid;

    close(unheld);
    dup2(to, STDERR_FILENO);
    amph_error_shared("%s", text);

    bool said = amph_log_error_said() && write(told, "", 1) == 1;

    _exit(read(hold, &c, 1) == 0 && said ? 0 : 1);
}

Test(log, what_all_find_out_is_said_by_one)
{
    static const char *const texts[] = { "the same", "the same", "another", "the same" };
    int to[2], told[2], hold[2], status;
    char got[512] = "";
    char c;
    pid_t pid[AMPH_COUNTOF(texts)];

    unsetenv("AMPHORA_JOB");
    amph_env_reload();
    cr_assert(pipe(to) == 0 && pipe(told) == 0 && pipe(hold) == 0);

    for (size_t i = 0; i < AMPH_COUNTOF(texts); i++) {
        pid[i] = start_sayer(to[1], told[1], hold[0], hold[1], texts[i]);
        cr_assert(pid[i] > 0 && read(told[0], &c, 1) == 1);
    }

    close(hold[1]);
    for (size_t i = 0; i < AMPH_COUNTOF(texts); i++)
        cr_assert(waitpid(pid[i], &status, 0) == pid[i] && status == 0);

    cr_assert(read(to[0], got, sizeof got - 1) > 0);
    cr_assert_str_eq(got, "amphora: the same\namphora: another\n");
}

/* Around a piece, and around the length from which there are none: every byte, and none beyond. */
Test(copy, any_length_is_copied_whole)
{
    static const size_t lengths[] = { 0,
                                      1,
                                      AMPH_COPY_PIECE - 1,
                                      AMPH_COPY_PIECE,
                                      AMPH_COPY_PIECE + 1,
                                      3 * AMPH_COPY_PIECE + 7,
                                      AMPH_COPY_WHOLE - 1,
                                      AMPH_COPY_WHOLE,
                                      AMPH_COPY_WHOLE + 1 };
    const size_t room = AMPH_COPY_WHOLE + 64;
    uint32_t *from = malloc(room);
    uint8_t *to = malloc(room);

    cr_assert(from && to);
    for (size_t i = 0; i < room / sizeof *from; i++)
        from[i] = (uint32_t)i * 2654435761u;

    for (size_t i = 0; i < AMPH_COUNTOF(lengths); i++) {
        memset(to, 0xee, room);
        amph_copy(to + 1, (const uint8_t *)from + 3, lengths[i]);
        cr_assert_eq(memcmp(to + 1, (const uint8_t *)from + 3, lengths[i]), 0);
        cr_assert(to[0] == 0xee && to[1 + lengths[i]] == 0xee);
    }

    free(to);
    free(from);
}

/* ---- the asymmetric fence ---- */

/* The two sides of a fence: each writes its word, a count, then reads the other's. */
enum {
    LIGHT_FENCES = 2 << 20,
    HEAVY_FENCES = 1 << 16
};

static struct {
    uint32_t written AMPH_ALIGN_LINE;
    uint32_t seen[LIGHT_FENCES + 1]; /* by the light side, after it has written the index */
} light;
static uint32_t heavy_written AMPH_ALIGN_LINE;

static void *light_side(void *arg)
{
    for (uint32_t i = 1; i <= LIGHT_FENCES; i++) {
        __atomic_store_n(&light.written, i, __ATOMIC_RELAXED);
        amph_fence_heavy();
        light.seen[i] = __atomic_load_n(&heavy_written, __ATOMIC_RELAXED);
    }

    return NULL;
}

Test(fence, one_of_both_sides_sees_what_the_other_has_written)
{
    static uint32_t seen[HEAVY_FENCES + 1];
    struct amph_fence fence;
    uint32_t count = 0;
    pthread_t thread;

    amph_fence_join(&fence);
    if (!fence.works)
        cr_skip("the kernel has no membarrier");

    cr_assert_eq(pthread_create(&thread, NULL, light_side, NULL), 0);
    while (!__atomic_load_n(&light.written, __ATOMIC_RELAXED))
        sched_yield();

    while (count < HEAVY_FENCES && seen[count] < LIGHT_FENCES) {
        count++;
        __atomic_store_n(&heavy_written, count, __ATOMIC_RELAXED);
        amph_fence_heavy();
        seen[count] = __atomic_load_n(&light.written, __ATOMIC_RELAXED);
    }

    cr_assert_eq(pthread_join(thread, NULL), 0);
    for (uint32_t i = 1; i <= count; i++)
        cr_assert(seen[i] == LIGHT_FENCES || light.seen[seen[i] + 1] >= i,
                  "heavy fence %u has not seen %u, which has seen %u only", i, seen[i] + 1,
                  light.seen[seen[i] + 1]);
}

Test(fence, after_quick_heavy_ones_full_fences_are_asked_for)
{
    const uint32_t many = 1u << 20; /* callers, so that the next one is quick in any case */
    struct amph_fence f = { .works = true };

    for (int i = 0; i < 5; i++) {
        cr_assert(!f.asks, "%d quick ones", i - 1);
        cr_assert(amph_fence_needs_heavy(&f, many));
    }

    cr_assert(f.asks, "and the others learn that by the last heavy one");
    cr_assert(!amph_fence_needs_heavy(&f, many) && f.asks);

    f.last_ns = 0;
    cr_assert(amph_fence_needs_heavy(&f, 1) && !f.asks, "after a pause");

    f = (struct amph_fence){ .asks = true };
    cr_assert(!amph_fence_needs_heavy(&f, 1) && f.asks, "without membarrier");
}
