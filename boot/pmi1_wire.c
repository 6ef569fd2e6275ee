/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMI-1 text protocol, client side; see pmi1.h.  Layer: boot. */
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "boot/control.h"
#include "boot/kvs.h"
#include "boot/pmi1.h"

bool amph_boot_pmi_word(const char *line, const char *word, char *value, size_t cap)
{
    size_t len = strlen(word);

    for (const char *at = line; *at;) {
        size_t token = strcspn(at, " \n");

        if (token > len && strncmp(at, word, len) == 0 && at[len] == '=') {
            size_t n = token - len - 1;

            if (n >= cap)
                return false;

            memcpy(value, at + len + 1, n);
            value[n] = 0;
            return true;
        }

        at += token;
        at += strspn(at, " \n");
    }

    return false;
}

static long number_word(const char *line, const char *word, long otherwise)
{
    char text[24], *end;

    if (!amph_boot_pmi_word(line, word, text, sizeof text))
        return otherwise;

    long v = strtol(text, &end, 10);

    return end == text || *end ? otherwise : v;
}

static enum amph_status gone(void)
{
    amph_error("the PMI server of this job has closed its connection; the job is being ended, or "
               "its launcher is gone");
    return AMPH_ERR_PEER;
}

/* Reads one line into pmi->line and replaces its newline by NUL. */
static enum amph_status read_line(struct amph_pmi *pmi)
{
    memmove(pmi->line, pmi->line + pmi->used, pmi->len - pmi->used);
    pmi->len -= pmi->used;
    pmi->used = 0;

    for (;;) {
        char *end = memchr(pmi->line, '\n', pmi->len);

        if (end) {
            *end = 0;
            pmi->used = (size_t)(end - pmi->line) + 1;
            return AMPH_OK;
        }

        if (pmi->len == sizeof pmi->line) {
            amph_error(
                "the PMI server sent a line of more than %zu bytes, which PMI-1 does not have",
                sizeof pmi->line);
            return AMPH_ERR_PROTO;
        }

        sigset_t before;

        amph_thread_wait_begin(&before); /* a barrier lasts until the last process enters it */

        ssize_t n = read(pmi->fd, pmi->line + pmi->len, sizeof pmi->line - pmi->len);

        amph_thread_wait_end(&before);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return gone();

        pmi->len += (size_t)n;
    }
}

/* Writes to the server.  MSG_NOSIGNAL, so that a server that has ended is an error, not SIGPIPE; a
 * descriptor that is not a socket is written with write. */
static ssize_t write_some(int fd, const char *text, size_t len)
{
    ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
    return n < 0 && errno == ENOTSOCK ? write(fd, text, len) : n;
}

static enum amph_status write_line(struct amph_pmi *pmi, const char *line)
{
    size_t len = strlen(line);

    while (len > 0) {
        ssize_t n = write_some(pmi->fd, line, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gone();

        line += n;
        len -= (size_t)n;
    }

    return AMPH_OK;
}

/* Sends one request and receives its answer, which must be `cmd`. */
static enum amph_status ask(struct amph_pmi *pmi, const char *line, const char *cmd)
{
    char got[64] = "";
    enum amph_status st = write_line(pmi, line);

    if (st == AMPH_OK)
        st = read_line(pmi);

    if (st != AMPH_OK)
        return st;

    amph_boot_pmi_word(pmi->line, "cmd", got, sizeof got);
    if (strcmp(got, cmd) != 0) {
        amph_error(
            "the PMI server answered \"%.80s\" where cmd=%s was due; it does not speak PMI-1",
            pmi->line, cmd);
        return AMPH_ERR_PROTO;
    }

