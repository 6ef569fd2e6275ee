# Amphora in the place of GASNet: for each conduit and thread mode a make fragment, a pkg-config file and the library's name there,
# each made from one template; and the launchers.
dropin_conduits = smp tcp udp ofi ibv
dropin_names = \
	ibv-par \
	ibv-parsync \
	ibv-seq \
	ofi-par \
	ofi-parsync \
	ofi-seq \
	smp-par \
	smp-parsync \
	smp-seq \
	tcp-par \
	tcp-parsync \
	tcp-seq \
	udp-par \
	udp-parsync \
	udp-seq
EXTRA_DIST += \
	dropin/README.md \
	dropin/conduit.mak.in \
	dropin/conduit.pc.in \
	dropin/example/Makefile \
	dropin/example/Makefile.pkg \
	dropin/example/hello.c \
	dropin/example/hello.cc \
	dropin/fill.sh \
	dropin/gasnetrun.in

smpconduitdir = $(includedir)/smp-conduit
tcpconduitdir = $(includedir)/tcp-conduit
udpconduitdir = $(includedir)/udp-conduit
oficonduitdir = $(includedir)/ofi-conduit
ibvconduitdir = $(includedir)/ibv-conduit
nodist_smpconduit_DATA = dropin/smp-seq.mak dropin/smp-par.mak dropin/smp-parsync.mak
nodist_tcpconduit_DATA = dropin/tcp-seq.mak dropin/tcp-par.mak dropin/tcp-parsync.mak
nodist_udpconduit_DATA = dropin/udp-seq.mak dropin/udp-par.mak dropin/udp-parsync.mak
nodist_oficonduit_DATA = dropin/ofi-seq.mak dropin/ofi-par.mak dropin/ofi-parsync.mak
nodist_ibvconduit_DATA = dropin/ibv-seq.mak dropin/ibv-par.mak dropin/ibv-parsync.mak
dropin_pc = \
	dropin/gasnet-ibv-par.pc \
	dropin/gasnet-ibv-parsync.pc \
	dropin/gasnet-ibv-seq.pc \
	dropin/gasnet-ofi-par.pc \
	dropin/gasnet-ofi-parsync.pc \
	dropin/gasnet-ofi-seq.pc \
	dropin/gasnet-smp-par.pc \
	dropin/gasnet-smp-parsync.pc \
	dropin/gasnet-smp-seq.pc \
	dropin/gasnet-tcp-par.pc \
	dropin/gasnet-tcp-parsync.pc \
	dropin/gasnet-tcp-seq.pc \
	dropin/gasnet-udp-par.pc \
	dropin/gasnet-udp-parsync.pc \
	dropin/gasnet-udp-seq.pc
pkgconfig_DATA += $(dropin_pc)
dropin_mak = \
	$(nodist_ibvconduit_DATA) \
	$(nodist_oficonduit_DATA) \
	$(nodist_smpconduit_DATA) \
	$(nodist_tcpconduit_DATA) \
	$(nodist_udpconduit_DATA)

dropin_fill = prefix='$(prefix)' includedir='$(includedir)' libdir='$(libdir)' CC='$(CC)' CXX='$(CXX)' OPT='$(DROPIN_OPT)' \
	DEFINES='$(DROPIN_DEFINES)' VERSION='$(PACKAGE_VERSION)' $(SHELL) $(srcdir)/dropin/fill.sh
dropin_need = $(srcdir)/dropin/fill.sh Makefile
$(dropin_mak): $(srcdir)/dropin/conduit.mak.in $(dropin_need)
	$(AM_V_GEN)$(MKDIR_P) dropin && $(dropin_fill) $(srcdir)/dropin/conduit.mak.in $(basename $(@F)) >$@.tmp && mv $@.tmp $@
$(dropin_pc): $(srcdir)/dropin/conduit.pc.in $(dropin_need)
	$(AM_V_GEN)$(MKDIR_P) dropin && $(dropin_fill) $(srcdir)/dropin/conduit.pc.in $(patsubst gasnet-%.pc,%,$(@F)) >$@.tmp && \
		mv $@.tmp $@

# -lgasnet-<conduit>-<threads>, for builds that name the library themselves: texts that the linker reads, the same for all.
dropin_so = $(dropin_names:%=dropin/libgasnet-%.so)
dropin_a = $(dropin_names:%=dropin/libgasnet-%.a)
dropinlibdir = $(libdir)
dropinlib_DATA =
if DROPIN_SHARED
dropinlib_DATA += $(dropin_so)
endif
if DROPIN_STATIC
dropinlib_DATA += $(dropin_a)
endif
$(dropin_so): Makefile
	$(AM_V_GEN)$(MKDIR_P) dropin && echo 'INPUT ( libamphora.so )' >$@
$(dropin_a): Makefile
	$(AM_V_GEN)$(MKDIR_P) dropin && echo 'INPUT ( libamphora.a $(NETTLE_LIBS) -ldl -lpthread -lrt )' >$@

