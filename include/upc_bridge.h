/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UPC 1.3's run-time library as a C interface.  One UPC thread is one process of the job.  Link
 * with -lamphora-upc (pkg-config amphora-upc).
 *
 *   upc source                     C with this header
 *   -----------------------------  ---------------------------------------------------------------
 *   THREADS, MYTHREAD              THREADS, MYTHREAD (int; THREADS is a constant with
 *                                  -DUPC_STATIC_THREADS=n)
 *   shared [B] T a[N];             UPC_SHARED(, a, T, B, N) at file scope; `static` goes into the
 *                                  empty first argument
 *   shared T x = v;                UPC_SHARED(, x, T, 1, 1) and
 *                                  UPC_SHARED_INITIAL(x) { UPC_STORE(T, x, v); }
 *   extern shared [B] T a[];       extern upc_pts_t a;
 *   shared [B] T *p                upc_pts_t p; the caller knows block and element size
 *   p + i, &p[i]                   upc_pts_add(p, sizeof(T), B, i); B is 1 for cyclic, 0 for
 *                                  indefinite, else the number of elements in a block
 *   p - q                          upc_pts_sub(p, q, sizeof(T), B)
 *   p == q                         upc_pts_eq(p, q)
 *   p < q                          upc_pts_cmp(p, q, sizeof(T), B) < 0
 *   &p->member                     upc_pts_offset(p, offsetof(T, member))
 *   NULL                           UPC_NULL (also as an initialiser), upc_pts_is_null(p)
 *   (T *)p                         (T *)upc_pts_local(p)
 *   (shared [C] U *)p              upc_pts_recast(p, sizeof(T), B, sizeof(U), C)
 *   relaxed v = *p;  *p = v;       UPC_LOAD(T, p), UPC_STORE(T, p, v); T is any complete type
 *                                  without qualifiers
 *   strict  v = *p;  *p = v;       UPC_LOAD_STRICT(T, p), UPC_STORE_STRICT(T, p, v)
 *   upc_barrier; upc_barrier e;    upc_barrier(); upc_barrier_value(e); likewise upc_notify and
 *                                  upc_wait
 *   upc_fence;                     upc_fence()
 *   upc_forall (a; b; c; e) S      upc_forall (a, b, c, UPC_MINE_INT(e) or UPC_MINE_PTS(e)) S;
 *   upc_forall (...; continue)     for (a; b; c) S
 *   upc_lock_t *, upc_file_t *,    the same: C pointers whose value is valid in all threads
 *   upc_atomicdomain_t *
 *   main                           a function f of another name, and at file scope UPC_MAIN(f)
 *                                  (f takes argc and argv) or UPC_MAIN_VOID(f)
 *
 * All other names of the library (upc_all_alloc, upc_memget, upc_all_reduceD, upc_all_fopen ...)
 * are functions with the same name and order of arguments, with upc_pts_t for each
 * pointer-to-shared.
 *
 * Pointers-to-shared are packed in 64 bits: 10 bits of thread, 20 of phase, 34 of offset in the
 * thread's part (1024 threads, blocks of 1,048,576 elements, 16 GiB a thread).  With
 * -DUPC_PTS_STRUCT they have 16 bytes and no such limits.  All files of a program must make the
 * same choice; files of different choices do not link ("multiple definition of upc_pts_form").
 *
 * Section numbers in the comments refer to the UPC Language, Required Library (RL) and Optional
 * Library (OL) Specifications 1.3.
 *
 * Thread rule: only one C thread of a process may call.  Nothing here may be called from a handler.
 * Errors of the program (freeing memory that was not allocated, a barrier with different values
 * ...) end the job with one sentence.
 */
#ifndef UPC_BRIDGE_H
#define UPC_BRIDGE_H

#ifdef __cplusplus
#error "upc_bridge.h is for C"
#endif
#ifdef GASNET_PARSYNC
#error \
    "a UPC thread is a process: upc_bridge.h goes with GASNET_SEQ (the default) and not with GASNET_PARSYNC"
#endif
#ifdef GASNET_PAR
#error \
    "a UPC thread is a process: upc_bridge.h goes with GASNET_SEQ (the default) and not with GASNET_PAR"
#endif
#ifndef GASNET_SEQ
#define GASNET_SEQ 1
#endif

#include "amphora/upc/pts.h"
#include "amphora/upc/core.h"
#include "amphora/upc/access.h"
#include "amphora/upc/memory.h"
#include "amphora/upc/types.h"
#include "amphora/upc/collective.h"
#include "amphora/upc/atomic.h"
#include "amphora/upc/io.h"
#include "amphora/upc/version.h"

#endif
