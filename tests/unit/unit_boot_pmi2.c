/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of boot/pmi2: words, lengths, values against a server in a thread, and what a server
 * may send wrongly. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/kvs.h"
#include "boot/pmi2.h"

Test(pmi2, words)
{
    char value[16];

    cr_assert(amph_boot_pmi2_word("cmd=a;key=abc;value=x;", "key", value, sizeof value));
    cr_assert_str_eq(value, "abc");
    cr_assert(amph_boot_pmi2_word("cmd=a;v=1;;2;;;w=3;", "v", value, sizeof value));
    cr_assert_str_eq(value, "1;2;");
    cr_assert(amph_boot_pmi2_word("cmd=a;v=1;;2;;;w=3;", "w", value, sizeof value));
    cr_assert_str_eq(value, "3");
    cr_assert(amph_boot_pmi2_word("bare;mykey=no;key=", "key", value, sizeof value));
    cr_assert_str_eq(value, "");
    cr_assert(amph_boot_pmi2_word("key=012345678901234;", "key", value, sizeof value));
    cr_assert_not(amph_boot_pmi2_word("key=0123456789012345;", "key", value, sizeof value));
    cr_assert_not(amph_boot_pmi2_word("x=key=1;", "key", value, sizeof value));
    cr_assert_not(amph_boot_pmi2_word("", "key", value, sizeof value));
}

Test(pmi2, lengths)
{
    cr_assert_eq(amph_boot_pmi2_length("    42"), 42);
    cr_assert_eq(amph_boot_pmi2_length("42    "), 42);
    cr_assert_eq(amph_boot_pmi2_length("016384"), 16384);

    const char *const wrong[] = { "      ", "     0", "016385", "999999",
                                  "    -1", "  4 2 ", "cmd=in", "+   42" };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_assert_eq(amph_boot_pmi2_length(wrong[i]), -1, "%s", wrong[i]);
}

/* Whatever bytes come: the parsers stay inside them (the sanitized suite runs this too). */
Test(pmi2, any_bytes)
{
    static const char letters[] = "cmd=;;;rc0 \x01\xff";
    unsigned seed = 1;

    for (int round = 0; round < 20000; round++) {
        char body[64], value[8], head[AMPH_PMI2_HEAD_BYTES];
        size_t n = (size_t)rand_r(&seed) % sizeof body;

        for (size_t i = 0; i < n; i++)
            body[i] = letters[(size_t)rand_r(&seed) % (sizeof letters - 1)];

        body[n < sizeof body ? n : sizeof body - 1] = 0;
        if (amph_boot_pmi2_word(body, "cmd", value, sizeof value))
            cr_assert_lt(strlen(value), sizeof value);

        for (size_t i = 0; i < sizeof head; i++)
            head[i] = " 0123456789x"[(size_t)rand_r(&seed) % 12];

        long len = amph_boot_pmi2_length(head);

        cr_assert(len == -1 || (len > 0 && len <= AMPH_PMI2_BODY_MAX));
    }
}

/* ---- a server ---- */

struct server {
    int fd;
    const char *init, *fullinit; /* answers */
    char key[512][64], value[512][1024];
    size_t n;
};

static void answer(struct server *s, const char *body)
{
    char text[2200];
    int n = snprintf(text, sizeof text, "%6zu%s", strlen(body), body);

    cr_assert_eq(write(s->fd, text, (size_t)n), n);
}

static void take(struct server *s, const char *body)
{
    char cmd[32] = "";
    char key[64] = "";
    char text[1200];

    amph_boot_pmi2_word(body, "cmd", cmd, sizeof cmd);
    amph_boot_pmi2_word(body, "key", key, sizeof key);

    if (strcmp(cmd, "fullinit") == 0) {
        answer(s, s->fullinit);
    } else if (strcmp(cmd, "kvs-put") == 0) {
        snprintf(s->key[s->n], sizeof s->key[0], "%s", key);
        bool ok = s->n < 511 &&
                  amph_boot_pmi2_word(body, "value", s->value[s->n], sizeof s->value[0]);

        s->n += ok;
        answer(s, ok ? "cmd=kvs-put-response;rc=0;" : "cmd=kvs-put-response;rc=1;");
    } else if (strcmp(cmd, "kvs-get") == 0) {
        size_t i = 0;

        while (i < s->n && strcmp(s->key[i], key) != 0)
            i++;

        snprintf(text, sizeof text, "cmd=kvs-get-response;found=%s;value=%s;rc=0;",
                 i < s->n ? "TRUE" : "FALSE", i < s->n ? s->value[i] : "");
        answer(s, text);
    } else {
        snprintf(text, sizeof text, "cmd=%s-response;rc=0;", cmd);
        answer(s, text);
    }
}