# The launchers: one script that knows its conduit.
dropin_run = dropin/gasnetrun_smp dropin/gasnetrun_tcp dropin/gasnetrun_udp dropin/gasnetrun_ofi dropin/gasnetrun_ibv dropin/amudprun
bin_SCRIPTS += $(dropin_run)
$(dropin_run): $(srcdir)/dropin/gasnetrun.in Makefile
	$(AM_V_GEN)$(MKDIR_P) dropin && sed -e 's|@NAME@|$(@F)|g' -e 's|@bindir@|$(bindir)|g' $(srcdir)/dropin/gasnetrun.in >$@.tmp && \
		chmod +x $@.tmp && mv $@.tmp $@
CLEANFILES += $(dropin_mak) $(dropin_pc) $(dropin_so) $(dropin_a) $(dropin_run)

# Tests: GASNet-1 beyond the transfers, its segment modes, the launchers.
dropin_mp = tests/gasnet1/gasnet1_everything tests/gasnet1/gasnet1_leave tests/gasnet1/gasnet1_more tests/gasnet1/gasnet1_quit
check_PROGRAMS += $(dropin_mp) tests/gasnet1/gasnet1_everything_par tests/gasnet1/gasnet1_all_par tests/gasnet1/gasnet1_more_par
dist_check_SCRIPTS += $(dropin_mp:=.sh)
TESTS += $(dropin_mp:=.sh)
tests_gasnet1_gasnet1_everything_SOURCES = tests/gasnet1/gasnet1_everything.c tests/gex/gex_common.h
tests_gasnet1_gasnet1_everything_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gasnet1_gasnet1_everything_LDADD = libamphora.la
tests_gasnet1_gasnet1_everything_par_SOURCES = tests/gasnet1/gasnet1_everything.c tests/gex/gex_common.h
tests_gasnet1_gasnet1_everything_par_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_gasnet1_gasnet1_everything_par_LDADD = libamphora.la -lpthread
tests_gasnet1_gasnet1_more_SOURCES = tests/gasnet1/gasnet1_more.c tests/gex/gex_common.h
tests_gasnet1_gasnet1_more_CPPFLAGS = -DGASNET_SEQ -DGASNET_SEGMENT_LARGE -DGASNET_CONDUIT_OFI $(gex_client_cppflags)
tests_gasnet1_gasnet1_more_LDADD = libamphora.la
dist_check_SCRIPTS += tests/dropin/dropin_run.sh tests/dropin/dropin_build.sh
TESTS += tests/dropin/dropin_run.sh tests/dropin/dropin_build.sh
check_PROGRAMS += tests/dropin/dropin_job tests/dropin/dropin_job_smp tests/dropin/dropin_job_tcp tests/dropin/dropin_job_udp
tests_dropin_dropin_job_SOURCES = tests/dropin/dropin_job.c
tests_dropin_dropin_job_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_dropin_dropin_job_LDADD = libamphora.la
tests_dropin_dropin_job_smp_SOURCES = tests/dropin/dropin_job.c
tests_dropin_dropin_job_smp_CPPFLAGS = -DGASNET_SEQ -DGASNET_CONDUIT_SMP $(gex_client_cppflags)
tests_dropin_dropin_job_smp_LDADD = libamphora.la
tests_dropin_dropin_job_tcp_SOURCES = tests/dropin/dropin_job.c
tests_dropin_dropin_job_tcp_CPPFLAGS = -DGASNET_PARSYNC -DGASNET_CONDUIT_TCP=1 -DGASNET_PAGESIZE=65536 $(gex_client_cppflags)
tests_dropin_dropin_job_tcp_LDADD = libamphora.la
tests_dropin_dropin_job_udp_SOURCES = tests/dropin/dropin_job.c
tests_dropin_dropin_job_udp_CPPFLAGS = -DGASNET_PAR -DGASNET_CONDUIT_UDP=1 -DGASNET_PAGESIZE=65536 $(gex_client_cppflags)
tests_dropin_dropin_job_udp_LDADD = libamphora.la -lpthread
tests_gasnet1_gasnet1_leave_SOURCES = tests/gasnet1/gasnet1_leave.c tests/gex/gex_common.h
tests_gasnet1_gasnet1_leave_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gasnet1_gasnet1_leave_LDADD = libamphora.la
tests_gasnet1_gasnet1_quit_SOURCES = tests/gasnet1/gasnet1_quit.c tests/gex/gex_common.h
tests_gasnet1_gasnet1_quit_CPPFLAGS = -DGASNET_SEQ $(gex_client_cppflags)
tests_gasnet1_gasnet1_quit_LDADD = libamphora.la
tests_gasnet1_gasnet1_all_par_SOURCES = tests/gasnet1/gasnet1_all.c tests/gex/gex_common.h
tests_gasnet1_gasnet1_all_par_CPPFLAGS = -DGASNET_PAR $(gex_client_cppflags)
tests_gasnet1_gasnet1_all_par_LDADD = libamphora.la -lpthread
tests_gasnet1_gasnet1_more_par_SOURCES = tests/gasnet1/gasnet1_more.c tests/gex/gex_common.h
tests_gasnet1_gasnet1_more_par_CPPFLAGS = -DGASNET_PAR -DGASNET_SEGMENT_LARGE -DGASNET_CONDUIT_OFI $(gex_client_cppflags)
tests_gasnet1_gasnet1_more_par_LDADD = libamphora.la -lpthread
