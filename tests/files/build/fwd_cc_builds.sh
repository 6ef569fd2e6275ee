#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Build systems with CC="iofwd-cc gcc": automake with libtool, cmake, and the make files of three real projects, whose sources come from
# Debian's archive (their cases are skipped without a network).  The programs are then run with forwarded files.  For the nightly run.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset IOFWD_CC IOFWD_CXX IOFWD_FC IOFWD_CC_LINK IOFWD_CC_RETRY LD_PRELOAD AMPHORA_JOB IOFWD_PREFIX
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT
wrapped="$builddir/iofwd-cc gcc"
mkdir "$mp_dir/kept"
timeout -k 5 60 "$builddir/iofwd-server" -daemon -servers 2 -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/addresses" \
    -pid-file "$mp_dir/pid" >"$mp_dir/out" 2>&1
mp_report $? "standing servers start" "$mp_dir/out"

# with_servers COMMAND...: under an environment that names the servers, in /fwd
with_servers() {
    env AMPHORA_JOB="$mp_dir/addresses" IOFWD_PREFIX=/fwd timeout -k 5 60 "$@" </dev/null
}

is_wrapped() {
    readelf -d "$1" | grep -m 1 NEEDED | grep -q libiofwd_preload.so
}

# ---- a program and a library of our own ----
mkdir -p "$mp_dir/project/src"
cd "$mp_dir/project" || exit 99
printf 'int answer(void);\nint answer(void) { return 42; }\n' >src/answer.c
printf '#include <stdio.h>\nint answer(void);\nint main(int c, char **v)\n{\n    FILE *f = fopen(v[c - 1], "w");\n    if (!f)\n        return 1;\n    fprintf(f, "%%d\\n", answer());\n    return fclose(f) != 0;\n}\n' \
    >src/main.c
cat >configure.ac <<'END'
AC_INIT([wrapped], [1])
AC_CONFIG_AUX_DIR([aux])
AM_INIT_AUTOMAKE([foreign subdir-objects])
AC_PROG_CC
AC_PROG_RANLIB
LT_INIT
AC_CHECK_HEADERS([dirent.h])
AC_CHECK_FUNCS([openat nosuchfunction])
AC_CHECK_LIB([m], [cos])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
END
cat >Makefile.am <<'END'
lib_LTLIBRARIES = libanswer.la
libanswer_la_SOURCES = src/answer.c
bin_PROGRAMS = main
main_SOURCES = src/main.c
main_LDADD = libanswer.la
END
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.10)
project(wrapped C)
include(CheckFunctionExists)
check_function_exists(openat HAVE_OPENAT)
if(NOT HAVE_OPENAT)
    message(FATAL_ERROR "no openat")
endif()
add_library(answer SHARED src/answer.c)
add_executable(main src/main.c)
target_link_libraries(main answer)
END

# writes PROGRAM: it writes its answer into a forwarded file
writes() {
    rm -f "$mp_dir/kept/answer"
    with_servers "$1" /fwd/answer && test "$(cat "$mp_dir/kept/answer")" = 42
}

if command -v libtoolize >/dev/null && command -v autoreconf >/dev/null; then
    {
        autoreconf -fi && ./configure CC="$wrapped" --prefix="$mp_dir/installed" && make install &&
            grep -q 'ac_cv_func_openat=yes' config.log && grep -q 'ac_cv_func_nosuchfunction=no' config.log &&
            is_wrapped "$mp_dir/installed/bin/main" && writes "$mp_dir/installed/bin/main"
    } >"$mp_dir/out" 2>&1
    test $? -eq 0 # configure's 77 is no skip
    mp_report $? "automake and libtool" "$mp_dir/out"
    {
        make distclean && ./configure CC="$wrapped" --disable-shared && make LDFLAGS=-all-static && ! readelf -d main | grep NEEDED &&
            writes ./main
    } >"$mp_dir/out" 2>&1
    test $? -eq 0
    mp_report $? "automake and libtool: a static program" "$mp_dir/out"
