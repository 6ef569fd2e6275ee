libamphora_la_SOURCES += \
	extended/rma/atomic.c \
	extended/amphora.c \
	extended/coll/barrier.c \
	extended/coll/barrier.h \
	extended/event.c \
	extended/event.h \
	extended/gasnet1/gasnet1.c \
	extended/gex.h \
	extended/init.c \
	extended/rma/memset.c \
	extended/message.c \
	extended/objects.c \
	extended/pending.c \
	extended/pending.h \
	extended/rma/rma.c \
	extended/segment.c \
	extended/self_start.c \
	extended/system.c \
	extended/team/team.c \
	extended/team/team.h \
	extended/team/exchange.c \
	extended/team/make.c \
	extended/rma/vis.c \
	extended/rma/vis.h \
	extended/rma/vis_copy.c \
	extended/gasnet1/vis.c \
	extended/rma/vis_remote.c \
	extended/rma/vis_rows.c
libamphora_la_SOURCES += \
	extended/ep/endpoint.h \
	extended/ep/ep.c \
	extended/ep/publish.c \
	extended/ep/query.c \
	extended/ep/segment.c \
	extended/ep/thread.c \
	extended/ep/mk.c
libamphora_la_SOURCES += \
	extended/coll/coll.h \
	extended/coll/chain.c \
	extended/coll/choice.c \
	extended/coll/gex.c \
	extended/coll/flat.c extended/coll/star.c \
	extended/coll/fold.c \
	extended/gasnet1/coll.c \
	extended/coll/local.c \
	extended/coll/direct.c extended/coll/mail.c \
	extended/coll/op.c \
	extended/coll/share.c \
	extended/coll/share.h \
	extended/coll/team.c \
	extended/coll/tree.c \
	extended/coll/yield.c \
	extended/gasnet1/barrier.c

# The public API: installed headers.
include_HEADERS += \
	include/amphora.h \
	include/gasnet.h \
	include/gasnet_coll.h \
	include/gasnet_mk.h \
	include/gasnet_ratomic.h \
	include/gasnet_vis.h \
	include/gasnetex.h
amphoraincludedir = $(includedir)/amphora
amphorainclude_HEADERS = \
	include/amphora/ad.h \
	include/amphora/args.h \
	include/amphora/client_calls.h \
	include/amphora/coll.h \
	include/amphora/coll1.h \
	include/amphora/compiler.h \
	include/amphora/conduit.h \
	include/amphora/endpoint.h \
	include/amphora/event.h \
	include/amphora/gasnet1.h \
	include/amphora/job.h \
	include/amphora/lock.h \
	include/amphora/message.h \
	include/amphora/mk.h \
	include/amphora/operators.h \
	include/amphora/rma.h \
	include/amphora/team.h \
	include/amphora/threadmode.h \
	include/amphora/types.h \
	include/amphora/vis.h \
	include/amphora/vis1.h

# Unit tests: values of barriers, event bookkeeping, a job of one process.
if HAVE_CRITERION
check_PROGRAMS += tests/unit/unit_gex
TESTS += tests/unit/unit_gex
tests_unit_unit_gex_SOURCES = tests/unit/unit_gex.c
tests_unit_unit_gex_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_gex_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit/unit_coll
TESTS += tests/unit/unit_coll
tests_unit_unit_coll_SOURCES = tests/unit/unit_coll.c
tests_unit_unit_coll_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_coll_LDADD = $(UNIT_LIBS)
endif

# Multi-process tests: clients, built as clients are, against the public headers alone.
gex_client_cppflags = -I$(top_srcdir)/include -I$(top_srcdir)
gex_mp = \
	tests/gasnet1/gasnet1_all \
	tests/gex/gex_ad \
	tests/gex/am/gex_am \
	tests/gex/api/gex_bad \
	tests/gex/coll/gex_barrier \
	tests/gex/gex_ep \
	tests/gex/gex_job \
	tests/gex/gex_mk \
	tests/gex/api/gex_names \
	tests/gex/am/gex_one_core \
	tests/gex/am/gex_own \
	tests/gex/gex_rma \
	tests/gex/gex_scale \
	tests/gex/am/gex_seldom \
	tests/gex/coll/gex_team \
	tests/gex/coll/gex_team_bad \
	tests/gex/coll/gex_team_threads \
	tests/gex/gex_threads \
	tests/gex/gex_vis
