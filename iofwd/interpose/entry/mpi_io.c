/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of MPI-IO; see mpi_io.h.
 *
 * Layer: iofwd (interposer).  Thread rule: see mpi_io.h.
 */
#include "iofwd/interpose/entry/mpi_io.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/record_request.h"
#include "iofwd/interpose/loader/dl_error.h"
#include "iofwd/interpose/process/die.h"

enum {
    FILES = 1024,            /* open files whose path is remembered */
    SEQUENTIAL = 256,        /* MPI_MODE_SEQUENTIAL of both libraries: the file has no offsets */
    MPICH_STATUS = 5 * 4,    /* bytes of MPI_Status by that interface */
    OPEN_MPI_STATUS = 24,    /* and of Open MPI's */
    MPICH_BYTE = 0x4c00010d, /* MPI_BYTE by the interface that MPICH and its relatives share */
    NAME_BYTES = 64,
    LIBRARIES = 16
};

/* Functions of the MPI library that say what an argument means. */
enum {
    TYPE_SIZE,
    GET_ELEMENTS,
    ERROR_CLASS,
    GET_POSITION,
    GET_BYTE_OFFSET,
    ASKED
};

static const char *const asked_names[ASKED] = { "PMPI_Type_size_x", "PMPI_Get_elements_x",
                                                "PMPI_Error_class", "PMPI_File_get_position",
                                                "PMPI_File_get_byte_offset" };

/* Written by any thread: real and asked with the same value by all, files under its lock. */
static struct {
    void *real[2][AMPH_IP_MPI_ROWS]; /* by the C interface, and by the profiling interface */
    void *waits[2][AMPH_IP_MPI_WAITS];
    void *asked[ASKED];
    uintptr_t byte; /* the datatype MPI_BYTE */
    char files_busy;
    struct open_file {
        uintptr_t handle; /* 0: free */
        uint64_t path;
        int amode;
    } files[FILES];
} mpi;

/* ---- the library ---- */

struct libraries {
    const char *path[LIBRARIES]; /* of MPI libraries, which stay loaded */
    unsigned n;
};

static int take_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct libraries *libraries = arg;
    const char *slash = strrchr(info->dlpi_name, '/');

    if (strncmp(slash ? slash + 1 : info->dlpi_name, "libmp", 5) == 0)
        libraries->path[libraries->n++] = info->dlpi_name;

    return libraries->n == LIBRARIES;
}

/* A library that was loaded for itself, as Python's mpi4py loads it, is not among those that come
 * next. */
static void *look_up(const char *symbol)
{
    struct libraries libraries = { .n = 0 };

    amph_ip_dl_error_keep();

    void *found = dlsym(RTLD_NEXT, symbol);

    if (!found)
        dl_iterate_phdr(take_library, &libraries);
    for (unsigned i = 0; i < libraries.n && !found; i++) {
        void *handle = dlopen(libraries.path[i], RTLD_LAZY | RTLD_NOLOAD);

        if (handle) {
            found = dlsym(handle, symbol);
            dlclose(handle);
        }
    }

    amph_ip_dl_error_restore();
    return found;
}

static void *find_real(void **real, bool profiling, const char *name)
{
    void *found = __atomic_load_n(real, __ATOMIC_RELAXED);
    char symbol[NAME_BYTES];

    if (AMPH_LIKELY(found != NULL))
        return found;

    snprintf(symbol, sizeof symbol, "%s%s", profiling ? "P" : "", name);
    found = look_up(symbol);
    if (!found)
        amph_ip_die(
            127,
            "this program calls %s, which no MPI library that it has loaded offers; link it "
            "with one",
            symbol);

    __atomic_store_n(real, found, __ATOMIC_RELAXED);
    return found;
}

static void *real_of(enum amph_ip_mpi_row row, bool profiling)
{
    return find_real(&mpi.real[profiling][row], profiling, amph_ip_mpi_shapes[row].name);
}

void *amph_ip_mpi_real(enum amph_ip_mpi_wait which, bool profiling)
{
    static const char *const names[AMPH_IP_MPI_WAITS] = {
        [AMPH_IP_MPI_WAIT] = "MPI_Wait",       [AMPH_IP_MPI_WAITALL] = "MPI_Waitall",
        [AMPH_IP_MPI_WAITANY] = "MPI_Waitany", [AMPH_IP_MPI_WAITSOME] = "MPI_Waitsome",
        [AMPH_IP_MPI_TEST] = "MPI_Test",       [AMPH_IP_MPI_TESTALL] = "MPI_Testall",
        [AMPH_IP_MPI_TESTANY] = "MPI_Testany", [AMPH_IP_MPI_TESTSOME] = "MPI_Testsome",
    };

    return find_real(&mpi.waits[profiling][which], profiling, names[which]);
}

