/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes and decodes arguments and results; see marshal.h.  Each type word of calls.def is one row
 * of the table `words`.
 *
 * Layer: iofwd.  Thread rule: pure functions.
 */
#include "iofwd/wire/marshal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "base/platform.h"
#include "iofwd/wire/encode.h"

enum amph_fwd_id amph_fwd_call_of_service(uint16_t service)
{
    static uint8_t index[256]; /* id + 1; filled at the first call, always with the same values */

    if (!index[amph_fwd_calls[0].service])
        for (size_t i = AMPH_FWD_NCALLS; i-- > 0;)
            index[amph_fwd_calls[i].service] = (uint8_t)(i + 1);

    return service < AMPH_COUNTOF(index) && index[service] ? (enum amph_fwd_id)(index[service] - 1)
                                                           : AMPH_FWD_NCALLS;
}

/* ---- client side: encoding of arguments ---- */

const struct amph_fwd_file *amph_fwd_call_file(const struct amph_fwd_call_desc *desc,
                                               const void *args)
{
    for (unsigned i = 0; i < desc->nargs; i++) {
        uint8_t word = desc->arg[i].word;

        if (word != FWD_IN_FILE && word != FWD_IN_PATH)
            continue;

        const struct amph_fwd_file *file = *(
            const struct amph_fwd_file *const *)((const char *)args + desc->arg[i].client_at);

        if (file)
            return file;
    }

    return NULL;
}

static int put_file(struct amph_wr *w, const struct amph_fwd_file *file, uint32_t server)
{
    for (uint32_t i = 0; i < file->nparts && i < AMPH_FWD_PARTS_MAX; i++)
        if (file->part[i].server == server) {
            amph_wr_u64(w, file->part[i].handle);
            return 0;
        }

    return file->nparts ? EXDEV : EBADF;
}

static int put_text(struct amph_wr *w, const char *text)
{
    if (!text)
        return EFAULT;

    size_t n = strnlen(text, FWD_PATH_MAX);
    if (n == FWD_PATH_MAX)
        return ENAMETOOLONG;

    amph_wr_blob(w, text, n + 1);
    return 0;
}

struct path_arg {
    const struct amph_fwd_file *dir;
    const char *name;
};

static int put_in_path(struct amph_wr *w, const void *at, uint32_t server)
{
    const struct path_arg *p = at;
    int err = 0;

    if (p->dir)
        err = put_file(w, p->dir, server);
    else
        amph_wr_u64(w, 0);

    return err ? err : put_text(w, p->name);
}

static int put_in_file(struct amph_wr *w, const void *at, uint32_t server)
{
    return put_file(w, *(const struct amph_fwd_file *const *)at, server);
}

static int put_in_whence(struct amph_wr *w, const void *at, uint32_t server)
{
    uint8_t wire;

    if (!amph_fwd_whence_to_wire(*(const int *)at, &wire))
        return EINVAL;

    amph_wr_u8(w, wire);
    return 0;
}

static int put_in_off(struct amph_wr *w, const void *at, uint32_t server)
{
    amph_wr_u64(w, (uint64_t)(int64_t) * (const off_t *)at);
    return 0;
}

static int put_in_len(struct amph_wr *w, const void *at, uint32_t server)
{
    amph_wr_u64(w, *(const size_t *)at);
    return 0;
}

static int put_in_id(struct amph_wr *w, const void *at, uint32_t server)
{
    amph_wr_u32(w, *(const uint32_t *)at);
    return 0;
}

static int put_in_dev(struct amph_wr *w, const void *at, uint32_t server)
{
    amph_wr_u32(w, major(*(const dev_t *)at));
    amph_wr_u32(w, minor(*(const dev_t *)at));
    return 0;
}

static int put_in_times(struct amph_wr *w, const void *at, uint32_t server)
{
    amph_fwd_put_times(w, *(const struct timespec *const *)at);
    return 0;
}

static int put_in_lock(struct amph_wr *w, const void *at, uint32_t server)
{
    const struct flock *lock = *(const struct flock *const *)at;

    if (!lock)
        return EFAULT;

    amph_fwd_put_lock(w, lock);
    return w->bad ? EINVAL : 0;
}

static int put_in_text(struct amph_wr *w, const void *at, uint32_t server)
{
    return put_text(w, *(const char *const *)at);
}

/* A value in the records of both sides: pointer and length. */
struct blob_arg {
    const void *at;
    size_t len;
};

static int put_in_blob(struct amph_wr *w, const void *at, uint32_t server)
{
    const struct blob_arg *b = at;

    if (b->len > FWD_BLOB_MAX)
        return E2BIG;
    if (b->len && !b->at)
        return EFAULT;

    amph_wr_blob(w, b->at, b->len);
    return 0;
}

