/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values of calls as text; see show.h.  Layer: iofwd.  Thread rule: see show.h.
 */
#include "iofwd/wire/show.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "iofwd/wire/request_name.h"

#define BYTES_SHOWN 32

void amph_fwd_text_put(struct amph_fwd_text *t, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);

    int n = vsnprintf(t->at + t->len, t->room - t->len, format, ap);

    va_end(ap);
    if (n < 0)
        return;

    size_t left = t->room - 1 - t->len;

    t->len += (size_t)n < left ? (size_t)n : left;
}

/* ---- words of flags ---- */

struct flag {
    char name[28];
    uint32_t value;
};

/* clang-format off */
#define FLAG(name) { #name, (uint32_t)(name) }

static const struct flag open_flags[] = {
    FLAG(O_CREAT), FLAG(O_EXCL), FLAG(O_NOCTTY), FLAG(O_TRUNC), FLAG(O_APPEND), FLAG(O_NONBLOCK), FLAG(O_SYNC), FLAG(O_DSYNC),
    FLAG(O_ASYNC), FLAG(O_DIRECT), FLAG(O_NOFOLLOW), FLAG(O_NOATIME), FLAG(O_CLOEXEC), FLAG(O_PATH), FLAG(O_TMPFILE),
    FLAG(O_DIRECTORY),
};
static const struct flag at_flags[] = {
    FLAG(AT_SYMLINK_NOFOLLOW), { "AT_REMOVEDIR", AT_REMOVEDIR }, FLAG(AT_SYMLINK_FOLLOW), FLAG(AT_NO_AUTOMOUNT), FLAG(AT_EMPTY_PATH),
};
static const struct flag access_modes[] = { FLAG(R_OK), FLAG(W_OK), FLAG(X_OK) };
static const struct flag whences[] = { FLAG(SEEK_SET), FLAG(SEEK_CUR), FLAG(SEEK_END), FLAG(SEEK_DATA), FLAG(SEEK_HOLE) };
static const struct flag rename_flags[] = { { "RENAME_NOREPLACE", 1 }, { "RENAME_EXCHANGE", 2 }, { "RENAME_WHITEOUT", 4 } };
static const struct flag xattr_flags[] = { FLAG(XATTR_CREATE), FLAG(XATTR_REPLACE) };
static const struct flag fallocate_flags[] = {
    { "FALLOC_FL_KEEP_SIZE", 1 }, { "FALLOC_FL_PUNCH_HOLE", 2 }, { "FALLOC_FL_COLLAPSE_RANGE", 8 }, { "FALLOC_FL_ZERO_RANGE", 16 },
    { "FALLOC_FL_INSERT_RANGE", 32 }, { "FALLOC_FL_UNSHARE_RANGE", 64 },
};
static const struct flag lock_flags[] = { FLAG(LOCK_SH), FLAG(LOCK_EX), FLAG(LOCK_NB), FLAG(LOCK_UN) };
static const struct flag protections[] = { FLAG(PROT_READ), FLAG(PROT_WRITE), FLAG(PROT_EXEC) };
static const struct flag map_flags[] = {
    FLAG(MAP_SHARED), FLAG(MAP_PRIVATE), FLAG(MAP_FIXED), FLAG(MAP_ANONYMOUS), FLAG(MAP_DENYWRITE), FLAG(MAP_NORESERVE),
    FLAG(MAP_POPULATE), FLAG(MAP_STACK), FLAG(MAP_FIXED_NOREPLACE),
};
static const struct flag commands[] = {
    FLAG(F_DUPFD), FLAG(F_GETFD), FLAG(F_SETFD), FLAG(F_GETFL), FLAG(F_SETFL), FLAG(F_GETLK), FLAG(F_SETLK), FLAG(F_SETLKW),
    FLAG(F_GETLK64), FLAG(F_SETLK64), FLAG(F_SETLKW64), /* other numbers on 64-bit PowerPC */
    FLAG(F_SETOWN), FLAG(F_GETOWN), FLAG(F_OFD_GETLK), FLAG(F_OFD_SETLK), FLAG(F_OFD_SETLKW), FLAG(F_DUPFD_CLOEXEC),
    FLAG(F_SETLEASE), FLAG(F_GETLEASE), FLAG(F_NOTIFY), FLAG(F_SETPIPE_SZ), FLAG(F_GETPIPE_SZ), FLAG(F_ADD_SEALS), FLAG(F_GET_SEALS),
};

