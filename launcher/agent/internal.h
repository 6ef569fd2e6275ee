/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent's own state, shared by its files.  Layer: launcher.  Thread rule: one thread. */
#ifndef AMPH_LAUNCHER_AGENT_LOCAL_H
#define AMPH_LAUNCHER_AGENT_LOCAL_H

#include <stdbool.h>

#include "base/topo.h"
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
    struct amph_bytes input; /* what the process has not read yet */
    bool input_ended;        /* nothing follows */
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
    size_t on_the_way; /* output bytes that the launcher has not written yet */
    int orphan_rounds; /* how often orphans have been signalled */
    struct amph_timer orphan_timer;

    /* On a host that is not the launcher's. */
    bool remote, quitting;
    struct amph_watch *out_watch;      /* where the stream has two descriptors */
    struct amph_agent_child *children; /* agents that this one has started on further hosts */
    /* the control socket of this host, which leads to the launcher's */
    int listen_fd;
    struct amph_agent_conn *conns;
    uint32_t nconns; /* numbers given so far */
    uint64_t heard_ns, silence_ns;
    struct amph_timer beat;
};

/* What SPAWN asks for; argv and settings are NULL-terminated, their texts owned. */
struct amph_spawn {
    uint32_t rank, place, nplaces;
    uint8_t flags;
    char **argv, **settings;
};

/* Sends a frame; a launcher that is gone is noticed by the loop. */
void amph_agent_send(struct amph_agent *a, uint16_t type, const void *body, size_t len_bytes);

/* The one way out: nothing that descends from this process survives it. */
void amph_agent_finish(struct amph_agent *a, int code) AMPH_NORETURN;
/* Opens loop, signals and the stream, whose two descriptors may be one. */
void amph_agent_open(struct amph_agent *a, int in_fd, int out_fd);
void amph_agent_loop(struct amph_agent *a) AMPH_NORETURN;

/* agent/tree.c: agents on further hosts */
void amph_agent_adopt(struct amph_agent *a, struct amph_rd *r);
void amph_agent_route(struct amph_agent *a, struct amph_rd *r);
void amph_agent_spread(struct amph_agent *a, struct amph_rd *r);
bool amph_agent_child_reaped(struct amph_agent *a, pid_t pid, int status);
/* their number; the processes (ssh), unless NULL */
size_t amph_agent_children(const struct amph_agent *a, pid_t *pid);

/* agent/relay.c: connections of processes of this host to the launcher's control socket */
enum amph_status amph_agent_relay_open(struct amph_agent *a, const uint8_t *key, size_t key_len);
void amph_agent_relay_drain(struct amph_agent *a); /* carries all that has come */
void amph_agent_relay_take(struct amph_agent *a, struct amph_rd *r);
void amph_agent_relay_give(struct amph_agent *a, uint32_t number, const void *bytes, size_t len);

/* agent/spawn.c: starts a process and reports STARTED or FAILED. */
void amph_agent_spawn(struct amph_agent *a, struct amph_rd *r);
/* count u32, blobs; NULL and r->bad on error; free with amph_agent_free_texts */
char **amph_agent_read_texts(struct amph_rd *r);
void amph_agent_free_texts(char **texts);

/* agent/io.c */
/* takes fd over and watches it */
bool amph_agent_open_end(struct amph_agent_proc *p, int which, int fd);
void amph_agent_close_end(struct amph_agent_end *end);
/* reads all that has come from an ended process */
void amph_agent_drain(struct amph_agent_proc *p);
void amph_agent_input(struct amph_agent_proc *p, const void *bytes, size_t len_bytes);
void amph_agent_pmi(struct amph_agent_proc *p, const void *bytes, size_t len_bytes);
void amph_agent_output_taken(struct amph_agent *a, size_t len_bytes);

#endif
