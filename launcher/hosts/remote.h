/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An agent on another host, seen from the process that started it (the launcher, or another agent:
 * hosts form a tree). Layer: launcher.  Thread rule: one thread, from its event loop.
 *
 * The agent is started by ssh, and all that the two say to each other goes through ssh's own
 * standard input and output: nothing listens on the network, and whatever ends ssh, the agent or
 * the connection ends the stream at both ends.  A connection that is merely cut says nothing; so
 * both ends send a beat each half second and count who has been silent for too long as lost.
 */
#ifndef AMPH_LAUNCHER_REMOTE_H
#define AMPH_LAUNCHER_REMOTE_H

#include <stdbool.h>
#include <sys/types.h>

#include "boot/frames.h"
#include "launcher/common/inherit.h"
#include "launcher/common/loop.h"

#define AMPH_REMOTE_BEAT_NS UINT64_C(500000000)

struct amph_remote;

struct amph_remote_calls {
    void (*frame)(struct amph_remote *r, const struct amph_frame *frame);
    /* a line on ssh's or the agent's standard error, once it is ready */
    void (*said)(struct amph_remote *r, const char *line);
    /* It is gone, and its descriptors are closed; code: what the job should end with, why: "cannot
     * be reached: ..." and the like. */
    void (*gone)(struct amph_remote *r, int code, const char *why);
};

struct amph_remote {
    const struct amph_remote_calls *calls;
    void *user;
    uint32_t host;
    struct amph_loop *loop;
    pid_t pid; /* of ssh; 0: has been waited for */
    int status;
    struct amph_frames frames;
    struct amph_watch *watch, *error_watch;
    int error_fd;
    char line[512]; /* of ssh's standard error, not yet whole */
    size_t line_len;
    char last[512]; /* its last whole line */
    bool ready, gone;
    uint64_t heard_ns, silence_ns, start_ns, start_limit_ns; /* silence_ns 0: never too long */
    struct amph_timer beat;
};

/* How agents on other hosts are started: by the words of `ssh` (split at blanks), the host's name
 * and one line for its shell. */
struct amph_remote_spec {
    const char *ssh, *name, *line;
    uint64_t start_limit_ns, silence_ns;
};

/* Starts one; r is zeroed except calls, user and host.  AMPH_ERR_SYS where that fails here (errno);
 * what fails later comes as gone. */
enum amph_status amph_remote_start(struct amph_remote *r, struct amph_loop *loop,
                                   const struct amph_inherit *inherit,
                                   const struct amph_remote_spec *spec);
void amph_remote_send(struct amph_remote *r, uint16_t type, const void *body, size_t len_bytes);
/* Ends it at once, without a call of gone. */
void amph_remote_drop(struct amph_remote *r);
/* For who waits for all children: true where pid was this one's ssh. */
bool amph_remote_reaped(struct amph_remote *r, pid_t pid, int status);

/* The line for the shell of a host that starts `run` (a path) as agent there; allocated. */
char *amph_remote_line(const char *run, uint64_t silence_ns);

#endif
