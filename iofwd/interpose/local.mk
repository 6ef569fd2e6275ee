# libiofwd_preload: catches the file calls of unmodified programs.  It needs the C library only and loads libiofwd at the first call
# that must be forwarded; sanitizers stay out of it, since it comes before their run-time library in every program.
preload_generated = \
	iofwd/calls/client_table.h \
	iofwd/calls/implementations.h \
	iofwd/calls/mpi_io.c \
	iofwd/calls/mpi_io.h \
	iofwd/calls/iofwd-wrap.args \
	iofwd/calls/names.c \
	iofwd/calls/names.h \
	iofwd/calls/names_wrap.c \
	iofwd/calls/numbers.h
BUILT_SOURCES += iofwd/calls/mpi_io.h iofwd/calls/names.h iofwd/calls/implementations.h iofwd/calls/numbers.h iofwd/calls/client_table.h
CLEANFILES += $(preload_generated)
EXTRA_DIST += tests/files/trace/record_check.py tests/files/trace/fwd_messages.c tests/files/trace/fwd_record_async.c tests/files/trace/fwd_record_ring.c tests/files/trace/former/version-2.trace.gz tests/files/trace/former/version-2.tracez tests/files/trace/former/version-3.trace.gz tests/files/trace/former/version-3.tracez tests/files/trace/former/version-4.trace.gz tests/files/trace/former/version-4.tracez
EXTRA_DIST += iofwd/calls/mpi_io.def iofwd/calls/mpi_io.awk
EXTRA_DIST += iofwd/calls/names.def iofwd/calls/names.awk iofwd/calls/libc.def iofwd/calls/kernel.def iofwd/interpose/README.md
CLEANFILES += doc/iofwd-calls.md
dist_check_SCRIPTS += tests/files/calls/iofwd_names.sh
TESTS += tests/files/calls/iofwd_names.sh

doc/iofwd-calls.md: iofwd/calls/calls.def iofwd/calls/names.def iofwd/calls/libc.def iofwd/calls/names.awk
	$(AM_V_GEN)$(MKDIR_P) doc && $(AWK) -f $(top_srcdir)/iofwd/calls/names.awk -v out=doc $(top_srcdir)/iofwd/calls/calls.def \
		$(top_srcdir)/iofwd/calls/names.def $(top_srcdir)/iofwd/calls/libc.def >$@.tmp && mv $@.tmp $@

iofwd/calls/names.h iofwd/calls/names.c iofwd/calls/names_wrap.c iofwd/calls/iofwd-wrap.args iofwd/calls/implementations.h: \
		iofwd/calls/calls.def iofwd/calls/names.def iofwd/calls/names.awk
	$(AM_V_GEN)$(MKDIR_P) iofwd/calls && $(AWK) -f $(top_srcdir)/iofwd/calls/names.awk -v out=$(@F) \
		$(top_srcdir)/iofwd/calls/calls.def $(top_srcdir)/iofwd/calls/names.def >$@.tmp && mv $@.tmp $@
iofwd/calls/mpi_io.h iofwd/calls/mpi_io.c: iofwd/calls/mpi_io.def iofwd/calls/mpi_io.awk
	$(AM_V_GEN)$(MKDIR_P) iofwd/calls && $(AWK) -f $(top_srcdir)/iofwd/calls/mpi_io.awk -v out=$(@F) \
		$(top_srcdir)/iofwd/calls/mpi_io.def >$@.tmp && mv $@.tmp $@
iofwd/calls/numbers.h: iofwd/calls/calls.def iofwd/calls/names.awk
	$(AM_V_GEN)$(MKDIR_P) iofwd/calls && $(AWK) -f $(top_srcdir)/iofwd/calls/names.awk -v out=$(@F) \
		$(top_srcdir)/iofwd/calls/calls.def >$@.tmp && mv $@.tmp $@
iofwd/calls/client_table.h: iofwd/calls/calls.def iofwd/calls/names.awk
	$(AM_V_GEN)$(MKDIR_P) iofwd/calls && $(AWK) -f $(top_srcdir)/iofwd/calls/names.awk -v out=core.h \
		$(top_srcdir)/iofwd/calls/calls.def >$@.tmp && mv $@.tmp $@

