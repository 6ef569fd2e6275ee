# libamphora: base, boot, conduits (smp, registry), am, extended.  The other folders add to libamphora_la_SOURCES.
lib_LTLIBRARIES += libamphora.la
libamphora_la_SOURCES =
libamphora_la_CPPFLAGS = $(AM_CPPFLAGS) $(NETTLE_CFLAGS)
libamphora_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,-Bsymbolic-functions \
	-Wl,--version-script=$(top_srcdir)/base/libamphora.map
EXTRA_libamphora_la_DEPENDENCIES = $(top_srcdir)/base/libamphora.map
EXTRA_DIST += base/README.md base/libamphora.map include/README.md
libamphora_la_LIBADD = $(NETTLE_LIBS) -ldl -lpthread -lrt
pkgconfig_DATA += amphora.pc amphora-net.pc

libamphora_la_SOURCES += \
	base/os/aligned.h \
	base/os/arena.c \
	base/os/arena.h \
	base/auth.c \
	base/auth.h \
	base/clmul.c \
	base/clmul.h \
	base/copy.h \
	base/os/clock.h \
	base/os/host_clock.h \
	base/settings/counter_defs.h \
	base/settings/counters.c \
	base/settings/counters.h \
	base/settings/env.c \
	base/settings/env.h \
	base/settings/env_accepted.h \
	base/settings/env_defs.h \
	base/settings/env_parse.c \
	base/settings/env_parse.h \
	base/log.c \
	base/os/descriptors.c \
	base/os/descriptors.h \
	base/os/fence.c \
	base/os/fence.h \
	base/os/limits.c \
	base/os/limits.h \
	base/os/work.c \
	base/os/work.h \
	base/log.h \
	base/log_json.h \
	base/visible.h \
	base/program/note.h \
	base/program/stdout_check.h \
	base/program/open_mpi.h \
	base/platform.h \
	base/quote.c \
	base/quote.h \
	base/status.c \
	base/status.h \
	base/os/thread.c \
	base/os/thread.h \
	base/wire.c \
	base/wire.h

# Topology (hwloc) is for the programs; a client process must not pay for loading hwloc.
noinst_LTLIBRARIES += libtopo.la
libtopo_la_LIBTOOLFLAGS = $(for_programs)
libtopo_la_SOURCES = base/os/topo.c base/os/topo.h
libtopo_la_CPPFLAGS = $(AM_CPPFLAGS) $(HWLOC_CFLAGS)
libtopo_la_LIBADD = $(HWLOC_LIBS)
