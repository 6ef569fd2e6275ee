/* SPDX-License-Identifier: BSD-3-Clause */
/* Headers, arguments and results on the wire; see marshal.h.  Layer: iofwd. */
#include "iofwd/marshal.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/platform.h"
#include "iofwd/encode.h"

/* ---- headers ---- */

void fwd_put_req_head(struct amph_wr *w, const struct fwd_req_head *h)
{
    amph_wr_u32(w, h->magic);
    amph_wr_u8(w, h->version);
    amph_wr_u8(w, h->hops);
    amph_wr_u16(w, h->service);
    amph_wr_u32(w, h->length);
    amph_wr_u32(w, h->client);
    amph_wr_u64(w, h->seq);
    amph_wr_u64(w, h->cookie);
}

bool fwd_get_req_head(struct amph_rd *r, struct fwd_req_head *h)
{
    size_t all = amph_rd_left(r);
    h->magic = amph_rd_u32(r);
    h->version = amph_rd_u8(r);
    h->hops = amph_rd_u8(r);
    h->service = amph_rd_u16(r);
    h->length = amph_rd_u32(r);
    h->client = amph_rd_u32(r);
    h->seq = amph_rd_u64(r);
    h->cookie = amph_rd_u64(r);
    return !r->bad && h->magic == FWD_MAGIC && h->version == FWD_VERSION && h->length == all;
}

void fwd_put_rep_head(struct amph_wr *w, const struct fwd_rep_head *h)
{
    amph_wr_u32(w, h->magic);
    amph_wr_u8(w, h->version);
    amph_wr_u8(w, 0);
    amph_wr_u16(w, h->service);
    amph_wr_u32(w, h->length);
    amph_wr_u32(w, h->error);
    amph_wr_u64(w, h->seq);
    amph_wr_u16(w, h->tags_len);
    amph_wr_u16(w, 0);
}

bool fwd_get_rep_head(struct amph_rd *r, struct fwd_rep_head *h)
{
    size_t all = amph_rd_left(r);
    h->magic = amph_rd_u32(r);
    h->version = amph_rd_u8(r);
    amph_rd_u8(r);
    h->service = amph_rd_u16(r);
    h->length = amph_rd_u32(r);
    h->error = amph_rd_u32(r);
    h->seq = amph_rd_u64(r);
    h->tags_len = amph_rd_u16(r);
    amph_rd_u16(r);
    return !r->bad && h->magic == FWD_MAGIC && h->version == FWD_VERSION && h->length == all && h->tags_len <= amph_rd_left(r);
}

void fwd_put_bulk(struct amph_wr *w, const struct fwd_bulk *b)
{
    amph_wr_u8(w, b->where);
    amph_wr_u8(w, b->flags);
    amph_wr_u16(w, b->rwf);
    amph_wr_u32(w, b->op);
    amph_wr_u32(w, b->len);
    amph_wr_u64(w, b->at);
}

bool fwd_get_bulk(struct amph_rd *r, struct fwd_bulk *b)
{
    b->where = amph_rd_u8(r);
    b->flags = amph_rd_u8(r);
    b->rwf = amph_rd_u16(r);
    b->op = amph_rd_u32(r);
    b->len = amph_rd_u32(r);
    b->at = amph_rd_u64(r);
    return !r->bad && b->where <= FWD_SEGMENT && (b->flags & ~FWD_PIECE_ALL) == 0 && (b->rwf & ~FWD_RWF_ALL) == 0;
}

void fwd_put_shape(struct amph_wr *w, const struct fwd_shape *s)
{
    amph_wr_u64(w, s->number);
    amph_wr_u32(w, s->processes);
    amph_wr_u32(w, s->absent);
}

void fwd_put_row(struct amph_wr *w, const struct fwd_row *row)
{
    amph_wr_u32(w, row->at);
    amph_wr_u32(w, row->len);
    amph_wr_u32(w, row->stride);
    amph_wr_u32(w, row->count);
}

