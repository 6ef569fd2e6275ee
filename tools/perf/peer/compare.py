#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the benchmark of peer.h with Amphora and with other libraries in turn, and prints the ratios.

compare.py [-builddir DIR] [-conduit smp|tcp] [-n N] [-repeat R] [-samples S] [-library NAME]... [-peer NAME=COMMAND]... [TEST[:BYTES]]...

It builds one program with Amphora's library in DIR (without -builddir: ./build, else build in the source tree, else the
source tree itself) and one with each library that is here: the MPIs by their compilers mpicc.openmpi and mpicc.mpich, and
UCX, which has no collectives, by pkg-config (Debian: libopenmpi-dev, libmpich-dev, libucx-dev); -library names one of them:
openmpi, mpich or ucx. -peer adds a program that you have built yourself from peer.c and
gasnet.c, with GASNet for instance; {n} in COMMAND is the number of processes, and the tests follow it. Each row: the
median of R runs of each, in microseconds an operation, and how many times as long the peer takes (above 1: Amphora is
ahead). Exit code 1: a program could not be built or did not end well, which is told; 2: wrong arguments. For good figures the machine is quiet. Do not run it at
real-time priority: processes of MPICH and UCX that wait for one another never give their cores away.
"""
import argparse
import collections
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PAIRS = ["round_trip:8", "round_trip:4096", "round_trip:65536", "flood:8", "flood:4096", "flood:65536", "put:8",
         "put:4096", "put:65536", "put:1048576", "get:8", "get:4096", "get:65536", "get:1048576", "fetch_add", "puts:8",
         "puts:4096", "puts:65536", "gets:8", "gets:4096", "gets:65536"]
COLLECTIVES = ["broadcast", "reduce", "reduce_all", "scatter", "gather", "gather_all", "exchange"]
SECONDS_A_RUN = 60

# How each MPI is kept to one way of transport, and told that processes may outnumber cores.
OPENMPI = {"smp": "--mca btl vader,self", "tcp": "--mca btl tcp,self --mca btl_tcp_if_include lo --mca osc pt2pt"}
MPICH = {"smp": "", "tcp": "MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_CH4_NOLOCAL=1 UCX_TLS=tcp,self"}
UCX = {"smp": "UCX_TLS=shm,self", "tcp": "UCX_TLS=tcp,self UCX_NET_DEVICES=lo"}


def default_tests(n):
    sizes = [8, 16384, 65536, 262144]
    return (PAIRS if n == 2 else []) + ["barrier"] + [f"{c}:{s}" for c in COLLECTIVES for s in sizes if s * n <= 4 << 20]


def is_build(folder):
    return all(os.path.exists(os.path.join(folder, name)) for name in ("amphora-run", ".libs/libamphora.so"))


def build_folder(given):
    """Returns the folder of the build; without a build it ends the program."""
    folders = [given] if given else ["build", os.path.join(SOURCE, "build"), SOURCE]
    for folder in folders:
        if is_build(folder):
            return os.path.abspath(folder)

    sys.exit(f"compare.py: there is no build of Amphora in {' or '.join(folders)}; name its folder by -builddir")


def compile_with(compiler, calls, program, *flags):
    sources = [os.path.join(SOURCE, "tools/perf/peer", name) for name in ("peer.c", calls)]
    command = shlex.split(compiler) + ["-O2", "-std=gnu11", "-I" + SOURCE, *sources, "-o", program, *flags]
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as wrong:
        sys.exit(f"compare.py: {calls} cannot be compiled by {compiler}: {wrong}")


def amphora(args, folder):
    lib = os.path.join(args.builddir, ".libs")
    program = os.path.join(folder, "amphora")
    compile_with(os.environ.get("CC", "cc"), "gasnet.c", program, "-I" + os.path.join(SOURCE, "include"), "-L" + lib,
                 "-Wl,-rpath," + lib, "-lamphora", "-lpthread")
    # over tcp, processes of one host are kept apart, as those of the peers are
    smp = "AMPHORA_SMP=0 " if args.conduit == "tcp" else ""
    return f"{smp}{os.path.join(args.builddir, 'amphora-run')} -conduit {args.conduit} -n {args.n} {program}"


def openmpi(args, folder):
    program = os.path.join(folder, "openmpi")
    compile_with("mpicc.openmpi", "mpi.c", program)
    idle = "--mca mpi_yield_when_idle 1 " if args.n > os.cpu_count() else ""
    return ("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi --oversubscribe --bind-to none "
            f"{idle}--mca pml ob1 {OPENMPI[args.conduit]} -n {args.n} {program}")


def mpich(args, folder):
    program = os.path.join(folder, "mpich")
    compile_with("mpicc.mpich", "mpi.c", program, "-Wno-stringop-overflow")
    return f"{MPICH[args.conduit]} mpirun.mpich -n {args.n} {program}".strip()


def ucx(args, folder):
    program = os.path.join(folder, "ucx")
    compile_with(os.environ.get("CC", "cc"), "ucx.c", program, "-lucp", "-lucs")
    return f"{UCX[args.conduit]} UCX_LOG_LEVEL=error {program} -n {args.n}"


def has_ucx():
    return shutil.which("pkg-config") and subprocess.run(["pkg-config", "--exists", "ucx"], check=False).returncode == 0


# Each library: whether it is here, the command that runs its program, and whether it has collectives.
Library = collections.namedtuple("Library", "here command collectives")
LIBRARIES = {
    "openmpi": Library(lambda: shutil.which("mpicc.openmpi"), openmpi, True),
    "mpich": Library(lambda: shutil.which("mpicc.mpich"), mpich, True),
    "ucx": Library(has_ucx, ucx, False),
}


def kill_tree(pid):
    """Kills a process and all that it started, also in sessions of their own: a launcher's processes go on polling."""
    children = collections.defaultdict(list)
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as f:
                children[int(f.read().rsplit(")", 1)[1].split()[1])].append(int(entry))
        except OSError:
            pass  # it has ended

    todo = [pid]
    while todo:
        pid = todo.pop()
        todo += children[pid]
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass


