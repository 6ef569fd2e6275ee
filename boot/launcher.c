/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kind `launcher`: joining over amphora-run's control socket.  Layer: boot.  Thread rule: as
 * boot.h.
 *
 * Requests with an answer are made one at a time.  Events that arrive meanwhile are queued for
 * amph_boot_progress.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "boot/control.h"
#include "boot/frames.h"
#include "boot/kind.h"

#define HANDSHAKE_NS (30 * AMPH_NS_PER_S)

struct launched {
    struct amph_boot base;
    struct amph_frames frames;
    struct amph_bytes events; /* struct amph_boot_event, in order of arrival */
    uint32_t seq;             /* of the last request that carries one */
    bool ending;              /* SHUTDOWN has been received: no further answers */
    bool lost;                /* the launcher has ended, and LOST is queued */
};

static struct launched *own(struct amph_boot *boot)
{
    return (struct launched *)boot;
}

static bool launched_belongs(void)
{
    return amph_env_str(AMPH_ENV_JOB)[0] != 0;
}

/* ---- receiving ---- */

static void queue_event(struct launched *l, struct amph_boot_event event)
{
    if (!amph_boot_bytes_add(&l->events, &event, sizeof event))
        amph_error("no memory for a notice of the launcher; it is lost");

    if (event.kind == AMPH_BOOT_SHUTDOWN || event.kind == AMPH_BOOT_LOST)
        l->ending = true;
}

static void lose(struct launched *l)
{
    if (!l->lost)
        queue_event(l, (struct amph_boot_event){
                           .kind = AMPH_BOOT_LOST, .rank = AMPH_RANK_NONE, .code = 1 });

    l->lost = true;
}

static void take_event(struct launched *l, const struct amph_frame *frame)
{
    struct amph_rd r;

    amph_rd_init(&r, frame->body, frame->len_bytes);

    uint8_t kind = amph_rd_u8(&r);
    uint32_t rank = amph_rd_u32(&r);
    int code = (int)amph_rd_u32(&r);

    if (!r.bad && kind < AMPH_BOOT_LOST)
        queue_event(l, (struct amph_boot_event){
                           .kind = (enum amph_boot_event_kind)kind, .rank = rank, .code = code });
}

/* Returns the next frame; an event is queued, too.  AMPH_OK, AMPH_AGAIN (no frame), AMPH_ERR_PEER,
 * AMPH_ERR_PROTO. */
static enum amph_status next_frame(struct launched *l, struct amph_frame *frame_p)
{
    enum amph_status st;

    while ((st = amph_boot_frames_next(&l->frames, frame_p)) == AMPH_AGAIN)
        if ((st = amph_boot_frames_fill(&l->frames)) != AMPH_OK)
            break;

    if (st == AMPH_ERR_PEER || st == AMPH_ERR_PROTO)
        lose(l);
    else if (st == AMPH_OK && frame_p->type == AMPH_CONTROL_EVENT)
        take_event(l, frame_p);

    return st;
}

/* Returns the next frame that is not an event. */
static enum amph_status next_answer(struct launched *l, struct amph_frame *frame_p)
{
    enum amph_status st;

    do
        st = next_frame(l, frame_p);
    while (st == AMPH_OK && frame_p->type == AMPH_CONTROL_EVENT);

    return st;
}

/* Blocks until a frame of this type is received.  Drops other answers: their requests have timed
 * out. */
static enum amph_status await(struct launched *l, uint16_t type, uint64_t deadline_ns,
                              struct amph_frame *frame_p)
{
    for (;;) {
        enum amph_status st = next_answer(l, frame_p);

        if (st == AMPH_OK && frame_p->type == type)
            return AMPH_OK;
        if (l->ending || (st != AMPH_OK && st != AMPH_AGAIN))
            return AMPH_ERR_PEER;
        if (st == AMPH_AGAIN && (st = amph_boot_frames_wait(&l->frames, deadline_ns)) != AMPH_OK)
            return st;
    }
}

