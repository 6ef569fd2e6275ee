/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guards; see catch.h.
 *
 * Layer: iofwd (interposer).  Thread rule: see catch.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iofwd/client/client.h"
#include "iofwd/interpose/entry/catch.h"

#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/fd/procfs.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/path/resolve.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/fd/own_table.h"

struct amph_ip_state amph_ip_state = {
    .file_size_limit = UINT64_MAX,
    .rank = { .result = -1, .token = -1 },
    .trace_out = { .fd = STDERR_FILENO },
};
__thread struct amph_ip_thread amph_ip_thread __attribute__((tls_model("initial-exec")));
__thread int amph_ip_inside __attribute__((tls_model("initial-exec")));
__thread int amph_ip_links __attribute__((tls_model("initial-exec")));

bool amph_ip_placeholder_link(const char *link, char *text, size_t cap_bytes)
{
    static const char mark[] = "/memfd:" AMPH_IP_PLACEHOLDER_MARK;
    char name[320];
    ssize_t n = amph_ip_kernel_readlink(link, name, sizeof name - 1);

    if (n < (ssize_t)sizeof mark - 1 || memcmp(name, mark, sizeof mark - 1) != 0)
        return false;

    name[n] = 0;

    const char *from = name + sizeof mark - 1;
    size_t len = strcspn(from, " ");

    if (len >= cap_bytes)
        return false;

    memcpy(text, from, len);
    text[len] = 0;
    return true;
}

/* Is it known without the descriptor's name, which costs the kernel a hundred times as much, that this is
 * no file in memory?  An O_PATH descriptor's question gives EBADF. */
static bool is_no_memfd(int fd)
{
    return amph_ip_kernel_fcntl(fd, F_GET_SEALS, NULL) < 0 && errno == EINVAL;
}

bool amph_ip_placeholder_text(int fd, char *text, size_t cap_bytes)
{
    char link[40];

    if (is_no_memfd(fd))
        return false;

    snprintf(link, sizeof link, "%s/%d", amph_ip_table_directory(), fd);
    if (!amph_ip_placeholder_link(link, text, cap_bytes))
        return false;

    size_t len = strlen(text);

    return text[len - (len > 0)] != '@' ||
           amph_fwd_text_complete(text, cap_bytes, amph_ip_kernel_lseek(fd, 0, SEEK_CUR));
}

bool amph_ip_placeholder_is_unfinished(int fd)
{
    char link[40];
    char text[AMPH_FWD_TEXT_BYTES];

    snprintf(link, sizeof link, "%s/%d", amph_ip_table_directory(), fd);
    return !is_no_memfd(fd) && amph_ip_placeholder_link(link, text, sizeof text) && text[0] != 0 &&
           text[strlen(text) - 1] == '@' && amph_ip_kernel_lseek(fd, 0, SEEK_CUR) == 0;
}

bool amph_ip_fd_slow(int fd)
{
    enum amph_fdtab_class cls = amph_fdtab_class(fd);

    if (!amph_ip_state.on || amph_ip_inside)
        return false;

    if (cls == FDTAB_UNKNOWN) {
        char text[AMPH_FWD_TEXT_BYTES];
        int saved = errno;

        cls = amph_ip_placeholder_text(fd, text, sizeof text) ? FDTAB_INHERITED : FDTAB_LOCAL;
        errno = saved;
        cls = amph_fdtab_learn(fd, cls);
    }

    return cls == FDTAB_FORWARDED || cls == FDTAB_INHERITED;
}

__thread bool amph_ip_missed __attribute__((tls_model("initial-exec")));

/* A call is repeated at most this often.  A race ends after a few repetitions; an error of the
 * descriptor itself does not. */
#define TURNS_MAX 64

/* Is err one that the kernel gives for a placeholder, which is empty, sealed and write-only? */
static bool is_placeholder_error(int err)
{
    return err == EBADF || err == EPERM || err == EACCES || err == ENOTDIR;
}

bool amph_ip_turned(int err, bool ours, int tries)
{
    bool missed = amph_ip_missed;

    amph_ip_missed = false;
    bool turned = amph_ip_turns_now() &&
                  (ours ? missed && err == EBADF : is_placeholder_error(err)) && tries < TURNS_MAX;

    if (turned)
        amph_ip_debug("a descriptor was replaced during a call (%s), which is made again",
                      strerrorname_np(err));

    return turned;
}

/* Has path a "//", "/." or "/.."?  Otherwise a comparison with the prefixes is enough. */
static bool needs_cleaning(const char *path)
{
    for (const char *at = path; (at = strchr(at, '/')) != NULL; at++)
        if (at[1] == '/' || at[1] == '.')
            return true;

    return false;
}

bool amph_ip_is_exe(const char *path)
{
    static const char before[] = "/proc/";

    if (AMPH_LIKELY(!amph_ip_state.exe) || strncmp(path, before, sizeof before - 1) != 0)
        return false;

    const char *who = path + sizeof before - 1;
    size_t len = strcspn(who, "/");

    return strcmp(who + len, "/exe") == 0 &&
           (strncmp(who, "self", len) == 0 || strtol(who, NULL, 10) == amph_ip_kernel_getpid());
}

