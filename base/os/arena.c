/* SPDX-License-Identifier: BSD-3-Clause */
/* The process's shareable memory; see arena.h.  Layer: base. */
#include "base/os/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/os/limits.h"
#include "base/log.h"
#include "base/platform.h"

/* Maximum size of the area: 256 MiB of pieces, and AMPH_AREA_SHARED_BYTES of each part.  These addresses
 * are kept free at the front, so that an area made after the segment still fits before it. */
#define AREA_MAX_BYTES (((size_t)256 << 20) + ((size_t)1 << 20))
/* Maximum size of a segment if a process of the job has 32-bit pointers. */
#define NARROW_SEGMENT_MAX_BYTES ((size_t)512 << 20)
/* Range that a 64-bit process searches for addresses which fit a 32-bit pointer: above the usual
 * addresses of programs that are not position-independent. */
#define LOW_FROM UINT64_C(0x40000000)
#define LOW_TO UINT64_C(0xf0000000)
#define LOW_STEP UINT64_C(0x04000000)
/* Room for rounding up to the job's page size, twice. */
#define SLACK_BYTES ((size_t)4 << 20)

struct range {
    char *start; /* NULL: none */
    size_t bytes;
};

static struct {
    pthread_mutex_t lock;
    struct range reserved;
    struct range area_own, segment_own; /* used instead if addresses are scarce */
    bool low;                           /* a process of the job has 32-bit pointers */
    struct amph_arena_part area, segment;
    /* bounds of the segment for lookups without the lock; 0: no segment */
    _Atomic uintptr_t segment_from, segment_to;
    _Atomic uint32_t segments_made;
    /* makes objects that this process may not make; see amph_shm_set_maker */
    enum amph_status (*make_object)(void *arg, size_t len_bytes, int *fd_p);
    void *make_object_arg;
} arena = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Sets the length of a memory object despite a limit of file sizes (ulimit -f), which also applies
 * to these: raises the limit for this call.  If it cannot be raised, returns -1 with EFBIG;
 * exceeding it would end the process by SIGXFSZ. */
static int set_length(int fd, off_t len_bytes)
{
    struct rlimit lim, wide;
    bool above = getrlimit(RLIMIT_FSIZE, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY &&
                 (rlim_t)len_bytes > lim.rlim_cur;

    wide = (struct rlimit){ .rlim_cur = lim.rlim_max, .rlim_max = lim.rlim_max };
    if (above && ((lim.rlim_max != RLIM_INFINITY && (rlim_t)len_bytes > lim.rlim_max) ||
                  setrlimit(RLIMIT_FSIZE, &wide) != 0)) {
        errno = EFBIG;
        return -1;
    }

    int result = ftruncate(fd, len_bytes);
    int err = errno;

    if (above)
        setrlimit(RLIMIT_FSIZE, &lim);

    errno = err;
    return result;
}

void amph_shm_set_maker(enum amph_status (*fn)(void *arg, size_t len_bytes, int *fd_p), void *arg)
{
    arena.make_object_arg = arg;
    arena.make_object = fn;
}

enum amph_status amph_shm_create(const char *label, size_t len_bytes, int *fd_p)
{
    int fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    /* sealed, so that peers which map it can rely on its length */
    if (fd < 0 || set_length(fd, (off_t)len_bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        enum amph_status st = amph_status_from_errno(errno);

        int err = errno;

        if (err == EFBIG && arena.make_object &&
            arena.make_object(arena.make_object_arg, len_bytes, fd_p) == AMPH_OK) {
            close(fd);
            return AMPH_OK;
        }

        amph_error("cannot make %zu bytes of shared memory for %s: %s%s", len_bytes, label,
                   strerror(err), amph_limit_remedy(err));

        if (fd >= 0)
            close(fd);

        return st;
    }

    *fd_p = fd;
    return AMPH_OK;
}

enum amph_status amph_shm_map_peer(pid_t pid, int fd, uint64_t offset, size_t len_bytes,
                                   void **addr_p)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)pid, fd);

    int own = open(path, O_RDWR | O_CLOEXEC);

    if (own < 0) {
        enum amph_status st = errno == ENOENT ? AMPH_ERR_PEER : amph_status_from_errno(errno);

        amph_error("cannot open the shared memory of process %ld (%s): %s%s", (long)pid, path,
                   strerror(errno), amph_limit_remedy(errno));
        return st;
    }

    /* mmap would accept a range beyond the object's end, and a later access would raise SIGBUS */
    struct stat sb;
    int seals = fcntl(own, F_GET_SEALS);
    bool whole = seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(own, &sb) == 0 &&
                 offset + len_bytes >= offset && offset + len_bytes <= (uint64_t)sb.st_size;

    errno = EINVAL;

    void *addr = whole ? mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                              own, (off_t)offset)
                       : MAP_FAILED;
    int saved = errno;

    close(own);
    if (addr == MAP_FAILED) {
        amph_error("cannot map %zu bytes of process %ld: %s%s", len_bytes, (long)pid,
                   strerror(saved), amph_limit_remedy(saved));
        return amph_status_from_errno(saved);
    }

    *addr_p = addr;
    return AMPH_OK;
}

