# libiofwd: the file client and the server library, over libamphora; iofwd-server: a small main over it.
# What is generated from calls.def lands in the build tree.
iofwd_generated = iofwd/calls/calls.h iofwd/calls/server_calls.h iofwd/calls/client_calls.c iofwd/calls/table.c iofwd/calls/server_dispatch.c
BUILT_SOURCES += iofwd/calls/calls.h iofwd/calls/server_calls.h
CLEANFILES += $(iofwd_generated)
EXTRA_DIST += tests/files/fwd_kill.h iofwd/calls/calls.def iofwd/calls/calls.awk

$(iofwd_generated): iofwd/calls/calls.def iofwd/calls/calls.awk
	$(AM_V_GEN)$(MKDIR_P) iofwd/calls && $(AWK) -f $(top_srcdir)/iofwd/calls/calls.awk -v out=$(@F) $(top_srcdir)/iofwd/calls/calls.def >$@.tmp && mv $@.tmp $@

doc_DATA = doc/iofwd-calls.md
include_HEADERS += include/iofwd.h
lib_LTLIBRARIES += libiofwd.la
pkgconfig_DATA += iofwd.pc
libiofwd_la_SOURCES = \
	iofwd/client/api/api.c \
	iofwd/client/attributes.c \
	iofwd/client/closes.c \
	iofwd/client/offsets.c \
	iofwd/client/versions.c \
	iofwd/client/versions.h \
	iofwd/client/coalesce/ahead.c \
	iofwd/client/coalesce/file.c \
	iofwd/client/coalesce/others.c \
	iofwd/client/api/file.c \
	iofwd/client/api/file.h \
	iofwd/server/fs/beneath.c \
	iofwd/client/attach/attach.c \
	iofwd/client/attach/clock.c \
	iofwd/client/attach/dead_servers.c \
	iofwd/client/attach/endpoint.c \
	iofwd/client/attach/link.c \
	iofwd/client/client.h \
	iofwd/client/trace.c \
	iofwd/client/trace_callers.c \
	iofwd/client/trace_files.c \
	iofwd/client/trace_record.c \
	iofwd/client/trace_args.h \
	iofwd/client/trace_record.h \
	iofwd/trace/append.c \
	iofwd/trace/append.h \
	iofwd/trace/writer.h \
	iofwd/wire/request_name.c \
	iofwd/wire/request_name.h \
	iofwd/wire/show.c \
	iofwd/wire/show.h \
	iofwd/client/readiness.c \
	iofwd/client/coalesce/blocks.c \
	iofwd/client/coalesce/blocks.h \
	iofwd/client/data/bulk.c \
	iofwd/client/call.c \
	iofwd/client/coalesce/coalesce.c \
	iofwd/client/coalesce/coalesce.h \
	iofwd/client/api/interface.c \
	iofwd/client/api/interface.h \
	iofwd/client/data/data.h \
	iofwd/client/recovery/failover.c \
	iofwd/client/recovery/failover.h \
	iofwd/client/recovery/shared_offset.c \
	iofwd/client/lock_holder.c \
	iofwd/client/internal.h \
	iofwd/client/data/collective.c \
	iofwd/client/attach/exec.c \
	iofwd/client/attach/lifecycle.c \
	iofwd/client/api/nonblocking.c \
	iofwd/client/api/nonblocking.h \
	iofwd/client/recovery/record.c \
	iofwd/client/recovery/record.h \
	iofwd/client/attach/private_server.c \
	iofwd/client/attach/private_server.h \
	iofwd/client/data/tuning.c \
	iofwd/client/data/tuning.h \
	iofwd/client/two_names.c \
	iofwd/client/attach/mpmd.c \
	iofwd/client/data/segment.c \
	iofwd/client/data/passed.h \
	iofwd/client/data/map_descriptor.c \
	iofwd/client/data/passthrough.c \
	iofwd/client/data/passthrough.h \
	iofwd/client/lookups.c \
	iofwd/client/lookups.h \
	iofwd/client/data/record_locks.c \
	iofwd/client/data/record_locks.h \
	iofwd/client/data/record_locks_exec.c \
	iofwd/client/data/pipes.c \
	iofwd/client/data/receive_area.c \
	iofwd/client/data/pipes.h \
	iofwd/client/data/receive_area.h \
	iofwd/client/state.h \
	iofwd/client/data/stripe.c \
	iofwd/client/data/stripe.h \
	iofwd/client/recovery/reopen.c \
	iofwd/wire/handshake.c \
	iofwd/wire/patience.c \
	iofwd/wire/patience.h \
	iofwd/wire/file.h \
	iofwd/wire/handshake.h \
	iofwd/wire/encode.c \
	iofwd/wire/encode.h \
	iofwd/server/fs/exports.c \
	iofwd/server/fs/exports.h \
	iofwd/server/fs/resolve.c \
	iofwd/client/layer.c \
	iofwd/wire/marshal.c \
	iofwd/wire/inode_flags.h \
	iofwd/wire/inode_requests.h \
	iofwd/wire/marshal.h \
	iofwd/wire/header.c \
	iofwd/wire/ranges.c \
	iofwd/wire/ranges.h \
	iofwd/server/server.c \
	iofwd/server/server.h \
	iofwd/server/daemon.c \
	iofwd/server/fs/append.c \
	iofwd/server/notify/readiness.c \
	iofwd/server/fs/direct.c \
	iofwd/server/fs/fifo.c \
	iofwd/server/listener.c \
	iofwd/server/counts.c \
	iofwd/server/flow.c \
	iofwd/server/fs/file.c \
	iofwd/server/flow.h \
	iofwd/server/internal.h \
	iofwd/server/collective.c \
	iofwd/server/limits.c \
	iofwd/server/versions.c \
	iofwd/server/report.c \
	iofwd/server/watch.c \
	iofwd/wire/versions.c \
	iofwd/wire/below.c \
	iofwd/wire/below.h \
	iofwd/wire/near.h \
	iofwd/wire/passthrough.h \
	iofwd/wire/map_kinds.h \
	iofwd/wire/versions.h \
	iofwd/wire/writers.c \
	iofwd/wire/writers.h \
	iofwd/wire/repair.c \
	iofwd/wire/repair.h \
	iofwd/wire/watch.c \
	iofwd/wire/watch.h \
	iofwd/wire/watch_columns.h \
	iofwd/server/lock/lock.c \
	iofwd/server/lock/lock.h \
	iofwd/server/lock/agent.c \
	iofwd/server/lock/held.c \
	iofwd/server/fs/map.c \
	iofwd/server/fs/path.c \
	iofwd/server/clients.c \
	iofwd/server/readers.c \
	iofwd/server/passthrough.c \
	iofwd/server/passthrough.h \
	iofwd/server/near.c \
	iofwd/server/near.h \
	iofwd/server/pid_file.c \
	iofwd/server/pid_file.h \
	iofwd/server/exec.c \
	iofwd/server/exec.h \
	iofwd/server/trust.c \
	iofwd/server/trust.h \
	iofwd/server/pipes.c \
	iofwd/server/receive_areas.c \
	iofwd/server/references.c \
	iofwd/server/state.c \
	iofwd/server/state.h \
	iofwd/server/request.c \
	iofwd/server/services.c \
	iofwd/server/transfer.c \
	iofwd/server/schedule.c \
	iofwd/server/workers.c
