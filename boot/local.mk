# Joining a job.
libamphora_la_SOURCES += \
	boot/address_file.c \
	boot/boot.c \
	boot/boot.h \
	boot/claim.c \
	boot/claim.h \
	boot/control.c \
	boot/control.h \
	boot/foreign.c \
	boot/frames.c \
	boot/frames.h \
	boot/jobfile.c \
	boot/kind.h \
	boot/kvs.h \
	boot/launcher.c \
	boot/pmi1.h \
	boot/pmi1_wire.c \
	boot/pmi2.c \
	boot/pmi2.h \
	boot/pmix.c \
	boot/pmix_abi.h \
	boot/present.c \
	boot/process.c \
	boot/single.c \
	boot/standing.c \
	boot/standing.h \
	boot/values.c

if HAVE_CRITERION
check_PROGRAMS += tests/unit/unit_boot
TESTS += tests/unit/unit_boot
check_PROGRAMS += tests/unit/unit_boot_pmi2
TESTS += tests/unit/unit_boot_pmi2
tests_unit_unit_boot_pmi2_SOURCES = tests/unit/unit_boot_pmi2.c
tests_unit_unit_boot_pmi2_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_boot_pmi2_LDADD = $(UNIT_LIBS) -lpthread
tests_unit_unit_boot_SOURCES = tests/unit/unit_boot.c tests/unit/native_order.h
tests_unit_unit_boot_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_boot_LDADD = $(UNIT_LIBS) -lpthread
endif
