/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network resets the connection of two processes, as a firewall or a rebooted switch does.
 *
 *   am_reset WHAT DIRECTORY
 *
 * WHAT is lost with the connection: `nothing` (both must go on), `request`, `reply`, `get`, `pack` (of puts).
 * vanish: both exchange messages until the network drops all of them.
 * messages, puts: member 0 sends them without waiting for answers, until the event `enough`; the event
 * `receiver` holds member 1's process number.
 * late: member 0 sends its first message after the event `enough`.
 * deaf: member 1 of a job over udp has no socket any more, before any message came.
 */
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/am/am_common.h"

#define SEGMENT_BYTES (16u << 20)
#define PUTS_IN_FLIGHT 4u

static const char *dir;
static unsigned came, replies;

static void on_request(struct amph_token *token, const struct amph_am *am)
{
    const struct amph_am reply = { .kind = AMPH_AM_SHORT, .handler = 131 };

    came++;
    CHECK(amph_am_reply(token, &reply, 0, NULL) == AMPH_OK, "reply");
}

static void on_reply(struct amph_token *token, const struct amph_am *am)
{
    replies++;
}

/* The two processes agree by files, because their messages are what is tested. */
static void path_of(char *path, size_t len, const char *event)
{
    snprintf(path, len, "%s/%s", dir, event);
}

static void tell(const char *event)
{
    char path[4096];

    path_of(path, sizeof path, event);

    FILE *f = fopen(path, "w");

    CHECK(f && fclose(f) == 0, "%s", path);
}

/* An event with a number. */
static void tell_number(const char *event, long number)
{
    char path[4096], part[4096];

    path_of(path, sizeof path, event);
    path_of(part, sizeof part, "part");

    FILE *f = fopen(part, "w");

    CHECK(f && fprintf(f, "%ld\n", number) > 0 && fclose(f) == 0 && rename(part, path) == 0, "%s",
          path);
}

static void await(const char *event)
{
    char path[4096];

    path_of(path, sizeof path, event);
    while (access(path, F_OK) != 0)
        usleep(1000);
}

static int option_of(int fd, int option)
{
    int value;
    socklen_t len = sizeof value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

/* Calls fn, or only counts, for each socket of this process with that protocol that does not listen, also for
 * a connection that has been reset and not closed yet. */
static unsigned each_socket(int protocol, void (*fn)(int fd))
{
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;

    CHECK(d, "/proc/self/fd");
    for (struct dirent *e; (e = readdir(d));) {
        int fd = atoi(e->d_name);

        if (option_of(fd, SO_PROTOCOL) != protocol || option_of(fd, SO_ACCEPTCONN) != 0)
            continue;

        n++;
        if (fn)
            fn(fd);
    }

    closedir(d);
    return n;
}

static unsigned each_connection(void (*fn)(int fd))
{
    return each_socket(IPPROTO_TCP, fn);
}

static void close_socket(int fd)
{
    CHECK(close(fd) == 0, "close");
}

/* What has not been read is dropped, the other side gets an RST, and this side an end of file. */
static void reset(int fd)
{
    const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

    CHECK(connect(fd, &nowhere, sizeof nowhere) == 0, "reset");
    shutdown(fd, SHUT_RDWR);
}

static void request(void)
{
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 130 };

    CHECK(amph_am_request(amph_job.ep, 1, &am, 0, NULL) == AMPH_OK, "request");
}

static void finish_get(struct amph_op *op, enum amph_status st)
{
    replies += st == AMPH_OK;
}

/* A new message would be lost with a connection whose end has not been noticed. */
static void await_notice(void)
{
    while (each_connection(NULL) > 0)
        amph_am_poll(amph_job.ep);
}

/* Member 0 sends; what it sends is lost, or the reply. */
static void run_sender(const char *what, const struct amph_rmem *rmem)
{
    static uint8_t buf[100000];
    static struct amph_op op = { finish_get };

    await("ready"); /* member 1 does not poll */
    if (strcmp(what, "get") == 0)
        CHECK(amph_am_get(amph_job.ep, 1, &rmem[1], 0, buf, sizeof buf, 0, &op) == AMPH_OK, "get");
    else if (strcmp(what, "nothing") != 0)
        request();

    tell("sent");
    await("came");

    if (strcmp(what, "reply") == 0)
        CHECK(each_connection(reset) > 0, "there is no connection");

    if (strcmp(what, "nothing") == 0) {
        await_notice();
        request();
    }

    WAIT_UNTIL(replies == 2);
}

static void run_receiver(const char *what)
{
    tell("ready");
    await("sent");
    if (strcmp(what, "reply") == 0)
        WAIT_UNTIL(came == 2);
    else
        CHECK(each_connection(reset) > 0, "there is no connection");

    tell("came");
    WAIT_UNTIL(came == 2);
}

/* Polls until the reason why the peer cannot be reached ends this process. */
static AMPH_NORETURN void await_the_end(void)
{
    for (;;)
        amph_am_poll(amph_job.ep);
}

