# iofwd-trap: the supervisor of iofwd-run -trap, over libiofwd and seccomp's user notification.
EXTRA_DIST += iofwd/calls/trapped.def
bin_PROGRAMS += iofwd-trap
iofwd_trap_SOURCES = \
	iofwd/trap/copy.c \
	iofwd/trap/data.c \
	iofwd/trap/file.c \
	iofwd/trap/filter.c \
	iofwd/trap/local.c \
	iofwd/trap/lock.c \
	iofwd/trap/main.c \
	iofwd/trap/map.c \
	iofwd/trap/names.c \
	iofwd/trap/path.c \
	iofwd/trap/process.c \
	iofwd/trap/receive.c \
	iofwd/trap/table.c \
	iofwd/trap/trap.h \
	iofwd/trap/wait.c \
	iofwd/trap/xattr.c \
	iofwd/wire/prefix.c
iofwd_trap_LDADD = libiofwd.la libamphora.la -lpthread

trap_scripts = \
	tests/files/trap/trap_programs.sh
dist_check_SCRIPTS += $(trap_scripts)
TESTS += $(trap_scripts)
EXTRA_DIST += tests/files/trap/trap_lib.sh
