# libiofwd_preload: catches the file calls of unmodified programs.  It needs the C library only and loads libiofwd at the first call
# that must be forwarded; sanitizers stay out of it, since it comes before their run-time library in every program.
preload_generated = \
	iofwd/preload/core_calls.h \
	iofwd/preload/iofwd-wrap.args \
	iofwd/preload/names.c \
	iofwd/preload/names.h \
	iofwd/preload/names_wrap.c
BUILT_SOURCES += iofwd/preload/names.h iofwd/preload/core_calls.h
CLEANFILES += $(preload_generated)
EXTRA_DIST += iofwd/preload/names.def iofwd/preload/names.awk iofwd/preload/libc.def
CLEANFILES += doc/iofwd-calls.md
dist_check_SCRIPTS += tests/iofwd_names.sh
TESTS += tests/iofwd_names.sh

doc/iofwd-calls.md: iofwd/calls.def iofwd/preload/names.def iofwd/preload/libc.def iofwd/preload/names.awk
	$(AM_V_GEN)$(MKDIR_P) doc && $(AWK) -f $(top_srcdir)/iofwd/preload/names.awk -v out=doc $(top_srcdir)/iofwd/calls.def \
		$(top_srcdir)/iofwd/preload/names.def $(top_srcdir)/iofwd/preload/libc.def >$@.tmp && mv $@.tmp $@

iofwd/preload/names.h iofwd/preload/names.c iofwd/preload/names_wrap.c iofwd/preload/iofwd-wrap.args: \
		iofwd/preload/names.def iofwd/preload/names.awk
	$(AM_V_GEN)$(MKDIR_P) iofwd/preload && $(AWK) -f $(top_srcdir)/iofwd/preload/names.awk -v out=$(@F) \
		$(top_srcdir)/iofwd/preload/names.def >$@.tmp && mv $@.tmp $@
iofwd/preload/core_calls.h: iofwd/calls.def iofwd/preload/names.awk
	$(AM_V_GEN)$(MKDIR_P) iofwd/preload && $(AWK) -f $(top_srcdir)/iofwd/preload/names.awk -v out=core.h \
		$(top_srcdir)/iofwd/calls.def >$@.tmp && mv $@.tmp $@

module_LTLIBRARIES += libiofwd_preload.la
preload_sources = \
	base/env_parse.c \
	base/env_parse.h \
	iofwd/fdtab.c \
	iofwd/fdtab.h \
	iofwd/prefix.c \
	iofwd/prefix.h \
	iofwd/preload/aio.c \
	iofwd/preload/any.h \
	iofwd/preload/cancel.c \
	iofwd/preload/catch.h \
	iofwd/preload/coherent.c \
	iofwd/preload/control.c \
	iofwd/preload/copy.c \
	iofwd/preload/core.c \
	iofwd/preload/core.h \
	iofwd/preload/cwd.c \
	iofwd/preload/dir.c \
	iofwd/preload/environ.c \
	iofwd/preload/epoll.c \
	iofwd/preload/exec.c \
	iofwd/preload/fd.c \
	iofwd/preload/foreign.c \
	iofwd/preload/foreign.h \
	iofwd/preload/fork.c \
	iofwd/preload/fsize.c \
	iofwd/preload/fsize.h \
	iofwd/preload/fts.c \
	iofwd/preload/guard.c \
	iofwd/preload/init.c \
	iofwd/preload/io.c \
	iofwd/preload/kernel.h \
	iofwd/preload/library.c \
	iofwd/preload/limits.c \
	iofwd/preload/lock.c \
	iofwd/preload/long.c \
	iofwd/preload/long.h \
	iofwd/preload/lost.c \
	iofwd/preload/map.c \
	iofwd/preload/meta.c \
	iofwd/preload/needs.c \
	iofwd/preload/needs.h \
	iofwd/preload/numbers.def \
	iofwd/preload/numbers.h \
	iofwd/preload/pages.c \
	iofwd/preload/pages.h \
	iofwd/preload/pages_space.c \
	iofwd/preload/proc.c \
	iofwd/preload/reach.c \
	iofwd/preload/reach.h \
	iofwd/preload/ready.c \
	iofwd/preload/ready.h \
	iofwd/preload/real.h \
	iofwd/preload/relay.c \
	iofwd/preload/relay.h \
	iofwd/preload/search.c \
	iofwd/preload/settings.c \
	iofwd/preload/settings.h \
	iofwd/preload/socket.c \
	iofwd/preload/spawn.c \
	iofwd/preload/start.c \
	iofwd/preload/start.h \
	iofwd/preload/std_files.c \
	iofwd/preload/stream.c \
	iofwd/preload/stream.h \
	iofwd/preload/resolve.c \
	iofwd/preload/resolve.h \
	iofwd/preload/syscall.c \
	iofwd/preload/targets.h \
	iofwd/preload/temp.c \
	iofwd/preload/walk.c \
	iofwd/preload/procfs.c \
	iofwd/preload/procfs.h \
	iofwd/preload/where.c \
	iofwd/preload/where.h \
	iofwd/preload/wide.c \
	iofwd/preload/xattr.c
