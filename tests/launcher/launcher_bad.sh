#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Bad input to amphora-run and iofwd-run: one clear sentence, a non-zero exit code, and no process is left.
. "${srcdir:-.}/tests/lib/lib.sh"
run=$AMPHORA_RUN

# bad NAME CODE WORDS COMMAND...: this code, these words, at most two lines
bad() {
    name=$1 code=$2 words=$3
    shift 3
    timeout -k 5 20 "$@" >"$mp_dir/out" 2>&1 </dev/null
    rc=$?
    ok=0
    [ $rc -eq "$code" ] || ok=1
    grep -q -e "$words" "$mp_dir/out" || ok=1
    [ "$(wc -l <"$mp_dir/out")" -le 2 ] || ok=1
    echo "exit code $rc, expected $code" >>"$mp_dir/out"
    mp_report $ok "$name" "$mp_dir/out"
}
hosts() {
    printf "$1" >"$mp_dir/hosts"
}
bad "unknown option" 1 "did you mean -servers" "$run" -servrs 1 true
bad "unknown option with two dashes" 1 "did you mean -conduit" "$run" --conduti=smp true
bad "option without its argument" 1 "needs an argument" "$run" -n
bad "number of processes" 1 "number of processes" "$run" -n many true
bad "no processes" 1 "number of processes" "$run" -n 0 true
bad "no program" 1 "no program was given" "$run" -n 2
bad "program that is not there" 127 "there is no program no-such-program" "$run" no-such-program
bad "file that is not there" 127 "cannot start ./no-such-file" "$run" ./no-such-file
bad "directory" 126 "it is a directory" "$run" /
echo text >"$mp_dir/text"
bad "file that is not executable" 126 "not executable" "$run" "$mp_dir/text"
printf '#!/no/such/interpreter\n' >"$mp_dir/script"
chmod +x "$mp_dir/script"
bad "script without interpreter" 126 "interpreter" "$run" -n 2 "$mp_dir/script"
# The head of an ELF file for a machine that nobody has (number 0x5441, little-endian, 64 bits).
printf '\177ELF\002\001\001\000\000\000\000\000\000\000\000\000\002\000\101\124\001\000\000\000' >"$mp_dir/elf"
head -c 200 /dev/zero >>"$mp_dir/elf"
chmod +x "$mp_dir/elf"
bad "program for another architecture" 126 "is built for another kind of machine" "$run" -n 2 "$mp_dir/elf"
"$run" --help >"$mp_dir/out" 2>&1
grep -q 'auto|smp|tcp|udp|verbs' "$mp_dir/out"
mp_report $? "--help names every conduit of the registry" "$mp_dir/out"
bad "conduit that is not there" 1 "there is no conduit" "$run" -conduit carrier-pigeon true
if ! "${builddir}/amphora-info" 2>/dev/null | grep -q "^verbs"; then
    bad "conduit that this machine lacks" 1 "there is no conduit verbs" "$run" -n 2 -conduit verbs true
fi
# What all processes find out is said once.
ring=$builddir/examples/ring
# Of several folders, the module of the first is the one that is there.
mkdir "$mp_dir/lib"
cp "$builddir"/.libs/libamphora.so.* "$mp_dir/lib"
cp "$mp_dir/text" "$mp_dir/lib/amphora_ofi.so"
bad "module that cannot be loaded" 1 "there is no conduit tcp: $mp_dir/lib/amphora_ofi.so: file too short" \
    env AMPHORA_SMP=0 LD_LIBRARY_PATH="$mp_dir/lib" "$builddir/.libs/amphora-run" -n 2 -conduit tcp "${ring%/*}/.libs/ring"
if [ ! -e /sys/class/infiniband ]; then
    bad "conduit that cannot be used, said once" 1 "the conduit verbs cannot be used here" env AMPHORA_SMP=0 "$run" -n 4 -conduit verbs \
        "$ring"
