/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of the client's functions that the interposer calls.  libiofwd exports it as one
 * object, amph_fwd_interface, so that the interposer binds to one name and can check that both were
 * built from the same tree.
 *
 * Layer: iofwd.  Thread rule: constant; see client.h for the functions.
 */
#ifndef AMPH_IOFWD_INTERFACE_H
#define AMPH_IOFWD_INTERFACE_H

#include <stdint.h>

#include "iofwd/calls/client_table.h"
#include "iofwd/client/client.h"

/* Increase it when the arguments or the meaning of a function in the table change.  A function that
 * is added, removed or moved is detected without it, by size_bytes and names. */
#define AMPH_FWD_INTERFACE_VERSION 2

/* The functions that are not in calls.def. */
/* clang-format off */
#define AMPH_FWD_INTERFACE_EXTRAS(X) \
    X(process) X(process_if_open) X(file_print) X(file_parse) X(hold_only) X(fork_before) X(fork_parent) X(fork_child) \
    X(exec_begin) X(exec_end) X(spawn_before) X(spawn_after) X(inherited) X(owns_fd) X(give_up_fds) X(map_begin) X(map_end) X(set_inside) \
    X(set_cancelled) X(set_program_mask) X(wait_begin) X(wait_end) X(ending) \
    X(own_env) X(join_mpmd) X(connect_all) X(set_table_number) X(set_log_sink) X(set_host_calls) \
    X(notifier_acquire) X(notifier_drain) X(notifier_release) X(notifier_collect) X(keep_settings) X(share) X(trace_place)
/* clang-format on */

#define AMPH_FWD_INTERFACE_FUNCTIONS(X) AMPH_IP_CORE_CALLS(X) AMPH_FWD_INTERFACE_EXTRAS(X)

/* The first three members keep their place and type in every version. */
struct amph_fwd_interface {
    uint32_t version;
    uint32_t size_bytes; /* of this struct */
    const char *names;   /* of the functions below in their order, each followed by a space */

#define AMPH_FWD_INTERFACE_MEMBER(name) __typeof__(amph_fwd_##name) *name;
    AMPH_FWD_INTERFACE_FUNCTIONS(AMPH_FWD_INTERFACE_MEMBER)
#undef AMPH_FWD_INTERFACE_MEMBER
};

#define AMPH_FWD_INTERFACE_NAME(name) #name " "
#define AMPH_FWD_INTERFACE_NAMES AMPH_FWD_INTERFACE_FUNCTIONS(AMPH_FWD_INTERFACE_NAME)

extern const struct amph_fwd_interface amph_fwd_interface;

#endif
