# Active messages.
libamphora_la_SOURCES += \
	am/address.c \
	am/address.h \
	am/am.h \
	am/carry.c \
	am/check.c \
	am/check.h \
	am/deliver.c \
	am/dispatch.c \
	am/endpoint.c \
	am/ep.h \
	am/exit.c \
	am/gather.c \
	am/job.c \
	am/job.h \
	am/longs.c \
	am/note.h \
	am/pagesize.c \
	am/poll.c \
	am/prepare.c \
	am/rma.c \
	am/send.c \
	am/vm.c \
	am/waiting.c

if HAVE_CRITERION
check_PROGRAMS += tests/unit_am
TESTS += tests/unit_am
tests_unit_am_SOURCES = tests/unit_am.c tests/unit_am_fake.c tests/unit_am_fake.h
tests_unit_am_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_am_LDADD = $(UNIT_LIBS)
endif

am_mp = tests/mp/am_exit tests/mp/am_gather tests/mp/am_idle tests/mp/am_threads tests/mp/am_traffic
check_PROGRAMS += $(am_mp)
dist_check_SCRIPTS += $(am_mp:=.sh)
TESTS += $(am_mp:=.sh)
tests_mp_am_exit_SOURCES = tests/mp/am_exit.c tests/mp/am_common.h
tests_mp_am_exit_LDADD = libamphora.la
tests_mp_am_gather_SOURCES = tests/mp/am_gather.c tests/mp/am_common.h
tests_mp_am_gather_LDADD = libamphora.la
tests_mp_am_idle_SOURCES = tests/mp/am_idle.c tests/mp/am_common.h
tests_mp_am_idle_LDADD = libamphora.la
tests_mp_am_threads_SOURCES = tests/mp/am_threads.c tests/mp/am_common.h
tests_mp_am_threads_LDADD = libamphora.la -lpthread
tests_mp_am_traffic_SOURCES = tests/mp/am_traffic.c tests/mp/am_common.h
tests_mp_am_traffic_LDADD = libamphora.la

# The API's messages, events and flags: clients, built as clients are (gex_client_cppflags stands in extended/local.mk).
np_mp = tests/mp/gex_event tests/mp/gex_flags tests/mp/gex_np tests/mp/gex_np_threads
check_PROGRAMS += $(np_mp)
dist_check_SCRIPTS += $(np_mp:=.sh)
TESTS += $(np_mp:=.sh)
tests_mp_gex_flags_SOURCES = tests/mp/gex_flags.c tests/mp/gex_common.h
tests_mp_gex_flags_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_flags_LDADD = libamphora.la
tests_mp_gex_np_SOURCES = tests/mp/gex_np.c tests/mp/gex_common.h
tests_mp_gex_np_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_np_LDADD = libamphora.la
tests_mp_gex_np_threads_SOURCES = tests/mp/gex_np_threads.c tests/mp/gex_common.h
tests_mp_gex_np_threads_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_mp_gex_np_threads_LDADD = libamphora.la -lpthread
tests_mp_gex_event_SOURCES = tests/mp/gex_event.c tests/mp/gex_common.h
tests_mp_gex_event_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_event_LDADD = libamphora.la

# The library as --enable-debug makes it, for tests: linked into them together with its networks.
check_LTLIBRARIES += tests/libamphora_checked.la
tests_libamphora_checked_la_SOURCES = $(libamphora_la_SOURCES)
tests_libamphora_checked_la_CPPFLAGS = $(libamphora_la_CPPFLAGS) -DAMPH_DEBUG=1
checked_libs = tests/libamphora_checked.la libofi.la $(CRYPTO_LIBS) $(LIBFABRIC_LIBS) -ldl -lpthread -lrt
checked_cppflags = -DGASNET_DEBUG $(gex_client_cppflags)
checked_ldflags = $(AM_LDFLAGS) -Wl,-u,amph_ofi_conduits
check_PROGRAMS += \
	tests/mp/gex_am_checked \
	tests/mp/gex_debug \
	tests/mp/gex_debug_par \
	tests/mp/gex_flags_checked \
	tests/mp/gex_np_checked \
	tests/mp/gex_rma_checked
dist_check_SCRIPTS += tests/mp/gex_debug.sh
TESTS += tests/mp/gex_debug.sh
tests_mp_gex_debug_SOURCES = tests/mp/gex_debug.c tests/mp/gex_common.h
tests_mp_gex_debug_CPPFLAGS = -DGASNET_SEQ $(checked_cppflags)
tests_mp_gex_debug_LDFLAGS = $(checked_ldflags)
tests_mp_gex_debug_LDADD = $(checked_libs)
tests_mp_gex_debug_par_SOURCES = tests/mp/gex_debug.c tests/mp/gex_common.h
tests_mp_gex_debug_par_CPPFLAGS = -DGASNET_PAR $(checked_cppflags)
tests_mp_gex_debug_par_LDFLAGS = $(checked_ldflags)
tests_mp_gex_debug_par_LDADD = $(checked_libs)
tests_mp_gex_am_checked_SOURCES = tests/mp/gex_am.c tests/mp/gex_common.h
tests_mp_gex_am_checked_CPPFLAGS = -DGASNET_SEQ $(checked_cppflags)
tests_mp_gex_am_checked_LDFLAGS = $(checked_ldflags)
tests_mp_gex_am_checked_LDADD = $(checked_libs)
tests_mp_gex_np_checked_SOURCES = tests/mp/gex_np.c tests/mp/gex_common.h
tests_mp_gex_np_checked_CPPFLAGS = -DGASNET_SEQ $(checked_cppflags)
tests_mp_gex_np_checked_LDFLAGS = $(checked_ldflags)
tests_mp_gex_np_checked_LDADD = $(checked_libs)
tests_mp_gex_rma_checked_SOURCES = tests/mp/gex_rma.c tests/mp/gex_common.h
tests_mp_gex_rma_checked_CPPFLAGS = -DGASNET_SEQ $(checked_cppflags)
tests_mp_gex_rma_checked_LDFLAGS = $(checked_ldflags)
tests_mp_gex_rma_checked_LDADD = $(checked_libs)
tests_mp_gex_flags_checked_SOURCES = tests/mp/gex_flags.c tests/mp/gex_common.h
tests_mp_gex_flags_checked_CPPFLAGS = -DGASNET_SEQ $(checked_cppflags)
tests_mp_gex_flags_checked_LDFLAGS = $(checked_ldflags)
tests_mp_gex_flags_checked_LDADD = $(checked_libs)
