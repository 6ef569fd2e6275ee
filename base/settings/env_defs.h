/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every setting, one row each: ENV(id, name, type, default, unit, min, max, group, help).
 *
 * Layer: base.
 *
 * type: STR, BOOL (0/1/yes/no/on/off), INT, SIZE (bytes; K, M, G, T suffix), DUR (kept in
 * nanoseconds; ns, us, ms, s suffix, bare numbers are seconds), ENUM (default lists the words: the
 * first is the default, separated by |). Rows of one group are next to each other: amphora-info -c prints
 * the table in this order. min and max bound INT, SIZE and DUR (0, 0: unbounded).
 */
#include <stdint.h>

#include "base/settings/env_accepted.h"

#define AMPH_CONDUIT_NETWORKS "tcp|udp|verbs" /* those that reach other hosts */
#define AMPH_CONDUIT_NAMES "smp|" AMPH_CONDUIT_NETWORKS
#define AMPH_CONDUIT_WORDS "auto|" AMPH_CONDUIT_NAMES /* also what amphora-run -conduit takes */
#define AMPH_ENV_TABLE(ENV) \
    ENV(CONDUIT, "AMPHORA_CONDUIT", ENUM, AMPH_CONDUIT_WORDS, "", 0, 0, "conduits", \
        "network that carries messages between hosts") \
    ENV(SMP, "AMPHORA_SMP", BOOL, "1", "", 0, 0, "conduits", \
        "peers on the same host talk through shared memory") \
    ENV(INTERFACE, "AMPHORA_INTERFACE", STR, "", "name or address", 0, 0, "conduits", \
        "network interface or address that tcp and udp use; empty: loopback on one host, else " \
        "the route to the launcher") \
    ENV(TCP_TIMEOUT, "AMPHORA_TCP_TIMEOUT", DUR, "60s", "ns", 0, 0, "conduits", \
        "time for which the kernel of a peer's host answers neither data nor connections of the " \
        "tcp conduit, after which its processes count as dead (0: never, then the kernel's own " \
        "limit holds)") \
    ENV(UDP_PORT, "AMPHORA_UDP_PORT", ENUM, "auto|socket|ofi", "", 0, 0, "conduits", \
        "what the udp conduit sends datagrams through: a kernel socket, or libfabric's udp " \
        "provider; auto: the faster, as measured") \
    ENV(UDP_MAC, "AMPHORA_UDP_MAC", BOOL, "1", "", 0, 0, "conduits", \
        "packets of the udp conduit carry message authentication codes; 0: only for a network on " \
        "which nobody can inject packets, and for all processes of a job alike") \
    ENV(UDP_TIMEOUT, "AMPHORA_UDP_TIMEOUT", DUR, "600s", "ns", 0, 0, "conduits", \
        "time without an acknowledgement after which the udp conduit counts a peer as dead (0: " \
        "never)") \
    ENV(UDP_MEMORY, "AMPHORA_UDP_MEMORY", SIZE, "64M", "bytes", 1 << 20, 1 << 30, "conduits", \
        "memory for received messages that a process has not delivered yet, on udp") \
    ENV(SERVERS, "AMPHORA_SERVERS", INT, "0", "processes", 0, 1000000, "job", \
        "how many processes of the job are I/O servers (the last ones)") \
    ENV(JOB, "AMPHORA_JOB", STR, "", "path", 0, 0, "job", \
        "address file of the job; set by the launcher") \
    ENV(JOB_WAIT, "AMPHORA_JOB_WAIT", DUR, "0", "ns", 0, 86400000000000, "job", \
        "how long a process waits for the address file to appear") \
    ENV(OMPI_RANK, "OMPI_COMM_WORLD_RANK", STR, "", "number", 0, 0, "job", \
        "number of this process in an Open MPI program: which standing I/O server is its first") \
    ENV(PMIX_RANK, "PMIX_RANK", STR, "", "number", 0, 0, "job", "the same under PMIx") \
    ENV(PMI_RANK, "PMI_RANK", STR, "", "number", 0, 0, "job", "the same under PMI") \
    ENV(SLURM_PROCID, "SLURM_PROCID", STR, "", "number", 0, 0, "job", "the same under Slurm") \
    ENV(RANK, "AMPHORA_RANK", INT, "-1", "", -1, 1000000, "job", \
        "absolute number of this process; set by the launcher") \
    ENV(BOOT, "AMPHORA_BOOT", ENUM, "auto|standing|launcher|pmix|pmi2|pmi1|single", "", 0, 0, \
        "job", "how this process joins its job") \
    ENV(MPI_SINGLETONS, "AMPHORA_MPI_SINGLETONS", BOOL, "0", "", 0, 0, "job", \
        "amphora-run starts several processes of an Open MPI program although each is a job of " \
        "its own, instead of refusing") \
    ENV(SSH, "AMPHORA_SSH", STR, "ssh", "command", 0, 0, "job", \
        "how amphora-run reaches other hosts: a command, to which the host's name and a line for " \
        "its shell are added") \
    ENV(SSH_TIMEOUT, "AMPHORA_SSH_TIMEOUT", DUR, "30s", "ns", 0, 0, "job", \
        "a host whose agent has not answered within this time counts as unreachable") \
    ENV(SSH_FANOUT, "AMPHORA_SSH_FANOUT", INT, "16", "hosts", 1, 100000, "job", \
        "how many hosts amphora-run, and each host's agent, starts by itself; the rest are " \
        "started by those") \
    ENV(HEARTBEAT, "AMPHORA_HEARTBEAT", DUR, "20s", "ns", 0, 0, "job", \
        "a host that is silent for this long counts as lost, and the job ends (0: never)") \
    ENV(EXITTIMEOUT, "GASNET_EXITTIMEOUT", DUR, "5s", "ns", 0, 0, "job", \
        "how long gasnet_exit waits for the other processes; default: the smaller of _MAX and " \
        "_MIN + " \
        "processes * _FACTOR") \
    ENV(EXITTIMEOUT_MAX, "GASNET_EXITTIMEOUT_MAX", DUR, "60s", "ns", 0, 0, "job", \
        "see GASNET_EXITTIMEOUT") \
    ENV(EXITTIMEOUT_MIN, "GASNET_EXITTIMEOUT_MIN", DUR, "5s", "ns", 0, 0, "job", \
        "see GASNET_EXITTIMEOUT") \
    ENV(EXITTIMEOUT_FACTOR, "GASNET_EXITTIMEOUT_FACTOR", DUR, "0", "ns", 0, 0, "job", \
        "see GASNET_EXITTIMEOUT") \
    ENV(PSHM_NODES, "GASNET_PSHM_NODES", INT, "0", "processes", 0, 1000000, "job", \
        "how many processes a program that was built for smp becomes when it is started by " \
        "itself; 0: one") \
    ENV(SUPERNODE_MAXSIZE, "GASNET_SUPERNODE_MAXSIZE", INT, "0", "processes", 0, 1000000, "job", \
        "maximum number of a host's processes that share memory (0: all); with the conduit smp " \
        "it has " \
        "no effect") \
    ENV(MAX_THREADS, "GASNET_MAX_THREADS", INT, "65536", "threads", 1, 65536, "job", \
        "what gex_System_QueryMaxThreads returns in PAR and PARSYNC; it limits nothing") \
    ENV(TMPDIR, "GASNET_TMPDIR", STR, "", "directory", 0, 0, "job", \
        "where amphora-run keeps the job's files, instead of TMPDIR or /tmp") \
    ENV(FS_SYNC, "GASNET_FS_SYNC", BOOL, "0", "", 0, 0, "job", \
        "write all cached file data back (sync) when a process exits") \
    ENV(WAIT, "AMPHORA_WAIT", ENUM, "adaptive|spin|block", "", 0, 0, "waiting", \
        "what a process does while it waits") \
    ENV(PROGRESS_THREAD, "AMPHORA_PROGRESS_THREAD", BOOL, "0", "", 0, 0, "waiting", \
        "a thread of the library receives messages and runs handlers (clients with threads, " \
        "GASNET_PAR)") \
    ENV(RCV_THREAD, "GASNET_RCV_THREAD", BOOL, "0", "", 0, 0, "waiting", \
        "the same as AMPHORA_PROGRESS_THREAD") \
    ENV(SPIN, "AMPHORA_SPIN", DUR, "20us", "ns", 0, 1000000000, "waiting", \
        "how long an adaptive wait spins before it yields") \
    ENV(STATS, "AMPHORA_STATS", BOOL, "0", "", 0, 0, "diagnostics", \
        "print the counters when the process ends") \
    ENV(LOG, "AMPHORA_LOG", ENUM, "warn|error|info|debug", "", 0, 0, "diagnostics", \
        "least important messages that are printed") \
    ENV(LOG_FORMAT, "AMPHORA_LOG_FORMAT", ENUM, "text|json", "", 0, 0, "diagnostics", \
        "form of messages: text, or json: an object a line with time, level, process, request " \
        "and " \
        "message") \
    ENV(VERBOSEENV, "GASNET_VERBOSEENV", BOOL, "0", "", 0, 0, "diagnostics", \
        "process 0 prints each setting when it is first used") \
    ENV(BACKTRACE, "GASNET_BACKTRACE", BOOL, "0", "", 0, 0, "diagnostics", \
        "print a backtrace on fatal errors and fatal signals") \
    ENV(BACKTRACE_NODES, "GASNET_BACKTRACE_NODES", STR, "*", "ranks such as 0,2-4", 0, 0, \
        "diagnostics", "processes that may print one (*: all)") \
    ENV(BACKTRACE_TYPE, "GASNET_BACKTRACE_TYPE", STR, "", "names, commas between", 0, 0, \
        "diagnostics", \
        "kinds of backtrace, in the order of trying: EXECINFO, GDB, and the client's own; empty: " \
        "the client's own, EXECINFO, GDB") \
    ENV(BACKTRACE_MT, "GASNET_BACKTRACE_MT", BOOL, "1", "", 0, 0, "diagnostics", \
        "a backtrace by GDB shows all threads, not the calling one only") \
    ENV(BACKTRACE_SIGNAL, "GASNET_BACKTRACE_SIGNAL", STR, "", "signal", 0, 0, "diagnostics", \
        "signal (SIGUSR1, usr1, 10) on which a process prints a backtrace and continues") \
    ENV(FREEZE, "GASNET_FREEZE", BOOL, "0", "", 0, 0, "diagnostics", \
        "each process waits for a debugger when it starts") \
    ENV(FREEZE_ON_ERROR, "GASNET_FREEZE_ON_ERROR", BOOL, "0", "", 0, 0, "diagnostics", \
        "a process waits for a debugger on fatal errors and fatal signals") \
    ENV(FREEZE_SIGNAL, "GASNET_FREEZE_SIGNAL", STR, "", "signal", 0, 0, "diagnostics", \
        "signal on which a process waits for a debugger") \
    ENV(NO_CATCH_SIGNAL, "GASNET_NO_CATCH_SIGNAL", STR, "", "signals, commas between", 0, 0, \
        "diagnostics", \
        "fatal signals that are not caught (*: all): no backtrace, no freeze, and what stdio " \
        "holds is lost") \
    ENV(TSC_RATE, "GASNET_TSC_RATE", STR, "", "Hz or measure", 0, 0, "diagnostics", \
        "rate of the processor's time counter; empty: measured") \
    ENV(VIS_AMPIPE, "GASNET_VIS_AMPIPE", BOOL, "1", "", 0, 0, "transfers", \
        "pack short runs of vector, indexed and strided transfers into messages") \
    ENV(VIS_MAXCHUNK, "GASNET_VIS_MAXCHUNK", SIZE, "16K", "bytes", 1, 1 << 30, "transfers", \
        "runs of at least this size are transferred by themselves") \
    ENV(MAX_SEGSIZE, "GASNET_MAX_SEGSIZE", STR, "0.85", "bytes or fraction", 0, 0, "segments", \
        "largest segment of a process: a size, or a fraction of physical memory shared by the " \
        "processes of a host") \
    ENV(UPC_HEAP, "AMPHORA_UPC_HEAP", SIZE, "0", "bytes", 0, 0, "segments", \
        "shared memory of a UPC thread, half of it for arrays and half for upc_alloc (0: the " \
        "largest possible; at most 16G " \
        "with packed pointers)") \
    ENV(IOFWD_PREFIX, "IOFWD_PREFIX", STR, "", "PATH[=DIR][:PATH[=DIR]]...", 0, 0, "iofwd", \
        "paths that are forwarded, and where the servers keep them") \
    ENV(IOFWD_READONLY, "IOFWD_READONLY", STR, "", "PATH[:PATH]...", 0, 0, "iofwd", \
        "paths of IOFWD_PREFIX that the servers serve read-only (EROFS)") \
    ENV(IOFWD_PIECE, "IOFWD_PIECE", SIZE, "256K", "bytes", 4096, 1 << 26, "iofwd", \
        "large reads and writes travel in pieces of at most this size; the size in use is tuned " \
        "by " \
        "measurement") \
    ENV(IOFWD_BLKSIZE, "IOFWD_BLKSIZE", SIZE, "32K", "bytes", 0, 1 << 24, "iofwd", \
        "minimum st_blksize (preferred size of calls) that stat reports for a forwarded regular " \
        "file; 0: the value of the server's file system") \
    ENV(IOFWD_SLOTS, "IOFWD_SLOTS", INT, "16", "pieces", 2, 1024, "iofwd", \
        "data slots of a client at each of its servers") \
    ENV(IOFWD_PASSTHROUGH, "IOFWD_PASSTHROUGH", BOOL, "1", "", 0, 0, "iofwd", \
        "a server passes the descriptors of regular files and directories to processes of its " \
        "host that could open them without it, which then read, write and look up names without " \
        "messages; 0, at the server or at the process: it does not, so that the server executes " \
        "all calls") \
    ENV(IOFWD_NEAR, "IOFWD_NEAR", BOOL, "1", "", 0, 0, "iofwd", \
        "a program on the host of standing servers, of their user and with their view of files, " \
        "opens files itself, and looks up and changes names itself; 0, or " \
        "IOFWD_PASSTHROUGH=0: the servers do that") \
    ENV(IOFWD_PIPES, "IOFWD_PIPES", INT, "16", "pipes", 0, 4096, "iofwd", \
        "maximum number of pipes of a server, through which large writes of processes on its " \
        "host " \
        "travel, so that their data is copied once instead of twice; 0: none") \
    ENV(IOFWD_READERS, "IOFWD_READERS", INT, "2", "threads", 1, 16, "iofwd", \
        "maximum number of threads of a server that read one call's data for a client of its " \
        "host, " \
        "if there are cores for them") \
    ENV(IOFWD_DIRECT, "IOFWD_DIRECT", BOOL, "0", "", 0, 0, "iofwd", \
        "the servers move aligned file data past their page cache (O_DIRECT)") \
    ENV(IOFWD_CONSISTENCY, "IOFWD_CONSISTENCY", ENUM, "posix|session", "", 0, 0, "iofwd", \
        "posix: a write has been executed when it returns; session: small consecutive calls are " \
        "coalesced, and other processes see them after fsync or close (except calls at an offset " \
        "that processes share)") \
    ENV(IOFWD_CACHE_AGE, "IOFWD_CACHE_AGE", INT, "10", "ms", 0, 60000, "iofwd", \
        "how long a process may use data and attributes that it has read ahead from servers of " \
        "its own host without asking again.  It notices all changes that are made through the " \
        "servers; this bounds how late it notices those of other programs.  0: each call asks") \
    ENV(IOFWD_BLOCKS, "IOFWD_BLOCKS", INT, "4", "blocks", 1, 16, "iofwd", \
        "how many pieces of IOFWD_PIECE a file may hold for write-behind or read-ahead at one " \
        "time") \
    ENV(IOFWD_THREADS, "IOFWD_THREADS", INT, "4", "threads", 1, 64, "iofwd", \
        "maximum number of threads of a process that execute its non-blocking reads and writes") \
    ENV(IOFWD_STRIPE, "IOFWD_STRIPE", STR, "1", "[PATTERN=]WIDTH[:UNIT],...", 0, 0, "iofwd", \
        "how many servers hold a file's data, and how many consecutive bytes each (no UNIT: " \
        "every " \
        "large call is split into equal parts); the first rule whose pattern matches the path " \
        "applies") \
    ENV(IOFWD_OPTIONAL, "IOFWD_OPTIONAL", BOOL, "0", "", 0, 0, "iofwd", \
        "run without forwarding if no server is found, instead of failing") \
    ENV(IOFWD_TRACE, "IOFWD_TRACE", STR, "", "1, all, FILE or all,FILE", 0, 0, "iofwd", \
        "print each forwarded file call as a line, on standard error or to the end of FILE; all: " \
        "also the calls that stayed local, and why") \
    ENV(IOFWD_TRACE_DIR, "IOFWD_TRACE_DIR", STR, "", "path", 0, 0, "iofwd", \
        "folder that gets a record of each file call, for iofwd-trace; empty: none") \
    ENV(IOFWD_RECORD, "IOFWD_RECORD", STR, "", "am, rma, coll, commas between", 0, 0, "iofwd", \
        "what else is recorded of programs that use libamphora.so: active messages, puts and " \
        "gets, " \
        "collectives; with rma, those between processes of one host pass through the library too") \
    ENV(IOFWD_TRACE_BUDGET, "IOFWD_TRACE_BUDGET", SIZE, "256M", "bytes", 1 << 20, \
        (int64_t)1 << 40, "iofwd", \
        "bytes of records for each thread; calls beyond them are summed up by file, with the " \
        "first errors and the slowest calls") \
    ENV(IOFWD_TRACE_PACK, "IOFWD_TRACE_PACK", SIZE, "1M", "bytes", 0, (int64_t)1 << 50, "iofwd", \
        "-record of iofwd-run and amphora-run compresses the records at the end of the run if " \
        "they take at least this many bytes on disk; 0: never") \
    ENV(IOFWD_IO_URING, "IOFWD_IO_URING", BOOL, "0", "", 0, 0, "iofwd", \
        "programs with a forwarded prefix may use io_uring, for files of their own host only; 0: " \
        "setting up a ring fails with ENOSYS, and they use other calls") \
    ENV(IOFWD_STRICT, "IOFWD_STRICT", BOOL, "0", "", 0, 0, "iofwd", \
        "refuse to start programs whose file calls cannot be forwarded (static ones, Go's, those " \
        "of another machine or with rights of their own), instead of printing a warning") \
    ENV(IOFWD_TRAP_FDS, "IOFWD_TRAP_FDS", STR, "512-1023", "[0-LOW,]FIRST-LAST", 0, 0, "iofwd", \
        "the descriptors of forwarded files in a program of iofwd-run -trap; below 1024 they " \
        "suit " \
        "select; dup2 makes them also of those up to LOW (2), as a shell's exec 3>FILE needs.  " \
        "Calls " \
        "on all of these descriptors cost a change of process, also those on local files") \
    ENV(IOFWD_CC, "IOFWD_CC", STR, "cc", "compiler", 0, 0, "iofwd", \
        "the compiler of iofwd-cc where its command line names none, with options if need be") \
    ENV(IOFWD_CXX, "IOFWD_CXX", STR, "c++", "compiler", 0, 0, "iofwd", \
        "the compiler of iofwd-c++ where its command line names none") \
    ENV(IOFWD_FC, "IOFWD_FC", STR, "gfortran", "compiler", 0, 0, "iofwd", \
        "the compiler of iofwd-fc where its command line names none") \
    ENV(IOFWD_CC_LINK, "IOFWD_CC_LINK", ENUM, "auto|dynamic|static|none", "", 0, 0, "iofwd", \
        "how iofwd-cc links programs: dynamic: with the preload library; static: by the linker's " \
        "--wrap; none: without forwarding; auto: as the compiler says that it takes the C " \
        "library") \
    ENV(IOFWD_CC_RETRY, "IOFWD_CC_RETRY", INT, "0", "times", 0, 100, "iofwd", \
        "how often iofwd-cc runs a compiler again that has crashed (a signal, an internal error)") \
    ENV(IOFWD_INHERITED, "IOFWD_PRIVATE_CLIENT", STR, "", "", 0, 0, "iofwd", \
        "connections to I/O servers that a process hands to its next image by exec; set by " \
        "Amphora") \
    ENV(IOFWD_CLIENTS, "IOFWD_CLIENTS", INT, "512", "clients", 1, 60000, "iofwd", \
        "clients beside the compute processes (children, commands, attached programs) that a " \
        "server takes at one time") \
    ENV(IOFWD_CLIENT_FILES, "IOFWD_CLIENT_FILES", INT, "65536", "files", 1, 1000000, "iofwd", \
        "open files that a server keeps for one client; the next open gives EMFILE") \
    ENV(IOFWD_CLIENT_MEMORY, "IOFWD_CLIENT_MEMORY", SIZE, "256M", "bytes", 1048576, 1ull << 40, \
        "iofwd", \
        "memory that a server keeps for one client's waiting requests; further ones give ENOMEM") \
    ENV(IOFWD_SERVER_MEMORY, "IOFWD_SERVER_MEMORY", SIZE, "0", "bytes", 0, 1ull << 50, "iofwd", \
        "memory for the waiting requests of all clients together (further ones give ENOMEM); 0: " \
        "a quarter of the host's") \
    ENV(IOFWD_SERVER_HOST, "IOFWD_SERVER_HOST", STR, "", "host", 0, 0, "iofwd", \
        "a process that belongs to no job starts an I/O server of its own there, by ssh or, on " \
        "its own host, by fork") \
    ENV(IOFWD_OWN_SERVERS, "IOFWD_PRIVATE_SERVERS", STR, "", "", 0, 0, "iofwd", \
        "the private server of an ancestor of this process; set by Amphora") \
    ENV(IOFWD_RANK_SOCKETS, "IOFWD_PRIVATE_RANK", STR, "", "", 0, 0, "iofwd", \
        "sockets by which the processes of one rank of another launcher's job agree which of " \
        "them joins it; set by Amphora") \
    ENV(IOFWD_SERVER_PATH, "IOFWD_SERVER_PATH", STR, "", "path", 0, 0, "iofwd", \
        "the program that IOFWD_SERVER_HOST starts; empty: iofwd-server of this installation") \
    ENV(IOFWD_SERVER_SSH, "IOFWD_SERVER_SSH", STR, "ssh -o BatchMode=yes", "command", 0, 0, \
        "iofwd", "the command that takes a host and a command line, for IOFWD_SERVER_HOST") \
    ENV(ON_SERVER_DEATH, "AMPHORA_ON_SERVER_DEATH", ENUM, "end|eio|failover", "", 0, 0, "iofwd", \
        "what a server's death does to the job") \
    ENV(MR_DEBUG, "AMPHORA_MR_DEBUG", BOOL, "0", "", 0, 0, "testing", \
        "impose the rules of the strictest cards (registered memory, keys, addresses) on every " \
        "network over libfabric") \
    ENV(RMA, "AMPHORA_RMA", ENUM, "native|emulate", "", 0, 0, "testing", \
        "carry put and get by messages although the conduit has its own") \
    ENV(UDP_LOSS, "AMPHORA_UDP_LOSS", INT, "0", "percent", 0, 90, "testing", \
        "the udp conduit does not send this many of its datagrams") \
    ENV(UDP_LOSE, "AMPHORA_UDP_LOSE_HANDLER", INT, "0", "number", 0, 255, "testing", \
        "the udp conduit loses each message for this handler when it is sent for the first time") \
    ENV(UDP_SEED, "AMPHORA_UDP_SEED", INT, "1", "", 0, 1000000000, "testing", \
        "chooses which datagrams AMPHORA_UDP_LOSS takes") \
    ENV(TEST_JOIN_FAILURE, "AMPHORA_TEST_JOIN_FAILURE", INT, "0", "step", 0, 100, "testing", \
        "this step of joining the I/O servers of another launcher's job fails (0: none)") \
    ENV(TEST_PAGE, "AMPHORA_TEST_PAGE", SIZE, "0", "bytes", 0, 1 << 30, "testing", \
        "pretend this page size (0: the real one)") \
    ENV(TEST_WIDTH, "AMPHORA_TEST_WIDTH", ENUM, "native|32|64", "", 0, 0, "testing", \
        "pretend that pointers have this many bits: stated to peers") \
    ENV(TEST_SWAP, "AMPHORA_TEST_SWAP", BOOL, "0", "", 0, 0, "testing", \
        "pretend the other byte order: state it to peers and put wire words in the swapped order")

