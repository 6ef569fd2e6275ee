# Tests of the tree as a whole and of base/; the other layers' tests stand in their folders' local.mk.
EXTRA_DIST += tests/lib/lib.sh
dist_check_SCRIPTS += tests/tree/layers.sh tests/tree/release.sh tests/tree/results.sh tests/tree/t.sh tests/lib/unit.sh tests/unit/headers.sh
EXTRA_DIST += tests/tree/cases.txt
TESTS += tests/tree/layers.sh tests/tree/release.sh tests/tree/results.sh tests/tree/t.sh tests/unit/headers.sh
check_PROGRAMS += tests/lib/guard
tests_lib_guard_SOURCES = tests/lib/guard.c

# Criterion programs: add to check_PROGRAMS and TESTS (inside the condition); tests/lib/unit.sh runs them with TAP.
if HAVE_CRITERION
check_PROGRAMS += tests/unit/unit_base
TESTS += tests/unit/unit_base
tests_unit_unit_base_SOURCES = tests/unit/unit_base.c
tests_unit_unit_base_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_base_LDADD = $(UNIT_LIBS)
else
TESTS += tests/lib/unit_missing.sh
endif
dist_check_SCRIPTS += tests/lib/unit_missing.sh

# The parsers of what others send, under libFuzzer where clang is there: tests/fuzz/fuzz.sh has the table of targets.
EXTRA_DIST += \
	tests/fuzz/corpus \
	tests/fuzz/fuzz_agent.c \
	tests/fuzz/fuzz_am.c \
	tests/fuzz/fuzz_control.c \
	tests/fuzz/fuzz_emulate.c \
	tests/fuzz/fuzz_launch.c \
	tests/fuzz/fuzz_netlist.c \
	tests/fuzz/fuzz_ofi.c \
	tests/fuzz/fuzz_pmi.c \
	tests/fuzz/fuzz_requests.c \
	tests/fuzz/fuzz_server.c \
	tests/fuzz/fuzz_smp.c \
	tests/fuzz/fuzz_values.c
dist_check_SCRIPTS += tests/fuzz/fuzz.sh
TESTS += tests/fuzz/fuzz.sh
