/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: calls that wait at a server, for a lock or a FIFO.  The program's thread waits for the
 * supervisor in a state that only fatal signals end, so that no signal can repeat a call that has been
 * carried out.  Therefore the supervisor looks whether a signal has arrived for it, and ends the wait.
 *
 * Layer: iofwd.  Thread rule: the thread that carries the call out.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/os/clock.h"

#define LOOK_NS (5 * AMPH_NS_PER_MS) /* between two looks */

static _Thread_local struct {
    const struct amph_trap_call *call;
    uint64_t next_ns;
    bool interrupted;
} waiting;

/* Signals that have arrived for the thread and that it will handle. */
static bool has_signal(pid_t tid)
{
    unsigned long long pending = 0;
    unsigned long long shared = 0;
    unsigned long long blocked = 0;
    unsigned long long ignored = 0;
    char path[40], line[256];

    snprintf(path, sizeof path, "/proc/%d/status", (int)tid);

    FILE *f = fopen(path, "re");

    while (f && fgets(line, sizeof line, f)) {
        sscanf(line, "SigPnd: %llx", &pending);
        sscanf(line, "ShdPnd: %llx", &shared);
        sscanf(line, "SigBlk: %llx", &blocked);
        if (sscanf(line, "SigIgn: %llx", &ignored) == 1)
            break;
    }

    if (f)
        fclose(f);

    return (pending | shared) & ~blocked & ~ignored;
}

bool amph_trap_wait_interrupted(void)
{
    if (!waiting.call || waiting.interrupted)
        return waiting.interrupted;

    uint64_t now = amph_now_ns();

    if (now < waiting.next_ns)
        return false;

    waiting.next_ns = now + LOOK_NS;
    waiting.interrupted = !amph_trap_call_lives(waiting.call) ||
                          has_signal((pid_t)waiting.call->n.pid);
    return waiting.interrupted;
}

void amph_trap_wait_init(void)
{
    amph_fwd_set_cancelled(amph_trap_wait_interrupted);
}

void amph_trap_wait_begin(struct amph_trap_call *c)
{
    waiting.call = c;
    waiting.next_ns = amph_now_ns() + LOOK_NS;
    waiting.interrupted = false;
}

void amph_trap_wait_end(void)
{
    waiting.call = NULL;
}

int amph_trap_wait_result(const struct amph_trap_call *c)
{
    return amph_trap_call_lives(c) ? EINTR : AMPH_TRAP_GONE;
}