    return AMPH_OK;
}

/* ---- opening ---- */

static int connect_port(const char *port)
{
    char host[256];
    const char *colon = strrchr(port, ':');
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *list = NULL;

    if (!colon || (size_t)(colon - port) >= sizeof host)
        return -1;

    memcpy(host, port, (size_t)(colon - port));
    host[colon - port] = 0;
    if (getaddrinfo(host, colon + 1, &hints, &list) != 0)
        return -1;

    int fd = -1;
    sigset_t before;

    amph_thread_wait_begin(&before);
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
            close(fd);
            fd = -1;
        }
    }

    amph_thread_wait_end(&before);
    freeaddrinfo(list);
    return fd;
}

/* PMI_PORT: connects, sends this process's number, and receives size, rank and debug level, each
 * in a line. */
static enum amph_status open_port(struct amph_pmi *pmi)
{
    const char *port = amph_env_foreign("PMI_PORT");
    char line[64];
    long id = 0;

    amph_boot_kvs_env_number("PMI_ID", 0, &id);
    pmi->fd = connect_port(port);

    if (pmi->fd < 0) {
        amph_error("cannot connect to the PMI server at PMI_PORT=%s: %m", port);
        return AMPH_ERR_PEER;
    }

    snprintf(line, sizeof line, "cmd=initack pmiid=%ld\n", id);

    enum amph_status st = ask(pmi, line, "initack");

    for (int i = 0; i < 3 && st == AMPH_OK; i++) {
        st = read_line(pmi);
        if (st == AMPH_OK && strncmp(pmi->line, "cmd=set ", 8) == 0) {
            pmi->size = (uint32_t)number_word(pmi->line, "size", pmi->size);
            pmi->rank = (uint32_t)number_word(pmi->line, "rank", pmi->rank);
        }
    }

    return st;
}

static enum amph_status greet(struct amph_pmi *pmi)
{
    enum amph_status st = ask(pmi, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init");

    if (st == AMPH_OK && number_word(pmi->line, "rc", 0) != 0) {
        amph_error(
            "the PMI server refuses version 1.1 (\"%.80s\"); start the job with a PMI-1 launcher",
            pmi->line);
        return AMPH_ERR_PROTO;
    }

    if (st == AMPH_OK)
        st = ask(pmi, "cmd=get_maxes\n", "maxes");

    if (st != AMPH_OK)
        return st;

    long vallen = number_word(pmi->line, "vallen_max", 256);

    pmi->text_max = vallen - 1 < AMPH_PMI_TEXT_BYTES ? (size_t)(vallen - 1) : AMPH_PMI_TEXT_BYTES;
    if (vallen < 32) {
        amph_error("the PMI server takes values of %ld characters only; 32 are needed", vallen);
        return AMPH_ERR_PROTO;
    }

    st = ask(pmi, "cmd=get_my_kvsname\n", "my_kvsname");
    if (st == AMPH_OK && !amph_boot_pmi_word(pmi->line, "kvsname", pmi->kvs, sizeof pmi->kvs))
        return AMPH_ERR_PROTO;

    return st;
}

enum amph_status amph_boot_pmi_open(struct amph_pmi *pmi)
{
    long fd;
    long rank = 0;
    long size = 0;
    enum amph_status st = AMPH_OK;

    memset(pmi, 0, sizeof *pmi);
    if (amph_boot_kvs_env_number("PMI_FD", 0, &fd)) {
        amph_boot_kvs_env_number("PMI_RANK", 0, &rank);
        amph_boot_kvs_env_number("PMI_SIZE", 1, &size);
        pmi->fd = (int)fd;
        pmi->rank = (uint32_t)rank;
        pmi->size = (uint32_t)size;
    } else {
        st = open_port(pmi);
    }

    if (st == AMPH_OK && (pmi->size == 0 || pmi->rank >= pmi->size)) {
        amph_error("PMI gives this process the number %u of %u, which cannot be", pmi->rank,
                   pmi->size);
        st = AMPH_ERR_PROTO;
    }

