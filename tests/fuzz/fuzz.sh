#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every parser of bytes that others send, with libFuzzer and the sanitizers; starts from tests/fuzz/corpus/NAME.
#   FUZZ_SECONDS (1) for each, and the corpus as a whole; FUZZ_SEED=N for other inputs; FUZZ_ONLY="NAME..." leaves the others out;
#   FUZZ_KEEP=DIR keeps what was found (DIR/NAME)
srcdir=${srcdir:-.}
builddir=${builddir:-.}
seconds=${FUZZ_SECONDS:-1}
[ "$seconds" -ge 10 ] && level=-O1 || level=-O0 # in a short run compiling takes longer than it gains

# the I/O server behind its connections
server_sources="$(find "$srcdir/iofwd/server" -name '*.c' | grep -Ev '/(daemon|listener|main|workers|server)\.c$')
    $srcdir/iofwd/wire/handshake.c $srcdir/iofwd/wire/patience.c $srcdir/iofwd/wire/encode.c $srcdir/iofwd/wire/marshal.c $srcdir/iofwd/wire/header.c
    $srcdir/iofwd/wire/ranges.c $srcdir/iofwd/wire/repair.c $srcdir/iofwd/wire/versions.c $srcdir/iofwd/wire/watch.c $srcdir/iofwd/wire/writers.c
    $srcdir/iofwd/wire/request_name.c $builddir/iofwd/calls/table.c $builddir/iofwd/calls/server_dispatch.c"

