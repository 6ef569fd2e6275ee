/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The forwarded prefixes of this process; decides whether a path is below one.
 *
 * Layer: iofwd.  Uses only the C library's string functions, so that the preload library can
 * contain it without libamphora. Thread rule: a set is filled once (amph_fwd_prefix_parse) and
 * read-only afterwards; the other functions are pure.
 */
#ifndef AMPH_IOFWD_PREFIX_H
#define AMPH_IOFWD_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

#define FWD_PREFIX_MAX 16

struct amph_fwd_prefix {
    const char *path; /* absolute and clean, without a slash at the end */
    size_t len_bytes;
};

struct amph_fwd_prefixes {
    size_t count;
    struct amph_fwd_prefix item[FWD_PREFIX_MAX];
    char text[4096]; /* what the items point into */
    /* by a name's first byte: FWD_STARTS_... */
    unsigned char starts[256];
};

enum {
    FWD_STARTS_TOP = 1, /* the first component of a prefix begins with it */
    FWD_STARTS_ANY = 2  /* some component of a prefix does */
};

/* Fills set from IOFWD_PREFIX's value: PATH[=DIR][:PATH[=DIR]]...  The servers' DIR is
 * ignored.  Returns false, and a phrase in *why_p, if an entry is not an absolute path below the
 * root, or if there are too many. */
bool amph_fwd_prefix_parse(struct amph_fwd_prefixes *set, const char *spec, const char **why_p);

/* Returns the prefix that path (absolute and clean) equals or is below; NULL if none. */
const struct amph_fwd_prefix *amph_fwd_prefix_match(const struct amph_fwd_prefixes *set,
                                                    const char *path);

/*
 * Returns whether path, relative to an unknown directory that is not forwarded, may lead into a
 * prefix.  That requires that its first component is a component of a prefix or starts with a dot,
 * so the check costs a few comparisons and nearly always returns false.
 */
bool amph_fwd_prefix_may_enter(const struct amph_fwd_prefixes *set, const char *path);

/* Returns whether the first component of path (absolute) is that of a prefix; a quick check of the
 * paths whose second byte has FWD_STARTS_TOP.  At most FWD_TOP_BYTES of path are read. */
#define FWD_TOP_BYTES 64
bool amph_fwd_prefix_may_share_top(const struct amph_fwd_prefixes *set, const char *path);

/* If path is that of a directory, whose name has len bytes and no slash at its end, or below it, returns the rest
 * of path ("" if they are equal); else NULL. */
static inline const char *amph_fwd_path_below(const char *path, const char *name, size_t len)
{
    if (strncmp(path, name, len) != 0 || (path[len] != '/' && path[len] != 0))
        return NULL;

    path += len;
    while (*path == '/')
        path++;

    return path;
}

/*
 * Joins base (absolute, or NULL where path is absolute) and path and cleans the result into out: no
 * "//", no ".".  ".." is resolved by name outside of the prefixes and where it leaves one.  Inside
 * a prefix it stays, for the server to resolve after symbolic links, as a kernel would.  A slash at
 * the end of path stays too, since it changes what a call means.  0, ENOENT (empty path) or
 * ENAMETOOLONG.
 */
struct amph_fwd_clean {
    const struct amph_fwd_prefix *prefix; /* the prefix of the result, or NULL */
    /* path entered a prefix and left it by "..", so this host's kernel cannot resolve it */
    bool left;
};

int amph_fwd_path_clean(const struct amph_fwd_prefixes *set, const char *base, const char *path,
                        char *out, size_t cap_bytes, struct amph_fwd_clean *clean_p);

/* ---- links on a path of this host ---- */

/* readlinkat, or a function that makes its system call */
typedef ssize_t (*amph_fwd_readlinkat)(int dir, const char *path, char *buf, size_t cap_bytes);

/* Finds the last part of path, from directory dir on, that is a link.  Returns the length of its target
 * (without a final 0; target has PATH_MAX bytes); *end_p: where the part ends.  -1: no part is a link.  path is
 * changed meanwhile.  The search ends at the first existing part that is none, since the kernel has resolved the
 * path up to there. */
ssize_t amph_fwd_path_last_link(amph_fwd_readlinkat readlinkat, int dir, char *path, char *target,
                                size_t *end_p);

/* Writes to out the path with the link that ends at `end` replaced by its target.  base: a directory that a
 * relative result begins with, or NULL.  false: it is too long. */
bool amph_fwd_path_replace_link(const char *base, const char *path, size_t end, const char *target,
                                char *out, size_t cap_bytes);

#endif
