# upcxlate: UPC to C on upc-bridge, a program that needs nothing of the libraries.
bin_PROGRAMS += upcxlate
upcxlate_SOURCES = \
	upc-bridge/xlate/access.c \
	upc-bridge/xlate/affine.c \
	upc-bridge/xlate/convert.c \
	upc-bridge/xlate/declarator.c \
	upc-bridge/xlate/declare.c \
	upc-bridge/xlate/expr.c \
	upc-bridge/xlate/fold.c \
	upc-bridge/xlate/forall.c \
	upc-bridge/xlate/init.c \
	upc-bridge/xlate/lex.c \
	upc-bridge/xlate/main.c \
	upc-bridge/xlate/mem.c \
	upc-bridge/xlate/object.c \
	upc-bridge/xlate/out.c \
	upc-bridge/xlate/specs.c \
	upc-bridge/xlate/stmt.c \
	upc-bridge/xlate/sym.c \
	upc-bridge/xlate/type.c \
	upc-bridge/xlate/unary.c \
	upc-bridge/xlate/xlate.h

# UPC's headers as UPC sources see them, and the C before each of them (upcx.h).
upcincludedir = $(includedir)/amphora-upc
upcinclude_HEADERS = \
	upc-bridge/include/upc.h \
	upc-bridge/include/upc_atomic.h \
	upc-bridge/include/upc_castable.h \
	upc-bridge/include/upc_collective.h \
	upc-bridge/include/upc_io.h \
	upc-bridge/include/upc_nb.h \
	upc-bridge/include/upc_relaxed.h \
	upc-bridge/include/upc_strict.h \
	upc-bridge/include/upc_tick.h \
	upc-bridge/include/upc_types.h \
	upc-bridge/include/upcx.h

# The drivers.
bin_PROGRAMS += amphora-upcc amphora-upcrun
driver_cppflags = $(AM_CPPFLAGS) -DAMPH_INCLUDEDIR='"$(includedir)"'
amphora_upcc_SOURCES = base/program/install.c base/program/install.h upc-bridge/driver/language.c upc-bridge/driver/language.h \
	upc-bridge/driver/options.c upc-bridge/driver/options.h upc-bridge/driver/place.c upc-bridge/driver/place.h upc-bridge/driver/upcc.c
amphora_upcc_CPPFLAGS = $(driver_cppflags)
amphora_upcrun_SOURCES = base/program/install.c base/program/install.h upc-bridge/driver/place.c upc-bridge/driver/place.h upc-bridge/driver/upcrun.c
amphora_upcrun_CPPFLAGS = $(driver_cppflags)
amphora_upcrun_LDADD = libamphora.la

libamphora_upc_la_SOURCES += upc-bridge/translated/translated.c upc-bridge/translated/translated.h upc-bridge/translated/coll.c upc-bridge/translated/io.c

# Textbook programs, programs that are refused.
EXTRA_DIST += \
	tests/upc/programs/bits.upc \
	tests/upc/programs/check.h \
	tests/upc/programs/conjugate.upc \
	tests/upc/programs/dot.upc \
	tests/upc/programs/features.upc \
	tests/upc/programs/files.upc \
	tests/upc/programs/forall.upc \
	tests/upc/programs/gnu.upc \
	tests/upc/programs/heat.upc \
	tests/upc/programs/hello.upc \
	tests/upc/programs/histogram.upc \
	tests/upc/programs/kmers.upc \
	tests/upc/programs/library.upc \
	tests/upc/programs/life.upc \
	tests/upc/programs/list.upc \
	tests/upc/programs/literals.upc \
	tests/upc/programs/matmul.upc \
	tests/upc/programs/nqueens.upc \
	tests/upc/programs/null.upc \
	tests/upc/programs/padding.upc \
	tests/upc/programs/pi.upc \
	tests/upc/programs/several.h \
	tests/upc/programs/several_a.upc \
	tests/upc/programs/several_b.upc \
	tests/upc/programs/several_c.c \
	tests/upc/programs/sized.upc \
	tests/upc/programs/sort.upc \
	tests/upc/programs/static.upc \
	tests/upc/programs/steal.c \
	tests/upc/programs/stencil.c \
	tests/upc/programs/transpose.upc \
	tests/upc/programs/types.upc \
	tests/upc/programs/vector_add.upc \
	tests/upc/programs/spin.upc \
	tests/upc/programs/wait.upc \
	tests/upc/programs/pragmas.upc \
	tests/upc/programs/words.upc \
	tests/upc/programs/wrong_c.upc
EXTRA_DIST += tests/upc/refused
dist_check_SCRIPTS += tests/upc/upc_driver.sh tests/upc/upc_programs.sh tests/upc/upc_refused.sh
TESTS += tests/upc/upc_driver.sh tests/upc/upc_programs.sh tests/upc/upc_refused.sh

check_PROGRAMS += tests/upc/upc_random
tests_upc_upc_random_SOURCES = tests/upc/upc_random.c
EXTRA_DIST += tests/fuzz/fuzz_upcxlate.c
dist_check_SCRIPTS += tests/upc/upc_random.sh tests/fuzz/fuzz_upcxlate.sh
TESTS += tests/upc/upc_random.sh tests/fuzz/fuzz_upcxlate.sh
dist_man_MANS += man/amphora-upcc.1 man/amphora-upcrun.1 man/upcxlate.1
