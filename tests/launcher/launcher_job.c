/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A member of a job on bare boot.h, for the launcher's tests; compute process and server alike.
 *
 *   launcher_job check              exchanges, looks up, checks everything, leaves
 *   launcher_job attach             compute processes learn the job and ask the servers without
 *   joining; servers as check
 *   launcher_job PHASE DIR          leaves children behind (one in a session of its own), goes to
 *   the phase (start, exchange, run,
 *                                   leave), writes "PID AGENT-PID" to DIR/RANK and stays
 *   launcher_job deaths N           stays until N deaths have been told, then leaves with exit code
 *   0
 *   launcher_job exit|abort|slip CODE   process 1 ends by gasnet_exit's way, by abort, or by _exit
 *   alone; the others wait
 *   launcher_job absent             process 1 ends without joining
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "boot/boot.h"

#define LIMIT_NS (30 * AMPH_NS_PER_S)

static struct amph_boot *boot;
static const char *argument = "";

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "process %u: %s does not hold (line %d)\n", \
                    boot ? amph_boot_self(boot) : 0, #condition, __LINE__); \
            _exit(20); \
        } \
    } while (0)

static void exchange(void)
{
    const struct amph_jobdesc *job = amph_boot_job(boot);
    enum amph_group group = amph_boot_group(boot);
    uint32_t first = amph_boot_first(boot, group);
    uint32_t self = amph_boot_self(boot);

    const void *const *value;

    const size_t *len;
    char text[3000];

    /* Longer than one PMI value; each member's has a length of its own. */
    size_t n = 100 + (self * 631) % 2800;

    memset(text, 'a' + (int)(self % 26), n);
    CHECK(amph_boot_state(boot, 1 << 20, 4096 * (self + 1)) == AMPH_OK);
    CHECK(amph_boot_publish(boot, "test-key", text, n) == AMPH_OK);
    CHECK(amph_boot_publish(boot, "twice", "first", 5) == AMPH_OK);
    CHECK(amph_boot_publish(boot, "twice", "last", 4) == AMPH_OK);
    CHECK(amph_boot_exchange(boot, "test-key", &value, &len) == AMPH_OK);

    for (uint32_t i = 0; i < job->nproc[group]; i++) {
        CHECK(len[i] == 100 + ((first + i) * 631) % 2800);
        CHECK(((const char *)value[i])[len[i] - 1] == 'a' + (int)((first + i) % 26));
        CHECK(job->proc[first + i].stated &&
              job->proc[first + i].area_bytes == 4096 * (first + i + 1));
    }

    void *twice;
    size_t twice_len;

    CHECK(amph_boot_lookup(boot, self, "twice", LIMIT_NS, &twice, &twice_len) == AMPH_OK);
    CHECK(twice_len == 4 && memcmp(twice, "last", 4) == 0);
    free(twice);
}

static void ask_servers(void)
{
    const struct amph_jobdesc *job = amph_boot_job(boot);
    uint32_t nc = job->nproc[AMPH_COMPUTE];

    CHECK(amph_boot_wait_servers(boot, LIMIT_NS) == AMPH_OK);
    for (uint32_t s = nc; s < nc + job->nproc[AMPH_SERVER]; s++) {
        void *value;
        size_t len;

        CHECK(job->proc[s].stated && job->proc[s].page_bytes >= 4096);
        CHECK(amph_boot_lookup(boot, s, "test-key", LIMIT_NS, &value, &len) == AMPH_OK);
        CHECK(len == 100 + (s * 631) % 2800 && ((char *)value)[0] == 'a' + (int)(s % 26));
        free(value);
        CHECK(amph_boot_lookup(boot, s, "no-such-key", 0, &value, &len) == AMPH_ERR_NOENT);
    }

    CHECK(amph_boot_lookup(boot, nc + job->nproc[AMPH_SERVER], "test-key", 0, &(void *){ NULL },
                           &(size_t){ 0 }) == AMPH_ERR_RANGE);
}

/* Waits for an event of this kind; others are passed over.  SHUTDOWN ends the process in order. */
static void wait_event(enum amph_boot_event_kind kind)
{
    struct amph_boot_event event;
    uint64_t deadline = amph_now_ns() + LIMIT_NS;

    if (amph_boot_fd(boot) < 0)
        return;

    while (amph_now_ns() < deadline) {
        if (amph_boot_progress(boot, &event) != AMPH_OK) {
            fd_set set;

            FD_ZERO(&set);
            FD_SET(amph_boot_fd(boot), &set);
            select(amph_boot_fd(boot) + 1, &set, NULL, NULL, &(struct timeval){ .tv_sec = 1 });
            continue;
        }

        if (event.kind == kind)
            return;

        if (event.kind == AMPH_BOOT_SHUTDOWN || event.kind == AMPH_BOOT_LOST)
            _exit(amph_boot_leave(boot, false, 0) == AMPH_OK ? 0 : 21);
    }

    CHECK(!"the event came in time");
}

static void leave(void)
{
    CHECK(amph_boot_leave(boot, false, 0) == AMPH_OK);
    amph_boot_close(boot);
}

static void join(void)
{
    struct amph_boot *second = NULL;

    CHECK(amph_boot_join(&boot) == AMPH_OK);
    CHECK(amph_boot_join(&second) == AMPH_ERR_STATE);
}