module_LTLIBRARIES += libiofwd_preload.la
preload_sources = \
	base/settings/env_parse.c \
	base/settings/env_parse.h \
	base/program/program_image.c \
	base/program/program_image.h \
	base/program/open_mpi.h \
	iofwd/elf/elf.h \
	iofwd/elf/segment.c \
	iofwd/elf/view.c \
	iofwd/interpose/fd/fdtab.c \
	iofwd/interpose/fd/fdtab.h \
	iofwd/wire/below.c \
	iofwd/wire/below.h \
	iofwd/wire/map_kinds.h \
	iofwd/wire/versions.h \
	iofwd/wire/writers.c \
	iofwd/wire/writers.h \
	iofwd/wire/near.h \
	iofwd/wire/prefix.c \
	iofwd/wire/prefix.h \
	iofwd/interpose/fd/aio.c \
	iofwd/interpose/fd/query.h \
	iofwd/interpose/process/bypass.c \
	iofwd/interpose/process/bypass.h \
	iofwd/interpose/process/linker_check.c \
	iofwd/interpose/process/linker_check.h \
	iofwd/interpose/entry/cancel.c \
	iofwd/interpose/entry/catch.h \
	iofwd/interpose/memory/coherent.c \
	iofwd/interpose/fd/control.c \
	iofwd/interpose/fd/copy.c \
	iofwd/interpose/attach/client.c \
	iofwd/interpose/attach/client.h \
	iofwd/interpose/attach/log_lines.c \
	iofwd/interpose/path/cwd.c \
	iofwd/interpose/path/own_cwd.c \
	iofwd/interpose/path/own_cwd.h \
	iofwd/interpose/path/dir.c \
	iofwd/interpose/path/near.c \
	iofwd/interpose/path/near.h \
	iofwd/interpose/path/near_dir.c \
	iofwd/interpose/path/near_exports.c \
	iofwd/interpose/path/near_change.c \
	iofwd/interpose/path/near_exports.h \
	iofwd/interpose/path/near_locks.c \
	iofwd/interpose/path/near_place.h \
	iofwd/interpose/path/near_versions.c \
	iofwd/interpose/path/near_watch.c \
	iofwd/interpose/path/near_versions.h \
	iofwd/interpose/process/environ.c \
	iofwd/interpose/fd/epoll.c \
	iofwd/interpose/process/die.c \
	iofwd/interpose/process/die.h \
	iofwd/interpose/process/exec.c \
	iofwd/interpose/process/mpi_job.c \
	iofwd/interpose/process/mpi_job.h \
	iofwd/interpose/fd/fd.c \
	iofwd/interpose/fd/libaio.c \
	iofwd/interpose/fd/libaio.h \
	iofwd/interpose/entry/refuse.c \
	iofwd/interpose/entry/trace.c \
	iofwd/interpose/entry/trace_stdio.c \
	iofwd/interpose/entry/trace.h \
	iofwd/interpose/entry/record.c \
	iofwd/interpose/entry/record.h \
	iofwd/interpose/entry/record_async.c \
	iofwd/interpose/entry/record_clock.c \
	iofwd/interpose/entry/record_clock.h \
	iofwd/interpose/entry/record_event.c \
	iofwd/interpose/entry/record_event.h \
	iofwd/interpose/entry/record_file.c \
	iofwd/interpose/entry/record_plain.c \
	iofwd/interpose/entry/record_request.c \
	iofwd/interpose/entry/record_request.h \
	iofwd/interpose/entry/record_ring.c \
	iofwd/interpose/entry/record_tail.c \
	iofwd/trace/format.h \
	iofwd/trace/numbers.h \
	iofwd/trace/stream.c \
	iofwd/trace/stream.h \
	iofwd/wire/request_name.c \
	iofwd/wire/request_name.h \
	iofwd/wire/show.c \
	iofwd/wire/show.h \
	iofwd/interpose/entry/refuse.h \
	iofwd/interpose/stdio/abort_text.c \
	iofwd/interpose/stdio/abort_text.h \
	iofwd/interpose/stdio/foreign_file.c \
	iofwd/interpose/stdio/foreign_file.h \
	iofwd/interpose/process/fork.c \
	iofwd/interpose/fd/file_size_limit.c \
	iofwd/interpose/fd/file_size_limit.h \
	iofwd/interpose/path/fts.c \
	iofwd/interpose/entry/guard.c \
	iofwd/interpose/entry/init.c \
	iofwd/interpose/fd/io.c \
	iofwd/interpose/libc/kept.c \
	iofwd/interpose/libc/kept.h \
	iofwd/interpose/libc/kernel.h \
	iofwd/interpose/loader/dl_error.c \
	iofwd/interpose/loader/dl_error.h \
	iofwd/interpose/loader/library.c \
	iofwd/interpose/path/pathconf.c \
	iofwd/interpose/fd/lock.c \
	iofwd/interpose/fd/own_table.c \
	iofwd/interpose/fd/own_table.h \
	iofwd/interpose/fd/passed.c \
	iofwd/interpose/fd/passed.h \
	iofwd/interpose/libc/time64.c \
	iofwd/interpose/libc/time64.h \
	iofwd/interpose/stdio/libc_text.c \
	iofwd/interpose/stdio/lost_data.c \
	iofwd/interpose/memory/map.c \
	iofwd/interpose/memory/map_file.c \
	iofwd/interpose/memory/map_file.h \
	iofwd/interpose/memory/map_itself.c \
	iofwd/interpose/memory/map_itself.h \
	iofwd/interpose/path/names.c \
	iofwd/interpose/path/pairs.c \
	iofwd/interpose/loader/elf_deps.c \
	iofwd/interpose/loader/elf_deps.h \
	iofwd/calls/numbers.def \
	iofwd/interpose/entry/syscall_numbers.h \
	iofwd/interpose/memory/pages.c \
	iofwd/interpose/memory/pages.h \
	iofwd/interpose/memory/pages_shared.c \
	iofwd/interpose/process/threads.c \
	iofwd/interpose/entry/fault_check.c \
	iofwd/interpose/entry/fault_check.h \
	iofwd/interpose/fd/poll.c \
	iofwd/interpose/fd/poll.h \
	iofwd/interpose/libc/libc_real.h \
	iofwd/interpose/process/relay.c \
	iofwd/interpose/process/relay.h \
	iofwd/interpose/process/search.c \
	iofwd/interpose/entry/settings.c \
	iofwd/interpose/entry/settings.h \
	iofwd/interpose/entry/state.h \
	iofwd/interpose/fd/socket.c \
	iofwd/interpose/fd/state.h \
	iofwd/interpose/process/connections.c \
	iofwd/interpose/process/connections.h \
	iofwd/interpose/process/shells.c \
	iofwd/interpose/path/root.c \
	iofwd/interpose/process/untraceable.c \
	iofwd/interpose/process/spawn.c \
	iofwd/interpose/process/start.c \
	iofwd/interpose/process/start.h \
	iofwd/interpose/process/state.h \
	iofwd/interpose/stdio/std_files.c \
	iofwd/interpose/stdio/stream.c \
	iofwd/interpose/stdio/state.h \
	iofwd/interpose/stdio/stream.h \
	iofwd/interpose/path/openat2.c \
	iofwd/interpose/path/openat2.h \
	iofwd/interpose/entry/syscall.c \
	iofwd/interpose/entry/targets.h \
	iofwd/interpose/path/temp.c \
	iofwd/interpose/path/times.c \
	iofwd/interpose/path/walk.c \
	iofwd/interpose/fd/procfs.c \
	iofwd/interpose/fd/procfs.h \
	iofwd/interpose/path/resolve.c \
	iofwd/interpose/path/resolve.h \
	iofwd/interpose/stdio/wide.c \
	iofwd/interpose/path/xattr.c
