/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodings of the control protocol and its addresses; see control.h.  Layer: boot. */
#include "boot/control.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/thread.h"

enum {
    HOST_NAME_MAX_BYTES = 255,
    JOB_MAX_PROCS = 1 << 24
};

void amph_boot_control_mac(const uint8_t key[AMPH_KEY_BYTES],
                           const uint8_t nonce[AMPH_CONTROL_NONCE_BYTES], const void *body,
                           size_t len_bytes, uint8_t mac[AMPH_MAC_BYTES])
{
    /* HMAC(HMAC(key, nonce), body): in two steps, so that the body need not be copied */
    uint8_t inner[AMPH_MAC_BYTES];

    _Static_assert(AMPH_MAC_BYTES == AMPH_KEY_BYTES, "a code serves as a key");
    amph_mac(key, nonce, AMPH_CONTROL_NONCE_BYTES, inner);
    amph_mac(inner, body, len_bytes, mac);
}

/* ---- addresses ---- */

static enum amph_status unix_address(const char *address, struct sockaddr_un *sun, socklen_t *len_p)
{
    static const char prefix[] = "unix:";
    size_t name_len = strlen(address) - (strncmp(address, prefix, 5) == 0 ? 5 : 0);

    if (name_len == strlen(address) || name_len == 0 || name_len > sizeof sun->sun_path - 1) {
        amph_error("the job's address \"%s\" is not of the form unix:NAME; it was written by "
                   "another version of amphora-run",
                   address);
        return AMPH_ERR_ARG;
    }

    memset(sun, 0, sizeof *sun);
    sun->sun_family = AF_UNIX;

    /* after a leading NUL: the abstract name space, which leaves no file behind */
    memcpy(sun->sun_path + 1, address + 5, name_len);
    *len_p = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name_len);
    return AMPH_OK;
}

enum amph_status amph_boot_control_connect(const char *address, int *fd_p)
{
    struct sockaddr_un sun;
    socklen_t len;
    enum amph_status st = unix_address(address, &sun, &len);

    if (st != AMPH_OK)
        return st;

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        amph_error("cannot make a socket to the launcher: %m");
        return AMPH_ERR_SYS;
    }

    sigset_t before;
    int ret;

    amph_thread_wait_begin(&before);
    while ((ret = connect(fd, (struct sockaddr *)&sun, len)) < 0 && errno == EINTR)
        ;

    amph_thread_wait_end(&before);
    if (ret < 0) {
        amph_error("cannot reach the launcher of this job at %s: %m; has the job ended?", address);
        close(fd);
        return AMPH_ERR_PEER;
    }

    *fd_p = fd;
    return AMPH_OK;
}

enum amph_status amph_boot_control_listen(const char *address, int *fd_p)
{
    struct sockaddr_un sun;
    socklen_t len;
    enum amph_status st = unix_address(address, &sun, &len);

    if (st != AMPH_OK)
        return st;

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&sun, len) < 0 || listen(fd, 4096) < 0) {
        amph_error("cannot listen on %s: %m", address);
        if (fd >= 0)
            close(fd);

        return AMPH_ERR_SYS;
    }

    *fd_p = fd;
    return AMPH_OK;
}

bool amph_boot_control_same_user(int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
           (who.uid == geteuid() || who.uid == 0);
}

/* ---- facts, keys ---- */

void amph_boot_facts_put(struct amph_wr *w, const struct amph_proc *proc)
{
    amph_wr_u8(w, (uint8_t)((proc->stated ? 1 : 0) | (proc->big_endian ? 2 : 0)));
    amph_wr_u8(w, proc->pointer_bytes);
    amph_wr_u32(w, proc->page_bytes);
    amph_wr_u64(w, proc->memory_bytes);
    amph_wr_u64(w, proc->area_bytes);
    amph_wr_u64(w, proc->pid);
}

void amph_boot_facts_get(struct amph_rd *r, struct amph_proc *proc)
{
    struct amph_proc p = { .host = proc->host };
    uint8_t flags = amph_rd_u8(r);

    p.stated = flags & 1;
    p.big_endian = flags & 2;
    p.pointer_bytes = amph_rd_u8(r);
    p.page_bytes = amph_rd_u32(r);
    p.memory_bytes = amph_rd_u64(r);
    p.area_bytes = amph_rd_u64(r);
    p.pid = amph_rd_u64(r);

    /* page sizes that do not match are refused later, by the negotiation, which names the hosts */
    if (p.stated && (p.page_bytes == 0 || (p.pointer_bytes != 4 && p.pointer_bytes != 8)))
        r->bad = true;

    if (!r->bad)
        *proc = p;
}

bool amph_boot_key_ok(const char *key)
{
    size_t len = strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-");
    return len > 0 && len <= AMPH_CONTROL_KEY_MAX && key[len] == 0;
}

