/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process's shareable memory: one reserved range of addresses, laid out [ iofwd transfer area |
 * client segment ].  Each part is a memory object (memfd) of its own.
 *
 * Layer: base.  Thread rule: any thread; calls that change the arena take its lock.
 *
 * Peers on the same host map a part by opening /proc/PID/fd/FD (amph_shm_map_peer), so nothing is
 * ever left in the file system.
 */
#ifndef AMPH_BASE_ARENA_H
#define AMPH_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

struct amph_arena_part {
    void *base; /* address in this process; NULL: not made yet */
    size_t len_bytes;
    int fd;          /* its memfd, owned by the arena */
    uint64_t offset; /* of its first byte in the memfd */
};

/* Makes the transfer area at the front of the arena; later calls return the same area.  page_bytes:
 * the job's page size.  Errors: AMPH_ERR_NOMEM, AMPH_ERR_RANGE (too large). */
enum amph_status amph_arena_area(size_t len_bytes, size_t page_bytes,
                                 struct amph_arena_part *part_p);

/* At the end of each part of a transfer area: what the client and the server share besides data. */
#define AMPH_AREA_SHARED_BYTES 4096u

/* Bytes of a transfer area's part for one server, by the settings (IOFWD_SLOTS pieces of
 * IOFWD_PIECE), with AMPH_AREA_SHARED_BYTES. */
size_t amph_area_part_bytes(size_t page_bytes);

/* For a forked child, whose mapping of the area is shared with the parent: the next amph_arena_area
 * makes the child's own area at the same address.  The child must have one thread only. */
void amph_arena_forget_area(void);

/* From now on, memory for peers is mapped below 4 GiB.  Called if the job has processes with 32-bit
 * pointers, which could not address it otherwise. */
void amph_arena_stay_low(void);

/* Maps the object fd, shared, at an address that every process of the job can represent.  Returns
 * MAP_FAILED with errno.  The caller unmaps it with munmap. */
void *amph_arena_map(size_t len_bytes, int fd);

/* Makes the client segment, behind the addresses that are reserved for the area.  Untouched pages use
 * no memory.  Errors: AMPH_ERR_NOMEM (logged with the requested and the available size),
 * AMPH_ERR_STATE (there is a segment already). */
enum amph_status amph_arena_segment(size_t len_bytes, size_t page_bytes,
                                    struct amph_arena_part *part_p);

/* The maximum size of a segment: the host's memory, or less if this process or a peer has 32-bit
 * pointers. */
size_t amph_arena_segment_max(void);

/* GASNET_MAX_SEGSIZE in bytes for one process.  The setting is a size or a fraction of physical
 * memory, followed by "/P" (for each process; the default of a size) or "/H" (for all processes of
 * a host; the default of a fraction).  Ends the process with a message if it does not parse. */
uint64_t amph_segsize_setting(uint32_t procs_on_host);

/* Frees the segment; amph_arena_segment may be called again.  No peer may still have it mapped. */
void amph_arena_drop_segment(void);

/* Is the range of len_bytes at `at` inside the client segment?  If so, *offset_p is its offset and
 * *which_p identifies the segment: each segment of this process has another number.  Takes no lock. */
bool amph_arena_in_segment(const void *at, size_t len_bytes, uint64_t *offset_p, uint32_t *which_p);
/* The current segment; false: no segment. */
bool amph_arena_segment_now(struct amph_arena_part *part_p, uint32_t *which_p);

/* Makes a shared-memory object of len_bytes without a name in the file system, close-on-exec.  The
 * caller owns the descriptor. */
enum amph_status amph_shm_create(const char *label, size_t len_bytes, int *fd_p);

/* Sets what amph_shm_create calls where this process's limit of file sizes (ulimit -f) is too small:
 * a process without that limit makes the object and passes its descriptor.  NULL: nothing. */
void amph_shm_set_maker(enum amph_status (*fn)(void *arg, size_t len_bytes, int *fd_p), void *arg);

/* Maps len_bytes at offset of the object that process pid has open as descriptor fd.  The caller
 * unmaps it with munmap.  Errors: AMPH_ERR_PEER (gone), AMPH_ERR_DENIED, AMPH_ERR_NOMEM. */
enum amph_status amph_shm_map_peer(pid_t pid, int fd, uint64_t offset, size_t len_bytes,
                                   void **addr_p);

/* The page size that this process reports to peers: AMPHORA_TEST_PAGE or the system's. */
size_t amph_page_bytes(void);

/* The width of pointers that this process reports to peers: AMPHORA_TEST_WIDTH's or the real one. */
uint8_t amph_pointer_bytes(void);

/* Physical memory of this host in bytes, and how much of it is available now. */
uint64_t amph_phys_mem_bytes(void);
uint64_t amph_avail_mem_bytes(void);

#endif
