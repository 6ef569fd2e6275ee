dist_man_MANS += man/amphora-info.1
dist_man_MANS += man/amphora-run.1
dist_man_MANS += man/iofwd-server.1 man/iofwd-run.1 man/iofwd-mount.1 man/iofwd-trap.1 man/iofwd.3
dist_man_MANS += \
	man/amudprun.1 \
	man/gasnetrun.1 \
	man/gasnetrun_ibv.1 \
	man/gasnetrun_ofi.1 \
	man/gasnetrun_smp.1 \
	man/gasnetrun_tcp.1 \
	man/gasnetrun_udp.1
dist_man_MANS += man/iofwd-trace.1
dist_man_MANS += man/upc-bench.1 man/upc_bridge.3
dist_man_MANS += man/amphora-security.7
# Made from the rows of the settings by the preprocessor and awk.  It runs no program of this build, so a cross build can make it.
man_MANS += man/amphora-settings.7
EXTRA_DIST += man/settings.awk man/settings.c
CLEANFILES += man/amphora-settings.7
man/amphora-settings.7: man/settings.c man/settings.awk base/settings/env_defs.h base/settings/env_accepted.h
	$(AM_V_GEN)$(MKDIR_P) man && $(CC) -E -P -I$(top_srcdir) $(srcdir)/man/settings.c >$@.rows && \
		$(AWK) -v version=$(PACKAGE_VERSION) -f $(srcdir)/man/settings.awk $@.rows >$@.tmp && rm $@.rows && mv $@.tmp $@
man_MANS += man/amphora-counters.7
EXTRA_DIST += man/counters.awk man/counters.c
CLEANFILES += man/amphora-counters.7
man/amphora-counters.7: man/counters.c man/counters.awk base/settings/counter_defs.h iofwd/wire/watch_columns.h
	$(AM_V_GEN)$(MKDIR_P) man && $(CC) -E -P -I$(top_srcdir) $(srcdir)/man/counters.c >$@.rows && \
		$(AWK) -f $(srcdir)/man/counters.awk $@.rows >$@.tmp && rm $@.rows && mv $@.tmp $@
dist_check_SCRIPTS += tests/tree/settings_page.sh
TESTS += tests/tree/settings_page.sh