libiofwd_preload_la_SOURCES = $(preload_sources) iofwd/interpose/attach/load.c iofwd/interpose/entry/mpi_io.c iofwd/interpose/entry/mpi_io.h iofwd/interpose/entry/mpi_request.c iofwd/interpose/process/mpi.c iofwd/interpose/libc/libc_real.c iofwd/interpose/loader/symbol.c
nodist_libiofwd_preload_la_SOURCES = iofwd/calls/names.c iofwd/calls/mpi_io.c
libiofwd_preload_la_CPPFLAGS = $(AM_CPPFLAGS) -DAMPH_IP_STD_PREFIX='"_IO_2_1_"'
libiofwd_preload_la_CFLAGS = $(AMPH_CFLAGS) $(MEMSET_CFLAGS) -fvisibility=hidden
libiofwd_preload_la_LIBTOOLFLAGS = $(for_loading)
libiofwd_preload_la_LDFLAGS = -module -avoid-version -shared -Wl,-z,initfirst
libiofwd_preload_la_LIBADD = -ldl -lpthread

# Messages that are recorded on request (IOFWD_RECORD): preloaded beside the other one, for such runs only.
EXTRA_DIST += iofwd/messages/messages.def iofwd/messages/messages.awk
CLEANFILES += iofwd/messages/functions.c
iofwd/messages/functions.c: iofwd/messages/messages.def iofwd/messages/messages.awk
	$(AM_V_GEN)$(MKDIR_P) iofwd/messages && $(AWK) -f $(top_srcdir)/iofwd/messages/messages.awk \
		$(top_srcdir)/iofwd/messages/messages.def >$@.tmp && mv $@.tmp $@
module_LTLIBRARIES += libiofwd_messages.la
libiofwd_messages_la_SOURCES = iofwd/messages/messages.c iofwd/messages/messages.h
nodist_libiofwd_messages_la_SOURCES = iofwd/messages/functions.c
libiofwd_messages_la_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_PAR
libiofwd_messages_la_CFLAGS = $(AMPH_CFLAGS) $(MEMSET_CFLAGS) -fvisibility=hidden
libiofwd_messages_la_LIBTOOLFLAGS = $(for_loading)
libiofwd_messages_la_LDFLAGS = -module -avoid-version -shared
libiofwd_messages_la_LIBADD = -ldl

