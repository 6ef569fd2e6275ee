# Active messages.
EXTRA_DIST += am/README.md
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
	am/bruck.h \
	am/gather.h \
	am/job.c \
	am/job.h \
	am/longs.c \
	am/lost.c \
	am/pagesize.c \
	am/poll.c \
	am/prepare.c \
	am/rma.c \
	am/send.c \
	am/vm.c \
	am/waiting.c

if HAVE_CRITERION
check_PROGRAMS += tests/unit/unit_am
TESTS += tests/unit/unit_am
tests_unit_unit_am_SOURCES = tests/unit/unit_am.c tests/unit/unit_am.h tests/unit/unit_am_long.c tests/unit/unit_am_lost.c tests/unit/unit_am_sleep.c tests/unit/unit_am_wait.c tests/unit/unit_am_fake.c tests/unit/unit_am_fake.h
tests_unit_unit_am_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_am_LDADD = $(UNIT_LIBS)
endif

am_mp = tests/am/am_away tests/am/am_bursts tests/am/am_exit tests/am/am_gather tests/am/am_idle tests/am/am_reset tests/am/am_rush tests/am/am_seldom tests/am/am_threads tests/am/am_traffic
check_PROGRAMS += $(am_mp)
dist_check_SCRIPTS += $(am_mp:=.sh)
TESTS += $(am_mp:=.sh)
tests_am_am_away_SOURCES = tests/am/am_away.c tests/am/am_common.h
tests_am_am_away_LDADD = $(inside_amphora_net)
tests_am_am_bursts_SOURCES = tests/am/am_bursts.c tests/am/am_common.h
tests_am_am_bursts_LDADD = $(inside_amphora_net)
tests_am_am_exit_SOURCES = tests/am/am_exit.c tests/am/am_common.h
tests_am_am_exit_LDADD = $(inside_amphora_net)
tests_am_am_gather_SOURCES = tests/am/am_gather.c tests/am/am_common.h
tests_am_am_gather_LDADD = $(inside_amphora_net)
tests_am_am_idle_SOURCES = tests/am/am_idle.c tests/am/am_common.h
tests_am_am_idle_LDADD = $(inside_amphora_net)
tests_am_am_rush_SOURCES = tests/am/am_rush.c tests/am/am_common.h
tests_am_am_rush_LDADD = $(inside_amphora_net)
tests_am_am_reset_SOURCES = tests/am/am_reset.c tests/am/am_common.h
tests_am_am_reset_LDADD = $(inside_amphora_net)
tests_am_am_seldom_SOURCES = tests/am/am_seldom.c tests/am/am_common.h
tests_am_am_seldom_LDADD = $(inside_amphora_net)
tests_am_am_threads_SOURCES = tests/am/am_threads.c tests/am/am_common.h
tests_am_am_threads_LDADD = $(inside_amphora_net) -lpthread
tests_am_am_traffic_SOURCES = tests/am/am_traffic.c tests/am/am_common.h
tests_am_am_traffic_LDADD = $(inside_amphora_net)

# The API's messages, events and flags: clients, built as clients are (gex_client_cppflags is in extended/local.mk).
np_mp = tests/gex/gex_event tests/gex/gex_flags tests/gex/am/gex_np tests/gex/am/gex_np_threads
check_PROGRAMS += $(np_mp)
dist_check_SCRIPTS += $(np_mp:=.sh)
TESTS += $(np_mp:=.sh)
tests_gex_gex_flags_SOURCES = tests/gex/gex_flags.c tests/gex/gex_common.h
tests_gex_gex_flags_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_gex_flags_LDADD = libamphora.la
tests_gex_am_gex_np_SOURCES = tests/gex/am/gex_np.c tests/gex/gex_common.h
tests_gex_am_gex_np_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_am_gex_np_LDADD = libamphora.la
tests_gex_am_gex_np_threads_SOURCES = tests/gex/am/gex_np_threads.c tests/gex/gex_common.h
tests_gex_am_gex_np_threads_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_gex_am_gex_np_threads_LDADD = libamphora.la -lpthread
tests_gex_gex_event_SOURCES = tests/gex/gex_event.c tests/gex/gex_common.h
tests_gex_gex_event_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_gex_event_LDADD = libamphora.la

