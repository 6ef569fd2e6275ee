#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The order of the layers (DESIGN section 2) as a test: who may include whom, where getenv and libfabric's headers may stand, and
# that every source file says its licence, stays below 900 lines of 140 columns and has functions that fit a screen.
set -u
cd "${srcdir:-.}" || exit 99

# folder: what it may include from besides itself
layers='base:
boot: base
conduits: base boot
am: base boot conduits
extended: base boot conduits am
iofwd: base boot conduits am
upc-bridge: base boot conduits am extended iofwd
launcher: base boot conduits am iofwd
tools: base boot conduits am extended iofwd
examples:'
folders=$(echo "$layers" | cut -d: -f1)
count=0

# report NAME OFFENDING-LINES
report() {
    count=$((count + 1))
    if [ -z "$2" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        echo "$2" | sed 's/^/# /'
    fi
}

sources() {
    find "$@" -name '*.[chS]' 2>/dev/null
}

for folder in $folders; do
    allowed=" $folder $(echo "$layers" | sed -n "s/^$folder://p") "
    bad=$(sources "$folder" | xargs -r grep -nE '^ *# *include "[a-z-]+/' /dev/null | while IFS= read -r line; do
        target=$(echo "$line" | sed 's/.*include "\([a-z-]*\)\/.*/\1/')
        case " $(echo "$folders" | tr '\n' ' ') " in *" $target "*) ;; *) continue ;; esac
        case "$allowed" in *" $target "*) ;; *) echo "$line" ;; esac
    done)
    report "$folder includes only what lies below it" "$bad"
done

report "conduits do not include each other" \
    "$(grep -nE '#include "conduits/ofi' -r conduits/smp conduits/udp 2>/dev/null
       grep -nE '#include "conduits/(smp|udp)/' -r conduits/ofi 2>/dev/null)"
report "the environment is read in base/env.c only" \
    "$(sources $folders | grep -v '^examples/' | xargs -r grep -nE '(^|[^_a-z])(secure_)?getenv *\(' /dev/null |
       grep -vE '^base/env\.c:|gasnet_getenv|: *\*|/\*')"
report "the interposer takes the names of its settings from the registry" \
    "$(find iofwd -name init.c -path '*/*/*' | xargs -r grep -nE '"(IOFWD|AMPHORA|PMIX?|OMPI|SLURM)_[A-Z_]+"' /dev/null)"
report "UPC's library stands on the public headers alone" \
    "$(grep -nE '^ *# *include "(base|boot|conduits|am|extended|iofwd)/' upc-bridge/*.[ch] /dev/null)"
report "libfabric's headers stay in conduits/" \
    "$(sources $folders include | grep -v '^conduits/' | xargs -r grep -n 'rdma/' /dev/null | grep include)"
report "every source file names its licence" \
    "$(sources $folders include tests | xargs -r grep -L 'SPDX-License-Identifier: BSD-3-Clause')"
report "no source file is above 900 lines" \
    "$(sources $folders include tests | xargs -r grep -L 'Made by iofwd/' | xargs -r wc -l | awk '$1 > 900 && $2 != "total"')"
report "no line of a source file is above 140 columns" \
    "$(sources $folders include tests | xargs -r grep -L 'Made by iofwd/' | xargs -r awk 'length($0) > 140 { print FILENAME ":" FNR }')"
# From the line before the brace in the first column to the brace that ends it; tables end in a semicolon.
report "no function is above 60 lines" \
    "$(sources $folders include tests | xargs -r awk '
        FNR == 1 { begun = 0 }
        /^[A-Za-z_].*\)[^=;]*\{$/ || /^\{/ { begun = FNR }
        /^\}/ { if (begun && !/;/ && FNR - begun >= 60) print FILENAME ":" begun ": " FNR - begun + 1 " lines"; begun = 0 }')"
report "no unfinished work is marked in the sources" \
    "$(sources $folders include | xargs -r grep -nE 'TODO|FIXME|(^|[^X])XXX([^X]|$)|not implemented' /dev/null)"
echo "1..$count"