/* An out-buffer in the client's record; its capacity is sent with the request. */
struct out_arg {
    void *at;
    size_t cap;
    size_t *len;
};

static int put_out_cap(struct amph_wr *w, const void *at, uint32_t server)
{
    size_t cap = ((const struct out_arg *)at)->cap;

    amph_wr_u32(w, cap > UINT32_MAX ? UINT32_MAX : (uint32_t)cap);
    return 0;
}

/* ---- server side: decoding of arguments ---- */

static int get_text(struct amph_rd *r, const char **text_p)
{
    size_t n;
    const char *p = amph_rd_blob(r, &n);

    if (!p || n == 0 || n > FWD_PATH_MAX || memchr(p, 0, n) != p + n - 1)
        return EPROTO;

    *text_p = p;
    return 0;
}

static int get_in_file(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res)
{
    struct amph_server_handle *h = res->find(res->ctx, amph_rd_u64(r));

    *(struct amph_server_handle **)at = h;
    if (r->bad)
        return EPROTO;

    return h ? 0 : EBADF;
}

struct server_path {
    struct amph_server_handle *dir;
    const char *name;
};

static int get_in_path(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res)
{
    struct server_path *p = at;
    uint64_t handle = amph_rd_u64(r);

    p->dir = handle ? res->find(res->ctx, handle) : NULL;

    int err = get_text(r, &p->name);

    if (err)
        return err;

    return handle && !p->dir ? EBADF : 0;
}

static int get_in_whence(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res)
{
    return amph_fwd_whence_from_wire(amph_rd_u8(r), at) ? 0 : EINVAL;
}

static int get_in_off(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res)
{
    *(off_t *)at = (off_t)amph_rd_u64(r);
    return 0;
}

static int get_in_len(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res)
{
    *(size_t *)at = (size_t)amph_rd_u64(r);
    return 0;
}

static int get_in_id(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res)
{
    *(uint32_t *)at = amph_rd_u32(r);
    return 0;
}

static int get_in_dev(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res)
{
    uint32_t ma = amph_rd_u32(r);
    uint32_t mi = amph_rd_u32(r);

    *(dev_t *)at = makedev(ma, mi);
    return 0;
}

static int get_in_times(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res)
{
    amph_fwd_get_times(r, at);
    return r->bad ? EINVAL : 0;
}

/* How long a lock from l_start on can be. */
static off_t longest_lock(const struct flock *lock)
{
    return lock->l_start < 0 ? FWD_LOCKS_END : FWD_LOCKS_END - lock->l_start;
}

void amph_fwd_lock_end(struct flock *lock)
{
    off_t max = longest_lock(lock);

    if (max > 0 &&
        (lock->l_len == 0 || (lock->l_len > max && lock->l_start <= INT64_MAX - (lock->l_len - 1))))
        lock->l_len = max;
}

void amph_fwd_lock_show(struct flock *lock)
{
    if (lock->l_len > 0 && lock->l_len == longest_lock(lock))
        lock->l_len = 0;
}

static int get_in_lock(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res)
{
    struct flock *l = at;

    amph_fwd_get_lock(r, l);

    amph_fwd_lock_end(l);

    return r->bad ? EINVAL : 0;
}

static int get_in_text(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res)
{
    return get_text(r, at);
}

static int get_in_blob(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res)
{
    struct blob_arg *b = at;

    b->at = amph_rd_blob(r, &b->len);
    return b->at ? 0 : EPROTO;
}

static int get_out_cap(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res)
{
    ((struct out_arg *)at)->cap = amph_rd_u32(r);
    return 0;
}

/* ---- results ---- */

struct server_out {
    void *at;
    size_t cap, len;
};

static void put_number(struct amph_wr *w, const void *at)
{
    amph_wr_u64(w, *(const uint64_t *)at);
}

static void put_offset(struct amph_wr *w, const void *at)
{
    amph_wr_u64(w, (uint64_t) * (const off_t *)at);
}

static void put_count(struct amph_wr *w, const void *at)
{
    amph_wr_u64(w, *(const size_t *)at);
}

static void put_stat(struct amph_wr *w, const void *at)
{
    amph_fwd_put_stat(w, at);
}

static void put_statx(struct amph_wr *w, const void *at)
{
    amph_fwd_put_statx(w, at);
}

static void put_statfs(struct amph_wr *w, const void *at)
{
    amph_fwd_put_statfs(w, at);
}

static void put_flags(struct amph_wr *w, const void *at)
{
    uint32_t wire;

    amph_fwd_flags_to_wire(FWD_SET_OFLAGS, *(const uint32_t *)at, &wire);
    amph_wr_u32(w, wire);
}

