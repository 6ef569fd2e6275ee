#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The table of iofwd-mount(1), CONSISTENCY: each cell is a case.  Somebody else is a program in the servers' directory.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
mount_or_skip "consistency of a mount"
trap 'exec 7<&- 8<&-; mount_end "$mp_dir/m" "$mp_dir/none" "$mp_dir/open" "$mp_dir/always" "$mp_dir/users"' EXIT
mount_off "$mp_dir/m"
for mode in none open always; do
    mount_on "$mp_dir/$mode" -o cache=$mode || exit 99
done
mount_on "$mp_dir/no" -o cache=none,timeout=5 >"$mp_dir/out" 2>&1
[ $? = 2 ] && grep -q "timeout has no effect with cache=none" "$mp_dir/out"
mp_report $? "a time for what is not cached is refused" "$mp_dir/out"
kept=$mp_dir/kept
cat >"$mp_dir/steps.py" <<'PY'
import fcntl, mmap, os, sys, time

step, mode, top, kept = sys.argv[1:]
name = "f." + step + "." + mode
here, there = os.path.join(top, mode, name), os.path.join(kept, name)


def change(path, data):
    with open(path, "wb") as f:
        f.write(data)


def read(fd):
    return os.pread(fd, 100, 0)


def see(look, wanted):
    """When is it seen: at once, soon (within the time-out and what a loaded machine adds), or not at all?"""
    if look() == wanted:
        return "at once"
    time.sleep(1.1)
    return "after 1 s" if look() == wanted else "perhaps never"


def open_and_read():
    fd = os.open(here, os.O_RDONLY)
    try:
        return read(fd)
    finally:
        os.close(fd)


def size():
    return os.stat(here).st_size


def exists():
    return os.path.lexists(here)


change(there, b"before")
if step != "new_name":
    os.stat(here)
    fd = os.open(here, os.O_RDWR)
if step not in ("new_name", "stat", "removed"):
    read(fd)  # which makes the kernel ask for the access time, and so for all
if step == "open":
    change(there, b"behind")
    found = see(open_and_read, b"behind")
elif step == "open_already":
    change(there, b"behind")
    found = see(lambda: read(fd), b"behind")
elif step == "lock":
    change(there, b"behind")
    fcntl.lockf(fd, fcntl.LOCK_EX)
    found = see(lambda: read(fd), b"behind")
elif step == "stat":
    change(there, b"longer than before")
    found = see(size, 18)
elif step == "new_name":
    os.unlink(there)
    exists()
    change(there, b"new")
    found = see(exists, True)
elif step == "removed":
    os.close(fd)
    os.unlink(there)
    found = see(exists, False)
elif step == "replaced":
    change(there + ".other", b"behind")
    os.rename(there + ".other", there)
    found = see(open_and_read, b"behind")
elif step == "mapping":
    def mapped():
        other = os.open(here, os.O_RDWR)
        with mmap.mmap(other, 6) as m:
            os.close(other)
            return m[:]
    change(there, b"behind")
    found = see(mapped, b"behind")
print(found)
PY

# cell CHANGE MODE WHEN: "after 1 s" allows at once too
cell() {
    mp_wanted "cache=$2: $1 is seen $3" || return 0
    found=$(timeout 30 python3 "$mp_dir/steps.py" "$1" "$2" "$mp_dir" "$kept" 2>"$mp_dir/out")
    echo "$found" >>"$mp_dir/out"
    [ "$found" = "$3" ] || { [ "$3" = "after 1 s" ] && [ "$found" = "at once" ]; }
    mp_report $? "cache=$2: $1 is seen $3" "$mp_dir/out"
}

while read -r change none open always; do
    cell "$change" none "$(echo "$none" | tr _ ' ')"
    cell "$change" open "$(echo "$open" | tr _ ' ')"
    cell "$change" always "$(echo "$always" | tr _ ' ')"
done <<'END'
open at_once at_once perhaps_never
open_already at_once after_1_s perhaps_never
lock at_once at_once at_once
stat at_once after_1_s perhaps_never
new_name at_once at_once at_once
removed at_once after_1_s perhaps_never
replaced at_once at_once at_once
mapping at_once at_once perhaps_never
END