# The same for static programs: their own calls and those of their libraries lead here by ld --wrap (pkg-config iofwd-static).
if DROPIN_STATIC
lib_LTLIBRARIES += libiofwd_wrap.la
libiofwd_wrap_la_SOURCES = $(preload_sources) iofwd/interpose/attach/static.c
nodist_libiofwd_wrap_la_SOURCES = iofwd/calls/names_wrap.c
libiofwd_wrap_la_CPPFLAGS = $(AM_CPPFLAGS) -DAMPH_IP_STD_PREFIX='"__wrap__IO_2_1_"'
libiofwd_wrap_la_CFLAGS = $(AMPH_CFLAGS) $(MEMSET_CFLAGS) -fvisibility=hidden
libiofwd_wrap_la_LIBTOOLFLAGS = $(for_programs)
libiofwd_wrap_la_LDFLAGS = -static
module_DATA += iofwd/calls/iofwd-wrap.args
pkgconfig_DATA += iofwd-static.pc
endif

if HAVE_CRITERION
preload_unit = tests/unit/unit_prefix tests/unit/unit_fdtab tests/unit/unit_program_image
check_PROGRAMS += $(preload_unit)
TESTS += $(preload_unit)
tests_unit_unit_prefix_SOURCES = tests/unit/unit_prefix.c iofwd/wire/prefix.c
tests_unit_unit_prefix_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_prefix_LDADD = $(CRITERION_LIBS)
tests_unit_unit_program_image_SOURCES = tests/unit/unit_program_image.c base/program/program_image.c
tests_unit_unit_program_image_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_program_image_LDADD = $(CRITERION_LIBS)
tests_unit_unit_fdtab_SOURCES = tests/unit/unit_fdtab.c iofwd/interpose/fd/fdtab.c
tests_unit_unit_fdtab_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_fdtab_LDADD = $(CRITERION_LIBS) -lpthread
endif

# End to end, through amphora-run and its servers.
preload_scripts = \
	tests/files/calls/fwd_calls.sh \
	tests/files/data/fwd_collect.sh \
	tests/files/process/fwd_daemon.sh \
	tests/files/process/fwd_provider.sh \
	tests/files/process/fwd_networks.sh \
	tests/files/data/fwd_direct.sh \
	tests/files/calls/fwd_errno.sh \
	tests/files/failover/fwd_failover.sh \
	tests/files/limits/fwd_handles.sh \
	tests/files/process/fwd_execs.sh \
	tests/files/process/fwd_own.sh \
	tests/files/programs/fwd_programs.sh \
	tests/files/data/fwd_stripe.sh \
	tests/files/programs/fwd_tools.sh
preload_programs = tests/files/calls/fwd_calls tests/files/stdio/fwd_stdio tests/files/process/fwd_proc tests/files/limits/fwd_handles tests/files/data/fwd_stripe tests/files/data/fwd_collect
preload_scripts += \
	tests/files/failover/fwd_death.sh \
	tests/files/failover/fwd_early.sh \
	tests/files/calls/fwd_exports.sh \
	tests/files/failover/fwd_faults.sh \
	tests/files/calls/fwd_flags.sh \
	tests/files/data/fwd_fsx.sh \
	tests/files/limits/fwd_full.sh \
	tests/files/build/fwd_interface.sh \
	tests/files/programs/fwd_libs.sh \
	tests/files/calls/fwd_links.sh \
	tests/files/calls/fwd_lookups.sh \
	tests/files/calls/fwd_near.sh \
	tests/files/calls/fwd_near_links.sh \
	tests/files/calls/fwd_near_writes.sh \
	tests/files/limits/fwd_slow_server.sh \
	tests/files/ratios/fwd_ratios.sh \
	tests/files/failover/fwd_killed.sh \
	tests/files/failover/fwd_left.sh \
	tests/files/process/fwd_shares.sh \
	tests/files/process/fwd_signals.sh \
	tests/files/process/fwd_last_thread.sh \
	tests/files/process/fwd_lifetime.sh \
	tests/files/limits/fwd_least.sh \
	tests/files/limits/fwd_limits.sh \
	tests/files/process/fwd_rlimits.sh \
	tests/files/limits/fwd_budget.sh \
	tests/files/data/fwd_versions.sh \
	tests/files/memory/fwd_maps.sh \
	tests/files/calls/fwd_more.sh \
	tests/files/calls/fwd_names.sh \
	tests/files/memory/fwd_own_malloc.sh \
	tests/files/memory/fwd_patched.sh \
	tests/files/ready/fwd_pipes.sh \
	tests/files/calls/fwd_pointers.sh \
	tests/files/calls/fwd_random.sh \
	tests/files/data/fwd_passthrough.sh \
	tests/files/data/fwd_receive.sh \
	tests/files/data/fwd_record_locks.sh \
	tests/files/data/fwd_readers.sh \
	tests/files/data/fwd_round_trips.sh \
	tests/files/data/fwd_splice.sh \
	tests/files/ready/fwd_ready.sh \
	tests/files/calls/fwd_refused.sh \
	tests/files/data/fwd_libaio.sh \
	tests/files/build/fwd_bypass.sh \
	tests/files/process/fwd_relay.sh \
	tests/files/calls/fwd_valgrind.sh \
	tests/files/programs/fwd_real.sh \
	tests/files/failover/fwd_soak.sh \
	tests/files/failover/fwd_reset.sh \
	tests/files/failover/fwd_start_faults.sh \
	tests/files/stdio/fwd_complaints.sh \
	tests/files/stdio/fwd_linker.sh \
	tests/files/stdio/fwd_streams.sh \
	tests/files/programs/fwd_suites.sh \
	tests/files/process/fwd_tables.sh \
	tests/files/process/fwd_own_cwd.sh \
	tests/files/process/fwd_forks.sh \
	tests/files/process/fwd_fork_handlers.sh \
	tests/files/process/fwd_handler_memory.sh \
	tests/files/trace/fwd_clocks.sh tests/files/trace/fwd_clocks_standing.sh tests/files/trace/fwd_record_hosts.sh \
	tests/files/trace/fwd_messages.sh \
	tests/files/trace/fwd_patterns.sh \
	tests/files/trace/fwd_record.sh \
	tests/files/trace/fwd_record_async.sh \
	tests/files/trace/fwd_replay.sh \
	tests/files/trace/fwd_trace.sh \
	tests/files/calls/fwd_truth.sh