/* The same for answers that repeat the request's number; r is advanced past number and status. */
static enum amph_status await_numbered(struct launched *l, uint16_t type, uint64_t deadline_ns,
                                       struct amph_rd *r)
{
    for (;;) {
        struct amph_frame frame;
        enum amph_status st = await(l, type, deadline_ns, &frame);

        if (st != AMPH_OK)
            return st;

        amph_rd_init(r, frame.body, frame.len_bytes);
        if (amph_rd_u32(r) != l->seq)
            continue;

        uint8_t answer = amph_rd_u8(r);

        return r->bad || answer >= AMPH_STATUS_COUNT ? AMPH_ERR_PROTO : (enum amph_status)answer;
    }
}

static uint64_t deadline_of(uint64_t timeout_ns)
{
    uint64_t now = amph_now_ns();
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

/* ---- the handshake ---- */

static enum amph_status answer_challenge(struct launched *l, bool join,
                                         const uint8_t nonce[AMPH_CONTROL_NONCE_BYTES])
{
    struct amph_frame frame;
    enum amph_status st = await(l, AMPH_CONTROL_CHALLENGE, amph_now_ns() + HANDSHAKE_NS, &frame);

    if (st != AMPH_OK) {
        amph_error("what answers as the launcher does not speak this program's control protocol "
                   "(%s); use one installation of "
                   "amphora and one AMPHORA_TEST_SWAP for both, and see whether the job still runs",
                   amph_status_text(st));
        return st;
    }

    struct amph_rd r;

    amph_rd_init(&r, frame.body, frame.len_bytes);

    uint32_t magic = amph_rd_u32(&r);
    uint16_t version = amph_rd_u16(&r);
    const uint8_t *theirs = amph_rd_bytes(&r, AMPH_CONTROL_NONCE_BYTES);

    if (!theirs || magic != AMPH_CONTROL_MAGIC || version != AMPH_CONTROL_VERSION) {
        amph_error("the launcher speaks version %u of the control protocol and this program "
                   "version %d; use one installation of "
                   "amphora (and one AMPHORA_TEST_SWAP) for both",
                   version, AMPH_CONTROL_VERSION);
        return AMPH_ERR_PROTO;
    }

    uint8_t body[AMPH_CONTROL_HELLO_BYTES + AMPH_MAC_BYTES], mac[AMPH_MAC_BYTES];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, AMPH_CONTROL_MAGIC);
    amph_wr_u16(&w, AMPH_CONTROL_VERSION);
    amph_wr_u8(&w, join);
    amph_wr_u32(&w, l->base.self);
    amph_wr_u64(&w, (uint64_t)getpid());
    amph_wr_bytes(&w, nonce, AMPH_CONTROL_NONCE_BYTES);
    amph_boot_control_mac(l->base.job.key, theirs, body, amph_wr_len(&w), mac);
    amph_wr_bytes(&w, mac, sizeof mac);

    return amph_boot_frames_send_wr(&l->frames, AMPH_CONTROL_HELLO, &w);
}

static enum amph_status refused(const struct amph_frame *frame)
{
    struct amph_rd r;
    size_t len;

    amph_rd_init(&r, frame->body, frame->len_bytes);

    uint8_t st = amph_rd_u8(&r);
    const char *text = amph_rd_blob(&r, &len);

    amph_error("the launcher refused this process: %.*s", text ? (int)len : 0, text ? text : "");
    return !r.bad && st > AMPH_AGAIN && st < AMPH_STATUS_COUNT ? (enum amph_status)st
                                                               : AMPH_ERR_DENIED;
}

