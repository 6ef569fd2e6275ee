#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Calls that iofwd-run -trap carries out for a static program: the answers of the kernel in a local directory are the measure.
. "${srcdir:-.}/tests/files/trap/trap_lib.sh"
trap_or_skip "iofwd-run -trap"
build_static trap_calls
cases="descriptors standard low_half openat2_errors local_in_range select_and_poll messages vectors bad_memory large mappings mapping_threads copies copy_errors asynchronous directories local_links
advice direct_flag leader_ends cannot_be_seen execute"
for case in $cases; do
    both trap_calls "$case"
done
build_static trap_places
for case in working_directory proc_names first_thread_parts masks; do
    both trap_places "$case"
done
said descriptors "cannot become descriptor 100 .* IOFWD_TRAP_FDS=0-100,512-1023"
said descriptors "cannot become descriptor 1023 .* IOFWD_TRAP_FDS=0-2,512-1024"
said messages "descriptor [0-9]* of process [0-9]* is /fwd/messages/m, which a message has brought there: .* iofwd-run -mount"
said mappings "/fwd/mappings/map cannot be mapped for shared writing under -trap: iofwd-run -mount"
said cannot_be_seen "does not let its parent look at its memory .*: its calls on files are refused; iofwd-run -mount"
said execute "/fwd/execute/prog cannot be executed from there under -trap: .* iofwd-run -mount"

# Calls by the numbers of another architecture would pass the filter's comparisons by.
other_architecture() {
    run "$mp_dir/trap_other" "$1" /etc/passwd >"$mp_dir/other.out" 2>&1
    code=$?
    cat "$mp_dir/other.out"
    [ $code = 137 ] && grep -q "another architecture .* it is ended; iofwd-run -mount" "$mp_dir/other.out"
}
if [ "$(uname -m)" = x86_64 ]; then
    build_static trap_other
    mp_try "32-bit calls of a 64-bit program" other_architecture int80
    mp_try "x32 calls" other_architecture x32
else
    mp_skip "32-bit calls of a 64-bit program" "this is no x86-64"
    mp_skip "x32 calls" "this is no x86-64"
fi

# With all numbers in the range nothing is refused.
all_numbers() {
    mkdir -p "$mp_dir/kept/all"
    IOFWD_TRAP_FDS=3-1023 run bash -c 'cd /fwd/all && exec 5>f && echo one >&5 && exec 6<f && read -r x <&6 && exec 5>&- 6<&- && echo $x >g' &&
        [ "$(cat "$mp_dir/kept/all/g")" = one ]
}
mp_try "IOFWD_TRAP_FDS=3-1023: a forwarded file becomes any descriptor" all_numbers

# The supervisor writes, which the program's limit does not bound.
file_sizes() {
    # shellcheck disable=SC3045 # dash and others have it
    (ulimit -f 8 && run busybox dd if=/dev/zero of=/fwd/long bs=16384 count=1) >"$mp_dir/sizes" 2>&1
    cat "$mp_dir/sizes"
    grep -q 'the limit of file sizes .* does not bound forwarded files under -trap' "$mp_dir/sizes" && [ "$(wc -c <"$mp_dir/kept/long")" = 16384 ]
}
mp_try "a limit of file sizes: a sentence" file_sizes

traces() {
    IOFWD_TRACE=$mp_dir/trace run busybox sh -c 'echo traced >/fwd/traced' && cat "$mp_dir/trace" && grep -q 'open("/fwd/traced"' "$mp_dir/trace" &&
        grep -q 'write(.* 7) = 7' "$mp_dir/trace"
}
mp_try "IOFWD_TRACE prints the forwarded calls of a static program" traces
mp_done
