#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# attach.sh ADDRESSFILES PROGRAM...: runs the program of an MPI rank attached to server (rank mod S).  The S servers' address files are
# ADDRESSFILES.0, ADDRESSFILES.1, ...; IOFWD_PREFIX, or a prefix that iofwd-instrument has baked in, names the forwarded paths.
files=$1
shift
count=0
while [ -r "$files.$count" ]; do
    count=$((count + 1))
done
if [ $count -eq 0 ]; then
    echo "attach.sh: there is no address file $files.0; start the servers with -address-file $files.0, $files.1, ..." >&2
    exit 2
fi
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}
AMPHORA_JOB=$files.$((rank % count))
export AMPHORA_JOB
exec "$@"