/*
 * Variables that Amphora's programs set for each other, in addition to the table: PRIVATE(id, name,
 * help).  Users never set them.
 */
#define AMPH_PRIVATE_CWD "IOFWD_PRIVATE_CWD"
#define AMPH_PRIVATE_LOCKS "IOFWD_PRIVATE_LOCKS"
#define AMPH_PRIVATE_LIBS "IOFWD_PRIVATE_LIBS"
#define AMPH_PRIVATE_REPORTED "IOFWD_PRIVATE_REPORTED"
#define AMPH_PRIVATE_CLOCK "IOFWD_PRIVATE_CLOCK"
#define AMPH_PRIVATE_LEFT "IOFWD_PRIVATE_LEFT"
#define AMPH_PRIVATE_NEAR "IOFWD_PRIVATE_NEAR"
#define AMPH_ENV_PRIVATE(PRIVATE) \
    PRIVATE(CWD, AMPH_PRIVATE_CWD, \
            "the forwarded working directory of the process before an exec: descriptor:path") \
    PRIVATE(NEAR, AMPH_PRIVATE_NEAR, \
            "directories that the process before an exec has opened by itself: [:descriptor]...") \
    PRIVATE(LOCKS, AMPH_PRIVATE_LOCKS, "record locks that a process keeps over an exec") \
    PRIVATE(LIBS, AMPH_PRIVATE_LIBS, \
            "copies of forwarded libraries that the dynamic linker has been given") \
    PRIVATE(REPORTED, AMPH_PRIVATE_REPORTED, \
            "the list of programs whose calls are not forwarded and that have been reported") \
    PRIVATE(LEFT, AMPH_PRIVATE_LEFT, \
            "iofwd-mount or iofwd-run starts itself again without the preload library") \
    PRIVATE(ORIGINAL_PRELOAD, "IOFWD_PRIVATE_LD_PRELOAD", \
            "LD_PRELOAD as the program set it; in LD_PRELOAD itself copies replace forwarded " \
            "libraries") \
    PRIVATE(CLOCK, AMPH_PRIVATE_CLOCK, \
            "the number of this host's clock in a recorded job (launcher/master/clocks.c)") \
    PRIVATE(PLAIN, "IOFWD_PRIVATE_PLAIN", \
            "iofwd-run has started this process as a program that is no GASNet client")

