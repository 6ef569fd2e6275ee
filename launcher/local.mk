# amphora-run.
noinst_LTLIBRARIES += liblauncher.la
liblauncher_la_SOURCES = \
	launcher/agent.c \
	launcher/agent.h \
	launcher/agent_io.c \
	launcher/agent_local.h \
	launcher/agent_relay.c \
	launcher/agent_spawn.c \
	launcher/agent_tree.c \
	launcher/control.c \
	launcher/ending.c \
	launcher/hosts.c \
	launcher/inherit.c \
	launcher/inherit.h \
	launcher/jobdir.c \
	launcher/jobdir.h \
	launcher/launch.h \
	launcher/loop.c \
	launcher/loop.h \
	launcher/mapping.c \
	launcher/master.c \
	launcher/netlist.c \
	launcher/netlist.h \
	launcher/options.c \
	launcher/options.h \
	launcher/pmi.c \
	launcher/program.c \
	launcher/program.h \
	launcher/reap.c \
	launcher/reap.h \
	launcher/remote.c \
	launcher/remote.h \
	launcher/report.c \
	launcher/say.c \
	launcher/say.h \
	launcher/setting.c \
	launcher/setting.h \
	launcher/stdio.c \
	launcher/tree.c

bin_PROGRAMS += amphora-run iofwd-run
iofwd_run_SOURCES = launcher/iofwd_run.c
iofwd_run_LDADD = liblauncher.la libamphora.la libtopo.la
amphora_run_SOURCES = launcher/main.c
amphora_run_LDADD = liblauncher.la libamphora.la libtopo.la

check_PROGRAMS += tests/mp/launcher_job tests/mp/launcher_stranger
tests_mp_launcher_stranger_SOURCES = tests/mp/launcher_stranger.c
tests_mp_launcher_stranger_LDADD = libamphora.la
tests_mp_launcher_job_SOURCES = tests/mp/launcher_job.c
tests_mp_launcher_job_LDADD = libamphora.la
launcher_mp = \
	tests/mp/launcher_bad.sh \
	tests/mp/launcher_boot.sh \
	tests/mp/launcher_faults.sh \
	tests/mp/launcher_run.sh \
	tests/mp/launcher_ssh.sh
dist_check_SCRIPTS += $(launcher_mp)
TESTS += $(launcher_mp)

if HAVE_CRITERION
check_PROGRAMS += tests/unit_boot_launcher
TESTS += tests/unit_boot_launcher
tests_unit_boot_launcher_SOURCES = tests/unit_boot_launcher.c
tests_unit_boot_launcher_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_boot_launcher_LDADD = liblauncher.la $(UNIT_LIBS) libtopo.la
endif
