/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Variables of GASNet's conduits and launchers that the library accepts and does not read, with the
 * reason: ACCEPT(name, why).  Part of base/settings/env_defs.h.
 *
 * Layer: base.
 */
#define AMPH_ENV_ACCEPTED_CONDUITS(ACCEPT) \
    ACCEPT("GASNET_SPAWN_VERBOSE", "read by the gasnetrun scripts: says what is done") \
    ACCEPT("GASNET_IBV_PORTS_0", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_IBV_PORTS_1", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_IBV_PORTS_0_1", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_IBV_PORTS_2", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_IBV_PORTS_3", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_IBV_PORTS_0_3", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_IBV_PORTS_0_2", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_IBV_PORTS_1_3", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_SMP_SPAWNER", "read by gasnetrun_smp") \
    ACCEPT("GASNET_SPAWNFN", \
           "amphora-run starts the processes; C is refused by the gasnetrun scripts") \
    ACCEPT("SSH_SERVERS", "read by gasnetrun_udp and amudprun: the host list") \
    ACCEPT("SSH_CMD", \
           "AMPHORA_SSH or amphora-run -ssh names the program that reaches other hosts") \
    ACCEPT("SSH_OPTIONS", "they belong in AMPHORA_SSH or amphora-run -ssh, after the program") \
    ACCEPT("SSH_REMOTE_PATH", "other hosts use the working directory of this one") \
    ACCEPT("GASNET_SSH_SERVERS", "read by the gasnetrun scripts: the host list") \
    ACCEPT("CSPAWN_CMD", "another launcher is given by PMIRUN_CMD and gasnetrun -spawner pmi") \
    ACCEPT("CSPAWN_SERVERS", "another launcher is given by PMIRUN_CMD and gasnetrun -spawner pmi") \
    ACCEPT("CSPAWN_ROUTE_OUTPUT", \
           "another launcher is given by PMIRUN_CMD and gasnetrun -spawner pmi") \
    ACCEPT("GASNET_ROUTE_OUTPUT", "amphora-run passes all output on") \
    ACCEPT("GASNET_CSPAWN_CMD", \
           "another launcher is given by PMIRUN_CMD and gasnetrun -spawner pmi") \
    ACCEPT("GASNET_WORKER_RANK", "of the start of udp programs; amphora-run does it") \
    ACCEPT("GASNET_NETWORKDEPTH", "the udp conduit takes buffers as they are needed") \
    ACCEPT("GASNET_RECVDEPTH", "the udp conduit takes buffers as they are needed") \
    ACCEPT("GASNET_SENDDEPTH", "the udp conduit takes buffers as they are needed") \
    ACCEPT("GASNET_SOCKETBUFFER_INITIAL", "the udp conduit takes buffers as they are needed") \
    ACCEPT("GASNET_SOCKETBUFFER_MAX", "the udp conduit takes buffers as they are needed") \
    ACCEPT("GASNET_REQUESTTIMEOUT_MAX", \
           "the udp conduit measures its time-outs; a dead process is known from the launcher") \
    ACCEPT("GASNET_REQUESTTIMEOUT_INITIAL", \
           "the udp conduit measures its time-outs; a dead process is known from the launcher") \
    ACCEPT("GASNET_REQUESTTIMEOUT_BACKOFF", \
           "the udp conduit measures its time-outs; a dead process is known from the launcher") \
    ACCEPT("GASNET_LINEBUFFERSZ", "of the start of udp programs; amphora-run does it") \
    ACCEPT("GASNET_MASTERIP", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_WORKERIP", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_ENV_CMD", "of the start of udp programs; amphora-run does it") \
    ACCEPT("GASNET_USE_GETHOSTID", "the launcher knows which processes share a host") \
    ACCEPT("AMUDP_ROUTE_OUTPUT", "amphora-run passes all output on") \
    ACCEPT("MPIRUN_CMD", "read by the gasnetrun scripts: the command of -spawner mpi") \
    ACCEPT("GASNET_NODEFILE", "read by the gasnetrun scripts: the host file") \
    ACCEPT("GASNET_MPI_THREAD", "there is no conduit over MPI") \
    ACCEPT("GASNET_OFI_RECEIVE_BUFF_SIZE", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_MAX_MEDIUM", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_SPAWNER", "read by gasnetrun_ofi") \
    ACCEPT("GASNET_QUIET", "nothing is printed at start") \
    ACCEPT("GASNET_OFI_RMA_POLL_FREQ", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_NUM_BBUFS", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_BBUF_SIZE", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_BBUF_THRESHOLD", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_NUM_RECEIVE_BUFFS", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_AM_INJECT_LIMIT", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_INJECT_LIMIT", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_RMA_INJECT_LIMIT", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_TX_CQ_SIZE", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_RX_CQ_SIZE", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_MAX_REQUEST_BUFFS", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_MAX_REPLY_BUFFS", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_NUM_INITIAL_REQUEST_BUFFS", \
           "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_NUM_INITIAL_REPLY_BUFFS", \
           "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_SET_UNIVERSE_SIZE", "buffers and limits follow what the provider says") \
    ACCEPT("GASNET_OFI_DEVICE", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_OFI_LIST_DEVICES", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_OFI_LIST_DEVICES_NODES", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_OFI_DEVICE_0", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_OFI_DEVICE_1", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_OFI_DEVICE_2", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_OFI_DEVICE_3", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_SND_THREAD", "no thread of the library sends") \
    ACCEPT("GASNET_USE_FENCED_PUTS", "the provider keeps the order") \
    ACCEPT("GASNET_CONNECT_DYNAMIC", "connections are made when they are needed") \
    ACCEPT("GASNET_RCV_THREAD_POLL_MODE", "the progress thread waits as AMPHORA_WAIT says") \
    ACCEPT("GASNET_IBV_SPAWNER", "read by gasnetrun_ibv") \
    ACCEPT("GASNET_THREAD_STACK", "the progress thread has the stack that the system gives") \
    ACCEPT("GASNET_HCA_ID", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_PORT_NUM", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_NUM_QPS", "the provider behind libfabric decides") \
    ACCEPT("GASNET_IBV_LIST_PORTS", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_IBV_LIST_PORTS_NODES", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_IBV_PORTS_VERBOSE", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_IBV_PKEY", "AMPHORA_INTERFACE chooses the network interface") \
    ACCEPT("GASNET_QP_TIMEOUT", "the provider behind libfabric decides") \
    ACCEPT("GASNET_QP_RETRY_COUNT", "the provider behind libfabric decides") \
    ACCEPT("GASNET_QP_RD_ATOM", "the provider behind libfabric decides") \
    ACCEPT("GASNET_MAX_MTU", "the provider behind libfabric decides") \
    ACCEPT("GASNET_CONNECT_STATIC", "connections are made when they are needed") \
    ACCEPT("GASNET_CONNECTFILE_IN", "connections are made when they are needed") \
    ACCEPT("GASNET_CONNECTFILE_OUT", "connections are made when they are needed") \
    ACCEPT("GASNET_CONNECTFILE_BASE", "connections are made when they are needed") \
    ACCEPT("GASNET_CONNECT_SNDS", "connections are made when they are needed") \
    ACCEPT("GASNET_CONNECT_RCVS", "connections are made when they are needed") \
    ACCEPT("GASNET_CONNECT_RETRANS_MIN", "connections are made when they are needed") \
    ACCEPT("GASNET_CONNECT_RETRANS_MAX", "connections are made when they are needed") \
    ACCEPT("GASNET_RCV_THREAD_RATE", "the progress thread waits as AMPHORA_WAIT says") \
    ACCEPT("GASNET_RCV_THREAD_LOAD", "the progress thread waits as AMPHORA_WAIT says") \
    ACCEPT("GASNET_RCV_THREAD_IDLE", "the progress thread waits as AMPHORA_WAIT says") \
    ACCEPT("GASNET_SND_THREAD_RATE", "no thread of the library sends") \
    ACCEPT("GASNET_SND_THREAD_IDLE", "no thread of the library sends") \
    ACCEPT("GASNET_SND_THREAD_POLL_MODE", "no thread of the library sends") \
    ACCEPT("GASNET_MAXIMIZE_MEMLOCK", \
           "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_PHYSMEM_MAX", "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_PHYSMEM_PROBE", \
           "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_PHYSMEM_WARN", \
           "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_INLINESEND_LIMIT", "the provider behind libfabric decides") \
    ACCEPT("GASNET_PACKEDLONG_LIMIT", "the provider behind libfabric decides") \
    ACCEPT("GASNET_NONBULKPUT_BOUNCE_LIMIT", "the provider behind libfabric decides") \
    ACCEPT("GASNET_PUTINMOVE_LIMIT", "the provider behind libfabric decides") \
    ACCEPT("GASNET_PUT_STRIPE_SZ", "the provider behind libfabric decides") \
    ACCEPT("GASNET_GET_STRIPE_SZ", "the provider behind libfabric decides") \
    ACCEPT("GASNET_AM_GATHER_MIN", "the provider behind libfabric decides") \
    ACCEPT("GASNET_USE_SRQ", "the provider behind libfabric decides") \
    ACCEPT("GASNET_RBUF_COUNT", "the provider behind libfabric decides") \
    ACCEPT("GASNET_USE_XRC", "the provider behind libfabric decides") \
    ACCEPT("GASNET_USE_ODP", "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_ODP_VERBOSE", "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_RBUF_SPARES", "the provider behind libfabric decides") \
    ACCEPT("GASNET_NETWORKDEPTH_PP", "the provider behind libfabric decides") \
    ACCEPT("GASNET_NETWORKDEPTH_TOTAL", "the provider behind libfabric decides") \
    ACCEPT("GASNET_AM_CREDITS_PP", "the provider behind libfabric decides") \
    ACCEPT("GASNET_AM_CREDITS_TOTAL", "the provider behind libfabric decides") \
    ACCEPT("GASNET_AM_CREDITS_SLACK", "the provider behind libfabric decides") \
    ACCEPT("GASNET_BBUF_COUNT", "the provider behind libfabric decides") \
    ACCEPT("GASNET_PINNED_REGIONS_MAX", \
           "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_RATOMICBUF_COUNT", "the provider behind libfabric decides") \
    ACCEPT("GASNET_USE_FIREHOSE", \
           "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_FIREHOSE_M", "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_FIREHOSE_MAXVICTIM_M", \
           "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_FIREHOSE_MAXREGION_SIZE", \
           "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_FIREHOSE_R", "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_FIREHOSE_MAXVICTIM_R", \
           "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_FIREHOSE_TABLE_SCALE", \
           "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_FIREHOSE_VERBOSE", \
           "segments are registered once, and other memory by the provider") \
    ACCEPT("GASNET_UCX_MAX_MEDIUM", "there is no conduit over UCX") \
    ACCEPT("GASNET_UCX_SPAWNER", "there is no conduit over UCX") \
    ACCEPT("GASNET_UCX_AM_ORDERED_TLS", "there is no conduit over UCX") \
    ACCEPT("GASNET_UCX_TLS", "there is no conduit over UCX") \
    ACCEPT("GASNET_SSH_KEEPDUP", "each host of the host file is reached once") \
    ACCEPT("GASNET_SSH_OUT_DEGREE", "AMPHORA_SSH_FANOUT is the degree of the tree of hosts") \
    ACCEPT("GASNET_SSH_NODEFILE", "read by the gasnetrun scripts: the host file") \
    ACCEPT("GASNET_SSH_CMD", \
           "AMPHORA_SSH or amphora-run -ssh names the program that reaches other hosts") \
    ACCEPT("GASNET_SSH_OPTIONS", \
           "they belong in AMPHORA_SSH or amphora-run -ssh, after the program") \
    ACCEPT("GASNET_SSH_REMOTE_PATH", "other hosts use the working directory of this one") \
    ACCEPT("GASNET_MPI_FINALIZE", "there is no conduit over MPI") \
    ACCEPT("PMIRUN_CMD", "read by the gasnetrun scripts: the command of -spawner pmi")
