/* SPDX-License-Identifier: BSD-3-Clause */
/* Files.  OL 7.4. */
#ifndef UPC_IO_H
#define UPC_IO_H
#include <inttypes.h>
#include <stddef.h>
#include <upc_types.h>

typedef int64_t upc_off_t;
typedef struct upc_file upc_file_t;
struct upc_hint {
    const char *key;
    const char *value;
};
typedef struct upc_hint upc_hint_t;

#define UPC_RDONLY 1
#define UPC_WRONLY 2
#define UPC_RDWR 4
#define UPC_INDIVIDUAL_FP 8
#define UPC_COMMON_FP 16
#define UPC_APPEND 32
#define UPC_CREATE 64
#define UPC_EXCL 128
#define UPC_STRONG_CA 256
#define UPC_TRUNC 512
#define UPC_DELETE_ON_CLOSE 1024

#define UPC_SEEK_SET 0
#define UPC_SEEK_CUR 1
#define UPC_SEEK_END 2

#define UPC_GET_CA_SEMANTICS 1
#define UPC_SET_WEAK_CA_SEMANTICS 2
#define UPC_SET_STRONG_CA_SEMANTICS 3
#define UPC_GET_FP 4
#define UPC_SET_COMMON_FP 5
#define UPC_SET_INDIVIDUAL_FP 6
#define UPC_GET_FL 7
#define UPC_GET_FN 8
#define UPC_GET_HINTS 9
#define UPC_SET_HINT 10
#define UPC_ASYNC_OUTSTANDING 11

upc_file_t *upc_all_fopen(const char *fname, int flags, size_t numhints, struct upc_hint const *hints);
int upc_all_fclose(upc_file_t *fd);
int upc_all_fsync(upc_file_t *fd);
upc_off_t upc_all_fseek(upc_file_t *fd, upc_off_t offset, int origin);
int upc_all_fset_size(upc_file_t *fd, upc_off_t size);
upc_off_t upc_all_fget_size(upc_file_t *fd);
int upc_all_fpreallocate(upc_file_t *fd, upc_off_t size);
int upc_all_fcntl(upc_file_t *fd, int cmd, void *arg);

upc_off_t upc_all_fread_local(upc_file_t *fd, void *buffer, size_t size, size_t nmemb, upc_flag_t flags);
upc_off_t upc_all_fwrite_local(upc_file_t *fd, const void *buffer, size_t size, size_t nmemb, upc_flag_t flags);
upc_off_t upc_all_fread_shared(upc_file_t *fd, shared void *buffer, size_t blocksize, size_t size, size_t nmemb, upc_flag_t flags)
    __asm__("upcx_all_fread_shared");
upc_off_t upc_all_fwrite_shared(upc_file_t *fd, shared const void *buffer, size_t blocksize, size_t size, size_t nmemb, upc_flag_t flags)
    __asm__("upcx_all_fwrite_shared");

struct upc_local_memvec {
    void *baseaddr;
    size_t len;
};
struct upc_shared_memvec {
    shared void *baseaddr;
    size_t blocksize;
    size_t len;
};
struct upc_filevec {
    upc_off_t offset;
    size_t len;
};
upc_off_t upc_all_fread_list_local(upc_file_t *fd, size_t memvec_entries, struct upc_local_memvec const *memvec, size_t filevec_entries,
                                   struct upc_filevec const *filevec, upc_flag_t flags);
upc_off_t upc_all_fwrite_list_local(upc_file_t *fd, size_t memvec_entries, struct upc_local_memvec const *memvec, size_t filevec_entries,
                                    struct upc_filevec const *filevec, upc_flag_t flags);
upc_off_t upc_all_fread_list_shared(upc_file_t *fd, size_t memvec_entries, struct upc_shared_memvec const *memvec, size_t filevec_entries,
                                    struct upc_filevec const *filevec, upc_flag_t flags) __asm__("upcx_all_fread_list_shared");
upc_off_t upc_all_fwrite_list_shared(upc_file_t *fd, size_t memvec_entries, struct upc_shared_memvec const *memvec, size_t filevec_entries,
                                     struct upc_filevec const *filevec, upc_flag_t flags) __asm__("upcx_all_fwrite_list_shared");

void upc_all_fread_local_async(upc_file_t *fd, void *buffer, size_t size, size_t nmemb, upc_flag_t flags);
void upc_all_fwrite_local_async(upc_file_t *fd, const void *buffer, size_t size, size_t nmemb, upc_flag_t flags);
void upc_all_fread_shared_async(upc_file_t *fd, shared void *buffer, size_t blocksize, size_t size, size_t nmemb, upc_flag_t flags)
    __asm__("upcx_all_fread_shared_async");
void upc_all_fwrite_shared_async(upc_file_t *fd, shared const void *buffer, size_t blocksize, size_t size, size_t nmemb, upc_flag_t flags)
    __asm__("upcx_all_fwrite_shared_async");
void upc_all_fread_list_local_async(upc_file_t *fd, size_t memvec_entries, struct upc_local_memvec const *memvec, size_t filevec_entries,
                                    struct upc_filevec const *filevec, upc_flag_t flags);
void upc_all_fwrite_list_local_async(upc_file_t *fd, size_t memvec_entries, struct upc_local_memvec const *memvec, size_t filevec_entries,
                                     struct upc_filevec const *filevec, upc_flag_t flags);
void upc_all_fread_list_shared_async(upc_file_t *fd, size_t memvec_entries, struct upc_shared_memvec const *memvec, size_t filevec_entries,
                                     struct upc_filevec const *filevec, upc_flag_t flags) __asm__("upcx_all_fread_list_shared_async");
void upc_all_fwrite_list_shared_async(upc_file_t *fd, size_t memvec_entries, struct upc_shared_memvec const *memvec, size_t filevec_entries,
                                      struct upc_filevec const *filevec, upc_flag_t flags) __asm__("upcx_all_fwrite_list_shared_async");
upc_off_t upc_all_fwait_async(upc_file_t *fd);
upc_off_t upc_all_ftest_async(upc_file_t *fd, int *flag);

#endif
