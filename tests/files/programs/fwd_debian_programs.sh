# SPDX-License-Identifier: BSD-3-Clause
# Programs of Debian, sourced by fwd_debian.sh: each function works in the present directory, prints what it found there, and
# leaves only files that are the same in each run.  debian_programs lists them: NAME PROGRAM.
debian_programs='emacs emacs
vim vim
mercurial hg
redis redis-server
php php
ruby ruby
ocaml ocamlc
erlang erl
sbcl sbcl
ffmpeg ffmpeg
graphviz dot
gnuplot gnuplot
r R
archives 7z
borg borg
cmake ninja
tcl tclsh
lua lua5.4
guile guile
awk gawk
perl perl'

in_emacs() {
    printf 'hello\nworld\n' >in.txt
    emacs --batch -Q --eval '(setq backup-enable-predicate (lambda (name) t))' \
        --eval '(progn (find-file "in.txt") (goto-char (point-max)) (insert "more\n") (save-buffer) (write-file "out.txt"))'
    cat in.txt in.txt~ out.txt
}

in_vim() {
    printf 'a\nb\nc\n' >v.txt
    vim -es -u NONE -c '%s/b/BEE/' -c wq v.txt
    printf 'x\n' >w.txt
    vim -es -u NONE --cmd 'set swapfile directory=.' -c 'normal ihello ' -c 'w! w2.txt' -c 'q!' w.txt
    cat v.txt w2.txt
    ls -A
}

in_mercurial() {
    export HGUSER=t HGRCPATH=
    hg init r
    cd r || return
    echo one >a
    hg add a
    hg commit -m first -d '0 0'
    echo two >>a
    hg commit -m second -d '0 0'
    hg log -p
    hg verify
    hg update -r 0
    hg bundle --all ../b.hg
    cd ..
    hg clone r r2
    cat r2/a
    rm r2/.hg/hgrc # has the path of r
}

in_redis() {
    socket=$TMPDIR/redis.$$
    redis-server --port 0 --unixsocket "$socket" --dir "$PWD" --appendonly yes --appendfsync always --daemonize no --save '' >log 2>&1 &
    server=$!
    for k in $(seq 300); do
        redis-cli -s "$socket" ping 2>/dev/null | grep -q PONG && break
        sleep 0.1
    done
    for k in 1 2 3 4 5; do
        redis-cli -s "$socket" set "k$k" "v$k"
    done
    redis-cli -s "$socket" save
    redis-cli -s "$socket" shutdown
    wait $server
    echo "exit code $?"
    ls
    redis-check-rdb dump.rdb | grep -c keys
    rm -r log appendonlydir dump.rdb
}

in_php() {
    php -r '
        $f = fopen("a.csv", "w"); for ($i = 0; $i < 1000; $i++) fputcsv($f, [$i, $i * $i]); fclose($f);
        $s = 0; foreach (file("a.csv") as $l) $s += str_getcsv($l)[1]; echo $s, "\n";
        file_put_contents("b", "x", FILE_APPEND | LOCK_EX); file_put_contents("b", "y", FILE_APPEND | LOCK_EX); echo file_get_contents("b"), "\n";
        mkdir("d"); touch("d/z", 1000, 1000); print_r(scandir("d")); echo filemtime("d/z"), "\n";
        var_dump(rename("d/z", "d/q")); print_r(glob("*")); copy("a.csv", "c.csv"); echo md5_file("c.csv"), "\n";'
}

in_ruby() {
    ruby -e '
        require "fileutils"; require "pstore"; require "tempfile"
        File.write("a", "hello\n" * 1000); puts IO.readlines("a").size
        s = PStore.new("p"); s.transaction { s[:x] = [1, 2, 3] }; s.transaction(true) { p s[:x] }
        FileUtils.mkdir_p("d/e/f"); FileUtils.cp("a", "d/e/f/b"); puts Dir["**/*"].sort
        File.open("a", "r+") { |f| f.flock(File::LOCK_EX); f.seek(-6, IO::SEEK_END); f.write("HELLO\n"); f.truncate(600) }
        puts File.size("a"); FileUtils.rm_rf("d"); puts Dir.children(".").sort
        t = Tempfile.new("t", "."); t.write "x"; t.flush; puts File.size(t.path); t.close!
        puts File.stat("a").mode.to_s(8); IO.copy_stream("a", "z"); puts FileUtils.cmp("a", "z")'
}

