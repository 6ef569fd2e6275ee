# examples
# wave: the main job.  Its numbers must not depend on how a loop was compiled, so no fused multiply-add.
EXTRA_DIST += examples/README.md examples/bar.upc examples/wave/wave.params
if HAVE_PNG
noinst_PROGRAMS += examples/wave/wave
examples_wave_wave_SOURCES = \
	examples/wave/wave.c \
	examples/wave/wave.h \
	examples/wave/wave_field.c \
	examples/wave/wave_io.c \
	examples/wave/wave_params.c \
	examples/wave/wave_png.c \
	examples/wave/wave_report.c
examples_wave_wave_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_SEQ $(PNG_CFLAGS)
examples_wave_wave_CFLAGS = $(AM_CFLAGS) -ffp-contract=off -fvect-cost-model=dynamic
examples_wave_wave_LDADD = libiofwd.la libamphora.la $(PNG_LIBS) -lm
endif
dist_check_SCRIPTS += tests/examples/wave.sh
TESTS += tests/examples/wave.sh
# The small ones: each is a client's first program, built against the public headers alone (tests/examples/gex_examples.sh runs them).
noinst_PROGRAMS += examples/hello_am examples/ring examples/put_get
examples_hello_am_SOURCES = examples/hello_am.c
examples_hello_am_CPPFLAGS = -DGASNET_SEQ -I$(top_srcdir)/include
examples_hello_am_LDADD = libamphora.la
examples_ring_SOURCES = examples/ring.c
examples_ring_CPPFLAGS = -DGASNET_SEQ -I$(top_srcdir)/include
examples_ring_LDADD = libamphora.la
examples_put_get_SOURCES = examples/put_get.c
examples_put_get_CPPFLAGS = -DGASNET_SEQ -I$(top_srcdir)/include
examples_put_get_LDADD = libamphora.la
# An OpenSHMEM-like library over gasnet.h alone, its programs and its test.
examples_shmem_sources = \
	examples/common/arena.c \
	examples/common/arena.h \
	examples/shmem/atomic.c \
	examples/shmem/collective.c \
	examples/shmem/heap.c \
	examples/shmem/inside.h \
	examples/shmem/lock.c \
	examples/shmem/shmem.h \
	examples/shmem/shmem_types.h \
	examples/shmem/start.c \
	examples/shmem/sync.c \
	examples/shmem/transfer.c \
	examples/shmem/variables.c
EXTRA_DIST += examples/shmem/Makefile
noinst_LTLIBRARIES += examples/shmem/libshmem.la
examples_shmem_libshmem_la_LIBTOOLFLAGS = $(for_programs)
examples_shmem_libshmem_la_SOURCES = $(examples_shmem_sources)
examples_shmem_libshmem_la_CPPFLAGS = -DGASNET_SEQ -I$(top_srcdir)/include
examples_shmem_programs = examples/shmem/heat examples/shmem/sort examples/shmem/histogram
noinst_PROGRAMS += $(examples_shmem_programs)
check_PROGRAMS += tests/examples/shmem_check
examples_shmem_heat_SOURCES = examples/shmem/heat.c
examples_shmem_heat_CPPFLAGS = $(examples_plain)
examples_shmem_heat_LDADD = examples/shmem/libshmem.la libamphora.la -lm
examples_shmem_sort_SOURCES = examples/shmem/sort.c
examples_shmem_sort_CPPFLAGS = $(examples_plain)
examples_shmem_sort_LDADD = examples/shmem/libshmem.la libamphora.la
examples_shmem_histogram_SOURCES = examples/shmem/histogram.c
examples_shmem_histogram_CPPFLAGS = $(examples_plain)
examples_shmem_histogram_LDADD = examples/shmem/libshmem.la libamphora.la
tests_examples_shmem_check_SOURCES = tests/examples/shmem_check.c
tests_examples_shmem_check_CPPFLAGS = -I$(top_srcdir)
tests_examples_shmem_check_LDADD = examples/shmem/libshmem.la libamphora.la
# These know nothing of GASNet or Amphora.
examples_plain =
dist_check_SCRIPTS += tests/examples/shmem.sh
TESTS += tests/examples/shmem.sh
# A UPC++-like library over gasnetex.h alone, in C++17.
EXTRA_DIST += examples/upcxx/Makefile
examples_upcxx_programs = examples/upcxx/dht examples/upcxx/stencil examples/upcxx/histogram
examples_upcxx_headers = \
	examples/upcxx/atomic.hpp \
	examples/upcxx/collective.hpp \
	examples/upcxx/future.hpp \
	examples/upcxx/inside.hpp \
	examples/upcxx/pointer.hpp \
	examples/upcxx/rma.hpp \
	examples/upcxx/rpc.hpp \
	examples/upcxx/runtime.hpp \
	examples/upcxx/serialize.hpp \
	examples/upcxx/team.hpp \
	examples/upcxx/upcxx.hpp
examples_upcxx_cppflags = -DGASNET_PAR -I$(top_srcdir)/include
examples_upcxx_libs = examples/upcxx/libupcxx.la libamphora.la -lpthread
EXTRA_DIST += $(examples_upcxx_headers)
if HAVE_CXX17
noinst_LTLIBRARIES += examples/upcxx/libupcxx.la
examples_upcxx_libupcxx_la_LIBTOOLFLAGS = $(for_programs)
examples_upcxx_libupcxx_la_SOURCES = examples/common/arena.c examples/upcxx/runtime.cc examples/upcxx/message.cc examples/upcxx/team.cc
examples_upcxx_libupcxx_la_CPPFLAGS = $(examples_upcxx_cppflags)
noinst_PROGRAMS += $(examples_upcxx_programs)
examples_upcxx_dht_SOURCES = examples/upcxx/dht.cc
examples_upcxx_dht_CPPFLAGS = $(examples_upcxx_cppflags)
examples_upcxx_dht_LDADD = $(examples_upcxx_libs)
examples_upcxx_stencil_SOURCES = examples/upcxx/stencil.cc
examples_upcxx_stencil_CPPFLAGS = $(examples_upcxx_cppflags)
examples_upcxx_stencil_LDADD = $(examples_upcxx_libs)
examples_upcxx_histogram_SOURCES = examples/upcxx/histogram.cc
examples_upcxx_histogram_CPPFLAGS = $(examples_upcxx_cppflags)
examples_upcxx_histogram_LDADD = $(examples_upcxx_libs)
check_PROGRAMS += tests/examples/upcxx_check
tests_examples_upcxx_check_SOURCES = tests/examples/upcxx_check.cc
tests_examples_upcxx_check_CPPFLAGS = $(examples_upcxx_cppflags) -I$(top_srcdir)
tests_examples_upcxx_check_LDADD = $(examples_upcxx_libs)
endif
dist_check_SCRIPTS += tests/examples/upcxx.sh
TESTS += tests/examples/upcxx.sh
# Programs that know nothing of Amphora, built by the compiler wrappers in their tests.
EXTRA_DIST += \
	examples/euler_mpi/Makefile \
	examples/euler_mpi/attach.sh \
	examples/euler_mpi/euler.nml \
	examples/euler_mpi/euler.slurm \
	examples/euler_mpi/euler_mpi.f90 \
	examples/euler_mpi/pressure.png \
	examples/hdf5/Makefile \
	examples/hdf5/table.cc
dist_check_SCRIPTS += tests/examples/euler_mpi.sh tests/examples/hdf5.sh
EXTRA_DIST += tests/examples/euler_slurm.sh
TESTS += tests/examples/euler_mpi.sh tests/examples/hdf5.sh
