/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of Intel's PSM and PSM2 libraries, as rows of a table, for the stand-ins psm.c and
 * psm2.c.  Each function of a stand-in reports that there is no device.  Names and error numbers are
 * those of psm.h and psm2.h; the two libraries number their errors alike.
 * Layer: conduits; nothing includes this but the two stand-ins.
 *
 *   ERROR(name)    returns a psm_error_t: the error "no device"
 *   NOTHING(name)  returns a pointer or a number: NULL or 0
 */
#ifndef AMPH_PSM_H
#define AMPH_PSM_H

#define PSM_EP_NO_DEVICE 23

/* clang-format off */

#define PSM_COMMON(ERROR, NOTHING) \
    ERROR(am_get_parameters)       \
    ERROR(am_register_handlers)    \
    ERROR(am_reply_short)          \
    ERROR(am_request_short)        \
    ERROR(ep_close)                \
    ERROR(ep_connect)              \
    ERROR(ep_epid_lookup)          \
    ERROR(ep_epid_share_memory)    \
    ERROR(ep_num_devunits)         \
    ERROR(ep_open)                 \
    ERROR(ep_open_opts_get_defaults) \
    ERROR(ep_query)                \
    NOTHING(epaddr_getctxt)        \
    NOTHING(epaddr_setctxt)        \
    ERROR(epaddr_setlabel)         \
    NOTHING(epid_context)          \
    NOTHING(epid_nid)              \
    NOTHING(epid_port)             \
    ERROR(error_defer)             \
    ERROR(error_register_handler)  \
    ERROR(finalize)                \
    ERROR(getopt)                  \
    ERROR(init)                    \
    ERROR(map_nid_hostname)        \
    ERROR(mq_cancel)               \
    ERROR(mq_finalize)             \
    NOTHING(mq_get_stats)          \
    ERROR(mq_getopt)               \
    ERROR(mq_init)                 \
    ERROR(mq_ipeek)                \
    ERROR(mq_iprobe)               \
    ERROR(mq_irecv)                \
    ERROR(mq_isend)                \
    ERROR(mq_send)                 \
    ERROR(mq_setopt)               \
    ERROR(mq_test)                 \
    ERROR(mq_wait)                 \
    ERROR(poll)                    \
    ERROR(setopt)                  \
    NOTHING(uuid_generate)

#define PSM2_ONLY(ERROR, NOTHING)  \
    NOTHING(am_get_source)         \
    ERROR(am_register_handlers_2)  \
    ERROR(am_unregister_handlers)  \
    ERROR(ep_disconnect)           \
    ERROR(ep_disconnect2)          \
    ERROR(ep_epid_lookup2)         \
    ERROR(epaddr_to_epid)          \
    NOTHING(get_capability_mask)   \
    ERROR(info_query)              \
    ERROR(mq_fp_msg)               \
    ERROR(mq_improbe)              \
    ERROR(mq_improbe2)             \
    ERROR(mq_imrecv)               \
    ERROR(mq_ipeek2)               \
    ERROR(mq_ipeek_dequeue)        \
    ERROR(mq_ipeek_dequeue_multi)  \
    ERROR(mq_iprobe2)              \
    ERROR(mq_irecv2)               \
    ERROR(mq_isend2)               \
    ERROR(mq_req_free)             \
    ERROR(mq_send2)                \
    ERROR(mq_test2)                \
    ERROR(mq_wait2)

/* clang-format on */

#endif
