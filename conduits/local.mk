# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST += conduits/README.md
libamphora_la_SOURCES += \
	conduits/conduit.h \
	conduits/emulate.c \
	conduits/emulate.h \
	conduits/inet.c \
	conduits/inet.h \
	conduits/memkey.c \
	conduits/memkey.h \
	conduits/port.h \
	conduits/psm_absent.c \
	conduits/psm_absent.h \
	conduits/registry.c \
	conduits/smp/batch.c \
	conduits/smp/mem.c \
	conduits/smp/peers.c \
	conduits/smp/prepare.c \
	conduits/smp/progress.c \
	conduits/smp/ring.h \
	conduits/smp/send.c \
	conduits/smp/smp.c \
	conduits/smp/smp.h \
	conduits/smp/source.c \
	conduits/smp/wait.c \
	conduits/udp/guard.c \
	conduits/udp/port.c \
	conduits/udp/port_sock.c \
	conduits/udp/rdp.h \
	conduits/udp/rdp_ack.c \
	conduits/udp/rdp_auth.c \
	conduits/udp/rdp_cc.c \
	conduits/udp/rdp_conn.c \
	conduits/udp/rdp_pool.c \
	conduits/udp/rdp_recv.c \
	conduits/udp/rdp_rma.c \
	conduits/udp/rdp_send.c \
	conduits/udp/rdp_units.c \
	conduits/udp/rdp_wire.c \
	conduits/udp/rdp_wire.h \
	conduits/udp/udp.c \
	conduits/udp/udp.h \
	conduits/udp/wait.c

# The conformance suite, once for each conduit and once with put and get over messages.
SUITE_SOURCES = \
	tests/conformance/conduit_suite.c \
	tests/conformance/conduit_suite.h \
	tests/conformance/conduit_suite_life.c \
	tests/conformance/conduit_suite_memory.c \
	tests/conformance/conduit_suite_messages.c \
	tests/conformance/conduit_suite_sleep.c
check_PROGRAMS += \
	tests/conformance/unit_conduit_emulate \
	tests/conformance/unit_conduit_emulate_tcp \
	tests/conformance/unit_conduit_mr \
	tests/conformance/unit_conduit_smp \
	tests/conformance/unit_conduit_suite_tcp \
	tests/conformance/unit_conduit_udp \
	tests/conformance/unit_conduit_udp_loss \
	tests/conformance/unit_conduit_udp_ofi \
	tests/conformance/unit_conduit_verbs \
	tests/conformance/unit_udp_sim \
	tests/conformance/unit_udp_timers
TESTS += \
	tests/conformance/unit_conduit_emulate \
	tests/conformance/unit_conduit_emulate_tcp \
	tests/conformance/unit_conduit_mr \
	tests/conformance/unit_conduit_smp \
	tests/conformance/unit_conduit_suite_tcp \
	tests/conformance/unit_conduit_udp \
	tests/conformance/unit_conduit_udp_loss \
	tests/conformance/unit_conduit_udp_ofi \
	tests/conformance/unit_conduit_verbs \
	tests/conformance/unit_udp_sim \
	tests/conformance/unit_udp_timers
tests_conformance_unit_conduit_smp_SOURCES = tests/conformance/unit_conduit_smp.c $(SUITE_SOURCES)
tests_conformance_unit_conduit_smp_LDADD = $(inside_amphora_net) -lpthread
tests_conformance_unit_conduit_suite_tcp_SOURCES = tests/conformance/unit_conduit_suite_tcp.c $(SUITE_SOURCES)
tests_conformance_unit_conduit_suite_tcp_LDADD = $(inside_amphora_net) -lpthread
tests_conformance_unit_conduit_mr_SOURCES = tests/conformance/unit_conduit_mr.c $(SUITE_SOURCES)
tests_conformance_unit_conduit_mr_LDADD = $(inside_amphora_net) -lpthread
tests_conformance_unit_conduit_verbs_SOURCES = tests/conformance/unit_conduit_verbs.c $(SUITE_SOURCES)
tests_conformance_unit_conduit_verbs_LDADD = $(inside_amphora_net) -lpthread
tests_conformance_unit_conduit_emulate_SOURCES = tests/conformance/unit_conduit_emulate.c $(SUITE_SOURCES)
tests_conformance_unit_conduit_emulate_LDADD = $(inside_amphora_net) -lpthread
tests_conformance_unit_conduit_emulate_tcp_SOURCES = tests/conformance/unit_conduit_emulate_tcp.c $(SUITE_SOURCES)
tests_conformance_unit_conduit_emulate_tcp_LDADD = $(inside_amphora_net) -lpthread
tests_conformance_unit_conduit_udp_SOURCES = tests/conformance/unit_conduit_udp.c $(SUITE_SOURCES)
tests_conformance_unit_conduit_udp_LDADD = $(inside_amphora_net) -lpthread
tests_conformance_unit_conduit_udp_loss_SOURCES = tests/conformance/unit_conduit_udp_loss.c $(SUITE_SOURCES)
tests_conformance_unit_conduit_udp_loss_LDADD = $(inside_amphora_net) -lpthread
tests_conformance_unit_conduit_udp_ofi_SOURCES = tests/conformance/unit_conduit_udp_ofi.c $(SUITE_SOURCES)
tests_conformance_unit_conduit_udp_ofi_LDADD = $(inside_amphora_net) -lpthread
tests_conformance_unit_udp_sim_SOURCES = tests/conformance/unit_udp_sim.c tests/conformance/udp_sim.c tests/conformance/udp_sim.h tests/fuzz/fuzz_udp.c tests/fuzz/fuzz_udp.h
tests_conformance_unit_udp_sim_LDADD = $(inside_amphora_net) -lpthread
tests_conformance_unit_udp_timers_SOURCES = tests/conformance/unit_udp_timers.c tests/conformance/udp_sim.c tests/conformance/udp_sim.h
tests_conformance_unit_udp_timers_LDADD = $(inside_amphora_net) -lpthread
if HAVE_CRITERION
check_PROGRAMS += tests/conformance/unit_udp_units
TESTS += tests/conformance/unit_udp_units
tests_conformance_unit_udp_units_SOURCES = tests/conformance/unit_udp_units.c tests/conformance/counted.h tests/conformance/udp_sim.c tests/conformance/udp_sim.h
tests_conformance_unit_udp_units_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_conformance_unit_udp_units_LDADD = $(inside_amphora_net) $(CRITERION_LIBS) -lpthread
endif
dist_check_SCRIPTS += tests/am/psm.sh tests/am/udp.sh
TESTS += tests/am/psm.sh tests/am/udp.sh

# Figures, by hand; built only when asked for.
EXTRA_PROGRAMS = tests/conformance/bench_conduit
tests_conformance_bench_conduit_SOURCES = tests/conformance/bench_conduit.c
tests_conformance_bench_conduit_LDADD = $(inside_amphora_net)
