// SPDX-License-Identifier: BSD-3-Clause
// For trap_languages.sh: PROGRAM CASE DIRECTORY.  Go makes system calls by itself, and its scheduler interrupts threads by SIGURG.
package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Appends from several goroutines while every thread gets SIGURG all the time.
func appends() {
	count := 10000
	if text := os.Getenv("APPENDS"); text != "" {
		count, _ = strconv.Atoi(text)
	}

	const writers = 4
	var wg sync.WaitGroup
	var over atomic.Bool
	var sent atomic.Int64

	go func() {
		for !over.Load() {
			threads, _ := os.ReadDir("/proc/self/task")
			for _, t := range threads {
				id, _ := strconv.Atoi(t.Name())
				syscall.Tgkill(os.Getpid(), id, syscall.SIGURG)
				sent.Add(1)
			}
			time.Sleep(100 * time.Microsecond)
		}
	}()

	for w := 0; w < writers; w++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			f, err := os.OpenFile("log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			must(err)
			for i := 0; i < count/writers; i++ {
				n, err := f.Write([]byte("0123456789abcde\n"))
				must(err)
				if n != 16 {
					panic(n)
				}
			}
			must(f.Close())
		}()
	}

	wg.Wait()

	// On a busy machine a few appends may end before the first signals are sent.
	for sent.Load() < 10 {
		time.Sleep(time.Millisecond)
	}
	over.Store(true)

	info, err := os.Stat("log")
	must(err)
	if info.Size() != int64(count/writers*writers*16) {
		panic(fmt.Sprint("length ", info.Size(), " after ", sent.Load(), " signals"))
	}
}

// Files, directories and names from many goroutines.
func files() {
	var wg sync.WaitGroup
	data := bytes.Repeat([]byte("amphora "), 40000)

	for w := 0; w < 8; w++ {
		wg.Add(1)
		go func(w int) {
			defer wg.Done()
			dir := filepath.Join("d"+strconv.Itoa(w), "sub")
			must(os.MkdirAll(dir, 0o755))
			for i := 0; i < 5; i++ {
				name := filepath.Join(dir, strconv.Itoa(i))
				must(os.WriteFile(name, data, 0o644))
				back, err := os.ReadFile(name)
				must(err)
				if !bytes.Equal(back, data) {
					panic(name)
				}
				must(os.Rename(name, name+".new"))
			}
		}(w)
	}

	wg.Wait()

	n := 0
	must(filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		must(err)
		if d.Type().IsRegular() {
			n++
		}
		return nil
	}))
	if n != 40 {
		panic(n)
	}

	in, err := os.Open("d0/sub/0.new")
	must(err)
	out, err := os.Create("copy")
	must(err)
	copied, err := io.Copy(out, in)
	must(err)
	must(out.Close())
	if copied != int64(len(data)) {
		panic(copied)
	}
	must(os.RemoveAll("d0"))
}

// Children with redirected files.
func children() {
	for i := 0; i < 10; i++ {
		out, err := os.Create("out")
		must(err)
		in, err := os.Open("out")
		must(err)

		cmd := exec.Command("/bin/sh", "-c", "pwd; echo line $0; cat <&0 >/dev/null", strconv.Itoa(i))
		cmd.Stdout = out
		cmd.Stdin = in
		must(cmd.Run())
		must(out.Close())

		text, err := io.ReadAll(in)
		must(err)
		here, err := os.Getwd()
		must(err)
		_ = text
		whole, err := os.ReadFile("out")
		must(err)
		if string(whole) != here+"\nline "+strconv.Itoa(i)+"\n" {
			panic(string(whole))
		}
	}
}

func main() {
	must(os.Chdir(os.Args[2]))
	map[string]func(){"appends": appends, "files": files, "children": children}[os.Args[1]]()
}
