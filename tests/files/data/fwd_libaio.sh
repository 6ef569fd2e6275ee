#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The kernel's asynchronous input and output with requests of forwarded files (fwd_libaio.c), then fio, whose every block it reads again.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
export IOFWD_NEAR=0 # a file that the program opens by itself is the kernel's
program=$builddir/tests/files/data/fwd_libaio
mkdir "$mp_dir/local"

# part PART NAME: fwd_libaio.c
part() {
    mp_wanted "$2" || return 0
    mkdir "$mp_dir/kept"
    fwd_servers "$mp_dir/kept" "$program" "$1" /fwd "$mp_dir/local" >"$mp_dir/out"
    if [ $? = 77 ]; then
        mp_skip "$2" "the kernel has no io_setup"
    else
        grep -qx "$1 done" "$mp_dir/out"
        mp_report $? "$2" "$mp_dir/out"
    fi
    rm -rf "$mp_dir/kept"
}

part moves "reads, writes, vectors, fsync: data and events"
part fails "what fails is io_submit's error, and changes nothing"
part appends "appends, once each; polls of regular files"
part mixes "local and forwarded files in one call"
part notifies "eventfd, and events in the program's memory"
part reaps "another thread gets the events: requests are as they were made"
part forks "a forked child"

if command -v fio >/dev/null; then
    for direct in 0 1; do
        mp_wanted "fio" || continue
        mkdir "$mp_dir/kept"
        fwd_servers "$mp_dir/kept" fio --name=job --directory=/fwd --size=1M --bs=4k --rw=randrw --verify=crc32c --verify_state_save=0 --iodepth=8 \
            --ioengine=libaio --direct=$direct >"$mp_dir/out" && grep -q 'WRITE: ' "$mp_dir/out"
        mp_report $? "fio, libaio, --direct=$direct: what it wrote is what it reads" "$mp_dir/out"
        rm -rf "$mp_dir/kept"
    done
else
    mp_skip "fio" "no fio here"
    mp_skip "fio" "no fio here"
fi
mp_done
