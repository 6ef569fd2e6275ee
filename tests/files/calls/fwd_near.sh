#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files that a program opens itself because its standing servers are near (iofwd/interpose/path/near.h): the same as locally, and no call
# reaches a server where none is needed.  See fwd_near.c, fwd_lookups.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/calls/fwd_near
lookups=$builddir/tests/files/calls/fwd_lookups
names=$builddir/tests/files/calls/fwd_names
export FWD_STANDING=1 IOFWD_NEAR=1

# ---- the same as locally ----

fwd_both "opens" "$program" opens
fwd_both "reads" "$program" reads
fwd_both "changes by the process" "$program" changes
fwd_both "maps" "$program" maps
fwd_both "shared maps of several processes" "$program" shared
fwd_both "a FIFO" "$program" fifo
fwd_both "directories" "$program" directories
fwd_both "directories, nothing remembered" env IOFWD_CACHE_AGE=0 "$program" directories
fwd_both "the directory above" "$program" above
fwd_both "paths that begin with the directory above" "$program" below_above
fwd_both "real names behind links" "$program" real
fwd_both "record locks of a file that is open in several ways" "$program" locks
fwd_both "notes of changes" "$program" notes
fwd_both "extended attributes" "$program" attributes
fwd_both "the working directory" "$program" cwd
fwd_both "other programs" "$program" programs
fwd_both "forks while a thread opens directories" "$program" forks
fwd_both "names of all kinds" "$lookups" names
fwd_both "changes by others" "$lookups" changes
fwd_both "directories that are closed" "$lookups" directories
fwd_both "descriptors that are closed by the kernel's own call" "$lookups" taken
fwd_both "threads" "$lookups" threads
fwd_both "child processes" "$lookups" processes
fwd_both "a working directory that has been removed" "$names" gone
fwd_both "names of descriptors" "$names" numbers
fwd_both "names of descriptors in a shell" sh -c 'cd "$1"; echo text >in; exec 3<in 4>out 6<>both; for i in 3 4 6; do readlink "/proc/self/fd/$i"; done
    readlink /dev/fd/3 "/proc/$$/fd/4" -f /dev/stdin <in; ls -l /proc/self/fd | grep -c " $1/"; echo more >/dev/fd/4; echo over >/proc/self/fd/3; cat in out
    exec 5<in; rm in; readlink /proc/self/fd/3; realpath /proc/self/fd/4; cat /dev/fd/5' sh

# ---- without a server's help ----

mkdir -p "$mp_dir/kept/dir/sub" "$mp_dir/kept/links/below" "$mp_dir/out.of" "$mp_dir/kept/deep/1/2/3/4/5/6/7/8" "$mp_dir/kept/deep/a/b/c/d/e/f/g/h"
for i in 1 2 3; do echo "text $i" >"$mp_dir/kept/dir/sub/file$i"; done
cp "$mp_dir/kept/dir/sub/file1" "$mp_dir/kept/with space"
echo out >"$mp_dir/out.of/file"
ln -s ../../../out.of "$mp_dir/kept/links/below/up"
ln -s ../dir/sub "$mp_dir/kept/links/sub"
address=$mp_dir/address

# up [SETTING...]: standing servers of $mp_dir/kept
up() {
    env "$@" "$builddir/iofwd-server" -daemon -servers 1 -iofwd "/fwd=$mp_dir/kept" -address-file "$address" >/dev/null 2>&1 </dev/null
}

down() {
    watch=$(sed -n 's/^watch //p' "$address")
    "$builddir/iofwd-ctl" stop -servers "$address" >/dev/null
    timeout 20 tail -s 0.02 -f --pid="$watch" /dev/null
}

# by_run COMMAND...: attached to the servers
by_run() {
    timeout -k 5 60 "$builddir/iofwd-run" -servers "$address" "$@" 2>&1 </dev/null
}

# calls: that the server has made so far
calls() {
    "$builddir/iofwd-ctl" status -all -servers "$address" | awk '$1 == "server_calls" { print $2 }'
}

