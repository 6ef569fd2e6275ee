#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The order of the rooms as a test: which folder may include which, where getenv and libfabric's headers may be used, and that every
# source file names its licence, stays below 900 lines and about 100 columns; which objects are writable.
set -u
objects=$(cd "${builddir:-.}" && pwd) || exit 99
cd "${srcdir:-.}" || exit 99

# room: the rooms that it may include from besides itself and its own subfolders.  A row holds for all folders below it that have no
# row of their own.
rooms='base:
boot: base
conduits: base boot
conduits/smp: base boot conduits
conduits/ofi: base boot conduits
conduits/udp: base boot conduits
am: base boot conduits
extended: base boot conduits am
iofwd/calls:
iofwd/wire: base boot conduits am iofwd/calls
iofwd/client: base boot conduits am iofwd/wire iofwd/calls iofwd/trace
iofwd/server: base boot conduits am iofwd/wire iofwd/calls
iofwd/mount: base boot iofwd/wire iofwd/calls
iofwd/trap: base boot iofwd/wire iofwd/calls
iofwd/cc: base
iofwd/elf: base
iofwd/instrument: base boot iofwd/elf
iofwd/messages:
iofwd/interpose: iofwd/wire iofwd/calls iofwd/trace iofwd/elf
iofwd/trace:
upc-bridge:
upc-bridge/driver: base
upc-bridge/xlate:
launcher/common: base boot conduits
launcher: base boot conduits am launcher/common
tools: base boot conduits am extended iofwd/wire iofwd/calls iofwd/client iofwd/trace
examples:'
# Single headers that a room may include beyond its row.
exceptions='iofwd/mount iofwd/client/client.h
iofwd/trap iofwd/client/client.h
iofwd/interpose iofwd/client/client.h
iofwd/interpose iofwd/client/api/interface.h
iofwd/interpose base/log_json.h
iofwd/interpose base/visible.h
iofwd/interpose base/platform.h
iofwd/interpose base/os/host_clock.h
iofwd/interpose base/settings/env_defs.h
iofwd/interpose base/settings/env_parse.h
iofwd/interpose base/settings/env.h
iofwd/interpose base/program/program_image.h
iofwd/interpose base/program/open_mpi.h
iofwd/interpose base/program/note.h
iofwd/interpose boot/pmix_abi.h
iofwd/messages base/platform.h
iofwd/messages base/program/note.h
iofwd/messages base/settings/env_parse.h
iofwd/messages iofwd/interpose/entry/record_event.h
launcher iofwd/instrument/check.h'
folders='base boot conduits am extended iofwd upc-bridge launcher tools examples'
count=0
scratch=$(mktemp -d "${TMPDIR:-/tmp}/amphora-layers.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT

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

# violations: of the include lines "FILE:LINE:#include "PATH"", those that their file's room may not have.
violations() {
    awk -v rooms="$rooms" -v exceptions="$exceptions" '
        function room_of(path,    r) {
            sub(/\/[^\/]*$/, "", path)
            for (r = path; r != ""; ) {
                if (r in allowed) return r
                if (!sub(/\/[^\/]*$/, "", r)) break
            }
            return ""
        }
        BEGIN {
            n = split(rooms, row, "\n")
            for (i = 1; i <= n; i++) {
                at = index(row[i], ":")
                allowed[substr(row[i], 1, at - 1)] = substr(row[i], at + 1) " "
            }
            n = split(exceptions, row, "\n")
            for (i = 1; i <= n; i++) exception[row[i]] = 1
        }
        {
            file = $0
            sub(/:.*/, "", file)
            path = $0
            sub(/^[^"]*"/, "", path)
            sub(/".*/, "", path)
            from = room_of(file)
            to = room_of(path)
            if (to == "" || from == to || ((from " " path) in exception)) next
            if (index(to "/", from "/") == 1 || index(allowed[from], " " to " ")) next
            print $0
        }'
}

top=$(echo "$rooms" | sed 's/[:/].*//' | sort -u)
for folder in $top; do
    report "$folder includes only what its rooms may see" \
        "$(sources "$folder" | xargs -r grep -nE '^ *# *include "[a-z-]+/' /dev/null | violations)"
done
report "headers of the rooms are included in quotes, by their path from the top" \
    "$(sources $(echo "$top" | grep -v examples) | xargs -r grep -nE "^ *# *include *(\"\\.|<($(echo $top | tr ' ' '|'))/)" /dev/null)"

# Each of these lines is a violation; what is left of them here was not recognised.
wrong='iofwd/client/call.c:1:#include "iofwd/server/internal.h"
iofwd/server/flow.c:1:#include "iofwd/client/internal.h"
iofwd/interpose/fd/fd.c:1:#include "iofwd/client/internal.h"
base/log.c:1:#include "iofwd/calls/calls.h"
conduits/udp/udp.c:1:#include "conduits/ofi/ofi.h"'
report "an include that no row allows is recognised" \
    "$(echo "$wrong" | violations >"$scratch/found"; echo "$wrong" | grep -vxFf "$scratch/found")"

report "the environment is read in base/settings/env.c only" \
    "$(sources $folders | grep -v '^examples/' | xargs -r grep -nE '(^|[^_a-z])(secure_)?getenv *\(' /dev/null |
       grep -vE '^base/settings/env\.c:|^iofwd/interpose/process/search\.c:.*PATH|gasnet_getenv|: *\*|/\*')"
report "the interposer takes the names of its settings from the registry" \
    "$(find iofwd/interpose -name init.c | xargs -r grep -nE '"(IOFWD|AMPHORA|PMIX?|OMPI|SLURM)_[A-Z_]+"' /dev/null)"
# A process ends with a sentence: iofwd/interpose/process/die.c prints it, or base/log.c's amph_fatal.  Listed: files in which the
# program itself ends, or a child that has reported its error, or what follows a message of another function.
report "the interposer, the client and start-up end no process without a sentence" \
    "$(sources iofwd/interpose iofwd/client iofwd/wire boot |
       grep -vE '/interpose/process/(die|exec|fork|relay|spawn|threads)\.c$|/interpose/stdio/lost_data\.c$' |
       xargs -r grep -nE '(^|[^a-z_>.])(libc_)?(_exit|_Exit|__Exit|exit|abort|quick_exit)\(|exit_now\(' |
       grep -vE 'has logged why|extern|targets\.h.*AMPH_NORETURN')"
# Code that asks for one call's number escapes the table: the next call of that kind would be forgotten there.
call_names=$(sed -n 's/^\([a-z][a-z0-9]*\) *|.*/\1/p' iofwd/calls/calls.def | tr 'a-z\n' 'A-Z|' | sed 's/|$//')
report "what distinguishes a call is a column of calls.def, not a test of its number" \
    "$(sources iofwd tools | xargs -r grep -nE "([!=]= *|case +)AMPH_FWD_($call_names)([^A-Z_0-9]|\$)|AMPH_FWD_($call_names) *[!=]=" /dev/null)"
report "UPC's library includes public headers only" \
    "$(grep -nE '^ *# *include "(base|boot|conduits|am|extended|iofwd)/' upc-bridge/*.[ch] upc-bridge/io/*.[ch] upc-bridge/translated/*.[ch] /dev/null)"
report "libfabric's headers stay in conduits/" \
    "$(sources $folders include | grep -v '^conduits/' | xargs -r grep -n 'rdma/' /dev/null | grep include)"
report "every source file names its licence" \
    "$(sources $folders include tests | xargs -r grep -L 'SPDX-License-Identifier: BSD-3-Clause')"
report "no source file is above 900 lines" \
    "$(sources $folders include tests | xargs -r grep -L 'Made by iofwd/' | xargs -r wc -l | awk '$1 > 900 && $2 != "total"')"
# Tables may be wider; see .clang-format.
report "no line of a source file is above 120 columns, but for tables" \
    "$(sources $folders include tests | xargs -r grep -L 'Made by iofwd/' | xargs -r awk '
        FNR == 1 || /clang-format on/ { table = 0 }
        /clang-format off/ { table = 1 }
        length($0) > (table ? 160 : 120) { print FILENAME ":" FNR }')"
# A line with two initialised names, or a line that initialises a name and continues the declaration with another one on the next.
# Lines of macros are left out, and tests/upc/programs, whose files have other authors.
report "each declaration initialises one variable" \
    "$(sources $folders include dropin tests | grep -v '^tests/upc/programs/' | xargs -r grep -L 'Made by iofwd/' | xargs -r awk '
        FNR == 1 { open = 0 }
        /\\$/ { open = 0; next }
        {
            line = $0
            gsub(/"([^"\\]|\\.)*"/, "0", line)
            while (gsub(/\([^()]*\)|\[[^][]*\]|\{[^{}]*\}/, "", line)) { }
            start = "^ *([A-Za-z_][A-Za-z_0-9]* +)+[* ]*[A-Za-z_][A-Za-z_0-9]* *= "
            again = "[*]*[A-Za-z_][A-Za-z_0-9]* *= "
            if (open && line ~ "^ +" again || line ~ start "[^,;]*, *" again || line ~ start "[^,;]*, *[*]* *const " again)
                print FILENAME ":" FNR ": " $0
            open = (open || line ~ start) && line ~ /,$/ && line !~ /[({]/
        }')"
# nested_conditionals FILE...: each ?: that lies in an arm of another one, counted as scripts/complexity does.  An operand ends at a
# comma, a semicolon or the bracket around it; what is in brackets belongs to the arm around them, what is in braces does not.
nested_conditionals() {
    awk '
        BEGIN {
            quote = "\047"
            token = "\"([^\"\\\\]|\\\\.)*\"|" quote "([^" quote "\\\\]|\\\\.)*" quote "|/\\*|//|[][(){}?,;]"
        }
        FNR == 1 { comment = continued = depth = around[0] = inside[0] = 0 }
        {
            line = $0

            if (!continued && line ~ /^ *#/)
                depth = around[0] = inside[0] = 0 # a macro is an expression of its own
            continued = line ~ /\\$/

            if (comment) {
                end = index(line, "*/")
                if (!end) next
                comment = 0
                line = substr(line, end + 2)
            }

            while (match(line, token)) {
                what = substr(line, RSTART, RLENGTH)
                line = substr(line, RSTART + RLENGTH)

                if (what == "//") break

                if (what == "/*") {
                    end = index(line, "*/")
                    comment = !end
                    if (comment) break
                    line = substr(line, end + 2)
                } else if (what == "(" || what == "[") {
                    around[depth + 1] = inside[depth + 1] = inside[depth]
                    depth++
                } else if (what == "{") {
                    depth++
                    around[depth] = inside[depth] = 0
                } else if (what == ")" || what == "]" || what == "}") {
                    if (depth) depth--
                } else if (what == "," || what == ";") {
                    inside[depth] = around[depth]
                } else if (what == "?" && inside[depth]++) {
                    print FILENAME ":" FNR ": " $0
                }
            }
        }' "$@"
}
# Left out: tests/upc/programs, whose files have other authors.
report "no conditional expression lies in an arm of another one" \
    "$(nested_conditionals $(find $folders include dropin tests -name '*.[ch]' | grep -v '^tests/upc/programs/' |
       xargs -r grep -L 'Made by iofwd/'))"
report "each file of a room says its layer and which threads may call it" "$(
    find $(echo "$folders" | sed 's/ examples//') -name '*.[ch]' | grep -v '^upc-bridge/include/' | xargs -r awk '
        FNR <= 60 && /Layer|^\/\* Made by / { said[FILENAME] = 1 }
        END { for (i = 1; i < ARGC; i++) if (!(ARGV[i] in said)) print ARGV[i] }')"
# A header of the C library, and what a file uses it for.
end='([^A-Za-z0-9_]|$)'
library_uses="stdatomic.h _Atomic|atomic_(load|store|fetch|compare|exchange)[a-z_]*\\(
string.h (strlen|memcpy|memset|strcmp|memcmp|strchr|strrchr|memmove|strncmp|strerror|strdup|strndup|strstr)\\(
stdlib.h (malloc|calloc|realloc|free|getenv|setenv|exit|abort|qsort|strtoul|strtoull|strtol|bsearch)\\(
stdio.h (printf|fprintf|snprintf|vsnprintf|fputs|fopen|fflush)\\(
errno.h errno[^a-z_.]
pthread.h pthread_[a-z_]+\\(
fcntl.h (O_(CREAT|RDWR|RDONLY|WRONLY|CLOEXEC|EXCL)|F_[GS]ET[A-Z]+|struct flock)$end
inttypes.h PRI[ux](32|64)$end
limits.h (PATH_MAX|INT_MAX|UINT_MAX)$end
poll.h (struct pollfd|POLLIN)$end
signal.h (sigset_t|sigaction|sig_atomic_t|SIG[A-Z]+)$end
stdarg.h va_list$end
sys/mman.h (mmap|munmap|mprotect)\\(
sys/socket.h (sendmsg|recvmsg|socketpair)\\(|AF_UNIX
sys/stat.h struct stat[^a-z_]|fstat\\(
sys/uio.h struct iovec$end
time.h struct timespec|clock_gettime\\(
unistd.h (close|read|write|pread|pwrite|lseek|getpid|unlink|_exit|fork|usleep|dup2)\\("
type_uses="stdint.h (u?int(8|16|32|64)_t|u?intptr_t|U?INT(8|16|32|64)_MAX)$end
stdbool.h bool$end"
# uses ROWS FILE...: files that use a header of the C library, and get it only by another header.  grep searches all lines for one
# header at a time: awk would compile the regular expressions anew for every line.
uses() {
    uses_rows=$1
    shift
    # the lines without comments and strings, the file and number of each, and what the files include
    awk -v places="$scratch/places" -v included="$scratch/included" '
        /^ *(\/\*|\*|\/\/)/ { next }
        /^#include </ { gsub(/[<>]/, " "); print FILENAME, FNR, $2 >included; next }
        { gsub(/"([^"\\]|\\.)*"/, ""); sub(/\/\*.*/, ""); print; print FILENAME, FNR >places }' "$@" >"$scratch/lines"

    echo "$uses_rows" | while read -r header used; do
        grep -nE "(^|[^A-Za-z0-9_.>])($used)" "$scratch/lines" | sed "s#:.*# $header#"
    done | awk '
        FILENAME == ARGV[1] { place[FNR] = $0; next }
        FILENAME == ARGV[2] { if (!(($1, $3) in line)) line[$1, $3] = $2; next }
        {
            split(place[$1], at, " ")
            if (!((at[1], $2) in line) || line[at[1], $2] + 0 > at[2] + 0) {
                print at[1] ":" at[2] ": " $2
                line[at[1], $2] = 0
            }
        }' "$scratch/places" "$scratch/included" -
}
report "each source file includes the headers of the C library that it uses" "$(uses "$library_uses" $(find $folders -name '*.c'))"
# Left out: UPC's headers, which the translator gives to a program.
report "each header includes the headers of the C library that it uses" \
    "$(uses "$library_uses
$type_uses" $(find $folders include dropin -name '*.h' | grep -vE '^(upc-bridge/include|include/amphora/upc)/'))"
# unmapped MAP FOLDER...: the files of a room that the file map in MAP does not name: a comment or a table; "NAME.*" stands for the
# source file and the header.  A header beside a source file of its name needs no mention of its own.
unmapped() {
    map=$1
    shift
    [ -f "$map" ] || echo "$map is missing"
    grep -E '^( \*|#)   |^\| ' "$map" | tr ' (/,;:)`*' '[\n*]' >"$scratch/named"
    find "$@" -maxdepth 1 -type f \( -name '*.[ch]' -o -name '*.def' -o -name '*.awk' -o -name '*.md' \) | awk -v map="$map" '
        FILENAME == ARGV[1] { named[$0] = 1; next }
        { here[$0] = 1 }
        END {
            for (file in here) {
                source = file
                if (sub(/\.h$/, ".c", source) && !(source in here))
                    source = file

                name = stem = source
                sub(/.*\//, "", name)
                sub(/.*\//, "", stem)
                sub(/[^.]*$/, "", stem)
                if (file != map && !(name in named) && !(stem in named))
                    print file
            }
        }' "$scratch/named" - | sort
    gone "$map" "$@"
}
# gone MAP FOLDER...: names of files at the beginning of a line of the map, or of a table's row, that no folder has.
gone() {
    map=$1
    shift
    sed -nE 's/^ \*   ([a-z0-9_][a-z0-9_.]*\.(c|h|def|awk)) .*/\1/p; s/^\| `([a-z0-9_][a-z0-9_.]*\.(c|h|def|awk))`.*/\1/p' "$map" | while IFS= read -r name; do
        for folder in "$@"; do
            [ -f "$folder/$name" ] && continue 2
        done
        echo "$map names $name, which is gone"
    done
}
report "the file maps of the rooms name every file" "$(
    unmapped include/README.md include include/amphora
    unmapped base/README.md base base/settings base/os base/program
    unmapped boot/boot.h boot
    unmapped conduits/README.md conduits conduits/psm
    unmapped conduits/smp/smp.h conduits/smp
    unmapped conduits/ofi/ofi.h conduits/ofi
    unmapped conduits/udp/rdp.h conduits/udp
    unmapped am/README.md am
    unmapped launcher/agent/agent.h launcher/agent
    unmapped launcher/master/launch.h launcher/master launcher/common launcher/hosts launcher/attach
    unmapped tools/README.md tools
    unmapped tools/ctl/ctl.h tools/ctl
    unmapped tools/nbmrw/nbmrw.h tools/nbmrw
    unmapped tools/perf/perf.h tools/perf
    unmapped tools/trace/trace.h tools/trace
    unmapped tools/upcbench/upcbench.h tools/upcbench
    unmapped upc-bridge/upc.h upc-bridge upc-bridge/io upc-bridge/translated
    unmapped upc-bridge/driver/options.h upc-bridge/driver
    unmapped upc-bridge/xlate/xlate.h upc-bridge/xlate
    unmapped extended/gex.h extended extended/ep extended/team extended/rma extended/gasnet1
    unmapped extended/coll/coll.h extended/coll
    unmapped extended/tools/tools.h extended/tools
    unmapped iofwd/calls/calls.def iofwd/calls
    unmapped iofwd/wire/marshal.h iofwd/wire
    unmapped iofwd/interpose/README.md iofwd/interpose $(find iofwd/interpose -mindepth 1 -type d)
    unmapped iofwd/mount/mount.h iofwd/mount
    unmapped iofwd/trap/trap.h iofwd/trap
    unmapped iofwd/messages/messages.h iofwd/messages
    unmapped iofwd/cc/cc.h iofwd/cc
    unmapped iofwd/elf/elf.h iofwd/elf
    unmapped iofwd/instrument/instrument.h iofwd/instrument
    unmapped iofwd/trace/format.h iofwd/trace
    unmapped iofwd/client/internal.h iofwd/client iofwd/client/api iofwd/client/data iofwd/client/attach
    unmapped iofwd/client/coalesce/coalesce.h iofwd/client/coalesce
    unmapped iofwd/client/recovery/record.h iofwd/client/recovery
    unmapped iofwd/server/internal.h iofwd/server iofwd/server/fs iofwd/server/lock iofwd/server/notify)"
# vanished FILE...: paths that these documents and comments name and that exist neither in the source nor in the build tree.  A path
# may begin at any folder; libfabric's headers are left out.
vanished() {
    find . "$objects" -name '*.[cho]' -o -name '*.def' -o -name '*.awk' -o -name '*.md' -o -name '*.sh' -o -name '*.txt' -o -name '*.mk' |
        grep -v '\.o$' >"$scratch/files"
    grep -hv '#include' "$@" | sed -E 's/%s[^ ]*|[a-z]*<[^>]*>//g' | grep -oE '[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)+\.(c|h|def|awk|md|sh|txt|mk)\b' | sort -u |
        grep -v '^rdma/' | awk 'FILENAME == ARGV[1] { n = split($0, part, "/"); path = part[n]
                for (i = n - 1; i > 0; i--) { path = part[i] "/" path; known[path] = 1 } next }
            !($0 in known)' "$scratch/files" - | while IFS= read -r path; do
        echo "$path: $(grep -lF -e "$path" "$@" | tr '\n' ' ')"
    done
}
report "paths in documents and comments exist" "$(vanished ARCHITECTURE.md CONTRIBUTING.md README.md $(find $folders -name '*.[ch]'))"
# writable OBJECT-DIRECTORY: "SOURCE OBJECT" of each object in writable memory that the object files define; SOURCE lies below the
# source directory.  Pointers that only the dynamic linker writes (.data.rel.ro) are constants.
# Left out: objects of the tests' own variants of a library, which make all does not renew, and objects whose source is gone or has
# moved.
writable() {
    { find $folders -name '*.c'; (cd "$1" && find $folders -name '*.c' 2>/dev/null); } >"$scratch/sources"
    (cd "$1" && find $(echo "$folders" | sed 's/ examples//') -name '*.o' ! -name 'tests_*' 2>/dev/null | xargs -r objdump -t 2>/dev/null) | awk '
        FILENAME == ARGV[1] { there[$0] = 1; next }
        / file format / {
            file = $1
            sub(/:$/, "", file)
            sub(/\.libs\//, "", file)
            sub(/\.o$/, "", file)
            folder = file
            sub(/[^\/]*$/, "", folder)
            stem = substr(file, length(folder) + 1)
            # a target with flags of its own: "TARGET-FILE.o"
            if (!((folder stem ".c") in there)) sub(/^[^-]*-/, "", stem)
            gone = !((folder stem ".c") in there)
            next
        }
        !gone && (/ O (\.data|\.bss|\*COM\*)/ || / \.t(data|bss)/) && ! / \.data\.rel\.ro| d  / {
            name = $NF
            sub(/\.[0-9]+$/, "", name)
            if (name !~ /^(__|\.)/) print folder stem ".c " name
        }' "$scratch/sources" - | sort -u
}

# unlisted: writable objects that tests/tree/globals.txt lacks, and its rows whose object is gone from the source.
unlisted() {
    list=tests/tree/globals.txt
    grep -v '^#' "$list" | awk 'NF { print $1, $2 }' | sort -u >"$scratch/listed"
    comm -13 "$scratch/listed" "$scratch/writable" |
        awk -v list="$list" '{ print $1 ": " $2 " is writable and static: make it const, or a field of the state of its room (" list ")" }'
    while read -r file object; do
        case $file:$object in
        iofwd/calls/names*) file=iofwd/calls/names.awk ;;
        *:_*) continue ;; # a name that a macro makes
        esac
        grep -qw -e "$object" "$file" || echo "$list: $file has no $object any more; take the row out"
    done <"$scratch/listed"
}
writable "$objects" >"$scratch/writable"
if [ -s "$scratch/writable" ]; then
    report "each room's writable objects are its state and what tests/tree/globals.txt lists" "$(unlisted)"
else
    count=$((count + 1))
    echo "ok $count - each room's writable objects are its state and what tests/tree/globals.txt lists # SKIP no object files here"
fi
report "no unfinished work is marked in the sources" \
    "$(sources $folders include | xargs -r grep -nE 'TODO|FIXME|(^|[^X])XXX([^X]|$)|not implemented' /dev/null)"
echo "1..$count"