fi
for conduit in tcp udp; do
    bad "$conduit: interface that is not there, said once" 1 "AMPHORA_INTERFACE=nonsense is neither" \
        env AMPHORA_SMP=0 AMPHORA_INTERFACE=nonsense "$run" -n 4 -conduit $conduit "$ring"
    for address in 0.0.0.0 ::; do
        bad "$conduit: $address is no interface" 1 "AMPHORA_INTERFACE=$address stands for all interfaces" \
            env AMPHORA_SMP=0 AMPHORA_INTERFACE=$address "$run" -n 3 -conduit $conduit "$ring"
    done
done
hosts 'hostA\nhostB\n'
bad "smp over several hosts" 1 "one host only" "$run" -n 2 -conduit smp -hosts "$mp_dir/hosts" true
bad "no slot for a server" 1 "no slot for 1 of the 1 servers" "$run" -n 2 -servers 1 -hosts "$mp_dir/hosts" -server-program true true
bad "no slot for a compute process" 1 "has 2 slots" "$run" -n 3 -hosts "$mp_dir/hosts" true
hosts ''
bad "empty host file" 1 "names no host" "$run" -hosts "$mp_dir/hosts" true
hosts '# only a comment\n\n'
bad "host file of comments" 1 "names no host" "$run" -hosts "$mp_dir/hosts" true
hosts 'hostA\nhost B\n'
bad "malformed host file" 1 "line 2 of the host file" "$run" -hosts "$mp_dir/hosts" true
hosts 'hostA:0\n'
bad "host with no place" 1 "line 1 of the host file" "$run" -hosts "$mp_dir/hosts" true
hosts 'hostA:999999999999\n'
bad "host with too many places" 1 "line 1 of the host file" "$run" -hosts "$mp_dir/hosts" true
hosts 'ho$t\n'
bad "host name with odd letters" 1 "line 1 of the host file" "$run" -hosts "$mp_dir/hosts" true
head -c 2000 /dev/zero >"$mp_dir/hosts"
bad "host file that is no text" 1 "not a text file" "$run" -hosts "$mp_dir/hosts" true
bad "host file that is not there" 1 "cannot read the host file" "$run" -hosts "$mp_dir/gone" true
hosts 'hostA program=/bin/true program=/bin/false\n'
bad "a program said twice" 1 "line 1 of the host file.*each once" "$run" -hosts "$mp_dir/hosts" true
hosts 'arch=x program=/bin/true\narch=x program=/bin/false\nhostA\n'
bad "a kind's program said twice" 1 "line 2 of the host file.*each once" "$run" -hosts "$mp_dir/hosts" true
for address in '[::1' '[::1]x' '[]' '[host]' '[::1::]' '[fe80::1%%]:0'; do
    hosts "$address\n"
    bad "no IPv6 address: $address" 1 "line 1 of the host file" "$run" -hosts "$mp_dir/hosts" true
done
# RFC 6761: names below .invalid stand for nothing anywhere.
hosts 'localhost\nnode.invalid\n'
bad "a host name that is mistyped" 1 "the host name node.invalid has no address" "$run" -n 2 -hosts "$mp_dir/hosts" true
bad "likewise on the command line" 1 "the host name node.invalid has no address" "$run" -host node.invalid true
for list in a,,b ,hostA hostA, ''; do
    bad "a list with a gap: -host '$list'" 1 "one comma between them" "$run" -host "$list" true
done
bad "hosts of no servers" 1 "there are no servers" "$run" -server-hosts "$mp_dir/hosts" true
bad "program of no servers" 1 "there are no servers" "$run" -server-program true true
hosts '192.0.2.1\n'
printf '#!/bin/sh\necho "no way to $*" >&2\nexit 255\n' >"$mp_dir/no-ssh"
chmod +x "$mp_dir/no-ssh"
bad "another machine" 1 "the host 192.0.2.1 cannot be reached.*: no way to 192.0.2.1" env AMPHORA_SSH="$mp_dir/no-ssh" "$run" \
    -hosts "$mp_dir/hosts" true
