/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Striped files: which files are striped, how their bytes are distributed, opening and closing of
 * all parts.
 *
 * Layer: iofwd.
 * Thread rule: see client/internal.h; rules are added under amph_client_state.lock and are constant
 * afterwards.
 *
 * The servers share a file system, so any of them can transfer any byte of a file.  Striping
 * distributes work, not storage, and clients need not agree on it.  The server of the first part
 * (home) keeps offset, size, O_APPEND and locks.
 */
#include "iofwd/client/data/stripe.h"
#include "iofwd/client/state.h"
#include "iofwd/wire/marshal.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/settings/env.h"
#include "base/log.h"

#define RULE_TEXT_MAX 256

struct amph_client_stripe_rule {
    struct amph_client_stripe_rule *next;
    struct amph_client_stripe stripe;
    char pattern[RULE_TEXT_MAX]; /* "": every file */
};

/* ---- settings ---- */

static bool add_rule(const char *pattern, size_t len, struct amph_client_stripe stripe)
{
    struct amph_client_stripe_rule *r = len < RULE_TEXT_MAX ? calloc(1, sizeof *r) : NULL;

    if (!r)
        return false;

    memcpy(r->pattern, pattern, len);
    r->stripe = stripe;
    r->next = atomic_load(&amph_client_state.stripe.first);
    atomic_store(&amph_client_state.stripe.first, r);

    return true;
}

/* "WIDTH[:UNIT]" */
static bool parse_stripe(const char *text, size_t len, struct amph_client_stripe *stripe_p)
{
    char copy[64], *colon;
    uint64_t unit = 0;

    if (len >= sizeof copy)
        return false;

    memcpy(copy, text, len);
    copy[len] = 0;
    colon = strchr(copy, ':');
    if (colon)
        *colon = 0;

    char *end;
    unsigned long width = strtoul(copy, &end, 10);

    if (end == copy || *end || width < 1 || width > AMPH_FWD_PARTS_MAX)
        return false;
    if (colon && !amph_parse_size(colon + 1, &unit))
        return false;

    return amph_client_stripe_make((uint32_t)width, unit, stripe_p) == 0;
}

int amph_client_stripe_make(uint32_t width, uint64_t unit, struct amph_client_stripe *stripe_p)
{
    if (width < 1 || width > AMPH_FWD_PARTS_MAX || unit % 1024 ||
        unit > AMPH_CLIENT_STRIPE_UNIT_MAX)
        return EINVAL;

    *stripe_p = (struct amph_client_stripe){ .width = width, .unit_kib = (uint32_t)(unit >> 10) };
    return 0;
}

/* Parses IOFWD_STRIPE: rules separated by commas, of which the first match applies.  New rules go
 * to the front of the list, so they are added in reverse order. */
static void take_setting(void)
{
    const char *text = amph_env_str(AMPH_ENV_IOFWD_STRIPE);
    const char *end = text + strlen(text);

    while (end > text) {
        const char *start = end;

        while (start > text && start[-1] != ',')
            start--;

        const char *equal = memchr(start, '=', (size_t)(end - start));
        const char *value = equal ? equal + 1 : start;
        struct amph_client_stripe stripe;

        if (!parse_stripe(value, (size_t)(end - value), &stripe) ||
            !add_rule(start, equal ? (size_t)(equal - start) : 0, stripe))
            amph_warn("IOFWD_STRIPE: \"%.*s\" is not [PATTERN=]WIDTH[:UNIT] with a width of 1 to "
                      "%d and a unit of whole KiB; it is "
                      "left out",
                      (int)(end - start), start, AMPH_FWD_PARTS_MAX);

        end = start > text ? start - 1 : text;
    }
}

static void get_ready(void)
{
    if (atomic_load_explicit(&amph_client_state.stripe.ready, memory_order_acquire))
        return;

    struct amph_client_sigguard g;

    amph_client_sigguard_enter(&g);
    pthread_mutex_lock(&amph_client_state.lock);
    if (!atomic_load(&amph_client_state.stripe.ready))
        take_setting();

    atomic_store(&amph_client_state.stripe.ready, true);
    pthread_mutex_unlock(&amph_client_state.lock);
    amph_client_sigguard_leave(&g);
}

