#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The command lines of doc/containers.md: a mount that is passed into a container, a container in the namespace of iofwd-run -mount, and
# Amphora inside one.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
mount_or_skip "containers"
trap 'mount_end "$mp_dir/m"' EXIT
XDG_RUNTIME_DIR=$mp_dir/runtime
export XDG_RUNTIME_DIR
mkdir -m 700 "$XDG_RUNTIME_DIR"
image=$mp_dir/image
bin=$image/bin
if ! command -v busybox >/dev/null || file -L "$(command -v busybox)" 2>/dev/null | grep -q dynamic; then
    echo "1..1"
    echo "ok 1 - containers # SKIP there is no static busybox for an image"
    exit 0
fi
mkdir -p "$bin" "$image/proc" "$image/dev" "$image/fwd" "$image/tmp"
cp "$(command -v busybox)" "$bin/"
echo kept >"$mp_dir/kept/in"

# passes COMMAND...: the container reads what is kept, and what it writes is kept
passes() {
    rm -f "$mp_dir/kept/out"
    timeout -k 5 60 "$@" /bin/busybox sh -c 'busybox cat /fwd/in && echo inside >/fwd/out' >"$mp_dir/out" 2>&1 </dev/null &&
        grep -qx kept "$mp_dir/out" && [ "$(cat "$mp_dir/kept/out")" = inside ]
}

# case_of TOOL NAME COMMAND...: skips where the tool cannot start any container
case_of() {
    tool=$1 name=$2
    shift 2
    why=
    case $tool in
    bwrap) bwrap --ro-bind / / true 2>"$mp_dir/why" || why="bwrap cannot be used here: $(tail -n 1 "$mp_dir/why")" ;;
    unshare) unshare -m true 2>"$mp_dir/why" || why="unshare cannot be used here: $(tail -n 1 "$mp_dir/why")" ;;
    podman) [ -n "$podman" ] || why="podman cannot start a container here" ;;
    esac
    if [ -n "$why" ]; then
        mp_skip "$name" "$why"
    elif mp_wanted "$name"; then
        "$@"
        mp_report $? "$name" "$mp_dir/out"
    fi
}

podman=
if [ "$(id -u)" = 0 ] && command -v podman >/dev/null && tar -C "$image" -c . | timeout 60 podman import -q - amphora-test >/dev/null 2>&1; then
    for runtime in crun runc; do
        try="podman --runtime $runtime --cgroup-manager=cgroupfs run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024"
        # shellcheck disable=SC2086
        [ -n "$podman" ] || ! timeout 60 $try amphora-test /bin/busybox true 2>/dev/null || podman=$try
    done
fi

case_of bwrap "bubblewrap: the mount is passed in" passes bwrap --ro-bind "$image" / --proc /proc --dev /dev --bind "$mp_dir/m" /fwd
# shellcheck disable=SC2016
case_of unshare "unshare and chroot: the mount is passed in" passes unshare -m sh -c \
    'mount --bind "$1" "$2/fwd" && shift && image=$1 && shift && exec chroot "$image" "$@"' sh "$mp_dir/m" "$image"
# shellcheck disable=SC2086
case_of podman "podman: the mount is passed in" passes $podman -v "$mp_dir/m:/fwd" amphora-test
case_of bwrap "bubblewrap in the namespace of iofwd-run -mount" passes "$builddir/iofwd-run" -servers "$addresses" -mount \
    bwrap --ro-bind "$image" / --proc /proc --dev /dev --bind /fwd /fwd

# Amphora inside: the host's own files are the image.
for way in preload mount trap; do
    inside() {
        set -- "$builddir/iofwd-run" -servers "$addresses" -$way
        timeout -k 5 60 bwrap --bind / / --dev-bind /dev /dev --proc /proc "$@" cat /fwd/in >"$mp_dir/out" 2>&1 && [ "$(cat "$mp_dir/out")" = kept ]
    }
    case_of bwrap "bubblewrap: Amphora inside, $way" inside
done
no_network() {
    timeout -k 5 60 bwrap --unshare-net --bind / / --dev-bind /dev /dev "$builddir/iofwd-run" -servers "$addresses" -preload cat /fwd/in >"$mp_dir/out" 2>&1
    [ $? = 1 ] && grep -q "no connection to the I/O servers" "$mp_dir/out"
}
case_of bwrap "bubblewrap: without the network of the host it says what is missing" no_network

# Another user inside.
other_user() {
    chmod 755 "$mp_dir" "$mp_dir/kept"
    set -- setpriv --reuid=65534 --regid=65534 --clear-groups bwrap --unshare-user --ro-bind "$image" / --proc /proc --dev /dev --bind "$mp_dir/m" /fwd
    ! timeout -k 5 60 "$@" /bin/busybox cat /fwd/in >"$mp_dir/out" 2>&1 && mount_off "$mp_dir/m" && mount_on "$mp_dir/m" -o allow_other 2>"$mp_dir/out" &&
        timeout -k 5 60 "$@" /bin/busybox cat /fwd/in >"$mp_dir/out" 2>&1 && grep -qx kept "$mp_dir/out"
}
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --regid=65534 --clear-groups bwrap --unshare-user --ro-bind / / true 2>/dev/null; then
    case_of bwrap "another user inside needs -o allow_other" other_user
else
    mp_skip "another user inside needs -o allow_other" "not root, or another user may not use bubblewrap"
fi
[ -z "$podman" ] || podman rmi -f amphora-test >/dev/null 2>&1
mp_done
