/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unauthenticated connections to the control socket of a job: wrong greetings, cut and random frames, silence,
 * requests before the greeting. Runs as the job's only process (not joined itself); the job must go
 * on as if nothing had come.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "boot/control.h"
#include "boot/frames.h"

static struct amph_jobfile file;

static void fail(const char *what)
{
    fprintf(stderr, "launcher_unauthenticated: %s\n", what);
    exit(1);
}

static int connect_control(void)
{
    int fd;

    if (amph_boot_control_connect(file.address, &fd) != AMPH_OK)
        fail("the launcher does not answer any more");

    return fd;
}

/* Sends bytes and sees whether the launcher closes; after a whole wrong message it must. */
static bool closed_after(const void *bytes, size_t len, bool finish)
{
    int fd = connect_control();
    struct pollfd p = { .fd = fd, .events = POLLIN };
    char answer[4096];

    if (len && send(fd, bytes, len, MSG_NOSIGNAL) < 0)
        fail("nothing can be sent");

    if (finish)
        shutdown(fd, SHUT_WR);

    ssize_t n = 1;

    while (n > 0 && poll(&p, 1, 2000) > 0)
        n = recv(fd, answer, sizeof answer, 0);

    close(fd);
    return n <= 0;
}

static size_t frame(uint8_t *out, uint16_t type, const void *body, size_t len)
{
    struct amph_wr w;

    amph_wr_init(&w, out, AMPH_FRAME_HEAD_BYTES + len);
    amph_wr_u32(&w, (uint32_t)len);
    amph_wr_u16(&w, type);
    amph_wr_bytes(&w, body, len);

    return amph_wr_len(&w);
}

static void random_frames(unsigned seed)
{
    uint8_t body[512], out[1024];

    printf("seed %u\n", seed);
    srand(seed);

    for (int i = 0; i < 300; i++) {
        size_t len = (size_t)rand() % sizeof body;

        for (size_t k = 0; k < len; k++)
            body[k] = (uint8_t)rand();

        size_t n = frame(out, (uint16_t)(rand() % 20), body, len);

        if (rand() % 4 == 0)
            n = (size_t)rand() % (n + 1);

        if (!closed_after(out, n, true))
            fail("a random frame left the connection open");
    }
}

int main(void)
{
    uint8_t body[AMPH_CONTROL_HELLO_BYTES + AMPH_MAC_BYTES] = { 0 }, out[512];
    struct amph_wr w;

    if (amph_boot_jobfile_read(getenv("AMPHORA_JOB"), &file) != AMPH_OK)
        fail("no address file");

    for (uint16_t type = 0; type < 20; type++)
        if (type != AMPH_CONTROL_HELLO && !closed_after(out, frame(out, type, body, 40), false))
            fail("a request before the greeting was not answered by closing");

    if (!closed_after(out, frame(out, AMPH_CONTROL_HELLO, body, sizeof body), false))
        fail("a greeting of zeroes was accepted");

    /* All right but for the code. */
    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, AMPH_CONTROL_MAGIC);
    amph_wr_u16(&w, AMPH_CONTROL_VERSION);
    if (!closed_after(out, frame(out, AMPH_CONTROL_HELLO, body, sizeof body), false))
        fail("a greeting without the key was accepted");

    static const uint8_t huge[] = { 0xff, 0xff, 0xff, 0x7f, 2, 0 };

    if (!closed_after(huge, sizeof huge, false))
        fail("a frame of 2 GiB was waited for");

    random_frames((unsigned)amph_now_ns());

    int silent[20];

    for (int i = 0; i < 20; i++)
        silent[i] = connect_control(); /* they stay open while the process ends */

    printf("the launcher still answers on %d\n", silent[19]);
    return 0;
}
