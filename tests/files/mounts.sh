# SPDX-License-Identifier: BSD-3-Clause
# For tests that mount file systems: sourced first, it starts the test again in a mount namespace of its own, or ends it with a skip of
# $mounts_for where that cannot be.
if [ "${MOUNTS_INSIDE:-}" != 1 ]; then
    if ! why=$(unshare -rm mount -t tmpfs none /mnt 2>&1); then
        echo "1..1"
        echo "ok 1 - $mounts_for # SKIP no file systems can be mounted here: $why"
        exit 0
    fi
    MOUNTS_INSIDE=1 exec unshare -rm sh "$0"
fi
