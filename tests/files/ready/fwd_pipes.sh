#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# splice, tee, sendfile and copy_file_range, from and to pipes: as on a local run.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
pipes=$builddir/tests/files/ready/fwd_pipes

fwd_both "what a pipe has room for" "$pipes" room
fwd_both "pages in a pipe" "$pipes" kept
fwd_both "a full pipe" "$pipes" waits
fwd_both "empty pipes" "$pipes" empty
fwd_both "what is sent" "$pipes" sources
fwd_both "places that no file has" "$pipes" places
fwd_both "what is no pipe" "$pipes" kinds
mp_done