# alone NAME COMMAND...: COMMAND, in which DIR is the directory, gives the same as locally, and makes no server work
alone() {
    alone_name=$1
    shift
    mp_wanted "$alone_name: by the program alone" || return 0
    before=$(calls)
    (cd / && DIR=/fwd by_run sh -c "$1") | sed "s#/fwd#@DIR#g" >"$mp_dir/near"
    after=$(calls)
    (cd / && DIR=$mp_dir/kept sh -c "$1") 2>&1 </dev/null | sed "s#$mp_dir/kept#@DIR#g" >"$mp_dir/local"
    { diff -a "$mp_dir/local" "$mp_dir/near" && echo "calls before and after: $before $after" && [ "$before" = "$after" ]; } >"$mp_dir/out" 2>&1
    mp_report $? "$alone_name: by the program alone ($(wc -l <"$mp_dir/local") lines)" "$mp_dir/out"
}

# uses up its descriptors, and makes other calls then; reads: none for which a server is needed
export FULL="$mp_dir/full.py"
cat >"$FULL" <<'END'
import os, resource, sys
at = sys.argv[1] + "/dir/sub"

def attempt(what, call):
    try:
        call()
        print(what, "succeeds")
    except OSError as e:
        print(what, "fails:", e.strerror)

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
files = []
try:
    while len(files) < 64:
        files.append(os.open(at + "/file1", os.O_RDONLY))
except OSError as e:
    print("open fails:", e.strerror)
attempt("listdir", lambda: os.listdir(at))
attempt("stat", lambda: os.stat(at + "/file2"))
if sys.argv[2] == "changes":
    attempt("open to write", lambda: os.open(at + "/file2", os.O_WRONLY))
    attempt("open of a new file", lambda: os.open(at + "/new", os.O_WRONLY | os.O_CREAT))
    attempt("mkdir", lambda: os.mkdir(at + "/made"))
for file in files:
    os.close(file)
print(len(os.listdir(at)))
if sys.argv[2] == "changes":
    attempt("mkdir", lambda: os.mkdir(at + "/made"))
    attempt("rmdir", lambda: os.rmdir(at + "/made"))
END

