/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of a kind of boot.  boot.c implements the public functions over one table of
 * kinds.
 *
 * Layer: boot; internal.  Thread rule: as boot.h.
 */
#ifndef AMPH_BOOT_KIND_H
#define AMPH_BOOT_KIND_H

#include <stdbool.h>
#include <stdint.h>

#include "boot/boot.h"

/* The part of a handle that all kinds share; each kind's own struct starts with it. */
struct amph_boot {
    const struct amph_boot_kind *kind;
    struct amph_jobdesc job;
    uint32_t self; /* absolute or AMPH_RANK_NONE */
    enum amph_group group;
    bool joined, left, exchanged;
    /* results of the exchange; owned */
    const void **value;
    size_t *value_len;
    void *value_mem;
};

/* boot.c has checked the arguments: states, keys, lengths, ranks. */
struct amph_boot_kind {
    const char *name;
    /* can it attach by this kind? */
    bool (*belongs)(void);
    /* fills job, self, group; logs its errors */
    enum amph_status (*open)(bool join, struct amph_boot **boot_p);
    enum amph_status (*publish)(struct amph_boot *boot, const char *key, const void *value,
                                size_t len_bytes);
    /* job.proc[self] holds the facts */
    enum amph_status (*state)(struct amph_boot *boot);
    /* fills value, value_len, value_mem */
    enum amph_status (*exchange)(struct amph_boot *boot, const char *key);
    enum amph_status (*lookup)(struct amph_boot *boot, uint32_t rank, const char *key,
                               uint64_t timeout_ns, void **value_p, size_t *len_p);
    enum amph_status (*wait_servers)(struct amph_boot *boot, uint64_t timeout_ns);
    int (*fd)(const struct amph_boot *boot);
    enum amph_status (*progress)(struct amph_boot *boot, struct amph_boot_event *event_p);
    enum amph_status (*leave)(struct amph_boot *boot, bool exit_called, int code);
    void (*abort)(struct amph_boot *boot, int code); /* async-signal-safe */
    /* frees the kind's resources, not boot itself */
    void (*close)(struct amph_boot *boot);
};

/* The state of the process that no handle holds. */
struct amph_boot_process {
    /* boot.c: the handle of this process's join, or NULL.  amph_fatal ends the job through it, and a
     * second join is an error. */
    struct amph_boot *joined;

    /* claim.c: this process has the token. */
    bool token_held;

    /* standing.c: the text of amph_boot_standing_own (borrowed), a copy of the text that an ancestor
     * process has put into the environment, and the buffer of amph_boot_standing_default. */
    const char *own_text;
    char *inherited_text;
    char default_path[4096];
};

extern struct amph_boot_process amph_boot_process;

/* The kinds, in the order of AMPHORA_BOOT's words after "auto"; this is also the order of trying. */
enum amph_boot_number {
    AMPH_BOOT_STANDING,
    AMPH_BOOT_LAUNCHER,
    AMPH_BOOT_PMIX,
    AMPH_BOOT_PMI2,
    AMPH_BOOT_PMI1,
    AMPH_BOOT_SINGLE,
    AMPH_BOOT_KINDS
};

/* Returns the first kind by which this process can join, as its environment says and AMPHORA_BOOT
 * allows (present.c); AMPH_BOOT_KINDS: none. */
enum amph_boot_number amph_boot_present(void);

extern const struct amph_boot_kind amph_boot_standing, amph_boot_launcher, amph_boot_pmix,
    amph_boot_pmi2, amph_boot_pmi1, amph_boot_single;

/* Allocates value and value_len for the exchange's n results. */
enum amph_status amph_boot_alloc_values(struct amph_boot *boot, uint32_t n);

/* The values that one process has published, by key; used by the kind "single" and by the launcher.
 * The list owns keys and values. */
struct amph_values {
    struct amph_value *at;
    size_t n;
};

struct amph_value {
    char *key;
    void *data;
    size_t len_bytes;
};
#define AMPH_VALUES_MAX 64
enum amph_status amph_boot_values_set(struct amph_values *v, const char *key, const void *data,
                                      size_t len_bytes);
/* NULL: none */
const struct amph_value *amph_boot_values_get(const struct amph_values *v, const char *key);
void amph_boot_values_free(struct amph_values *v);

#endif
