# SPDX-License-Identifier: BSD-3-Clause
# The conduits over libfabric: a module that is loaded when a network is first needed (amphora_ofi.a for static programs).
noinst_LTLIBRARIES += libofi.la
libofi_la_SOURCES = \
	conduits/ofi/absent.c \
	conduits/ofi/addr.c \
	conduits/ofi/cork.c \
	conduits/ofi/greeting.c \
	conduits/ofi/imports.c \
	conduits/ofi/look.c \
	conduits/ofi/mem.c \
	conduits/ofi/module.c \
	conduits/ofi/ofi.h \
	conduits/ofi/ofi_wire.h \
	conduits/ofi/open.c \
	conduits/ofi/pack.c \
	conduits/ofi/pool.c \
	conduits/ofi/port.c \
	conduits/ofi/progress.c \
	conduits/ofi/provider.c \
	conduits/ofi/pusher.c \
	conduits/ofi/quiesce.c \
	conduits/ofi/liveness.c \
	conduits/ofi/reg.c \
	conduits/ofi/rx.c \
	conduits/ofi/send.c \
	conduits/ofi/shortage.c \
	conduits/ofi/silence.c \
	conduits/ofi/wait.c
libofi_la_CPPFLAGS = $(AM_CPPFLAGS) $(LIBFABRIC_CFLAGS)

module_LTLIBRARIES = amphora_ofi.la
amphora_ofi_la_SOURCES =
amphora_ofi_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -Wl,--version-script=$(top_srcdir)/conduits/ofi/amphora_ofi.map
EXTRA_amphora_ofi_la_DEPENDENCIES = $(top_srcdir)/conduits/ofi/amphora_ofi.map
EXTRA_DIST += conduits/ofi/amphora_ofi.map

# Stand-ins for Intel's PSM libraries (conduits/psm_absent.c).  libtool names no library after another one, so it takes no part.
module_DATA += .libs/amphora_no_psm.so .libs/amphora_no_psm2.so
CLEANFILES += .libs/amphora_no_psm.so .libs/amphora_no_psm2.so
psm_link = $(AM_V_CCLD)$(MKDIR_P) .libs && \
	$(CC) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS) $(LDFLAGS) -fPIC -shared
.libs/amphora_no_psm.so: conduits/psm/psm.c conduits/psm/psm.h conduits/psm/psm.map
	$(psm_link) -Wl,-soname,libpsm_infinipath.so.1 -Wl,--version-script=$(srcdir)/conduits/psm/psm.map -o $@ $(srcdir)/conduits/psm/psm.c
.libs/amphora_no_psm2.so: conduits/psm/psm2.c conduits/psm/psm.h conduits/psm/psm2.map
	$(psm_link) -Wl,-soname,libpsm2.so.2 -Wl,--version-script=$(srcdir)/conduits/psm/psm2.map -o $@ $(srcdir)/conduits/psm/psm2.c
EXTRA_DIST += conduits/psm/psm.c conduits/psm/psm2.c conduits/psm/psm.h
EXTRA_DIST += conduits/psm/psm.map conduits/psm/psm2.map
amphora_ofi_la_LIBADD = libofi.la libamphora.la $(LIBFABRIC_LIBS)

if HAVE_CRITERION
check_PROGRAMS += tests/conformance/unit_conduit_tcp
TESTS += tests/conformance/unit_conduit_tcp
tests_conformance_unit_conduit_tcp_SOURCES = tests/conformance/unit_conduit_tcp.c tests/conformance/unit_conduit_tcp.h tests/conformance/counted.h \
	tests/conformance/unit_conduit_tcp_gets.c tests/conformance/unit_conduit_tcp_packs.c tests/conformance/unit_conduit_tcp_wait.c
tests_conformance_unit_conduit_tcp_CPPFLAGS = $(UNIT_CPPFLAGS) $(LIBFABRIC_CFLAGS)
tests_conformance_unit_conduit_tcp_LDADD = libofi.la $(UNIT_LIBS) $(LIBFABRIC_LIBS)
endif
