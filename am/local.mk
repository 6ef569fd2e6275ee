# Active messages.
libamphora_la_SOURCES += am/address.c am/address.h am/am.h am/deliver.c am/dispatch.c am/endpoint.c am/ep.h am/exit.c am/gather.c \
	am/job.c am/job.h am/longs.c am/pagesize.c am/poll.c am/rma.c am/send.c am/waiting.c

if HAVE_CRITERION
check_PROGRAMS += tests/unit_am
TESTS += tests/unit_am
tests_unit_am_SOURCES = tests/unit_am.c tests/unit_am_fake.c tests/unit_am_fake.h
tests_unit_am_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_am_LDADD = $(UNIT_LIBS)
endif