int amph_client_stripe_add(const char *pattern, struct amph_client_stripe stripe)
{
    struct amph_client_sigguard g;

    get_ready();
    amph_client_sigguard_enter(&g);
    pthread_mutex_lock(&amph_client_state.lock);

    bool ok = add_rule(pattern, strlen(pattern), stripe);

    pthread_mutex_unlock(&amph_client_state.lock);
    amph_client_sigguard_leave(&g);
    if (ok)
        return 0;

    return strlen(pattern) >= RULE_TEXT_MAX ? ENAMETOOLONG : ENOMEM;
}

/* A pattern without a slash is compared with the last component of the path. */
static bool fits(const struct amph_client_stripe_rule *r, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    return !r->pattern[0] || fnmatch(r->pattern, strchr(r->pattern, '/') ? path : name, 0) == 0;
}

static struct amph_client_stripe stripe_of(const char *path)
{
    get_ready();
    for (const struct amph_client_stripe_rule *r =
             atomic_load_explicit(&amph_client_state.stripe.first, memory_order_acquire);
         r; r = r->next)
        if (fits(r, path))
            return r->stripe;

    return (struct amph_client_stripe){ .width = 1 };
}

uint32_t amph_client_stripe_width(void)
{
    /* called while the client opens, with the lock held */
    if (!atomic_load(&amph_client_state.stripe.ready)) {
        take_setting();
        atomic_store(&amph_client_state.stripe.ready, true);
    }

    for (const struct amph_client_stripe_rule *r = atomic_load(&amph_client_state.stripe.first); r;
         r = r->next)
        if (!r->pattern[0])
            return r->stripe.width;

    return 1;
}

uint32_t amph_client_stripe_widest(const struct amph_fwd_client *cl)
{
    uint32_t widest = 1;

    get_ready();
    for (const struct amph_client_stripe_rule *r =
             atomic_load_explicit(&amph_client_state.stripe.first, memory_order_acquire);
         r; r = r->next)
        widest = r->stripe.width > widest ? r->stripe.width : widest;

    return widest < cl->nlinks ? widest : cl->nlinks;
}

/* ---- opening ---- */

/* Returns whether part i is the same file as the first part.  A server with another file system
 * would open another file. */