/*
 * Variables of launchers and of the system that are read here: FOREIGN(id, name, help).  Numbers
 * among them are parsed as an INT row is.
 */
#define AMPH_ENV_FOREIGN(FOREIGN) \
    FOREIGN(PMI_ID, "PMI_ID", "rank of a process whose launcher is reached by PMI_PORT") \
    FOREIGN(PMI_FD, "PMI_FD", "descriptor of the connection to a PMI launcher") \
    FOREIGN(PMI_PORT, "PMI_PORT", "address of a PMI launcher, host:port") \
    FOREIGN(PMI_SIZE, "PMI_SIZE", "number of processes under PMI") \
    FOREIGN(PMI_JOBID, "PMI_JOBID", "name of the job under PMI-2") \
    FOREIGN(PMIX_NAMESPACE, "PMIX_NAMESPACE", "name of the job under PMIx") \
    FOREIGN(OMPI_SIZE, "OMPI_COMM_WORLD_SIZE", "number of processes of an Open MPI program") \
    FOREIGN(OMPI_LOCAL_SIZE, "OMPI_COMM_WORLD_LOCAL_SIZE", "number of those on this host") \
    FOREIGN(SLURM_TASKS, "SLURM_STEP_NUM_TASKS", "number of processes of a Slurm step") \
    FOREIGN(LIBRARY_PATH, "LD_LIBRARY_PATH", \
            "folders in which the dynamic linker looks for libraries") \
    FOREIGN(PRELOAD, "LD_PRELOAD", \
            "libraries that are loaded before those of a program; the interposer is one of them") \
    FOREIGN(PATH, "PATH", "folders in which programs are looked for") \
    FOREIGN(TMP, "TMPDIR", "where amphora-run keeps the job's files; GASNET_TMPDIR comes first") \
    FOREIGN(RUNTIME_DIR, "XDG_RUNTIME_DIR", "where standing servers leave their address file") \
    FOREIGN(SSH_CONNECTION, "SSH_CONNECTION", \
            "address of the host that an agent has been started from")