preload_scripts += tests/files/build/fwd_static.sh tests/files/programs/fwd_plain.sh
preload_programs += tests/files/memory/fwd_own_malloc tests/files/memory/fwd_patched
preload_programs += tests/files/calls/fwd_errno tests/files/calls/fwd_pointers tests/files/calls/fwd_valgrind tests/files/calls/fwd_flags
preload_programs += tests/files/process/fwd_signals tests/files/process/fwd_own_cwd tests/files/process/fwd_tables tests/files/process/fwd_tables_race tests/files/process/fwd_forks tests/files/process/fwd_fork_handlers
preload_programs += tests/files/process/fwd_handler_memory
preload_programs += tests/files/process/fwd_last_thread tests/files/process/iofwd_last_thread
preload_programs += tests/files/calls/fwd_truth tests/files/calls/fwd_more tests/files/calls/fwd_random tests/files/data/fwd_fsx tests/files/limits/fwd_limits tests/files/failover/fwd_death
preload_programs += tests/files/data/fwd_versions tests/files/limits/fwd_budget tests/files/calls/fwd_refused tests/files/data/fwd_libaio tests/files/trace/fwd_trace tests/files/failover/fwd_early
preload_programs += tests/files/failover/fwd_faults tests/files/limits/fwd_full tests/files/process/fwd_stopped
preload_programs += tests/files/calls/fwd_exports tests/files/memory/fwd_maps tests/files/calls/fwd_names tests/files/data/fwd_readers tests/files/data/fwd_splice
preload_programs += tests/files/data/fwd_passthrough tests/files/calls/fwd_lookups tests/files/calls/fwd_near \
	tests/files/calls/fwd_near_links
