/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMI-2 wire protocol, client side (srun --mpi=pmi2); see pmi2.h.  Layer: boot. */
#include "boot/pmi2.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
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

enum {
    TEXT_MAX = 1000,
    PARTS_MAX = 64,
    LINE_BYTES = 256
};

struct pmi2 {
    struct amph_kvs base;
    int fd;
    char job[128];
    char body[AMPH_PMI2_BODY_MAX + 1]; /* of the last answer */
};

static struct pmi2 *own(struct amph_kvs *kvs)
{
    return (struct pmi2 *)kvs;
}

/* ---- messages ---- */

/* Copies the value that starts at `from`, with doubled semicolons made single.  Returns its end;
 * NULL: it does not fit. */
static const char *take_value(const char *from, char *value, size_t cap)
{
    size_t n = 0;

    while (*from && (*from != ';' || from[1] == ';')) {
        if (*from == ';')
            from++;

        if (value) {
            if (n + 1 >= cap)
                return NULL;

            value[n++] = *from;
        }

        from++;
    }

    if (value)
        value[n] = 0;

    return *from == ';' ? from + 1 : from;
}

bool amph_boot_pmi2_word(const char *body, const char *word, char *value, size_t cap)
{
    size_t len = strlen(word);

    for (const char *at = body; *at;) {
        size_t name = strcspn(at, "=;");

        if (at[name] != '=') { /* a word without a value */
            at += name + (at[name] == ';');
            continue;
        }

        bool found = name == len && strncmp(at, word, len) == 0;

        at = take_value(at + name + 1, found ? value : NULL, cap);
        if (found)
            return at != NULL;
    }

    return false;
}

long amph_boot_pmi2_length(const char head[AMPH_PMI2_HEAD_BYTES])
{
    char text[AMPH_PMI2_HEAD_BYTES + 1];

    memcpy(text, head, AMPH_PMI2_HEAD_BYTES);
    text[AMPH_PMI2_HEAD_BYTES] = 0;

    size_t blanks = strspn(text, " ");
    size_t digits = strspn(text + blanks, "0123456789");

    if (digits == 0 || text[blanks + digits + strspn(text + blanks + digits, " ")])
        return -1;

    long n = strtol(text, NULL, 10);

    return n > 0 && n <= AMPH_PMI2_BODY_MAX ? n : -1;
}

static enum amph_status gone(void)
{
    amph_error("the PMI-2 server of this job has closed its connection; the job is being ended, or "
               "its launcher is gone");
    return AMPH_ERR_PEER;
}

static ssize_t write_some(int fd, const char *text, size_t len)
{
    ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
    return n < 0 && errno == ENOTSOCK ? write(fd, text, len) : n;
}

static enum amph_status write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write_some(fd, text, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gone();

        text += n;
        len -= (size_t)n;
    }

    return AMPH_OK;
}

static enum amph_status read_all(int fd, char *text, size_t len)
{
    while (len > 0) {
        sigset_t before;

        amph_thread_wait_begin(&before); /* a fence lasts until the last process enters it */

        ssize_t n = read(fd, text, len);

        amph_thread_wait_end(&before);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return gone();

        text += n;
        len -= (size_t)n;
    }

    return AMPH_OK;
}

static enum amph_status receive(struct pmi2 *p)
{
    char head[AMPH_PMI2_HEAD_BYTES];
    enum amph_status st = read_all(p->fd, head, sizeof head);

    if (st != AMPH_OK)
        return st;

    long len = amph_boot_pmi2_length(head);

    if (len < 0) {
        amph_error("the PMI-2 server sent \"%.6s\" where the length of a message was due; it does "
                   "not speak PMI-2",
                   head);
        return AMPH_ERR_PROTO;
    }

    st = read_all(p->fd, p->body, (size_t)len);
    p->body[len] = 0;
    return st;
}

/* Sends a request with the words of fmt, and receives its answer, which must be NAME-response with
 * rc=0. */
static enum amph_status ask(struct pmi2 *p, const char *name, const char *fmt, ...)
    AMPH_PRINTF(3, 4);
static enum amph_status ask(struct pmi2 *p, const char *name, const char *fmt, ...)
{
    char text[AMPH_PMI2_HEAD_BYTES + 2048];
    char got[64] = "";
    char due[64];
    char rc[16] = "0";
    va_list ap;
    int n = snprintf(text, sizeof text, "      cmd=%s;", name);