/* The words that are shown by names.  empty: of no flag; joined: several at once. */
static const struct vocabulary {
    uint8_t word;
    bool joined;
    const char *empty;
    const struct flag *flags;
    size_t count;
} vocabularies[] = {
    { FWD_IN_OFLAGS, true, "", open_flags, AMPH_COUNTOF(open_flags) },
    { FWD_IN_SFLAGS, true, "", open_flags, AMPH_COUNTOF(open_flags) },
    { FWD_OUT_SFLAGS, true, "", open_flags, AMPH_COUNTOF(open_flags) },
    { FWD_IN_ATFLAGS, true, "0", at_flags, AMPH_COUNTOF(at_flags) },
    { FWD_IN_AMODE, true, "F_OK", access_modes, AMPH_COUNTOF(access_modes) },
    { FWD_IN_WHENCE, false, "SEEK_SET", whences, AMPH_COUNTOF(whences) },
    { FWD_IN_RFLAGS, true, "0", rename_flags, AMPH_COUNTOF(rename_flags) },
    { FWD_IN_XFLAGS, true, "0", xattr_flags, AMPH_COUNTOF(xattr_flags) },
    { FWD_IN_FALLOC, true, "0", fallocate_flags, AMPH_COUNTOF(fallocate_flags) },
    { FWD_IN_LOCKOP, true, "0", lock_flags, AMPH_COUNTOF(lock_flags) },
    { AMPH_FWD_SHOW_PROTECTION, true, "PROT_NONE", protections, AMPH_COUNTOF(protections) },
    { AMPH_FWD_SHOW_MAP, true, "0", map_flags, AMPH_COUNTOF(map_flags) },
    { AMPH_FWD_SHOW_COMMAND, false, "F_DUPFD", commands, AMPH_COUNTOF(commands) },
};
/* clang-format on */

static const char *access_way(uint32_t flags)
{
    static const char *const ways[] = { "O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE" };

    return ways[flags & O_ACCMODE];
}

static bool is_open_flags(unsigned word)
{
    return word == FWD_IN_OFLAGS || word == FWD_IN_SFLAGS || word == FWD_OUT_SFLAGS;
}

/* One word of several that exclude each other. */
static void show_choice(struct amph_fwd_text *t, const struct vocabulary *v, uint32_t value)
{
    for (size_t i = 0; i < v->count; i++)
        if (v->flags[i].value == value) {
            amph_fwd_text_put(t, "%s", v->flags[i].name);
            return;
        }

    amph_fwd_text_put(t, "%d", (int)value);
}

static void show_flags(struct amph_fwd_text *t, const struct vocabulary *v, uint32_t value)
{
    const char *between = "";

    if (is_open_flags(v->word)) {
        amph_fwd_text_put(t, "%s", access_way(value));
        value &= ~(uint32_t)O_ACCMODE;
        between = "|";
    } else if (value == 0)
        amph_fwd_text_put(t, "%s", v->empty);

    for (size_t i = 0; i < v->count; i++) {
        uint32_t flag = v->flags[i].value;

        if (!flag || (value & flag) != flag)
            continue;

        amph_fwd_text_put(t, "%s%s", between, v->flags[i].name);
        value &= ~flag;
        between = "|";
    }

    if (value)
        amph_fwd_text_put(t, "%s%#x", between, value);
}

static void show_mode(struct amph_fwd_text *t, mode_t mode)
{
    static const struct flag kinds[] = {
        FLAG(S_IFREG), FLAG(S_IFDIR), FLAG(S_IFLNK),  FLAG(S_IFIFO),
        FLAG(S_IFCHR), FLAG(S_IFBLK), FLAG(S_IFSOCK),
    };

    for (size_t i = 0; i < AMPH_COUNTOF(kinds); i++)
        if (kinds[i].value == (mode & S_IFMT))
            amph_fwd_text_put(t, "%s|", kinds[i].name);

    amph_fwd_text_put(t, "%04o", mode & 07777);
}

void amph_fwd_show_value(struct amph_fwd_text *t, unsigned word, uint64_t value)
{
    for (size_t i = 0; i < AMPH_COUNTOF(vocabularies); i++)
        if (vocabularies[i].word == word) {
            (vocabularies[i].joined ? show_flags : show_choice)(t, &vocabularies[i],
                                                                (uint32_t)value);
            return;
        }

    switch (word) {
    case FWD_IN_MODE:
        show_mode(t, (mode_t)value);
        break;
    case AMPH_FWD_SHOW_POINTER:
        amph_fwd_text_put(t, value ? "%#" PRIx64 : "NULL", value);
        break;
    case FWD_IN_DEV:
    case AMPH_FWD_SHOW_HEX:
        amph_fwd_text_put(t, value ? "%#" PRIx64 : "0", value);
        break;
    case FWD_IN_LEN:
    case FWD_OUT_COUNT:
        amph_fwd_text_put(t, "%" PRIu64, value);
        break;
    default:
        amph_fwd_text_put(t, "%" PRId64, (int64_t)value);
    }
}

/* ---- bytes ---- */