static enum amph_status take_welcome(struct launched *l,
                                     const uint8_t nonce[AMPH_CONTROL_NONCE_BYTES])
{
    struct amph_frame frame;
    uint64_t deadline = amph_now_ns() + HANDSHAKE_NS;
    enum amph_status st;

    while ((st = next_answer(l, &frame)) == AMPH_AGAIN)
        if ((st = amph_boot_frames_wait(&l->frames, deadline)) != AMPH_OK)
            break;

    if (st != AMPH_OK) {
        amph_error("the launcher did not welcome this process: %s", amph_status_text(st));
        return st;
    }

    if (frame.type == AMPH_CONTROL_REFUSED)
        return refused(&frame);

    struct amph_rd r;
    uint8_t mac[AMPH_MAC_BYTES];

    amph_rd_init(&r, frame.body, frame.len_bytes);

    const uint8_t *theirs = amph_rd_bytes(&r, AMPH_MAC_BYTES);
    if (!theirs || frame.type != AMPH_CONTROL_WELCOME)
        return AMPH_ERR_PROTO;

    amph_boot_control_mac(l->base.job.key, nonce, r.at, amph_rd_left(&r), mac);
    if (!amph_mac_equal(mac, theirs, sizeof mac)) {
        amph_error("what listens on this job's control socket does not know the job's key; start "
                   "the job again");
        return AMPH_ERR_DENIED;
    }

    uint8_t key[AMPH_KEY_BYTES];

    memcpy(key, l->base.job.key, sizeof key);
    st = amph_boot_jobdesc_decode(&r, &l->base.job);
    memcpy(l->base.job.key, key, sizeof key);

    return st;
}

static enum amph_status shake_hands(struct launched *l, bool join)
{
    uint8_t nonce[AMPH_CONTROL_NONCE_BYTES];

    amph_random(nonce, sizeof nonce);

    enum amph_status st = answer_challenge(l, join, nonce);

    l->frames.max_bytes = AMPH_CONTROL_ANSWER_MAX;
    if (st == AMPH_OK)
        st = take_welcome(l, nonce);

    if (st != AMPH_OK)
        return st;

    uint32_t self = l->base.self;
    uint32_t total = amph_boot_jobdesc_total(&l->base.job);

    if (self != AMPH_RANK_NONE && self >= total) {
        amph_error(
            "AMPHORA_RANK=%u, but the job has %u processes; leave AMPHORA_RANK to amphora-run",
            self, total);
        return AMPH_ERR_RANGE;
    }

    l->base.group = self != AMPH_RANK_NONE && self >= l->base.job.nproc[AMPH_COMPUTE]
                        ? AMPH_SERVER
                        : AMPH_COMPUTE;
    return AMPH_OK;
}

static void launched_close(struct amph_boot *boot)
{
    amph_boot_frames_close(&own(boot)->frames);
    amph_boot_bytes_free(&own(boot)->events);
}

static enum amph_status launched_open(bool join, struct amph_boot **boot_p)
{
    struct amph_jobfile file;
    int fd;
    enum amph_status st = amph_boot_jobfile_read(amph_env_str(AMPH_ENV_JOB), &file);

    if (st == AMPH_OK)
        st = amph_boot_control_connect(file.address, &fd);

    if (st != AMPH_OK)
        return st;

    struct launched *l = calloc(1, sizeof *l);

    if (!l) {
        close(fd);
        return AMPH_ERR_NOMEM;
    }

    amph_boot_frames_open(&l->frames, fd, AMPH_CONTROL_REQUEST_MAX); /* a challenge is short */
    memcpy(l->base.job.key, file.key, sizeof file.key);

    int64_t rank = amph_env_int(AMPH_ENV_RANK);

    l->base.self = rank < 0 ? AMPH_RANK_NONE : (uint32_t)rank;
    st = amph_boot_bytes_reserve(&l->events, sizeof(struct amph_boot_event)) ? shake_hands(l, join)
                                                                             : AMPH_ERR_NOMEM;

    if (st != AMPH_OK) {
        launched_close(&l->base);
        amph_boot_jobdesc_free(&l->base.job);
        free(l);
        return st;
    }

    *boot_p = &l->base;
    return AMPH_OK;
}

/* ---- publishing and asking ---- */

