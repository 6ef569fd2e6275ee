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
	base/arena.c \
	base/arena.h \
	base/auth.c \
	base/auth.h \
	base/clock.h \
	base/counter_defs.h \
	base/counters.c \
	base/counters.h \
	base/env.c \
	base/env.h \
	base/env_accepted.h \
	base/env_defs.h \
	base/env_parse.c \
	base/env_parse.h \
	base/log.c \
	base/limits.c \
	base/limits.h \
	base/log.h \
	base/note.h \
	base/stdout_check.h \
	base/open_mpi.h \
	base/platform.h \
	base/quote.c \
	base/quote.h \
	base/status.c \
	base/status.h \
	base/thread.c \
	base/thread.h \
	base/wire.c \
	base/wire.h

# Topology (hwloc) is for the programs; a client process must not pay for loading hwloc.
noinst_LTLIBRARIES += libtopo.la
libtopo_la_SOURCES = base/topo.c base/topo.h
libtopo_la_CPPFLAGS = $(AM_CPPFLAGS) $(HWLOC_CFLAGS)
libtopo_la_LIBADD = $(HWLOC_LIBS)