# By the interpreter only: what ocamlc makes would be executed from the prefix, which no trapped program may.
in_ocaml() {
    cat >t.ml <<'END'
let () =
  let oc = open_out "o.txt" in
  for i = 1 to 1000 do Printf.fprintf oc "%d\n" (i * i) done;
  close_out oc;
  let ic = open_in "o.txt" in
  let s = ref 0 in
  (try while true do s := !s + int_of_string (input_line ic) done with End_of_file -> ());
  close_in ic;
  Printf.printf "%d\n" !s;
  let ic = open_in_bin "o.txt" in
  seek_in ic 10;
  Printf.printf "%s %d\n" (input_line ic) (in_channel_length ic);
  Array.iter print_endline (let a = Sys.readdir "." in Array.sort compare a; a)
END
    ocamlc -o t.byte t.ml
    ls
    rm t.byte t.cmi t.cmo
    ocaml t.ml
}

in_erlang() {
    erl -noshell -eval '
        ok = file:write_file("a", lists:duplicate(1000, "line\n")), {ok, B} = file:read_file("a"), io:format("~p~n", [byte_size(B)]),
        {ok, D} = dets:open_file(t, [{file, "t.dets"}]), ok = dets:insert(D, [{K, K * K} || K <- lists:seq(1, 100)]),
        io:format("~p~n", [dets:lookup(D, 7)]), ok = dets:close(D), {ok, L} = file:list_dir("."), io:format("~p~n", [lists:sort(L)]),
        {ok, F} = file:open("r", [read, write, raw, binary]), ok = file:pwrite(F, 100, <<"xyz">>),
        io:format("~p~n", [file:pread(F, 98, 5)]), ok = file:close(F), halt().'
    rm t.dets
}

in_sbcl() {
    sbcl --noinform --non-interactive --no-userinit \
        --eval '(with-open-file (s "l.txt" :direction :output :if-exists :supersede) (dotimes (i 500) (format s "~d~%" (* i i))))' \
        --eval '(with-open-file (s "l.txt") (print (loop for x = (read s nil) while x sum x)))' \
        --eval '(print (mapcar (function file-namestring) (directory "*.*")))' \
        --eval '(with-open-file (s "l.txt" :direction :io :if-exists :append) (write-line "end" s) (print (file-length s)))' \
        --eval '(rename-file "l.txt" "m.txt")' --eval '(terpri)'
    echo '(defun f (x) (* x x))' >c.lisp
    sbcl --noinform --non-interactive --no-userinit --eval '(compile-file "c.lisp")' --eval '(load "c.fasl")' --eval '(print (f 12))' | tail -n 1
    rm c.fasl
}

