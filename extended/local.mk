libamphora_la_SOURCES += \
	extended/ad.c \
	extended/amphora.c \
	extended/barrier.c \
	extended/barrier.h \
	extended/event.c \
	extended/event.h \
	extended/gasnet1.c \
	extended/gex.h \
	extended/init.c \
	extended/memset.c \
	extended/message.c \
	extended/objects.c \
	extended/places.c \
	extended/places.h \
	extended/rma.c \
	extended/segment.c \
	extended/start.c \
	extended/system.c \
	extended/team.c \
	extended/team.h \
	extended/team_exchange.c \
	extended/team_make.c \
	extended/vis.c \
	extended/vis.h \
	extended/vis_gasnet1.c \
	extended/vis_remote.c \
	extended/vis_runs.c
libamphora_la_SOURCES += \
	extended/endpoint.h \
	extended/ep.c \
	extended/ep_publish.c \
	extended/ep_query.c \
	extended/ep_segment.c \
	extended/ep_thread.c \
	extended/mk.c
libamphora_la_SOURCES += \
	extended/coll.h \
	extended/coll_chain.c \
	extended/coll_choice.c \
	extended/coll_ex.c \
	extended/coll_flat.c \
	extended/coll_fold.c \
	extended/coll_gasnet1.c \
	extended/coll_local.c \
	extended/coll_mail.c \
	extended/coll_op.c \
	extended/coll_share.c \
	extended/coll_share.h \
	extended/coll_team.c \
	extended/coll_tree.c \
	extended/gasnet1_barrier.c

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
check_PROGRAMS += tests/unit_gex
TESTS += tests/unit_gex
tests_unit_gex_SOURCES = tests/unit_gex.c
tests_unit_gex_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_gex_LDADD = $(UNIT_LIBS)
check_PROGRAMS += tests/unit_coll
TESTS += tests/unit_coll
tests_unit_coll_SOURCES = tests/unit_coll.c
tests_unit_coll_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_coll_LDADD = $(UNIT_LIBS)
endif

# Multi-process tests: clients, built as clients are, against the public headers alone.
gex_client_cppflags = -I$(top_srcdir)/include -I$(top_srcdir)
gex_mp = \
	tests/mp/gasnet1_all \
	tests/mp/gex_ad \
	tests/mp/gex_am \
	tests/mp/gex_bad \
	tests/mp/gex_barrier \
	tests/mp/gex_ep \
	tests/mp/gex_job \
	tests/mp/gex_mk \
	tests/mp/gex_names \
	tests/mp/gex_rma \
	tests/mp/gex_scale \
	tests/mp/gex_team \
	tests/mp/gex_team_bad \
	tests/mp/gex_team_threads \
	tests/mp/gex_threads \
	tests/mp/gex_vis
check_PROGRAMS += $(gex_mp) tests/mp/gex_rma_parsync
dist_check_SCRIPTS += $(gex_mp:=.sh) tests/mp/gex_pages.sh tests/mp/gex_examples.sh tests/gex_headers.sh
TESTS += $(gex_mp:=.sh) tests/mp/gex_pages.sh tests/mp/gex_examples.sh tests/gex_headers.sh
tests_mp_gex_names_SOURCES = tests/mp/gex_names.c tests/mp/gex_common.h
tests_mp_gex_names_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_names_LDADD = libamphora.la
tests_mp_gex_am_SOURCES = tests/mp/gex_am.c tests/mp/gex_common.h
tests_mp_gex_am_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_am_LDADD = libamphora.la
tests_mp_gex_bad_SOURCES = tests/mp/gex_bad.c tests/mp/gex_common.h
tests_mp_gex_bad_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_bad_LDADD = libamphora.la
tests_mp_gex_barrier_SOURCES = tests/mp/gex_barrier.c tests/mp/gex_common.h
tests_mp_gex_barrier_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_barrier_LDADD = libamphora.la
tests_mp_gex_scale_SOURCES = tests/mp/gex_scale.c tests/mp/gex_common.h
tests_mp_gex_scale_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_scale_LDADD = libamphora.la
tests_mp_gex_job_SOURCES = tests/mp/gex_job.c tests/mp/gex_common.h
tests_mp_gex_job_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_job_LDADD = libamphora.la
tests_mp_gex_rma_SOURCES = tests/mp/gex_rma.c tests/mp/gex_common.h
tests_mp_gex_rma_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_rma_LDADD = libamphora.la
tests_mp_gex_threads_SOURCES = tests/mp/gex_threads.c tests/mp/gex_common.h
tests_mp_gex_threads_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_mp_gex_threads_LDADD = libamphora.la -lpthread
tests_mp_gasnet1_all_SOURCES = tests/mp/gasnet1_all.c tests/mp/gex_common.h
tests_mp_gasnet1_all_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gasnet1_all_LDADD = libamphora.la
tests_mp_gex_rma_parsync_SOURCES = tests/mp/gex_rma.c tests/mp/gex_common.h
tests_mp_gex_rma_parsync_CPPFLAGS = -DGASNET_PARSYNC $(gex_client_cppflags)
tests_mp_gex_rma_parsync_LDADD = libamphora.la

