/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of MPI-IO: the calls of iofwd/calls/mpi_io.def, caught by their names in the C interface and in
 * the profiling interface.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, as far as the MPI library allows.
 *
 * The Fortran layers of MPICH and Open MPI, mpi_f08 among them, call one of these names of the C
 * interface.  A call is recorded once, by the outermost name.  The MPI library's own functions are
 * looked up at the first call, and what a status or a datatype holds is asked of the library.
 */
#ifndef AMPH_IOFWD_MPI_IO_H
#define AMPH_IOFWD_MPI_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "iofwd/calls/mpi_io.h"
#include "iofwd/interpose/entry/record_event.h"

/* What a call does, by the last fields of mpi_io.def. */
enum amph_ip_mpi_kind {
    AMPH_IP_MPI_PLAIN,
    AMPH_IP_MPI_OPEN,
    AMPH_IP_MPI_CLOSE,
    AMPH_IP_MPI_NAME,
    AMPH_IP_MPI_SIZED,
    AMPH_IP_MPI_VIEW,
    AMPH_IP_MPI_AT,
    AMPH_IP_MPI_OWN,
    AMPH_IP_MPI_SHARED,
    AMPH_IP_MPI_END,
    AMPH_IP_MPI_INITIATED = 16 /* with it: another call completes it */
};

struct amph_ip_mpi_shape {
    const char *name;
    uint8_t kind; /* enum amph_ip_mpi_kind */
};

extern const struct amph_ip_mpi_shape amph_ip_mpi_shapes[AMPH_IP_MPI_ROWS] AMPH_HIDDEN;

/* Functions that see the ends of requests (mpi_request.c). */
enum amph_ip_mpi_wait {
    AMPH_IP_MPI_WAIT,
    AMPH_IP_MPI_WAITALL,
    AMPH_IP_MPI_WAITANY,
    AMPH_IP_MPI_WAITSOME,
    AMPH_IP_MPI_TEST,
    AMPH_IP_MPI_TESTALL,
    AMPH_IP_MPI_TESTANY,
    AMPH_IP_MPI_TESTSOME,
    AMPH_IP_MPI_WAITS
};

/* One call, in the memory of its caller.  Handles are words. */
struct amph_ip_mpi_call {
    enum amph_ip_mpi_row row;
    uintptr_t path, file, file_p, type, status, request;
    int64_t offset, count;
    int amode, whence;

    bool on;             /* it is recorded */
    int64_t byte_offset; /* of a call at the file's own pointer; below 0: not known */
    struct amph_ip_event event;
    uint64_t own_status[32]; /* for a caller that ignores the status */
};

/* Gives the MPI library's function.  status may be another one afterwards.  Does not return if the
 * library lacks the function. */
void *amph_ip_mpi_begin(struct amph_ip_mpi_call *call, bool profiling);
/* Gives the code, which the function has returned. */
int amph_ip_mpi_end(struct amph_ip_mpi_call *call, int code);

/* For mpi_request.c.  The MPI library's function; does not return if it lacks it. */
void *amph_ip_mpi_real(enum amph_ip_mpi_wait which, bool profiling);
/* The key of request number i at that address (record_request.h). */
uint64_t amph_ip_mpi_request_key(uintptr_t requests, int i);
/* The size of the library's MPI_Status; the bytes that one says, below 0: not known; the class of an error. */
size_t amph_ip_mpi_status_bytes(void);
int64_t amph_ip_mpi_bytes(uintptr_t status);
int amph_ip_mpi_error_class(int code);

#endif
