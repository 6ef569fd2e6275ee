#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# UPC-IO on files of this host, and on those of the job's servers, whose directory the clients' paths do not reach.
. "${srcdir:-.}/tests/lib/lib.sh"
AMPHORA_UPC_HEAP=64M
export AMPHORA_UPC_HEAP
mkdir "$mp_dir/here" "$mp_dir/served"
mp_run tests/upc/upc_io -n "1 3" -c "smp tcp-smp" -- "$mp_dir/here/f" 1 3
mp_run tests/upc/upc_io -n "2" -c "tcp udp" -- "$mp_dir/here/g" 2 2
mp_run tests/upc/upc_io -n "1 7" -c "smp tcp-smp" -o "-servers 2 -iofwd /upcio=$mp_dir/served" -- /upcio/f 3 2 served
mp_run tests/upc/upc_io -n "2" -c "tcp udp" -o "-servers 3 -iofwd /upcio=$mp_dir/served" -- /upcio/g 4 2 served
AMPHORA_TEST_SWAP=1 AMPHORA_RMA=emulate mp_run tests/upc/upc_io -n "3" -c "tcp" -o "-servers 2 -iofwd /upcio=$mp_dir/served" -- /upcio/i 6 1 served
mp_run tests/upc/upc_io -n "3" -c "tcp" -o "-servers 2 -on-server-death failover -iofwd /upcio=$mp_dir/served" -- /upcio/k 7 2 killed
IOFWD_CONSISTENCY=session
export IOFWD_CONSISTENCY
mp_run tests/upc/upc_io -n "3" -c "smp" -o "-servers 2 -iofwd /upcio=$mp_dir/served" -- /upcio/h 5 3 served
mp_done
