/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UPC-IO: collective file access.  OL 7.4 (upc_io.h).
 *
 * Paths below a forwarded prefix (amphora-run -iofwd) are files of the job's I/O servers, others of
 * this host.  A file is the plain sequence of its bytes; ls, cp, mv and rm are those of the system.
 * All functions are collective, none may be called between upc_notify and upc_wait; arguments are the
 * same in all threads except where it says own.  They return -1 (or NULL) and set errno on errors.
 * flags: RL 7.3.3, for the buffers in memory; with UPC_STRONG_CA always ALLSYNC.
 *
 * Consistency: what a thread has written it reads itself at once, others after upc_all_fsync or
 * upc_all_fclose; with UPC_STRONG_CA others read it when the call has returned, and calls of
 * several threads that overlap take effect one after the other, each as a whole.
 */
#ifndef AMPHORA_UPC_IO_H
#define AMPHORA_UPC_IO_H

#include "amphora/upc/memory.h"
#include "amphora/upc/types.h"
#include "amphora/upc/io_words.h"

/* ---- files (7.4.3) ---- */

/* flags: one of RDONLY, WRONLY, RDWR and one of INDIVIDUAL_FP, COMMON_FP, with others.  Hints that
 * count: file_perm (octal), collective_buffering (true, false), cb_buffer_size (bytes), cb_nodes
 * (threads that write and read for all), striping_unit (bytes). fname: own, of one file.  The
 * error, with NULL, is the same in all threads. */
upc_file_t *upc_all_fopen(const char *fname, int flags, size_t numhints,
                          struct upc_hint const *hints);
int upc_all_fclose(upc_file_t *fd);
int upc_all_fsync(upc_file_t *fd);
/* offset, origin: own with individual file pointers.  Gives the position. */
upc_off_t upc_all_fseek(upc_file_t *fd, upc_off_t offset, int origin);
int upc_all_fset_size(upc_file_t *fd, upc_off_t size);
upc_off_t upc_all_fget_size(upc_file_t *fd);
int upc_all_fpreallocate(upc_file_t *fd, upc_off_t size);
/* UPC_GET_FN writes a const char * to *arg, UPC_GET_HINTS a const upc_hint_t * (and gives their
 * number); UPC_SET_HINT takes one. */
int upc_all_fcntl(upc_file_t *fd, int cmd, void *arg);

/* ---- reading and writing at the file pointer (7.4.4, 7.4.5) ---- */

upc_off_t amphora_upc_fread_shared(upc_file_t *fd, struct upc_wide buffer, size_t blocksize,
                                   size_t size, size_t nmemb, upc_flag_t flags);
upc_off_t amphora_upc_fwrite_shared(upc_file_t *fd, struct upc_wide buffer, size_t blocksize,
                                    size_t size, size_t nmemb, upc_flag_t flags);
void amphora_upc_fread_shared_async(upc_file_t *fd, struct upc_wide buffer, size_t blocksize,
                                    size_t size, size_t nmemb, upc_flag_t flags);
void amphora_upc_fwrite_shared_async(upc_file_t *fd, struct upc_wide buffer, size_t blocksize,
                                     size_t size, size_t nmemb, upc_flag_t flags);

/* size * nmemb bytes of a private (or own shared) buffer, all own; individual file pointers only.
 * Give how many bytes were moved: fewer than asked for at the end of the file. */
upc_off_t upc_all_fread_local(upc_file_t *fd, void *buffer, size_t size, size_t nmemb,
                              upc_flag_t flags);
upc_off_t upc_all_fwrite_local(upc_file_t *fd, const void *buffer, size_t size, size_t nmemb,
                               upc_flag_t flags);

/* The same with buffer: shared [blocksize] of nmemb elements of size bytes, blocksize in elements,
 * 0: indefinite; it may begin inside a block, at the buffer's phase.  With individual file pointers
 * all arguments are own; with the common one they are the same, and the array is moved once by all
 * together. */
AMPHORA_INLINE upc_off_t upc_all_fread_shared(upc_file_t *fd, upc_pts_t buffer, size_t blocksize,
                                              size_t size, size_t nmemb, upc_flag_t flags)
{
    return amphora_upc_fread_shared(fd, upc_pts_wide(buffer), blocksize, size, nmemb, flags);
}

AMPHORA_INLINE upc_off_t upc_all_fwrite_shared(upc_file_t *fd, upc_pts_t buffer, size_t blocksize,
                                               size_t size, size_t nmemb, upc_flag_t flags)
{
    return amphora_upc_fwrite_shared(fd, upc_pts_wide(buffer), blocksize, size, nmemb, flags);
}

/* ---- lists (7.4.6): own memory vectors to or from own file vectors, in order; the file pointers
 * stay ---- */

typedef struct upc_local_memvec {
    void *baseaddr;
    size_t len;
} upc_local_memvec_t;

