/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of calls that are not the C library's: MPI-IO and messages.  They may contain recorded file
 * calls.
 *
 * Layer: iofwd (interposer).  Thread rule: see record.h.
 */
#ifndef AMPH_IOFWD_RECORD_EVENT_H
#define AMPH_IOFWD_RECORD_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "iofwd/trace/format.h"

/* Numbers of their names in a file, beside those of the C library's functions. */
enum {
    AMPH_IP_EVENT_MPI_IO = 1 << 14, /* + the row of mpi_io.def */
    AMPH_IP_EVENT_MESSAGE = AMPH_IP_EVENT_MPI_IO + 256,
    AMPH_IP_EVENT_REQUEST = AMPH_IP_EVENT_MPI_IO + 448, /* record_request.h */
    AMPH_IP_EVENTS = 512
};

/* One call, in the memory of its caller, who fills call.has, side and what they say is valid. */
struct amph_ip_event {
    unsigned number;  /* of its name */
    const char *name; /* for the file's first call of this number */
    struct amph_trace_call call;

    union amph_trace_slot *slot; /* the recorder's own */
    uint64_t slot_number;
    uint32_t serial;
};

/* What libiofwd_messages finds in this library, by the name amph_ip_event_calls. */
struct amph_ip_event_calls {
    unsigned (*kinds)(void); /* AMPH_RECORD_ bits of IOFWD_RECORD */
    bool (*wanted)(void);
    void (*begin)(struct amph_ip_event *event);
    uint64_t (*now)(void);
    void (*end)(struct amph_ip_event *event);
};

extern const struct amph_ip_event_calls amph_ip_event_calls __attribute__((visibility("default")));

/* Are calls recorded? */
bool amph_ip_event_wanted(void);
/* Writes down that the call begins, with what is filled up to now; sets call.start_ns. */
void amph_ip_event_begin(struct amph_ip_event *event);
/* The thread's time, for call.end_ns. */
uint64_t amph_ip_event_now(void);
/* Writes the whole call. */
void amph_ip_event_end(struct amph_ip_event *event);

/* The number of a path, for call.file. */
uint64_t amph_ip_event_path(const char *path);

#endif
