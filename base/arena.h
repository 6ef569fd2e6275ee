/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process's shareable memory: one reserved range of addresses, laid out [ iofwd transfer area |
 * client segment ], each part a memory object (memfd) of its own. Layer: base.  Thread rule: the
 * two calls that change it are serialised inside; the fields are read-only afterwards.
 *
 * Peers on the same host map it by opening /proc/PID/fd/FD (amph_shm_open_peer), so nothing is ever
 * left in the file system.
 */
#ifndef AMPH_BASE_ARENA_H
#define AMPH_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

struct amph_arena_part {
    void *base; /* where it lies in this process; NULL: not made yet */
    size_t len_bytes;
    int fd;          /* memfd that holds it (owned by the arena) */
    uint64_t offset; /* where it starts in the memfd */
};

/* Makes the transfer area at the front of the arena (first call only; later calls give the same
 * area back). page_bytes: the job's page size.  Errors: AMPH_ERR_NOMEM. */
enum amph_status amph_arena_area(size_t len_bytes, size_t page_bytes,
                                 struct amph_arena_part *part_p);

/* Bytes of a transfer area's part for one server, as the settings ask for it (IOFWD_SLOTS pieces of
 * IOFWD_PIECE). */
size_t amph_area_part_bytes(size_t page_bytes);

/* In a forked child, which shares the parent's area by its mapping: the next amph_arena_area makes
 * one of the child's own, at the same place.  The child's calling thread must be its only one. */
void amph_arena_forget_area(void);

/* Says that the job has processes with pointers of 32 bits: what is mapped for peers from now on
 * lies below 4 GiB, so that those processes have addresses for it. */
void amph_arena_stay_low(void);

/* Maps the object fd, shared, anywhere that all processes of the job can address; MAP_FAILED
 * (errno).  Unmap with munmap. */
void *amph_arena_map(size_t len_bytes, int fd);

/* Makes a client segment behind the area's place (room for which is always kept).  Untouched pages
 * use no memory. Errors: AMPH_ERR_NOMEM (with a sentence: asked, available), AMPH_ERR_STATE (made
 * already). */
enum amph_status amph_arena_segment(size_t len_bytes, size_t page_bytes,
                                    struct amph_arena_part *part_p);

/* The largest segment that a process of this host can have: its memory, and less where pointers are
 * narrow, or a peer's. */
size_t amph_arena_segment_max(void);

/* GASNET_MAX_SEGSIZE in bytes of one process: a size, or a fraction of physical memory; "/P" of a
 * process (a size's default), "/H" of a host's processes together (a fraction's default).  Ends the
 * process with a sentence where it cannot be read. */
uint64_t amph_segsize_setting(uint32_t procs_on_host);

/* Gives the segment's memory back; amph_arena_segment may be called again.  No peer may have it
 * mapped any more. */
void amph_arena_drop_segment(void);

/* Does len_bytes at `at` lie in the client segment?  Then offset_p, and which_p: a number that no
 * other segment of this process has had. Cheap, any thread. */
bool amph_arena_in_segment(const void *at, size_t len_bytes, uint64_t *offset_p, uint32_t *which_p);
/* The segment as it is now.  false: there is none. */
bool amph_arena_segment_now(struct amph_arena_part *part_p, uint32_t *which_p);

/* Makes an anonymous shared-memory object of len_bytes that no path leads to, close-on-exec; the
 * descriptor is the caller's. */
enum amph_status amph_shm_create(const char *label, size_t len_bytes, int *fd_p);

/* Maps len_bytes at offset of the object that process pid holds as descriptor fd.  Unmap with
 * munmap. Errors: AMPH_ERR_PEER (gone), AMPH_ERR_DENIED, AMPH_ERR_NOMEM. */
enum amph_status amph_shm_map_peer(pid_t pid, int fd, uint64_t offset, size_t len_bytes,
                                   void **addr_p);

/* The page size this process states to others: AMPHORA_TEST_PAGE or the system's. */
size_t amph_page_bytes(void);

/* The width of pointers this process states to others: AMPHORA_TEST_WIDTH's or the real one. */
uint8_t amph_pointer_bytes(void);

/* Physical memory of this host in bytes, and how much of it is available now. */
uint64_t amph_phys_mem_bytes(void);
uint64_t amph_avail_mem_bytes(void);

#endif
