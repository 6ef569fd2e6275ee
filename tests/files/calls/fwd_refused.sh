#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What only the kernel of a file's host could do, with forwarded files: the errno that doc/limits.md says, and no file changes.  Then fio and
# tail -f, which find another way or end with a sentence.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
export IOFWD_NEAR=0 # a file that the program opens by itself refuses nothing
program=$builddir/tests/files/calls/fwd_refused
mkdir "$mp_dir/local"

# refused PART: fwd_refused.c
refused() {
    mp_wanted "$2" || return 0
    mkdir "$mp_dir/kept"
    fwd_servers "$mp_dir/kept" "$program" "$1" /fwd "$mp_dir/local" >"$mp_dir/out"
    grep -qx "$1 done" "$mp_dir/out"
    mp_report $? "$2" "$mp_dir/out"
    rm -rf "$mp_dir/kept"
}

refused ring "io_uring: set-up gives ENOSYS"
IOFWD_IO_URING=1 refused ring "io_uring with IOFWD_IO_URING=1"
refused watch "inotify, fanotify, dnotify, leases, handles"
refused mounts "mounts, roots, swap, accounting, quotas"
refused carried "descriptors in the arguments of ioctl"
refused sockets "names of sockets by number, and by sendmmsg"
refused numbers "other system calls by number"

# tail_follows NAME COMMAND...: tail prints what is written after it has begun, and says that it polls
tail_follows() {
    tail_name=$1
    shift
    mp_wanted "$tail_name" || return 0
    mkdir "$mp_dir/kept"
    # shellcheck disable=SC2016 # for the shell inside
    fwd_servers "$mp_dir/kept" sh -c '
        lines=$1
        shift
        echo first >/fwd/log
        "$@" /fwd/log >"$lines" 2>"$lines.2" &
        until grep -q first "$lines"; do sleep 0.05; done
        echo second >>/fwd/log
        until grep -q second "$lines"; do sleep 0.05; done
        kill $!
        cat "$lines" "$lines.2"' sh "$mp_dir/lines" "$@" >"$mp_dir/out"
    grep -qx second "$mp_dir/out" && grep -q 'reverting to polling' "$mp_dir/out"
    mp_report $? "$tail_name" "$mp_dir/out"
    rm -rf "$mp_dir/kept"
}

tail_follows "tail -f falls back to polling" tail -s 0.1 -f
tail_follows "tail -F falls back to polling" tail -s 0.1 -F

# fio_job ENGINE: its exit code is that of fwd_servers
fio_job() {
    mkdir "$mp_dir/kept"
    fwd_servers "$mp_dir/kept" fio --name=job --directory=/fwd --size=1M --bs=64k --rw=write --verify=crc32c --verify_state_save=0 \
        --ioengine="$1" --thread
    fio_code=$?
    rm -rf "$mp_dir/kept"
    return $fio_code
}

if command -v fio >/dev/null; then
    for engine in psync pvsync2 posixaio mmap; do
        mp_wanted "fio" || continue
        fio_job $engine >"$mp_dir/out" && grep -q 'WRITE: ' "$mp_dir/out"
        mp_report $? "fio, $engine: what it wrote is what it reads" "$mp_dir/out"
    done
    if mp_wanted "fio"; then
        fio_job io_uring >"$mp_dir/out"
        test $? -ne 0 && grep -q "Function not implemented" "$mp_dir/out"
        mp_report $? "fio, io_uring: ends with the reason" "$mp_dir/out"
    fi
else
    mp_skip "fio" "no fio here"
fi
mp_done
