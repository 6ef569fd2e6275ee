bin_PROGRAMS += amphora-info
amphora_info_SOURCES = tools/amphora-info.c
amphora_info_LDADD = libamphora.la libtopo.la
bin_PROGRAMS += amphora-perf
amphora_perf_SOURCES = \
	tools/perf/am.c \
	tools/perf/atomic.c \
	tools/perf/coll.c \
	tools/perf/files.c \
	tools/perf/inside.c \
	tools/perf/limits.c \
	tools/perf/links.c \
	tools/perf/loaded.c \
	tools/perf/main.c \
	tools/perf/perf.h \
	tools/perf/polls.c \
	tools/perf/report.c \
	tools/perf/rma.c \
	tools/perf/state.h \
	tools/perf/sync.c \
	tools/perf/tcp.c \
	tools/perf/tests.c \
	tools/perf/udp.c \
	tools/perf/vis.c
amphora_perf_LDADD = libamphora.la libtopo.la -lm
dist_man_MANS += man/amphora-perf.1
dist_check_SCRIPTS += tests/tools/output.sh tests/tools/perf.sh
TESTS += tests/tools/output.sh tests/tools/perf.sh
# The benchmark that is one program for several libraries; compare.py builds and runs it.
EXTRA_DIST += \
	tools/perf/peer/compare.py \
	tools/perf/peer/gasnet.c \
	tools/perf/peer/mpi.c \
	tools/perf/peer/peer.c \
	tools/perf/peer/peer.h \
	tools/perf/peer/ucx.c
dist_check_SCRIPTS += tests/tools/perf_peer.sh
TESTS += tests/tools/perf_peer.sh
# Recorded file calls: the reader (iofwd/trace) and the program on it.
trace_reader = \
	iofwd/trace/clocks.c \
	iofwd/trace/clocks.h \
	iofwd/trace/format.h \
	iofwd/trace/pack.c \
	iofwd/trace/pack.h \
	iofwd/trace/positions.c \
	iofwd/trace/classes.c \
	iofwd/trace/reader.c \
	iofwd/trace/reader.h \
	iofwd/trace/numbers.h \
	iofwd/trace/stream.c \
	iofwd/trace/stream_former.c \
	iofwd/trace/stream.h \
	iofwd/trace/unroll.c \
	iofwd/trace/unroll.h
EXTRA_DIST += $(trace_reader)
# The page of iofwd-trace report: one text of many files, as an array of bytes.
trace_page = \
	tools/trace/page/page.css \
	tools/trace/page/js/canvas.js \
	tools/trace/page/js/charts.js \
	tools/trace/page/js/data.js \
	tools/trace/page/js/filter.js \
	tools/trace/page/js/findings.js \
	tools/trace/page/js/format.js \
	tools/trace/page/js/heat.js \
	tools/trace/page/js/link.js \
	tools/trace/page/js/lists.js \
	tools/trace/page/js/main.js \
	tools/trace/page/js/model.js \
	tools/trace/page/js/overview.js \
	tools/trace/page/js/processes.js \
	tools/trace/page/js/rows.js \
	tools/trace/page/js/servers.js \
	tools/trace/page/js/survey.js \
	tools/trace/page/js/table.js \
	tools/trace/page/js/timeline.js \
	tools/trace/page/uplot/LICENSE \
	tools/trace/page/uplot/uPlot.iife.min.js \
	tools/trace/page/uplot/uPlot.min.css
EXTRA_DIST += $(trace_page) \
	tools/trace/page/README.md \
	tools/trace/page/page.awk \
	tools/trace/page/page.html \
	tools/trace/page/uplot/README.md
CLEANFILES += tools/trace/page.c
tools/trace/page.c: tools/trace/page/page.awk tools/trace/page/page.html $(trace_page)
	$(AM_V_GEN)$(MKDIR_P) tools/trace && \
	$(AWK) -v from=$(top_srcdir)/tools/trace/page -f $(top_srcdir)/tools/trace/page/page.awk $(top_srcdir)/tools/trace/page/page.html >$@.html && \
	{ echo '#include "tools/trace/report.h"' && echo 'const unsigned char trace_page[] = {' && \
	od -An -v -tx1 $@.html | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g' && \
	echo '};' && echo 'const size_t trace_page_len = sizeof trace_page;'; } >$@.tmp && rm $@.html && mv $@.tmp $@