libiofwd_preload_la_SOURCES = $(preload_sources) iofwd/preload/core_load.c iofwd/preload/mpi.c iofwd/preload/real.c
nodist_libiofwd_preload_la_SOURCES = iofwd/preload/names.c
libiofwd_preload_la_CPPFLAGS = $(AM_CPPFLAGS) -DFWD_STD_PREFIX='"_IO_2_1_"'
libiofwd_preload_la_CFLAGS = $(AMPH_CFLAGS) -fvisibility=hidden
libiofwd_preload_la_LDFLAGS = -module -avoid-version -shared -Wl,-z,initfirst
libiofwd_preload_la_LIBADD = -ldl -lpthread

# The same for static programs: their own calls and those of their libraries lead here by ld --wrap (pkg-config iofwd-static).
if DROPIN_STATIC
lib_LTLIBRARIES += libiofwd_wrap.la
libiofwd_wrap_la_SOURCES = $(preload_sources) iofwd/preload/core_static.c
nodist_libiofwd_wrap_la_SOURCES = iofwd/preload/names_wrap.c
libiofwd_wrap_la_CPPFLAGS = $(AM_CPPFLAGS) -Dfwd_state=fwd_wrap_state -DFWD_STD_PREFIX='"__wrap__IO_2_1_"'
libiofwd_wrap_la_CFLAGS = $(AMPH_CFLAGS) -fvisibility=hidden
libiofwd_wrap_la_LDFLAGS = -static
module_DATA = iofwd/preload/iofwd-wrap.args
pkgconfig_DATA += iofwd-static.pc
endif

if HAVE_CRITERION
preload_unit = tests/unit_prefix tests/unit_fdtab
check_PROGRAMS += $(preload_unit)
TESTS += $(preload_unit)
tests_unit_prefix_SOURCES = tests/unit_prefix.c iofwd/prefix.c
tests_unit_prefix_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_prefix_LDADD = $(CRITERION_LIBS)
tests_unit_fdtab_SOURCES = tests/unit_fdtab.c iofwd/fdtab.c
tests_unit_fdtab_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_fdtab_LDADD = $(CRITERION_LIBS) -lpthread
endif

# End to end, through amphora-run and its servers.
preload_scripts = \
	tests/mp/fwd_calls.sh \
	tests/mp/fwd_collect.sh \
	tests/mp/fwd_daemon.sh \
	tests/mp/fwd_direct.sh \
	tests/mp/fwd_failover.sh \
	tests/mp/fwd_handles.sh \
	tests/mp/fwd_own.sh \
	tests/mp/fwd_programs.sh \
	tests/mp/fwd_stripe.sh \
	tests/mp/fwd_tools.sh