/* Member 1 has no socket, and stays. */
static AMPH_NORETURN void be_deaf(void)
{
    if (amph_job.rank == 1) {
        CHECK(each_socket(IPPROTO_UDP, close_socket) > 0, "there is no socket");
        tell("ready");
        for (;;)
            pause();
    }

    await("ready");
    request();
    await_the_end();
}

static AMPH_NORETURN void send_late(void)
{
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 130 };

    if (amph_job.rank == 0) {
        tell("ready");
        await("enough");

        enum amph_status st = amph_am_request(amph_job.ep, 1, &am, 0, NULL);

        CHECK(st == AMPH_OK || st == AMPH_ERR_PEER, "%s", amph_status_text(st));
    }

    await_the_end();
}

static AMPH_NORETURN void exchange(void)
{
    unsigned sent = replies;

    tell("ready");
    for (;;) {
        if (amph_job.rank == 0)
            request();

        sent++;
        WAIT_UNTIL(amph_job.rank == 0 ? replies == sent : came > sent);
    }
}

static unsigned puts_done;

static void on_flood(struct amph_token *token, const struct amph_am *am)
{
}

static void finish_put(struct amph_op *op, enum amph_status st)
{
    puts_done += st == AMPH_OK;
}

static void put_word(const struct amph_rmem *rmem, struct amph_op *op, uint64_t value)
{
    CHECK(amph_am_put(amph_job.ep, 1, &rmem[1], 0, &value, sizeof value, 0, NULL, op) == AMPH_OK,
          "put");
}

/* The second put travels in a pack, because member 0 has not seen that the first one is complete.  The pack is
 * lost, and nothing else. */
static void lose_pack(const struct amph_rmem *rmem, const uint64_t *segment)
{
    static struct amph_op op[2] = { { finish_put }, { finish_put } };

    if (amph_job.rank == 0) {
        await("ready");
        put_word(rmem, &op[0], 1);
        await("came");
        put_word(rmem, &op[1], 2);
        WAIT_UNTIL(puts_done == 1);
        tell("sent");
        WAIT_UNTIL(puts_done == 2);
    } else {
        tell("ready");
        WAIT_UNTIL(__atomic_load_n(segment, __ATOMIC_ACQUIRE) == 1);
        tell("came");
        await("sent");
        CHECK(each_connection(reset) > 0, "there is no connection");
        WAIT_UNTIL(__atomic_load_n(segment, __ATOMIC_ACQUIRE) == 2);
    }
}

static void flood_once(bool puts, unsigned n, const struct amph_rmem *rmem)
{
    static uint8_t buf[SEGMENT_BYTES];
    static struct amph_op op = { finish_put };
    const struct amph_am am = {
        .kind = AMPH_AM_MEDIUM, .handler = 132, .nbytes = 32768, .payload = buf
    };
    enum amph_status st;

    if (puts) {
        WAIT_UNTIL(puts_done + PUTS_IN_FLIGHT > n);
        st = amph_am_put(amph_job.ep, 1, &rmem[1], 0, buf, sizeof buf, 0, NULL, &op);
    } else {
        st = amph_am_request(amph_job.ep, 1, &am, 0, NULL);
    }

    if (st == AMPH_ERR_PEER)
        await_the_end();

    CHECK(st == AMPH_OK, "%s", amph_status_text(st));
}

/* More than sockets and credits hold is on its way to member 1 at any time. */
static void flood(bool puts, const struct amph_rmem *rmem)
{
    char path[4096];
    unsigned n = 0;

    if (amph_job.rank == 1) {
        tell_number("receiver", (long)getpid());
        WAIT_UNTIL(came == 2);
        return;
    }

    await("receiver");
    for (path_of(path, sizeof path, "enough"); access(path, F_OK) != 0; n++) {
        flood_once(puts, n, rmem);
        if (n == 20)
            tell("ready");
    }

    WAIT_UNTIL(!puts || puts_done == n);
    request();
    WAIT_UNTIL(replies == 2);
}

int main(int argc, char **argv)
{
    static struct amph_rmem rmem[2];
    uint8_t *segment;

    CHECK(argc == 3, "WHAT DIRECTORY");
    dir = argv[2];
    am_start(false);
    am_handler(130, on_request, 1, 3, 0);
    am_handler(131, on_reply, 1, 2, 0);
    if (strcmp(argv[1], "deaf") == 0)
        be_deaf();

    if (strcmp(argv[1], "late") == 0)
        send_late();

    am_handler(132, on_flood, 2, 1, 0);
    am_segment(SEGMENT_BYTES, rmem, &segment);

    if (amph_job.rank == 0) {
        request();
        WAIT_UNTIL(replies == 1);
    } else {
        WAIT_UNTIL(came == 1);
    }

    am_barrier();
    if (strcmp(argv[1], "vanish") == 0)
        exchange();

    if (strcmp(argv[1], "messages") == 0 || strcmp(argv[1], "puts") == 0)
        flood(strcmp(argv[1], "puts") == 0, rmem);
    else if (strcmp(argv[1], "pack") == 0)
        lose_pack(rmem, (const uint64_t *)(const void *)segment);
    else if (amph_job.rank == 0)
        run_sender(argv[1], rmem);
    else
        run_receiver(argv[1]);

    am_barrier();
    amph_job_exit(0);
}