preload_programs += tests/files/data/fwd_record_locks tests/files/data/fwd_round_trips
preload_programs += tests/files/stdio/fwd_streams
preload_programs += tests/files/ready/fwd_ready tests/files/failover/fwd_killed tests/files/failover/fwd_left tests/files/process/fwd_shares tests/files/ready/fwd_pipes
check_PROGRAMS += $(preload_programs)
tests_files_ready_fwd_ready_SOURCES = tests/files/ready/fwd_ready.c tests/files/ready/fwd_ready.h tests/files/ready/fwd_ready_epoll.c tests/files/fwd_say.h
tests_files_ready_fwd_ready_LDFLAGS =
tests_files_ready_fwd_ready_LDADD = -lpthread
tests_files_process_fwd_shares_SOURCES = tests/files/process/fwd_shares.c tests/files/fwd_send.h tests/files/fwd_is.h
tests_files_process_fwd_shares_LDFLAGS =
tests_files_ready_fwd_pipes_SOURCES = tests/files/ready/fwd_pipes.c tests/files/fwd_say.h
tests_files_ready_fwd_pipes_LDFLAGS =
tests_files_ready_fwd_pipes_LDADD = -lpthread
tests_files_stdio_fwd_streams_SOURCES = tests/files/stdio/fwd_streams.c
tests_files_stdio_fwd_streams_LDFLAGS =
tests_files_stdio_fwd_streams_LDADD = -lpthread
tests_files_failover_fwd_killed_SOURCES = tests/files/failover/fwd_killed.c tests/files/fwd_kill.h tests/files/fwd_say.h
tests_files_failover_fwd_killed_LDFLAGS =
tests_files_failover_fwd_left_SOURCES = tests/files/failover/fwd_left.c
tests_files_failover_fwd_left_LDFLAGS =
tests_files_calls_fwd_exports_SOURCES = tests/files/calls/fwd_exports.c
tests_files_calls_fwd_exports_LDFLAGS =
tests_files_calls_fwd_exports_LDADD = -lpthread
tests_files_failover_fwd_faults_SOURCES = tests/files/failover/fwd_faults.c tests/files/fwd_say.h
tests_files_failover_fwd_faults_LDFLAGS =
tests_files_limits_fwd_full_SOURCES = tests/files/limits/fwd_full.c tests/files/fwd_say.h
tests_files_limits_fwd_full_LDADD = libiofwd.la libamphora.la
tests_files_calls_fwd_calls_SOURCES = tests/files/calls/fwd_calls.c tests/files/fwd_say.h
tests_files_calls_fwd_calls_LDFLAGS =
tests_files_stdio_fwd_stdio_SOURCES = tests/files/stdio/fwd_stdio.c tests/files/fwd_say.h
tests_files_stdio_fwd_stdio_LDFLAGS =
tests_files_process_fwd_proc_SOURCES = tests/files/process/fwd_proc.c tests/files/process/fwd_proc.h tests/files/process/fwd_proc_fork.c tests/files/fwd_say.h
tests_files_process_fwd_proc_LDFLAGS =
tests_files_process_fwd_proc_LDADD = -lpthread
tests_files_calls_fwd_truth_SOURCES = tests/files/calls/fwd_truth.c tests/files/calls/fwd_truth.h tests/files/calls/fwd_truth_flags.c tests/files/calls/fwd_truth_locks.c tests/files/fwd_say.h
tests_files_calls_fwd_truth_LDFLAGS =
tests_files_calls_fwd_truth_LDADD = -lpthread
tests_files_calls_fwd_more_SOURCES = tests/files/calls/fwd_more.c tests/files/fwd_say.h
tests_files_calls_fwd_more_LDFLAGS =
tests_files_calls_fwd_more_LDADD = -ldl
tests_files_process_fwd_forks_SOURCES = tests/files/process/fwd_forks.c tests/files/fwd_say.h
tests_files_process_fwd_forks_LDFLAGS =
tests_files_process_fwd_forks_LDADD = -lpthread
tests_files_process_fwd_fork_handlers_SOURCES = tests/files/process/fwd_fork_handlers.c tests/files/fwd_say.h
tests_files_process_fwd_fork_handlers_LDFLAGS =
tests_files_process_fwd_fork_handlers_LDADD = -lpthread
tests_files_process_fwd_handler_memory_SOURCES = tests/files/process/fwd_handler_memory.c tests/files/fwd_kill.h tests/files/fwd_say.h
tests_files_process_fwd_handler_memory_LDFLAGS =
tests_files_process_fwd_handler_memory_LDADD =
tests_files_process_fwd_own_cwd_SOURCES = tests/files/process/fwd_own_cwd.c tests/files/fwd_say.h
tests_files_process_fwd_own_cwd_LDFLAGS =
tests_files_process_fwd_own_cwd_LDADD = -lpthread
tests_files_process_fwd_tables_SOURCES = tests/files/process/fwd_tables.c tests/files/process/fwd_tables.h tests/files/fwd_say.h
tests_files_process_fwd_tables_LDFLAGS =
tests_files_process_fwd_tables_LDADD = -lpthread
tests_files_process_fwd_tables_race_SOURCES = tests/files/process/fwd_tables_race.c tests/files/process/fwd_tables.h \
	tests/files/fwd_say.h