bool fwd_get_shape(const void *blob, size_t len, struct fwd_shape *s)
{
    struct amph_rd r;
    amph_rd_init(&r, blob, len);
    s->number = amph_rd_u64(&r);
    s->processes = amph_rd_u32(&r);
    s->absent = amph_rd_u32(&r);
    s->rows = r.at;
    s->nrows = (uint32_t)(amph_rd_left(&r) / FWD_ROW_BYTES);
    return !r.bad && amph_rd_left(&r) % FWD_ROW_BYTES == 0 && s->processes > 0;
}

struct fwd_row fwd_shape_row(const struct fwd_shape *s, uint32_t i)
{
    struct amph_rd r;
    struct fwd_row row;
    amph_rd_init(&r, s->rows + (size_t)i * FWD_ROW_BYTES, FWD_ROW_BYTES);
    row.at = amph_rd_u32(&r);
    row.len = amph_rd_u32(&r);
    row.stride = amph_rd_u32(&r);
    row.count = amph_rd_u32(&r);
    return row;
}

bool fwd_row_fits(const struct fwd_row *row, uint64_t len, uint64_t *at_p, uint64_t *sum_p)
{
    uint64_t end;
    if (row->len == 0 || row->count == 0 || row->at < *at_p || (row->count > 1 && row->stride < row->len))
        return false;
    end = row->at + (uint64_t)(row->count - 1) * row->stride; /* below 2 to the power of 64 */
    if (end > len || row->len > len - end)
        return false;
    *at_p = end + row->len;
    *sum_p += (uint64_t)row->len * row->count;
    return true;
}

enum amph_fwd_id fwd_call_of_service(uint16_t service)
{
    static uint8_t index[256]; /* id + 1; filled at the first call, always with the same values */
    if (!index[fwd_calls[0].service])
        for (size_t i = AMPH_FWD_NCALLS; i-- > 0;)
            index[fwd_calls[i].service] = (uint8_t)(i + 1);
    return service < AMPH_COUNTOF(index) && index[service] ? (enum amph_fwd_id)(index[service] - 1) : AMPH_FWD_NCALLS;
}

/* ---- type words ---- */

/* Arguments that are a set of flags: which set, plus 1, by word; 0: the argument is something else. */
static const uint8_t flag_set[FWD_NWORDS] = {
    [FWD_IN_OFLAGS] = FWD_SET_OFLAGS + 1, [FWD_IN_SFLAGS] = FWD_SET_OFLAGS + 1, [FWD_IN_MODE] = FWD_SET_MODE + 1,
    [FWD_IN_ATFLAGS] = FWD_SET_ATFLAGS + 1, [FWD_IN_AMODE] = FWD_SET_AMODE + 1, [FWD_IN_RFLAGS] = FWD_SET_RFLAGS + 1,
    [FWD_IN_XFLAGS] = FWD_SET_XFLAGS + 1, [FWD_IN_FALLOC] = FWD_SET_FALLOC + 1, [FWD_IN_LOCKOP] = FWD_SET_LOCKOP + 1,
};

const struct amph_fwd_file *fwd_call_file(const struct fwd_call_desc *desc, const void *args)
{
    for (unsigned i = 0; i < desc->nargs; i++) {
        uint8_t word = desc->arg[i].word;
        if (word != FWD_IN_FILE && word != FWD_IN_PATH)
            continue;
        const struct amph_fwd_file *file = *(const struct amph_fwd_file *const *)((const char *)args + desc->arg[i].client_at);
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
    size_t n = strnlen(text, FWD_PATH_MOST);
    if (n == FWD_PATH_MOST)
        return ENAMETOOLONG;
    amph_wr_blob(w, text, n + 1);
    return 0;
}

struct path_arg {
    const struct amph_fwd_file *dir;
    const char *name;
};

typedef int (*put_fn)(struct amph_wr *w, const void *at, uint32_t server);

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
    if (!fwd_whence_to_wire(*(const int *)at, &wire))
        return EINVAL;
    amph_wr_u8(w, wire);
    return 0;
}
static int put_in_off(struct amph_wr *w, const void *at, uint32_t server)
{
    amph_wr_u64(w, (uint64_t)(int64_t)*(const off_t *)at);
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
    fwd_put_times(w, *(const struct timespec *const *)at);
    return 0;
}
static int put_in_lock(struct amph_wr *w, const void *at, uint32_t server)
{
    const struct flock *lock = *(const struct flock *const *)at;
    if (!lock)
        return EFAULT;
    fwd_put_lock(w, lock);
    return w->bad ? EINVAL : 0;
}
static int put_in_text(struct amph_wr *w, const void *at, uint32_t server)
{
    return put_text(w, *(const char *const *)at);
}
/* A value: pointer and length, as both sides' records have them. */
struct blob_arg {
    const void *at;
    size_t len;
};
static int put_in_blob(struct amph_wr *w, const void *at, uint32_t server)
{
    const struct blob_arg *b = at;
    if (b->len > FWD_BLOB_MOST)
        return E2BIG;
    if (b->len && !b->at)
        return EFAULT;
    amph_wr_blob(w, b->at, b->len);
    return 0;
}
static int put_nothing(struct amph_wr *w, const void *at, uint32_t server)
{
    return 0;
}
/* Out-buffers: how much the caller has room for goes with the request.  Records: pointer, capacity, where the length goes. */
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