nodist_libiofwd_la_SOURCES = iofwd/calls/client_calls.c iofwd/calls/table.c iofwd/calls/server_dispatch.c
libiofwd_la_CPPFLAGS = $(AM_CPPFLAGS)
# Calls of its own functions are bound when it is linked: in every program that forwards, the dynamic linker would look 59 of them up by name.
libiofwd_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,-Bsymbolic-functions -Wl,--version-script=$(top_srcdir)/iofwd/libiofwd.map
EXTRA_libiofwd_la_DEPENDENCIES = $(top_srcdir)/iofwd/libiofwd.map
EXTRA_DIST += iofwd/libiofwd.map
libiofwd_la_LIBADD = libamphora.la

bin_PROGRAMS += iofwd-server
iofwd_server_SOURCES = iofwd/server/main.c iofwd/wire/prefix.c
iofwd_server_LDADD = libiofwd.la libamphora.la

# The decoders under libFuzzer, where clang is there; the deterministic half is in tests/unit/unit_iofwd_wire.
EXTRA_DIST += tests/fuzz/fuzz_iofwd.c tests/fuzz/fuzz_iofwd.h
if HAVE_CRITERION
iofwd_unit = tests/unit/unit_iofwd_encode tests/unit/unit_iofwd_wire tests/unit/unit_iofwd_exports tests/unit/unit_iofwd_tuning \
	tests/unit/unit_iofwd_inflight tests/unit/unit_iofwd_ranges tests/unit/unit_iofwd_writers \
	tests/unit/unit_iofwd_versions tests/unit/unit_iofwd_pid_file
