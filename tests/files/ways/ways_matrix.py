#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The matrix of ways: languages x linkages x ways x operations; ways_matrix.sh calls it and ways_expected.txt says what is right.

A cell runs one operation of a program below /fwd, which no path of this host reaches, and compares output and files with a run in a
local directory.  So a call that is not forwarded fails.  Each program is also run below /fwd without any way: it must fail there.
Prints TAP, a case for each language, linkage and way, and writes a line for each cell to the file of results.
"""
import concurrent.futures
import fnmatch
import os
import pathlib
import shutil
import subprocess
import sys

OPERATIONS = "read write list stat append rename mmap share exec lock print".split()
WAYS = "preload wrapper instrument mount trap".split()
LINKAGES = "dynamic-pie dynamic-no-pie static-pie static-no-pie".split()
LANGUAGES = {"c": "ways.c", "c++": "ways.cc", "fortran": "ways.f90", "go": "ways.go", "rust": "ways.rs", "java": "Ways.java"}
SECONDS = 60
BUILD_SECONDS = 240

here = pathlib.Path(__file__).resolve().parent
build = pathlib.Path(os.environ["builddir"])
work = pathlib.Path(os.environ["mp_dir"])
addresses = work / "addresses"
kept = work / "kept"


def run(words, env=None, seconds=SECONDS):
    """The exit code, the output and the errors of a program; 124 if it takes too long."""
    try:
        done = subprocess.run([str(w) for w in words], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=seconds, cwd="/", errors="replace")
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return 124, "", "it has not ended after %d s" % seconds


# ---- building ----

GNU_FLAGS = {
    "dynamic-pie": ["-fPIE", "-pie"],
    "dynamic-no-pie": ["-fno-pie", "-no-pie"],
    "static-pie": ["-fPIE", "-static-pie"],
    "static-no-pie": ["-fno-pie", "-static"],
}
GO_FLAGS = {
    "dynamic-pie": ("1", ["-buildmode=pie"]),
    "dynamic-no-pie": ("1", ["-buildmode=exe"]),
    "static-pie": ("1", ["-buildmode=pie", "-tags=osusergo", "-ldflags=-linkmode=external -extldflags=-static-pie"]),
    "static-no-pie": ("0", ["-buildmode=exe"]),
}
RUST_FLAGS = {
    "dynamic-pie": ["-Crelocation-model=pie"],
    "dynamic-no-pie": ["-Crelocation-model=static"],
    "static-pie": ["-Ctarget-feature=+crt-static", "-Crelocation-model=pie"],
    "static-no-pie": ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"],
}
GNU_COMPILERS = {"c": ["gcc"], "c++": ["g++", "-std=c++17"], "fortran": ["gfortran"]}


def compile_words(language, linkage, out, wrapped):
    """The compiler's command line, and what it needs in the environment."""
    source = here / LANGUAGES[language]
    wrapper = [str(build / "iofwd-cc")] if wrapped else []

    if language in GNU_COMPILERS:
        return wrapper + GNU_COMPILERS[language] + ["-O1", *GNU_FLAGS[linkage], source, "-o", out], {}

    if language == "rust":
        linker = ["-Clinker=" + wrapper[0]] if wrapped else []

        return ["rustc", "-O", *RUST_FLAGS[linkage], *linker, "-o", out, source], {"IOFWD_CC": "cc"}

    if language == "java":
        return ["javac", "-d", str(out) + ".classes", source], {}

    cgo, flags = GO_FLAGS[linkage]
    return ["go", "build", *flags, "-o", out, source], {
        "CGO_ENABLED": cgo, "GOFLAGS": "", "GO111MODULE": "off"}


# A small Java machine starts several times as fast.
JAVA = """#!/bin/sh
exec java -Xshare:auto -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Xmx64m -Dself="$0" -cp "$0.classes" Ways "$@"
"""


