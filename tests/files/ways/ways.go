// SPDX-License-Identifier: BSD-3-Clause

// One file operation of the matrix of ways, in Go; see ways.c.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	_ "os/user" // with cgo the program is a dynamic one
	"path/filepath"
	"syscall"
)

var dir string

func inDir(name string) string {
	return filepath.Join(dir, name)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func open(name string, flags int) *os.File {
	f, err := os.OpenFile(inDir(name), flags, 0644)
	check(err)
	return f
}

func sum(data []byte) int {
	n := 0
	for _, c := range data {
		n += int(c)
	}
	return n
}

func present(name string) string {
	if _, err := os.Stat(inDir(name)); err == nil {
		return "exists"
	}
	return "missing"
}

func mapped(name string, flags, prot, how int) []byte {
	f := open(name, flags)
	st, err := f.Stat()
	check(err)
	data, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), prot, how)
	check(err)
	return data
}

func run(words ...string) {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	check(cmd.Run())
}

func lock() error {
	l := syscall.Flock_t{Type: syscall.F_WRLCK}
	return syscall.FcntlFlock(open("log", os.O_RDWR).Fd(), syscall.F_SETLK, &l)
}

func main() {
	dir = os.Args[2]
	if len(os.Args) > 3 {
		check(syscall.Dup3(int(open("printed", os.O_WRONLY|os.O_CREATE|os.O_TRUNC).Fd()), 1, 0))
	}

	switch os.Args[1] {
	case "read":
		data, err := os.ReadFile(inDir("in"))
		check(err)
		fmt.Println("lines", bytes.Count(data, []byte("\n")), "sum", sum(data))
	case "write":
		f := open("new", os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		for i := 0; i < 2000; i++ {
			_, err := fmt.Fprintf(f, "line %d\n", i)
			check(err)
		}
		check(f.Close())
		fmt.Println("written")
	case "list":
		entries, err := os.ReadDir(dir)
		check(err)
		for _, e := range entries {
			fmt.Println(e.Name())
		}
	case "stat":
		st, err := os.Stat(inDir("in"))
		check(err)
		fmt.Println("size", st.Size())
		fmt.Println("none", present("none"))
	case "append":
		f := open("log", os.O_WRONLY|os.O_APPEND)
		for _, line := range []string{"second\n", "third\n"} {
			_, err := f.WriteString(line)
			check(err)
		}
		fmt.Println("appended")
	case "rename":
		check(os.Rename(inDir("old"), inDir("moved")))
		fmt.Println("old", present("old"))
	case "mmap":
		fmt.Println("sum", sum(mapped("in", os.O_RDONLY, syscall.PROT_READ, syscall.MAP_PRIVATE)))
	case "share":
		data := mapped("map", os.O_RDWR, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
		copy(data, "mapped")
		check(syscall.Munmap(data))
		fmt.Println("mapped")
	case "exec":
		run("cat", inDir("log"))
	case "lock":
		check(lock())
		run(os.Args[0], "trylock", dir)
	case "trylock":
		if lock() == nil {
			fmt.Println("free")
		} else {
			fmt.Println("held")
		}
	case "print":
		for i := 0; i < 3; i++ {
			fmt.Println("printed", i)
		}
	default:
		fmt.Fprintln(os.Stderr, "no operation", os.Args[1])
		os.Exit(2)
	}
}