else
    mp_skip "automake and libtool" "there is no libtoolize or autoreconf here"
    mp_skip "automake and libtool: a static program" "there is no libtoolize or autoreconf here"
fi

if command -v cmake >/dev/null; then
    { CC="$wrapped" cmake -S . -B build-cmake && cmake --build build-cmake && is_wrapped build-cmake/main && writes build-cmake/main; } \
        >"$mp_dir/out" 2>&1
    mp_report $? "cmake" "$mp_dir/out"
else
    mp_skip "cmake" "there is no cmake here"
fi

# ---- real projects ----
# source_of PACKAGE: its original sources in the folder $mp_dir/PACKAGE; apt has its lists in a folder of ours
source_of() {
    apt=$mp_dir/apt
    mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/parts" "$mp_dir/$1" "$mp_dir/fetched"
    if [ ! -f "$apt/updated" ]; then
        if [ -f /etc/apt/sources.list.d/debian.sources ]; then
            sed 's/^Types: .*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$apt/parts/debian.sources"
        else
            sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$apt/parts/debian.list"
        fi
        : >"$apt/status"
        own_apt update && touch "$apt/updated" || return 1
    fi
    (cd "$mp_dir/fetched" && own_apt source --download-only "$1") || return 1
    tar -xf "$(ls "$mp_dir/fetched/$1"_*.orig.tar.* | grep -v '\.asc$' | head -n 1)" -C "$mp_dir/$1" --strip-components=1
}
own_apt() {
    timeout -k 5 90 apt-get -q -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o "Dir::State=$apt" \
        -o "Dir::State::Lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt" -o "Dir::Cache::archives=$apt/archives" \
        -o "Dir::Etc::sourceparts=$apt/parts" -o Dir::Etc::sourcelist=/dev/null -o Debug::NoLocking=1 -o APT::Sandbox::User=root "$@"
}

build_zlib() {
    CC="$wrapped" ./configure && make -j2 && make test && is_wrapped examplesh && seq 100000 >"$mp_dir/kept/numbers" &&
        with_servers ./minigzipsh /fwd/numbers && test -s "$mp_dir/kept/numbers.gz" && gzip -t "$mp_dir/kept/numbers.gz"
}
build_lua() {
    make -j2 -C src linux CC="$wrapped -std=gnu99" && is_wrapped src/lua &&
        with_servers src/lua -e 'local f = assert(io.open("/fwd/lua", "w")); f:write("from Lua\n"); f:close()
            for line in io.lines("/fwd/lua") do print(line) end' && test "$(cat "$mp_dir/kept/lua")" = "from Lua"
}
build_lua_static() {
    make -C src clean && make -j2 -C src linux CC="$wrapped -std=gnu99" MYLDFLAGS=-static && ! readelf -d src/lua | grep NEEDED &&
        rm -f "$mp_dir/kept/lua" && with_servers src/lua -e 'io.output("/fwd/lua"):write("static Lua\n"); io.close()' &&
        test "$(cat "$mp_dir/kept/lua")" = "static Lua"
}
build_bzip2() {
    make CC="$wrapped" && is_wrapped bzip2 && seq 100000 >"$mp_dir/kept/lines" && with_servers ./bzip2 -k /fwd/lines &&
        with_servers ./bzip2 -dc /fwd/lines.bz2 | cmp - "$mp_dir/kept/lines"
}

# project PACKAGE FUNCTION...
project() {
    package=$1
    shift
    if ! source_of "$package" >"$mp_dir/out" 2>&1; then
        for function in "$@"; do
            mp_skip "$package by make ($function)" "its sources could not be fetched: $(tail -n 1 "$mp_dir/out")"
        done
        return
    fi
    for function in "$@"; do
        mp_wanted "$package by make ($function)" || continue
        (cd "$mp_dir/$package" && $function) >"$mp_dir/log" 2>&1 </dev/null
        project_result=$?
        tail -n 30 "$mp_dir/log" >"$mp_dir/out"
        mp_report $project_result "$package by make ($function)" "$mp_dir/out"
    done
}
project zlib build_zlib
project lua5.4 build_lua build_lua_static
project bzip2 build_bzip2
mp_done
