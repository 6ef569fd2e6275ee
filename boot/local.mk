# Joining a job.
libamphora_la_SOURCES += \
	boot/boot.c boot/boot.h boot/control.c boot/control.h boot/frames.c boot/frames.h boot/jobfile.c boot/kind.h boot/launcher.c \
	boot/pmi1.c boot/pmi1.h boot/pmi1_wire.c boot/single.c boot/values.c

if HAVE_CRITERION
check_PROGRAMS += tests/unit_boot
TESTS += tests/unit_boot
tests_unit_boot_SOURCES = tests/unit_boot.c
tests_unit_boot_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_boot_LDADD = $(UNIT_LIBS) -lpthread
endif
