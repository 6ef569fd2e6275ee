# Tests of the tree as a whole and of base/; the other layers' tests stand in their folders' local.mk.
EXTRA_DIST += tests/mp/lib.sh
dist_check_SCRIPTS += tests/layers.sh tests/release.sh tests/results.sh tests/t.sh tests/unit.sh
EXTRA_DIST += tests/cases.txt
TESTS += tests/layers.sh tests/release.sh tests/results.sh tests/t.sh
check_PROGRAMS += tests/guard
tests_guard_SOURCES = tests/guard.c

# Criterion programs: add to check_PROGRAMS and TESTS (inside the condition); tests/unit.sh runs them with TAP.
if HAVE_CRITERION
check_PROGRAMS += tests/unit_base
TESTS += tests/unit_base
tests_unit_base_SOURCES = tests/unit_base.c
tests_unit_base_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_base_LDADD = $(UNIT_LIBS)
else
TESTS += tests/unit_missing.sh
endif
dist_check_SCRIPTS += tests/unit_missing.sh

# The parsers of what others send, under libFuzzer where clang is there: tests/fuzz.sh has the table of targets.
EXTRA_DIST += \
	tests/corpus \
	tests/fuzz_agent.c \
	tests/fuzz_am.c \
	tests/fuzz_control.c \
	tests/fuzz_emulate.c \
	tests/fuzz_launch.c \
	tests/fuzz_netlist.c \
	tests/fuzz_ofi.c \
	tests/fuzz_pmi.c \
	tests/fuzz_requests.c \
	tests/fuzz_server.c \
	tests/fuzz_smp.c \
	tests/fuzz_values.c
dist_check_SCRIPTS += tests/fuzz.sh
TESTS += tests/fuzz.sh