/*
 * Variables of GASNet that are accepted and have no effect here, with the reason: ACCEPT(name,
 * why).  They are not read; amphora-info -c and GASNET_VERBOSEENV=1 show them where they are set.
 */
#define AMPH_ENV_ACCEPTED(ACCEPT) \
    ACCEPT("GASNET_TRACEFILE", \
           "there is no tracing; AMPHORA_STATS and AMPHORA_LOG report what happens") \
    ACCEPT("GASNET_TRACEMASK", "there is no tracing") \
    ACCEPT("GASNET_TRACEFLUSH", "there is no tracing") \
    ACCEPT("GASNET_TRACELOCAL", "there is no tracing") \
    ACCEPT("GASNET_TRACENODES", "there is no tracing") \
    ACCEPT("GASNET_STATSFILE", "counters are printed on standard error: AMPHORA_STATS") \
    ACCEPT("GASNET_STATSMASK", "AMPHORA_STATS prints all counters") \
    ACCEPT("GASNET_STATSNODES", "AMPHORA_STATS prints the counters of every process") \
    ACCEPT("GASNET_TEST_POLITE_SYNC", \
           "of GASNet's own tests; waits here never keep a processor that others need") \
    ACCEPT("GASNET_DISABLE_MUNMAP", "memory that the client frees is never cached as registered") \
    ACCEPT("GASNET_USE_PSHM_SINGLETON", "a process alone on its host needs no shared memory") \
    ACCEPT("GASNET_PSHM_BARRIER_HIER", \
           "barriers always combine the processes of a host first where that is faster") \
    ACCEPT("GASNET_PSHM_BARRIER_RADIX", "processes of a host meet in one place") \
    ACCEPT("GASNET_PSHM_NETWORK_DEPTH", "rings between processes of a host have a fixed size") \
    ACCEPT("GASNET_USE_HUGEPAGES", "the system decides about huge pages") \
    ACCEPT("GASNET_CATCH_EXIT", \
           "returning from main ends this process in order and leaves the others to go on") \
    ACCEPT("GASNET_DISABLE_ENVDECODE", "values are passed as they are, never encoded") \
    ACCEPT("GASNET_DISABLE_ARGDECODE", "arguments are passed as they are, never encoded") \
    ACCEPT("GASNET_BARRIER", "the barrier's algorithm is chosen for each team") \
    ACCEPT("GASNET_NODEMAP_EXACT", "the launcher knows which processes share a host") \
    ACCEPT("GASNET_HOST_DETECT", "the launcher knows which processes share a host") \
    ACCEPT("GASNET_COLL_SCRATCH_SIZE", "collectives keep their buffers outside the segment") \
    ACCEPT("GASNET_VIS_REMOTECONTIG", "transfers are packed into messages where that is faster") \
    ACCEPT("GASNET_COLL_ENABLE_SEARCH", "algorithms are chosen by size, without a search") \
    ACCEPT("GASNET_COLL_TUNING_FILE", "algorithms are chosen by size, without a search") \
    ACCEPT("GASNET_SD_INIT", "descriptors of prepared messages are always complete") \
    ACCEPT("GASNET_SD_INITVAL", "descriptors of prepared messages are always complete") \
    ACCEPT("GASNET_SD_INITLEN", "descriptors of prepared messages are always complete") \
    ACCEPT("GASNET_THREAD_STACK_MIN", "the library starts no threads that run handlers") \
    ACCEPT("GASNET_THREAD_STACK_PAD", "the library starts no threads that run handlers") \
    ACCEPT("GASNET_OFI_DEVICE_TYPE", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_IBV_PORTS_TYPE", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_IBV_PORTS", \
           "AMPHORA_INTERFACE chooses the network interface (also GASNET_IBV_PORTS_<n>...)") \
    ACCEPT("GASNET_HWLOC_QUERY", "the launcher places processes; hwloc is not asked in them") \
    ACCEPT("GASNET_MALLOC_INIT", \
           "there is no debugging malloc; use valgrind or -fsanitize=address") \
    ACCEPT("GASNET_MALLOC_INITVAL", "there is no debugging malloc") \
    ACCEPT("GASNET_MALLOC_CLOBBER", "there is no debugging malloc") \
    ACCEPT("GASNET_MALLOC_CLOBBERVAL", "there is no debugging malloc") \
    ACCEPT("GASNET_MALLOC_LEAKALL", "there is no debugging malloc") \
    ACCEPT("GASNET_MALLOC_SCANFREED", "there is no debugging malloc") \
    ACCEPT("GASNET_MALLOC_EXTRACHECK", "there is no debugging malloc") \
    ACCEPT("GASNET_MALLOCFILE", "there is no debugging malloc") \
    ACCEPT("GASNET_MALLOCNODES", "there is no debugging malloc")
