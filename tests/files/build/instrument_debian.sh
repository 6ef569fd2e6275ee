#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-instrument on programs as Debian installs them: the copy runs as the original, eu-elflint finds nothing in it that it does not find in
# the original, -undo restores every bit, and the copy still runs, and still needs the library first, after strip and llvm-strip.  What the
# copies do with forwarded files is the subject of fwd_instrument.sh.  Go's own programs are refused.
. "${srcdir:-.}/tests/lib/lib.sh"
unset IOFWD_CC IOFWD_CC_LINK LD_PRELOAD AMPHORA_JOB IOFWD_PREFIX
builddir=$(cd "$builddir" && pwd)
tool=$builddir/iofwd-instrument
cd "$mp_dir" || exit 99
export HOME="$mp_dir"

complaints() {
    eu-elflint --gnu-ld "$1" 2>&1 | sed 's/section \[ *[0-9]*\]//g' | sort
}

# lints ORIGINAL COPY: no new complaint
lints() {
    complaints "$1" >one.lint
    complaints "$2" >two.lint
    ! comm -13 one.lint two.lint | grep -v '^No errors'
}

needs_first() {
    [ "$(readelf -d "$1" | sed -n '/NEEDED/s/.*\[\(.*\)\]/\1/p' | head -n 1)" = "$builddir/.libs/libiofwd_preload.so" ] && return
    echo "$1 does not need the library first"
    return 1
}

# runs FILE ARGUMENT...: prints what the original printed
runs() {
    "$@" >two.out 2>&1
    [ $? -eq "$code" ] && diff one.out two.out
}

# goes_through ORIGINAL ARGUMENT...
goes_through() {
    original=$1
    shift
    "$original" "$@" >one.out 2>&1
    code=$?
    "$tool" -o copy "$original" && needs_first copy && runs ./copy "$@" && lints "$original" copy || return
    "$tool" -undo -o restored copy && cmp restored "$original" || return
    for stripper in strip llvm-strip; do
        cp copy stripped && $stripper stripped && needs_first stripped && runs ./stripped "$@" || {
            echo "after $stripper"
            return 1
        }
        # the original may be stripped already, so it is stripped again before both are compared
        cp "$original" plain && $stripper plain && lints plain stripped || {
            echo "after $stripper"
            return 1
        }
    done
}

# Go makes its system calls without the C library: refused, in one sentence that names another way.
refuses_go() {
    if "$tool" -o copy "$1" >said 2>&1; then
        echo "a copy of $1 was made"
        return 1
    fi
    cat said
    [ "$(wc -l <said)" -eq 1 ] && grep -q 'Go code.*iofwd-run -' said && [ ! -e copy ]
}

while read -r name path arguments; do
    mp_wanted "$name" || continue
    file=$(readlink -f "$path" 2>/dev/null)
    missing=
    for program in eu-elflint llvm-strip strip; do
        command -v $program >/dev/null || missing=$program
    done
    if [ -n "$missing" ] || [ ! -x "$file" ]; then
        mp_skip "$name" "there is no ${missing:-$path} here"
        continue
    fi
    # shellcheck disable=SC2086
    if [ "$name" = go ]; then
        refuses_go "$file" >out 2>&1 </dev/null
    else
        goes_through "$file" $arguments >out 2>&1 </dev/null
    fi
    mp_report $? "$name" out
    rm -f copy restored stripped plain
done <<END
java /usr/bin/java -version
go /usr/bin/go version
node /usr/bin/node --version
python3 /usr/bin/python3 -c print(6*7)
cc1 $(gcc -print-prog-name=cc1) --version
git /usr/bin/git --version
sqlite3 /usr/bin/sqlite3 :memory: .databases
postgres /usr/lib/postgresql/15/bin/postgres --version
perl /usr/bin/perl -e print(6*7)
octave /usr/bin/octave-cli --version
gdb /usr/bin/gdb --version
END
mp_done