static bool get(int fd, char *to, size_t len)
{
    while (len > 0) {
        ssize_t n = read(fd, to, len);

        if (n <= 0)
            return false;

        to += n;
        len -= (size_t)n;
    }

    return true;
}

static void *serve(void *arg)
{
    struct server *s = arg;
    char line[64], head[AMPH_PMI2_HEAD_BYTES], body[2200];
    size_t n = 0;

    do
        if (!get(s->fd, line + n, 1))
            return NULL;
    while (line[n++] != '\n');
    cr_assert(strncmp(line, "cmd=init pmi_version=2 ", 23) == 0);
    cr_assert_eq(write(s->fd, s->init, strlen(s->init)), (ssize_t)strlen(s->init));

    while (get(s->fd, head, sizeof head)) {
        long len = amph_boot_pmi2_length(head);

        cr_assert(len > 0 && (size_t)len < sizeof body && get(s->fd, body, (size_t)len));
        body[len] = 0;
        take(s, body);
    }

    close(s->fd);
    return NULL;
}

static enum amph_status open_to(struct server *s, struct amph_kvs **kvs_p, pthread_t *thread)
{
    int fds[2];
    char text[16];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    s->fd = fds[1];
    snprintf(text, sizeof text, "%d", fds[0]);
    setenv("PMI_FD", text, 1);
    setenv("PMI_RANK", "2", 1);
    setenv("PMI_JOBID", "7.0", 1);
    cr_assert(amph_boot_pmi2_present());
    cr_assert_eq(pthread_create(thread, NULL, serve, s), 0);

    return amph_boot_kvs_pmi2.open(kvs_p);
}

static const char agreed[] = "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";

Test(pmi2, values_of_every_length)
{
    static struct server s = {
        .init = agreed,
        .fullinit = "cmd=fullinit-response;pmi-version=2;rank=2;size=3;appnum=0;rc=0;"
    };
    struct amph_kvs *kvs;
    pthread_t thread;
    uint8_t data[4096];

    cr_assert_eq(open_to(&s, &kvs, &thread), AMPH_OK);
    cr_assert(kvs->rank == 2 && kvs->size == 3);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7);

    static const size_t lengths[] = { 0, 1, 495, 496, 497, 995, 996, 997, 4096 };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char name[16];
        void *back;
        size_t len;

        snprintf(name, sizeof name, "a2-v-%zu", i);
        cr_assert_eq(kvs->ops->put(kvs, name, data, lengths[i]), AMPH_OK);
        cr_assert_eq(kvs->ops->fence(kvs), AMPH_OK);
        cr_assert_eq(kvs->ops->get(kvs, 2, name, &back, &len), AMPH_OK, "%zu bytes", lengths[i]);
        cr_assert(len == lengths[i] && memcmp(back, data, len) == 0);
        free(back);
    }

    cr_assert_eq(kvs->ops->get(kvs, 0, "nobody", &(void *){ NULL }, &(size_t){ 0 }),
                 AMPH_ERR_NOENT);
    cr_assert_eq(kvs->ops->finalize(kvs), AMPH_OK);
    kvs->ops->close(kvs);
    pthread_join(thread, NULL);
}

/* A server that answers in another way is an error with a sentence, never a wait or a wrong
 * size. */
Test(pmi2, servers_that_answer_wrongly)
{
    /* clang-format off */
    static struct server wrong[] = {
        { .init = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n", .fullinit = "" },
        { .init = agreed, .fullinit = "cmd=fullinit-response;rank=3;size=3;rc=0;" },
        { .init = agreed, .fullinit = "cmd=fullinit-response;rank=-1;size=3;rc=0;" },
        { .init = agreed, .fullinit = "cmd=fullinit-response;size=3;rc=0;" },
        { .init = agreed, .fullinit = "cmd=fullinit-response;rank=0;size=3;rc=1;" },
        { .init = agreed, .fullinit = "cmd=kvs-fence-response;rank=0;size=3;rc=0;" },
        { .init = agreed, .fullinit = ";;;;;" },
    };

    /* clang-format on */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct amph_kvs *kvs = NULL;
        pthread_t thread;

        cr_assert_eq(open_to(&wrong[i], &kvs, &thread), AMPH_ERR_PROTO, "server %zu", i);
        cr_assert_null(kvs);
        pthread_join(thread, NULL);
    }
}