# The library as --enable-debug makes it, for tests: linked into them together with its networks.
check_LTLIBRARIES += tests/libamphora_checked.la
tests_libamphora_checked_la_LIBTOOLFLAGS = $(for_programs)
tests_libamphora_checked_la_SOURCES = $(libamphora_la_SOURCES)
tests_libamphora_checked_la_CPPFLAGS = $(libamphora_la_CPPFLAGS) -DAMPH_DEBUG=1
checked_libs = tests/libamphora_checked.la libofi.la $(NETTLE_LIBS) $(LIBFABRIC_LIBS) -ldl -lpthread -lrt
checked_cppflags = -DGASNET_DEBUG $(gex_client_cppflags)
checked_ldflags = $(AM_LDFLAGS) -Wl,-u,amph_ofi_conduits
check_PROGRAMS += \
	tests/gex/am/gex_am_checked \
	tests/gex/api/gex_debug \
	tests/gex/api/gex_debug_par \
	tests/gex/gex_flags_checked \
	tests/gex/am/gex_np_checked \
	tests/gex/gex_rma_checked
dist_check_SCRIPTS += tests/gex/api/gex_debug.sh
TESTS += tests/gex/api/gex_debug.sh
tests_gex_api_gex_debug_SOURCES = tests/gex/api/gex_debug.c tests/gex/gex_common.h
tests_gex_api_gex_debug_CPPFLAGS = -DGASNET_SEQ $(checked_cppflags)
tests_gex_api_gex_debug_LDFLAGS = $(checked_ldflags)
tests_gex_api_gex_debug_LDADD = $(checked_libs)
tests_gex_api_gex_debug_par_SOURCES = tests/gex/api/gex_debug.c tests/gex/gex_common.h
tests_gex_api_gex_debug_par_CPPFLAGS = -DGASNET_PAR $(checked_cppflags)
tests_gex_api_gex_debug_par_LDFLAGS = $(checked_ldflags)
tests_gex_api_gex_debug_par_LDADD = $(checked_libs)
tests_gex_am_gex_am_checked_SOURCES = tests/gex/am/gex_am.c tests/gex/gex_common.h
tests_gex_am_gex_am_checked_CPPFLAGS = -DGASNET_SEQ $(checked_cppflags)
tests_gex_am_gex_am_checked_LDFLAGS = $(checked_ldflags)
tests_gex_am_gex_am_checked_LDADD = $(checked_libs)
tests_gex_am_gex_np_checked_SOURCES = tests/gex/am/gex_np.c tests/gex/gex_common.h
tests_gex_am_gex_np_checked_CPPFLAGS = -DGASNET_SEQ $(checked_cppflags)
tests_gex_am_gex_np_checked_LDFLAGS = $(checked_ldflags)
tests_gex_am_gex_np_checked_LDADD = $(checked_libs)
tests_gex_gex_rma_checked_SOURCES = tests/gex/gex_rma.c tests/gex/gex_common.h
tests_gex_gex_rma_checked_CPPFLAGS = -DGASNET_SEQ $(checked_cppflags)
tests_gex_gex_rma_checked_LDFLAGS = $(checked_ldflags)
tests_gex_gex_rma_checked_LDADD = $(checked_libs)
tests_gex_gex_flags_checked_SOURCES = tests/gex/gex_flags.c tests/gex/gex_common.h
tests_gex_gex_flags_checked_CPPFLAGS = -DGASNET_SEQ $(checked_cppflags)
tests_gex_gex_flags_checked_LDFLAGS = $(checked_ldflags)
tests_gex_gex_flags_checked_LDADD = $(checked_libs)