    return st == AMPH_OK ? greet(pmi) : st;
}

/* ---- values ---- */

static enum amph_status put_text(struct amph_pmi *pmi, const char *name, unsigned part,
                                 const char *text)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "cmd=put kvsname=%s key=%s-%u value=%s\n", pmi->kvs, name,
                     part, text);

    if (n < 0 || (size_t)n >= sizeof line)
        return AMPH_ERR_RANGE;

    enum amph_status st = ask(pmi, line, "put_result");

    if (st == AMPH_OK && number_word(pmi->line, "rc", 0) != 0) {
        amph_error("the PMI server did not take the value %s-%u: \"%.80s\"", name, part, pmi->line);
        return AMPH_ERR_PROTO;
    }

    return st;
}

enum amph_status amph_boot_pmi_put(struct amph_pmi *pmi, const char *name, const void *data,
                                   size_t len_bytes)
{
    /* The first part starts with the number of bytes in eight hex digits. */
    char text[AMPH_PMI_TEXT_BYTES + 1];
    const uint8_t *bytes = data;
    size_t at = 0;
    enum amph_status st = AMPH_OK;

    for (unsigned part = 0; st == AMPH_OK && (part == 0 || at < len_bytes); part++) {
        size_t n = part == 0 ? (size_t)snprintf(text, sizeof text, "%08zx", len_bytes) : 0;

        for (; at < len_bytes && n + 2 <= pmi->text_max; at++)
            n += (size_t)snprintf(text + n, 3, "%02x", bytes[at]);

        text[n] = 0;
        st = put_text(pmi, name, part, text);
    }

    return st;
}

/* One part of a value; text is set to its characters. */
static enum amph_status get_text(struct amph_pmi *pmi, const char *name, unsigned part,
                                 char text[AMPH_PMI_LINE_BYTES])
{
    char line[1024];
    int n = snprintf(line, sizeof line, "cmd=get kvsname=%s key=%s-%u\n", pmi->kvs, name, part);

    if (n < 0 || (size_t)n >= sizeof line)
        return AMPH_ERR_RANGE;

    enum amph_status st = ask(pmi, line, "get_result");
    if (st != AMPH_OK)
        return st;
    if (number_word(pmi->line, "rc", 0) != 0 ||
        !amph_boot_pmi_word(pmi->line, "value", text, AMPH_PMI_LINE_BYTES))
        return AMPH_ERR_NOENT;

    return strspn(text, "0123456789abcdef") == strlen(text) ? AMPH_OK : AMPH_ERR_PROTO;
}

static uint8_t hex_byte(const char *text)
{
    char two[3] = { text[0], text[1], 0 };
    return (uint8_t)strtoul(two, NULL, 16);
}

enum amph_status amph_boot_pmi_get(struct amph_pmi *pmi, const char *name, void **data_p,
                                   size_t *len_p)
{
    char text[AMPH_PMI_LINE_BYTES];
    enum amph_status st = get_text(pmi, name, 0, text);

    if (st != AMPH_OK)
        return st;

    char head[9] = "";

    memcpy(head, text, strnlen(text, 8));

    size_t len = strtoul(head, NULL, 16);
    size_t at = 0;
    size_t cut = 8;

    if (strlen(text) < 8 || len > AMPH_CONTROL_VALUE_MAX)
        return AMPH_ERR_PROTO;

    uint8_t *data = malloc(len + 1);
    if (!data)
        return AMPH_ERR_NOMEM;

    for (unsigned part = 1; st == AMPH_OK; part++, cut = 0) {
        size_t before = at;

        for (const char *t = text + cut; t[0] && t[1] && at < len; t += 2)
            data[at++] = hex_byte(t);

        if (at == len)
            break;

        /* an empty part would make this loop endless; only the first part may be empty */
        st = part > 1 && at == before ? AMPH_ERR_PROTO : get_text(pmi, name, part, text);
    }

    if (st != AMPH_OK) {
        free(data);
        return st;
    }

    *data_p = data;
    *len_p = len;
    return AMPH_OK;
}