check_PROGRAMS += $(gex_mp) tests/gex/gex_flood tests/gex/am/gex_own_seq tests/gex/gex_rma_parsync
dist_check_SCRIPTS += $(gex_mp:=.sh) tests/gex/gex_pages.sh tests/examples/gex_examples.sh tests/gex/api/gex_headers.sh
TESTS += $(gex_mp:=.sh) tests/gex/gex_pages.sh tests/examples/gex_examples.sh tests/gex/api/gex_headers.sh
tests_gex_api_gex_names_SOURCES = tests/gex/api/gex_names.c tests/gex/gex_common.h
tests_gex_api_gex_names_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_api_gex_names_LDADD = libamphora.la
tests_gex_am_gex_one_core_SOURCES = tests/gex/am/gex_one_core.c tests/gex/gex_common.h
tests_gex_am_gex_one_core_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_am_gex_one_core_LDADD = libamphora.la
tests_gex_am_gex_own_SOURCES = tests/gex/am/gex_own.c tests/gex/gex_common.h
tests_gex_am_gex_own_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_gex_am_gex_own_LDADD = libamphora.la -lpthread
tests_gex_am_gex_own_seq_SOURCES = tests/gex/am/gex_own.c tests/gex/gex_common.h
tests_gex_am_gex_own_seq_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_am_gex_own_seq_LDADD = libamphora.la -lpthread
tests_gex_am_gex_am_SOURCES = tests/gex/am/gex_am.c tests/gex/gex_common.h
tests_gex_am_gex_am_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_am_gex_am_LDADD = libamphora.la
tests_gex_api_gex_bad_SOURCES = tests/gex/api/gex_bad.c tests/gex/gex_common.h
tests_gex_api_gex_bad_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_api_gex_bad_LDADD = libamphora.la
tests_gex_coll_gex_barrier_SOURCES = tests/gex/coll/gex_barrier.c tests/gex/gex_common.h
tests_gex_coll_gex_barrier_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_coll_gex_barrier_LDADD = libamphora.la
tests_gex_gex_flood_SOURCES = tests/gex/gex_flood.c tests/gex/gex_common.h
tests_gex_gex_flood_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_gex_flood_LDADD = libamphora.la
tests_gex_gex_scale_SOURCES = tests/gex/gex_scale.c tests/gex/gex_common.h
tests_gex_gex_scale_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_gex_scale_LDADD = libamphora.la
tests_gex_am_gex_seldom_SOURCES = tests/gex/am/gex_seldom.c tests/gex/gex_common.h
tests_gex_am_gex_seldom_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_am_gex_seldom_LDADD = libamphora.la
tests_gex_gex_job_SOURCES = tests/gex/gex_job.c tests/gex/gex_common.h
tests_gex_gex_job_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_gex_job_LDADD = libamphora.la
tests_gex_gex_rma_SOURCES = tests/gex/gex_rma.c tests/gex/gex_common.h
tests_gex_gex_rma_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_gex_rma_LDADD = libamphora.la
tests_gex_gex_threads_SOURCES = tests/gex/gex_threads.c tests/gex/gex_common.h
tests_gex_gex_threads_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_gex_gex_threads_LDADD = libamphora.la -lpthread
tests_gasnet1_gasnet1_all_SOURCES = tests/gasnet1/gasnet1_all.c tests/gex/gex_common.h
tests_gasnet1_gasnet1_all_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gasnet1_gasnet1_all_LDADD = libamphora.la
tests_gex_gex_rma_parsync_SOURCES = tests/gex/gex_rma.c tests/gex/gex_common.h
tests_gex_gex_rma_parsync_CPPFLAGS = -DGASNET_PARSYNC $(gex_client_cppflags)
tests_gex_gex_rma_parsync_LDADD = libamphora.la

# Negotiated-payload messages, events, flags.
libamphora_la_SOURCES += extended/check.c extended/check.h extended/message.h extended/prepare.c
amphorainclude_HEADERS += include/amphora/barrier.h include/amphora/prepare.h
tests_gex_coll_gex_team_SOURCES = tests/gex/coll/gex_team.c tests/gex/gex_common.h
tests_gex_coll_gex_team_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_coll_gex_team_LDADD = libamphora.la

