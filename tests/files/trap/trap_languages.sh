#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs in Go, and static ones in C++ and Rust, under iofwd-run -trap.
. "${srcdir:-.}/tests/files/trap/trap_lib.sh"
trap_or_skip "iofwd-run -trap"
export GO111MODULE=off GOCACHE="${GOCACHE:-${HOME:-/tmp}/.cache/go-build}"

go_cases="appends files children"
if command -v go >/dev/null && go build -o "$mp_dir/trap_go" "$srcdir/tests/files/trap/trap_go.go" 2>"$mp_dir/why"; then
    for case in $go_cases; do
        both trap_go "$case"
    done
else
    for case in $go_cases; do
        mp_skip "$case" "there is no go, or it cannot build"
    done
fi

cat >"$mp_dir/cpp.cc" <<'END'
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
namespace fs = std::filesystem;
int main(int, char **argv)
{
    fs::current_path(argv[2]);
    fs::create_directories("a/b");
    std::ofstream("a/b/f") << "line one\nline two\n";
    std::ifstream in("a/b/f");
    std::string line;
    std::getline(in, line);
    std::getline(in, line);
    fs::copy("a", "c", fs::copy_options::recursive);
    fs::rename("c/b/f", "c/b/g");
    std::fstream both("c/b/g", std::ios::in | std::ios::out | std::ios::ate);
    both << "three";
    both.close();
    bool good = line == "line two" && fs::file_size("c/b/g") == 23 && fs::is_directory("c/b") && !fs::exists("c/b/f");
    return good && fs::remove_all("c") == 3 ? 0 : 1;
}
END
if ${CXX:-c++} -std=c++17 -static -o "$mp_dir/cpp" "$mp_dir/cpp.cc" 2>"$mp_dir/why"; then
    both cpp "static-c++"
else
    mp_skip "static-c++" "no static C++ library"
fi

cat >"$mp_dir/rust.rs" <<'END'
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
fn main() -> std::io::Result<()> {
    let dir = std::env::args().nth(2).unwrap();
    std::env::set_current_dir(&dir)?;
    fs::create_dir_all("a/b")?;
    let mut f = fs::OpenOptions::new().read(true).write(true).create(true).open("a/b/f")?;
    f.write_all(b"hello world")?;
    f.seek(SeekFrom::Start(6))?;
    let mut s = String::new();
    f.read_to_string(&mut s)?;
    assert_eq!(s, "world");
    assert_eq!(fs::copy("a/b/f", "g")?, 11);
    let handles: Vec<_> = (0..4)
        .map(|i| std::thread::spawn(move || fs::write(format!("t{}", i), vec![i as u8; 100_000])))
        .collect();
    for h in handles {
        h.join().unwrap()?;
    }
    assert_eq!(fs::metadata("t3")?.len(), 100_000);
    assert_eq!(fs::read_dir(".")?.count(), 6);
    let out = std::process::Command::new("/bin/cat").stdin(fs::File::open("g")?).output()?;
    assert_eq!(out.stdout, b"hello world");
    fs::remove_dir_all("a")
}
END
if command -v rustc >/dev/null && rustc -C target-feature=+crt-static -o "$mp_dir/rust" "$mp_dir/rust.rs" 2>"$mp_dir/why"; then
    both rust "static-rust"
else
    mp_skip "static-rust" "there is no rustc, or it cannot link statically"
fi
mp_done
