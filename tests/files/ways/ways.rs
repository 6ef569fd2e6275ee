// SPDX-License-Identifier: BSD-3-Clause
// One file operation of the matrix of ways, in Rust; see ways.c.  No crate beside the standard library is needed.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::process::{exit, Command};

extern "C" {
    fn dup2(from: i32, to: i32) -> i32;
    fn lockf(fd: i32, how: i32, len: i64) -> i32;
    fn mmap(at: *mut u8, len: usize, prot: i32, flags: i32, fd: i32, off: i64) -> *mut u8;
    fn msync(at: *mut u8, len: usize, flags: i32) -> i32;
    fn munmap(at: *mut u8, len: usize) -> i32;
}

const TRY: i32 = 2;
const SYNC: i32 = 4;

fn sum(data: &[u8]) -> u64 {
    data.iter().map(|c| u64::from(*c)).sum()
}

fn present(path: PathBuf) -> &'static str {
    if path.exists() { "exists" } else { "missing" }
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn lock(dir: &Path) -> io::Result<()> {
    let f = OpenOptions::new().read(true).write(true).open(dir.join("log"))?;
    check(unsafe { lockf(f.into_raw_fd(), TRY, 0) })
}

fn map(path: PathBuf, shared: bool) -> io::Result<&'static mut [u8]> {
    let f = OpenOptions::new().read(true).write(shared).open(&path)?;
    let len = fs::metadata(&path)?.len() as usize;
    let (prot, flags) = if shared { (3, 1) } else { (1, 2) };
    let at = unsafe { mmap(std::ptr::null_mut(), len, prot, flags, f.as_raw_fd(), 0) };

    if at as isize == -1 {
        return Err(io::Error::last_os_error());
    }

    Ok(unsafe { std::slice::from_raw_parts_mut(at, len) })
}

fn run(program: &str, words: &[&Path]) -> io::Result<()> {
    let status = Command::new(program).args(words).status()?;

    if status.success() { Ok(()) } else { Err(io::Error::new(io::ErrorKind::Other, "the program failed")) }
}

fn operate(own: &str, operation: &str, dir: &Path, redirect: bool) -> io::Result<()> {
    if redirect {
        let f = File::create(dir.join("printed"))?;
        check(unsafe { dup2(f.as_raw_fd(), 1) })?;
    }

    match operation {
        "read" => {
            let data = fs::read(dir.join("in"))?;
            let lines = data.iter().filter(|c| **c == b'\n').count();
            println!("lines {} sum {}", lines, sum(&data));
        }
        "write" => {
            let mut f = io::BufWriter::new(File::create(dir.join("new"))?);
            for i in 0..2000 {
                writeln!(f, "line {}", i)?;
            }
            f.flush()?;
            println!("written");
        }
        "list" => {
            let mut names = Vec::new();
            for entry in fs::read_dir(dir)? {
                names.push(entry?.file_name());
            }
            names.sort();
            for name in names {
                println!("{}", name.to_string_lossy());
            }
        }
        "stat" => {
            println!("size {}", fs::metadata(dir.join("in"))?.len());
            println!("none {}", present(dir.join("none")));
        }
        "append" => {
            let mut f = OpenOptions::new().append(true).open(dir.join("log"))?;
            f.write_all(b"second\n")?;
            f.write_all(b"third\n")?;
            println!("appended");
        }
        "rename" => {
            fs::rename(dir.join("old"), dir.join("moved"))?;
            println!("old {}", present(dir.join("old")));
        }
        "mmap" => println!("sum {}", sum(map(dir.join("in"), false)?)),
        "share" => {
            let data = map(dir.join("map"), true)?;
            data[..6].copy_from_slice(b"mapped");
            check(unsafe { msync(data.as_mut_ptr(), data.len(), SYNC) })?;
            check(unsafe { munmap(data.as_mut_ptr(), data.len()) })?;
            println!("mapped");
        }
        "exec" => run("cat", &[&dir.join("log")])?,
        "lock" => {
            lock(dir)?;
            run(own, &[Path::new("trylock"), dir])?;
        }
        "trylock" => println!("{}", if lock(dir).is_ok() { "free" } else { "held" }),
        "print" => {
            for i in 0..3 {
                println!("printed {}", i);
            }
        }
        _ => return Err(io::Error::new(io::ErrorKind::Other, "no such operation")),
    }

    io::stdout().flush()
}

fn main() {
    let words: Vec<String> = std::env::args().collect();

    if let Err(e) = operate(&words[0], &words[1], Path::new(&words[2]), words.len() > 3) {
        eprintln!("{}", e);
        exit(1);
    }
}