/* ---- modes ---- */

static void mode_check(void)
{
    const struct amph_jobdesc *job;

    join();
    job = amph_boot_job(boot);
    for (uint32_t c = 0; job->server_of && c < job->nproc[AMPH_COMPUTE]; c++)
        CHECK(job->server_of[c] == job->nproc[AMPH_COMPUTE] + c % job->nproc[AMPH_SERVER]);

    exchange();
    if (amph_boot_group(boot) == AMPH_COMPUTE)
        ask_servers();
    else
        wait_event(AMPH_BOOT_DRAIN);

    leave();
}

/* A file client: learns the job without a place in it, in the process itself and in a forked
 * child. */
static void mode_attach(void)
{
    struct amph_boot *first;

    CHECK(amph_boot_attach(&first) == AMPH_OK);
    CHECK(amph_boot_publish(first, "key", "x", 1) == AMPH_ERR_STATE &&
          amph_boot_leave(first, false, 0) == AMPH_ERR_STATE);

    if (amph_boot_group(first) == AMPH_SERVER) {
        mode_check(); /* joining goes beside an attached handle */
        amph_boot_close(first);
        return;
    }

    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        amph_boot_close(first); /* the parent's; without a word */
        CHECK(amph_boot_attach(&boot) == AMPH_OK);
        ask_servers();
        _exit(0);
    }

    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    boot = first;
    ask_servers();
    amph_boot_close(first);
}

static void stay(void) __attribute__((noreturn));
static void stay(void)
{
    for (;;)
        pause();
}

/* A child, and one in a session of its own whose parent ends at once. */
static void leave_children(void)
{
    if (fork() == 0)
        stay();

    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            stay();

        _exit(0);
    }
}

static void announce(const char *rank)
{
    char path[512], ready[520];

    snprintf(path, sizeof path, "%s/.%s", argument, rank);
    snprintf(ready, sizeof ready, "%s/%s", argument, rank);

    FILE *f = fopen(path, "w");

    CHECK(f);
    fprintf(f, "%d %d\n", (int)getpid(), (int)getppid());
    fclose(f);
    CHECK(rename(path, ready) == 0);
}

static void phase(const char *rank, int steps)
{
    leave_children();
    if (steps > 0)
        join();

    if (steps == 1 && strcmp(rank, "1") != 0) {
        announce(rank); /* and hangs in the exchange, since process 1 does not come */
        exchange();
    }

    if (steps > 1)
        exchange();

    if (steps > 2 && amph_boot_group(boot) == AMPH_COMPUTE)
        CHECK(amph_boot_leave(boot, false, 0) == AMPH_OK);

    announce(rank);
    stay();
}

static const char *rank_text(void)
{
    const char *rank = getenv("AMPHORA_RANK");

    CHECK(rank);
    return rank;
}

static void mode_start(void)
{
    phase(rank_text(), 0);
}

static void mode_exchange(void)
{
    phase(rank_text(), 1);
}

static void mode_run(void)
{
    phase(rank_text(), 2);
}

static void mode_leave(void)
{
    phase(rank_text(), 3);
}

static void mode_deaths(void)
{
    join();
    exchange();

    if (amph_boot_group(boot) == AMPH_COMPUTE)
        for (int n = atoi(argument); n > 0; n--)
            wait_event(AMPH_BOOT_DEATH);
    else if (amph_boot_self(boot) == amph_boot_first(boot, AMPH_SERVER))
        kill(getpid(), SIGKILL);
    else
        wait_event(AMPH_BOOT_DRAIN);

    leave();
}

static void others_wait(void)
{
    join();
    exchange();
    if (amph_boot_self(boot) != 1)
        wait_event(AMPH_BOOT_DRAIN); /* never comes to a compute process: ends by SHUTDOWN */
}

static void mode_exit(void)
{
    others_wait();
    amph_boot_leave(boot, true, atoi(argument));
    _exit(atoi(argument));
}

static void mode_abort(void)
{
    others_wait();
    amph_boot_abort(boot, atoi(argument));
    _exit(atoi(argument));
}

static void mode_slip(void)
{
    others_wait();
    _exit(atoi(argument));
}

static void mode_absent(void)
{
    if (strcmp(rank_text(), "1") == 0)
        _exit(0);

    others_wait();
}

static const struct {
    const char *name;
    void (*fn)(void);
} modes[] = {
    { "check", mode_check },       { "attach", mode_attach }, { "start", mode_start },
    { "exchange", mode_exchange }, { "run", mode_run },       { "leave", mode_leave },
    { "deaths", mode_deaths },     { "exit", mode_exit },     { "abort", mode_abort },
    { "slip", mode_slip },         { "absent", mode_absent },
};

int main(int argc, char **argv)
{
    /* amphora-run starts servers without arguments, so the mode may also be in the
     * environment. */
    const char *mode = argc > 1 ? argv[1] : getenv("JOB_MODE");

    argument = argc > 2 ? argv[2] : getenv("JOB_ARGUMENT");
    if (!argument)
        argument = "";

    for (size_t i = 0; mode && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].name, mode) == 0) {
            modes[i].fn();
            return 0;
        }

    fprintf(stderr, "launcher_job: what is \"%s\"?\n", mode ? mode : "");
    return 22;
}