    va_start(ap, fmt);

    int m = vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);

    va_end(ap);
    if (m < 0 || (size_t)(n + m) >= sizeof text)
        return AMPH_ERR_RANGE;

    char head[AMPH_PMI2_HEAD_BYTES + 8];

    snprintf(head, sizeof head, "%6d", n + m - AMPH_PMI2_HEAD_BYTES);
    memcpy(text, head, AMPH_PMI2_HEAD_BYTES);

    enum amph_status st = write_all(p->fd, text, (size_t)(n + m));

    if (st == AMPH_OK)
        st = receive(p);

    if (st != AMPH_OK)
        return st;

    snprintf(due, sizeof due, "%s-response", name);
    amph_boot_pmi2_word(p->body, "cmd", got, sizeof got);
    amph_boot_pmi2_word(p->body, "rc", rc, sizeof rc);
    if (strcmp(got, due) == 0 && strcmp(rc, "0") == 0)
        return AMPH_OK;

    amph_error("the PMI-2 server answered \"%.80s\" where cmd=%s with rc=0 was due", p->body, due);
    return AMPH_ERR_PROTO;
}

/* ---- opening ---- */

/* Was this process started by Slurm?  It sets PMI_JOBID and each process's number; other servers
 * that set PMI_FD use PMI-1. */
/* Negotiates the version, in one line of PMI-1. */
static enum amph_status agree(struct pmi2 *p)
{
    static const char line[] = "cmd=init pmi_version=2 pmi_subversion=0\n";
    char answer[LINE_BYTES];
    size_t n = 0;
    enum amph_status st = write_all(p->fd, line, sizeof line - 1);

    while (st == AMPH_OK && n < sizeof answer - 1 && (n == 0 || answer[n - 1] != '\n'))
        if ((st = read_all(p->fd, answer + n, 1)) == AMPH_OK)
            n++;

    answer[n] = 0;
    answer[strcspn(answer, "\n")] = 0;

    if (st == AMPH_OK && (strncmp(answer, "cmd=response_to_init ", 21) != 0 ||
                          !strstr(answer, "pmi_version=2") || !strstr(answer, "rc=0"))) {
        amph_error(
            "the PMI server refuses version 2 (\"%.80s\"); AMPHORA_BOOT=pmi1 takes version 1",
            answer);
        return AMPH_ERR_PROTO;
    }

    return st;
}

static long number(const struct pmi2 *p, const char *word)
{
    char text[16];
    return amph_boot_pmi2_word(p->body, word, text, sizeof text) ? strtol(text, NULL, 10) : -1;
}

static enum amph_status greet(struct pmi2 *p)
{
    long fd = -1;
    long rank = 0;

    amph_boot_kvs_env_number("PMI_FD", 0, &fd);
    amph_boot_kvs_env_number("PMI_RANK", 0, &rank);
    p->fd = (int)fd;
    snprintf(p->job, sizeof p->job, "%s", amph_env_foreign("PMI_JOBID"));

    enum amph_status st = agree(p);

    if (st == AMPH_OK)
        st = ask(p, "fullinit", "pmijobid=%s;pmirank=%ld;threaded=FALSE;", p->job, rank);

    if (st != AMPH_OK)
        return st;

    long size = number(p, "size");
    long own_rank = number(p, "rank");

    if (size < 1 || own_rank < 0 || own_rank >= size || size > UINT32_MAX) {
        amph_error("PMI-2 gives this process the number %ld of %ld, which cannot be", own_rank,
                   size);
        return AMPH_ERR_PROTO;
    }

    p->base.rank = (uint32_t)own_rank;
    p->base.size = (uint32_t)size;
    return AMPH_OK;
}

static void pmi2_close(struct amph_kvs *kvs)
{
    if (own(kvs)->fd >= 0)
        close(own(kvs)->fd);

    free(kvs);
}

static enum amph_status pmi2_open(struct amph_kvs **kvs_p)
{
    struct pmi2 *p = calloc(1, sizeof *p);

    if (!p)
        return AMPH_ERR_NOMEM;

    p->base.ops = &amph_boot_kvs_pmi2;

    enum amph_status st = greet(p);

    if (st == AMPH_OK)
        *kvs_p = &p->base;
    else
        pmi2_close(&p->base);

    return st;
}

