# SPDX-License-Identifier: BSD-3-Clause
# For tests of the versions of files, which all servers and programs of a user share in /dev/shm: sourced first, it starts the test again
# with a /dev/shm of its own, where that can be, so that it does not see what other tests change.
if [ "${OWN_SHM:-}" != 1 ] && unshare -m mount -t tmpfs none /dev/shm 2>/dev/null; then
    OWN_SHM=1 exec unshare -m sh -c 'mount -t tmpfs none /dev/shm && exec sh "$0"' "$0"
fi
