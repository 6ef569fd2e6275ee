/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of boot/: frames, encodings, hostile bodies, address files, published values, PMI-1
 * lines, the kind `single`. */
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "boot/control.h"
#include "boot/frames.h"
#include "boot/kind.h"
#include "boot/pmi1.h"
#include "tests/unit/native_order.h"

/* ---- frames ---- */

static struct amph_frames left, right;

static void open_pair(void)
{
    int fds[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    amph_boot_frames_open(&left, fds[0], 1 << 20);
    amph_boot_frames_open(&right, fds[1], 1 << 20);
}

Test(frames, arrive_whole_and_in_order, .init = open_pair)
{
    struct amph_frame f;

    cr_assert_eq(amph_boot_frames_fill(&right), AMPH_AGAIN);
    cr_assert_eq(amph_boot_frames_send(&left, 7, "abc", 3), AMPH_OK);
    cr_assert_eq(amph_boot_frames_send(&left, 8, NULL, 0), AMPH_OK);
    cr_assert_eq(amph_boot_frames_fill(&right), AMPH_OK);
    cr_assert_eq(amph_boot_frames_next(&right, &f), AMPH_OK);
    cr_assert(f.type == 7 && f.len_bytes == 3 && memcmp(f.body, "abc", 3) == 0);
    cr_assert_eq(amph_boot_frames_next(&right, &f), AMPH_OK);
    cr_assert(f.type == 8 && f.len_bytes == 0);
    cr_assert_eq(amph_boot_frames_next(&right, &f), AMPH_AGAIN);
}

Test(frames, byte_by_byte, .init = open_pair)
{
    static const uint8_t wire[] = { 2, 0, 0, 0, 5, 0, 'x', 'y' };
    struct amph_frame f;

    for (size_t i = 0; i < sizeof wire; i++) {
        cr_assert_eq(amph_boot_frames_next(&right, &f), AMPH_AGAIN);
        cr_assert_eq(write(left.fd, wire + i, 1), 1);
        cr_assert_eq(amph_boot_frames_fill(&right), AMPH_OK);
    }

    cr_assert_eq(amph_boot_frames_next(&right, &f), AMPH_OK);
    cr_assert(f.type == 5 && memcmp(f.body, "xy", 2) == 0);
}

Test(frames, larger_than_the_socket_holds, .init = open_pair)
{
    enum {
        BYTES = 1 << 20
    };

    uint8_t *body = malloc(BYTES);
    struct amph_frame f;

    memset(body, 0x5a, BYTES);
    cr_assert_eq(amph_boot_frames_send(&left, 1, body, BYTES), AMPH_OK);
    cr_assert(amph_boot_frames_pending(&left));

    enum amph_status st;

    while ((st = amph_boot_frames_next(&right, &f)) == AMPH_AGAIN) {
        amph_boot_frames_flush(&left);
        enum amph_status filled = amph_boot_frames_fill(&right);

        cr_assert(filled == AMPH_OK || filled == AMPH_AGAIN);
    }

    cr_assert_eq(st, AMPH_OK);
    cr_assert(f.len_bytes == BYTES && f.body[0] == 0x5a && f.body[BYTES - 1] == 0x5a);
    cr_assert_not(amph_boot_frames_pending(&left));
    free(body);
}

Test(frames, a_length_above_the_limit_is_refused, .init = open_pair)
{
    static const uint8_t wire[] = { 0xff, 0xff, 0xff, 0xff, 5, 0 };
    struct amph_frame f;

    cr_assert_eq(write(left.fd, wire, sizeof wire), (ssize_t)sizeof wire);
    cr_assert_eq(amph_boot_frames_fill(&right), AMPH_OK);
    cr_assert_eq(amph_boot_frames_next(&right, &f), AMPH_ERR_PROTO);
}

Test(frames, a_closed_peer_and_a_deadline, .init = open_pair)
{
    cr_assert_eq(amph_boot_frames_wait(&right, amph_now_ns() + 20 * AMPH_NS_PER_MS),
                 AMPH_ERR_TIMEOUT);
    amph_boot_frames_close(&left);
    cr_assert_eq(amph_boot_frames_wait(&right, 0), AMPH_OK);
    cr_assert_eq(amph_boot_frames_fill(&right), AMPH_ERR_PEER);
    cr_assert_eq(amph_boot_frames_send(&right, 1, "x", 1), AMPH_ERR_PEER);
}

/* ---- encodings ---- */

Test(control, facts_round_trip)
{
    struct amph_proc in = { .host = 3,
                            .stated = true,
                            .big_endian = true,
                            .pointer_bytes = 8,
                            .page_bytes = 65536,
                            .memory_bytes = UINT64_C(1) << 40,
                            .area_bytes = 12345,
                            .pid = 99 };
    struct amph_proc out = { .host = 7 };
    uint8_t buf[AMPH_CONTROL_FACTS_BYTES];
    struct amph_wr w;
    struct amph_rd r;

    amph_wr_init(&w, buf, sizeof buf);
    amph_boot_facts_put(&w, &in);
    cr_assert(!w.bad && amph_wr_len(&w) == sizeof buf);
    amph_rd_init(&r, buf, sizeof buf);
    amph_boot_facts_get(&r, &out);
    cr_assert_not(r.bad);
    in.host = 7; /* is not part of what a process says */
    cr_assert(out.host == in.host && out.stated && out.big_endian && out.pointer_bytes == 8 &&
              out.page_bytes == 65536 && out.memory_bytes == in.memory_bytes &&
              out.area_bytes == in.area_bytes && out.pid == 99);

    for (size_t cut = 0; cut < sizeof buf; cut++) {
        struct amph_proc untouched = { .host = 1 };

        amph_rd_init(&r, buf, cut);
        amph_boot_facts_get(&r, &untouched);
        cr_assert(r.bad && !untouched.stated);
    }
}

Test(control, keys)
{
    cr_assert(amph_boot_key_ok("a-0"));
    cr_assert(amph_boot_key_ok("abcdefghijklmnopqrstuvwxyz01234"));
    cr_assert_not(amph_boot_key_ok("abcdefghijklmnopqrstuvwxyz012345"));
    cr_assert_not(amph_boot_key_ok(""));
    cr_assert_not(amph_boot_key_ok("A"));
    cr_assert_not(amph_boot_key_ok("a b"));

    static const uint8_t with_nul[] = { 3, 0, 0, 0, 'a', 0, 'b' };
    struct amph_rd r;
    char key[AMPH_CONTROL_KEY_MAX + 1];

    amph_rd_init(&r, with_nul, sizeof with_nul);
    cr_assert_not(amph_boot_key_get(&r, key));
    cr_assert(r.bad);
}

static struct amph_jobdesc sample(void)
{
    static const char *names[] = { "hostA", "hostB" };
    static struct amph_proc procs[5] = {
        { .host = 0 }, { .host = 1 }, { .host = 0 }, { .host = 1 }, { .host = 1 }
    };
    static uint32_t servers[3] = { 3, 4, 3 };

    return (struct amph_jobdesc){ .nproc = { 3, 2 },
                                  .nhosts = 2,
                                  .host_name = names,
                                  .proc = procs,
                                  .server_of = servers,
                                  .id = 77 };
}

Test(control, job_description_round_trip)
{
    struct amph_jobdesc in = sample();
    struct amph_jobdesc out;
    uint8_t *buf;
    size_t len;
    struct amph_rd r;

    cr_assert_eq(amph_boot_jobdesc_encode(&in, &buf, &len), AMPH_OK);
    amph_rd_init(&r, buf, len);
    cr_assert_eq(amph_boot_jobdesc_decode(&r, &out), AMPH_OK);
    cr_assert(out.id == 77 && out.nproc[0] == 3 && out.nproc[1] == 2 && out.nhosts == 2);
    cr_assert_str_eq(out.host_name[1], "hostB");
    for (int i = 0; i < 5; i++)
        cr_assert_eq(out.proc[i].host, in.proc[i].host);

    for (int i = 0; i < 3; i++)
        cr_assert_eq(out.server_of[i], in.server_of[i]);

    amph_boot_jobdesc_free(&out);
    free(buf);
}

/* Every cut and every flipped byte is refused or gives a description whose indices are in
 * bounds. */
Test(control, hostile_job_descriptions)
{
    struct amph_jobdesc in = sample();
    struct amph_jobdesc out;
    uint8_t *buf;
    size_t len;
    struct amph_rd r;

    cr_assert_eq(amph_boot_jobdesc_encode(&in, &buf, &len), AMPH_OK);
    for (size_t cut = 0; cut < len; cut++) {
        amph_rd_init(&r, buf, cut);
        cr_assert_eq(amph_boot_jobdesc_decode(&r, &out), AMPH_ERR_PROTO);
    }

    for (size_t at = 0; at < len; at++)
        for (int bit = 0; bit < 8; bit++) {
            buf[at] ^= (uint8_t)(1 << bit);
            amph_rd_init(&r, buf, len);

            if (amph_boot_jobdesc_decode(&r, &out) == AMPH_OK) {
                uint32_t total = amph_boot_jobdesc_total(&out);

                for (uint32_t i = 0; i < total; i++)
                    cr_assert_lt(out.proc[i].host, out.nhosts);

                for (uint32_t i = 0; out.server_of && i < out.nproc[AMPH_COMPUTE]; i++)
                    cr_assert(out.server_of[i] >= out.nproc[AMPH_COMPUTE] &&
                              out.server_of[i] < total);

                amph_boot_jobdesc_free(&out);
            }

            buf[at] ^= (uint8_t)(1 << bit);
        }

    free(buf);
}

/* ---- address files ---- */

static char *temp_path(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "/tmp/amphora-unit-%d-%s", (int)getpid(), name);
    unlink(path);
    return path;
}

