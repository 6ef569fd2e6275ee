/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UPC-IO on shared buffers for translated programs: see translated.c.
 *
 * Layer: upc-bridge.  Thread rule: any thread.
 */
#include <stddef.h>

#include "upc-bridge/translated/translated.h"

#define UPCX_BUFFER \
    (upc_file_t * fd, upc_pts_t buffer, size_t blocksize, size_t size, size_t nmemb, \
     upc_flag_t flags)
#define UPCX_BUFFER_ARGS (fd, buffer, blocksize, size, nmemb, flags)
#define UPCX_LIST \
    (upc_file_t * fd, size_t nmem, struct upc_shared_memvec const *mem, size_t nfile, \
     struct upc_filevec const *file, upc_flag_t flags)
#define UPCX_LIST_ARGS (fd, nmem, mem, nfile, file, flags)

/* clang-format off */
UPCX_VALUE(upc_off_t, all_fread_shared, UPCX_BUFFER, UPCX_BUFFER_ARGS)
UPCX_VALUE(upc_off_t, all_fwrite_shared, UPCX_BUFFER, UPCX_BUFFER_ARGS)
UPCX_VOID(all_fread_shared_async, UPCX_BUFFER, UPCX_BUFFER_ARGS)
UPCX_VOID(all_fwrite_shared_async, UPCX_BUFFER, UPCX_BUFFER_ARGS)
UPCX_VALUE(upc_off_t, all_fread_list_shared, UPCX_LIST, UPCX_LIST_ARGS)
UPCX_VALUE(upc_off_t, all_fwrite_list_shared, UPCX_LIST, UPCX_LIST_ARGS)
UPCX_VOID(all_fread_list_shared_async, UPCX_LIST, UPCX_LIST_ARGS)
UPCX_VOID(all_fwrite_list_shared_async, UPCX_LIST, UPCX_LIST_ARGS)
/* clang-format on */
