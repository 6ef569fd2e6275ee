dist_man_MANS += man/amphora-info.1
dist_man_MANS += man/amphora-run.1
dist_man_MANS += man/iofwd-server.1 man/iofwd-run.1 man/iofwd.3
dist_man_MANS += \
	man/amudprun.1 \
	man/gasnetrun.1 \
	man/gasnetrun_ibv.1 \
	man/gasnetrun_ofi.1 \
	man/gasnetrun_smp.1 \
	man/gasnetrun_tcp.1 \
	man/gasnetrun_udp.1
dist_man_MANS += man/upc-bench.1 man/upc_bridge.3
dist_man_MANS += man/amphora-security.7
