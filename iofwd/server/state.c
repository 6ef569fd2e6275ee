/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state that all servers of a process share.
 *
 * Layer: iofwd.
 * Thread rule: see state.h.
 */
#include "iofwd/server/state.h"

_Thread_local struct amph_server_thread amph_server_thread;
struct amph_server_state amph_server_state = { .agents_lock = PTHREAD_MUTEX_INITIALIZER };
