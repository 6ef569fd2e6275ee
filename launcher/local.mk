# amphora-run.
noinst_LTLIBRARIES += liblauncher.la
liblauncher_la_CPPFLAGS = $(AM_CPPFLAGS)
liblauncher_la_LIBTOOLFLAGS = $(for_programs)
liblauncher_la_SOURCES = \
	base/program/program_image.c \
	base/program/program_image.h \
	base/program/program_look.c \
	base/program/program_look.h \
	launcher/agent/main.c \
	launcher/agent/agent.h \
	launcher/agent/io.c \
	launcher/agent/internal.h \
	launcher/agent/relay.c \
	launcher/agent/spawn.c \
	launcher/agent/tree.c \
	launcher/master/control.c \
	launcher/master/ending.c \
	launcher/hosts/local.c \
	launcher/common/inherit.c \
	launcher/common/inherit.h \
	launcher/master/jobdir.c \
	launcher/master/jobdir.h \
	launcher/master/launch.h \
	launcher/common/loop.c \
	launcher/common/loop.h \
	launcher/master/mapping.c \
	launcher/master/master.c \
	launcher/hosts/hostfile.c \
	launcher/hosts/hostfile.h \
	launcher/master/options.c \
	launcher/master/options.h \
	launcher/master/pmi.c \
	launcher/master/progress.c \
	launcher/common/forwarded.c \
	launcher/common/forwarded.h \
	launcher/common/program.c \
	launcher/common/program.h \
	launcher/common/reap.c \
	launcher/common/reap.h \
	launcher/hosts/remote.c \
	launcher/hosts/remote.h \
	launcher/master/clocks.c \
	launcher/master/records.c \
	launcher/master/report.c \
	launcher/master/suspend.c \
	launcher/common/message.c \
	launcher/common/record_dir.c \
	launcher/common/record_dir.h \
	launcher/common/record_pack.c \
	launcher/common/record_pack.h \
	launcher/common/message.h \
	launcher/common/mpi.c \
	launcher/common/mpi.h \
	launcher/master/environment.c \
	launcher/master/environment.h \
	launcher/master/stdio.c \
	launcher/hosts/tree.c

bin_PROGRAMS += amphora-run iofwd-run
# The whole iofwd-run has what it needs of base and boot in itself: libamphora and what that needs would take half of its time.
attach_sources = base/log.c base/os/descriptors.c base/os/limits.c base/settings/env.c base/settings/env_parse.c base/status.c boot/address_file.c \
	boot/jobfile.c boot/present.c boot/process.c base/program/leave_preload.c base/program/leave_preload.h launcher/attach/main.c launcher/attach/mount.c \
	launcher/attach/exported.h launcher/attach/mount.h launcher/attach/namespace.c launcher/attach/namespace.h launcher/attach/options.c launcher/attach/options.h launcher/attach/root.c launcher/attach/root.h launcher/attach/way.c launcher/attach/way.h
if QUICK_START
# The quick start is iofwd-run, a program without a C library, linked without libtool, whose libraries it has no use for.  It executes
# the whole one where it does not suffice.
bin_PROGRAMS += iofwd-attach
iofwd_run_SOURCES = launcher/attach/quick/image.c launcher/attach/quick/kernel.h launcher/attach/quick/quick.h launcher/attach/quick/servers.c \
	launcher/attach/quick/start.c
iofwd_run_CFLAGS = $(AMPH_CFLAGS) -Os -ffreestanding -fno-builtin -fno-stack-protector -fno-pie -fvisibility=hidden \
	-fno-tree-loop-distribute-patterns
iofwd_run_LINK = $(CC) $(CFLAGS) $(LDFLAGS) $(QUICK_LDFLAGS) -o $@
iofwd_attach_SOURCES = $(attach_sources)
iofwd_attach_LDADD = liblauncher.la libinstrument.la
else
iofwd_run_SOURCES = $(attach_sources)
iofwd_run_CFLAGS = $(AM_CFLAGS)
iofwd_run_LINK = $(LINK)
iofwd_run_LDADD = liblauncher.la libinstrument.la
EXTRA_DIST += launcher/attach/quick/image.c launcher/attach/quick/kernel.h launcher/attach/quick/quick.h launcher/attach/quick/servers.c \
	launcher/attach/quick/start.c
endif
amphora_run_SOURCES = launcher/master/main.c
amphora_run_LDADD = liblauncher.la libamphora.la libtopo.la

# ways_bad.sh is for the nightly run.
EXTRA_DIST += tests/files/ways/ways_bad.sh
# ways_figures.sh is for doc/figures.md.
EXTRA_DIST += tests/files/ways/ways_figures.sh tests/files/ways/ways_bench.c
dist_check_SCRIPTS += tests/files/ways/ways_answers.sh tests/files/ways/ways_choice.sh tests/files/ways/ways_matrix.sh \
	tests/files/ways/ways_quick.sh
TESTS += tests/files/ways/ways_answers.sh tests/files/ways/ways_choice.sh tests/files/ways/ways_matrix.sh tests/files/ways/ways_quick.sh
CLEANFILES += ways-results.txt
EXTRA_DIST += tests/files/ways/ways_answers.c scripts/ways-table tests/files/ways/ways_matrix.py tests/files/ways/ways_expected.txt tests/files/ways/ways.c tests/files/ways/ways.cc \
	tests/files/ways/ways.f90 tests/files/ways/ways.go tests/files/ways/ways.rs tests/files/ways/Ways.java

check_PROGRAMS += tests/launcher/launcher_job tests/launcher/launcher_unauthenticated tests/launcher/launcher_cause
tests_launcher_launcher_unauthenticated_SOURCES = tests/launcher/launcher_unauthenticated.c
tests_launcher_launcher_unauthenticated_LDADD = $(inside_amphora_net)
tests_launcher_launcher_cause_SOURCES = tests/launcher/launcher_cause.c tests/gex/gex_common.h
tests_launcher_launcher_cause_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_SEQ $(gex_client_cppflags)
tests_launcher_launcher_cause_LDADD = libamphora.la
tests_launcher_launcher_job_SOURCES = tests/launcher/launcher_job.c
tests_launcher_launcher_job_LDADD = $(inside_amphora_net)
launcher_mp = \
	tests/launcher/launcher_bad.sh \
	tests/launcher/launcher_boot.sh \
	tests/launcher/launcher_cause.sh \
	tests/launcher/launcher_faults.sh \
	tests/launcher/launcher_memory.sh \
	tests/launcher/launcher_mpi.sh \
	tests/launcher/launcher_run.sh \
	tests/launcher/launcher_ssh.sh
EXTRA_DIST += tests/launcher/no_memory.c
dist_check_SCRIPTS += $(launcher_mp)
TESTS += $(launcher_mp)

if HAVE_CRITERION
check_PROGRAMS += tests/unit/unit_boot_launcher
TESTS += tests/unit/unit_boot_launcher
tests_unit_unit_boot_launcher_SOURCES = tests/unit/unit_boot_launcher.c
tests_unit_unit_boot_launcher_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_boot_launcher_LDADD = liblauncher.la $(UNIT_LIBS) libtopo.la
endif
