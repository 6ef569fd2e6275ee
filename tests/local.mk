# Tests of the tree as a whole and of base/; the other layers' tests are in their folders' local.mk.
EXTRA_DIST += tests/README.md tests/lib/lib.sh
# headers.sh is for the nightly run.
EXTRA_DIST += tests/unit/headers.sh
tree_tests = tests/tree/layers.sh tests/tree/own_names.sh tests/tree/symbols.sh tests/tree/release.sh tests/tree/results.sh tests/tree/t.sh
dist_check_SCRIPTS += $(tree_tests) tests/lib/unit.sh
EXTRA_DIST += tests/lib/prefixes.txt tests/tree/cases.txt tests/tree/globals.txt tests/tree/own_names.c
TESTS += $(tree_tests)
check_PROGRAMS += tests/lib/guard
tests_lib_guard_SOURCES = tests/lib/guard.c

# Criterion programs: add to check_PROGRAMS and TESTS (inside the condition); tests/lib/unit.sh runs them with TAP.
if HAVE_CRITERION
check_PROGRAMS += tests/unit/unit_base
TESTS += tests/unit/unit_base
tests_unit_unit_base_SOURCES = tests/unit/unit_base.c tests/unit/native_order.h
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
	tests/fuzz/fuzz_attach.c \
	tests/fuzz/fuzz_control.c \
	tests/fuzz/fuzz_emulate.c \
	tests/fuzz/fuzz_greet.c \
	tests/fuzz/fuzz_instrument.c \
	tests/fuzz/fuzz_launch.c \
	tests/fuzz/fuzz_netlist.c \
	tests/fuzz/fuzz_ofi.c \
	tests/fuzz/fuzz_pmi.c \
	tests/fuzz/fuzz_recovery.c \
	tests/fuzz/fuzz_requests.c \
	tests/fuzz/fuzz_server.c \
	tests/fuzz/fuzz_smp.c \
	tests/fuzz/fuzz_trace.c \
	tests/fuzz/fuzz_input.h \
	tests/fuzz/fuzz_trap.c \
	tests/fuzz/fuzz_values.c
dist_check_SCRIPTS += tests/fuzz/fuzz.sh
TESTS += tests/fuzz/fuzz.sh

# Tests of the inside: the shared libraries hide their inside, so these tests link the same objects statically.
if DROPIN_STATIC
inside_libamphora = .libs/libamphora.a
inside_libiofwd = .libs/libiofwd.a
.libs/libamphora.a: libamphora.la
	@:
.libs/libiofwd.a: libiofwd.la
	@:
else
inside_libamphora = tests/libamphora_inside.la
inside_libiofwd = tests/libiofwd_inside.la
check_LTLIBRARIES += tests/libamphora_inside.la tests/libiofwd_inside.la
tests_libamphora_inside_la_SOURCES =
tests_libamphora_inside_la_LIBADD = $(libamphora_la_OBJECTS)
tests_libiofwd_inside_la_SOURCES =
tests_libiofwd_inside_la_LIBADD = $(libiofwd_la_OBJECTS)
endif
inside_amphora = $(inside_libamphora) $(NETTLE_LIBS) -ldl -lpthread -lrt
# The same with the networks linked in, for tests that send over them: such a program loads no module.
inside_amphora_net = conduits/ofi/libofi_la-module.lo conduits/ofi/libofi_la-port.lo libofi.la $(inside_amphora) $(LIBFABRIC_LIBS)
