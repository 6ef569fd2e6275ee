# iofwd-instrument: copies of programs that need the preload library.
noinst_LTLIBRARIES += libinstrument.la
libinstrument_la_CPPFLAGS = $(AM_CPPFLAGS)
libinstrument_la_LIBTOOLFLAGS = $(for_programs)
libinstrument_la_SOURCES = \
	base/program/install.c \
	base/program/install.h \
	base/program/program_image.c \
	base/program/program_image.h \
	base/program/program_look.c \
	base/program/program_look.h \
	iofwd/elf/elf.h \
	iofwd/elf/segment.c \
	iofwd/elf/view.c \
	iofwd/instrument/check.c \
	iofwd/instrument/check.h \
	iofwd/instrument/instrument.h \
	iofwd/instrument/make.c \
	iofwd/instrument/payload.c \
	iofwd/instrument/sections.c \
	iofwd/instrument/undo.c
bin_PROGRAMS += iofwd-instrument
iofwd_instrument_SOURCES = iofwd/instrument/main.c
iofwd_instrument_LDADD = libinstrument.la libamphora.la
dist_man_MANS += man/iofwd-instrument.1

dist_check_SCRIPTS += tests/files/build/iofwd_instrument.sh tests/files/build/fwd_instrument.sh
EXTRA_DIST += tests/files/build/instrument_debian.sh
TESTS += tests/files/build/iofwd_instrument.sh tests/files/build/fwd_instrument.sh
