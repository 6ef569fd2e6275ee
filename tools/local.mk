bin_PROGRAMS += amphora-info
amphora_info_SOURCES = tools/amphora-info.c
amphora_info_LDADD = libamphora.la libtopo.la
bin_PROGRAMS += amphora-perf
amphora_perf_SOURCES = tools/perf/am.c tools/perf/coll.c tools/perf/files.c tools/perf/inside.c tools/perf/limits.c \
	tools/perf/main.c tools/perf/perf.h tools/perf/report.c tools/perf/rma.c tools/perf/sync.c tools/perf/tests.c
amphora_perf_LDADD = libamphora.la libtopo.la -lm
dist_man_MANS += man/amphora-perf.1
dist_check_SCRIPTS += tests/mp/perf.sh
TESTS += tests/mp/perf.sh
