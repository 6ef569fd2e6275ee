/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agent's state and the functions that its files share.  The file map is in agent.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#ifndef AMPH_LAUNCHER_AGENT_INTERNAL_H
#define AMPH_LAUNCHER_AGENT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/os/topo.h"
#include "launcher/agent/agent.h"
#include "launcher/common/loop.h"

struct amph_agent;

/* One end of a pipe or socket to a process. */
struct amph_agent_end {
    struct amph_agent_proc *proc;
    int fd; /* -1: closed */
    struct amph_watch *watch;
};

enum {
    AMPH_END_OUT,
    AMPH_END_ERR,
    AMPH_END_PMI,
    AMPH_END_IN,
    AMPH_NENDS
};

struct amph_agent_proc {
    struct amph_agent *agent;
    uint32_t rank;
    pid_t pid; /* 0: has ended */
    struct amph_agent_end end[AMPH_NENDS];
    struct amph_bytes input; /* for the process's standard input, not written yet */
    bool input_ended;        /* close standard input after it */
    struct amph_agent_proc *next;
};

struct amph_agent {
    struct amph_loop loop;
    struct amph_frames frames; /* to the launcher */
    struct amph_watch *watch;
    int signal_fd;
    const struct amph_inherit *inherit;
    char *directory; /* of the job, removed at the end */
    char **env;      /* NULL-terminated */
    struct amph_topo *topo;
    enum amph_bind bind;
    struct amph_agent_proc *procs;
    size_t unacknowledged_bytes; /* output that the launcher has not written yet */
    int orphan_rounds;           /* signals sent to orphans so far */
    struct amph_timer orphan_timer;
    pid_t packs; /* compresses this host's records; 0: none */

    /* only on other hosts than the launcher's */
    bool remote, quitting;
    struct amph_watch *out_watch;      /* if the stream has two descriptors */
    struct amph_agent_child *children; /* agents that this one has started on further hosts */
    int listen_fd; /* this host's control socket; its connections are forwarded to the launcher */
    struct amph_agent_conn *conns;
    uint32_t nconns;     /* connection numbers assigned so far */
    uint64_t heard_ns;   /* when the last frame arrived */
    uint64_t silence_ns; /* the launcher is lost after this time without a frame; 0: never */
    struct amph_timer beat;
    bool launcher_stopped; /* by job control: it sends no heartbeats */
};

/* The contents of a SPAWN frame.  argv and settings are NULL-terminated and owned. */
struct amph_spawn {
    uint32_t rank;
    uint32_t slot, nslots; /* of this process among those of the host, for binding */
    uint8_t flags;
    char **argv, **settings;
};

/* Sends a frame.  If the launcher is gone, the event loop notices it, not this call. */
void amph_agent_send(struct amph_agent *a, uint16_t type, const void *body, size_t len_bytes);

/* Exits.  Kills all descendants of this process first. */
void amph_agent_finish(struct amph_agent *a, int code) AMPH_NORETURN;
/* Opens the event loop, the signal descriptor and the stream.  in_fd and out_fd may be equal. */
void amph_agent_open(struct amph_agent *a, int in_fd, int out_fd);
void amph_agent_loop(struct amph_agent *a) AMPH_NORETURN;

/* ---- tree.c: agents on further hosts ---- */

void amph_agent_adopt(struct amph_agent *a, struct amph_rd *r);
void amph_agent_route(struct amph_agent *a, struct amph_rd *r);
void amph_agent_spread(struct amph_agent *a, struct amph_rd *r);
bool amph_agent_child_reaped(struct amph_agent *a, pid_t pid, int status);
/* Returns the number of agents that this one has started; stores the process ids of their ssh in pid
 * unless it is NULL. */
size_t amph_agent_children(const struct amph_agent *a, pid_t *pid);

/* ---- relay.c: control connections of this host's processes ---- */

enum amph_status amph_agent_relay_open(struct amph_agent *a, const uint8_t *key, size_t key_len);
/* Forwards everything that has arrived on the connections. */
void amph_agent_relay_drain(struct amph_agent *a);
void amph_agent_relay_take(struct amph_agent *a, struct amph_rd *r);
void amph_agent_relay_give(struct amph_agent *a, uint32_t number, const void *bytes, size_t len);

/* ---- spawn.c ---- */

/* Starts a process and sends STARTED or FAILED. */
void amph_agent_spawn(struct amph_agent *a, struct amph_rd *r);
/* Reads a count (u32) and as many blobs as a NULL-terminated list.  Returns NULL on error (r->bad).
 * Free with amph_agent_free_texts. */
char **amph_agent_read_texts(struct amph_rd *r);
void amph_agent_free_texts(char **texts);

/* ---- io.c ---- */

/* Takes ownership of fd and watches it. */
bool amph_agent_open_end(struct amph_agent_proc *p, int which, int fd);
void amph_agent_close_end(struct amph_agent_end *end);
/* Reads all remaining output of an ended process. */
void amph_agent_drain(struct amph_agent_proc *p);
void amph_agent_input(struct amph_agent_proc *p, const void *bytes, size_t len_bytes);
void amph_agent_pmi(struct amph_agent_proc *p, const void *bytes, size_t len_bytes);
void amph_agent_output_taken(struct amph_agent *a, size_t len_bytes);

#endif