static const put_fn put_word[FWD_NWORDS] = {
    [FWD_IN_PATH] = put_in_path, [FWD_IN_FILE] = put_in_file, [FWD_IN_WHENCE] = put_in_whence, [FWD_IN_OFF] = put_in_off,
    [FWD_IN_LEN] = put_in_len, [FWD_IN_UID] = put_in_id, [FWD_IN_GID] = put_in_id, [FWD_IN_DEV] = put_in_dev,
    [FWD_IN_TIMES] = put_in_times, [FWD_IN_LOCK] = put_in_lock, [FWD_IN_TEXT] = put_in_text, [FWD_IN_BLOB] = put_in_blob,
    [FWD_IN_DATA] = put_nothing,
    [FWD_OUT_NEWFILE] = put_nothing, [FWD_OUT_OFFSET] = put_nothing, [FWD_OUT_STATBUF] = put_nothing, [FWD_OUT_STATXBUF] = put_nothing,
    [FWD_OUT_FSBUF] = put_nothing, [FWD_OUT_COUNT] = put_nothing, [FWD_OUT_SFLAGS] = put_nothing, [FWD_OUT_GOTLOCK] = put_nothing,
    [FWD_OUT_STRING] = put_out_cap, [FWD_OUT_DIRENTS] = put_out_cap, [FWD_OUT_BUF] = put_nothing,
};

int fwd_put_args(struct amph_wr *w, const struct fwd_call_desc *desc, const void *args, uint32_t server)
{
    for (unsigned i = 0; i < desc->nargs; i++) {
        const void *at = (const char *)args + desc->arg[i].client_at;
        uint8_t word = desc->arg[i].word;
        int err = 0;
        if (flag_set[word]) {
            uint32_t wire, native = *(const uint32_t *)at;
            /* open and F_SETFL ignore flags they do not know, also those that this wire does not */
            bool lenient = word == FWD_IN_OFLAGS || word == FWD_IN_SFLAGS;
            if (!fwd_flags_to_wire((enum fwd_set)(flag_set[word] - 1), native, &wire) && !lenient)
                err = word == FWD_IN_FALLOC ? EOPNOTSUPP : EINVAL; /* as the kernel says of what it does not know */
            amph_wr_u32(w, wire);
        } else
            err = put_word[word](w, at, server);
        if (err)
            return err;
    }
    return w->bad ? ENAMETOOLONG : 0;
}

/* ---- server side: taking arguments ---- */

typedef int (*get_fn)(struct amph_rd *r, void *at, const struct fwd_resolver *res);

static int get_text(struct amph_rd *r, const char **text_p)
{
    size_t n;
    const char *p = amph_rd_blob(r, &n);
    if (!p || n == 0 || n > FWD_PATH_MOST || memchr(p, 0, n) != p + n - 1)
        return EPROTO;
    *text_p = p;
    return 0;
}

static int get_in_file(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    struct fwd_handle *h = res->find(res->ctx, amph_rd_u64(r));
    *(struct fwd_handle **)at = h;
    return r->bad ? EPROTO : h ? 0 : EBADF;
}

struct server_path {
    struct fwd_handle *dir;
    const char *name;
};

