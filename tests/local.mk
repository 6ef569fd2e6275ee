# Unit tests (Criterion, --tap) and multi-process tests; see tests/README.md.
EXTRA_DIST += tests/mp/lib.sh tests/unit.sh