/* NULL: the library has no such function. */
static void *asked_of(unsigned which)
{
    void *found = __atomic_load_n(&mpi.asked[which], __ATOMIC_RELAXED);

    if (!found) {
        found = look_up(asked_names[which]);
        __atomic_store_n(&mpi.asked[which], found, __ATOMIC_RELAXED);
    }

    return found;
}

static uintptr_t byte_type(void)
{
    uintptr_t byte = __atomic_load_n(&mpi.byte, __ATOMIC_RELAXED);

    if (!byte) {
        void *open_mpi = look_up("ompi_mpi_byte");

        byte = open_mpi ? (uintptr_t)open_mpi : MPICH_BYTE;
        __atomic_store_n(&mpi.byte, byte, __ATOMIC_RELAXED);
    }

    return byte;
}

static bool is_mpich(void)
{
    return byte_type() == MPICH_BYTE;
}

size_t amph_ip_mpi_status_bytes(void)
{
    return is_mpich() ? MPICH_STATUS : OPEN_MPI_STATUS;
}

/* A handle is an int of MPICH's, and a pointer of Open MPI's. */
uint64_t amph_ip_mpi_request_key(uintptr_t requests, int i)
{
    uint64_t handle = is_mpich() ? ((const uint32_t *)requests)[i]
                                 : ((const uintptr_t *)requests)[i];

    return amph_ip_request_key(AMPH_IP_REQUEST_MPI, handle);
}

/* ---- what arguments mean; below 0: not known ---- */

static int64_t size_of_type(uintptr_t type)
{
    int (*type_size)(uintptr_t, int64_t *) = (int (*)(uintptr_t, int64_t *))asked_of(TYPE_SIZE);
    int64_t size = -1;

    return type_size && type_size(type, &size) == 0 ? size : -1;
}

int64_t amph_ip_mpi_bytes(uintptr_t status)
{
    int (*elements)(uintptr_t, uintptr_t,
                    int64_t *) = (int (*)(uintptr_t, uintptr_t, int64_t *))asked_of(GET_ELEMENTS);
    int64_t bytes = -1;

    return elements && elements(status, byte_type(), &bytes) == 0 ? bytes : -1;
}

int amph_ip_mpi_error_class(int code)
{
    int (*error_class)(int, int *) = (int (*)(int, int *))asked_of(ERROR_CLASS);
    int class = code;

    return error_class && error_class(code, &class) == 0 ? class : code;
}

/* An offset of the file's view in bytes of the file. */
static int64_t in_bytes(uintptr_t file, int64_t offset)
{
    int (*byte_offset)(uintptr_t, int64_t, int64_t *) = (int (*)(
        uintptr_t, int64_t, int64_t *))asked_of(GET_BYTE_OFFSET);
    int64_t bytes = -1;

    return byte_offset && byte_offset(file, offset, &bytes) == 0 ? bytes : -1;
}

static int64_t own_position(uintptr_t file)
{
    int (*position)(uintptr_t, int64_t *) = (int (*)(uintptr_t, int64_t *))asked_of(GET_POSITION);
    int64_t at = -1;

    return position && position(file, &at) == 0 ? in_bytes(file, at) : -1;
}

/* ---- open files ---- */

/* The place of a handle, or a free one.  NULL: there is neither.  Under the lock. */
static struct open_file *find(uintptr_t handle)
{
    for (unsigned i = 0; i < FILES; i++) {
        struct open_file *f = &mpi.files[(handle / 16 + i) % FILES];

        if (f->handle == handle || !f->handle)
            return f;
    }

    return NULL;
}