size_t amph_page_bytes(void)
{
    uint64_t pretended = amph_env_size(AMPH_ENV_TEST_PAGE);
    return pretended ? (size_t)pretended : (size_t)sysconf(_SC_PAGESIZE);
}

uint8_t amph_pointer_bytes(void)
{
    /* by the words of AMPHORA_TEST_WIDTH */
    static const uint8_t bytes[] = { sizeof(void *), 4, 8 };
    return bytes[amph_env_enum(AMPH_ENV_TEST_WIDTH)];
}

uint64_t amph_phys_mem_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t amph_avail_mem_bytes(void)
{
    char line[128];
    uint64_t kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            break;

    if (f)
        fclose(f);

    return kib ? kib * 1024 : (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t amph_segsize_setting(uint32_t procs_on_host)
{
    char text[64];
    const char *setting = amph_env_str(AMPH_ENV_MAX_SEGSIZE);
    size_t len = strcspn(setting, "/");
    uint64_t bytes = 0;
    char *end;
    bool whole_host = strcmp(setting + len, "/H") == 0;
    bool process = strcmp(setting + len, "/P") == 0;

    if (len < sizeof text && (!setting[len] || whole_host || process)) {
        memcpy(text, setting, len);
        text[len] = 0;

        double fraction = strtod(text, &end);
        bool is_fraction = end != text && !*end && fraction > 0 && fraction <= 1;

        if (is_fraction)
            bytes = (uint64_t)(fraction * (double)amph_phys_mem_bytes());
        else if (!amph_parse_size(text, &bytes))
            bytes = 0;

        if (whole_host || (is_fraction && !process))
            bytes /= procs_on_host;
    }

    if (bytes)
        return bytes;

    amph_fatal("GASNET_MAX_SEGSIZE=\"%s\" is not allowed; it takes a size such as 512M or a "
               "fraction of memory such as 0.85, and /P (a "
               "process's) or /H (of all processes on a host) behind it",
               setting);
}

size_t amph_arena_segment_max(void)
{
    uint64_t phys = amph_phys_mem_bytes();
    bool narrow = sizeof(size_t) < 8 || arena.low;

    return narrow && phys > NARROW_SEGMENT_MAX_BYTES ? NARROW_SEGMENT_MAX_BYTES : (size_t)phys;
}

void amph_arena_stay_low(void)
{
    arena.low = sizeof(size_t) == 8; /* 32-bit processes always map there */
}

/* Reserves addresses without memory, as mmap with these further flags.  gdb's gcore would write them all as zeros. */
static void *reserve_at(void *want, size_t bytes, int flags)
{
    void *at = mmap(want, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1,
                    0);

    if (at != MAP_FAILED)
        (void)madvise(at, bytes, MADV_DONTDUMP);

    return at;
}

/* Reserves a range of addresses below 4 GiB, without memory; NULL: no range is free. */
static void *find_low(size_t bytes)
{
    for (uint64_t at = LOW_FROM; bytes <= LOW_TO - at; at += LOW_STEP) {
        void *want = (void *)(uintptr_t)at;
        void *got = reserve_at(want, bytes, MAP_FIXED_NOREPLACE);

        if (got == want)
            return got;

        if (got != MAP_FAILED)
            munmap(got, bytes); /* kernels before 4.17 treat the address as a hint */
    }

    errno = ENOMEM;
    return NULL;
}

void *amph_arena_map(size_t len_bytes, int fd)
{
    void *at = arena.low ? find_low(len_bytes) : NULL;
    if (arena.low && !at)
        return MAP_FAILED;

    return mmap(at, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);
}

/* Reserves a range of addresses, without memory. */
static bool reserve_range(struct range *r, size_t bytes)
{
    void *at = reserve_at(NULL, bytes, 0);

    if (at != MAP_FAILED)
        *r = (struct range){ .start = at, .bytes = bytes };

    return at != MAP_FAILED;
}

/* Reserves the arena's addresses for an area and a segment of up to segment_bytes.  Reserves little
 * more than that, because some systems (processor emulators, for example) keep a record for each
 * page. */
static enum amph_status reserve(size_t segment_bytes)
{
    size_t bytes = amph_align_up(AREA_MAX_BYTES + segment_bytes + SLACK_BYTES, SLACK_BYTES);

    while (!arena.reserved.start && !reserve_range(&arena.reserved, bytes)) {
        bytes /= 2;
        if (bytes < AREA_MAX_BYTES + SLACK_BYTES) {
            amph_error("cannot reserve a range of addresses for the segment: %m");
            return AMPH_ERR_NOMEM;
        }
    }

    return AMPH_OK;
}

/* Is the address space limited (ulimit -v)?  Then each part reserves only what it needs, when it is
 * made. */
static bool addresses_are_scarce(void)
{
    struct rlimit lim;
    return !arena.reserved.start && getrlimit(RLIMIT_AS, &lim) == 0 &&
           lim.rlim_cur != RLIM_INFINITY;
}

/* Makes *r a range of at least `bytes` for one part. */
static enum amph_status reserve_for_part(struct range *r, const char *what, size_t bytes)
{
    if (r->bytes >= bytes)
        return AMPH_OK;

    if (r->start)
        munmap(r->start, r->bytes);

    *r = (struct range){ .start = NULL };
    if (reserve_range(r, bytes))
        return AMPH_OK;

    amph_error(
        "no addresses are left for %s of %zu bytes (limit of virtual memory? see ulimit -v): %m",
        what, bytes);
    return AMPH_ERR_NOMEM;
}

/* The largest segment that may be asked for later, as far as it is known before the job is joined. */
static size_t expected_segment(void)
{
    uint64_t max = amph_arena_segment_max();
    uint64_t wanted = amph_env_is_set(AMPH_ENV_MAX_SEGSIZE) ? amph_segsize_setting(1) : max;

    return (size_t)(wanted < max ? wanted : max);
}

/* Finds addresses for a part: at offset `at` of the reserved range; in a range of its own if
 * addresses are scarce; or below 4 GiB. */
static enum amph_status find_addresses(const char *what, size_t at, size_t len_bytes,
                                       size_t page_bytes, struct range *own, bool low,
                                       char **base_p)
{
    struct range r = arena.reserved;

    if (low) {
        r = (struct range){ .start = find_low(len_bytes + page_bytes),
                            .bytes = len_bytes + page_bytes };
        at = 0;

        if (!r.start) {
            amph_error("no room for %s of %zu bytes below 4 GiB, where the 32-bit processes of "
                       "this job can address it; set a smaller "
                       "GASNET_MAX_SEGSIZE",
                       what, len_bytes);
            return AMPH_ERR_NOMEM;
        }
    } else if (!r.start) {
        enum amph_status st = reserve_for_part(own, what, len_bytes + page_bytes);

        if (st != AMPH_OK)
            return st;

        r = *own;
        at = 0;
    } else if (at + len_bytes + page_bytes > r.bytes) {
        amph_error("no room for %s of %zu bytes: only %zu bytes of addresses could be reserved",
                   what, len_bytes, r.bytes);
        return AMPH_ERR_NOMEM;
    }

    /* the range is aligned to a system page, but the job's page may be larger */
    *base_p = (char *)amph_align_up((uintptr_t)r.start, page_bytes) + at;
    return AMPH_OK;
}

/* Makes a memory object and maps it at base. */
static enum amph_status map_part(const char *what, char *base, size_t len_bytes,
                                 struct amph_arena_part *part)
{
    int fd;
    enum amph_status st = amph_shm_create(what, len_bytes, &fd);

    if (st != AMPH_OK)
        return st;

    if (mmap(base, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
             0) == MAP_FAILED) {
        amph_error("no room for %s of %zu bytes: %m", what, len_bytes);
        close(fd);
        return AMPH_ERR_NOMEM;
    }

    *part = (struct amph_arena_part){ .base = base, .len_bytes = len_bytes, .fd = fd, .offset = 0 };
    return AMPH_OK;
}

size_t amph_area_part_bytes(size_t page_bytes)
{
    uint64_t pieces = amph_env_size(AMPH_ENV_IOFWD_PIECE) *
                      (uint64_t)amph_env_int(AMPH_ENV_IOFWD_SLOTS);

    return amph_align_up(pieces + AMPH_AREA_SHARED_BYTES, page_bytes);
}

enum amph_status amph_arena_area(size_t len_bytes, size_t page_bytes,
                                 struct amph_arena_part *part_p)
{
    len_bytes = amph_align_up(len_bytes, page_bytes);
    if (len_bytes > AREA_MAX_BYTES) {
        amph_error(
            "a transfer area of %zu bytes is too large; at most %zu (see IOFWD_SLOTS, IOFWD_PIECE)",
            len_bytes, AREA_MAX_BYTES);
        return AMPH_ERR_RANGE;
    }

    char *base = NULL;

    pthread_mutex_lock(&arena.lock);

    enum amph_status st = AMPH_OK;

    if (!arena.area.base && !addresses_are_scarce())
        st = reserve(expected_segment());

    if (st == AMPH_OK && !arena.area.base)
        st = find_addresses("amphora-area", 0, len_bytes, page_bytes, &arena.area_own, false,
                            &base);

    if (st == AMPH_OK && base)
        st = map_part("amphora-area", base, len_bytes, &arena.area);

    if (st == AMPH_OK)
        *part_p = arena.area;

    pthread_mutex_unlock(&arena.lock);
    return st;
}

void amph_arena_forget_area(void)
{
    if (arena.area.base)
        close(arena.area.fd);

    memset(&arena.area, 0, sizeof arena.area);
}

void amph_arena_drop_segment(void)
{
    pthread_mutex_lock(&arena.lock);
    if (arena.segment.base) {
        atomic_store(&arena.segment_to, 0);

        /* keeps the addresses reserved */
        reserve_at(arena.segment.base, arena.segment.len_bytes, MAP_FIXED);
        close(arena.segment.fd);
        memset(&arena.segment, 0, sizeof arena.segment);
    }

    pthread_mutex_unlock(&arena.lock);
}

enum amph_status amph_arena_segment(size_t len_bytes, size_t page_bytes,
                                    struct amph_arena_part *part_p)
{
    len_bytes = amph_align_up(len_bytes, page_bytes);
    if (len_bytes > amph_arena_segment_max()) {
        amph_error("a segment of %zu bytes was asked for; a process of this host can have %zu (the "
                   "host has %" PRIu64 " bytes of memory)",
                   len_bytes, amph_arena_segment_max(), amph_phys_mem_bytes());
        return AMPH_ERR_NOMEM;
    }

    char *base = NULL;

    pthread_mutex_lock(&arena.lock);

    enum amph_status st = arena.segment.base ? AMPH_ERR_STATE : AMPH_OK;

    if (st == AMPH_OK && !arena.low && !addresses_are_scarce())
        st = reserve(len_bytes > expected_segment() ? len_bytes : expected_segment());

    if (st == AMPH_OK)
        st = find_addresses("amphora-segment", AREA_MAX_BYTES, len_bytes, page_bytes,
                            &arena.segment_own, arena.low, &base);

    if (st == AMPH_OK)
        st = map_part("amphora-segment", base, len_bytes, &arena.segment);

    if (st == AMPH_OK) {
        *part_p = arena.segment;
        atomic_fetch_add(&arena.segments_made, 1);
        atomic_store(&arena.segment_from, (uintptr_t)part_p->base);
        atomic_store(&arena.segment_to, (uintptr_t)part_p->base + len_bytes);
    }

    pthread_mutex_unlock(&arena.lock);
    return st;
}

bool amph_arena_in_segment(const void *at, size_t len_bytes, uint64_t *offset_p, uint32_t *which_p)
{
    uintptr_t to = atomic_load_explicit(&arena.segment_to, memory_order_acquire);
    uintptr_t from = atomic_load(&arena.segment_from);
    uintptr_t first = (uintptr_t)at;

    if (first < from || first >= to || len_bytes > to - first)
        return false;

    *offset_p = first - from;
    *which_p = atomic_load(&arena.segments_made);
    return true;
}

bool amph_arena_segment_now(struct amph_arena_part *part_p, uint32_t *which_p)
{
    pthread_mutex_lock(&arena.lock);
    *part_p = arena.segment;
    *which_p = atomic_load(&arena.segments_made);
    pthread_mutex_unlock(&arena.lock);

    return part_p->base != NULL;
}
