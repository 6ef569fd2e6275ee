#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# amphora-settings(7) has each row of the registry with its default, and is a manual page without errors.
. "${srcdir:-.}/tests/lib/lib.sh"
page=$builddir/man/amphora-settings.7

# What amphora-info -c prints of each row, in an environment that sets none; "NAME=VALUE  (default; ...) help" without the dashes.
env -i PATH="$PATH" "$builddir/amphora-info" -c >"$mp_dir/rows"
sed -n 's/^\([A-Z][A-Z_0-9]*\)=.*/\1/p' "$mp_dir/rows" | sort >"$mp_dir/registry"
sed -n 's/^\.B \([A-Z][A-Z_0-9]*\)$/\1/p' "$page" | sort >"$mp_dir/page"
comm -23 "$mp_dir/registry" "$mp_dir/page" >"$mp_dir/out"
[ "$(wc -l <"$mp_dir/registry")" -gt 100 ] && [ ! -s "$mp_dir/out" ]
mp_report $? "each of the $(wc -l <"$mp_dir/registry") variables that amphora-info -c prints" "$mp_dir/out"

uniq -d "$mp_dir/page" >"$mp_dir/out"
[ ! -s "$mp_dir/out" ]
mp_report $? "none twice" "$mp_dir/out"

# said VARIABLE WORDS: its entry has these
said() {
    awk -v name=".B $1" '$0 == name { on = 1; next } /^\.(TP|S[HS])/ { on = 0 } on' "$page" | tr '\n' ' ' | grep -qF -- "$2" || echo "$1: $2"
}
{
    said AMPHORA_CONDUIT "auto, smp, tcp, udp, verbs; the default is auto."
    said AMPHORA_UDP_MEMORY "1M to 1G; the default is 64M."
    said IOFWD_CLIENT_MEMORY "1M to 1T; the default is 256M."
    said AMPHORA_JOB_WAIT "0ns to 86400s; the default is 0."
    said IOFWD_PREFIX "PATH[=DIR][:PATH[=DIR]]...; the default is none."
    said IOFWD_SERVER_SSH 'the default is ssh \-o BatchMode=yes.'
} >"$mp_dir/out"
[ ! -s "$mp_dir/out" ]
mp_report $? "what a setting takes, its bounds and its default" "$mp_dir/out"

if command -v man >/dev/null; then
    LC_ALL=C MANROFFSEQ= man --warnings -l "$page" 2>&1 >/dev/null | grep -v "can't set the locale" >"$mp_dir/out"
    [ ! -s "$mp_dir/out" ]
    mp_report $? "man has nothing to say against it" "$mp_dir/out"
else
    mp_skip "man has nothing to say against it" "there is no man here (Debian: man-db)"
fi

undescribed=$(for p in $(sed -n 's/^[A-Z_]*MANS *+= *//p' "$srcdir"/man/local.mk | tr ' ' '\n' | grep '\.'); do
    [ -f "$srcdir/$p" ] || [ -f "$builddir/$p" ] || echo "$p"
done)
echo "$undescribed" >"$mp_dir/out"
[ -z "$undescribed" ]
mp_report $? "every page that is installed is there" "$mp_dir/out"
mp_done
