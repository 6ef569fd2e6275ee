# libamphora-upc: UPC's run-time library in C, over the public API of libamphora and libiofwd.
include_HEADERS += include/upc_bridge.h
amphoraupcincludedir = $(includedir)/amphora/upc
amphoraupcinclude_HEADERS = \
	include/amphora/upc/access.h \
	include/amphora/upc/atomic.h \
	include/amphora/upc/castable_words.h \
	include/amphora/upc/collective.h \
	include/amphora/upc/core.h \
	include/amphora/upc/io.h \
	include/amphora/upc/io_words.h \
	include/amphora/upc/memory.h \
	include/amphora/upc/pts.h \
	include/amphora/upc/types.h \
	include/amphora/upc/version.h

lib_LTLIBRARIES += libamphora-upc.la
pkgconfig_DATA += amphora-upc.pc
libamphora_upc_la_SOURCES = \
	upc-bridge/alloc.c \
	upc-bridge/atomic.c \
	upc-bridge/io/files.h \
	upc-bridge/heap.c \
	upc-bridge/heap.h \
	upc-bridge/io/io.c \
	upc-bridge/io/calls.c \
	upc-bridge/io/exchange.c \
	upc-bridge/io/file.c \
	upc-bridge/io/collective.c \
	upc-bridge/io/move.c \
	upc-bridge/lock.c \
	upc-bridge/memory.c \
	upc-bridge/move.c \
	upc-bridge/reduce.c \
	upc-bridge/sort.c \
	upc-bridge/start.c \
	upc-bridge/sync.c \
	upc-bridge/upc.h
libamphora_upc_la_CPPFLAGS = $(AM_CPPFLAGS)
libamphora_upc_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,-Bsymbolic-functions \
	-Wl,--version-script=$(top_srcdir)/upc-bridge/libamphora-upc.map
EXTRA_libamphora_upc_la_DEPENDENCIES = $(top_srcdir)/upc-bridge/libamphora-upc.map
EXTRA_DIST += upc-bridge/libamphora-upc.map
libamphora_upc_la_LIBADD = libiofwd.la libamphora.la -lpthread

# Programs on it, built as clients are.
upc_client_cppflags = -I$(top_srcdir)/include -I$(top_srcdir)
upc_mp = tests/upc/upc_core tests/upc/upc_coll tests/upc/upc_io tests/upc/upc_litmus
check_PROGRAMS += $(upc_mp) tests/upc/upc_core_struct tests/upc/upc_coll_struct tests/upc/upc_bad
dist_check_SCRIPTS += $(upc_mp:=.sh) tests/upc/upc_bench.sh
TESTS += $(upc_mp:=.sh) tests/upc/upc_bench.sh
upc_libs = libamphora-upc.la libiofwd.la libamphora.la
tests_upc_upc_core_SOURCES = tests/upc/upc_core.c tests/upc/upc_common.h
tests_upc_upc_core_CPPFLAGS = $(upc_client_cppflags)
tests_upc_upc_core_LDADD = $(upc_libs)
tests_upc_upc_core_struct_SOURCES = tests/upc/upc_core.c tests/upc/upc_common.h
tests_upc_upc_core_struct_CPPFLAGS = -DUPC_PTS_STRUCT $(upc_client_cppflags)
tests_upc_upc_core_struct_LDADD = $(upc_libs)
tests_upc_upc_coll_SOURCES = tests/upc/upc_coll.c tests/upc/upc_common.h
tests_upc_upc_coll_CPPFLAGS = $(upc_client_cppflags)
tests_upc_upc_coll_LDADD = $(upc_libs)
tests_upc_upc_coll_struct_SOURCES = tests/upc/upc_coll.c tests/upc/upc_common.h
tests_upc_upc_coll_struct_CPPFLAGS = -DUPC_PTS_STRUCT $(upc_client_cppflags)
tests_upc_upc_coll_struct_LDADD = $(upc_libs)
tests_upc_upc_io_SOURCES = tests/upc/upc_io.c tests/upc/upc_common.h
tests_upc_upc_io_CPPFLAGS = $(upc_client_cppflags)
tests_upc_upc_io_LDADD = $(upc_libs)

# Figures of UPC programs.
bin_PROGRAMS += upc-bench
upc_bench_SOURCES = \
	tools/upcbench/files.c \
	tools/upcbench/inside.c \
	tools/upcbench/main.c \
	tools/upcbench/plot.c \
	tools/upcbench/samplers.c \
	tools/upcbench/upcbench.h
upc_bench_CPPFLAGS = $(upc_client_cppflags) -include config.h -I$(top_builddir)
upc_bench_LDADD = $(upc_libs) -lm

# A real program on it; its numbers must not depend on how a loop was compiled.
noinst_PROGRAMS += examples/heat3d/heat3d
examples_heat3d_heat3d_SOURCES = examples/heat3d/heat3d.c examples/heat3d/heat3d.h examples/heat3d/heat3d_io.c
examples_heat3d_heat3d_CPPFLAGS = $(upc_client_cppflags)
examples_heat3d_heat3d_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
examples_heat3d_heat3d_LDADD = $(upc_libs)
dist_check_SCRIPTS += tests/examples/heat3d.sh
TESTS += tests/examples/heat3d.sh
tests_upc_upc_litmus_SOURCES = tests/upc/upc_litmus.c tests/upc/upc_common.h
tests_upc_upc_litmus_CPPFLAGS = $(upc_client_cppflags)
tests_upc_upc_litmus_LDADD = $(upc_libs)
tests_upc_upc_bad_SOURCES = tests/upc/upc_bad.c tests/upc/upc_common.h
tests_upc_upc_bad_CPPFLAGS = $(upc_client_cppflags)
tests_upc_upc_bad_LDADD = $(upc_libs)
