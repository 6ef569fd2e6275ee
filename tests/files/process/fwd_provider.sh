#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Processes that libfabric gives different providers, or none (FI_PROVIDER), or with addresses of different kinds cannot reach each other: clients of a job's servers and of standing
# servers get a sentence and EIO, compute processes a sentence and an exit code, within seconds.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset FI_PROVIDER AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
AMPHORA_SMP=0
export AMPHORA_SMP
server=$builddir/iofwd-server
trap 'for pid in "$mp_dir"/*.pid; do test -f "$pid" && kill "$(cat "$pid")"; done; mp_remove "$mp_dir"' EXIT

# provider [FI_PROVIDER]: the one that libfabric gives to tcp
provider() {
    env ${1:+FI_PROVIDER="$1"} "$builddir/amphora-info" 2>/dev/null | sed -n '/^tcp /,/^udp /s/^ .*, provider \([^ ,]*\).*/\1/p'
}

usual=$(provider) setting=tcp
other=$(provider $setting)
why=''
[ -n "$usual" ] && [ -n "$other" ] && [ "$usual" != "$other" ] ||
    why="FI_PROVIDER=$setting gives no other provider of libfabric than the usual one ($usual)"

# refused CODE PATTERN COMMAND...: does COMMAND end with this code within seconds, and does a line of Amphora say it?
refused() {
    refused_code=$1 refused_pattern=$2
    shift 2
    mp_misuse "$refused_code" "^amphora.*($refused_pattern)" "$@"
}

# in_job SERVER CLIENT PATTERN [OPTION...]: the settings of the server and of the client of a job of amphora-run
in_job() {
    kept=$mp_dir/kept.$mp_queued
    mkdir "$kept"
    printf '#!/bin/sh\nexec env %s "%s" "$@"\n' "$1" "$server" >"$kept.server"
    chmod +x "$kept.server"
    client=$2 pattern=$3
    shift 3
    # shellcheck disable=SC2016 # for the shell inside
    refused 3 "$pattern" "$AMPHORA_RUN" -n 1 -servers 1 "$@" -server-program "$kept.server" -iofwd "/fwd=$kept" -timeout 20 \
        env "$client" sh -c 'cat /fwd/x 2>&1 | tee /dev/stderr | grep -q "Input/output error" && exit 3' &&
        [ "$(ls "$kept")" = '' ]
}

# standing SERVER CLIENT PATTERN [OPTION...]: the same with a standing server
standing() {
    kept=$mp_dir/kept.$mp_queued
    mkdir "$kept"
    set_of_server=$1 client=$2 pattern=$3
    shift 3
    env "$set_of_server" timeout -k 5 60 "$server" -daemon -servers 1 "$@" -iofwd "/fwd=$kept" -address-file "$kept.addresses" \
        -pid-file "$kept.pid" || return 1
    # shellcheck disable=SC2016 # for the shell inside
    refused 3 "$pattern" env "$client" "$builddir/iofwd-run" -servers "$kept.addresses" \
        sh -c 'cat /fwd/x 2>&1 | tee /dev/stderr | grep -q "Input/output error" && exit 3'
}

# compute PATTERN: two compute processes, of which one has another provider
compute() {
    # shellcheck disable=SC2016 # for the shell inside
    refused 1 "$1" "$AMPHORA_RUN" -n 2 -conduit tcp -timeout 20 \
        sh -c 'test "$AMPHORA_RANK" = 0 || export FI_PROVIDER="$1"; exec "$2"' sh "$setting" "$builddir/examples/ring"
}

# kinds CONDUIT: one of them has an address of another kind
kinds() {
    # shellcheck disable=SC2016 # for the shell inside
    refused 1 "compute [01] on host .*address of another kind.*AMPHORA_INTERFACE" "$AMPHORA_RUN" -n 2 -conduit "$1" -timeout 20 \
        sh -c 'AMPHORA_INTERFACE=127.0.0.1; test "$AMPHORA_RANK" = 0 || AMPHORA_INTERFACE=::1; export AMPHORA_INTERFACE; exec "$1"' sh \
        "$builddir/examples/ring"
}

# two NAME FUNCTION ARGUMENT...: a case that needs two providers for tcp
two() {
    if [ -n "$why" ]; then
        mp_skip "$1" "$why"
    else
        mp_queue "$@"
    fi
}

providers="provider $usual.*provider $other.*FI_PROVIDER|provider $other.*provider $usual.*FI_PROVIDER"
networks="network 'udp'.*'tcp'|network 'tcp'.*'udp'"
two "a job's client with another provider" in_job A=B "FI_PROVIDER=$setting" "$providers" -conduit tcp
two "a job's server with another provider" in_job "FI_PROVIDER=$setting" A=B "$providers" -conduit tcp
two "a client of a standing server with another provider" standing A=B "FI_PROVIDER=$setting" "$providers" -conduit tcp
two "a standing server with another provider" standing "FI_PROVIDER=$setting" A=B "$providers" -conduit tcp
for provider in sockets udp; do
    mp_queue "a job's client without a provider for tcp ($provider)" in_job A=B FI_PROVIDER=$provider "$networks"
    mp_queue "a job's server without a provider for tcp ($provider)" in_job FI_PROVIDER=$provider A=B "$networks"
    mp_queue "a client of a standing server without a provider for tcp ($provider)" standing A=B FI_PROVIDER=$provider "$networks"
done
for conduit in tcp udp; do
    if grep -q . /proc/net/if_inet6 2>/dev/null; then
        mp_queue "compute processes with an IPv4 and an IPv6 address ($conduit)" kinds $conduit
    else
        mp_skip "compute processes with an IPv4 and an IPv6 address ($conduit)" "no IPv6 here"
    fi
done
two "a compute process with another provider" compute "compute [01] on host .*($providers)"
mp_done
