#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The table "Smallest limits" of doc/limits.md: each program works with each hard limit of its row, and with half of it it works or ends
# with a sentence and an exit code.  FIND_LIMITS=FILE writes the smallest values here to FILE, for a new table.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- # make's, which would count
table=$srcdir/doc/limits.md
programs=$builddir/.libs
compute=$builddir/examples/.libs/put_get
client=$mp_dir/client
upc=$mp_dir/upc
mkdir "$mp_dir/kept"
${CC:-gcc} -std=gnu11 -O1 -o "$client" "$srcdir/tests/files/failover/fault_client.c" || exit 1
LD_LIBRARY_PATH=$programs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

# The environment is on the stack, so what is not needed goes.
for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
    case $name in
    PATH | HOME | TMPDIR | LC_ALL | LD_LIBRARY_PATH | srcdir | builddir | mp_* | fwd_* | AMPHORA_* | GASNET_* | IOFWD_* | FIND_LIMITS) ;;
    *) unset "$name" ;;
    esac
done

if mp_sanitized asan tsan || [ ! -x "$programs/amphora-run" ]; then
    mp_skip "smallest limits" "needs programs that libtool has linked to shared libraries, without sanitizers"
    mp_done
    exit
fi

cat >"$mp_dir/sum.upc" <<'END'
#include <stdio.h>
#include <upc.h>
shared int part[THREADS];
int main(void)
{
    int sum = 0;
    part[MYTHREAD] = MYTHREAD + 1;
    upc_barrier;
    for (int i = 0; i < THREADS; i++)
        sum += part[i];
    upc_barrier;
    if (MYTHREAD == 0)
        printf("sum %d\n", sum);
    return 0;
}
END
"$builddir/amphora-upcc" -o "$upc" "$mp_dir/sum.upc" >"$mp_dir/out" 2>&1 || cat "$mp_dir/out"

job() {
    timeout -k 5 40 "$programs/amphora-run" -timeout 30 -conduit "$conduit" "$@"
}

# limited KIND LETTER VALUE: a job in which that program has that limit
# shellcheck disable=SC2016 # for the shells inside
limited() {
    case $1 in
    compute) job -n 2 sh -c 'ulimit -"$1" "$2"; exec "$3"' sh "$2" "$3" "$compute" ;;
    upc) job -n 2 sh -c 'ulimit -"$1" "$2"; exec "$3"' sh "$2" "$3" "$upc" ;;
    forwarded)
        job -n 1 -servers 1 -server-program "$programs/iofwd-server" -iofwd "/fwd=$mp_dir/kept" \
            sh -c 'ulimit -"$1" "$2"; exec "$3" /fwd/x' sh "$2" "$3" "$client"
        ;;
    server)
        printf '#!/bin/sh\nulimit -%s %s\nexec "%s/iofwd-server" "$@"\n' "$2" "$3" "$programs" >"$mp_dir/server"
        chmod +x "$mp_dir/server"
        job -n 1 -servers 1 -server-program "$mp_dir/server" -iofwd "/fwd=$mp_dir/kept" "$client" /fwd/x
        ;;
    esac
}

said='^amphora(-upc)?: |^amphora-run: (cannot|compute [0-9]* could not|the limit)|error while loading shared|cannot allocate TLS'

# right KIND LETTER VALUE: 0 the job is right, 1 it ended with a sentence and an exit code, 2 neither
right() {
    case $1 in
    compute) right_text=' 0 errors' ;;
    upc) right_text='^sum 3$' ;;
    *) right_text='^through$' ;;
    esac
    right_smp=0
    [ "$conduit" != smp ] || right_smp=1
    {
        AMPHORA_SMP=$right_smp limited "$1" "$2" "$3" 2>&1 </dev/null
        echo $? >"$mp_dir/code"
    } | cat >"$mp_dir/one"
    code=$(cat "$mp_dir/code")
    [ "$code" != 0 ] || ! grep -q "$right_text" "$mp_dir/one" || return 0
    # 127: of the dynamic linker
    # a stack of 16 KiB may end in the linker or a constructor already, which the launcher reports
    [ "$2" = s ] && [ "$3" -le 16 ] && [ "$code" = 139 ] && grep -q 'was killed by signal 11' "$mp_dir/one" && return 1
    [ "$code" -gt 0 ] && { [ "$code" -lt 124 ] || [ "$code" = 127 ]; } && grep -Eq "$said" "$mp_dir/one" && return 1
    return 2
}

# rows: KIND CONDUIT n v d s l f, "-" for a limit that the row does not bound
rows() {
    awk -F ' *[|] *' '/^## Smallest limits/ { on = 1 } /^## / && !/Smallest/ { on = 0 }
        on && $3 ~ /^(smp|tcp|udp)$/ {
            kind["compute process"] = "compute"; kind["UPC thread"] = "upc"
            kind["forwarded program"] = "forwarded"; kind["I/O server"] = "server"
            print kind[$2], $3, $4, $5, $6, $7, $8, $9
        }' "$table"
}

# find_least KIND LETTER LOW HIGH: to a fortieth
find_least() {
    if right "$1" "$2" "$3"; then
        echo "$3"
        return
    fi
    low=$3 high=$4
    while [ $((high - low)) -gt $((high / 40)) ] && [ $((high - low)) -gt 1 ]; do
        middle=$(((low + high) / 2))
        if right "$1" "$2" $middle; then high=$middle; else low=$middle; fi
    done
    echo "$high"
}

if [ -n "${FIND_LIMITS:-}" ]; then
    for kind in compute upc forwarded server; do
        for conduit in smp tcp udp; do
            echo "$kind $conduit n $(find_least $kind n 3 128) v $(find_least $kind v 1000 4000000) d $(find_least $kind d 0 2000000)" \
                "s $(find_least $kind s 8 1024) l $(find_least $kind l 0 65536) f $(find_least $kind f 0 65536)"
        done
    done >"$FIND_LIMITS"
fi

rows >"$mp_dir/rows"
while read -r kind conduit values; do
    bad=0
    : >"$mp_dir/out"
    for letter in n v d s l f; do
        value=${values%% *}
        values=${values#* }
        [ "$value" != - ] || continue
        right "$kind" $letter "$value" || bad=1
        [ $bad = 0 ] || { echo "ulimit -$letter $value: exit code $code" && cat "$mp_dir/one"; } >>"$mp_dir/out"
        [ "$value" -gt 1 ] || continue
        right "$kind" $letter $((value / 2))
        [ $? != 2 ] || { bad=1 && echo "ulimit -$letter $((value / 2)): exit code $code" && cat "$mp_dir/one"; } >>"$mp_dir/out"
    done
    mp_report $bad "smallest limits: $kind, $conduit" "$mp_dir/out"
done <"$mp_dir/rows"
mp_done