/* ---- values: hex digits, the first part begins with the number of bytes ---- */

static enum amph_status pmi2_put(struct amph_kvs *kvs, const char *name, const void *data,
                                 size_t len_bytes)
{
    char text[TEXT_MAX + 1];
    const uint8_t *bytes = data;
    size_t at = 0;
    enum amph_status st = AMPH_OK;

    for (unsigned part = 0; st == AMPH_OK && (part == 0 || at < len_bytes); part++) {
        size_t n = part == 0 ? (size_t)snprintf(text, sizeof text, "%08zx", len_bytes) : 0;
        size_t room = (TEXT_MAX - n) / 2;
        size_t take = len_bytes - at < room ? len_bytes - at : room;

        amph_boot_kvs_to_hex(text + n, bytes + at, take);
        at += take;
        st = ask(own(kvs), "kvs-put", "key=%s-%u;value=%s;", name, part, text);
    }

    return st;
}

static enum amph_status get_part(struct pmi2 *p, const char *name, unsigned part,
                                 char text[TEXT_MAX + 1])
{
    char found[8] = "";
    enum amph_status st = ask(p, "kvs-get", "jobid=%s;srcid=-1;key=%s-%u;", p->job, name, part);

    if (st != AMPH_OK)
        return st;

    amph_boot_pmi2_word(p->body, "found", found, sizeof found);
    if (strcmp(found, "TRUE") != 0)
        return AMPH_ERR_NOENT;

    return amph_boot_pmi2_word(p->body, "value", text, TEXT_MAX + 1) ? AMPH_OK : AMPH_ERR_PROTO;
}

static enum amph_status get_parts(struct pmi2 *p, const char *name, char *text, uint8_t *data,
                                  size_t len)
{
    size_t at = 0;
    size_t cut = 8;

    for (unsigned part = 1; at <= len; part++, cut = 0) {
        size_t n = (strlen(text) - cut) / 2;

        if (n > len - at)
            n = len - at;

        if (!amph_boot_kvs_from_hex(data + at, text + cut, n))
            return AMPH_ERR_PROTO;

        at += n;
        if (at == len)
            return AMPH_OK;

        enum amph_status st = n == 0 && part > 1 ? AMPH_ERR_PROTO : get_part(p, name, part, text);
        if (st != AMPH_OK)
            return st;
    }

    return AMPH_ERR_PROTO;
}

static enum amph_status pmi2_get(struct amph_kvs *kvs, uint32_t owner, const char *name,
                                 void **data_p, size_t *len_p)
{
    char text[TEXT_MAX + 1];
    char head[9] = "";
    enum amph_status st = get_part(own(kvs), name, 0, text);

    if (st != AMPH_OK)
        return st;

    memcpy(head, text, strnlen(text, 8));

    size_t len = strtoul(head, NULL, 16);
    if (strlen(text) < 8 || len > AMPH_CONTROL_VALUE_MAX)
        return AMPH_ERR_PROTO;

    uint8_t *data = malloc(len + 1);
    if (!data)
        return AMPH_ERR_NOMEM;

    st = get_parts(own(kvs), name, text, data, len);
    if (st != AMPH_OK) {
        free(data);
        return st;
    }

    *data_p = data;
    *len_p = len;
    return AMPH_OK;
}

static enum amph_status pmi2_fence(struct amph_kvs *kvs)
{
    return ask(own(kvs), "kvs-fence", "%s", "");
}

static enum amph_status pmi2_finalize(struct amph_kvs *kvs)
{
    if (amph_boot_pmi_is_closed(own(kvs)->fd))
        return AMPH_OK;

    return ask(own(kvs), "finalize", "%s", "");
}

static void pmi2_abort(struct amph_kvs *kvs, int code)
{
    static const char message[] = "    35cmd=abort;isworld=TRUE;msg=amphora;";

    /* the exit code is that of this process, which ends next */
    if (write_some(own(kvs)->fd, message, sizeof message - 1) < 0)
        return; /* the server has ended, and with it the job */
}

const struct amph_kvs_ops amph_boot_kvs_pmi2 = {
    .name = "pmi2",
    .open = pmi2_open,
    .put = pmi2_put,
    .get = pmi2_get,
    .fence = pmi2_fence,
    .finalize = pmi2_finalize,
    .abort = pmi2_abort,
    .close = pmi2_close,
};