# Appends by two mounts and a preload client at once lose nothing and mix no lines.
appends() {
    : >"$kept/log"
    for where in none open always; do
        sh -c 'i=0; while [ $i -lt 200 ]; do echo "$1 $i"; i=$((i + 1)); done >>"$2"' sh $where "$mp_dir/$where/log" &
    done
    mount_forwarded sh -c 'i=0; while [ $i -lt 200 ]; do echo "preload $i"; i=$((i + 1)); done >>/fwd/log'
    wait
    [ "$(sort -u "$kept/log" | wc -l)" = 800 ] && [ "$(grep -cE '^(none|open|always|preload) [0-9]+$' "$kept/log")" = 800 ]
}
mp_wanted "appends by several clients at once" && {
    appends >"$mp_dir/out" 2>&1
    mp_report $? "appends by several clients at once" "$mp_dir/out"
}

# A file without a name is opened again by its link in /proc.
mp_check "an open file whose name is gone is opened again" python3 -c '
import os, sys
fd = os.open(sys.argv[1] + "/open/gone", os.O_RDWR | os.O_CREAT)
os.write(fd, b"data")
os.unlink(sys.argv[1] + "/open/gone")
assert os.pread(os.open("/proc/self/fd/%d" % fd, os.O_RDONLY), 9, 0) == b"data"
os.unlink(sys.argv[2] + "/f.open.none")
' "$mp_dir" "$kept"

# A write is at the server when write(2) has returned, by close or not.
mp_check "written data is at the server before close" sh -c '
    exec 3>"$1/open/w" && echo data >&3 && [ "$(cat "$2/w")" = data ]' sh "$mp_dir" "$kept"
# A small write is one request of the kernel, not two (exchange.c).
# requests MODE CALLS LIMIT: with 200 times these calls in a file there
requests() {
    timeout 20 strace -f -e trace=writev -o "$mp_dir/trace" -p "$(pgrep -f "iofwd-mount -servers $addresses .*$mp_dir/$1\$")" 2>"$mp_dir/attached" &
    mp_until 10 grep -q attached "$mp_dir/attached" && python3 -c '
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for i in range(200):
    eval(sys.argv[2])' "$mp_dir/$1/many" "$2"
    pkill -INT -P $! 2>/dev/null
    kill -INT $! 2>/dev/null
    wait
    n=$(grep -c 'writev(' "$mp_dir/trace")
    echo "$n replies to 200 writes"
    [ "$n" -ge 200 ] && [ "$n" -lt "$3" ]
}
small='os.pwrite(fd, b"x" * 4096, 0)'
# one TEXT MODE CALLS LIMIT
one() {
    if ! command -v strace >/dev/null; then
        mp_skip "$1" "there is no strace"
    elif ! [ -e "$mp_dir/$2" ] && ! mount_on "$mp_dir/$2" -o allow_other 2>"$mp_dir/why"; then
        mp_skip "$1" "no mount for other users: $(cat "$mp_dir/why")"
    else
        mp_wanted "$1" && {
            requests "$2" "$3" "$4" >"$mp_dir/out" 2>&1
            mp_report $? "$1" "$mp_dir/out"
        }
    fi
}
one "a small write is one request" open "$small" 260
one "a small write is one request where several users are" users "$small" 260

# O_APPEND by fcntl: what another client has appended meanwhile stays; and its end.
cat >"$mp_dir/append.py" <<'X'
import fcntl, os, sys
mounted, kept = sys.argv[1:]
with open(kept, 'w') as f:
    f.write('base ')
fd = os.open(mounted, os.O_RDWR)
fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
with open(kept, 'a') as f:
    f.write('other ')
os.write(fd, b'mine')
fcntl.fcntl(fd, fcntl.F_SETFL, 0)
os.pwrite(fd, b'BASE', 0)
os.close(fd)
fd = os.open(mounted, os.O_RDWR | os.O_APPEND)
fcntl.fcntl(fd, fcntl.F_SETFL, 0)
os.pwrite(fd, b'b', 0)
with open(kept) as f:
    print(f.read())
X
if command -v python3 >/dev/null; then
    python3 "$mp_dir/append.py" "$mp_dir/open/append" "$mp_dir/kept/append" >"$mp_dir/out" 2>&1 && [ "$(cat "$mp_dir/out")" = 'bASE other mine' ]
    mp_report $? "O_APPEND by fcntl appends at the server, and no longer" "$mp_dir/out"
else
    mp_skip "O_APPEND by fcntl appends at the server, and no longer" "there is no python3"
fi
mp_done