# Collectives.
coll_mp = tests/gasnet1/gasnet1_coll tests/gex/coll/gex_coll tests/gex/coll/gex_coll_bad tests/gex/coll/gex_coll_threads
check_PROGRAMS += $(coll_mp)
dist_check_SCRIPTS += $(coll_mp:=.sh)
TESTS += $(coll_mp:=.sh)
tests_gex_coll_gex_coll_SOURCES = tests/gex/coll/gex_coll.c tests/gex/coll/gex_coll_common.h tests/gex/gex_common.h
tests_gex_coll_gex_coll_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_coll_gex_coll_LDADD = libamphora.la
tests_gex_coll_gex_coll_bad_SOURCES = tests/gex/coll/gex_coll_bad.c tests/gex/gex_common.h
tests_gex_coll_gex_coll_bad_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_coll_gex_coll_bad_LDADD = libamphora.la
tests_gex_coll_gex_coll_threads_SOURCES = tests/gex/coll/gex_coll_threads.c tests/gex/coll/gex_coll_common.h tests/gex/gex_common.h
tests_gex_coll_gex_coll_threads_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_gex_coll_gex_coll_threads_LDADD = libamphora.la -lpthread
tests_gasnet1_gasnet1_coll_SOURCES = tests/gasnet1/gasnet1_coll.c tests/gex/coll/gex_coll_common.h tests/gex/gex_common.h
tests_gasnet1_gasnet1_coll_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gasnet1_gasnet1_coll_LDADD = libamphora.la
tests_gex_gex_ep_SOURCES = tests/gex/gex_ep.c tests/gex/gex_common.h
tests_gex_gex_ep_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_gex_ep_LDADD = libamphora.la
tests_gex_gex_mk_SOURCES = tests/gex/gex_mk.c tests/gex/gex_common.h
tests_gex_gex_mk_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_gex_mk_LDADD = libamphora.la
tests_gex_coll_gex_team_threads_SOURCES = tests/gex/coll/gex_team_threads.c tests/gex/gex_common.h
tests_gex_coll_gex_team_threads_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_gex_coll_gex_team_threads_LDADD = libamphora.la -lpthread
tests_gex_coll_gex_team_bad_SOURCES = tests/gex/coll/gex_team_bad.c tests/gex/gex_common.h
tests_gex_coll_gex_team_bad_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_coll_gex_team_bad_LDADD = libamphora.la
# The same for clients with threads, and for those that may reach all memory.
check_PROGRAMS += tests/gex/gex_ep_par tests/gex/gex_ep_everything
tests_gex_gex_ep_par_SOURCES = tests/gex/gex_ep.c tests/gex/gex_common.h
tests_gex_gex_ep_par_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_gex_gex_ep_par_LDADD = libamphora.la -lpthread
tests_gex_gex_ep_everything_SOURCES = tests/gex/gex_ep.c tests/gex/gex_common.h
tests_gex_gex_ep_everything_CPPFLAGS = -DGASNET_SEQ -DGASNET_SEGMENT_EVERYTHING $(gex_client_cppflags)
tests_gex_gex_ep_everything_LDADD = libamphora.la
tests_gex_gex_ad_SOURCES = tests/gex/gex_ad.c tests/gex/gex_common.h
tests_gex_gex_ad_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_gex_ad_LDADD = libamphora.la
tests_gex_gex_vis_SOURCES = tests/gex/gex_vis.c tests/gex/gex_common.h
tests_gex_gex_vis_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gex_gex_vis_LDADD = libamphora.la

# Hosts of different kinds: here all of one kind, in pretended order; scripts/check-hetero has real ones.
check_PROGRAMS += tests/files/calls/fwd_narrow tests/am/mixed tests/am/mixed_coll tests/am/listening
dist_check_SCRIPTS += tests/am/mixed.sh tests/am/widths.sh tests/am/listening.sh
TESTS += tests/am/mixed.sh tests/am/widths.sh tests/am/listening.sh
tests_am_listening_SOURCES = tests/am/listening.c tests/gex/gex_common.h
tests_am_listening_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_am_listening_LDADD = libamphora.la
tests_files_calls_fwd_narrow_SOURCES = tests/files/calls/fwd_narrow.c
tests_am_mixed_SOURCES = tests/am/mixed.c tests/gex/gex_common.h
tests_am_mixed_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_am_mixed_LDADD = libamphora.la
tests_am_mixed_coll_SOURCES = tests/am/mixed_coll.c tests/gex/gex_common.h
tests_am_mixed_coll_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_am_mixed_coll_LDADD = libamphora.la
