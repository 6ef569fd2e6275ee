/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of what comes over the launcher's sockets and from its files: frames, facts, keys,
 * job descriptions, the address file, PMI-1 lines, a server's published address.  Run
 * by tests/fuzz/fuzz.sh.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "boot/control.h"
#include "boot/frames.h"
#include "boot/pmi1.h"
#include "iofwd/wire/handshake.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void frames(const uint8_t *bytes, size_t len)
{
    struct amph_frames f;
    struct amph_frame frame;

    amph_boot_frames_open(&f, -1, AMPH_CONTROL_REQUEST_MAX);
    for (size_t at = 0; at < len;) { /* in pieces, as a stream brings them */
        size_t n = 1 + (bytes[at] & 31);
        n = n < len - at ? n : len - at;
        if (!amph_boot_frames_feed(&f, bytes + at, n))
            break;
        at += n;
        static volatile uint8_t sink;
        while (amph_boot_frames_next(&f, &frame) == AMPH_OK)
            for (size_t i = 0; i < frame.len_bytes; i++)
                sink ^= frame.body[i];
    }

    amph_boot_frames_close(&f);
}

static void description(const uint8_t *bytes, size_t len)
{
    struct amph_rd r;
    struct amph_jobdesc job;
    struct amph_proc proc = { 0 };
    char key[AMPH_CONTROL_KEY_MAX + 1];

    amph_rd_init(&r, bytes, len);
    if (amph_boot_jobdesc_decode(&r, &job) == AMPH_OK) {
        uint8_t *again;
        size_t again_len;

        if (amph_boot_jobdesc_encode(&job, &again, &again_len) == AMPH_OK)
            free(again);

        amph_boot_jobdesc_free(&job);
    }

    amph_rd_init(&r, bytes, len);
    while (!r.bad && amph_rd_left(&r))
        amph_boot_facts_get(&r, &proc);

    amph_rd_init(&r, bytes, len);
    while (amph_boot_key_get(&r, key))
        if (strlen(key) > AMPH_CONTROL_KEY_MAX)
            abort();
}

static void job_file(const uint8_t *bytes, size_t len)
{
    char path[64];
    struct amph_jobfile file;
    int fd = memfd_create("fuzz", 0);

    if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
        abort();

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (amph_boot_jobfile_read(path, &file) == AMPH_OK &&
        memchr(file.address, 0, sizeof file.address) == NULL)
        abort();

    close(fd);
}

static void words(const uint8_t *bytes, size_t len)
{
    static const char *const names[] = { "cmd", "rc", "value", "kvsname", "key" };
    char *line = malloc(len + 1);
    char value[16];

    memcpy(line, bytes, len);
    line[len] = 0;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (amph_boot_pmi_word(line, names[i], value, sizeof value) &&
            strlen(value) >= sizeof value)
            abort();

    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static void (*const parts[])(const uint8_t *bytes, size_t len) = { frames, description,
                                                                       job_file, words };

    struct amph_fwd_server_addr where;
    if (len < 1)
        return 0;

    uint8_t *copy = malloc(len); /* exactly as long, so that a sanitizer sees each byte too many */

    memcpy(copy, bytes, len);

    size_t which = copy[0] % 5;

    memmove(copy, copy + 1, len - 1);
    copy = realloc(copy, len > 1 ? len - 1 : 1);

    if (which < 4)
        parts[which](copy, len - 1);
    else if (amph_fwd_server_addr_parse(copy, len - 1, &where) &&
             memchr(where.unix_name, 0, sizeof where.unix_name) == NULL)
        abort();

    free(copy);
    return 0;
}