if HAVE_SQLITE
bin_PROGRAMS += iofwd-trace
iofwd_trace_SOURCES = \
	$(trace_reader) \
	tools/trace/bench.c \
	tools/trace/database.c \
	tools/trace/export.c \
	tools/trace/main.c \
	tools/trace/patterns.c \
	tools/trace/replay.c \
	tools/trace/replay.h \
	tools/trace/replay_call.c \
	tools/trace/replay_request.c \
	tools/trace/replay_files.c \
	tools/trace/replay_plan.c \
	tools/trace/replay_run.c \
	tools/trace/report.c \
	tools/trace/report.h \
	tools/trace/report_bytes.c \
	tools/trace/report_choice.c \
	tools/trace/report_data.c \
	tools/trace/report_write.c \
	tools/trace/settings.c \
	tools/trace/shrink.c \
	tools/trace/table.c \
	tools/trace/trace.h \
	tools/trace/views.c
nodist_iofwd_trace_SOURCES = tools/trace/page.c
iofwd_trace_CPPFLAGS = $(AM_CPPFLAGS) $(SQLITE_CFLAGS) $(ZSTD_CFLAGS) $(ZLIB_CFLAGS)
iofwd_trace_LDADD = $(SQLITE_LIBS) $(ZSTD_LIBS) $(ZLIB_LIBS)
endif
bin_PROGRAMS += iofwd-ctl
iofwd_ctl_SOURCES = \
	tools/ctl/ctl.h \
	tools/ctl/listen.c \
	tools/ctl/main.c \
	tools/ctl/metrics.c \
	tools/ctl/metrics.h \
	tools/ctl/progress.c \
	tools/ctl/progress.h \
	tools/ctl/sample.c \
	tools/ctl/sample.h \
	tools/ctl/screen.c \
	tools/ctl/servers.c \
	tools/ctl/show.c \
	tools/ctl/top.c \
	tools/ctl/top.h \
	tools/ctl/view.c \
	tools/ctl/view.h
iofwd_ctl_CFLAGS = $(AM_CFLAGS) $(CURSES_CFLAGS) $(MICROHTTPD_CFLAGS)
iofwd_ctl_LDADD = libiofwd.la libamphora.la $(CURSES_LIBS) $(MICROHTTPD_LIBS) -lm
dist_man_MANS += man/iofwd-ctl.1
EXTRA_DIST += tests/tools/browser.py tests/tools/ctl_lib.sh tests/tools/trace_report.py
dist_check_SCRIPTS += tests/tools/ctl.sh tests/tools/ctl_top.sh tests/tools/trace_report.sh
TESTS += tests/tools/ctl.sh tests/tools/ctl_top.sh tests/tools/trace_report.sh
bin_PROGRAMS += nbmrw
nbmrw_SOURCES = \
	tools/nbmrw/elsewhere.c \
	tools/nbmrw/figures.c \
	tools/nbmrw/lines.c \
	tools/nbmrw/main.c \
	tools/nbmrw/measure.c \
	tools/nbmrw/nbmrw.h \
	tools/nbmrw/options.c \
	tools/nbmrw/plan.c \
	tools/nbmrw/plot.c \
	tools/nbmrw/state.h \
	tools/nbmrw/stream.c \
	tools/nbmrw/summary.c
nbmrw_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/include
nbmrw_LDADD = libiofwd.la libamphora.la -lm -lpthread
dist_man_MANS += man/nbmrw.1
if HAVE_CRITERION
check_PROGRAMS += tests/unit/unit_nbmrw_lines
TESTS += tests/unit/unit_nbmrw_lines
tests_unit_unit_nbmrw_lines_SOURCES = tests/unit/unit_nbmrw_lines.c tools/nbmrw/lines.c tools/nbmrw/summary.c
tests_unit_unit_nbmrw_lines_CPPFLAGS = $(UNIT_CPPFLAGS)
tests_unit_unit_nbmrw_lines_LDADD = $(CRITERION_LIBS) -lm
endif
dist_check_SCRIPTS += tests/tools/nbmrw.sh
TESTS += tests/tools/nbmrw.sh
EXTRA_DIST += tools/README.md tests/tools/paper_figures.sh
