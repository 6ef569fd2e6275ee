/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining a job: this process's number, the job's other processes, and the exchange of addresses.
 *
 *   boot.c           the public functions, over a table of kinds (kind.h)
 *   process.c        the state of the process (kind.h)
 *   launcher.c       kind "launcher": amphora-run's control socket
 *   present.c        how this process was started, as its environment says
 *   standing.c       kind "standing": I/O servers that belong to no job (standing.h)
 *   address_file.c   their address file (standing.h)
 *   foreign.c        kinds "pmix", "pmi2", "pmi1": jobs of other launchers, over kvs.h
 *   pmix.c, pmi2.c, pmi1_wire.c   the protocols behind kvs.h (pmix_abi.h, pmi1.h)
 *   claim.c          which process of a rank joins another launcher's job (claim.h)
 *   single.c         kind "single": a job of one process
 *   control.c, jobfile.c   the control protocol and the address file (control.h)
 *   frames.c         messages over a stream socket (frames.h)
 *   values.c         the values that a process has published
 *
 * Layer: boot; includes base/ only.  Thread rule: calls on one handle are serialised by the caller,
 * except amph_boot_abort.
 *
 * A job has two groups, compute and servers, numbered 0..C-1 and C..C+S-1 (absolute).  Inside a
 * group processes have relative numbers from 0.  A process uses a job
 * in one of two ways:
 *   join    the process becomes a member of its group (gex_Client_Init, iofwd-server) and takes
 *           part in exchanges.  Once in a process.
 *   attach  a file client reads the job description without becoming a member.  Any process that
 *           has AMPHORA_JOB, also forked children.
 *
 * Kinds, tried in this order: standing (AMPHORA_JOB names the address file of servers that belong
 * to no job: boot/standing.h), launcher (AMPHORA_JOB names the address file of amphora-run's
 * control socket), pmix, pmi2, pmi1 (another launcher's process manager), single (a job of one process).
 */
#ifndef AMPH_BOOT_BOOT_H
#define AMPH_BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auth.h"
#include "base/status.h"

enum amph_group {
    AMPH_COMPUTE = 0,
    AMPH_SERVER = 1,
    AMPH_NGROUPS = 2
};

#define AMPH_RANK_NONE UINT32_MAX

/* Under this key an I/O server publishes where file clients reach it. */
#define AMPH_BOOT_CONTROL_KEY "iofwd"

/* A compute process publishes this key if its program does not use this library: the process joins
 * only to get the servers' addresses and leaves at once.  Either all compute processes of a job do
 * so or none. */
#define AMPH_BOOT_PLAIN_KEY "plain"

/* The facts of one process.  The fields from `stated` on are those that the process has reported
 * about itself (amph_boot_state). */
struct amph_proc {
    uint32_t host; /* index into amph_jobdesc.host_name */
    bool stated;
    bool big_endian;
    uint8_t pointer_bytes;
    uint32_t page_bytes;
    uint64_t memory_bytes; /* available for segments */
    uint64_t area_bytes;   /* transfer area in front of its segment; 0: none */
    uint64_t pid;
};

/* The job description; the same at every member.  Owned by the boot handle.  Hosts, mapping and key
 * never change after open. */
struct amph_jobdesc {
    uint32_t nproc[AMPH_NGROUPS]; /* C and S */
    uint32_t nhosts;
    const char **host_name;
    struct amph_proc *proc; /* [C+S] by absolute number */
    /* [C] absolute number of each compute process's first server, by the mapping rule (default: C +
     * (c mod S)); NULL: no servers */
    uint32_t *server_of;
    /* false: all hosts, also pretended ones, are this machine, and loopback reaches all of them */
    bool several_machines;
    /* index of this process's host, if it is known; for processes of no group */
    uint32_t self_host;
    /* the network by which clients of other hosts reach standing servers; "": they do not */
    char conduit[16];
    /* under another launcher: the programs of the compute processes do not use this library
     * (AMPH_BOOT_PLAIN_KEY), and their ends are detected by other means than this handle's events */
    bool plain;
    uint64_t id; /* random number of this job */
    uint8_t key[AMPH_KEY_BYTES];
};

/* Events of the job, delivered by amph_boot_progress. */
enum amph_boot_event_kind {
    AMPH_BOOT_DEATH, /* process `rank` died; `code` is its exit code (128+n for signal n) */
    /* to servers: the last compute process has left or ended; finish, close and leave */
    AMPH_BOOT_DRAIN,
    AMPH_BOOT_SHUTDOWN, /* the job is being ended with `code`: leave now */
    AMPH_BOOT_LOST      /* the launcher itself is gone */
};

struct amph_boot_event {
    enum amph_boot_event_kind kind;
    uint32_t rank; /* absolute */
    int code;
};

struct amph_boot; /* one per joined or attached process */

/* Is this process a job of its own: started by no launcher, and without a setting that names a job? */
bool amph_boot_alone(void);

/* Has another launcher started this process, in a job with I/O servers (AMPHORA_SERVERS)? */
bool amph_boot_among_servers(void);

/* Makes this process a member of its group.  Blocks until the job description has arrived, but does
 * not wait for other members.  Errors: AMPH_ERR_NOENT (the address file is gone), AMPH_ERR_DENIED (key),
 * AMPH_ERR_STATE (joined already), AMPH_ERR_PEER. */
enum amph_status amph_boot_join(struct amph_boot **boot_p);

/* Reads the job description without becoming a member.  The handle's own number is AMPHORA_RANK's, or
 * AMPH_RANK_NONE. Errors: AMPH_ERR_NOENT: the process belongs to no job; others as join. */
enum amph_status amph_boot_attach(struct amph_boot **boot_p);

const char *amph_boot_kind(const struct amph_boot *boot); /* "launcher", "pmi1", ...; kind.h */
const struct amph_jobdesc *amph_boot_job(const struct amph_boot *boot);
/* absolute number or AMPH_RANK_NONE */
uint32_t amph_boot_self(const struct amph_boot *boot);
enum amph_group amph_boot_group(const struct amph_boot *boot);
/* absolute number of the group's member 0 */
uint32_t amph_boot_first(const struct amph_boot *boot, enum amph_group group);

/* Publishes a value of this process under key ([a-z0-9-], at most 31 bytes; at most 4096 bytes of
 * value, copied).  Joined processes only.  Does not block. */
enum amph_status amph_boot_publish(struct amph_boot *boot, const char *key, const void *value,
                                   size_t len_bytes);

/* Publishes byte order, page size and memory of this process (as the test settings say).  Joined
 * processes only, before the exchange. */
enum amph_status amph_boot_state(struct amph_boot *boot, uint64_t memory_bytes,
                                 uint64_t area_bytes);

/* Returns each member's value of `key`: value_p[i] and len_p[i] for relative number i, owned by the
 * handle.  Collective over this process's group (under pmi1: over the job); called exactly once,
 * after publish and state.  Blocks until every member has called it.  AMPH_ERR_PEER: a member died.
 * All later collective exchanges of a job use active messages. */
enum amph_status amph_boot_exchange(struct amph_boot *boot, const char *key,
                                    const void *const **value_p, const size_t **len_p);

/* Frees the results of the exchange, which are large in a large job. */
void amph_boot_forget(struct amph_boot *boot);

/* Returns the value that process `rank` (absolute) published under key, and stores that process's
 * facts in the job description.  Waits up to timeout_ns for it.  The caller frees the copy.  Errors:
 * AMPH_ERR_TIMEOUT, AMPH_ERR_PEER (dead), AMPH_ERR_NOENT. */
enum amph_status amph_boot_lookup(struct amph_boot *boot, uint32_t rank, const char *key,
                                  uint64_t timeout_ns, void **value_p, size_t *len_p);

/* Waits for the facts (struct amph_proc) of all servers, which the negotiation of the page size
 * needs.  Called by compute processes. */
enum amph_status amph_boot_wait_servers(struct amph_boot *boot, uint64_t timeout_ns);

/* A descriptor that becomes readable when amph_boot_progress has something to do, or -1.  Owned by
 * the handle. */
int amph_boot_fd(const struct amph_boot *boot);

/* Takes the next event without blocking.  AMPH_OK: *event_p is set; AMPH_AGAIN: no event. */
enum amph_status amph_boot_progress(struct amph_boot *boot, struct amph_boot_event *event_p);

/* Reports that this process leaves the job in an orderly way.  exit_called: gasnet_exit was called with
 * code, so the whole job ends with that code; otherwise only this process has finished.  A joined
 * process that ends without this call counts as dead, whatever its exit code. */
enum amph_status amph_boot_leave(struct amph_boot *boot, bool exit_called, int code);

/* Ends the job with code, at once.  Callable from any thread and from signal handlers; the job
 * cannot be used afterwards. */
void amph_boot_abort(struct amph_boot *boot, int code);

/* Frees the handle.  In a forked child it closes the parent's connection without notifying the
 * launcher. */
void amph_boot_close(struct amph_boot *boot);

#endif
