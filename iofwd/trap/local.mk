# iofwd-trap: the supervisor of iofwd-run -trap, over libiofwd and seccomp's user notification.
EXTRA_DIST += iofwd/calls/trapped.def
bin_PROGRAMS += iofwd-trap
iofwd_trap_SOURCES = \
	iofwd/trap/attr.c \
	iofwd/trap/chdir.c \
	iofwd/trap/check.c \
	iofwd/trap/control.c \
	iofwd/trap/copy.c \
	iofwd/trap/data.c \
	iofwd/trap/dup.c \
	iofwd/trap/fd.c \
	iofwd/trap/file.c \
	iofwd/trap/filter.c \
	iofwd/trap/front.c \
	iofwd/trap/fs.c \
	iofwd/trap/local.c \
	iofwd/trap/lock.c \
	iofwd/trap/main.c \
	iofwd/trap/map.c \
	iofwd/trap/memory.c \
	iofwd/trap/names.c \
	iofwd/trap/number.c \
	iofwd/trap/open.c \
	iofwd/trap/path.c \
	iofwd/trap/process.c \
	iofwd/trap/process.h \
	iofwd/trap/program.c \
	iofwd/trap/receive.c \
	iofwd/trap/refuse.c \
	iofwd/trap/run.c \
	iofwd/trap/run.h \
	iofwd/trap/socket.c \
	iofwd/trap/supervisor.c \
	iofwd/trap/table.c \
	iofwd/trap/trap.h \
	iofwd/trap/wait.c \
	iofwd/trap/xattr.c \
	iofwd/wire/prefix.c
iofwd_trap_LDADD = libiofwd.la libamphora.la -lpthread

trap_scripts = \
	tests/files/trace/record_trap.sh \
	tests/files/trap/trap_calls.sh \
	tests/files/trap/trap_ends.sh \
	tests/files/trap/trap_languages.sh \
	tests/files/trap/trap_programs.sh \
	tests/files/trap/trap_waits.sh
dist_check_SCRIPTS += $(trap_scripts)
TESTS += $(trap_scripts)
# trap_applications.sh is a part of scripts/check-nightly, trap_figures.sh of doc/figures.md.
EXTRA_DIST += \
	tests/files/trace/record_ways.c \
	tests/files/trace/record_ways_lib.sh \
	tests/files/trap/trap_applications.sh \
	tests/files/trap/trap_bench.c \
	tests/files/trap/trap_calls.c \
	tests/files/trap/trap_check.h \
	tests/files/trap/trap_figures.sh \
	tests/files/trap/trap_go.go \
	tests/files/trap/trap_lib.sh \
	tests/files/trap/trap_other.c \
	tests/files/trap/trap_places.c \
	tests/files/trap/trap_waits.c

if HAVE_CRITERION
check_PROGRAMS += tests/unit/unit_trap_filter
TESTS += tests/unit/unit_trap_filter
tests_unit_unit_trap_filter_SOURCES = tests/unit/unit_trap_filter.c iofwd/trap/filter.c
tests_unit_unit_trap_filter_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_trap_filter_LDADD = $(CRITERION_LIBS)
endif
