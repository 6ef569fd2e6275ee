#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Jobs of processes with pointers of (pretended) 32 and of 64 bits.  Over a network whose own put and get do not reach the other kind,
# messages carry them, for these pairs only and without being asked; and the two kinds never share memory, though they share a host.
. "${srcdir:-.}/tests/lib/lib.sh"
unset AMPHORA_TEST_SWAP AMPHORA_RMA # the kinds below are compared with native ones

# The processes whose absolute numbers are in NARROW.
cat >"$mp_dir/with_width" <<'EOF'
#!/bin/sh
case " $NARROW " in *" $AMPHORA_RANK "*) AMPHORA_TEST_WIDTH=32 && export AMPHORA_TEST_WIDTH ;; esac
exec "$@"
EOF
printf '#!/bin/sh\nexec "%s/with_width" "%s/iofwd-server" "$@"\n' "$mp_dir" "$builddir" >"$mp_dir/server"
chmod +x "$mp_dir/with_width" "$mp_dir/server"
mkdir "$mp_dir/kept"

# widths NAME NARROW "HOSTS" CONDUIT COMPUTE SERVERS PROGRAM ARGUMENTS...; the output stays in $mp_dir/out
widths() {
    w_name=$1 NARROW=$2 w_conduit=$4 w_n=$5 w_s=$6
    printf '%s\n' $3 >"$mp_dir/hosts"
    shift 6
    [ "$w_s" = 0 ] && w_files='' || w_files="-servers $w_s -server-program $mp_dir/server -iofwd /fwd=$mp_dir/kept"
    export NARROW
    timeout -k 5 60 "$AMPHORA_RUN" -n "$w_n" -pretend -hosts "$mp_dir/hosts" -conduit "$w_conduit" -timeout 50 $w_files \
        "$mp_dir/with_width" \
        "$builddir/$@" >"$mp_dir/out" 2>&1 </dev/null
    w_rc=$?
}

# The line of the first process shows that both kinds were there.
mixed() {
    [ $w_rc -ne 0 ] || grep -q ': 0 big-endian, [1-9][0-9]* 32-bit' "$mp_dir/out" || w_rc=99
    mp_report $w_rc "$w_name" "$mp_dir/out"
}

for conduit in tcp udp; do
    widths "two hosts, both with both kinds, $conduit" "1 2 4" "h1 h1 h2 h2 h1 h2" $conduit 4 2 tests/am/mixed /fwd
    mixed
    widths "one host, $conduit" "1 3" "h1 h1 h1 h1" $conduit 4 0 tests/am/mixed
    mixed
done
for program in am/gex_am gex_rma; do
    widths "${program#*/}" "0 2" "h1 h1 h2" tcp 3 0 tests/gex/$program
    mp_report $w_rc "$w_name" "$mp_dir/out"
done

AMPHORA_LOG=info && export AMPHORA_LOG
widths "said once by each process" "0" "h1 h2 h2" tcp 3 0 tests/am/mixed
[ $w_rc -ne 0 ] || [ "$(grep -c 'hosts of 32 and of 64 bits' "$mp_dir/out")" = 3 ] || w_rc=98
mp_report $w_rc "$w_name" "$mp_dir/out"
widths "all alike: nothing is carried by messages" "0 1 2" "h1 h2 h2" tcp 3 0 tests/am/mixed
[ $w_rc -ne 0 ] || ! grep -q 'hosts of 32 and of 64 bits' "$mp_dir/out" || w_rc=98
mp_report $w_rc "$w_name" "$mp_dir/out"
mp_done
