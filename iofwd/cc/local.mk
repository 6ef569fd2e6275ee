# iofwd-cc, iofwd-c++, iofwd-fc: one program, whose name chooses the compiler that it runs if it is given none.
bin_PROGRAMS += iofwd-cc iofwd-c++ iofwd-fc
noinst_LTLIBRARIES += libiofwd_cc.la
libiofwd_cc_la_LIBTOOLFLAGS = $(for_programs)
libiofwd_cc_la_SOURCES = \
	base/program/install.c \
	base/program/install.h \
	base/program/program_image.c \
	base/program/program_image.h \
	iofwd/cc/attempt.c \
	iofwd/cc/cc.h \
	iofwd/cc/link.c \
	iofwd/cc/main.c \
	iofwd/cc/parts.c \
	iofwd/cc/words.c
libiofwd_cc_la_CPPFLAGS = $(AM_CPPFLAGS) -DAMPH_CC_LIBS='"$(NETTLE_LIBS) -ldl -lpthread"'
libiofwd_cc_la_LIBADD = libamphora.la
iofwd_cc_SOURCES =
iofwd_cc_LDADD = libiofwd_cc.la
iofwd_c___SOURCES =
iofwd_c___LDADD = libiofwd_cc.la
iofwd_fc_SOURCES =
iofwd_fc_LDADD = libiofwd_cc.la
dist_man_MANS += man/iofwd-cc.1 man/iofwd-c++.1 man/iofwd-fc.1

dist_check_SCRIPTS += tests/files/build/fwd_cc.sh tests/files/build/iofwd_cc.sh
TESTS += tests/files/build/fwd_cc.sh tests/files/build/iofwd_cc.sh
EXTRA_DIST += tests/files/build/fwd_cc.c tests/files/build/fwd_cc.cc tests/files/build/fwd_cc.f90 \
	tests/files/build/fwd_cc_builds.sh