static bool absolute(const char *path)
{
    char clean[PATH_MAX];
    struct amph_fwd_clean result;

    if (amph_fwd_prefix_match(&amph_ip_state.prefixes, path))
        return true;

    if (needs_cleaning(path) && (amph_fwd_path_clean(&amph_ip_state.prefixes, NULL, path, clean,
                                                     sizeof clean, &result) != 0 ||
                                 result.prefix || result.left))
        return true;

    struct amph_ip_numbered n;

    return amph_ip_may_be_numbered(path) && (amph_ip_numbered(path, &n) || amph_ip_is_exe(path));
}

bool amph_ip_text(const char *path)
{
    if (!amph_ip_state.on || amph_ip_inside || !path)
        return false;
    if (path[0] == '/')
        return absolute(path);

    return amph_ip_cwd()->name ||
           (path[0] && amph_fwd_prefix_may_enter(&amph_ip_state.prefixes, path)) ||
           amph_ip_is_number(path);
}

#define WORD_ONES UINT64_C(0x0101010101010101)
#define WORD_HIGHS UINT64_C(0x8080808080808080)

/* Returns a word in which the high bit of each zero byte of `word` is set, and perhaps that of a
 * byte beside one. */
static uint64_t zero_bytes(uint64_t word)
{
    return (word - WORD_ONES) & ~word & WORD_HIGHS;
}

#define IS_LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

/* The bits of zero_bytes for the byte that comes first, or last, in memory. */
#define FIRST_BYTE (IS_LITTLE ? UINT64_C(0x80) : UINT64_C(1) << 63)
#define LAST_BYTE (IS_LITTLE ? UINT64_C(1) << 63 : UINT64_C(0x80))

/* Loads the aligned word at `at`.  Bytes in front of text are replaced by one that is neither 0 nor
 * '.'. */
__attribute__((no_sanitize("address"))) static uint64_t first_word(const char *at, const char *text)
{
    unsigned bits = 8 * (unsigned)(text - at);
    const uint64_t all = ~UINT64_C(0);
    uint64_t word;

    memcpy(&word, at, sizeof word);
    return word | ~(IS_LITTLE ? all << bits : all >> bits);
}

/* Returns whether text certainly contains no two dots in a row.  Reads whole aligned words up to
 * end, which no page boundary divides; bytes behind the text in its last word may make the answer
 * false. */
__attribute__((no_sanitize("address"))) static bool has_no_dots(const char *text, uintptr_t end)
{
    const char *at = (const char *)((uintptr_t)text & ~(uintptr_t)7);
    uint64_t word = first_word(at, text);
    uint64_t before = 0; /* dots in the preceding word */

    for (;;) {
        uint64_t dots = zero_bytes(word ^ '.' * WORD_ONES);

        if ((dots & (dots >> 8)) || ((dots & FIRST_BYTE) && (before & LAST_BYTE)))
            return false;
        if (zero_bytes(word))
            return true;

        before = dots;
        at += sizeof word;
        if ((uintptr_t)at >= end)
            return false;

        memcpy(&word, at, sizeof word);
    }
}

/* Bytes of a path that must be readable, because they are read before its length is known. */
#define PATH_START_BYTES FWD_TOP_BYTES

/* Returns whether path is certainly local.  This is true of nearly every path of a program, so it
 * is tested before any other work is done: the first component begins none of the prefixes, and no
 * ".." leads up to another one. */
static bool is_plainly_local(const char *path)
{
    uintptr_t end = amph_ip_mem_known_end(path);

    if (end < (uintptr_t)path + PATH_START_BYTES)
        return false;

    const unsigned char *at = (const unsigned char *)path;

    if (at[0] != '/') /* a digit may be the name of a descriptor, a dot leads up */
        return !amph_ip_cwd()->name && !(amph_ip_state.prefixes.starts[at[0]] & FWD_STARTS_ANY) &&
               at[0] != '.' && (at[0] < '0' || at[0] > '9');

    if (at[1] == '/' || at[1] == '.' || (at[1] == 'd' && at[2] == 'e') ||
        (at[1] == 'p' && at[2] == 'r')) /* /dev and /proc have names of descriptors */
        return false;

    if ((amph_ip_state.prefixes.starts[at[1]] & FWD_STARTS_TOP) &&
        amph_fwd_prefix_may_share_top(&amph_ip_state.prefixes, path))
        return false;

    return has_no_dots(path + 1, end);
}

/* A path that cannot be read, or is too long, is left to the kernel, which reports EFAULT or
 * ENAMETOOLONG. */
bool amph_ip_path(const char *path)
{
    if (!amph_ip_state.on || amph_ip_inside || !path || AMPH_LIKELY(is_plainly_local(path)))
        return false;

    return amph_ip_can_read_text(path) && amph_ip_text(path) &&
           (AMPH_LIKELY(!amph_ip_state.optional) || amph_ip_client_is_there());
}

bool amph_ip_at(int dir, const char *path)
{
    if (dir == AT_FDCWD)
        return amph_ip_path(path);
    if (!amph_ip_state.on || amph_ip_inside || (path && !amph_ip_can_read_text(path)))
        return false;
    if (path && path[0] == '/')
        return amph_ip_path(path);

    return amph_ip_fd(dir) ||
           (path &&
            ((path[0] && amph_fwd_prefix_may_enter(&amph_ip_state.prefixes, path)) ||
             amph_ip_is_number(path)) &&
            (AMPH_LIKELY(!amph_ip_state.optional) || amph_ip_client_is_there()));
}
