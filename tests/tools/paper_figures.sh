#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# scripts/paper-figures, as short as it can be: pictures with captions, figures as JSON, the comparison; a sentence without root; nothing is
# left, also when it is killed.  Needs root, /dev/fuse, sshfs and tc.
. "${srcdir:-.}/tests/lib/lib.sh"
srcdir=$(cd "$srcdir" && pwd)
builddir=$(cd "$builddir" && pwd)
script=$srcdir/scripts/paper-figures
export BUILD="$builddir" REPEATS=1 SIZES=1M:2M STEP=2 SERVERS=1,2 RATE=400 SMALL_FILE=64K MINUTES=2 PAPER_FIGURES_TEST="$mp_dir"
cd "$mp_dir" || exit 99

without_root() {
    [ "$(id -u)" = 0 ] && ! command -v setpriv >/dev/null && echo "needs setpriv" && return 77
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=65534 --clear-groups sh "$script" out >said 2>&1
    else
        sh "$script" out >said 2>&1
    fi
    [ $? = 1 ] && [ "$(wc -l <said)" = 1 ] && grep -q 'needs root: sudo scripts/paper-figures' said
}

whole() {
    LARGE=2000000 WANTED=0.01 timeout 150 "$script" out >said 2>&1 || { cat said; return 1; }
    python3 - <<'P'
import json, xml.dom.minidom
rows = [json.loads(line) for line in open("out/figures.json")]
for row in rows:
    assert all(key in row for key in ("test", "conduit", "procs", "bytes", "value", "unit")), row
assert {(r["way"], r["width"]) for r in rows if r["bytes"] > 1024} == \
    {("direct", 1), ("forwarded", 1), ("forwarded", 2), ("TCP streams", 1), ("TCP streams", 2)}
assert {r["way"] for r in rows if r["bytes"] == 1024} == {"direct", "forwarded", "collected"}
for name in "sizes", "calls":
    words = " ".join(t.firstChild.data for t in xml.dom.minidom.parse("out/%s.svg" % name).getElementsByTagName("text"))
    assert "Hosts: one client host and 2 server hosts" in words and "400 Mbit/s" in words, words
index = open("out/index.md").read()
assert index.count("![") == 2 and "| 2 | 2 | read |" in index and "missed: 0." in index, index
P
}

# A figure that is not reached: exit code 3.
missed() {
    LARGE=2000000 WANTED=99 timeout 150 "$script" out >said 2>&1
    [ $? = 3 ] && grep -q missed said || { cat said; return 1; }
}

# killed SIGNAL: in the middle of its measurements
killed() {
    REPEATS=100 "$script" "out$1" >"said$1" 2>&1 &
    pid=$!
    mp_until 60 grep -q '^write-fresh' "said$1" || { cat "said$1"; return 1; }
    mp_marked "PAPER_FIGURES_TEST=$mp_dir" | grep -qx $pid || return
    kill "-$1" $pid
    wait $pid
    # this shell and its children have the mark, too
    mp_until 20 no_other
}
no_other() {
    ! grep -lza 'nbmrw\|iofwd-server\|sshfs' $(mp_marked "PAPER_FIGURES_TEST=$mp_dir" | sed 's#.*#/proc/&/cmdline#') 2>/dev/null | grep .
}

report() {
    mp_wanted "$1" || return 0
    name=$1
    shift
    "$@" >out.txt 2>&1
    mp_report $? "$name" out.txt
}

report "without root, one sentence" without_root
missing=
for program in unshare ip tc sshfs python3; do
    command -v $program >/dev/null || missing="there is no $program here"
done
[ -e /dev/fuse ] || missing="there is no /dev/fuse here"
[ "$(id -u)" = 0 ] && unshare --mount --pid --fork --net true 2>/dev/null || missing="makes name spaces, which takes root and the right to do so"
if [ -n "$missing" ]; then
    for name in "pictures, captions, figures" "a figure that is missed" "nothing is left after SIGTERM" "nothing is left after SIGKILL"; do
        mp_skip "$name" "$missing"
    done
    mp_done
    exit 0
fi
report "pictures, captions, figures" whole
report "a figure that is missed" missed
report "nothing is left after SIGTERM" killed TERM
report "nothing is left after SIGKILL" killed KILL
mp_done