tests_files_process_fwd_tables_race_LDFLAGS =
tests_files_process_fwd_tables_race_LDADD = -lpthread
tests_files_calls_fwd_errno_SOURCES = tests/files/calls/fwd_errno.c tests/files/fwd_say.h
tests_files_calls_fwd_errno_LDFLAGS =
tests_files_calls_fwd_pointers_SOURCES = tests/files/calls/fwd_pointers.c tests/files/fwd_say.h
tests_files_calls_fwd_pointers_LDFLAGS =
tests_files_calls_fwd_valgrind_SOURCES = tests/files/calls/fwd_valgrind.c
tests_files_calls_fwd_valgrind_LDFLAGS =
tests_files_calls_fwd_flags_SOURCES = tests/files/calls/fwd_flags.c tests/files/fwd_say.h
tests_files_calls_fwd_flags_LDFLAGS =
tests_files_process_fwd_last_thread_SOURCES = tests/files/process/fwd_last_thread.c
tests_files_process_fwd_last_thread_LDFLAGS =
tests_files_process_fwd_last_thread_LDADD = -lpthread -lrt
tests_files_process_iofwd_last_thread_SOURCES = tests/files/process/iofwd_last_thread.c
tests_files_process_iofwd_last_thread_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_PAR
tests_files_process_iofwd_last_thread_LDADD = libiofwd.la libamphora.la -lpthread
tests_files_process_fwd_signals_SOURCES = tests/files/process/fwd_signals.c
tests_files_process_fwd_signals_LDFLAGS =
tests_files_process_fwd_signals_LDADD = -lpthread
tests_files_data_fwd_fsx_SOURCES = tests/files/data/fwd_fsx.c
tests_files_data_fwd_fsx_LDFLAGS =
tests_files_memory_fwd_own_malloc_SOURCES = tests/files/memory/fwd_own_malloc.c
tests_files_memory_fwd_own_malloc_LDFLAGS =
tests_files_memory_fwd_own_malloc_LDADD =
tests_files_memory_fwd_patched_SOURCES = tests/files/memory/fwd_patched.c tests/files/fwd_say.h
tests_files_memory_fwd_patched_LDFLAGS =
tests_files_memory_fwd_patched_LDADD = -ldl
tests_files_calls_fwd_lookups_SOURCES = tests/files/calls/fwd_lookups.c tests/files/fwd_is.h tests/files/fwd_say.h
tests_files_calls_fwd_lookups_LDFLAGS =
tests_files_calls_fwd_lookups_LDADD = -lpthread
tests_files_calls_fwd_near_SOURCES = tests/files/calls/fwd_near.c tests/files/fwd_make.h tests/files/fwd_is.h tests/files/fwd_say.h
tests_files_calls_fwd_near_LDFLAGS =
tests_files_calls_fwd_near_links_SOURCES = tests/files/calls/fwd_near_links.c tests/files/fwd_make.h tests/files/fwd_is.h tests/files/fwd_say.h
tests_files_calls_fwd_near_links_LDFLAGS =
tests_files_calls_fwd_near_links_LDADD = -lpthread
tests_files_calls_fwd_names_SOURCES = tests/files/calls/fwd_names.c tests/files/fwd_say.h
tests_files_calls_fwd_names_LDFLAGS =
tests_files_limits_fwd_limits_SOURCES = tests/files/limits/fwd_limits.c
tests_files_limits_fwd_limits_LDFLAGS =
tests_files_failover_fwd_early_SOURCES = tests/files/failover/fwd_early.c
tests_files_failover_fwd_early_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_SEQ
tests_files_failover_fwd_early_LDADD = libamphora.la
tests_files_data_fwd_versions_SOURCES = tests/files/data/fwd_versions.c
tests_files_data_fwd_versions_LDFLAGS =
tests_files_data_fwd_versions_LDADD = -lpthread
tests_files_limits_fwd_budget_SOURCES = tests/files/limits/fwd_budget.c
tests_files_limits_fwd_budget_LDFLAGS =
tests_files_calls_fwd_refused_SOURCES = tests/files/calls/fwd_refused.c tests/files/fwd_is.h
tests_files_calls_fwd_refused_LDFLAGS =
tests_files_calls_fwd_refused_LDADD = -ldl
tests_files_data_fwd_libaio_SOURCES = tests/files/data/fwd_libaio.c tests/files/fwd_is.h
tests_files_data_fwd_libaio_LDFLAGS =
tests_files_data_fwd_libaio_LDADD = -ldl
tests_files_trace_fwd_trace_SOURCES = tests/files/trace/fwd_trace.c
tests_files_trace_fwd_trace_LDFLAGS =
tests_files_failover_fwd_death_SOURCES = tests/files/failover/fwd_death.c
tests_files_failover_fwd_death_LDADD = libiofwd.la libamphora.la -lpthread
tests_files_memory_fwd_maps_SOURCES = tests/files/memory/fwd_maps.c tests/files/fwd_say.h
tests_files_memory_fwd_maps_LDFLAGS =
tests_files_data_fwd_splice_SOURCES = tests/files/data/fwd_splice.c tests/files/fwd_is.h tests/files/fwd_say.h
tests_files_data_fwd_splice_LDFLAGS =
tests_files_data_fwd_splice_LDADD = -lpthread
tests_files_data_fwd_passthrough_SOURCES = tests/files/data/fwd_passthrough.c tests/files/fwd_send.h tests/files/data/fwd_passthrough.h tests/files/data/fwd_passthrough_driven.c \
	tests/files/data/fwd_passthrough_tasks.c tests/files/fwd_is.h tests/files/fwd_say.h