typedef struct upc_shared_memvec {
    upc_pts_t baseaddr; /* its phase counts bytes */
    size_t blocksize;   /* bytes; 0: indefinite */
    size_t len;
} upc_shared_memvec_t;

/* In order of offset. */
typedef struct upc_filevec {
    upc_off_t offset;
    size_t len;
} upc_filevec_t;

/* form: UPC_PTS_FORM of the pointers in memvec. */
upc_off_t amphora_upc_list_shared(upc_file_t *fd, size_t memvec_entries, const void *memvec,
                                  size_t filevec_entries, struct upc_filevec const *filevec,
                                  upc_flag_t flags, int form, int writing, int async);

upc_off_t upc_all_fread_list_local(upc_file_t *fd, size_t memvec_entries,
                                   struct upc_local_memvec const *memvec, size_t filevec_entries,
                                   struct upc_filevec const *filevec, upc_flag_t flags);
upc_off_t upc_all_fwrite_list_local(upc_file_t *fd, size_t memvec_entries,
                                    struct upc_local_memvec const *memvec, size_t filevec_entries,
                                    struct upc_filevec const *filevec, upc_flag_t flags);
AMPHORA_INLINE upc_off_t upc_all_fread_list_shared(upc_file_t *fd, size_t memvec_entries,
                                                   struct upc_shared_memvec const *memvec,
                                                   size_t filevec_entries,
                                                   struct upc_filevec const *filevec,
                                                   upc_flag_t flags)
{
    return amphora_upc_list_shared(fd, memvec_entries, memvec, filevec_entries, filevec, flags,
                                   UPC_PTS_FORM, 0, 0);
}

AMPHORA_INLINE upc_off_t upc_all_fwrite_list_shared(upc_file_t *fd, size_t memvec_entries,
                                                    struct upc_shared_memvec const *memvec,
                                                    size_t filevec_entries,
                                                    struct upc_filevec const *filevec,
                                                    upc_flag_t flags)
{
    return amphora_upc_list_shared(fd, memvec_entries, memvec, filevec_entries, filevec, flags,
                                   UPC_PTS_FORM, 1, 0);
}

/* ---- asynchronous forms (7.4.7): at most one under way on a file; buffers are the library's until
 * the wait, lists are not ---- */

void upc_all_fread_local_async(upc_file_t *fd, void *buffer, size_t size, size_t nmemb,
                               upc_flag_t flags);
void upc_all_fwrite_local_async(upc_file_t *fd, const void *buffer, size_t size, size_t nmemb,
                                upc_flag_t flags);
AMPHORA_INLINE void upc_all_fread_shared_async(upc_file_t *fd, upc_pts_t buffer, size_t blocksize,
                                               size_t size, size_t nmemb, upc_flag_t flags)
{
    amphora_upc_fread_shared_async(fd, upc_pts_wide(buffer), blocksize, size, nmemb, flags);
}

AMPHORA_INLINE void upc_all_fwrite_shared_async(upc_file_t *fd, upc_pts_t buffer, size_t blocksize,
                                                size_t size, size_t nmemb, upc_flag_t flags)
{
    amphora_upc_fwrite_shared_async(fd, upc_pts_wide(buffer), blocksize, size, nmemb, flags);
}

void upc_all_fread_list_local_async(upc_file_t *fd, size_t memvec_entries,
                                    struct upc_local_memvec const *memvec, size_t filevec_entries,
                                    struct upc_filevec const *filevec, upc_flag_t flags);
void upc_all_fwrite_list_local_async(upc_file_t *fd, size_t memvec_entries,
                                     struct upc_local_memvec const *memvec, size_t filevec_entries,
                                     struct upc_filevec const *filevec, upc_flag_t flags);
AMPHORA_INLINE void upc_all_fread_list_shared_async(upc_file_t *fd, size_t memvec_entries,
                                                    struct upc_shared_memvec const *memvec,
                                                    size_t filevec_entries,
                                                    struct upc_filevec const *filevec,
                                                    upc_flag_t flags)
{
    (void)amphora_upc_list_shared(fd, memvec_entries, memvec, filevec_entries, filevec, flags,
                                  UPC_PTS_FORM, 0, 1);
}

AMPHORA_INLINE void upc_all_fwrite_list_shared_async(upc_file_t *fd, size_t memvec_entries,
                                                     struct upc_shared_memvec const *memvec,
                                                     size_t filevec_entries,
                                                     struct upc_filevec const *filevec,
                                                     upc_flag_t flags)
{
    (void)amphora_upc_list_shared(fd, memvec_entries, memvec, filevec_entries, filevec, flags,
                                  UPC_PTS_FORM, 1, 1);
}

/* Wait for it, and give what the blocking call would have; the test sets *flag to 1 and does so, or
 * to 0 and gives 0. */
upc_off_t upc_all_fwait_async(upc_file_t *fd);
upc_off_t upc_all_ftest_async(upc_file_t *fd, int *flag);

#endif