Test(jobfile, round_trip_with_mode_0600)
{
    struct amph_jobfile in = { .address = "unix:some-name" };
    struct amph_jobfile out;
    struct stat st;
    const char *path = temp_path("good");

    for (size_t i = 0; i < sizeof in.key; i++)
        in.key[i] = (uint8_t)(i * 7 + 1);

    cr_assert_eq(amph_boot_jobfile_write(path, &in), AMPH_OK);
    cr_assert_eq(amph_boot_jobfile_write(path, &in), AMPH_ERR_SYS,
                 "an existing file must not be taken over");
    cr_assert(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    cr_assert_eq(amph_boot_jobfile_read(path, &out), AMPH_OK);
    cr_assert_str_eq(out.address, in.address);
    cr_assert_arr_eq(out.key, in.key, sizeof in.key);
    unlink(path);
    cr_assert_eq(amph_boot_jobfile_read(path, &out), AMPH_ERR_NOENT);
}

Test(jobfile, refuses_what_is_damaged)
{
    /* clang-format off */
    static const char *const texts[] = {
        "", "amphora-job 2\naddress unix:a\n", "amphora-job 1\n", "amphora-job 1\naddress unix:a\nkey 00\n",
        "amphora-job 1\nkey 0000000000000000000000000000000000000000000000000000000000000000\n",
        "amphora-job 1\naddress unix:a\nkey 000000000000000000000000000000000000000000000000000000000000000g\n",
    };

    /* clang-format on */
    const char *path = temp_path("bad");

    for (size_t i = 0; i < AMPH_COUNTOF(texts); i++) {
        struct amph_jobfile out;
        FILE *f = fopen(path, "w");

        fputs(texts[i], f);
        fclose(f);
        cr_assert_eq(amph_boot_jobfile_read(path, &out), AMPH_ERR_PROTO, "text %zu", i);
    }

    unlink(path);
}

Test(control, addresses)
{
    int fd, listener;
    char name[64], too_long[200];

    cr_assert_eq(amph_boot_control_connect("tcp:1.2.3.4", &fd), AMPH_ERR_ARG);
    cr_assert_eq(amph_boot_control_connect("unix:", &fd), AMPH_ERR_ARG);
    memset(too_long, 'x', sizeof too_long - 1);
    memcpy(too_long, "unix:", 5);
    too_long[sizeof too_long - 1] = 0;
    cr_assert_eq(amph_boot_control_connect(too_long, &fd), AMPH_ERR_ARG);
    snprintf(name, sizeof name, "unix:amphora-unit-%d", (int)getpid());
    cr_assert_eq(amph_boot_control_connect(name, &fd), AMPH_ERR_PEER);
    cr_assert_eq(amph_boot_control_listen(name, &listener), AMPH_OK);
    cr_assert_eq(amph_boot_control_connect(name, &fd), AMPH_OK);
    cr_assert_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
}

/* ---- published values ---- */

Test(values, the_last_one_counts_and_room_is_bounded)
{
    struct amph_values v = { 0 };
    char key[8];

    cr_assert_eq(amph_boot_values_set(&v, "a", "one", 3), AMPH_OK);
    cr_assert_eq(amph_boot_values_set(&v, "a", "three", 5), AMPH_OK);
    cr_assert(amph_boot_values_get(&v, "a")->len_bytes == 5 &&
              amph_boot_values_get(&v, "b") == NULL);

    for (int i = 1; i < AMPH_VALUES_MAX; i++) {
        snprintf(key, sizeof key, "k%d", i);
        cr_assert_eq(amph_boot_values_set(&v, key, "", 0), AMPH_OK);
    }

    cr_assert_eq(amph_boot_values_set(&v, "more", "", 0), AMPH_ERR_NOMEM);
    amph_boot_values_free(&v);
}

/* ---- PMI-1 ---- */

Test(pmi, words)
{
    char value[16];

    cr_assert(amph_boot_pmi_word("cmd=put key=abc value=x\n", "key", value, sizeof value));
    cr_assert_str_eq(value, "abc");
    cr_assert(amph_boot_pmi_word("cmd=put mykey=abc key=d", "key", value, sizeof value));
    cr_assert_str_eq(value, "d");
    cr_assert(amph_boot_pmi_word("a=1=2 b=", "a", value, sizeof value));
    cr_assert_str_eq(value, "1=2");
    cr_assert_not(amph_boot_pmi_word("a=1 b", "b", value, sizeof value));
    cr_assert_not(amph_boot_pmi_word("key=0123456789abcdef", "key", value, sizeof value));
}

/* A server with values of 64 characters; stores what is put and answers until the socket closes. */
static void *serve(void *arg)
{
    static struct {
        char key[64], value[64];
    } store[512];

    size_t n = 0;
    FILE *f = fdopen(*(int *)arg, "r+");

    setvbuf(f, NULL, _IONBF, 0);

    char line[1024], key[64], value[64];

    while (fgets(line, sizeof line, f)) {
        if (strstr(line, "cmd=initack pmiid=5")) {
            fprintf(f, "cmd=initack rc=0\ncmd=set size=9\ncmd=set rank=5\ncmd=set debug=0\n");
        } else if (strstr(line, "cmd=init ")) {
            fprintf(f, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
        } else if (strstr(line, "cmd=get_maxes")) {
            fprintf(f, "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=64\n");
        } else if (strstr(line, "cmd=get_my_kvsname")) {
            fprintf(f, "cmd=my_kvsname kvsname=space\n");
        } else if (strstr(line, "cmd=put")) {
            bool ok = amph_boot_pmi_word(line, "key", key, sizeof key) &&
                      amph_boot_pmi_word(line, "value", value, sizeof value) && n < 512;

            if (ok) {
                memcpy(store[n].key, key, sizeof key);
                memcpy(store[n++].value, value, sizeof value);
            }

            fprintf(f, "cmd=put_result rc=%d msg=x\n", ok ? 0 : -1);
        } else if (strstr(line, "cmd=get ")) {
            amph_boot_pmi_word(line, "key", key, sizeof key);

            size_t i = 0;

            while (i < n && strcmp(store[i].key, key) != 0)
                i++;

            fprintf(f,
                    i < n ? "cmd=get_result rc=0 msg=success value=%s\n"
                          : "cmd=get_result rc=-1 msg=none\n",
                    store[i < n ? i : 0].value);
        } else if (strstr(line, "cmd=barrier_in")) {
            fprintf(f, "cmd=something_else\n");
        }
    }

    fclose(f);
    return NULL;
}

Test(pmi, values_are_split_to_what_the_server_takes)
{
    static struct amph_pmi pmi;
    static int fds[2];
    char text[16];
    pthread_t thread;

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    cr_assert_eq(pthread_create(&thread, NULL, serve, &fds[1]), 0);
    snprintf(text, sizeof text, "%d", fds[0]);
    setenv("PMI_FD", text, 1);
    setenv("PMI_RANK", "2", 1);
    setenv("PMI_SIZE", "3", 1);
    cr_assert(amph_boot_pmi_present());
    cr_assert_eq(amph_boot_pmi_open(&pmi), AMPH_OK);
    cr_assert(pmi.rank == 2 && pmi.size == 3 && strcmp(pmi.kvs, "space") == 0);

    static const size_t lengths[] = { 0, 1, 27, 28, 62, 63, 4096 };

    for (size_t i = 0; i < AMPH_COUNTOF(lengths); i++) {
        uint8_t data[4096];
        void *got;
        size_t len;

        for (size_t k = 0; k < lengths[i]; k++)
            data[k] = (uint8_t)(k * 13 + i);

        snprintf(text, sizeof text, "v%zu", i);
        cr_assert_eq(amph_boot_pmi_put(&pmi, text, data, lengths[i]), AMPH_OK);
        cr_assert_eq(amph_boot_pmi_get(&pmi, text, &got, &len), AMPH_OK);
        cr_assert_eq(len, lengths[i]);
        cr_assert(len == 0 || memcmp(got, data, len) == 0);
        free(got);
    }

    cr_assert_eq(amph_boot_pmi_get(&pmi, "nobody", &(void *){ NULL }, &(size_t){ 0 }),
                 AMPH_ERR_NOENT);
    cr_assert_eq(amph_boot_pmi_barrier(&pmi), AMPH_ERR_PROTO, "a wrong answer is no answer");
    shutdown(fds[0], SHUT_RDWR);
    cr_assert_eq(amph_boot_pmi_barrier(&pmi), AMPH_ERR_PEER);
    cr_assert_eq(amph_boot_pmi_finalize(&pmi), AMPH_OK, "MPI has finalized it before");
    pthread_join(thread, NULL);
}

static void *accept_one(void *arg)
{
    int fd = accept(*(int *)arg, NULL, NULL);
    return serve(&fd);
}

Test(pmi, a_server_behind_a_port)
{
    static struct amph_pmi pmi;
    struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof sin;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    char text[32];
    pthread_t thread;
    void *got;
    size_t got_len;

    cr_assert(bind(listener, (struct sockaddr *)&sin, len) == 0 && listen(listener, 1) == 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&sin, &len), 0);
    cr_assert_eq(pthread_create(&thread, NULL, accept_one, &listener), 0);
    unsetenv("PMI_FD");
    cr_assert_not(amph_boot_pmi_present());
    snprintf(text, sizeof text, "127.0.0.1:%u", ntohs(sin.sin_port));
    setenv("PMI_PORT", text, 1);
    setenv("PMI_ID", "5", 1);
    cr_assert(amph_boot_pmi_present());
    cr_assert_eq(amph_boot_pmi_open(&pmi), AMPH_OK);
    cr_assert(pmi.rank == 5 && pmi.size == 9);
    cr_assert_eq(amph_boot_pmi_put(&pmi, "k", "abc", 3), AMPH_OK);
    cr_assert_eq(amph_boot_pmi_get(&pmi, "k", &got, &got_len), AMPH_OK);
    cr_assert(got_len == 3 && memcmp(got, "abc", 3) == 0);
    close(pmi.fd);
    pthread_join(thread, NULL);
}

/* ---- single ---- */

Test(single, a_job_of_one)
{
    struct amph_boot *boot, *second;

    const void *const *value;

    const size_t *len;
    void *copy;
    size_t copy_len;
    struct amph_boot_event event;

    setenv("AMPHORA_BOOT", "single", 1);
    cr_assert_eq(amph_boot_attach(&boot), AMPH_ERR_NOENT);
    cr_assert_eq(amph_boot_join(&boot), AMPH_OK);
    cr_assert_eq(amph_boot_join(&second), AMPH_ERR_STATE);
    cr_assert_str_eq(amph_boot_kind(boot), "single");

    const struct amph_jobdesc *job = amph_boot_job(boot);

    cr_assert(job->nproc[0] == 1 && job->nproc[1] == 0 && job->nhosts == 1 && !job->server_of &&
              amph_boot_self(boot) == 0);
    cr_assert_eq(amph_boot_publish(boot, "Not A Key", "x", 1), AMPH_ERR_ARG);
    cr_assert_eq(amph_boot_publish(boot, "key", "x", AMPH_CONTROL_VALUE_MAX + 1), AMPH_ERR_ARG);
    cr_assert_eq(amph_boot_publish(boot, "key", "abc", 3), AMPH_OK);
    cr_assert_eq(amph_boot_state(boot, 1000, 0), AMPH_OK);
    cr_assert(job->proc[0].stated && job->proc[0].pointer_bytes == sizeof(void *) &&
              job->proc[0].page_bytes >= 4096);
    cr_assert_eq(amph_boot_exchange(boot, "key", &value, &len), AMPH_OK);
    cr_assert(len[0] == 3 && memcmp(value[0], "abc", 3) == 0);
    cr_assert_eq(amph_boot_exchange(boot, "key", &value, &len), AMPH_ERR_STATE);
    amph_boot_forget(boot);
    cr_assert_eq(amph_boot_lookup(boot, 0, "key", 0, &copy, &copy_len), AMPH_OK);
    cr_assert_eq(copy_len, 3);
    free(copy);
    cr_assert_eq(amph_boot_lookup(boot, 1, "key", 0, &copy, &copy_len), AMPH_ERR_RANGE);
    cr_assert_eq(amph_boot_wait_servers(boot, 0), AMPH_OK);
    cr_assert_eq(amph_boot_progress(boot, &event), AMPH_AGAIN);
    cr_assert_eq(amph_boot_leave(boot, false, 0), AMPH_OK);
    cr_assert_eq(amph_boot_publish(boot, "key", "abc", 3), AMPH_ERR_STATE);
    amph_boot_close(boot);
    cr_assert_eq(amph_boot_join(&boot), AMPH_OK, "a closed handle frees the place of a single job");
    amph_boot_close(boot);
}
