# libiofwd: the file client and the server library, over libamphora; iofwd-server: a small main over it.
# What is generated from calls.def lands in the build tree.
iofwd_generated = iofwd/calls.h iofwd/calls_server.h iofwd/calls_client.c iofwd/calls_table.c iofwd/calls_do.c
BUILT_SOURCES += iofwd/calls.h iofwd/calls_server.h
CLEANFILES += $(iofwd_generated)
EXTRA_DIST += tests/mp/fwd_kill.h iofwd/calls.def iofwd/calls.awk

$(iofwd_generated): iofwd/calls.def iofwd/calls.awk
	$(AM_V_GEN)$(MKDIR_P) iofwd && $(AWK) -f $(top_srcdir)/iofwd/calls.awk -v out=$(@F) $(top_srcdir)/iofwd/calls.def >$@.tmp && mv $@.tmp $@

doc_DATA = doc/iofwd-calls.md
include_HEADERS += include/iofwd.h
lib_LTLIBRARIES += libiofwd.la
pkgconfig_DATA += iofwd.pc
libiofwd_la_SOURCES = \
	iofwd/api.c \
	iofwd/api_file.c \
	iofwd/api_file.h \
	iofwd/beneath.c \
	iofwd/client.c \
	iofwd/client.h \
	iofwd/client_bell.c \
	iofwd/client_blocks.c \
	iofwd/client_blocks.h \
	iofwd/client_bulk.c \
	iofwd/client_call.c \
	iofwd/client_collect.c \
	iofwd/client_collect.h \
	iofwd/client_data.h \
	iofwd/client_failover.c \
	iofwd/client_failover.h \
	iofwd/client_flight.c \
	iofwd/client_holder.c \
	iofwd/client_int.h \
	iofwd/client_joint.c \
	iofwd/client_life.c \
	iofwd/client_nb.c \
	iofwd/client_nb.h \
	iofwd/client_noted.c \
	iofwd/client_noted.h \
	iofwd/client_own.c \
	iofwd/client_own.h \
	iofwd/client_pace.c \
	iofwd/client_pace.h \
	iofwd/client_pair.c \
	iofwd/client_plain.c \
	iofwd/client_segment.c \
	iofwd/client_stripe.c \
	iofwd/client_stripe.h \
	iofwd/client_takeover.c \
	iofwd/door.c \
	iofwd/door.h \
	iofwd/encode.c \
	iofwd/encode.h \
	iofwd/exports.c \
	iofwd/exports.h \
	iofwd/layer.c \
	iofwd/marshal.c \
	iofwd/marks.h \
	iofwd/marshal.h \
	iofwd/marshal_head.c \
	iofwd/ranges.c \
	iofwd/ranges.h \
	iofwd/server.c \
	iofwd/server.h \
	iofwd/server_daemon.c \
	iofwd/server_append.c \
	iofwd/server_bell.c \
	iofwd/server_direct.c \
	iofwd/server_fifo.c \
	iofwd/server_door.c \
	iofwd/server_exec.c \
	iofwd/server_file.c \
	iofwd/server_flow.h \
	iofwd/server_int.h \
	iofwd/server_joint.c \
	iofwd/server_limits.c \
	iofwd/server_lock.c \
	iofwd/server_lock.h \
	iofwd/server_lock_agent.c \
	iofwd/server_lock_held.c \
	iofwd/server_map.c \
	iofwd/server_path.c \
	iofwd/server_peer.c \
	iofwd/server_readers.c \
	iofwd/server_refs.c \
	iofwd/server_request.c \
	iofwd/server_special.c \
	iofwd/server_transfer.c \
	iofwd/server_turn.c \
	iofwd/server_work.c
nodist_libiofwd_la_SOURCES = iofwd/calls_client.c iofwd/calls_table.c iofwd/calls_do.c
libiofwd_la_CPPFLAGS = $(AM_CPPFLAGS)
libiofwd_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0
libiofwd_la_LIBADD = libamphora.la

bin_PROGRAMS += iofwd-server
iofwd_server_SOURCES = iofwd/server_main.c iofwd/prefix.c
iofwd_server_LDADD = libiofwd.la libamphora.la

# The decoders under libFuzzer, where clang is there; the deterministic half is in tests/unit_iofwd_wire.
EXTRA_DIST += tests/fuzz_iofwd.c tests/fuzz_iofwd.h
if HAVE_CRITERION
iofwd_unit = tests/unit_iofwd_encode tests/unit_iofwd_wire tests/unit_iofwd_exports tests/unit_iofwd_pace
check_PROGRAMS += $(iofwd_unit)
TESTS += $(iofwd_unit)
tests_unit_iofwd_encode_SOURCES = tests/unit_iofwd_encode.c
tests_unit_iofwd_encode_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_iofwd_encode_LDADD = libiofwd.la $(UNIT_LIBS)
tests_unit_iofwd_wire_SOURCES = tests/unit_iofwd_wire.c tests/fuzz_iofwd.c tests/fuzz_iofwd.h
tests_unit_iofwd_wire_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_iofwd_wire_LDADD = libiofwd.la $(UNIT_LIBS)
tests_unit_iofwd_pace_SOURCES = tests/unit_iofwd_pace.c iofwd/client_pace.c
tests_unit_iofwd_pace_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_iofwd_pace_LDADD = $(CRITERION_LIBS)
tests_unit_iofwd_exports_SOURCES = tests/unit_iofwd_exports.c
tests_unit_iofwd_exports_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_iofwd_exports_LDADD = libiofwd.la $(UNIT_LIBS)
endif
include $(top_srcdir)/iofwd/preload/local.mk

# Against real servers, through the launcher.
iofwd_mp = tests/mp/iofwd_calls tests/mp/iofwd_death tests/mp/iofwd_files tests/mp/iofwd_joint tests/mp/iofwd_segment tests/mp/fwd_fair
check_PROGRAMS += $(iofwd_mp)
iofwd_scripts = tests/mp/iofwd_calls.sh tests/mp/iofwd_death.sh tests/mp/iofwd_files.sh tests/mp/iofwd_joint.sh tests/mp/iofwd_segment.sh \
	tests/mp/fwd_fair.sh
dist_check_SCRIPTS += $(iofwd_scripts)
TESTS += $(iofwd_scripts)
tests_mp_fwd_fair_SOURCES = tests/mp/fwd_fair.c
tests_mp_fwd_fair_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_SEQ
tests_mp_fwd_fair_LDADD = libiofwd.la libamphora.la
tests_mp_iofwd_calls_SOURCES = tests/mp/iofwd_calls.c
tests_mp_iofwd_calls_LDADD = libiofwd.la libamphora.la
tests_mp_iofwd_death_SOURCES = tests/mp/iofwd_death.c
tests_mp_iofwd_death_LDADD = libiofwd.la libamphora.la
tests_mp_iofwd_files_SOURCES = tests/mp/iofwd_files.c tests/mp/fwd_bare.h tests/mp/fwd_is.h
tests_mp_iofwd_files_LDADD = libiofwd.la libamphora.la
tests_mp_iofwd_joint_SOURCES = tests/mp/iofwd_joint.c
tests_mp_iofwd_joint_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_SEQ
tests_mp_iofwd_joint_LDADD = libiofwd.la libamphora.la
tests_mp_iofwd_segment_SOURCES = tests/mp/iofwd_segment.c
tests_mp_iofwd_segment_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_SEQ
tests_mp_iofwd_segment_LDADD = libiofwd.la libamphora.la