def figures(text):
    """Returns {test: microseconds} of the rows that a program has printed."""
    rows = [line.split() for line in text.splitlines() if line and line[0] != "#"]
    return {f"{name}:{size}": float(us) for name, size, us in rows}


def run(command, tests, samples):
    """Returns {test: microseconds} and what went wrong, or None.  Nothing of the run is left behind."""
    process = subprocess.Popen(["env", *shlex.split(command), "-samples", str(samples), *tests], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        out, err = process.communicate(timeout=SECONDS_A_RUN)
        wrong = None if process.returncode == 0 else f"exit code {process.returncode}: {err.strip()[-300:]}"
    except subprocess.TimeoutExpired:
        out, wrong = "", f"it did not end in {SECONDS_A_RUN} s"
    finally:
        if process.poll() is None:
            kill_tree(process.pid)
            process.communicate()

    try:
        return figures(out), wrong
    except ValueError:
        return {}, wrong or f"it prints other lines than TEST BYTES MICROSECONDS: {out.strip()[-300:]}"


def tests_of(name, tests):
    if name not in LIBRARIES or LIBRARIES[name].collectives:
        return tests

    return [test for test in tests if test.partition(":")[0] not in COLLECTIVES + ["barrier"]]


def measure(programs, tests, args):
    found = collections.defaultdict(list)
    failed = {}
    for _ in range(args.repeat):
        for name, command in programs.items():
            if name in failed or not tests_of(name, tests):
                continue

            values, wrong = run(command, tests_of(name, tests), args.samples)
            if wrong:
                failed[name] = wrong

            for test, us in values.items():
                found[test, name].append(us)

    return found, failed


def report(found, programs, args):
    peers = [name for name in programs if name != "amphora"]
    print(f"{'test':<12}{'bytes':>9}{'n':>4}{'amphora us':>12}" + "".join(f"{p + ' us':>14}{'ratio':>8}" for p in peers))
    for test in dict.fromkeys(test for test, name in found if name == "amphora"):
        name, size = test.split(":")
        own = statistics.median(found[test, "amphora"])
        line = f"{name:<12}{size:>9}{args.n:>4}{own:>12.4g}"
        for peer in peers:
            if found.get((test, peer)):
                us = statistics.median(found[test, peer])
                line += f"{us:>14.4g}{us / own:>8.2f}"
            else:
                line += f"{'-':>14}{'-':>8}"

        print(line)


def peer_of(text):
    name, equals, command = text.partition("=")
    if not (name and equals and shlex.split(command)):
        raise ValueError

    return name, command


peer_of.__name__ = "NAME=COMMAND"  # argparse puts it into its sentence


def positive(text):
    if int(text) < 1:
        raise ValueError

    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-builddir", metavar="DIR")
    parser.add_argument("-conduit", default="smp", choices=["smp", "tcp"])
    parser.add_argument("-n", type=positive, default=2)
    parser.add_argument("-repeat", type=positive, default=3)
    parser.add_argument("-samples", type=positive, default=9)
    parser.add_argument("-library", choices=list(LIBRARIES), action="append", default=[])
    parser.add_argument("-peer", type=peer_of, action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("tests", nargs="*")
    args = parser.parse_args()
    args.builddir = build_folder(args.builddir)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))

    with tempfile.TemporaryDirectory(prefix="amphora-peer.") as folder:
        programs = {"amphora": amphora(args, folder)}
        for name, library in LIBRARIES.items():
            if name in args.library or (not args.library and library.here()):
                programs[name] = library.command(args, folder)

        for name, command in args.peer:
            programs[name] = command.replace("{n}", str(args.n))

        found, failed = measure(programs, args.tests or default_tests(args.n), args)

    report(found, programs, args)
    for name, wrong in failed.items():
        print(f"compare.py: {name}: {wrong}", file=sys.stderr)

    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