static void lock(void)
{
    while (__atomic_test_and_set(&mpi.files_busy, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void unlock(void)
{
    __atomic_clear(&mpi.files_busy, __ATOMIC_RELEASE);
}

static void remember(uintptr_t handle, uint64_t path, int amode)
{
    if (!handle)
        return;

    lock();

    struct open_file *f = find(handle);

    if (f)
        *f = (struct open_file){ handle, path, amode };

    unlock();
}

static struct open_file look_at(uintptr_t handle)
{
    struct open_file none = { 0 };

    lock();

    struct open_file *f = find(handle);
    struct open_file copy = f && f->handle == handle ? *f : none;

    unlock();
    return copy;
}

/* ---- one call ---- */

static unsigned kind_of(const struct amph_ip_mpi_call *call)
{
    return amph_ip_mpi_shapes[call->row].kind & ~(unsigned)AMPH_IP_MPI_INITIATED;
}

static bool is_initiated(const struct amph_ip_mpi_call *call)
{
    return amph_ip_mpi_shapes[call->row].kind & AMPH_IP_MPI_INITIATED;
}

static uintptr_t handle_of(const struct amph_ip_mpi_call *call)
{
    return call->file_p ? *(const uintptr_t *)call->file_p : call->file;
}

static void name_path(struct amph_ip_mpi_call *call)
{
    if (call->path) {
        call->event.call.file = amph_ip_event_path((const char *)call->path);
        call->event.call.has |= AMPH_TRACE_HAS_PATH;
    }
}

/* Before the call: whatever is not there any more after it. */
static void look_before(struct amph_ip_mpi_call *call)
{
    struct amph_trace_call *c = &call->event.call;
    unsigned kind = kind_of(call);
    bool opens = kind == AMPH_IP_MPI_OPEN;
    struct open_file file = { 0 };

    call->byte_offset = -1;
    if (opens || kind == AMPH_IP_MPI_NAME)
        name_path(call);
    else {
        file = look_at(handle_of(call));
        c->file = file.path;
    }

    if (kind == AMPH_IP_MPI_OWN && file.handle && !(file.amode & SEQUENTIAL))
        call->byte_offset = own_position(call->file);

    if (opens || call->row == AMPH_IP_MPI_seek || call->row == AMPH_IP_MPI_seek_shared) {
        c->flags = (uint32_t)(opens ? call->amode : call->whence);
        c->has |= AMPH_TRACE_HAS_FLAGS;
    }

    /* both libraries: MPI_STATUS_IGNORE is one of the first two addresses */
    if (call->status <= 1)
        call->status = (uintptr_t)call->own_status;
}

void *amph_ip_mpi_begin(struct amph_ip_mpi_call *call, bool profiling)
{
    void *real = real_of(call->row, profiling);
    uintptr_t outer = (uintptr_t)amph_ip_thread.mpi_call;

    /* a call that a jump has left behind lies below this one */
    if (!amph_ip_event_wanted() || (outer && outer > (uintptr_t)call))
        return real;

    call->on = true;
    amph_ip_thread.mpi_call = call;
    call->event.number = AMPH_IP_EVENT_MPI_IO + call->row;
    call->event.name = amph_ip_mpi_shapes[call->row].name;
    call->event.call.side = AMPH_TRACE_MPI_IO;
    look_before(call);
    amph_ip_event_begin(&call->event);
    return real;
}

static void put_offset(struct amph_trace_call *c, int64_t offset)
{
    if (offset >= 0) {
        c->offset = offset;
        c->has |= AMPH_TRACE_HAS_OFFSET;
    }
}

/* A transfer: what was asked for, what was moved, and where. */
static void put_transfer(struct amph_ip_mpi_call *call)
{
    struct amph_trace_call *c = &call->event.call;
    unsigned kind = kind_of(call);
    int64_t size = kind == AMPH_IP_MPI_END ? -1 : size_of_type(call->type);
    int64_t moved = is_initiated(call) ? -1 : amph_ip_mpi_bytes(call->status);

    if (size >= 0 && call->count >= 0) {
        c->length = (uint64_t)(size * call->count);
        c->has |= AMPH_TRACE_HAS_LENGTH;
    }

    if (moved >= 0)
        c->result = moved;
    if (kind == AMPH_IP_MPI_AT)
        put_offset(c, in_bytes(call->file, call->offset));
    if (kind == AMPH_IP_MPI_OWN)
        put_offset(c, call->byte_offset);
}

/* Of a call that has succeeded. */
static void look_after(struct amph_ip_mpi_call *call)
{
    struct amph_trace_call *c = &call->event.call;

    switch (kind_of(call)) {
    case AMPH_IP_MPI_OPEN:
        remember(handle_of(call), c->file, call->amode);
        break;
    case AMPH_IP_MPI_SIZED:
    case AMPH_IP_MPI_VIEW:
        put_offset(c, call->offset);
        break;
    case AMPH_IP_MPI_AT:
    case AMPH_IP_MPI_OWN:
    case AMPH_IP_MPI_SHARED:
    case AMPH_IP_MPI_END:
        put_transfer(call);
        break;
    default:
        if (c->has & AMPH_TRACE_HAS_FLAGS)
            put_offset(c, call->offset);
    }
}

/* The request that a call has started: what it moves, the call that sees its end learns. */
static void start_request(const struct amph_ip_mpi_call *call)
{
    bool reads = strstr(amph_ip_mpi_shapes[call->row].name, "read") != NULL;
    struct amph_trace_call c = call->event.call;

    c.start_ns++;
    c.end_ns = 0;
    c.result = 0;
    amph_ip_request_start(amph_ip_mpi_request_key(call->request, 0),
                          reads ? AMPH_IP_MPI_ASYNC_READ : AMPH_IP_MPI_ASYNC_WRITE, &c);
}

int amph_ip_mpi_end(struct amph_ip_mpi_call *call, int code)
{
    struct amph_trace_call *c = &call->event.call;

    if (!call->on)
        return code;

    c->end_ns = amph_ip_event_now();
    if (code == 0)
        look_after(call);
    else {
        c->result = -1;
        c->err = (uint16_t)amph_ip_mpi_error_class(code);
        c->has |= AMPH_TRACE_HAS_FAILED;
    }

    amph_ip_event_end(&call->event);
    if (code == 0 && call->request)
        start_request(call);

    amph_ip_thread.mpi_call = NULL;
    return code;
}
