/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of what process managers say to those that they have started: the words and lengths
 * of PMI-2's messages, and the answers that the clients of PMI-1 and PMI-2 get to their calls.  Run
 * by tests/fuzz/fuzz.sh.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/control.h"
#include "boot/kvs.h"
#include "boot/pmi1.h"
#include "boot/pmi2.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    CLIENT_FD = 200
};

static void words(const uint8_t *bytes, size_t len)
{
    static const char *const names[] = { "cmd", "rc", "value", "found", "" };
    char *text = malloc(len + 1);
    char value[16];

    memcpy(text, bytes, len);
    text[len] = 0;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (amph_boot_pmi2_word(text, names[i], value, sizeof value) &&
            strlen(value) >= sizeof value)
            abort();

    if (len >= AMPH_PMI2_HEAD_BYTES && amph_boot_pmi2_length(text) > AMPH_PMI2_BODY_MAX)
        abort();

    free(text);
}

static void get(struct amph_kvs *kvs, const char *name)
{
    static volatile uint8_t sink;
    void *data;
    size_t n;

    if (kvs->ops->get(kvs, 0, name, &data, &n) != AMPH_OK)
        return;

    if (n > AMPH_CONTROL_VALUE_MAX)
        abort();

    ((uint8_t *)data)[n] = 0; /* there is room for it */
    for (size_t i = 0; i < n; i++)
        sink ^= ((uint8_t *)data)[i];

    free(data);
}

/* All that the manager will ever answer is there already; what it is asked is not read. */
static void client(const struct amph_kvs_ops *ops, const uint8_t *bytes, size_t len)
{
    int pair[2];
    struct amph_kvs *kvs;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 ||
        write(pair[1], bytes, len) != (ssize_t)len || dup2(pair[0], CLIENT_FD) < 0)
        abort();

    shutdown(pair[1], SHUT_WR);
    close(pair[0]);
    if (!amph_boot_pmi_present() && !amph_boot_pmi2_present())
        abort();

    if (ops->open(&kvs) == AMPH_OK) { /* its end of the connection is the client's from here on */
        if (kvs->rank >= kvs->size)
            abort();
        if (kvs->ops->put(kvs, "a0-h", "value", 5) == AMPH_OK && kvs->ops->fence(kvs) == AMPH_OK) {
            get(kvs, "a0-h");
            get(kvs, "a0-v-am");
        }
        kvs->ops->finalize(kvs);
        kvs->ops->close(kvs);
    }

    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    setenv("PMI_FD", "200", 1);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "2", 1);
    setenv("PMI_JOBID", "1", 1);
    if (len < 1 || len > 4000)
        return 0;

    if (bytes[0] % 3 == 0)
        words(bytes + 1, len - 1);
    else
        client(bytes[0] % 3 == 1 ? &amph_boot_kvs_pmi1 : &amph_boot_kvs_pmi2, bytes + 1, len - 1);

    return 0;
}
