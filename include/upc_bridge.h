/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UPC 1.3's run-time library in C: one UPC thread is one process of the job.  Link with
 * -lamphora-upc (pkg-config amphora-upc).
 *
 *   upc source                         C on this header
 *   ------------------------------
 *                                      ------------------------------------------------------------------------------------------
 *   THREADS, MYTHREAD                  THREADS, MYTHREAD (int; constant THREADS with
 *   -DUPC_STATIC_THREADS=n)
 *   shared [B] T a[N];                 UPC_SHARED(, a, T, B, N)              file scope; `static`
 *   goes in the empty first place
 *   shared T x = v;                    the same with 1, 1, and UPC_SHARED_INITIAL(x) { UPC_STORE(T,
 *   x, v); }
 *   extern shared [B] T a[];           extern upc_pts_t a;
 *   shared [B] T *p                    upc_pts_t p          (the layout is the caller's knowledge:
 *   block and element size)
 *   p + i, &p[i]                       upc_pts_add(p, sizeof(T), B, i)       B: 1 cyclic, 0
 *   indefinite, else the block's elements
 *   p - q, p == q, p < q               upc_pts_sub(p, q, sizeof(T), B), upc_pts_eq(p, q),
 *   upc_pts_cmp(p, q, sizeof(T), B) < 0
 *   &p->member                         upc_pts_offset(p, offsetof(T, member))
 *   NULL                               UPC_NULL (also an initialiser), upc_pts_is_null(p)
 *   (T *)p, (shared [C] U *)p          (T *)upc_pts_local(p), upc_pts_recast(p, sizeof(T), B,
 *   sizeof(U), C)
 *   relaxed v = *p;  *p = v;           UPC_LOAD(T, p), UPC_STORE(T, p, v)       T: any complete
 *   type without qualifiers
 *   strict  v = *p;  *p = v;           UPC_LOAD_STRICT(T, p), UPC_STORE_STRICT(T, p, v)
 *   upc_barrier; upc_barrier e;        upc_barrier(); upc_barrier_value(e);  and upc_notify,
 *   upc_wait likewise; upc_fence()
 *   upc_forall (a; b; c; e) S          upc_forall (a, b, c, UPC_MINE_INT(e) or UPC_MINE_PTS(e)) S;
 *   with `continue`: for (a; b; c) S
 *   upc_lock_t *, upc_file_t *,        the same; they are one C pointer whose value means the same
 *   in all threads
 *   upc_atomicdomain_t *
 *   main                               another name f, and UPC_MAIN(f) (f takes argc and argv) or
 *                                      UPC_MAIN_VOID(f) at file scope
 *
 * All other names of the library (upc_all_alloc, upc_memget, upc_all_reduceD, upc_all_fopen ...)
 * are functions of the same name and order of arguments, with upc_pts_t for each pointer-to-shared.
 *
 * Pointers-to-shared are packed in 64 bits: 10 bits of thread, 20 of phase, 34 of offset in the
 * thread's part (1024 threads, blocks of 1,048,576 elements, 16 GiB a thread).  With
 * -DUPC_PTS_STRUCT they have 16 bytes and no such limits.  All files of a program make the same
 * choice; files of different choices do not link ("multiple definition of upc_pts_form").
 *
 * The sections named in the comments are those of the UPC Language, Required Library (RL) and
 * Optional Library (OL) Specifications 1.3. Thread rule: one C thread of a process calls.  Nothing
 * here may be called in a handler. Errors of the program (a free of what was not allocated, a
 * barrier whose values differ ...) end the job with one sentence.
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