up
# shellcheck disable=SC2016 # for the shell inside
{
    alone "cat" 'cat "$DIR/dir/sub/file1" "$DIR/with space"; cat "$DIR/none"'
    alone "ls" 'ls -lR "$DIR/dir"'
    alone "find" 'find "$DIR" -type f | sort'
    alone "find in a deep tree" 'find "$DIR/deep" | sort'
    alone "the directory above" 'python3 -c "
import os
at = os.open(os.environ[\"DIR\"] + \"/dir/sub\", os.O_RDONLY)
print(os.listdir(os.open(\"..\", os.O_RDONLY, dir_fd=at)), sorted(os.listdir(os.open(\".\", os.O_RDONLY, dir_fd=at))))"'
    alone "paths that begin with the directory above" 'cd "$DIR/dir/sub" && cat ../sub/file1 && echo new >../new && mv ../new ../../newer && rm ../../newer &&
        ls .. && mkdir ../made && rmdir ../made/ && ls ../../deep; cat ../none; ls -d .. ../../none'
    alone "mkdir -p" 'mkdir -p "$DIR/p/q/r/" "$DIR" && find "$DIR/p" | sort && rmdir "$DIR/p/q/r/" && rm -r "$DIR/p"'
    alone "programs and scripts" 'cp /bin/echo "$DIR/prog" && "$DIR/prog" one && cp "$DIR/prog" "$DIR/script" && printf "#!%s two\n" "$DIR/prog" >"$DIR/script" &&
        "$DIR/script" | sed "s#[^ ]*/script#script#"; rm "$DIR/prog" "$DIR/script"; "$DIR/none"'
    alone "flock" 'flock "$DIR/lock" echo held; flock -n "$DIR/lock" flock -n "$DIR/lock" echo never || rm "$DIR/lock"'
    alone "names of descriptors" 'readlink /proc/self/fd/3 3<"$DIR/dir/sub/file1"; realpath /dev/fd/4 4<"$DIR/dir/sub/file2"; cat /dev/stdin <"$DIR/dir/sub/file3"'
    alone "extended attributes" 'python3 -c "
import os
for file in [\"dir\", \"dir/sub/file1\", \"none\"]:
    for name in [\"user.none\", \"security.selinux\", \"system.posix_acl_access\", \"system.posix_acl_default\"]:
        for follow in [False, True]:
            try:
                print(file, name, os.getxattr(os.environ[\"DIR\"] + \"/\" + file, name, follow_symlinks=follow))
            except OSError as e:
                print(file, name, e.strerror)"'
    alone "a link" 'cat "$DIR/links/sub/file1"'
    alone "grep" 'grep -r text "$DIR/dir" | sort'
    alone "du" 'du -a "$DIR" | sort'
    alone "tar" 'tar -C "$DIR" -cf - dir/sub | tar -tvf -'
    alone "a shell's redirection, test and cd" 'cd "$DIR/dir/sub" && pwd && read -r line <file1 && echo "$line" && test -r file2 && test ! -e none && cat <file3'
    alone "files that are written" 'cd "$DIR" && echo new >new && echo more >>new && cat new && wc -c <new && rm new && ls'
    alone "names that are changed" 'cd "$DIR" && mkdir -p made/x/y && echo a >made/x/y/a && mv made/x made/z && cat made/z/y/a && rm -r made && ls; rmdir dir;
        mkdir dir; rm none; rm none/none; mkdir none/none; mv none dir/none; mv dir none/dir; rm dir'
    alone "sqlite" 'for i in 1 2 3; do sqlite3 "$DIR/t.db" "create table if not exists t(a); insert into t values($i); select count(*) from t"; done; rm "$DIR/t.db"'
    alone "gzip, dd and install" 'cd "$DIR" && cp dir/sub/file1 z && gzip z && zcat z.gz && dd if=/dev/zero of=z.gz bs=1k count=4 2>/dev/null && wc -c z.gz && mv z.gz y && rm y'
    alone "Python" 'python3 -c "
import os, sys
d = os.environ[\"DIR\"] + \"/dir\"
for at, dirs, files in os.walk(d):
    dirs.sort()
    print(at, sorted(files), [open(os.path.join(at, f)).read() for f in sorted(files)])
os.chdir(d)
print(os.getcwd(), os.listdir(\"sub\").__len__(), os.stat(\"sub/file1\").st_size)"'
    alone "a program that opens as many files as it may" 'python3 "$FULL" "$DIR" reads'
}

# ---- where the server is needed ----

# needed NAME TEXT COMMAND...: COMMAND prints TEXT, and the server has made calls
needed() {
    needed_name=$1 text=$2
    shift 2
    before=$(calls)
    "$@" >"$mp_dir/out" 2>&1
    echo "calls before and after: $before $(calls)" >>"$mp_dir/out"
    grep -q "$text" "$mp_dir/out" && [ "$(calls)" -gt "$before" ]
    mp_report $? "$needed_name" "$mp_dir/out"
}

needed "a link that leads out means this host's tree" "No such file" by_run cat /fwd/links/below/up/file
by_run python3 "$FULL" /fwd changes >"$mp_dir/out" 2>&1
grep -q "libiofwd cannot be loaded.*fail with EMFILE" "$mp_dir/out" && grep -q "mkdir fails: Too many open files" "$mp_dir/out" &&
    [ "$(grep -c "^open .*fails: Too many open files" "$mp_dir/out")" = 3 ] && grep -q "mkdir succeeds" "$mp_dir/out" && grep -q "rmdir succeeds" "$mp_dir/out"
mp_report $? "a call for which no descriptor is left says so, and succeeds when there are some again" "$mp_dir/out"
needed "IOFWD_NEAR=0" "text 1" env IOFWD_NEAR=0 timeout 60 "$builddir/iofwd-run" -servers "$address" cat /fwd/dir/sub/file1
needed "IOFWD_PASSTHROUGH=0" "text 1" env IOFWD_PASSTHROUGH=0 timeout 60 "$builddir/iofwd-run" -servers "$address" cat /fwd/dir/sub/file1
needed "IOFWD_CONSISTENCY=session" "text 1" env IOFWD_CONSISTENCY=session timeout 60 "$builddir/iofwd-run" -servers "$address" cat /fwd/dir/sub/file1
needed "a trace shows all calls" 'fstat.*</fwd/dir/sub/file1>.*server 0' by_run -- sh -c 'IOFWD_TRACE=1 cat /fwd/dir/sub/file1'
if unshare -m true 2>/dev/null; then
    needed "another mount namespace" "text 1" unshare -m timeout 60 "$builddir/iofwd-run" -servers "$address" cat /fwd/dir/sub/file1
else
    mp_skip "another mount namespace" "this user may make none"
fi
down

up IOFWD_PASSTHROUGH=0
needed "IOFWD_PASSTHROUGH=0 at the servers" "text 1" by_run cat /fwd/dir/sub/file1
down

# the directory's name leads to another one when the program starts
up
mv "$mp_dir/kept" "$mp_dir/before"
mkdir -p "$mp_dir/kept/dir/sub"
echo another >"$mp_dir/kept/dir/sub/file1"
needed "the servers' directory has got another name" "text 1" by_run cat /fwd/dir/sub/file1
rm -rf "$mp_dir/kept"
mv "$mp_dir/before" "$mp_dir/kept"
down

# A directory leaves the export: what is above it then is not the export's.
up
mkdir "$mp_dir/kept/dir/leaves"
by_run python3 -c '
import os, sys
at = os.open("/fwd/dir/leaves", os.O_RDONLY)
print(sorted(os.listdir(os.open("..", os.O_RDONLY, dir_fd=at))))
os.rename(sys.argv[1] + "/kept/dir/leaves", sys.argv[1] + "/out.of/leaves")
try:
    print(os.listdir(os.open("..", os.O_RDONLY, dir_fd=at)))
except OSError as e:
    print(e.strerror)' "$mp_dir" >"$mp_dir/out" 2>&1
printf '%s\n' "['leaves', 'sub']" "No such file or directory" | cmp - "$mp_dir/out"
mp_report $? "a directory above one that has left the export is not opened" "$mp_dir/out"
rmdir "$mp_dir/out.of/leaves"
down

# All files of this host are below this export: /dev/stdin stays a link to the name of a descriptor.
"$builddir/iofwd-server" -daemon -servers 1 -iofwd /fwd=/ -address-file "$address" >/dev/null 2>&1 </dev/null
# shellcheck disable=SC2016 # for the shell inside
by_run sh -c 'cd "/fwd$1/dir/sub" && exec <file1 && readlink /dev/stdin /proc/self/fd/0 && cat ../sub/file2' sh "$mp_dir/kept" >"$mp_dir/out" 2>&1
printf '%s\n' /proc/self/fd/0 "/fwd$mp_dir/kept/dir/sub/file1" "text 2" | cmp - "$mp_dir/out"
mp_report $? "an export of the root directory" "$mp_dir/out"
down

# ---- read-only, and servers that are gone ----

up IOFWD_READONLY=/fwd
by_run sh -c 'exec 3</fwd/dir/sub/file1 && cat <&3; chmod 600 /fwd/dir/sub/file1; python3 -c "
import os
os.fchmod(os.open(\"/fwd/dir/sub/file1\", os.O_RDONLY), 0o600)"' >"$mp_dir/out" 2>&1
grep -q "text 1" "$mp_dir/out" && [ "$(grep -c "Read-only file system" "$mp_dir/out")" = 2 ]
mp_report $? "a file of a read-only export stays as it is" "$mp_dir/out"

down

# A directory has two names: what was opened below the read-only one stays so.
"$builddir/iofwd-server" -daemon -servers 1 -iofwd "/fwd=$mp_dir/kept" -iofwd "/ro=$mp_dir/kept/dir" -read-only /ro -address-file "$address" \
    >/dev/null 2>&1 </dev/null
by_run python3 -c '
import os
d = os.open("/ro/sub", os.O_RDONLY | os.O_DIRECTORY)
try:
    os.mkdir("made", dir_fd=d)
except OSError as e:
    print(e.strerror)
os.mkdir("made", dir_fd=os.open("/fwd/dir/sub", os.O_RDONLY | os.O_DIRECTORY))
os.chdir("/ro/sub")
print(os.getcwd())
os.chdir("/fwd/dir/sub")
print(os.getcwd())' >"$mp_dir/out" 2>&1
printf '%s\n' "Read-only file system" /ro/sub /fwd/dir/sub | cmp - "$mp_dir/out" && rmdir "$mp_dir/kept/dir/sub/made"
mp_report $? "a directory that two exports have is the one by whose name it was opened" "$mp_dir/out"

watch=$(sed -n 's/^watch //p' "$address") server=$(awk '$1 == "server" { print $3 }' "$address")
cp "$address" "$mp_dir/copy"
kill -9 "$watch" "$server"
timeout 20 tail -s 0.02 -f --pid="$server" /dev/null
cp "$mp_dir/copy" "$address"
by_run cat /fwd/dir/sub/file1 >"$mp_dir/out" 2>&1
[ $? != 0 ] && ! grep -q "text 1" "$mp_dir/out" && grep -q "amphora: " "$mp_dir/out"
mp_report $? "a program that starts when its servers are gone says so" "$mp_dir/out"
mp_done