preload_programs = tests/mp/fwd_calls tests/mp/fwd_stdio tests/mp/fwd_proc tests/mp/fwd_handles tests/mp/fwd_stripe tests/mp/fwd_collect
preload_scripts += \
	tests/mp/fwd_death.sh \
	tests/mp/fwd_exports.sh \
	tests/mp/fwd_faults.sh \
	tests/mp/fwd_fsx.sh \
	tests/mp/fwd_full.sh \
	tests/mp/fwd_libs.sh \
	tests/mp/fwd_links.sh \
	tests/mp/fwd_killed.sh \
	tests/mp/fwd_shares.sh \
	tests/mp/fwd_lifetime.sh \
	tests/mp/fwd_limits.sh \
	tests/mp/fwd_budget.sh \
	tests/mp/fwd_maps.sh \
	tests/mp/fwd_more.sh \
	tests/mp/fwd_names.sh \
	tests/mp/fwd_patched.sh \
	tests/mp/fwd_pipes.sh \
	tests/mp/fwd_random.sh \
	tests/mp/fwd_readers.sh \
	tests/mp/fwd_ready.sh \
	tests/mp/fwd_relay.sh \
	tests/mp/fwd_real.sh \
	tests/mp/fwd_soak.sh \
	tests/mp/fwd_streams.sh \
	tests/mp/fwd_suites.sh \
	tests/mp/fwd_truth.sh