class Program:
    """A language and a linkage: the plain program, and those that wrapper and instrument make of it."""

    def __init__(self, language, linkage):
        self.language, self.linkage = language, linkage
        self.name = "%s %s" % (language, linkage)
        self.plain = work / "bin" / ("%s-%s" % (language, linkage))
        self.made = {}

    def make(self):
        words, env = compile_words(self.language, self.linkage, self.plain, False)
        code, _, errors = run(words, {**os.environ, **env}, BUILD_SECONDS)
        if code:
            return "%s: %s" % (self.name, errors)

        if self.language == "java":
            self.plain.write_text(JAVA)
            self.plain.chmod(0o755)

        for way in ("wrapper", "instrument"):
            if expectation(self, way, "read")[0] != "inapplicable":
                self.made[way] = self.make_by(way)

        return None

    def make_by(self, way):
        """The program that this way needs, or the error of its tool."""
        out = self.plain.with_name(self.plain.name + "." + way)

        if way == "wrapper":
            words, env = compile_words(self.language, self.linkage, out, True)
        else:
            words, env = [build / "iofwd-instrument", "-server", addresses, "-prefix", "/fwd", "-o", out, self.plain], {}

        code, _, errors = run(words, {**os.environ, **env}, BUILD_SECONDS)
        return (out, None) if code == 0 else (None, errors)


# ---- running ----

def clean_environment():
    """Without what would forward.  The wire's byte order stays, because the servers have it."""
    env = {k: v for k, v in os.environ.items()
           if k == "AMPHORA_TEST_SWAP" or not k.startswith(("IOFWD_", "AMPHORA_", "LD_"))}
    env["IOFWD_STRICT"] = "1"
    return env


def command(program, way, operation, path):
    """The command line of a cell, and its environment; the program may be missing if its tool refused."""
    env = clean_environment()
    attach = [build / "iofwd-run", "-servers", addresses, "-" + way]

    if way == "wrapper":
        env.update(AMPHORA_JOB=str(addresses), IOFWD_PREFIX="/fwd")

        # What a static program starts gets the library of the installation, which a build has not: the program itself ignores it.
        if program.linkage.startswith("static"):
            env["LD_PRELOAD"] = str(build / ".libs" / "libiofwd_preload.so")

    if way in program.made:
        return [program.made[way][0], operation, path] + (["self"] if operation == "print" else []), env
    if operation == "print":
        return attach + ["sh", "-c", 'exec "$1" print "$2" >"$2/printed"', "sh", program.plain, path], env

    return attach + [program.plain, operation, path], env


def seed(path):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    (path / "in").write_text("".join("%d\n" % i for i in range(1000)))
    (path / "log").write_text("first\n")
    (path / "old").write_text("old\n")
    (path / "map").write_bytes(b"x" * 5000)


def files(path):
    return {p.name: p.read_bytes() for p in path.iterdir()} if path.exists() else {}


def run_local(program, operation):
    """What the operation prints and leaves in a local directory."""
    path = work / "local" / program.plain.name / operation
    seed(path)
    words = [program.plain, operation, path] + (["self"] if operation == "print" else [])
    code, out, errors = run(words, clean_environment())
    return (out, files(path)) if code == 0 else (errors, None)


def run_cell(program, way, operation, local):
    """works, or refused with its sentence, or failed with the reason."""
    if way in program.made and program.made[way][0] is None:
        return "refused", program.made[way][1]

    name = "%s.%s.%s" % (program.plain.name, way, operation)
    seed(kept / name)
    words, env = command(program, way, operation, "/fwd/" + name)
    code, out, errors = run(words, env)

    if code:
        return "refused", "exit code %d: %s" % (code, errors)
    if local[1] is None:
        return "failed", "the local run failed: " + local[0]
    if out != local[0]:
        return "failed", "other output: %r, locally %r; %s" % (out, local[0], errors)

    return ("works", "") if files(kept / name) == local[1] else ("failed", "other files than locally; " + errors)


