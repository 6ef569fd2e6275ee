/* SPDX-License-Identifier: BSD-3-Clause */
/* Every counter of a process, one row each: COUNTER(id, name, unit, help).  Layer: base. */
#define AMPH_COUNTER_TABLE(COUNTER) \
    COUNTER(AM_REQUESTS, "am_requests", "messages", "active-message requests sent") \
    COUNTER(AM_REPLIES, "am_replies", "messages", "active-message replies sent") \
    COUNTER(AM_RECEIVED, "am_received", "messages", "active messages whose handler was run") \
    COUNTER(AM_AGAIN, "am_again", "times", "sends that found no room and polled") \
    COUNTER(PUT_NET, "put_net", "transfers", "puts that went over a conduit") \
    COUNTER(GET_NET, "get_net", "transfers", "gets that went over a conduit") \
    COUNTER(BLOCKED, "blocked", "times", "waits that slept in the kernel") \
    COUNTER(WAKES_SENT, "wakes_sent", "times", "sleeping peers that were woken") \
    COUNTER(DROP_COOKIE, "drop_cookie", "messages", \
            "messages dropped because their cookie was wrong") \
    COUNTER(DROP_MALFORMED, "drop_malformed", "messages", \
            "messages dropped because they did not parse") \
    COUNTER(DROP_STRANGER, "drop_stranger", "connections", "unauthenticated connections refused") \
    COUNTER(IOFWD_REFUSED, "iofwd_refused", "times", \
            "requests and connections refused because this I/O server ran short of resources") \
    COUNTER(UDP_PACKETS, "udp_packets", "packets", "packets that the udp conduit sent") \
    COUNTER(UDP_RESENT, "udp_resent", "packets", "segments that the udp conduit sent again") \
    COUNTER(UDP_LOST, "udp_lost", "packets", \
            "packets that AMPHORA_UDP_LOSS or AMPHORA_UDP_LOSE_HANDLER discarded") \
    COUNTER(IOFWD_CALLS, "iofwd_calls", "calls", "file calls forwarded by this client") \
    COUNTER(IOFWD_BYTES_OUT, "iofwd_bytes_out", "bytes", \
            "file data sent to servers by this client") \
    COUNTER(IOFWD_BYTES_IN, "iofwd_bytes_in", "bytes", \
            "file data received from servers by this client") \
    COUNTER(IOFWD_BYTES_IN_PLACE, "iofwd_bytes_in_place", "bytes", \
            "of both: bytes that servers read from or wrote to the program's segment directly") \
    COUNTER(IOFWD_LOCAL, "iofwd_local", "calls", "intercepted calls that were executed locally")