static int get_in_path(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    struct server_path *p = at;
    uint64_t handle = amph_rd_u64(r);
    p->dir = handle ? res->find(res->ctx, handle) : NULL;
    int err = get_text(r, &p->name);
    return err ? err : handle && !p->dir ? EBADF : 0;
}
static int get_in_whence(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    return fwd_whence_from_wire(amph_rd_u8(r), at) ? 0 : EINVAL;
}
static int get_in_off(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    *(off_t *)at = (off_t)amph_rd_u64(r);
    return 0;
}
static int get_in_len(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    *(size_t *)at = (size_t)amph_rd_u64(r);
    return 0;
}
static int get_in_id(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    *(uint32_t *)at = amph_rd_u32(r);
    return 0;
}
static int get_in_dev(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    uint32_t ma = amph_rd_u32(r), mi = amph_rd_u32(r);
    *(dev_t *)at = makedev(ma, mi);
    return 0;
}
static int get_in_times(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    fwd_get_times(r, at);
    return r->bad ? EINVAL : 0;
}
static int get_in_lock(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    struct flock *l = at;
    fwd_get_lock(r, l);
    off_t most = l->l_start < 0 ? FWD_LOCKS_END : FWD_LOCKS_END - l->l_start;
    if (most > 0 && (l->l_len == 0 || (l->l_len > most && l->l_start <= INT64_MAX - l->l_len)))
        l->l_len = most;
    return r->bad ? EINVAL : 0;
}
static int get_in_text(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    return get_text(r, at);
}
static int get_in_blob(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    struct blob_arg *b = at;
    b->at = amph_rd_blob(r, &b->len);
    return b->at ? 0 : EPROTO;
}
static int get_nothing(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    return 0;
}
static int get_out_cap(struct amph_rd *r, void *at, const struct fwd_resolver *res)
{
    ((struct out_arg *)at)->cap = amph_rd_u32(r);
    return 0;
}

static const get_fn get_word[FWD_NWORDS] = {
    [FWD_IN_PATH] = get_in_path, [FWD_IN_FILE] = get_in_file, [FWD_IN_WHENCE] = get_in_whence, [FWD_IN_OFF] = get_in_off,
    [FWD_IN_LEN] = get_in_len, [FWD_IN_UID] = get_in_id, [FWD_IN_GID] = get_in_id, [FWD_IN_DEV] = get_in_dev,
    [FWD_IN_TIMES] = get_in_times, [FWD_IN_LOCK] = get_in_lock, [FWD_IN_TEXT] = get_in_text, [FWD_IN_BLOB] = get_in_blob,
    [FWD_IN_DATA] = get_nothing,
    [FWD_OUT_NEWFILE] = get_nothing, [FWD_OUT_OFFSET] = get_nothing, [FWD_OUT_STATBUF] = get_nothing, [FWD_OUT_STATXBUF] = get_nothing,
    [FWD_OUT_FSBUF] = get_nothing, [FWD_OUT_COUNT] = get_nothing, [FWD_OUT_SFLAGS] = get_nothing, [FWD_OUT_GOTLOCK] = get_nothing,
    [FWD_OUT_STRING] = get_out_cap, [FWD_OUT_DIRENTS] = get_out_cap, [FWD_OUT_BUF] = get_nothing,
};

int fwd_get_args(struct amph_rd *r, const struct fwd_call_desc *desc, void *args, const struct fwd_resolver *resolver)
{
    for (unsigned i = 0; i < desc->nargs; i++) {
        void *at = (char *)args + desc->arg[i].server_at;
        uint8_t word = desc->arg[i].word;
        int err = 0;
        if (flag_set[word]) {
            uint32_t native;
            if (!fwd_flags_from_wire((enum fwd_set)(flag_set[word] - 1), amph_rd_u32(r), &native))
                err = EINVAL;
            *(uint32_t *)at = native;
        } else
            err = get_word[word](r, at, resolver);
        if (r->bad)
            return EPROTO;
        if (err)
            return err;
    }
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
    amph_wr_u64(w, (uint64_t)*(const off_t *)at);
}

static void put_count(struct amph_wr *w, const void *at)
{
    amph_wr_u64(w, *(const size_t *)at);
}

