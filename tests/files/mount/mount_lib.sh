# SPDX-License-Identifier: BSD-3-Clause
# For tests of iofwd-mount: standing servers that keep /fwd in $mp_dir/kept, and mounts of it.  Sourced by the tests beside it.
. "${srcdir:-.}/tests/lib/lib.sh"
srcdir=$(cd "$srcdir" && pwd)
builddir=$(cd "$builddir" && pwd)
export srcdir builddir
MOUNT=$builddir/iofwd-mount
addresses=$mp_dir/addresses

# mount_start [SERVER-OPTION]...: the servers
mount_start() {
    mkdir -p "$mp_dir/kept"
    "$builddir/iofwd-server" -daemon -servers 2 -iofwd "/fwd=$mp_dir/kept" -address-file "$addresses" -pid-file "$mp_dir/servers.pid" \
        "$@" >"$mp_dir/start" 2>&1 || { cat "$mp_dir/start"; exit 99; }
}

# mount_on DIR [OPTION]...: mounts /fwd there
mount_on() {
    mount_dir=$1
    shift
    mkdir -p "$mount_dir"
    # a shell may have started the suite in the background, with SIGINT ignored
    env --default-signal=INT "$MOUNT" -servers "$addresses" "$@" "$mount_dir"
}

mount_off() {
    for mount_dir in "$@"; do
        fusermount3 -u -q "$mount_dir" 2>/dev/null || umount -l "$mount_dir" 2>/dev/null || :
    done
}

# mount_end DIR...: unmounts, and ends the servers
mount_end() {
    mount_off "$@"
    [ ! -s "$mp_dir/servers.pid" ] || kill "$(cat "$mp_dir/servers.pid")" 2>/dev/null || :
    rm -rf "$mp_dir"
}

# quiet_start: other servers of the same directory, stopped, at $mp_dir/quiet.  A start waits for them until its limit, so a test that wants
# that begins with it, and looks at the outcome at its end.
quiet_start() {
    mkdir -p "$mp_dir/kept"
    "$builddir/iofwd-server" -daemon -servers 1 -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/quiet" -pid-file "$mp_dir/quiet.pid" \
        >"$mp_dir/quiet.start" 2>&1 || { cat "$mp_dir/quiet.start"; exit 99; }
    quiet_pids="$(cat "$mp_dir/quiet.pid") $(pgrep -P "$(cat "$mp_dir/quiet.pid")")"
    # shellcheck disable=SC2086
    kill -STOP $quiet_pids
}

quiet_end() {
    # shellcheck disable=SC2086
    [ -z "${quiet_pids:-}" ] || { kill -TERM $quiet_pids; kill -CONT $quiet_pids; } 2>/dev/null
    quiet_pids=
}

# mount_run_or_skip WHAT: for tests of iofwd-run -mount, which has a runtime folder of its own here: ends the test with a skip where
# it is not possible
mount_run_or_skip() {
    mount_or_skip "$1"
    trap 'mount_end "$mp_dir/m"' EXIT
    mount_off "$mp_dir/m"
    XDG_RUNTIME_DIR=$mp_dir/runtime
    export XDG_RUNTIME_DIR
    mkdir -m 700 "$XDG_RUNTIME_DIR"
    if ! "$builddir/iofwd-run" -servers "$addresses" -mount true 2>"$mp_dir/why"; then
        case $(cat "$mp_dir/why") in
        *forbidden* | *"/dev/fuse cannot"*)
            echo "1..1"
            echo "ok 1 - $1 # SKIP $(cat "$mp_dir/why")"
            exit 0
            ;;
        esac
    fi
}

# mount_or_skip WHAT: ends the test with a skip where no FUSE file system can be mounted
mount_or_skip() {
    why=
    if [ ! -x "$MOUNT" ]; then
        why="iofwd-mount is not built"
    elif ! [ -e /dev/fuse ] || ! command -v fusermount3 >/dev/null; then
        why="there is no /dev/fuse, or no fusermount3"
    fi
    if [ -n "$why" ]; then
        echo "1..1"
        echo "ok 1 - $1 # SKIP $why"
        exit 0
    fi
    mount_start
    if ! mount_on "$mp_dir/m" 2>"$mp_dir/why"; then
        why=$(cat "$mp_dir/why")
        mount_end
        case $why in
        *"cannot be mounted"*"ermi"*)
            echo "1..1"
            echo "ok 1 - $1 # SKIP $why"
            exit 0
            ;;
        esac
        echo "Bail out! $why"
        exit 99
    fi
}

# mount_forwarded COMMAND...: as a client by preload
mount_forwarded() {
    "$builddir/iofwd-run" -servers "$addresses" "$@"
}
