/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The forwarded prefixes of this process, and the one place that decides whether a path lies under
 * one.  Layer: iofwd. Uses nothing but the C library's string functions, so that the preload
 * library can have it without libamphora. Thread rule: a set is filled once (amph_fwd_prefix_parse)
 * and read-only afterwards; the rest are pure functions.
 */
#ifndef AMPH_IOFWD_PREFIX_H
#define AMPH_IOFWD_PREFIX_H

#include <stdbool.h>
#include <stddef.h>

#define FWD_PREFIX_MAX 16

struct amph_fwd_prefix {
    const char *path; /* absolute and clean, without a slash at the end */
    size_t len_bytes;
};

struct amph_fwd_prefixes {
    size_t count;
    struct amph_fwd_prefix item[FWD_PREFIX_MAX];
    char text[4096]; /* what the items point into */
};

/* Fills set from IOFWD_PREFIX's value: PATH[=DIR][:PATH[=DIR]]...  The servers' DIR is of no
 * interest here.  false, and a phrase in *why_p, where an entry is not an absolute path below the
 * root, or there are too many. */
bool amph_fwd_prefix_parse(struct amph_fwd_prefixes *set, const char *spec, const char **why_p);

/* The prefix that path, absolute and clean, equals or lies below; NULL if none. */
const struct amph_fwd_prefix *amph_fwd_prefix_match(const struct amph_fwd_prefixes *set,
                                                    const char *path);

/*
 * May path, taken relative to some unknown directory that is not forwarded itself, lead into a
 * prefix?  Only if its first component is a component of a prefix or starts with a dot, so this
 * costs a few comparisons and nearly always says no.
 */
bool amph_fwd_prefix_may_enter(const struct amph_fwd_prefixes *set, const char *path);

/*
 * Joins base (absolute, or NULL where path is absolute) and path and cleans the result into out: no
 * "//", no ".".  ".." is resolved by name outside of the prefixes and where it leaves one.  Inside
 * a prefix it stays, for the server to resolve after symbolic links, as a kernel would.  A slash at
 * the end of path stays too, since it changes what a call means.  0, ENOENT (empty path) or
 * ENAMETOOLONG.
 */
struct amph_fwd_clean {
    const struct amph_fwd_prefix *prefix; /* that the result lies in, or NULL */
    /* path went into a prefix and out again by "..", so it means nothing to this host's kernel */
    bool left;
};

int amph_fwd_path_clean(const struct amph_fwd_prefixes *set, const char *base, const char *path,
                        char *out, size_t cap_bytes, struct amph_fwd_clean *clean_p);

#endif