static void show_byte(struct amph_fwd_text *t, unsigned char c, bool digit_follows)
{
    static const char special[] = "\n\t\r\v\f";
    static const char letters[] = "ntrvf";
    const char *which = c ? strchr(special, c) : NULL;

    if (which)
        amph_fwd_text_put(t, "\\%c", letters[which - special]);
    else if (c == '"' || c == '\\')
        amph_fwd_text_put(t, "\\%c", c);
    else if (c >= ' ' && c < 127)
        amph_fwd_text_put(t, "%c", c);
    else
        amph_fwd_text_put(t, digit_follows ? "\\%03o" : "\\%o", c);
}

void amph_fwd_show_bytes(struct amph_fwd_text *t, const void *bytes, size_t len, bool all)
{
    const unsigned char *at = bytes;
    size_t shown = !all && len > BYTES_SHOWN ? BYTES_SHOWN : len;

    amph_fwd_text_put(t, "\"");
    for (size_t i = 0; i < shown; i++)
        show_byte(t, at[i], i + 1 < shown && at[i + 1] >= '0' && at[i + 1] <= '9');

    amph_fwd_text_put(t, shown < len ? "\"..." : "\"");
}

void amph_fwd_show_name(struct amph_fwd_text *t, const char *path)
{
    amph_fwd_text_put(t, "<");
    for (const char *at = path; *at; at++) {
        bool is_bracket = *at == '<' || *at == '>';
        bool digit_follows = at[1] >= '0' && at[1] <= '9';

        if (is_bracket)
            amph_fwd_text_put(t, digit_follows ? "\\%03o" : "\\%o", (unsigned)*at);
        else
            show_byte(t, (unsigned char)*at, digit_follows);
    }

    amph_fwd_text_put(t, ">");
}

/* ---- records and errors ---- */

void amph_fwd_show_stat(struct amph_fwd_text *t, const struct stat *st)
{
    amph_fwd_text_put(t, "{st_mode=");
    show_mode(t, st->st_mode);
    amph_fwd_text_put(t, ", st_size=%lld, ...}", (long long)st->st_size);
}

void amph_fwd_show_errno(struct amph_fwd_text *t, int err)
{
    const char *name = strerrorname_np(err);
    const char *text = strerrordesc_np(err);

    if (name)
        amph_fwd_text_put(t, "%s (%s)", name, text ? text : "");
    else
        amph_fwd_text_put(t, "errno %d", err);
}

/* ---- IOFWD_TRACE ---- */

/* What a line does not mention rounds to 0.0 us. */
#define QUEUE_SHOWN_NS 50

static double microseconds(uint64_t ns)
{
    return (double)ns / 1e3;
}

void amph_fwd_trace_side(struct amph_fwd_text *t, const struct amph_fwd_trace_sum *sum,
                         enum amph_fwd_side side, const char *reason, uint64_t ns)
{
    char request[FWD_REQUEST_NAME_BYTES];
    uint64_t queue_ns = amph_fwd_trace_queue(sum, ns);

    if (side == AMPH_FWD_SIDE_LOCAL) {
        amph_fwd_text_put(t, "  <local: %s, %.1f us>", reason, microseconds(ns));
        return;
    }

    if (sum->requests == 0) {
        const char *by = sum->passed ? "passed" : "held";

        amph_fwd_text_put(t, "  <%s, %.1f us>", sum->calls ? by : "client", microseconds(ns));
        return;
    }

    if (sum->requests == 1)
        amph_fwd_text_put(t, "  <server %" PRIu32 ", request ", sum->server);
    else
        amph_fwd_text_put(t, "  <server %" PRIu32 ", %" PRIu32 " requests up to ", sum->server,
                          sum->requests);

    amph_fwd_text_put(t, "%s, %.1f us", amph_fwd_request_name(sum->client, sum->seq, request),
                      microseconds(ns));
    if (sum->unawaited == sum->requests) {
        amph_fwd_text_put(t, ", not awaited>");
        return;
    }

    amph_fwd_text_put(t, ", %.1f us there", microseconds(sum->file_ns + queue_ns));
    if (queue_ns >= QUEUE_SHOWN_NS)
        amph_fwd_text_put(t, ", %.1f us of them in the queue", microseconds(queue_ns));

    amph_fwd_text_put(t, ">");
}

struct amph_fwd_trace_target amph_fwd_trace_parse(const char *setting)
{
    static const char with_local[] = "all,";
    struct amph_fwd_trace_target target = { false, false, NULL };

    if (!setting || !setting[0] || strcmp(setting, "0") == 0)
        return target;

    target.on = true;
    target.all = strcmp(setting, "all") == 0 ||
                 strncmp(setting, with_local, sizeof with_local - 1) == 0;

    if (strcmp(setting, "1") != 0 && strcmp(setting, "all") != 0)
        target.file = setting + (target.all ? sizeof with_local - 1 : 0);

    return target;
}