static void put_lock(struct amph_wr *w, const void *at)
{
    struct flock l = *(const struct flock *)at;

    amph_fwd_lock_show(&l);
    amph_fwd_put_lock(w, &l);
}

static void put_string(struct amph_wr *w, const void *at)
{
    const struct server_out *out = at;

    amph_wr_u32(w, (uint32_t)out->len);
    amph_wr_bytes(w, out->at, out->at ? out->len : 0);
}

static void put_dirents(struct amph_wr *w, const void *at)
{
    const struct server_out *out = at;
    amph_fwd_put_dirents(w, out->at, out->len);
}

/* Decodes a result; at: its member of the client's record, which is a pointer to the destination.
 */
static void *target(void *at)
{
    return *(void **)at;
}

static bool get_newfile(struct amph_rd *r, void *at, uint32_t server)
{
    struct amph_fwd_file *file = target(at);

    file->nparts = 1;
    file->rwf = 0;
    file->part[0] = (struct amph_fwd_ref){ .server = server, .handle = amph_rd_u64(r) };

    return true;
}

static bool get_offset(struct amph_rd *r, void *at, uint32_t server)
{
    *(off_t *)target(at) = (off_t)amph_rd_u64(r);
    return true;
}

static bool get_count(struct amph_rd *r, void *at, uint32_t server)
{
    *(size_t *)target(at) = (size_t)amph_rd_u64(r);
    return true;
}

static bool get_stat(struct amph_rd *r, void *at, uint32_t server)
{
    amph_fwd_get_stat(r, target(at));
    return true;
}

static bool get_statx(struct amph_rd *r, void *at, uint32_t server)
{
    amph_fwd_get_statx(r, target(at));
    return true;
}

static bool get_statfs(struct amph_rd *r, void *at, uint32_t server)
{
    amph_fwd_get_statfs(r, target(at));
    return true;
}

static bool get_flags(struct amph_rd *r, void *at, uint32_t server)
{
    uint32_t native;

    amph_fwd_flags_from_wire(FWD_SET_OFLAGS, amph_rd_u32(r), &native);
    *(int *)target(at) = (int)native;
    return true;
}

static bool get_lock(struct amph_rd *r, void *at, uint32_t server)
{
    amph_fwd_get_lock(r, target(at));
    return true;
}

static bool get_string(struct amph_rd *r, void *at, uint32_t server)
{
    const struct out_arg *out = at;
    size_t n = amph_rd_u32(r);

    /* capacity 0 asks for the length only */
    size_t here = out->cap ? n : 0;
    const void *p = amph_rd_bytes(r, here);

    if (!p || here > out->cap)
        return false;

    if (here)
        memcpy(out->at, p, here);

    *out->len = n;
    return true;
}

static bool get_dirents(struct amph_rd *r, void *at, uint32_t server)
{
    const struct out_arg *out = at;
    return amph_fwd_get_dirents(r, out->at, out->cap, out->len);
}

/* ---- the table ---- */

