# iofwd-mount: a prefix of the servers as a file system, over libiofwd and libfuse3.
iofwd_mount_files = \
	base/program/leave_preload.c \
	base/program/leave_preload.h \
	iofwd/mount/abandon.c \
	iofwd/mount/data.c \
	iofwd/mount/dir.c \
	iofwd/mount/exchange.c \
	iofwd/mount/flags.c \
	iofwd/mount/lock.c \
	iofwd/mount/main.c \
	iofwd/mount/mount.h \
	iofwd/mount/name.c \
	iofwd/mount/node.c \
	iofwd/mount/options.c \
	iofwd/mount/owner.c \
	iofwd/mount/servers.c \
	iofwd/mount/waiting.c \
	iofwd/mount/xattr.c
if HAVE_FUSE
bin_PROGRAMS += iofwd-mount
iofwd_mount_SOURCES = $(iofwd_mount_files) iofwd/wire/prefix.c
iofwd_mount_CPPFLAGS = $(AM_CPPFLAGS) $(FUSE_CFLAGS)
iofwd_mount_LDADD = libiofwd.la libamphora.la $(FUSE_LIBS) -lpthread
else
EXTRA_DIST += $(iofwd_mount_files)
endif

mount_scripts = \
	tests/files/trace/record_mount.sh \
	tests/files/mount/mount_cache.sh \
	tests/files/mount/mount_containers.sh \
	tests/files/mount/mount_ends.sh \
	tests/files/mount/mount_hung.sh \
	tests/files/mount/mount_locks.sh \
	tests/files/mount/mount_programs.sh \
	tests/files/mount/mount_run.sh \
	tests/files/mount/mount_users.sh
dist_check_SCRIPTS += $(mount_scripts)
TESTS += $(mount_scripts)
# mount_figures.sh is a part of doc/figures.md.
EXTRA_DIST += \
	tests/files/bench.h \
	tests/files/mount/mount_bench.c \
	tests/files/mount/mount_figures.sh \
	tests/files/mount/mount_lib.sh \
	tests/files/mount/mount_locks.py