enum amph_status amph_boot_pmi_barrier(struct amph_pmi *pmi)
{
    return ask(pmi, "cmd=barrier_in\n", "barrier_out");
}

bool amph_boot_pmi_is_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && (errno == EBADF || errno == ECONNRESET));
}

enum amph_status amph_boot_pmi_finalize(struct amph_pmi *pmi)
{
    if (amph_boot_pmi_is_closed(pmi->fd))
        return AMPH_OK;

    return ask(pmi, "cmd=finalize\n", "finalize_ack");
}

void amph_boot_pmi_abort(struct amph_pmi *pmi, int code)
{
    char line[48] = "cmd=abort exitcode=";
    char digits[12];
    size_t n = strlen(line);
    size_t d = 0;
    unsigned v = (unsigned)code & 255;

    do
        digits[d++] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    while (d > 0)
        line[n++] = digits[--d];

    line[n++] = '\n';
    if (write_some(pmi->fd, line, n) < 0)
        return; /* the server has ended, and with it the job */
}

/* ---- as a process manager ---- */

struct pmi1 {
    struct amph_kvs base;
    struct amph_pmi pmi;
};

static struct amph_pmi *wire(struct amph_kvs *kvs)
{
    return &((struct pmi1 *)kvs)->pmi;
}

static void kvs_close(struct amph_kvs *kvs)
{
    if (wire(kvs)->fd >= 0)
        close(wire(kvs)->fd);

    free(kvs);
}

static enum amph_status kvs_open(struct amph_kvs **kvs_p)
{
    struct pmi1 *p = calloc(1, sizeof *p);

    if (!p)
        return AMPH_ERR_NOMEM;

    p->base.ops = &amph_boot_kvs_pmi1;

    enum amph_status st = amph_boot_pmi_open(&p->pmi);

    p->base.rank = p->pmi.rank;
    p->base.size = p->pmi.size;

    if (st == AMPH_OK)
        *kvs_p = &p->base;
    else
        kvs_close(&p->base);

    return st;
}

static enum amph_status kvs_put(struct amph_kvs *kvs, const char *name, const void *data,
                                size_t len_bytes)
{
    return amph_boot_pmi_put(wire(kvs), name, data, len_bytes);
}

static enum amph_status kvs_get(struct amph_kvs *kvs, uint32_t owner, const char *name,
                                void **data_p, size_t *len_p)
{
    return amph_boot_pmi_get(wire(kvs), name, data_p, len_p);
}

static enum amph_status kvs_fence(struct amph_kvs *kvs)
{
    return amph_boot_pmi_barrier(wire(kvs));
}

static enum amph_status kvs_finalize(struct amph_kvs *kvs)
{
    return amph_boot_pmi_finalize(wire(kvs));
}

static void kvs_abort(struct amph_kvs *kvs, int code)
{
    amph_boot_pmi_abort(wire(kvs), code);
}

const struct amph_kvs_ops amph_boot_kvs_pmi1 = {
    .name = "pmi1",
    .open = kvs_open,
    .put = kvs_put,
    .get = kvs_get,
    .fence = kvs_fence,
    .finalize = kvs_finalize,
    .abort = kvs_abort,
    .close = kvs_close,
};

void amph_boot_kvs_to_hex(char *text, const void *data, size_t len_bytes)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len_bytes; i++) {
        *text++ = digits[bytes[i] >> 4];
        *text++ = digits[bytes[i] & 15];
    }

    *text = 0;
}

bool amph_boot_kvs_from_hex(void *data, const char *text, size_t len_bytes)
{
    uint8_t *bytes = data;

    if (strspn(text, "0123456789abcdef") < 2 * len_bytes)
        return false;

    for (size_t i = 0; i < len_bytes; i++)
        bytes[i] = hex_byte(text + 2 * i);

    return true;
}