static bool same_file(struct amph_fwd_client *cl, const struct amph_fwd_file *home,
                      const struct amph_fwd_file *other)
{
    struct stat a, b;
    struct amph_fwd_args_fstat ask = { .file = home, .st = &a };

    if (amph_client_once(cl, AMPH_FWD_FSTAT, &ask))
        return false;

    ask = (struct amph_fwd_args_fstat){ .file = other, .st = &b };
    return amph_client_once(cl, AMPH_FWD_FSTAT, &ask) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

static bool is_regular(struct amph_fwd_client *cl, const struct amph_fwd_file *file)
{
    struct stat st;
    struct amph_fwd_args_fstat ask = { .file = file, .st = &st };

    return amph_client_once(cl, AMPH_FWD_FSTAT, &ask) == 0 && S_ISREG(st.st_mode);
}

static void drop_part(struct amph_fwd_client *cl, const struct amph_fwd_file *part)
{
    struct amph_fwd_args_close drop = { .file = part };
    amph_client_once(cl, AMPH_FWD_CLOSE, &drop);
}

/* Opens the file at one more server, without truncation and O_APPEND. */
static bool open_part(struct amph_fwd_client *cl, const struct amph_fwd_args_open *a,
                      const char *path, uint32_t server, const struct amph_fwd_file *home,
                      struct amph_fwd_file *part)
{
    struct amph_client_link *link;
    struct amph_fwd_args_open again = *a;

    again.path_dir = NULL;
    again.path = path;
    again.flags &= ~(O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY);
    again.file = part;
    if (amph_client_link_to(cl, server, &link) ||
        amph_client_simple(cl, link, AMPH_FWD_OPEN, &again))
        return false;
    if (same_file(cl, home, part))
        return true;

    drop_part(cl, part);
    return false;
}

void amph_client_stripe_open(struct amph_fwd_client *cl, const struct amph_fwd_args_open *a)
{
    struct amph_fwd_file *file = a->file;
    struct amph_fwd_file part;

    /* One server decides where appends go, and a directory must be open at the server that resolves
     * paths relative to it. */
    if (cl->nlinks < 2 || a->path_dir || (a->flags & (O_APPEND | O_PATH | O_DIRECTORY)) ||
        (a->flags & O_TMPFILE) == O_TMPFILE)
        return;

    struct amph_client_stripe stripe = stripe_of(a->path);
    if (stripe.width < 2 || !is_regular(cl, file))
        return;

    file->unit_kib = stripe.unit_kib;

    uint32_t home = file->part[0].server - cl->first;
    uint32_t width = stripe.width < cl->nlinks ? stripe.width : cl->nlinks;
    struct amph_fwd_file first = *file;

    for (uint32_t i = 1; i < width; i++) {
        uint32_t server = cl->first + (home + i) % cl->nlinks;

        if (!open_part(cl, a, a->path, server, &first, &part)) {
            amph_info("%s: server %" PRIu32
                      " cannot take part in it; it is spread over fewer servers",
                      a->path, amph_client_server_number(cl, server));
            continue;
        }

        file->part[file->nparts++] = part.part[0];
    }
}

/* ---- calls ---- */

int amph_client_stripe_rest(struct amph_fwd_client *cl, enum amph_fwd_id id,
                            const struct amph_fwd_file *file, void *args)
{
    int worst = 0;

    if (amph_fwd_calls[id].stripe != FWD_STRIPE_ALL)
        return 0;

    for (uint32_t i = 1; i < file->nparts; i++) {
        struct amph_client_link *link;
        int err = amph_client_link_to(cl, file->part[i].server, &link);

        if (!err)
            err = amph_client_simple(cl, link, id, args);

        worst = worst ? worst : err;
    }

    return worst;
}

/* ---- distribution of bytes ---- */

void amph_client_stripe_cursor_start(struct amph_client_stripe_cursor *d,
                                     const struct amph_fwd_file *file, uint32_t part, uint64_t off,
                                     size_t total)
{
    *d = (struct amph_client_stripe_cursor){ .total = total, .width = file->nparts };
    if (file->nparts < 2) {
        d->unit = SIZE_MAX;
        return;
    }

    d->unit = (size_t)file->unit_kib << 10;
    d->phase = d->unit ? off : 0;

    if (!d->unit) {
        d->unit = (total / file->nparts + AMPH_CLIENT_STRIPE_ALIGN) / AMPH_CLIENT_STRIPE_ALIGN *
                  AMPH_CLIENT_STRIPE_ALIGN;
    }

    uint64_t stripe = d->phase / d->unit;
    uint32_t ahead = (uint32_t)((part + file->nparts - stripe % file->nparts) % file->nparts);
    uint64_t at = ahead ? (stripe + ahead) * d->unit - d->phase : 0;

    d->at = at < total ? (size_t)at : total;
}

size_t amph_client_stripe_cursor_len(const struct amph_client_stripe_cursor *d, size_t max)
{
    size_t left = d->total - d->at;
    size_t here = d->width < 2 ? left : d->unit - (size_t)((d->phase + d->at) % d->unit);
    size_t len = left < here ? left : here;

    return len < max ? len : max;
}

void amph_client_stripe_cursor_step(struct amph_client_stripe_cursor *d, size_t len)
{
    size_t left = d->total - d->at;
    size_t jump = len;

    if (d->width > 1 && (d->phase + d->at + len) % d->unit == 0) {
        uint64_t skip = (uint64_t)(d->width - 1) * d->unit;
        jump = skip < SIZE_MAX - len ? len + (size_t)skip : SIZE_MAX;
    }

    d->at = jump < left ? d->at + jump : d->total;
}
