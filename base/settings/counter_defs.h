/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every counter of a process, one row each: COUNTER(id, name, kind, unit, help).  Layer: base.
 *
 * kind: COUNT (only grows) or LEVEL (the present amount).  AMPHORA_STATS prints the rows; iofwd-ctl
 * shows them as text and JSON; man/counters.c makes amphora-counters(7) of them.  Rows named
 * server_ belong to an I/O server.
 */
#define AMPH_COUNTER_TABLE(COUNTER) \
    COUNTER(AM_REQUESTS, "am_requests", COUNT, "messages", "active-message requests sent") \
    COUNTER(AM_REPLIES, "am_replies", COUNT, "messages", "active-message replies sent") \
    COUNTER(AM_RECEIVED, "am_received", COUNT, "messages", \
            "active messages whose handler was run") \
    COUNTER(AM_AGAIN, "am_again", COUNT, "times", "sends that found no room and polled") \
    COUNTER(PUT_NET, "put_net", COUNT, "transfers", "puts that went over a conduit") \
    COUNTER(GET_NET, "get_net", COUNT, "transfers", "gets that went over a conduit") \
    COUNTER(BLOCKED, "blocked", COUNT, "times", "waits that slept in the kernel") \
    COUNTER(WAKES_SENT, "wakes_sent", COUNT, "times", "sleeping peers that were woken") \
    COUNTER(DROP_COOKIE, "drop_cookie", COUNT, "messages", \
            "messages dropped because their cookie was wrong") \
    COUNTER(DROP_MALFORMED, "drop_malformed", COUNT, "messages", \
            "messages dropped because they did not parse") \
    COUNTER(DROP_STRANGER, "drop_stranger", COUNT, "connections", \
            "unauthenticated connections refused") \
    COUNTER(IOFWD_REFUSED, "iofwd_refused", COUNT, "times", \
            "requests and connections refused because this I/O server ran short of resources") \
    COUNTER(UDP_PACKETS, "udp_packets", COUNT, "packets", "packets that the udp conduit sent") \
    COUNTER(UDP_RESENT, "udp_resent", COUNT, "packets", \
            "segments that the udp conduit sent again") \
    COUNTER(UDP_LOST, "udp_lost", COUNT, "packets", \
            "packets that AMPHORA_UDP_LOSS or AMPHORA_UDP_LOSE_HANDLER discarded") \
    COUNTER(IOFWD_CALLS, "iofwd_calls", COUNT, "calls", "file calls forwarded by this client") \
    COUNTER(IOFWD_BYTES_OUT, "iofwd_bytes_out", COUNT, "bytes", \
            "file data sent to servers by this client") \
    COUNTER(IOFWD_BYTES_IN, "iofwd_bytes_in", COUNT, "bytes", \
            "file data received from servers by this client") \
    COUNTER(IOFWD_BYTES_IN_PLACE, "iofwd_bytes_in_place", COUNT, "bytes", \
            "of both: bytes that servers read from or wrote to the program's segment directly") \
    COUNTER(IOFWD_PASSED, "iofwd_passed", COUNT, "calls", \
            "calls on forwarded files by descriptors that servers have passed " \
            "(IOFWD_PASSTHROUGH)") \
    COUNTER(IOFWD_LOCAL, "iofwd_local", COUNT, "calls", \
            "intercepted calls that were executed locally") \
    COUNTER(SERVER_CLIENTS, "server_clients", LEVEL, "clients", \
            "clients attached to this I/O server") \
    COUNTER(SERVER_FILES, "server_files", LEVEL, "files", "files open at this I/O server") \
    COUNTER(SERVER_QUEUED, "server_queued", LEVEL, "requests", \
            "requests that wait at this I/O server, or that its threads work on") \
    COUNTER(SERVER_MEMORY, "server_memory", LEVEL, "bytes", \
            "memory that these requests take, and receive areas of clients on other hosts") \
    COUNTER(SERVER_CALLS, "server_calls", COUNT, "calls", \
            "file calls that this I/O server has executed") \
    COUNTER(SERVER_ERRORS, "server_errors", COUNT, "calls", "of these: calls that gave an error") \
    COUNTER(SERVER_BYTES_WRITTEN, "server_bytes_written", COUNT, "bytes", \
            "file data that clients have written by this I/O server") \
    COUNTER(SERVER_BYTES_PIPED, "server_bytes_piped", COUNT, "bytes", \
            "of these: bytes that the server has moved from clients' pipes to the file without " \
            "another copy (IOFWD_PIPES)") \
    COUNTER( \
        SERVER_BYTES_RECEIVED, "server_bytes_received", COUNT, "bytes", \
        "of these: bytes that clients on other hosts have put into the server's memory before " \
        "their requests") \
    COUNTER(SERVER_PASSED, "server_passed", COUNT, "files", \
            "descriptors of files that the server has passed to clients (IOFWD_PASSTHROUGH)") \
    COUNTER(SERVER_CALLS_PASSED, "server_calls_passed", COUNT, "calls", \
            "of server_calls: calls that clients made by such descriptors") \
    COUNTER(SERVER_BYTES_READ, "server_bytes_read", COUNT, "bytes", \
            "file data that clients have read by this I/O server") \
    COUNTER(SERVER_FILE_NS, "server_file_ns", COUNT, "ns", \
            "time that file calls have taken in the server") \
    COUNTER(SERVER_TO_WORKERS, "server_to_workers", COUNT, "requests", \
            "requests that were handed to worker threads") \
    COUNTER(SERVER_MALFORMED, "server_malformed", COUNT, "requests", "requests that did not parse")
