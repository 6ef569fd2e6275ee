/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pointer for each thread.  GASNet tools spec, "Thread-specific data".  In a client of one thread
 * a plain variable.
 *
 *   GASNETT_THREADKEY_DEFINE(key);     at file scope, in one file
 *   GASNETT_THREADKEY_DECLARE(key);    where other files use it
 *   gasnett_threadkey_set(key, ptr), gasnett_threadkey_get(key)   NULL at first
 * The variable needs no initialisation; gasnett_threadkey_init and the _noinit forms are there for
 * those who call them.
 */
#ifndef AMPHORA_TOOLS_THREADKEY_H
#define AMPHORA_TOOLS_THREADKEY_H

#include "amphora/tools/base.h"

#if AMPHORA_TOOLS_SAFE
#define AMPHORA_THREADKEY_STORAGE __thread
#else
#define AMPHORA_THREADKEY_STORAGE
#endif

#define GASNETT_THREADKEY_DECLARE(key) extern AMPHORA_THREADKEY_STORAGE void *amphora_key_##key
#define GASNETT_THREADKEY_DEFINE(key) \
    GASNETT_THREADKEY_DECLARE(key); \
    AMPHORA_THREADKEY_STORAGE void *amphora_key_##key = 0

#define gasnett_threadkey_init(key) ((void)&amphora_key_##key)
#define gasnett_threadkey_get(key) ((void *)amphora_key_##key)
#define gasnett_threadkey_set(key, val) ((void)(amphora_key_##key = (void *)(val)))
#define gasnett_threadkey_get_noinit(key) gasnett_threadkey_get(key)
#define gasnett_threadkey_set_noinit(key, val) gasnett_threadkey_set(key, val)

#endif