# row NAME: sources (instrumented), libraries, flags
row() {
    flags=""
    lib="$builddir/.libs/libamphora.a -lnettle -ldl -lpthread -lrt"
    case $1 in
    iofwd) # requests, replies, frames of control connections
        sources="$srcdir/iofwd/wire/handshake.c $srcdir/iofwd/wire/patience.c $srcdir/iofwd/wire/encode.c $srcdir/iofwd/wire/marshal.c
            $srcdir/iofwd/wire/header.c
            $srcdir/iofwd/server/collective.c $srcdir/iofwd/server/request.c
            $builddir/iofwd/calls/table.c"
        lib="$builddir/.libs/libiofwd.a $lib" ;;
    udp) # packets
        sources=$(ls "$srcdir"/conduits/udp/rdp_*.c) ;;
    emulate) # put and get over messages
        sources="$srcdir/conduits/emulate.c" ;;
    ofi) # messages over libfabric
        sources="" lib="$builddir/.libs/amphora_ofi.a $lib -lfabric" ;;
    am) # what handlers of am/ and extended/ make of a peer's messages
        sources="$srcdir/am/deliver.c $srcdir/am/carry.c $srcdir/am/gather.c $srcdir/extended/rma/atomic.c $srcdir/extended/rma/vis_remote.c
            $srcdir/extended/coll/mail.c $srcdir/extended/coll/direct.c $srcdir/extended/coll/barrier.c $srcdir/extended/rma/memset.c" ;;
    control) # the launcher's frames, facts, job description, address file, PMI words, a server's address
        sources="$srcdir/boot/frames.c $srcdir/boot/control.c $srcdir/boot/jobfile.c $srcdir/boot/pmi1_wire.c
            $srcdir/iofwd/wire/handshake.c $srcdir/iofwd/wire/patience.c" ;;
    smp) # what a peer writes into shared memory
        sources=$(ls "$srcdir"/conduits/smp/*.c) ;;
    pmi) # what process managers answer
        sources="$srcdir/boot/pmi1_wire.c $srcdir/boot/pmi2.c" ;;
    values) # what processes tell each other through them
        sources="$srcdir/boot/foreign.c $srcdir/boot/control.c $srcdir/boot/standing.c" ;;
    agent) # the launcher's orders to a host's agent; what acts on the machine gets another name
        sources="$(ls "$srcdir"/launcher/agent/*.c) $srcdir/launcher/common/forwarded.c $srcdir/launcher/common/loop.c
            $srcdir/launcher/common/inherit.c"
        flags="-Dvfork=fuzz_vfork -Dkill=fuzz_kill -Dchdir=fuzz_chdir -D_exit=fuzz_exit" ;;
    launch) # what processes say to the launcher, its key proved or not
        sources="$srcdir/launcher/master/control.c $srcdir/launcher/common/loop.c $srcdir/launcher/common/message.c" ;;
    netlist) # host files and -map
        sources="$srcdir/launcher/hosts/hostfile.c $srcdir/launcher/master/mapping.c" ;;
    requests) # what clients do to the I/O server behind the parser; what acts on the machine gets another name
        sources=$server_sources
        flags="-Dmknodat=fuzz_mknodat -Dsyncfs=fuzz_syncfs -Wl,--allow-multiple-definition" ;;
    attach) # the server's end of the handshake by which a process attaches; fuzz_attach.c includes the listener
        sources=$server_sources
        flags="-Wl,--allow-multiple-definition" ;;
    greet) # the client's end
        sources="$srcdir/iofwd/wire/handshake.c $srcdir/iofwd/wire/patience.c $srcdir/iofwd/wire/watch.c $srcdir/iofwd/wire/request_name.c"
        flags="-Wl,--allow-multiple-definition" ;;
    recovery) # records of open files that a program leaves to the next one; fuzz_recovery.c includes record.c
        sources="$srcdir/iofwd/client/recovery/failover.c $srcdir/iofwd/client/recovery/reopen.c
            $srcdir/iofwd/client/recovery/shared_offset.c $srcdir/iofwd/wire/request_name.c $srcdir/iofwd/wire/ranges.c $srcdir/iofwd/wire/marshal.c
            $srcdir/iofwd/wire/encode.c $builddir/iofwd/calls/table.c" ;;
    trace) # files of recorded calls
        sources="$(ls "$srcdir"/iofwd/trace/*.c)"
        grep -q '^#define HAVE_ZSTD' "$builddir/config.h" && lib=-lzstd || lib="" ;;
    instrument) # program files, and copies to be restored
        sources="$(ls "$srcdir"/iofwd/elf/*.c) $(ls "$srcdir"/iofwd/instrument/*.c | grep -Ev '/(main|check)\.c$')" lib="" ;;
    trap) # calls of a program under iofwd-run -trap; what acts on the machine gets another name; fuzz_trap.c includes receive.c
        sources="$(ls "$srcdir"/iofwd/trap/*.c | grep -Ev '/(check|filter|front|main|program|receive|run|supervisor)\.c$') $srcdir/iofwd/wire/prefix.c"
        flags="-Dioctl=fuzz_ioctl -Dprlimit=fuzz_prlimit -Dprocess_vm_readv=fuzz_readv -Dprocess_vm_writev=fuzz_writev -Dsyscall=fuzz_syscall -Dopen=fuzz_open
            -Dunshare=fuzz_unshare -Dkill=fuzz_kill -Dutimensat=fuzz_utimensat" ;;
    server) # what processes say to the launcher's PMI server
        sources="$srcdir/launcher/master/pmi.c $srcdir/boot/pmi1_wire.c" ;;
    esac
    present=""
    for file in $sources; do
        [ ! -f "$file" ] || present="$present $file"
    done
}

one() {
    name=$1 dir=$2/$1
    row "$name"
    mkdir -p "$dir/corpus"
    seeds=$srcdir/tests/fuzz/corpus/$name
    [ -d "$seeds" ] || seeds=""
    if clang -g $level -std=gnu11 -w -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -include "$builddir/config.h" \
        -DAMPH_BINDIR='"/nonexistent"' $flags -I"$builddir" -I"$srcdir" -I"$srcdir/include" "$srcdir/tests/fuzz/fuzz_$name.c" $present $lib \
        -o "$dir/fuzz" >"$dir/out" 2>&1 &&
        FUZZ_DIR=$dir LD_LIBRARY_PATH=$builddir/.libs timeout $((2 * seconds + 60)) "$dir/fuzz" -max_total_time="$seconds" -max_len=2000 -seed="${FUZZ_SEED:-1}" \
            -rss_limit_mb=1024 -timeout=20 -close_fd_mask=3 -artifact_prefix="$dir/" "$dir/corpus" $seeds >"$dir/out" 2>&1; then
        echo "ok - fuzzing $name: $(grep -oE 'Done [0-9]+ runs' "$dir/out")"
    else
        code=$?
        echo "not ok - fuzzing $name (exit code $code)"
        tail -n 40 "$dir/out" | sed 's/^/# /'
        for found in "$dir"/crash-* "$dir"/timeout-* "$dir"/oom-*; do
            [ ! -f "$found" ] || { echo "# $found:" && od -An -tx1 "$found" | head -n 40 | sed 's/^/# /'; }
        done
    fi >"$dir/result"
    [ -z "${FUZZ_KEEP:-}" ] || cp -r "$dir" "$FUZZ_KEEP/"
}

if [ "${1:-}" = --one ]; then
    one "$2" "$3"
    exit
fi

names=${FUZZ_ONLY:-iofwd udp emulate ofi am control smp pmi values server agent launch netlist requests attach greet recovery trace instrument trap}
dir=$(mktemp -d "${TMPDIR:-/tmp}/amphora-fuzz.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
printf 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return 0; }\n' >"$dir/t.c"
if ! command -v clang >/dev/null && command -v clang-14 >/dev/null; then
    ln -s "$(command -v clang-14)" "$dir/clang" # Debian's package clang-14 brings no plain name
    PATH=$PATH:$dir
fi
if ! clang -fsanitize=fuzzer "$dir/t.c" -o "$dir/t" 2>/dev/null || [ ! -f "$builddir/.libs/libamphora.a" ]; then
    skipped=0
    for name in $names; do
        skipped=$((skipped + 1))
        echo "ok $skipped - fuzzing $name # SKIP no clang with libFuzzer here (Debian: clang-14, libclang-rt-14-dev), or no static library"
    done
    echo "1..$skipped"
    exit 0
fi
export srcdir builddir
printf '%s\n' $names | xargs -P "$(nproc)" -I NAME sh "$0" --one NAME "$dir"
echo "1..$(echo $names | wc -w)"
for name in $names; do
    cat "$dir/$name/result"
done
