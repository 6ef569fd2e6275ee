/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining a job: who we are, who else is there, and the exchange of addresses.  Layer: boot.
 * Thread rule: calls on one handle are serialised by the caller, except amph_boot_abort.
 *
 * A job has two groups, compute and servers, numbered 0..C-1 and C..C+S-1 (absolute).  Inside a
 * group processes have relative numbers from 0.  There are two ways in:
 *   join   - a process takes its place in its group (gex_Client_Init, iofwd-server).  Once a
 *          process; it takes part in exchanges.
 *   attach - a file client learns the job without taking a place (any process that has AMPHORA_JOB,
 *   also forked children).
 *
 * Kinds, tried in this order: standing (AMPHORA_JOB names the address file of servers that belong
 * to no job: boot/standing.h), launcher (AMPHORA_JOB names the address file of amphora-run's
 * control socket), pmi1 (PMI_FD or PMI_PORT of another launcher), single (a job of one process).
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

/* Under this key a compute process publishes that it joins only to learn where the servers are, and
 * leaves at once: its program is no client of this library.  All compute processes of a job do so,
 * or none. */
#define AMPH_BOOT_PLAIN_KEY "plain"

/* What is known of one process.  The fields from `stated` on are what the process said of itself
 * (amph_boot_state). */
struct amph_proc {
    uint32_t host; /* index into amph_jobdesc.host_name */
    bool stated;
    bool big_endian;
    uint8_t pointer_bytes;
    uint32_t page_bytes;
    uint64_t memory_bytes; /* that it can give to segments */
    uint64_t area_bytes;   /* transfer area in front of its segment; 0: none */
    uint64_t pid;
};

/* The job as every member sees it.  Owned by the boot handle; host, mapping and key never change
 * after open. */
struct amph_jobdesc {
    uint32_t nproc[AMPH_NGROUPS]; /* C and S */
    uint32_t nhosts;
    const char **host_name;
    struct amph_proc *proc; /* [C+S] by absolute number */
    uint32_t *
        server_of; /* [C] absolute number of each compute process's first server; NULL when S is 0.  Made by the
                                     mapping rule (C + (c mod S) unless told otherwise) */
    /* else all hosts are this machine (pretended ones too), and loopback reaches everybody */
    bool several_machines;
    /* of a process of no group: index of its host where that is known */
    uint32_t self_host;
    /* standing servers that clients of other hosts may reach: the network; else "" */
    char conduit[16];
    bool
        plain; /* under another launcher: the compute processes are programs that know nothing of the job
                                     (AMPH_BOOT_PLAIN_KEY); their ends are learnt by other ways than this */
    uint64_t id; /* random number of this job */
    uint8_t key[AMPH_KEY_BYTES];
};

/* Something happened in the job; delivered by amph_boot_progress. */
enum amph_boot_event_kind {
    AMPH_BOOT_DEATH, /* process `rank` died; `code` is its exit code (128+n for signal n) */
    /* to servers: the last compute process has left or ended: finish, close, leave */
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

/* Is this process a job of its own, which no launcher started and no setting asked for? */
bool amph_boot_alone(void);

/* Has another launcher started this process, in a job with I/O servers (AMPHORA_SERVERS)? */
bool amph_boot_among_servers(void);

/* Takes this process's place in its group.  Blocks until the job description is there (not for the
 * other members). Errors: AMPH_ERR_NOENT (the address file is gone), AMPH_ERR_DENIED (key),
 * AMPH_ERR_STATE (joined already), AMPH_ERR_PEER. */
enum amph_status amph_boot_join(struct amph_boot **boot_p);

/* Learns the job without taking a place.  The handle's own number is AMPHORA_RANK's, or
 * AMPH_RANK_NONE. Errors: AMPH_ERR_NOENT when the process belongs to no job; else as join. */
enum amph_status amph_boot_attach(struct amph_boot **boot_p);

const char *amph_boot_kind(const struct amph_boot *boot); /* "launcher", "pmi1", "single" */
const struct amph_jobdesc *amph_boot_job(const struct amph_boot *boot);
/* absolute number or AMPH_RANK_NONE */
uint32_t amph_boot_self(const struct amph_boot *boot);
enum amph_group amph_boot_group(const struct amph_boot *boot);
/* absolute number of the group's member 0 */
uint32_t amph_boot_first(const struct amph_boot *boot, enum amph_group group);

/* Publishes a value of this process under key ([a-z0-9-], at most 31 bytes; at most 4096 bytes of
 * value, copied).  The facts of struct amph_proc are published the same way, by amph_boot_state.
 * Joined processes only.  Doesn't block. */
enum amph_status amph_boot_publish(struct amph_boot *boot, const char *key, const void *value,
                                   size_t len_bytes);

/* States byte order, page size and memory of this process (honours the test settings); joined
 * processes, before the exchange. */
enum amph_status amph_boot_state(struct amph_boot *boot, uint64_t memory_bytes,
                                 uint64_t area_bytes);

/* Collective over the own group (under pmi1: over the job), exactly once, after publish and state:
 * returns when every member has called it, and then gives each member's value of `key`: value_p[i]
 * and len_p[i] for relative number i, owned by the handle. All other collective exchange in the
 * life of a job goes over active messages.  Blocks; a member's death gives AMPH_ERR_PEER. */
enum amph_status amph_boot_exchange(struct amph_boot *boot, const char *key,
                                    const void *const **value_p, const size_t **len_p);

/* Gives up what the exchange gave, which in a large job is the largest thing a process holds. */
void amph_boot_forget(struct amph_boot *boot);

/* The value that process `rank` (absolute) published under key; waits for it up to timeout_ns.  The
 * copy is the caller's (free). It fills the job description's facts of that process too.  Errors:
 * AMPH_ERR_TIMEOUT, AMPH_ERR_PEER (dead), AMPH_ERR_NOENT. */
enum amph_status amph_boot_lookup(struct amph_boot *boot, uint32_t rank, const char *key,
                                  uint64_t timeout_ns, void **value_p, size_t *len_p);

/* Compute members wait here for the facts (struct amph_proc) of all servers, as page-size
 * negotiation needs them. */
enum amph_status amph_boot_wait_servers(struct amph_boot *boot, uint64_t timeout_ns);

/* A descriptor that becomes readable when amph_boot_progress has something to do, or -1.  Owned by
 * the handle. */
int amph_boot_fd(const struct amph_boot *boot);

/* Takes the next event without blocking: AMPH_OK (event set) or AMPH_AGAIN (none). */
enum amph_status amph_boot_progress(struct amph_boot *boot, struct amph_boot_event *event_p);

/* Says that this process leaves the job in order.  exit_called: gasnet_exit was called with code,
 * so the whole job ends with it; else only this process is finished.  A joined process that ends
 * without this call counts as dead, whatever its exit code. */
enum amph_status amph_boot_leave(struct amph_boot *boot, bool exit_called, int code);

/* Ends the job with code, at once.  Callable from any thread and from signal handlers; the job
 * cannot be used afterwards. */
void amph_boot_abort(struct amph_boot *boot, int code);

/* Frees the handle; in a forked child this drops the parent's connection without a word to the
 * launcher. */
void amph_boot_close(struct amph_boot *boot);

#endif