static enum amph_status launched_publish(struct amph_boot *boot, const char *key, const void *value,
                                         size_t len_bytes)
{
    uint8_t body[AMPH_CONTROL_REQUEST_MAX];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_boot_key_put(&w, key);
    amph_wr_blob(&w, value, len_bytes);

    return amph_boot_frames_send_wr(&own(boot)->frames, AMPH_CONTROL_PUBLISH, &w);
}

static enum amph_status launched_state(struct amph_boot *boot)
{
    uint8_t body[AMPH_CONTROL_FACTS_BYTES];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_boot_facts_put(&w, &boot->job.proc[boot->self]);
    return amph_boot_frames_send_wr(&own(boot)->frames, AMPH_CONTROL_STATE, &w);
}

/* Stores the results of the exchange: one copy of the body, into which the values point. */
static enum amph_status take_exchanged(struct amph_boot *boot, const struct amph_frame *frame)
{
    uint32_t n = boot->job.nproc[boot->group];
    uint32_t first = amph_boot_first(boot, boot->group);
    struct amph_rd r;
    enum amph_status st = amph_boot_alloc_values(boot, n);

    if (st != AMPH_OK || !(boot->value_mem = malloc(frame->len_bytes + 1)))
        return AMPH_ERR_NOMEM;

    memcpy(boot->value_mem, frame->body, frame->len_bytes);
    amph_rd_init(&r, boot->value_mem, frame->len_bytes);
    if (amph_rd_u32(&r) != n)
        return AMPH_ERR_PROTO;

    for (uint32_t i = 0; i < n; i++) {
        amph_boot_facts_get(&r, &boot->job.proc[first + i]);
        boot->value[i] = amph_rd_blob(&r, &boot->value_len[i]);
    }

    return r.bad ? AMPH_ERR_PROTO : AMPH_OK;
}

static enum amph_status launched_exchange(struct amph_boot *boot, const char *key)
{
    uint8_t body[4 + AMPH_CONTROL_KEY_MAX];
    struct amph_wr w;
    struct amph_frame frame;

    amph_wr_init(&w, body, sizeof body);
    amph_boot_key_put(&w, key);

    enum amph_status st = amph_boot_frames_send_wr(&own(boot)->frames, AMPH_CONTROL_EXCHANGE, &w);

    /* no time limit: members may start late, and the launcher reports every death and, by
     * closing the socket, its own */
    if (st == AMPH_OK)
        st = await(own(boot), AMPH_CONTROL_EXCHANGED, 0, &frame);

    return st == AMPH_OK ? take_exchanged(boot, &frame) : st;
}

static enum amph_status launched_lookup(struct amph_boot *boot, uint32_t rank, const char *key,
                                        uint64_t timeout_ns, void **value_p, size_t *len_p)
{
    struct launched *l = own(boot);
    uint8_t body[64 + AMPH_CONTROL_KEY_MAX];
    struct amph_wr w;
    struct amph_rd r;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, ++l->seq);
    amph_wr_u32(&w, rank);
    amph_wr_u8(&w, timeout_ns > 0);
    amph_boot_key_put(&w, key);

    enum amph_status st = amph_boot_frames_send_wr(&l->frames, AMPH_CONTROL_LOOKUP, &w);

    if (st == AMPH_OK)
        st = await_numbered(l, AMPH_CONTROL_VALUE,
                            deadline_of(timeout_ns ? timeout_ns : HANDSHAKE_NS), &r);

    if (st != AMPH_OK)
        return st;

    struct amph_proc facts = boot->job.proc[rank];
    size_t len;

    amph_boot_facts_get(&r, &facts);

    const void *value = amph_rd_blob(&r, &len);
    if (!value)
        return AMPH_ERR_PROTO;

    void *copy = malloc(len + 1);
    if (!copy)
        return AMPH_ERR_NOMEM;

    memcpy(copy, value, len);
    if (facts.stated)
        boot->job.proc[rank] = facts;

    *value_p = copy;
    *len_p = len;
    return AMPH_OK;
}