check_PROGRAMS += $(iofwd_unit)
TESTS += $(iofwd_unit)
tests_unit_unit_iofwd_encode_SOURCES = tests/unit/unit_iofwd_encode.c tests/unit/native_order.h
tests_unit_unit_iofwd_encode_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_iofwd_encode_LDADD = $(inside_libiofwd) $(UNIT_LIBS)
tests_unit_unit_iofwd_wire_SOURCES = tests/unit/unit_iofwd_wire.c tests/fuzz/fuzz_iofwd.c tests/fuzz/fuzz_iofwd.h tests/unit/native_order.h
tests_unit_unit_iofwd_wire_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_iofwd_wire_LDADD = $(inside_libiofwd) $(UNIT_LIBS)
tests_unit_unit_iofwd_tuning_SOURCES = tests/unit/unit_iofwd_tuning.c iofwd/client/data/tuning.c
tests_unit_unit_iofwd_tuning_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_iofwd_tuning_LDADD = $(CRITERION_LIBS)
tests_unit_unit_iofwd_inflight_SOURCES = tests/unit/unit_iofwd_inflight.c iofwd/client/recovery/shared_offset.c
tests_unit_unit_iofwd_inflight_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_iofwd_inflight_LDADD = $(CRITERION_LIBS) -lpthread
tests_unit_unit_iofwd_ranges_SOURCES = tests/unit/unit_iofwd_ranges.c iofwd/wire/ranges.c
tests_unit_unit_iofwd_ranges_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_iofwd_ranges_LDADD = $(CRITERION_LIBS)
tests_unit_unit_iofwd_writers_SOURCES = tests/unit/unit_iofwd_writers.c iofwd/wire/writers.c iofwd/wire/repair.c
tests_unit_unit_iofwd_writers_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_iofwd_writers_LDFLAGS = -Wl,--wrap=kill
tests_unit_unit_iofwd_writers_LDADD = $(CRITERION_LIBS)
tests_unit_unit_iofwd_versions_SOURCES = tests/unit/unit_iofwd_versions.c
tests_unit_unit_iofwd_versions_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_iofwd_versions_LDADD = $(inside_libiofwd) $(UNIT_LIBS)
tests_unit_unit_iofwd_pid_file_SOURCES = tests/unit/unit_iofwd_pid_file.c iofwd/server/pid_file.c
tests_unit_unit_iofwd_pid_file_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_iofwd_pid_file_LDFLAGS = -Wl,--wrap=flock
tests_unit_unit_iofwd_pid_file_LDADD = $(UNIT_LIBS)
tests_unit_unit_iofwd_exports_SOURCES = tests/unit/unit_iofwd_exports.c
tests_unit_unit_iofwd_exports_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_iofwd_exports_LDADD = $(inside_libiofwd) $(UNIT_LIBS)
endif
include $(top_srcdir)/iofwd/interpose/local.mk
include $(top_srcdir)/iofwd/mount/local.mk
include $(top_srcdir)/iofwd/trap/local.mk
include $(top_srcdir)/iofwd/cc/local.mk
include $(top_srcdir)/iofwd/instrument/local.mk

# Against real servers, through the launcher.
iofwd_mp = tests/files/calls/iofwd_calls tests/files/failover/iofwd_death tests/files/data/iofwd_files tests/files/data/iofwd_collective tests/files/data/iofwd_segment tests/files/limits/fwd_fair tests/files/limits/fwd_greedy
check_PROGRAMS += $(iofwd_mp) tests/files/limits/fwd_clients
tests_files_limits_fwd_clients_SOURCES = tests/files/limits/fwd_clients.c
iofwd_scripts = tests/files/calls/iofwd_calls.sh tests/files/failover/iofwd_death.sh tests/files/data/iofwd_files.sh tests/files/data/iofwd_collective.sh tests/files/data/iofwd_segment.sh \
	tests/files/limits/fwd_fair.sh tests/files/limits/fwd_greedy.sh tests/files/limits/fwd_clients.sh
dist_check_SCRIPTS += $(iofwd_scripts)
TESTS += $(iofwd_scripts)
tests_files_limits_fwd_fair_SOURCES = tests/files/limits/fwd_fair.c
tests_files_limits_fwd_fair_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_SEQ
tests_files_limits_fwd_fair_LDADD = libiofwd.la libamphora.la
tests_files_limits_fwd_greedy_SOURCES = tests/files/limits/fwd_greedy.c
tests_files_limits_fwd_greedy_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_PAR
tests_files_limits_fwd_greedy_LDADD = libiofwd.la libamphora.la -lpthread
tests_files_calls_iofwd_calls_SOURCES = tests/files/calls/iofwd_calls.c tests/files/calls/iofwd_calls.h tests/files/calls/iofwd_calls_process.c
tests_files_calls_iofwd_calls_LDADD = $(inside_libiofwd) $(inside_amphora_net)
tests_files_failover_iofwd_death_SOURCES = tests/files/failover/iofwd_death.c
tests_files_failover_iofwd_death_LDADD = $(inside_libiofwd) $(inside_amphora_net)
tests_files_data_iofwd_files_SOURCES = tests/files/data/iofwd_files.c tests/files/fwd_bare.h tests/files/fwd_is.h
tests_files_data_iofwd_files_LDADD = libiofwd.la libamphora.la
tests_files_data_iofwd_collective_SOURCES = tests/files/data/iofwd_collective.c
tests_files_data_iofwd_collective_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_SEQ
tests_files_data_iofwd_collective_LDADD = libiofwd.la libamphora.la
tests_files_data_iofwd_segment_SOURCES = tests/files/data/iofwd_segment.c
tests_files_data_iofwd_segment_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_SEQ
tests_files_data_iofwd_segment_LDADD = libiofwd.la libamphora.la
