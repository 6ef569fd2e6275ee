#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs the Criterion program given and passes its TAP on; a program that finds no test to run is a failure.
prog=$1
out=$(mktemp) || exit 99
trap 'rm -f "$out" "$out.said"' EXIT
timeout -k 5 300 "$prog" --tap="$out" --jobs=1 >"$out.said" 2>&1
sed 's/^/# /' "$out.said"
cat "$out"