in_ffmpeg() {
    ffmpeg -nostdin -v error -f lavfi -i testsrc=duration=1:size=64x64:rate=10 -c:v mpeg4 -flags +bitexact -fflags +bitexact a.avi
    ffmpeg -nostdin -v error -i a.avi -f framemd5 -
    ffmpeg -nostdin -v error -i a.avi -c copy -movflags +faststart -fflags +bitexact b.mp4
    ffprobe -v error -show_entries format=duration,size b.mp4
    ffmpeg -nostdin -v error -i b.mp4 f%02d.png
    ls
    rm ./*.png
}

in_graphviz() {
    echo 'digraph { a -> b -> c; a -> c; }' >g.dot
    dot -Tsvg -o g.svg g.dot
    dot -Tpdf -O g.dot
    ls
    rm ./*.pdf # has the time
}

in_gnuplot() {
    seq 100 | awk '{ print $1, sin($1 / 10) }' >d
    gnuplot -e 'set term svg; set output "p.svg"; plot "d" with lines; set table "t"; plot "d"'
    ls
    grep -v '^#' t | head -n 3
    rm p.svg t
}

in_r() {
    R --vanilla --slave -e '
        x <- data.frame(a = 1:1000, b = (1:1000)^2); write.csv(x, "x.csv", row.names = FALSE); cat(sum(read.csv("x.csv")$b), "\n")
        saveRDS(x, "x.rds"); cat(identical(readRDS("x.rds"), x), "\n")
        con <- file("l.txt", "w"); for (i in 1:10) cat(i, "\n", file = con); close(con); cat(length(readLines("l.txt")), "\n")
        print(file.info("x.csv")$size); print(list.files()); sink("s.txt"); print(1:3); sink(); cat(readLines("s.txt"), "\n")
        z <- gzfile("z.gz", "w"); writeLines(letters, z); close(z); cat(readLines("z.gz")[26], "\n")
        print(file.rename("l.txt", "k.txt")); print(unlink("k.txt"))'
    rm z.gz
}

in_archives() {
    seq 10000 >n
    mkdir d x y
    cp n d/m
    7z a -bd -bso0 a.7z n d
    7z t -bd a.7z | grep -c Ok
    (cd x && 7z x -bd -bso0 ../a.7z && cmp n ../n && echo same)
    zip -q -r a.zip n d
    unzip -t a.zip | tail -n 1
    unzip -q a.zip -d y && cmp y/d/m n && echo same
    rm a.7z a.zip
}

in_borg() {
    export BORG_BASE_DIR="$TMPDIR/borg.$$" BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes
    mkdir s o
    seq 20000 >s/a
    borg init -e none r
    borg create r::one s
    seq 5 >s/b
    borg create r::two s
    borg list --short r
    borg check r && borg delete r::one && (cd o && borg extract ../r::two) && cmp o/s/a s/a && echo same
    rm -rf r "$BORG_BASE_DIR"
}

# What is built is linked but not started: no trapped program may be executed from the prefix.
in_cmake() {
    mkdir src
    cat >src/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(t C)
add_library(l SHARED l.c)
add_executable(m m.c)
target_link_libraries(m l)
END
    echo 'int f(void) { return 42; }' >src/l.c
    echo 'int f(void); int main(void) { return f(); }' >src/m.c
    cmake -S src -B b -G Ninja >/dev/null && ninja -C b | tail -n 1
    touch src/l.c
    ninja -C b | tail -n 1
    ninja -C b | tail -n 1
    cp b/m b/libl.so "$TMPDIR"
    LD_LIBRARY_PATH=$TMPDIR "$TMPDIR/m"
    echo "exit code $?"
    rm -r b
}

in_tcl() {
    cat >t.tcl <<'END'
set f [open a w]; for {set i 0} {$i < 100} {incr i} {puts $f $i}; close $f
set f [open a]; set n 0; while {[gets $f l] >= 0} {incr n $l}; close $f; puts $n
file mkdir d; file copy a d/b; file rename d/b d/c; puts [lsort [glob -nocomplain * d/*]]; puts [file size d/c]
set f [open a r+]; seek $f 5; puts -nonewline $f X; close $f; puts [exec head -c 10 a]
END
    tclsh t.tcl
}

in_lua() {
    lua5.4 -e '
        local f = assert(io.open("a", "w")); for i = 1, 100 do f:write(i, "\n") end; f:close()
        local s = 0; for l in io.lines("a") do s = s + tonumber(l) end; print(s)
        local g = io.open("a", "r+"); g:seek("set", 3); g:write("Z"); g:close(); print(io.open("a"):read(6))
        os.rename("a", "b"); print(io.open("a")); local p = io.popen("wc -l <b"); print(p:read("a")); p:close()
        print(os.remove("b"), os.remove("b")); local t = io.tmpfile(); t:write("x"); t:seek("set"); print(t:read("a"))'
}

in_guile() {
    GUILE_AUTO_COMPILE=0 guile -c '
        (use-modules (ice-9 ftw))
        (call-with-output-file "a" (lambda (p) (do ((i 0 (+ i 1))) ((= i 100)) (write i p) (newline p))))
        (display (call-with-input-file "a" (lambda (p) (let loop ((s 0) (x (read p))) (if (eof-object? x) s (loop (+ s x) (read p)))))))
        (newline) (display (stat:size (stat "a"))) (newline) (rename-file "a" "b") (display (scandir ".")) (newline)'
}

in_awk() {
    for awk in gawk mawk; do
        $awk 'BEGIN {
            for (i = 0; i < 1000; i++) print i, i % 7 >"n"
            close("n")
            while ((getline l <"n") > 0) { split(l, f, " "); s[f[2]] += f[1] }
            for (k = 0; k < 7; k++) print s[k] | "sort -n"
            close("sort -n"); printf "%d\n", 5 >>"n"; close("n"); "wc -l <n" | getline c; print c }'
    done
    gawk -i inplace '{ gsub(/5/, "five") } 1' n
    echo '2^100' | bc >b
    cat b
}

in_perl() {
    perl -MFile::Find -MFile::Copy -MStorable -MDB_File -e '
        open F, ">a"; print F "$_\n" for 1..100; close F; copy "a", "b";
        find({ wanted => sub { print "$File::Find::name\n" }, preprocess => sub { sort @_ } }, ".");
        tie %h, "DB_File", "h.db"; $h{$_} = $_ * 2 for 1..50; untie %h; tie %g, "DB_File", "h.db"; print $g{7}, "\n"; untie %g;
        store [1, 2], "s"; print retrieve("s")->[1], "\n"; open F, "+<a"; flock F, 2; seek F, 0, 2; print F "end\n"; truncate F, 50; close F;
        print -s "a", "\n"; opendir D, "."; print join(",", sort grep !/^\./, readdir D), "\n"; print `cat a | wc -c`;
        rename "a", "z"; print((stat "z")[7], "\n"); unlink "z"; @ARGV = ("b"); $^I = ".bak"; while (<>) { s/1/one/; print }'
    rm h.db s
}
