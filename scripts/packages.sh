# SPDX-License-Identifier: BSD-3-Clause
# What the tree needs from Debian; sourced by the scripts beside it.
#   build_packages: to build; test_packages: for scripts/check, so that no test of it is skipped for want of a program;
#   nightly_packages: for scripts/check-nightly: an MPI with its headers, Python's own tests.  scripts/check-launchers and
#   scripts/check-hetero add what they alone need.
#   program_packages: what tests/files/programs/fwd_debian.sh runs.
#   need_packages PACKAGE...: installs what is missing (as root, or with sudo), or prints the exact line and ends.

build_packages="gcc make autoconf automake libtool pkg-config libc6-dev libfabric-dev libhwloc-dev nettle-dev libpng-dev libfuse3-dev libsqlite3-dev zlib1g-dev libzstd-dev libncurses-dev libmicrohttpd-dev"
test_packages="busybox-static chromium fio fuse3 g++ libcriterion-dev clang-14 libclang-rt-14-dev gfortran gdb git hydra man-db python3 python3-lmdb ripgrep rsync sqlite3 strace tmux curl libaio1 liburing2 liburing-dev zsh"
paper_packages="iproute2 openssh-sftp-server python3 sshfs util-linux"
nightly_packages="age bash-static rclone restic zsh-static golang-go openmpi-bin libopenmpi-dev mpich libmpich-dev libpython3.11-testsuite nodejs libhdf5-dev elfutils llvm-14 octave slurm-wlm munge iproute2 sshfs openssh-sftp-server"
program_packages="emacs-nox vim mercurial redis-server php-cli ruby ocaml-nox erlang-base sbcl ffmpeg graphviz gnuplot-nox r-base-core p7zip-full zip unzip borgbackup cmake ninja-build tcl lua5.4 guile-3.0 gawk mawk bc perl bison flex m4 nasm subversion cvs rcs fossil gnupg gnat fp-compiler squashfs-tools xorriso mtools qemu-utils netcdf-bin hdf5-tools groff ghostscript qpdf libxml2-utils xsltproc jq aspell aspell-en cpio pax lzip zstd dpkg-dev fish tcsh ksh mksh gdbmtool db5.3-util lmdb-utils openjdk-17-jdk-headless attr acl nodejs maxima swi-prolog-nox logrotate mopac libeccodes-tools minimap2 libnss3-tools yara wimtools genext2fs e2tools ntfs-3g casync jdupes rdfind stow lammps cdo nco gmsh getdp hdf4-tools cgns-convert xfsprogs mono-mcs ghc kyotocabinet-utils notmuch dar gdisk systemd-journal-remote ncbi-blast+ bwa samtools nbdkit libnbd-bin mosquitto mosquitto-clients darcs clamav gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good"

need_packages() {
    missing=""
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
    done
    [ -z "$missing" ] && return
    install="apt-get install -y --no-install-recommends$missing"
    if [ "$(id -u)" = 0 ]; then
        run=""
    elif sudo -n true 2>/dev/null; then
        run="sudo"
    else
        echo "These Debian packages are missing; please run: sudo $install" >&2
        exit 1
    fi
    echo "Installing:$missing"
    $run apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive $run $install >/dev/null
}

# build DIRECTORY [configure options]: an up-to-date build of the tree in DIRECTORY; a second call takes seconds.
build() {
    prepare "$@"
    make -C "$1" -s -j2 all
}

# prepare DIRECTORY [configure options]: ready for make.
prepare() {
    dir=$1
    shift
    if [ ! -x configure ] || [ configure.ac -nt configure ] || [ -n "$(find . -name local.mk -newer configure -print -quit)" ] ||
        [ Makefile.am -nt configure ]; then
        autoreconf -fi >"${TMPDIR:-/tmp}/amphora-autoreconf.$$" 2>&1 || {
            cat "${TMPDIR:-/tmp}/amphora-autoreconf.$$"
            exit 1
        }
        rm -f "${TMPDIR:-/tmp}/amphora-autoreconf.$$"
    fi
    mkdir -p "$dir"
    if [ ! -f "$dir/Makefile" ] || [ configure -nt "$dir/config.status" ]; then
        (cd "$dir" && ../configure --quiet "$@")
    fi
}

# prepare_asan: build-asan, ready for make, with ASan and UBSan.
prepare_asan() {
    prepare build-asan --enable-sanitizers=address,undefined --disable-static CFLAGS="-O1 -g1"
}

# asan_environment: what sanitized programs need.  Programs of the tests are sanitized themselves, so the preload library may be loaded before
# the sanitizer's runtime.
asan_environment() {
    export ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
}