/* The functions of a type word; none for bulk data, which the caller handles. */
static const struct {
    uint8_t set; /* set of flags, plus 1; 0: no flags */
    /* encodes the client's argument; NULL: it is not sent */
    int (*put)(struct amph_wr *w, const void *at, uint32_t server);
    int (*get)(struct amph_rd *r, void *at, const struct amph_fwd_resolver *res);
    void (*put_result)(struct amph_wr *w, const void *at);
    bool (*get_result)(struct amph_rd *r, void *at, uint32_t server);
} words[FWD_NWORDS] = {
    [FWD_IN_OFLAGS] = { .set = FWD_SET_OFLAGS + 1 },
    [FWD_IN_SFLAGS] = { .set = FWD_SET_OFLAGS + 1 },
    [FWD_IN_MODE] = { .set = FWD_SET_MODE + 1 },
    [FWD_IN_ATFLAGS] = { .set = FWD_SET_ATFLAGS + 1 },
    [FWD_IN_AMODE] = { .set = FWD_SET_AMODE + 1 },
    [FWD_IN_RFLAGS] = { .set = FWD_SET_RFLAGS + 1 },
    [FWD_IN_XFLAGS] = { .set = FWD_SET_XFLAGS + 1 },
    [FWD_IN_FALLOC] = { .set = FWD_SET_FALLOC + 1 },
    [FWD_IN_LOCKOP] = { .set = FWD_SET_LOCKOP + 1 },
    [FWD_IN_PATH] = { .put = put_in_path, .get = get_in_path },
    [FWD_IN_FILE] = { .put = put_in_file, .get = get_in_file },
    [FWD_IN_WHENCE] = { .put = put_in_whence, .get = get_in_whence },
    [FWD_IN_OFF] = { .put = put_in_off, .get = get_in_off },
    [FWD_IN_LEN] = { .put = put_in_len, .get = get_in_len },
    [FWD_IN_UID] = { .put = put_in_id, .get = get_in_id },
    [FWD_IN_GID] = { .put = put_in_id, .get = get_in_id },
    [FWD_IN_DEV] = { .put = put_in_dev, .get = get_in_dev },
    [FWD_IN_TIMES] = { .put = put_in_times, .get = get_in_times },
    [FWD_IN_LOCK] = { .put = put_in_lock, .get = get_in_lock },
    [FWD_IN_TEXT] = { .put = put_in_text, .get = get_in_text },
    [FWD_IN_BLOB] = { .put = put_in_blob, .get = get_in_blob },
    [FWD_OUT_NEWFILE] = { .put_result = put_number, .get_result = get_newfile },
    [FWD_OUT_OFFSET] = { .put_result = put_offset, .get_result = get_offset },
    [FWD_OUT_STATBUF] = { .put_result = put_stat, .get_result = get_stat },
    [FWD_OUT_STATXBUF] = { .put_result = put_statx, .get_result = get_statx },
    [FWD_OUT_FSBUF] = { .put_result = put_statfs, .get_result = get_statfs },
    [FWD_OUT_COUNT] = { .put_result = put_count, .get_result = get_count },
    [FWD_OUT_SFLAGS] = { .put_result = put_flags, .get_result = get_flags },
    [FWD_OUT_GOTLOCK] = { .put_result = put_lock, .get_result = get_lock },
    [FWD_OUT_STRING] = { .put = put_out_cap,
                         .get = get_out_cap,
                         .put_result = put_string,
                         .get_result = get_string },
    [FWD_OUT_DIRENTS] = { .put = put_out_cap,
                          .get = get_out_cap,
                          .put_result = put_dirents,
                          .get_result = get_dirents },
};

int amph_fwd_put_args(struct amph_wr *w, const struct amph_fwd_call_desc *desc, const void *args,
                      uint32_t server)
{
    for (unsigned i = 0; i < desc->nargs; i++) {
        const void *at = (const char *)args + desc->arg[i].client_at;
        uint8_t word = desc->arg[i].word;
        int err = 0;

        if (words[word].set) {
            uint32_t wire;
            uint32_t native = *(const uint32_t *)at;

            /* open and F_SETFL ignore unknown flags, so flags without encoding are ignored too */
            bool lenient = word == FWD_IN_OFLAGS || word == FWD_IN_SFLAGS;

            if (!amph_fwd_flags_to_wire((enum amph_fwd_set)(words[word].set - 1), native, &wire) &&
                !lenient)
                /* the kernel's error for unknown flags */
                err = word == FWD_IN_FALLOC ? EOPNOTSUPP : EINVAL;

            amph_wr_u32(w, wire);
        } else if (words[word].put)
            err = words[word].put(w, at, server);

        if (err)
            return err;
    }

    return w->bad ? ENAMETOOLONG : 0;
}

int amph_fwd_get_args(struct amph_rd *r, const struct amph_fwd_call_desc *desc, void *args,
                      const struct amph_fwd_resolver *resolver)
{
    for (unsigned i = 0; i < desc->nargs; i++) {
        void *at = (char *)args + desc->arg[i].server_at;
        uint8_t word = desc->arg[i].word;
        int err = 0;

        if (words[word].set) {
            uint32_t native;

            if (!amph_fwd_flags_from_wire((enum amph_fwd_set)(words[word].set - 1), amph_rd_u32(r),
                                          &native))
                err = EINVAL;

            *(uint32_t *)at = native;
        } else if (words[word].get)
            err = words[word].get(r, at, resolver);

        if (r->bad)
            return EPROTO;
        if (err)
            return err;
    }

    return 0;
}

void amph_fwd_put_results(struct amph_wr *w, const struct amph_fwd_call_desc *desc,
                          const void *args)
{
    for (unsigned i = 0; i < desc->nargs; i++)
        if (words[desc->arg[i].word].put_result)
            words[desc->arg[i].word].put_result(w, (const char *)args + desc->arg[i].server_at);
}

bool amph_fwd_get_results(struct amph_rd *r, const struct amph_fwd_call_desc *desc, void *args,
                          uint32_t server)
{
    for (unsigned i = 0; i < desc->nargs && !r->bad; i++)
        if (words[desc->arg[i].word].get_result &&
            !words[desc->arg[i].word].get_result(r, (char *)args + desc->arg[i].client_at, server))
            return false;

    return !r->bad;
}