void amph_boot_key_put(struct amph_wr *w, const char *key)
{
    amph_wr_blob(w, key, strlen(key));
}

bool amph_boot_key_get(struct amph_rd *r, char key[AMPH_CONTROL_KEY_MAX + 1])
{
    size_t len;
    const void *text = amph_rd_blob(r, &len);

    key[0] = 0;
    if (text && len <= AMPH_CONTROL_KEY_MAX) {
        memcpy(key, text, len);
        key[len] = 0;
    }

    if (r->bad || !amph_boot_key_ok(key) || strlen(key) != len)
        r->bad = true;

    return !r->bad;
}

/* ---- job description ---- */

enum amph_status amph_boot_jobdesc_encode(const struct amph_jobdesc *job, uint8_t **buf_p,
                                          size_t *len_p)
{
    uint32_t total = amph_boot_jobdesc_total(job);
    size_t cap = 64 + 4 * (size_t)total + 4 * (size_t)job->nproc[AMPH_COMPUTE];

    for (uint32_t h = 0; h < job->nhosts; h++)
        cap += 4 + strlen(job->host_name[h]);

    uint8_t *buf = malloc(cap);
    if (!buf)
        return AMPH_ERR_NOMEM;

    struct amph_wr w;

    amph_wr_init(&w, buf, cap);
    amph_wr_u64(&w, job->id);
    amph_wr_u32(&w, job->nproc[AMPH_COMPUTE]);
    amph_wr_u32(&w, job->nproc[AMPH_SERVER]);
    amph_wr_u8(&w, job->several_machines);
    amph_wr_u32(&w, job->nhosts);
    for (uint32_t h = 0; h < job->nhosts; h++)
        amph_wr_blob(&w, job->host_name[h], strlen(job->host_name[h]));

    for (uint32_t i = 0; i < total; i++)
        amph_wr_u32(&w, job->proc[i].host);

    for (uint32_t i = 0; job->server_of && i < job->nproc[AMPH_COMPUTE]; i++)
        amph_wr_u32(&w, job->server_of[i]);

    *buf_p = buf;
    *len_p = amph_wr_len(&w);
    return w.bad ? AMPH_ERR_RANGE : AMPH_OK;
}

static bool decode_hosts(struct amph_rd *r, struct amph_jobdesc *job)
{
    uint32_t n = amph_rd_u32(r);

    if (r->bad || n == 0 || n > amph_rd_left(r) / 4 ||
        !(job->host_name = calloc(n, sizeof *job->host_name)))
        return false;

    for (; job->nhosts < n; job->nhosts++) {
        size_t len;
        const char *text = amph_rd_blob(r, &len);

        if (!text || len > HOST_NAME_MAX_BYTES ||
            !(job->host_name[job->nhosts] = strndup(text, len)))
            return false;
    }

    return true;
}

static bool decode_procs(struct amph_rd *r, struct amph_jobdesc *job)
{
    uint32_t compute = job->nproc[AMPH_COMPUTE];
    uint32_t total = amph_boot_jobdesc_total(job);

    if (amph_rd_left(r) / 4 < total || !(job->proc = calloc(total, sizeof *job->proc)))
        return false;

    for (uint32_t i = 0; i < total; i++)
        if ((job->proc[i].host = amph_rd_u32(r)) >= job->nhosts)
            return false;

    if (job->nproc[AMPH_SERVER] == 0)
        return !r->bad;
    if (!(job->server_of = calloc(compute, sizeof *job->server_of)))
        return false;

    for (uint32_t i = 0; i < compute; i++) {
        job->server_of[i] = amph_rd_u32(r);
        if (job->server_of[i] < compute || job->server_of[i] >= total)
            return false;
    }

    return !r->bad;
}

enum amph_status amph_boot_jobdesc_decode(struct amph_rd *r, struct amph_jobdesc *job_p)
{
    struct amph_jobdesc job = { 0 };

    job.id = amph_rd_u64(r);
    job.nproc[AMPH_COMPUTE] = amph_rd_u32(r);
    job.nproc[AMPH_SERVER] = amph_rd_u32(r);
    job.several_machines = amph_rd_u8(r);

    bool sane = !r->bad && job.nproc[AMPH_COMPUTE] > 0 &&
                job.nproc[AMPH_COMPUTE] <= JOB_MAX_PROCS && job.nproc[AMPH_SERVER] <= JOB_MAX_PROCS;

    if (!sane || !decode_hosts(r, &job) || !decode_procs(r, &job)) {
        amph_boot_jobdesc_free(&job);
        return AMPH_ERR_PROTO;
    }

    *job_p = job;
    return AMPH_OK;
}

void amph_boot_jobdesc_free(struct amph_jobdesc *job)
{
    for (uint32_t h = 0; h < job->nhosts; h++)
        free((char *)job->host_name[h]);

    free(job->host_name);
    free(job->proc);
    free(job->server_of);
    memset(job, 0, sizeof *job);
}
