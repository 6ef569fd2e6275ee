#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs the Criterion program given, with further options for it, and passes its TAP on; a program that finds no test to run is a failure.
prog=$1
shift
jobs=1
case ${prog##*/} in # most of their tests wait for a limit of seconds, and use no processor
unit_am | unit_iofwd_inflight) jobs=6 ;;
unit_conduit_tcp) jobs=4 ;;
esac
out=$(mktemp) || exit 99
trap 'rm -f "$out" "$out.said"' EXIT
timeout -k 5 300 "$prog" --tap="$out" --jobs=$jobs ${1:+"$@"} >"$out.said" 2>&1
sed 's/^/# /' "$out.said"
# Criterion's TAP has no place for the reason of a skip: the programs print "skipped: REASON", in the same order.
awk 'FILENAME == ARGV[1] { if (sub(/^skipped: */, "")) reason[++said] = $0; next } / # SKIP *$/ { sub(/ *$/, " " reason[++skips]) } { print }' "$out.said" "$out"