tests_files_data_fwd_passthrough_LDFLAGS =
tests_files_data_fwd_passthrough_LDADD = -lpthread
tests_files_data_fwd_record_locks_SOURCES = tests/files/data/fwd_record_locks.c tests/files/fwd_is.h tests/files/fwd_kill.h tests/files/fwd_say.h
tests_files_data_fwd_record_locks_LDFLAGS =
tests_files_data_fwd_record_locks_LDADD = -lpthread
tests_files_data_fwd_round_trips_SOURCES = tests/files/data/fwd_round_trips.c tests/files/fwd_send.h tests/files/fwd_is.h tests/files/fwd_say.h
tests_files_data_fwd_round_trips_LDFLAGS =
tests_files_data_fwd_readers_SOURCES = tests/files/data/fwd_readers.c tests/files/fwd_is.h
tests_files_data_fwd_readers_LDFLAGS =
tests_files_data_fwd_readers_LDADD = -lpthread
tests_files_calls_fwd_random_SOURCES = tests/files/calls/fwd_random.c tests/files/calls/fwd_random.h tests/files/calls/fwd_random_data.c
tests_files_calls_fwd_random_LDFLAGS =
tests_files_limits_fwd_handles_SOURCES = tests/files/limits/fwd_handles.c tests/files/fwd_is.h
tests_files_limits_fwd_handles_LDADD = libiofwd.la libamphora.la
tests_files_data_fwd_stripe_SOURCES = tests/files/data/fwd_stripe.c tests/files/fwd_is.h
tests_files_data_fwd_stripe_LDADD = libiofwd.la libamphora.la
check_PROGRAMS += tests/files/process/fwd_execs tests/files/process/fwd_own tests/files/failover/fwd_failover tests/files/programs/fwd_plain_mpi
tests_files_programs_fwd_plain_mpi_SOURCES = tests/files/programs/fwd_plain_mpi.c
tests_files_programs_fwd_plain_mpi_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_SEQ
tests_files_programs_fwd_plain_mpi_LDFLAGS = -export-dynamic
tests_files_programs_fwd_plain_mpi_LDADD = libamphora.la
tests_files_process_fwd_stopped_SOURCES = tests/files/process/fwd_stopped.c
tests_files_process_fwd_stopped_LDFLAGS =
tests_files_failover_fwd_failover_SOURCES = tests/files/failover/fwd_failover.c tests/files/failover/fwd_failover.h tests/files/failover/fwd_failover_calls.c
tests_files_failover_fwd_failover_LDFLAGS =
tests_files_failover_fwd_failover_LDADD = libiofwd.la libamphora.la -lpthread
tests_files_process_fwd_execs_SOURCES = tests/files/process/fwd_execs.c
tests_files_process_fwd_execs_LDFLAGS =
tests_files_process_fwd_execs_LDADD =
tests_files_process_fwd_own_SOURCES = tests/files/process/fwd_own.c
tests_files_process_fwd_own_LDADD = libiofwd.la libamphora.la
tests_files_data_fwd_collect_SOURCES = tests/files/data/fwd_collect.c tests/files/fwd_is.h
tests_files_data_fwd_collect_LDADD = libiofwd.la libamphora.la
dist_check_SCRIPTS += $(preload_scripts)
TESTS += $(preload_scripts)
# writers_figures.sh and round_trips_figures.sh are for doc/figures.md, as ratios_figures.sh, which fwd_ratios.sh runs shortly.
EXTRA_DIST += tests/files/data/writers_figures.sh tests/files/data/writers_bench.c \
	tests/files/data/round_trips_figures.sh
EXTRA_DIST += \
	tests/files/ratios/ratios_figures.sh \
	tests/files/ratios/fwd_ratios.c \
	tests/files/ratios/ratios.h \
	tests/files/ratios/ratios_names.c \
	tests/files/ratios/ratios_trees.c \
	tests/files/ratios/ratios_data.c \
	tests/files/ratios/ratios_process.c \
	tests/files/ratios/ratios_shared.c
# fwd_debian.sh, fwd_mpi_real.sh, fwd_mpi_io.sh, fwd_outside.sh, fwd_starts.sh, fwd_vanished.sh and fwd_watchers.sh are
# for the nightly run, which finds them here.
EXTRA_DIST += \
	tests/files/calls/slow_close.c \
	tests/files/limits/slow_mkdir.c \
	tests/files/data/splice_fault.c \
	tests/files/failover/fault_fs.c \
	tests/files/failover/fault_client.c \
	tests/files/failover/fwd_reset.c \
	tests/files/failover/fwd_reset_read.c \
	tests/files/failover/fwd_vanished.sh \
	tests/files/failover/fault_start.c \
	tests/files/programs/fwd_fortran.f90 \
	tests/files/fwd_lib.sh \
	tests/files/mounts.sh \
	tests/files/own_shm.sh \
	tests/files/programs/fwd_mpi.c \
	tests/files/programs/fwd_mpi_real.sh \
	tests/files/trace/fwd_mpi_io.sh \
	tests/files/process/fwd_starts.sh \
	tests/files/programs/fwd_python.py \
	tests/files/programs/fwd_debian.sh \
	tests/files/programs/fwd_debian_more.sh \
	tests/files/programs/fwd_debian_programs.sh \
	tests/files/programs/fwd_outside.sh \
	tests/files/programs/fwd_shell_commands.sh \
	tests/files/programs/fwd_sockets.py \
	tests/files/programs/fwd_suites_commands.sh \
	tests/files/process/fwd_relay.c \
	tests/files/build/fwd_static.c \
	tests/files/build/fwd_static.cc \
	tests/files/build/fwd_static.f90 \
	tests/files/programs/fwd_tools_commands.sh \
	tests/files/programs/fwd_watchers.sh