bad "server directory that is not there" 1 "does not exist" "$run" -servers 1 -iofwd "/fwd=$mp_dir/gone" true
bad "server directory that is a file" 1 "is not a directory" "$run" -servers 1 -iofwd "/fwd=$mp_dir/text" true
bad "prefix that is not absolute" 1 "absolute path" "$run" -servers 1 -iofwd "fwd=$mp_dir" true
bad "prefix that is the root" 1 "cannot be forwarded as a whole" "$run" -servers 1 -iofwd "/=$mp_dir" true
bad "no prefix" 1 "needs a prefix" "$run" -servers 1 -iofwd "" true
bad "forwarding without servers" 1 "at least one server" "$run" -iofwd "/fwd=$mp_dir" true
bad "map rule" 1 "mod, block, near" "$run" -servers 1 -map sideways true
bad "map list" 1 "below 2" "$run" -n 2 -servers 2 -map 0,2 true
bad "end of a map list" 1 "below 2" "$run" -n 1 -servers 2 -map 0,,1 true
bad "bind" 1 "none, core or numa" "$run" -bind tightly true
bad "what to do on a server's death" 1 "end, eio or failover" "$run" -on-server-death cry true
bad "time limit" 1 "number of seconds" "$run" -timeout soon true
bad "time from SIGTERM to SIGKILL" 1 "from 0 on and below 1e8" "$run" -grace 1e9 true
bad "what servers would do, where there are none" 3 "-on-server-death has no effect: the job has no I/O servers" \
    "$run" -on-server-death eio sh -c 'exit 3'
bad "a map of servers, where there are none" 3 "-map has no effect" "$run" -map block sh -c 'exit 3'
bad "server program that is not there" 127 "no-such-server" "$run" -servers 1 -server-program ./no-such-server true
bad "directory for temporary files" 1 "set TMPDIR" env TMPDIR="$mp_dir/gone" "$run" true
bad "a setting of the environment" 1 "AMPHORA_CONDUIT" env AMPHORA_CONDUIT=pigeon "$run" true
bad "more processes than this host has descriptors for" 1 "100000 processes do not fit on this host" \
    sh -c 'ulimit -n 4096; exec "$@"' sh "$run" -n 100000 true
bad "map rule without servers" 1 "mod, block, near" "$run" -map sideways true
bad "program without a name" 127 "the name of the program is empty" "$run" ''
bad "host on the command line" 1 '^amphora-run: -host: "node:x" cannot be read' "$run" -host node:x true
bad "too few descriptors for a process" 126 "raise the limit of open files" \
    sh -c 'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 10; exec "$@"' sh "$run" -n 2 true
bad "a limit of file sizes below the address file" 1 "raise the limit of file sizes" \
    sh -c '("$@" 2>&1; echo $? >&3) 3>"$0" | cat; exit "$(cat "$0")"' "$mp_dir/code" \
    sh -c 'ulimit -f 0; exec "$@"' sh "$run" -n 2 -servers 1 -iofwd "/fwd=$mp_dir" true
# The shell runs a script without "#!", and the agent must have its list of arguments afterwards.
printf 'echo "script $1"\n' >"$mp_dir/plain"
chmod +x "$mp_dir/plain"
"$run" -n 3 "$mp_dir/plain" word >"$mp_dir/out" 2>&1 && [ "$(grep -c '^script word$' "$mp_dir/out")" = 3 ]
mp_report $? "a script without an interpreter's line runs in every process" "$mp_dir/out"
attach=${run%/*}/iofwd-run
head -c 2000 /dev/urandom >"$mp_dir/random"
for file in random text kept; do
    [ -e "$mp_dir/$file" ] || mkdir "$mp_dir/$file"
    bad "iofwd-run: no address file: $file" 1 "does not start with" "$attach" -servers "$mp_dir/$file" true
done
bad "iofwd-run: empty value" 2 "needs a value" "$attach" -servers '' true
bad "iofwd-run: a time that is none" 2 "-wait 1e7 is not allowed; it takes a number of seconds from 0 on and below 1e6" "$attach" -wait 1e7 true
bad "iofwd-run: records in a file" 2 "records cannot be written there: Not a directory" "$attach" -record "$mp_dir/text" true
mp_done
