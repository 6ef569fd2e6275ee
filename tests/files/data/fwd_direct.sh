#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# IOFWD_DIRECT=1: data passes the servers' page cache where the file system can do so, and arrives whole whatever its length.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
IOFWD_DIRECT=1
export IOFWD_DIRECT
kept=$(mktemp -d "$builddir/fwd_direct.XXXXXX") || exit 1
trap 'rm -rf "$mp_dir" "$kept"' EXIT
head -c 9000001 /dev/urandom >"$mp_dir/random"
arrives() {
    fwd_servers "$kept" cp "$mp_dir/random" /fwd/copy && cmp "$mp_dir/random" "$kept/copy" || return
    fwd_servers "$kept" sh -c 'cat /fwd/copy >/fwd/again; tail -c 12345 /fwd/again >>/fwd/again' &&
        { cat "$mp_dir/random" && tail -c 12345 "$mp_dir/random"; } | cmp - "$kept/again"
}
arrives >"$mp_dir/out" 2>&1
mp_report $? "copies of 9000001 bytes arrive" "$mp_dir/out"

# What of a file is in the page cache after it was written in whole blocks
cached() {
    fwd_servers "$kept" dd if=/dev/zero of=/fwd/blocks bs=1M count=8 && sync "$kept/blocks" && fincore -nbo RES "$kept/blocks"
}
if ! command -v fincore >/dev/null; then
    echo "no fincore on this machine" >"$mp_dir/out"
    mp_report 77 "what is written is not cached" "$mp_dir/out"
    mp_report 77 "and without IOFWD_DIRECT it is" "$mp_dir/out"
elif ! dd if=/dev/zero of="$kept/probe" bs=4096 count=1 oflag=direct \
    2>/dev/null || [ "$(fincore -nbo RES "$kept/probe" | tr -d ' ')" != 0 ]; then
    echo "the file system here keeps what is written with O_DIRECT" >"$mp_dir/out"
    mp_report 77 "what is written is not cached" "$mp_dir/out"
    mp_report 77 "and without IOFWD_DIRECT it is" "$mp_dir/out"
else
    cached >"$mp_dir/out" 2>&1
    [ "$(tail -n 1 "$mp_dir/out" | tr -d ' ')" = 0 ]
    mp_report $? "what is written is not cached" "$mp_dir/out"
    rm -f "$kept/blocks"
    IOFWD_DIRECT=0 cached >"$mp_dir/out" 2>&1
    [ "$(tail -n 1 "$mp_dir/out" | tr -d ' ')" -gt 0 ]
    mp_report $? "and without IOFWD_DIRECT it is" "$mp_dir/out"
fi

is_resident() {
    fincore -nbo RES "$1" >>"$mp_dir/out" 2>&1
    [ "$(tail -n 1 "$mp_dir/out" | tr -d ' ')" = 1048576 ]
}

# readahead fills the server's page cache: a range that fadvise(DONTNEED) has dropped is resident again afterwards.
cat >"$mp_dir/readahead.py" <<'END'
import ctypes, errno, os

def readahead(flags):
    fd = os.open("/fwd/cold", flags)
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.readahead(fd, ctypes.c_int64(0), ctypes.c_size_t(1 << 20))
    os.close(fd)
    return result, ctypes.get_errno()

assert readahead(os.O_WRONLY) == (-1, errno.EBADF), "readahead of a descriptor that cannot read"
assert readahead(os.O_RDONLY)[0] == 0, "readahead failed"
END
head -c 1048576 /dev/urandom >"$kept/cold"
sync "$kept/cold"
dd if="$kept/cold" iflag=nocache count=0 status=none
if ! command -v fincore >/dev/null || ! command -v python3 >/dev/null; then
    mp_skip "readahead fills the server's page cache" "no fincore or no python3 on this machine"
elif [ "$(fincore -nbo RES "$kept/cold" | tr -d ' ')" != 0 ]; then
    mp_skip "readahead fills the server's page cache" "the file system here does not drop cached pages on request"
else
    # the kernel may still be reading when the call returns
    IOFWD_DIRECT=0 fwd_servers "$kept" python3 "$mp_dir/readahead.py" >"$mp_dir/out" 2>&1 && mp_until 10 is_resident "$kept/cold"
    mp_report $? "readahead fills the server's page cache" "$mp_dir/out"
fi
for conduit in smp tcp; do
    IOFWD_STRIPE=2:4K
    export IOFWD_STRIPE
    mkdir "$kept/$conduit"
    mp_run tests/files/data/iofwd_segment -n 2 -t 20 -c $conduit -o "-servers 2 -iofwd /fwd=$kept/$conduit" -- 5
done
mp_done
