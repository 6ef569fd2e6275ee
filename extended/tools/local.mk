# The GASNet tools: part of libamphora, and libgasnet_tools-{seq,par} for programs without the runtime.  Both are the same: what
# depends on the thread mode is in the headers.
gasnet_tools_sources = \
	extended/tools/backtrace.c \
	extended/tools/environ.c \
	extended/tools/fatal.c \
	extended/tools/lock.c \
	extended/tools/machine.c \
	extended/tools/number.c \
	extended/tools/ticks.c \
	extended/tools/tools.h
libamphora_la_SOURCES += $(gasnet_tools_sources)

ARFLAGS = cr
lib_LIBRARIES = libgasnet_tools-seq.a libgasnet_tools-par.a
libgasnet_tools_seq_a_SOURCES = $(gasnet_tools_sources) base/settings/env.c base/settings/env_parse.c base/log.c
libgasnet_tools_seq_a_CPPFLAGS = $(AM_CPPFLAGS)
libgasnet_tools_seq_a_CFLAGS = $(AM_CFLAGS) -fPIC
libgasnet_tools_par_a_SOURCES = $(gasnet_tools_sources) base/settings/env.c base/settings/env_parse.c base/log.c
libgasnet_tools_par_a_CPPFLAGS = $(AM_CPPFLAGS)
libgasnet_tools_par_a_CFLAGS = $(AM_CFLAGS) -fPIC

include_HEADERS += include/gasnet_fwd.h include/gasnet_portable_platform.h include/gasnet_tools.h
amphorainclude_HEADERS += include/amphora/version.h
amphoratoolsincludedir = $(includedir)/amphora/tools
amphoratoolsinclude_HEADERS = \
	include/amphora/tools/annotate.h \
	include/amphora/tools/atomic.h \
	include/amphora/tools/base.h \
	include/amphora/tools/client_names.h \
	include/amphora/tools/debug.h \
	include/amphora/tools/env.h \
	include/amphora/tools/lock.h \
	include/amphora/tools/system.h \
	include/amphora/tools/threadkey.h \
	include/amphora/tools/timer.h

# What a client's build needs to know, for pkg-config and for make.
gasnet_tools_kit = gasnet_tools-seq.pc gasnet_tools-par.pc gasnet_tools-seq.mak gasnet_tools-par.mak
pkgconfig_DATA += gasnet_tools-seq.pc gasnet_tools-par.pc
gasnettoolsmakdir = $(includedir)
gasnettoolsmak_DATA = gasnet_tools-seq.mak gasnet_tools-par.mak
EXTRA_DIST += extended/tools/gasnet_tools.pc.in extended/tools/gasnet_tools.mak.in
CLEANFILES += $(gasnet_tools_kit)
gasnet_tools_fill = $(SED) -e 's|%prefix%|$(prefix)|g' -e 's|%libdir%|$(libdir)|g' -e 's|%includedir%|$(includedir)|g' \
	-e '/^[a-z]*dir=/s|=$(prefix)/|=$${prefix}/|' -e '/^GASNETTOOLS_[CL]/s|$(prefix)/|$$(GASNETTOOLS_PREFIX)/|g' \
	-e 's|%VERSION%|$(PACKAGE_VERSION)|g' -e 's|%CC%|$(CC)|g' -e 's|%CXX%|$(CXX)|g'
gasnet_tools-seq.pc gasnet_tools-seq.mak: extended/tools/local.mk
	$(AM_V_GEN)$(gasnet_tools_fill) -e 's|%mode%|seq|g' -e 's|%MODE%|SINGLE|g' $(top_srcdir)/extended/tools/gasnet_tools$(suffix $@).in >$@
gasnet_tools-par.pc gasnet_tools-par.mak: extended/tools/local.mk
	$(AM_V_GEN)$(gasnet_tools_fill) -e 's|%mode%|par|g' -e 's|%MODE%|SAFE|g' $(top_srcdir)/extended/tools/gasnet_tools$(suffix $@).in >$@
gasnet_tools-seq.pc gasnet_tools-par.pc: extended/tools/gasnet_tools.pc.in
gasnet_tools-seq.mak gasnet_tools-par.mak: extended/tools/gasnet_tools.mak.in

# Unit tests, linked with the tools alone: for several threads with checks, for one without.
if HAVE_CRITERION
check_PROGRAMS += tests/unit/unit_tools tests/unit/unit_tools_seq
TESTS += tests/unit/unit_tools tests/unit/unit_tools_seq
unit_tools_sources = tests/unit/unit_tools.c tests/unit/unit_tools.h tests/unit/unit_tools_atomic.c tests/unit/unit_tools_lock.c tests/unit/unit_tools_misc.c
tests_unit_unit_tools_SOURCES = $(unit_tools_sources)
tests_unit_unit_tools_CPPFLAGS = $(UNIT_CPPFLAGS) -DGASNETT_THREAD_SAFE=1 -DGASNET_DEBUG=1
tests_unit_unit_tools_LDADD = libgasnet_tools-par.a $(CRITERION_LIBS) -lpthread -ldl -lm
tests_unit_unit_tools_seq_SOURCES = $(unit_tools_sources)
tests_unit_unit_tools_seq_CPPFLAGS = $(UNIT_CPPFLAGS) -DGASNETT_THREAD_SINGLE=1
tests_unit_unit_tools_seq_LDADD = libgasnet_tools-seq.a $(CRITERION_LIBS) -lpthread -ldl -lm
endif

# The tools in jobs, and what compilers make of the headers.
check_PROGRAMS += tests/tools/gasnet_tools tests/tools/gasnet_tools_par
tests_tools_gasnet_tools_SOURCES = tests/tools/gasnet_tools.c tests/gex/gex_common.h
tests_tools_gasnet_tools_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_tools_gasnet_tools_LDADD = libamphora.la
tests_tools_gasnet_tools_par_SOURCES = tests/tools/gasnet_tools.c tests/gex/gex_common.h
tests_tools_gasnet_tools_par_CPPFLAGS = -DGASNET_PAR -DGASNET_DEBUG=1 $(gex_client_cppflags)
tests_tools_gasnet_tools_par_LDADD = libamphora.la -lpthread
dist_check_SCRIPTS += tests/tools/gasnet_tools.sh tests/tools/gasnet_tools_headers.sh
TESTS += tests/tools/gasnet_tools.sh tests/tools/gasnet_tools_headers.sh
EXTRA_DIST += tests/tools/gasnet_tools.names tests/tools/gasnet_tools_use.cc tests/tools/gasnet_tools_race.c

# Threads that use the tools and all of the API at once.
check_PROGRAMS += tests/gex/gex_mix_threads
tests_gex_gex_mix_threads_SOURCES = tests/gex/gex_mix_threads.c tests/gex/gex_common.h
tests_gex_gex_mix_threads_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_gex_gex_mix_threads_LDADD = libamphora.la -lpthread
dist_check_SCRIPTS += tests/gex/gex_mix_threads.sh
TESTS += tests/gex/gex_mix_threads.sh
