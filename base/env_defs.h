/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every setting, one row each: ENV(id, name, type, default, unit, least, most, group, help).  Layer: base.
 *
 * type: STR, BOOL (0/1/yes/no/on/off), INT, SIZE (bytes; K, M, G, T suffix), DUR (kept in nanoseconds; ns, us, ms, s suffix, bare
 * numbers are seconds), ENUM (default lists the words: the first is the default, separated by |).
 * Rows of one group stand together: amphora-info -c prints the table in this order.
 * least and most bound INT, SIZE and DUR (0,0: unbounded).
 */
#define AMPH_ENV_TABLE(ENV) \
    ENV(CONDUIT, "AMPHORA_CONDUIT", ENUM, "auto|smp|tcp|udp|verbs", "", 0, 0, "conduits", "network that carries messages between hosts (udp and verbs: in a later release)") \
    ENV(SMP, "AMPHORA_SMP", BOOL, "1", "", 0, 0, "conduits", "peers on the same host talk through shared memory") \
    ENV(INTERFACE, "AMPHORA_INTERFACE", STR, "", "name or address", 0, 0, "conduits", "network interface or address that tcp uses; empty: loopback on one host, else the route to the launcher") \
    ENV(SERVERS, "AMPHORA_SERVERS", INT, "0", "processes", 0, 1000000, "job", "how many processes of the job are I/O servers (the last ones)") \
    ENV(JOB, "AMPHORA_JOB", STR, "", "path", 0, 0, "job", "address file of the job; set by the launcher") \
    ENV(RANK, "AMPHORA_RANK", INT, "-1", "", -1, 1000000, "job", "absolute number of this process; set by the launcher") \
    ENV(BOOT, "AMPHORA_BOOT", ENUM, "auto|launcher|pmi1|single", "", 0, 0, "job", "how this process joins its job") \
    ENV(EXITTIMEOUT, "GASNET_EXITTIMEOUT", DUR, "5s", "ns", 0, 0, "job", "how long gasnet_exit waits for the other processes") \
    ENV(WAIT, "AMPHORA_WAIT", ENUM, "adaptive|spin|block", "", 0, 0, "waiting", "what a process does while it waits") \
    ENV(SPIN, "AMPHORA_SPIN", DUR, "20us", "ns", 0, 1000000000, "waiting", "how long an adaptive wait spins before it yields") \
    ENV(STATS, "AMPHORA_STATS", BOOL, "0", "", 0, 0, "diagnostics", "print the counters when the process ends") \
    ENV(LOG, "AMPHORA_LOG", ENUM, "warn|error|info|debug", "", 0, 0, "diagnostics", "least important messages that are printed") \
    ENV(MAX_SEGSIZE, "GASNET_MAX_SEGSIZE", STR, "0.85", "bytes or fraction", 0, 0, "segments", "largest segment of a process: a size, or a fraction of physical memory shared by the processes of a host") \
    ENV(IOFWD_PREFIX, "IOFWD_PREFIX", STR, "", "PATH[=DIR][:PATH[=DIR]]...", 0, 0, "iofwd", "paths that are forwarded, and where the servers keep them") \
    ENV(IOFWD_PIECE, "IOFWD_PIECE", SIZE, "128K", "bytes", 4096, 1 << 26, "iofwd", "large reads and writes travel in pieces of this size") \
    ENV(IOFWD_SLOTS, "IOFWD_SLOTS", INT, "16", "pieces", 2, 1024, "iofwd", "data slots of a client at each of its servers") \
    ENV(IOFWD_STRIPE, "IOFWD_STRIPE", STR, "1", "[PATTERN=]WIDTH[:UNIT],...", 0, 0, "iofwd", "how many servers do a file's data, and how many bytes in a row each (no UNIT: every large call in equal parts); the first rule whose pattern fits the path counts") \
    ENV(IOFWD_OPTIONAL, "IOFWD_OPTIONAL", BOOL, "0", "", 0, 0, "iofwd", "run without forwarding where no server is found instead of failing") \
    ENV(IOFWD_DOOR, "IOFWD_DOOR", STR, "", "", 0, 0, "iofwd", "connections to I/O servers that a process hands to its next image by exec; set by Amphora") \
    ENV(ON_SERVER_DEATH, "AMPHORA_ON_SERVER_DEATH", ENUM, "end|eio", "", 0, 0, "iofwd", "what a server's death does to the job") \
    ENV(RMA, "AMPHORA_RMA", ENUM, "native|emulate", "", 0, 0, "testing", "carry put and get by messages although the conduit has its own") \
    ENV(TEST_PAGE, "AMPHORA_TEST_PAGE", SIZE, "0", "bytes", 0, 1 << 30, "testing", "pretend this page size (0: the real one)") \
    ENV(TEST_SWAP, "AMPHORA_TEST_SWAP", BOOL, "0", "", 0, 0, "testing", "pretend the other byte order: state it to peers and put wire words in the swapped order")
