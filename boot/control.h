/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control protocol between the processes of a job and amphora-run.
 *
 * Layer: boot.  Thread rule: pure functions.
 *
 * A process connects to the address that the address file (AMPHORA_JOB) gives and proves that it
 * knows the job's key:
 *
 *   launcher -> process   CHALLENGE { magic u32, version u16, nonce[32] }
 *   process  -> launcher  HELLO     { magic u32, version u16, joins u8, rank u32, pid u64,
 *                                     nonce[32], mac[32] }
 *                                   mac = HMAC(key, launcher's nonce, the body before mac)
 *   launcher -> process   WELCOME   { mac[32], job description }
 *                                   mac = HMAC(key, process's nonce, job description)
 *                     or  REFUSED   { status u8, message }
 *
 * and then, in any order (numbers of processes are absolute):
 *
 *   PUBLISH   { key text, value blob }
 *   STATE     { facts }
 *   EXCHANGE  { key text }                   collective over the process's group; answered by
 *   EXCHANGED { count u32, count x { facts, value blob } }
 *   LOOKUP    { seq u32, rank u32, wait u8, key text }                           answered by
 *   VALUE     { seq u32, status u8, facts, value blob }
 *   SERVERS   { seq u32 }                    answered when all servers have sent STATE, by
 *   FACTS     { seq u32, status u8, count u32, count x facts }
 *   LEAVE     { exit_called u8, code u32 }
 *   ABORT     { code u32 }
 *   EVENT     { kind u8, rank u32, code u32 }          from the launcher, at any time
 */
#ifndef AMPH_BOOT_CONTROL_H
#define AMPH_BOOT_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/auth.h"
#include "base/status.h"
#include "base/wire.h"
#include "boot/boot.h"

#define AMPH_CONTROL_MAGIC UINT32_C(0x414d5048)
#define AMPH_CONTROL_VERSION 2
#define AMPH_CONTROL_NONCE_BYTES 32
#define AMPH_CONTROL_KEY_MAX 31       /* text of a published key */
#define AMPH_CONTROL_VALUE_MAX 4096   /* bytes of a published value */
#define AMPH_CONTROL_REQUEST_MAX 8192 /* longest body a process may send */
#define AMPH_CONTROL_ANSWER_MAX (UINT32_C(1) << 30)
#define AMPH_CONTROL_HELLO_BYTES \
    (4 + 2 + 1 + 4 + 8 + AMPH_CONTROL_NONCE_BYTES) /* without its mac */
#define AMPH_CONTROL_FACTS_BYTES (1 + 1 + 4 + 8 + 8 + 8)

enum amph_control_type {
    AMPH_CONTROL_CHALLENGE = 1,
    AMPH_CONTROL_HELLO,
    AMPH_CONTROL_WELCOME,
    AMPH_CONTROL_REFUSED,
    AMPH_CONTROL_PUBLISH,
    AMPH_CONTROL_STATE,
    AMPH_CONTROL_EXCHANGE,
    AMPH_CONTROL_EXCHANGED,
    AMPH_CONTROL_LOOKUP,
    AMPH_CONTROL_VALUE,
    AMPH_CONTROL_SERVERS,
    AMPH_CONTROL_FACTS,
    AMPH_CONTROL_LEAVE,
    AMPH_CONTROL_ABORT,
    AMPH_CONTROL_EVENT,
    AMPH_CONTROL_NTYPES
};

/* The contents of the address file: text, "amphora-job 1", then one "word value" a line. */
struct amph_jobfile {
    char address[128]; /* "unix:NAME": a socket of the abstract name space */
    uint8_t key[AMPH_KEY_BYTES];
};

/* Errors of read: AMPH_ERR_NOENT (no such file), AMPH_ERR_DENIED, AMPH_ERR_PROTO (another version,
 * damaged); logged. */
enum amph_status amph_boot_jobfile_read(const char *path, struct amph_jobfile *file_p);
/* Is it a whole address file of a job?  Logs nothing. */
bool amph_boot_jobfile_is(const char *path);
/* Creates path with mode 0600; it must not exist. */
enum amph_status amph_boot_jobfile_write(const char *path, const struct amph_jobfile *file);

/* Connects to, or listens on, an address of the file; the descriptor is close-on-exec.
 * AMPH_ERR_PEER, ARG (its form), SYS. */
enum amph_status amph_boot_control_connect(const char *address, int *fd_p);
enum amph_status amph_boot_control_listen(const char *address, int *fd_p);

/* Does the process at the other end of this socket belong to this user or to root?  Every user
 * of the machine can connect to a socket of the abstract name space. */
bool amph_boot_control_same_user(int fd);

/* The facts of one process in their fixed encoding. */
void amph_boot_facts_put(struct amph_wr *w, const struct amph_proc *proc);
/* does not set proc->host; sets nothing if r is bad */
void amph_boot_facts_get(struct amph_rd *r, struct amph_proc *proc);

/* A key: up to AMPH_CONTROL_KEY_MAX bytes of [a-z0-9-].  get returns false and sets r->bad if it
 * is not one. */
bool amph_boot_key_ok(const char *key);
void amph_boot_key_put(struct amph_wr *w, const char *key);
bool amph_boot_key_get(struct amph_rd *r, char key[AMPH_CONTROL_KEY_MAX + 1]);

/* The job description without key and facts.  encode returns an allocated body. */
enum amph_status amph_boot_jobdesc_encode(const struct amph_jobdesc *job, uint8_t **buf_p,
                                          size_t *len_p);
enum amph_status amph_boot_jobdesc_decode(struct amph_rd *r, struct amph_jobdesc *job_p);
void amph_boot_jobdesc_free(struct amph_jobdesc *job);
static inline uint32_t amph_boot_jobdesc_total(const struct amph_jobdesc *job)
{
    return job->nproc[AMPH_COMPUTE] + job->nproc[AMPH_SERVER];
}

/* HMAC(key, nonce, body). */
void amph_boot_control_mac(const uint8_t key[AMPH_KEY_BYTES],
                           const uint8_t nonce[AMPH_CONTROL_NONCE_BYTES], const void *body,
                           size_t len_bytes, uint8_t mac[AMPH_MAC_BYTES]);

#endif