def reaches_nothing(program, locals_):
    """Without a way no operation does what it does locally: the path is one that only forwarding reaches."""
    name = program.plain.name + ".none"
    seed(kept / name)
    before = files(kept / name)

    for operation in OPERATIONS:
        code, out, _ = run([program.plain, operation, "/fwd/" + name], clean_environment())
        if operation != "print" and code == 0 and out == locals_[operation][0]:
            return False

    return files(kept / name) == before


# ---- what is right ----

def read_expected():
    rows = []
    for line in (here / "ways_expected.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            cell, _, sentence = line.partition("|")
            rows.append((cell.split(), sentence.strip()))
    return rows


EXPECTED = read_expected()


def expectation(program, way, operation):
    """The outcome that the first matching row names, and its sentence or reason; without a row it works."""
    cell = (program.language, program.linkage, way, operation)

    for row, sentence in EXPECTED:
        if all(fnmatch.fnmatchcase(have, want) for have, want in zip(cell, row)):
            return row[4], sentence

    return "works", ""


def judge(program, way, operation, local):
    """The line of a cell, and what is wrong with it."""
    outcome, sentence = expectation(program, way, operation)

    if outcome == "inapplicable":
        return (outcome, sentence), None

    got, text = run_cell(program, way, operation, local)
    right = got == outcome and sentence in " ".join(text.split())
    wrong = None if right else "%s: %s is expected, %s was found: %s" % (operation, outcome, got, text.strip())
    return (outcome if right else "failed", sentence), wrong


def judge_way(program, way, locals_):
    lines, wrongs = [], []

    for operation in OPERATIONS:
        (outcome, sentence), wrong = judge(program, way, operation, locals_[operation])
        lines.append("%s %s %s %s: %s%s" % (program.language, program.linkage, way, operation, outcome,
                                            " | " + sentence if sentence else ""))
        if wrong:
            wrongs.append(wrong)

    return lines, wrongs


def judge_program(program):
    """Builds a program and fills its cells: a list of (name of the case, lines, what is wrong)."""
    if all(expectation(program, way, operation)[0] == "inapplicable" for way in WAYS for operation in OPERATIONS):
        return [("%s: %s: inapplicable" % (program.name, way), judge_way(program, way, {o: None for o in OPERATIONS})[0], [])
                for way in WAYS]

    error = program.make()
    if error:
        return [(program.name + ": is built", [], [error])]

    locals_ = {operation: run_local(program, operation) for operation in OPERATIONS}
    cases = [(program.name + ": reaches nothing without a way", [], [] if reaches_nothing(program, locals_) else ["it does"])]

    for way in WAYS:
        lines, wrongs = judge_way(program, way, locals_)
        count = sum(": works" in line for line in lines)
        refused = sum(": refused" in line for line in lines)
        cases.append(("%s: %s: %d work, %d refused" % (program.name, way, count, refused), lines, wrongs))

    return cases


def main():
    languages, results = sys.argv[2:], pathlib.Path(sys.argv[1])
    programs = [Program(language, linkage) for language in languages for linkage in LINKAGES]
    (work / "bin").mkdir()

    # a program that stays keeps the namespace of -mount, which the others join
    holder = subprocess.Popen([build / "iofwd-run", "-servers", addresses, "-mount", "cat"], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL)
    number, failed = int(os.environ.get("WAYS_FIRST", "1")), 0

    with concurrent.futures.ThreadPoolExecutor(2) as pool, results.open("w") as out:
        for cases in pool.map(judge_program, programs):
            for name, lines, wrongs in cases:
                print("%sok %d - %s" % ("not " if wrongs else "", number, name))
                for wrong in wrongs:
                    print("\n".join("# " + part for part in wrong.splitlines()))
                sys.stdout.flush()
                out.writelines(line + "\n" for line in lines)
                number += 1
                failed += bool(wrongs)

    holder.stdin.close()
    holder.wait()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
