# Pages for users are installed; the others are for readers of the source.
dist_doc_DATA = \
	doc/bridge.md \
	doc/containers.md \
	doc/gasnet-misuse.md \
	doc/limits.md \
	doc/mpi.md \
	doc/trace-format.md \
	doc/trace-page.md \
	doc/trace-page.png \
	doc/ways-in.md
EXTRA_DIST += \
	doc/README.md \
	doc/figures.md \
	doc/gasnet-api-status.md \
	doc/glossary.md \
	doc/iofwd-performance.md \
	doc/scale.md \
	doc/udp.md \
	tests/gex/api/api_names.txt \
	tests/gex/api/api_reasons.txt
# The API as a table: made from the headers and the tests, checked by tests/gex/api/api_status.sh.
dist_check_SCRIPTS += tests/gex/api/api_status.sh
TESTS += tests/gex/api/api_status.sh
.PHONY: api-status
api-status:
	srcdir='$(srcdir)' builddir='$(builddir)' CC='$(CC)' CXX='$(CXX)' $(SHELL) $(srcdir)/tests/gex/api/api_status.sh --write