# Negotiated-payload messages, events, flags.
libamphora_la_SOURCES += extended/check.c extended/check.h extended/message.h extended/prepare.c
amphorainclude_HEADERS += include/amphora/prepare.h
tests_mp_gex_team_SOURCES = tests/mp/gex_team.c tests/mp/gex_common.h
tests_mp_gex_team_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_team_LDADD = libamphora.la

# Collectives.
coll_mp = tests/mp/gasnet1_coll tests/mp/gex_coll tests/mp/gex_coll_bad tests/mp/gex_coll_threads
check_PROGRAMS += $(coll_mp)
dist_check_SCRIPTS += $(coll_mp:=.sh)
TESTS += $(coll_mp:=.sh)
tests_mp_gex_coll_SOURCES = tests/mp/gex_coll.c tests/mp/gex_coll_common.h tests/mp/gex_common.h
tests_mp_gex_coll_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_coll_LDADD = libamphora.la
tests_mp_gex_coll_bad_SOURCES = tests/mp/gex_coll_bad.c tests/mp/gex_common.h
tests_mp_gex_coll_bad_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_coll_bad_LDADD = libamphora.la
tests_mp_gex_coll_threads_SOURCES = tests/mp/gex_coll_threads.c tests/mp/gex_coll_common.h tests/mp/gex_common.h
tests_mp_gex_coll_threads_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_mp_gex_coll_threads_LDADD = libamphora.la -lpthread
tests_mp_gasnet1_coll_SOURCES = tests/mp/gasnet1_coll.c tests/mp/gex_coll_common.h tests/mp/gex_common.h
tests_mp_gasnet1_coll_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gasnet1_coll_LDADD = libamphora.la
tests_mp_gex_ep_SOURCES = tests/mp/gex_ep.c tests/mp/gex_common.h
tests_mp_gex_ep_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_ep_LDADD = libamphora.la
tests_mp_gex_mk_SOURCES = tests/mp/gex_mk.c tests/mp/gex_common.h
tests_mp_gex_mk_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_mk_LDADD = libamphora.la
tests_mp_gex_team_threads_SOURCES = tests/mp/gex_team_threads.c tests/mp/gex_common.h
tests_mp_gex_team_threads_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_mp_gex_team_threads_LDADD = libamphora.la -lpthread
tests_mp_gex_team_bad_SOURCES = tests/mp/gex_team_bad.c tests/mp/gex_common.h
tests_mp_gex_team_bad_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_team_bad_LDADD = libamphora.la
# The same for clients with threads, and for those that may reach all memory.
check_PROGRAMS += tests/mp/gex_ep_par tests/mp/gex_ep_everything
tests_mp_gex_ep_par_SOURCES = tests/mp/gex_ep.c tests/mp/gex_common.h
tests_mp_gex_ep_par_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_mp_gex_ep_par_LDADD = libamphora.la -lpthread
tests_mp_gex_ep_everything_SOURCES = tests/mp/gex_ep.c tests/mp/gex_common.h
tests_mp_gex_ep_everything_CPPFLAGS = -DGASNET_SEQ -DGASNET_SEGMENT_EVERYTHING $(gex_client_cppflags)
tests_mp_gex_ep_everything_LDADD = libamphora.la
tests_mp_gex_ad_SOURCES = tests/mp/gex_ad.c tests/mp/gex_common.h
tests_mp_gex_ad_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_ad_LDADD = libamphora.la
tests_mp_gex_vis_SOURCES = tests/mp/gex_vis.c tests/mp/gex_common.h
tests_mp_gex_vis_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_gex_vis_LDADD = libamphora.la

# Hosts of different kinds: here all of one kind, in pretended order; scripts/check-hetero has real ones.
check_PROGRAMS += tests/mp/fwd_narrow tests/mp/mixed tests/mp/listening
dist_check_SCRIPTS += tests/mp/mixed.sh tests/mp/widths.sh tests/mp/listening.sh
TESTS += tests/mp/mixed.sh tests/mp/widths.sh tests/mp/listening.sh
tests_mp_listening_SOURCES = tests/mp/listening.c tests/mp/gex_common.h
tests_mp_listening_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_listening_LDADD = libamphora.la
tests_mp_fwd_narrow_SOURCES = tests/mp/fwd_narrow.c
tests_mp_mixed_SOURCES = tests/mp/mixed.c tests/mp/gex_common.h
tests_mp_mixed_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_mp_mixed_LDADD = libamphora.la