static void put_stat(struct amph_wr *w, const void *at)
{
    fwd_put_stat(w, at);
}

static void put_statx(struct amph_wr *w, const void *at)
{
    fwd_put_statx(w, at);
}

static void put_statfs(struct amph_wr *w, const void *at)
{
    fwd_put_statfs(w, at);
}

static void put_flags(struct amph_wr *w, const void *at)
{
    uint32_t wire;
    fwd_flags_to_wire(FWD_SET_OFLAGS, *(const uint32_t *)at, &wire);
    amph_wr_u32(w, wire);
}

static void put_lock(struct amph_wr *w, const void *at)
{
    struct flock l = *(const struct flock *)at;
    if (l.l_whence == SEEK_SET && l.l_len == FWD_LOCKS_END - l.l_start)
        l.l_len = 0;
    fwd_put_lock(w, &l);
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
    fwd_put_dirents(w, out->at, out->len);
}

/* NULL: arguments in; bulk data is the caller's. */
static void (*const put_result[FWD_NWORDS])(struct amph_wr *w, const void *at) = {
    [FWD_OUT_NEWFILE] = put_number, [FWD_OUT_OFFSET] = put_offset, [FWD_OUT_STATBUF] = put_stat, [FWD_OUT_STATXBUF] = put_statx,
    [FWD_OUT_FSBUF] = put_statfs, [FWD_OUT_COUNT] = put_count, [FWD_OUT_SFLAGS] = put_flags, [FWD_OUT_GOTLOCK] = put_lock,
    [FWD_OUT_STRING] = put_string, [FWD_OUT_DIRENTS] = put_dirents,
};

void fwd_put_results(struct amph_wr *w, const struct fwd_call_desc *desc, const void *args)
{
    for (unsigned i = 0; i < desc->nargs; i++)
        if (put_result[desc->arg[i].word])
            put_result[desc->arg[i].word](w, (const char *)args + desc->arg[i].server_at);
}

/* How a result is taken: at is its place in the client's record, which begins with a pointer to where it goes. */
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
    fwd_get_stat(r, target(at));
    return true;
}

static bool get_statx(struct amph_rd *r, void *at, uint32_t server)
{
    fwd_get_statx(r, target(at));
    return true;
}

static bool get_statfs(struct amph_rd *r, void *at, uint32_t server)
{
    fwd_get_statfs(r, target(at));
    return true;
}

static bool get_flags(struct amph_rd *r, void *at, uint32_t server)
{
    uint32_t native;
    fwd_flags_from_wire(FWD_SET_OFLAGS, amph_rd_u32(r), &native);
    *(int *)target(at) = (int)native;
    return true;
}

static bool get_lock(struct amph_rd *r, void *at, uint32_t server)
{
    fwd_get_lock(r, target(at));
    return true;
}

static bool get_string(struct amph_rd *r, void *at, uint32_t server)
{
    const struct out_arg *out = at;
    size_t n = amph_rd_u32(r);
    /* With no room at all only the length was asked for. */
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
    return fwd_get_dirents(r, out->at, out->cap, out->len);
}

static bool (*const get_result[FWD_NWORDS])(struct amph_rd *r, void *at, uint32_t server) = {
    [FWD_OUT_NEWFILE] = get_newfile, [FWD_OUT_OFFSET] = get_offset, [FWD_OUT_STATBUF] = get_stat, [FWD_OUT_STATXBUF] = get_statx,
    [FWD_OUT_FSBUF] = get_statfs, [FWD_OUT_COUNT] = get_count, [FWD_OUT_SFLAGS] = get_flags, [FWD_OUT_GOTLOCK] = get_lock,
    [FWD_OUT_STRING] = get_string, [FWD_OUT_DIRENTS] = get_dirents,
};

bool fwd_get_results(struct amph_rd *r, const struct fwd_call_desc *desc, void *args, uint32_t server)
{
    for (unsigned i = 0; i < desc->nargs && !r->bad; i++)
        if (get_result[desc->arg[i].word] && !get_result[desc->arg[i].word](r, (char *)args + desc->arg[i].client_at, server))
            return false;
    return !r->bad;
}