static enum amph_status launched_wait_servers(struct amph_boot *boot, uint64_t timeout_ns)
{
    struct launched *l = own(boot);
    uint8_t body[4];
    struct amph_wr w;
    struct amph_rd r;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, ++l->seq);

    enum amph_status st = amph_boot_frames_send_wr(&l->frames, AMPH_CONTROL_SERVERS, &w);

    if (st == AMPH_OK)
        st = await_numbered(l, AMPH_CONTROL_FACTS, deadline_of(timeout_ns), &r);

    if (st != AMPH_OK)
        return st;

    uint32_t n = amph_rd_u32(&r);
    uint32_t first = boot->job.nproc[AMPH_COMPUTE];

    if (n != boot->job.nproc[AMPH_SERVER])
        return AMPH_ERR_PROTO;

    for (uint32_t i = 0; i < n; i++)
        amph_boot_facts_get(&r, &boot->job.proc[first + i]);

    return r.bad ? AMPH_ERR_PROTO : AMPH_OK;
}

/* ---- events, leaving ---- */

static int launched_fd(const struct amph_boot *boot)
{
    return ((const struct launched *)boot)->frames.fd;
}

/* Reads up to the next event and no further, so that the queue does not grow: a forwarded call in a signal handler
 * that has come in the midst of a malloc runs this. */
static enum amph_status launched_progress(struct amph_boot *boot, struct amph_boot_event *event_p)
{
    struct launched *l = own(boot);
    struct amph_frame frame;

    if (amph_boot_bytes_left(&l->events) == 0 && !l->lost) {
        amph_boot_frames_flush(&l->frames);
        while (amph_boot_bytes_left(&l->events) == 0 && next_frame(l, &frame) == AMPH_OK)
            ; /* an event, or an answer to a request that has timed out */
    }

    if (amph_boot_bytes_left(&l->events) < sizeof *event_p)
        return AMPH_AGAIN;

    memcpy(event_p, l->events.buf + l->events.at, sizeof *event_p);
    l->events.at += sizeof *event_p;
    return AMPH_OK;
}

static enum amph_status launched_leave(struct amph_boot *boot, bool exit_called, int code)
{
    struct launched *l = own(boot);
    uint8_t body[8];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u8(&w, exit_called);
    amph_wr_u32(&w, (uint32_t)code);

    enum amph_status st = amph_boot_frames_send_wr(&l->frames, AMPH_CONTROL_LEAVE, &w);

    /* the launcher must receive this before the process ends; it reads at once, so the wait is
     * short */
    uint64_t deadline = amph_now_ns() + AMPH_NS_PER_S;

    while (st == AMPH_OK && amph_boot_frames_pending(&l->frames) && amph_now_ns() < deadline)
        if (amph_boot_frames_flush(&l->frames) == AMPH_ERR_PEER)
            st = AMPH_ERR_PEER;

    return st;
}

static void launched_abort(struct amph_boot *boot, int code)
{
    uint8_t frame[AMPH_FRAME_HEAD_BYTES + 4];
    struct amph_wr w;

    amph_wr_init(&w, frame, sizeof frame);
    amph_wr_u32(&w, 4);
    amph_wr_u16(&w, AMPH_CONTROL_ABORT);
    amph_wr_u32(&w, (uint32_t)code);

    /* directly to the socket, because this may run in a signal handler.  If it does not arrive, the
     * launcher sees the end of this process. */
    if (send(own(boot)->frames.fd, frame, sizeof frame, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return;
}

const struct amph_boot_kind amph_boot_launcher = {
    .name = "launcher",
    .belongs = launched_belongs,
    .open = launched_open,
    .publish = launched_publish,
    .state = launched_state,
    .exchange = launched_exchange,
    .lookup = launched_lookup,
    .wait_servers = launched_wait_servers,
    .fd = launched_fd,
    .progress = launched_progress,
    .leave = launched_leave,
    .abort = launched_abort,
    .close = launched_close,
};
