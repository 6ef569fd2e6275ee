/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection to an agent on another host, in the process that started it (the launcher, or
 * another agent, because hosts form a tree).
 *
 * The agent is started by ssh, and all frames travel through ssh's standard input and output.  So
 * there is no listener on the network, and if ssh, the agent or the connection ends, the stream ends
 * on both sides.  A broken network does not end the stream.  Therefore both sides send a heartbeat
 * each half second, and a side that receives nothing for too long regards the other as lost.
 *
 * Layer: launcher.  Thread rule: one thread, from its event loop.
 */
#ifndef AMPH_LAUNCHER_REMOTE_H
#define AMPH_LAUNCHER_REMOTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "boot/frames.h"
#include "launcher/common/inherit.h"
#include "launcher/common/loop.h"

#define AMPH_REMOTE_BEAT_NS UINT64_C(500000000)

/* Does a look for silence come late?  Then this process was stopped or had no core; what has arrived
 * since may not have been read, and the other side's silence counts from now. */
static inline bool amph_remote_beat_is_late(const struct amph_timer *beat, uint64_t now_ns)
{
    return now_ns - beat->at_ns > AMPH_REMOTE_BEAT_NS;
}

struct amph_remote;

struct amph_remote_calls {
    void (*frame)(struct amph_remote *r, const struct amph_frame *frame);
    /* A line of ssh's or the agent's standard error, after the agent is ready. */
    void (*said)(struct amph_remote *r, const char *line);
    /* The agent is lost, and its descriptors are closed.  code: exit code for the job; why: for
     * example "cannot be reached: ...". */
    void (*gone)(struct amph_remote *r, int code, const char *why);
};

struct amph_remote {
    const struct amph_remote_calls *calls;
    void *user;
    uint32_t host;
    struct amph_loop *loop;
    pid_t pid; /* of ssh; 0: it was waited for */
    int status;
    struct amph_frames frames;
    struct amph_watch *watch, *error_watch;
    int error_fd;
    char line[512]; /* incomplete line of ssh's standard error */
    size_t line_len;
    char last[512]; /* its last whole line */
    bool ready, gone;
    uint64_t heard_ns, silence_ns, start_ns, start_limit_ns; /* silence_ns 0: never lost */
    struct amph_timer beat;
};

/* The command that starts an agent: the words of `ssh` (split at blanks), the host's name, and one
 * line for the shell of that host. */
struct amph_remote_spec {
    const char *ssh, *name, *line;
    uint64_t start_limit_ns, silence_ns;
};

/* Starts an agent.  r is zeroed except calls, user and host.  AMPH_ERR_SYS with errno if ssh cannot be
 * started; later failures are reported by `gone`. */
enum amph_status amph_remote_start(struct amph_remote *r, struct amph_loop *loop,
                                   const struct amph_inherit *inherit,
                                   const struct amph_remote_spec *spec);
void amph_remote_send(struct amph_remote *r, uint16_t type, const void *body, size_t len_bytes);
/* Ends the connection immediately, without a call of `gone`. */
void amph_remote_drop(struct amph_remote *r);
/* To be called for each child that was waited for.  Returns true if pid was the ssh of r. */
bool amph_remote_reaped(struct amph_remote *r, pid_t pid, int status);

/* Returns the shell line that starts `run` (a path) as an agent; allocated. */
char *amph_remote_line(const char *run, uint64_t silence_ns);

#endif