preload_scripts += tests/mp/fwd_static.sh tests/mp/fwd_plain.sh
preload_programs += tests/mp/fwd_patched
preload_programs += tests/mp/fwd_truth tests/mp/fwd_more tests/mp/fwd_random tests/mp/fwd_fsx tests/mp/fwd_limits tests/mp/fwd_death
preload_programs += tests/mp/fwd_budget
preload_programs += tests/mp/fwd_faults tests/mp/fwd_full tests/mp/fwd_stopped
preload_programs += tests/mp/fwd_exports tests/mp/fwd_maps tests/mp/fwd_names tests/mp/fwd_readers
preload_programs += tests/mp/fwd_streams
preload_programs += tests/mp/fwd_ready tests/mp/fwd_killed tests/mp/fwd_shares tests/mp/fwd_pipes
check_PROGRAMS += $(preload_programs)
tests_mp_fwd_ready_SOURCES = tests/mp/fwd_ready.c tests/mp/fwd_say.h
tests_mp_fwd_ready_LDFLAGS =
tests_mp_fwd_ready_LDADD = -lpthread
tests_mp_fwd_shares_SOURCES = tests/mp/fwd_shares.c tests/mp/fwd_is.h
tests_mp_fwd_shares_LDFLAGS =
tests_mp_fwd_pipes_SOURCES = tests/mp/fwd_pipes.c tests/mp/fwd_say.h
tests_mp_fwd_pipes_LDFLAGS =
tests_mp_fwd_pipes_LDADD = -lpthread
tests_mp_fwd_streams_SOURCES = tests/mp/fwd_streams.c
tests_mp_fwd_streams_LDFLAGS =
tests_mp_fwd_streams_LDADD = -lpthread
tests_mp_fwd_killed_SOURCES = tests/mp/fwd_killed.c tests/mp/fwd_kill.h tests/mp/fwd_say.h
tests_mp_fwd_killed_LDFLAGS =
tests_mp_fwd_exports_SOURCES = tests/mp/fwd_exports.c
tests_mp_fwd_exports_LDFLAGS =
tests_mp_fwd_exports_LDADD = -lpthread
tests_mp_fwd_faults_SOURCES = tests/mp/fwd_faults.c tests/mp/fwd_say.h
tests_mp_fwd_faults_LDFLAGS =
tests_mp_fwd_full_SOURCES = tests/mp/fwd_full.c tests/mp/fwd_say.h
tests_mp_fwd_full_LDADD = libiofwd.la libamphora.la
tests_mp_fwd_calls_SOURCES = tests/mp/fwd_calls.c tests/mp/fwd_say.h
tests_mp_fwd_calls_LDFLAGS =
tests_mp_fwd_stdio_SOURCES = tests/mp/fwd_stdio.c tests/mp/fwd_say.h
tests_mp_fwd_stdio_LDFLAGS =
tests_mp_fwd_proc_SOURCES = tests/mp/fwd_proc.c tests/mp/fwd_say.h
tests_mp_fwd_proc_LDFLAGS =
tests_mp_fwd_proc_LDADD = -lpthread
tests_mp_fwd_truth_SOURCES = tests/mp/fwd_truth.c tests/mp/fwd_say.h
tests_mp_fwd_truth_LDFLAGS =
tests_mp_fwd_truth_LDADD = -lpthread
tests_mp_fwd_more_SOURCES = tests/mp/fwd_more.c tests/mp/fwd_say.h
tests_mp_fwd_more_LDFLAGS =
tests_mp_fwd_more_LDADD = -ldl
tests_mp_fwd_fsx_SOURCES = tests/mp/fwd_fsx.c
tests_mp_fwd_fsx_LDFLAGS =
tests_mp_fwd_patched_SOURCES = tests/mp/fwd_patched.c tests/mp/fwd_say.h
tests_mp_fwd_patched_LDFLAGS =
tests_mp_fwd_patched_LDADD = -ldl
tests_mp_fwd_names_SOURCES = tests/mp/fwd_names.c tests/mp/fwd_say.h
tests_mp_fwd_names_LDFLAGS =
tests_mp_fwd_limits_SOURCES = tests/mp/fwd_limits.c
tests_mp_fwd_limits_LDFLAGS =
tests_mp_fwd_budget_SOURCES = tests/mp/fwd_budget.c
tests_mp_fwd_budget_LDFLAGS =
tests_mp_fwd_death_SOURCES = tests/mp/fwd_death.c
tests_mp_fwd_death_LDADD = libiofwd.la libamphora.la -lpthread
tests_mp_fwd_maps_SOURCES = tests/mp/fwd_maps.c tests/mp/fwd_say.h
tests_mp_fwd_maps_LDFLAGS =
tests_mp_fwd_readers_SOURCES = tests/mp/fwd_readers.c tests/mp/fwd_is.h
tests_mp_fwd_readers_LDFLAGS =
tests_mp_fwd_readers_LDADD = -lpthread
tests_mp_fwd_random_SOURCES = tests/mp/fwd_random.c
tests_mp_fwd_random_LDFLAGS =
tests_mp_fwd_handles_SOURCES = tests/mp/fwd_handles.c tests/mp/fwd_is.h
tests_mp_fwd_handles_LDADD = libiofwd.la libamphora.la
tests_mp_fwd_stripe_SOURCES = tests/mp/fwd_stripe.c tests/mp/fwd_is.h
tests_mp_fwd_stripe_LDADD = libiofwd.la libamphora.la
check_PROGRAMS += tests/mp/fwd_own tests/mp/fwd_failover tests/mp/fwd_plain_mpi
tests_mp_fwd_plain_mpi_SOURCES = tests/mp/fwd_plain_mpi.c
tests_mp_fwd_plain_mpi_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_SEQ
tests_mp_fwd_plain_mpi_LDFLAGS = -export-dynamic
tests_mp_fwd_plain_mpi_LDADD = libamphora.la
tests_mp_fwd_stopped_SOURCES = tests/mp/fwd_stopped.c
tests_mp_fwd_stopped_LDFLAGS =
tests_mp_fwd_failover_SOURCES = tests/mp/fwd_failover.c
tests_mp_fwd_failover_LDFLAGS =
tests_mp_fwd_failover_LDADD = libiofwd.la libamphora.la -lpthread
tests_mp_fwd_own_SOURCES = tests/mp/fwd_own.c
tests_mp_fwd_own_LDADD = libiofwd.la libamphora.la
tests_mp_fwd_collect_SOURCES = tests/mp/fwd_collect.c tests/mp/fwd_is.h
tests_mp_fwd_collect_LDADD = libiofwd.la libamphora.la
dist_check_SCRIPTS += $(preload_scripts)
# Of all MPI libraries of the distribution: for the nightly run.
dist_check_SCRIPTS += tests/mp/fwd_mpi_real.sh
TESTS += $(preload_scripts)
EXTRA_DIST += \
	tests/mp/fault_fs.c \
	tests/mp/fwd_fortran.f90 \
	tests/mp/fwd_lib.sh \
	tests/mp/mounts.sh \
	tests/mp/fwd_mpi.c \
	tests/mp/fwd_python.py \
	tests/mp/fwd_outside.sh \
	tests/mp/fwd_shell_commands.sh \
	tests/mp/fwd_sockets.py \
	tests/mp/fwd_suites_commands.sh \
	tests/mp/fwd_relay.c \
	tests/mp/fwd_static.c \
	tests/mp/fwd_tools_commands.sh
