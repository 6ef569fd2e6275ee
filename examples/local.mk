# examples
# wave: the main job.  Its numbers must not depend on how a loop was compiled, so no fused multiply-add.
EXTRA_DIST += examples/wave/wave.params
if HAVE_PNG
noinst_PROGRAMS += examples/wave/wave
examples_wave_wave_SOURCES = examples/wave/wave.c examples/wave/wave.h examples/wave/wave_field.c examples/wave/wave_io.c \
	examples/wave/wave_params.c examples/wave/wave_png.c examples/wave/wave_report.c
examples_wave_wave_CPPFLAGS = $(AM_CPPFLAGS) -DGASNET_SEQ $(PNG_CFLAGS)
examples_wave_wave_CFLAGS = $(AM_CFLAGS) -ffp-contract=off -fvect-cost-model=dynamic
examples_wave_wave_LDADD = libiofwd.la libamphora.la $(PNG_LIBS) -lm
endif
dist_check_SCRIPTS += tests/mp/wave.sh
TESTS += tests/mp/wave.sh
# The small ones: each is a client's first program, built against the public headers alone (tests/mp/gex_examples.sh runs them).
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
