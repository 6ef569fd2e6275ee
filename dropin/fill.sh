# SPDX-License-Identifier: BSD-3-Clause
# Fills in one of the templates for one conduit and one thread mode:   sh fill.sh TEMPLATE CONDUIT-THREADS
# The settings of the build come by the environment (see local.mk): prefix, includedir, libdir, CC, CXX, OPT, DEFINES, VERSION.
set -eu
conduit=${2%-*}
threads=${2##*-}
name=$(printf %s "$conduit" | tr a-z A-Z)
mode=$(printf %s "$threads" | tr a-z A-Z)
pthread=-pthread
[ "$threads" = seq ] && pthread=
# What lies below the prefix is written in terms of it, so that an installation can be moved.
below() { case $1 in "$prefix"/*) printf %s "$2${1#"$prefix"}" ;; *) printf %s "$1" ;; esac; }
# Programs find the library where the system does not look by itself.
rpath=-Wl,-rpath,
case $libdir in /lib | /usr/lib | /lib/*-linux-gnu | /usr/lib/*-linux-gnu | /lib64 | /usr/lib64) rpath= ;; esac
sed -e "s|@CONDUIT@|$conduit|g" -e "s|@THREADS@|$threads|g" -e "s|@NAME@|$name|g" -e "s|@MODE@|$mode|g" \
    -e "s|@prefix@|$prefix|g" -e "s|@includedir@|$(below "$includedir" '$(AMPHORA_PREFIX)')|g" \
    -e "s|@libdir@|$(below "$libdir" '$(AMPHORA_PREFIX)')|g" -e "s|@PCINCLUDEDIR@|$(below "$includedir" '${prefix}')|g" \
    -e "s|@PCLIBDIR@|$(below "$libdir" '${prefix}')|g" -e "s|@CC@|$CC|g" -e "s|@CXX@|$CXX|g" -e "s|@OPT@|$OPT|g" \
    -e "s|@PTHREAD@|$pthread|g" -e "s|@DEFINES@|$DEFINES|g" -e "s|@VERSION@|$VERSION|g" \
    -e "s|@RPATH@|${rpath:+$rpath\$(AMPHORA_LIBDIR)}|g" -e "s|@PCRPATH@|${rpath:+$rpath\${libdir\}}|g" \
    -e 's/[ \t]*$//' "$1"
