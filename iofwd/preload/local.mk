# libiofwd_preload: catches the file calls of unmodified programs.  It needs the C library only and loads libiofwd at the first call
# that must be forwarded; sanitizers stay out of it, since it comes before their run-time library in every program.
preload_generated = iofwd/preload/names.h iofwd/preload/names.c iofwd/preload/core_calls.h
BUILT_SOURCES += iofwd/preload/names.h iofwd/preload/core_calls.h
CLEANFILES += $(preload_generated)
EXTRA_DIST += iofwd/preload/names.def iofwd/preload/names.awk

iofwd/preload/names.h iofwd/preload/names.c: iofwd/preload/names.def iofwd/preload/names.awk
	$(AM_V_GEN)$(MKDIR_P) iofwd/preload && $(AWK) -f $(top_srcdir)/iofwd/preload/names.awk -v out=$(@F) \
		$(top_srcdir)/iofwd/preload/names.def >$@.tmp && mv $@.tmp $@
iofwd/preload/core_calls.h: iofwd/calls.def iofwd/preload/names.awk
	$(AM_V_GEN)$(MKDIR_P) iofwd/preload && $(AWK) -f $(top_srcdir)/iofwd/preload/names.awk -v out=core.h \
		$(top_srcdir)/iofwd/calls.def >$@.tmp && mv $@.tmp $@

module_LTLIBRARIES += libiofwd_preload.la
libiofwd_preload_la_SOURCES = \
	iofwd/fdtab.c iofwd/fdtab.h iofwd/prefix.c iofwd/prefix.h \
	iofwd/preload/catch.h iofwd/preload/core.c iofwd/preload/core.h iofwd/preload/cwd.c iofwd/preload/dir.c iofwd/preload/fd.c \
	iofwd/preload/guard.c iofwd/preload/init.c iofwd/preload/io.c iofwd/preload/meta.c iofwd/preload/proc.c iofwd/preload/real.c \
	iofwd/preload/real.h iofwd/preload/stream.c iofwd/preload/stream.h iofwd/preload/targets.h iofwd/preload/walk.c \
	iofwd/preload/where.c iofwd/preload/where.h iofwd/preload/wide.c
nodist_libiofwd_preload_la_SOURCES = iofwd/preload/names.c
libiofwd_preload_la_CPPFLAGS = $(AM_CPPFLAGS)
libiofwd_preload_la_CFLAGS = $(AMPH_CFLAGS) -fvisibility=hidden
libiofwd_preload_la_LDFLAGS = -module -avoid-version -shared
libiofwd_preload_la_LIBADD = -ldl -lpthread

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
preload_scripts = tests/mp/fwd_calls.sh tests/mp/fwd_handles.sh tests/mp/fwd_tools.sh tests/mp/fwd_stripe.sh tests/mp/fwd_collect.sh
preload_programs = tests/mp/fwd_calls tests/mp/fwd_stdio tests/mp/fwd_proc tests/mp/fwd_handles tests/mp/fwd_stripe tests/mp/fwd_collect
check_PROGRAMS += $(preload_programs)
tests_mp_fwd_calls_SOURCES = tests/mp/fwd_calls.c
tests_mp_fwd_calls_LDFLAGS =
tests_mp_fwd_stdio_SOURCES = tests/mp/fwd_stdio.c
tests_mp_fwd_stdio_LDFLAGS =
tests_mp_fwd_proc_SOURCES = tests/mp/fwd_proc.c
tests_mp_fwd_proc_LDFLAGS =
tests_mp_fwd_proc_LDADD = -lpthread
tests_mp_fwd_handles_SOURCES = tests/mp/fwd_handles.c
tests_mp_fwd_handles_LDADD = libiofwd.la libamphora.la
tests_mp_fwd_stripe_SOURCES = tests/mp/fwd_stripe.c
tests_mp_fwd_stripe_LDADD = libiofwd.la libamphora.la
tests_mp_fwd_collect_SOURCES = tests/mp/fwd_collect.c
tests_mp_fwd_collect_LDADD = libiofwd.la libamphora.la
dist_check_SCRIPTS += $(preload_scripts)
TESTS += $(preload_scripts)
EXTRA_DIST += tests/mp/fwd_lib.sh tests/mp/fwd_tools_commands.sh tests/mp/fwd_shell_commands.sh tests/mp/fwd_python.py
