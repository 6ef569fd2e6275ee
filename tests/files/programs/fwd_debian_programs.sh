# SPDX-License-Identifier: BSD-3-Clause
# Programs of Debian, sourced by fwd_debian.sh: each function works in the present directory, prints what it found there, and
# leaves only files that are the same in each run.  debian_programs lists them: NAME PROGRAM, and the ways that doc/limits.md excludes: fpc
# and go are static, some databases need memory that processes share, mksh low descriptors, and attributes access lists.
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
perl perl
parsers bison
subversion svn
cvs cvs
fossil fossil
gnupg gpg
ada gnatmake
pascal fpc preload
images mksquashfs
disks qemu-img
netcdf ncgen
documents gs
copies cpio
mirrors rsync
history git
packages dpkg-deb
shells fish
mksh mksh trap
gdbm gdbmtool trap
db db5.3_load
lmdb mdb_load trap
wal sqlite3 trap
javac javac
go go preload
core gdb
attributes setfattr mount
locks flock
node node
maxima maxima
prolog swipl
logrotate logrotate
mopac mopac
grib grib_set
sequences minimap2
nss certutil
yara yara
wim wimcapture
ext2 genext2fs
ntfs mkntfs
chunks casync
duplicates rdfind
lammps lmp
climate cdo
elements getdp'

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

in_parsers() {
    cat >calc.y <<'END'
%{
#include <stdio.h>
int yylex(void);
void yyerror(const char *text) { fprintf(stderr, "%s\n", text); }
%}
%token NUMBER
%left '+'
%left '*'
%%
lines: | lines expr '\n' { printf("%d\n", $2); };
expr: NUMBER | expr '+' expr { $$ = $1 + $3; } | expr '*' expr { $$ = $1 * $3; };
%%
int main(void) { return yyparse(); }
END
    cat >scan.l <<'END'
%{
#include "calc.tab.h"
extern int yylval;
%}
%option noyywrap nounput noinput
%%
[0-9]+ { yylval = atoi(yytext); return NUMBER; }
[+*\n] { return yytext[0]; }
%%
END
    bison -d -v calc.y
    flex -o scan.c scan.l
    gcc -c scan.c calc.tab.c && gcc -o calc scan.o calc.tab.o && cp calc "$TMPDIR/calc.$$"
    printf '2+3*4\n7*6\n' >sums
    "$TMPDIR/calc.$$" <sums
    printf 'define(f, `$1 and $2'"'"')dnl\nf(one, two)\ninclude(sums)divert(1)last\ndivert(0)first\n' >m.m4
    m4 m.m4 | tee m.txt
    printf 'global f\nsection .text\nf: mov eax, 42\nret\n' >f.asm
    nasm -f elf64 -o f.o f.asm && objdump -d f.o | tail -n 2
    rm "$TMPDIR/calc.$$" calc
}

in_subversion() {
    svnadmin create r
    mkdir w && (cd w && seq 500 >a && mkdir d && echo x >d/b)
    svn import -q -m one w "file://$PWD/r/trunk"
    svn checkout -q "file://$PWD/r/trunk" c
    (cd c && sed -i s/250/changed/ a && svn diff | tail -n 6 && svn commit -q -m two && svn copy -q a z && svn commit -q -m three && svn update -q && svn status &&
        svn log -q | grep -c '^r' && svn cat -r 2 a | cksum)
    svnadmin verify -q r && svnadmin dump -q r | grep -c Node-path && svnadmin hotcopy r h && svnadmin pack -q h && svnlook youngest h
    rm -rf r h c/.svn
}

in_cvs() {
    cvs -d "$PWD/r" init
    mkdir w && (cd w && seq 100 >a && cvs -Q -d "$PWD/../r" import -m one m v1 r1)
    cvs -Q -d "$PWD/r" checkout m
    (cd m && sed -i s/50/fifty/ a && cvs -Q commit -m two && cvs -Q diff -r 1.1 a | grep -v '^[-+]\{3\}' | tail -n 4; cvs log a | grep -c '^revision' && cvs -Q annotate a 2>/dev/null | grep -c 1.2)
    echo one >v && ci -q -i -u -mfirst -t-text v && co -q -l v && echo two >>v && ci -q -u -msecond v && rcsdiff -q -r1.1 v; rlog v | grep -c '^revision'
    rm -rf r m/CVS v,v
}

in_fossil() {
    export USER=u
    fossil init -A u r.fossil | grep -c project-id
    mkdir w && cd w && fossil open -f ../r.fossil >/dev/null && seq 300 >a && mkdir d && echo x >d/b && fossil add a d >/dev/null && fossil commit -m one --no-warnings >/dev/null
    sed -i s/150/changed/ a && fossil diff | tail -n 5 && fossil commit -m two --no-warnings >/dev/null && fossil timeline -n 9 | grep -c user && fossil test-integrity -R ../r.fossil | tail -n 1
    fossil update --quiet prev >/dev/null; grep -c changed a; fossil close && cd .. && rm r.fossil
}

in_gnupg() {
    export GNUPGHOME="$TMPDIR/g.$$"
    mkdir -m 700 "$GNUPGHOME"
    seq 20000 >n
    gpg --batch -q --pinentry-mode loopback --passphrase p --symmetric -o n.gpg n && gpg --batch -q --pinentry-mode loopback --passphrase p -o m -d n.gpg && cmp n m && echo same
    gpg --batch -q --pinentry-mode loopback --passphrase '' --quick-gen-key t@t default default never 2>/dev/null
    gpg --batch -q --detach-sign n && gpg --batch -q --verify n.sig n 2>/dev/null && echo good
    gpg --batch -q --armor --export t@t | grep -c PUBLIC
    gpgconf --kill all
    rm -rf n.gpg n.sig "$GNUPGHOME"
}

in_ada() {
    cat >t.adb <<'END'
with Ada.Text_IO; use Ada.Text_IO;
with Ada.Direct_IO;
with Ada.Directories;
procedure T is
   package D is new Ada.Direct_IO (Integer);
   F : D.File_Type;
   L : File_Type;
   N : Integer;
begin
   D.Create (F, D.Inout_File, "d");
   for I in 1 .. 1000 loop D.Write (F, I * I); end loop;
   D.Read (F, N, 77);
   Put_Line (Integer'Image (N) & D.Count'Image (D.Size (F)));
   D.Close (F);
   Create (L, Out_File, "l");
   for I in 1 .. 100 loop Put_Line (L, Integer'Image (I)); end loop;
   Close (L);
   Open (L, Append_File, "l"); Put_Line (L, "end"); Close (L);
   Open (L, In_File, "l");
   while not End_Of_File (L) loop Skip_Line (L); end loop;
   Put_Line (Count'Image (Line (L)));
   Delete (L);
   Put_Line (Boolean'Image (Ada.Directories.Exists ("l")) & Ada.Directories.File_Size'Image (Ada.Directories.Size ("d")));
end T;
END
    gnatmake -q t.adb && mv t "$TMPDIR/t.$$" && "$TMPDIR/t.$$"
    rm "$TMPDIR/t.$$" t.ali
}

in_pascal() {
    cat >t.pas <<'END'
program t;
type r = record a: longint; b: string[20]; end;
var f: file of r; x: r; l: text; i, s: longint;
begin
  assign(f, 'd'); rewrite(f);
  for i := 1 to 500 do begin x.a := i * i; x.b := 'row'; write(f, x); end;
  seek(f, 76); read(f, x); writeln(x.a, ' ', filesize(f)); close(f);
  assign(l, 'l'); rewrite(l); for i := 1 to 100 do writeln(l, i); close(l);
  append(l); writeln(l, 1000); close(l);
  reset(l); s := 0; while not eof(l) do begin readln(l, i); s := s + i; end; close(l);
  writeln(s); rename(l, 'k'); mkdir('e'); chdir('e'); chdir('..'); rmdir('e');
end.
END
    fpc -v0 t.pas >/dev/null && mv t "$TMPDIR/t.$$" && "$TMPDIR/t.$$"
    rm "$TMPDIR/t.$$"
}

in_images() {
    mkdir -p t/d && seq 20000 >t/a && ln t/a t/h && ln -s a t/l && head -c 300000 /dev/zero >t/z && echo x >t/d/x && touch -d 2001-01-01 t/a t/z t/d/x t/d t
    mksquashfs t s.img -quiet -no-progress -all-root -mkfs-time 0 -processors 2 >/dev/null && unsquashfs -q -n -d u s.img >/dev/null && diff -r t u && echo same
    unsquashfs -s s.img | grep -c Compression
    xorriso -outdev x.iso -map t / -commit -quiet 2>/dev/null; xorriso -osirrox on -indev x.iso -extract / v 2>/dev/null; diff -r t v && echo same
    truncate -s 3M f.img && mformat -i f.img -N 1234 :: && mcopy -i f.img t/a t/z :: && mdir -b -i f.img :: && mcopy -n -i f.img ::a b && cmp t/a b && mdel -i f.img ::z && mdir -b -i f.img ::
    chmod -R u+w v; rm -rf s.img x.iso f.img u v
}

in_disks() {
    qemu-img create -q -f qcow2 a.qcow2 20M
    qemu-io -f qcow2 -c 'write -P 7 1M 3M' -c 'write -P 9 10M 64k' -c 'flush' a.qcow2 | grep -c wrote
    qemu-img convert -O raw a.qcow2 a.raw && cksum a.raw && qemu-img convert -O qcow2 -c a.raw b.qcow2 && qemu-img compare a.qcow2 b.qcow2 && qemu-img check a.qcow2 | head -n 1
    qemu-img snapshot -c s a.qcow2 && qemu-io -f qcow2 -c 'write -P 1 2M 1M' a.qcow2 >/dev/null && qemu-img snapshot -a s a.qcow2 && qemu-img compare a.qcow2 a.raw
    qemu-img resize -q a.qcow2 30M && qemu-img info a.qcow2 | grep 'virtual size'
    rm ./*.qcow2
}

in_netcdf() {
    printf 'netcdf t { dimensions: x = 100, t = unlimited; variables: int a(t, x); double b(x); a:units = "m"; data: b = ' >t.cdl
    seq -s, 100 | tr -d '\n' >>t.cdl
    echo '; a = 1, 2, 3; }' >>t.cdl
    ncgen -k nc3 -o 3.nc t.cdl && ncdump -h 3.nc && ncgen -k nc4 -o 4.nc t.cdl && ncdump -v b 4.nc | tail -n 3 && nccopy -d 5 4.nc 5.nc && ncdump -s -h 5.nc | grep -c Deflate
    h5ls -r 4.nc | head -n 5; h5repack -f GZIP=3 4.nc 6.nc && h5diff 4.nc 6.nc && echo same; h5dump -d /b -s 3 -c 4 6.nc | tail -n 6; h5stat 6.nc | grep -c Filename
    rm 4.nc 5.nc 6.nc
}

in_documents() {
    export MAN_DISABLE_SECCOMP=1 # doc/limits.md
    printf '.TH T 1\n.SH NAME\nt \\- text\n.PP\n.B bold\nwords\n' >t.1
    groff -man -Tutf8 t.1 | head -n 5; groff -man -Tps t.1 | grep -v '^%%CreationDate' >t.ps; man -l t.1 | tail -n 3
    gs -q -dBATCH -dNOPAUSE -sDEVICE=pbmraw -r30 -sOutputFile=p%d.pbm t.ps && cksum p1.pbm && gs -q -dBATCH -dNOPAUSE -sDEVICE=pdfwrite -sOutputFile=t.pdf t.ps
    qpdf --linearize --deterministic-id t.pdf l.pdf && qpdf --check l.pdf | tail -n 1; qpdf --show-npages l.pdf
    printf '<r><a n="1">x</a><a n="2">y</a></r>' >t.xml
    printf '<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="a"><xsl:value-of select="@n"/>,</xsl:template></xsl:stylesheet>' >t.xsl
    xsltproc -o t.out t.xsl t.xml && cat t.out && xmllint --format --output f.xml t.xml && cat f.xml && xmllint --xpath '//a[2]/text()' f.xml
    jq -n '[range(100)] | {n: length, s: add}' >j.json && jq -c . j.json; printf 'helo wrld\n' >w && aspell -l en list <w
    rm t.pdf l.pdf t.ps
}

in_copies() {
    mkdir -p s/d && seq 30000 >s/a && ln s/a s/h && ln -s a s/l && mkfifo s/f && truncate -s 5M s/sparse && echo end >>s/sparse && chmod 4711 s/h && touch -d '2001-02-03 04:05:06.789' s/a s/d
    find s | sort | cpio -o --quiet -H newc >c.cpio && mkdir c && (cd c && cpio -idm --quiet <../c.cpio && stat -c '%n %h %a %y' s/a && ls s) && cpio -it --quiet <c.cpio
    pax -w -x ustar -f p.pax s && mkdir p && (cd p && pax -r -pe -f ../p.pax && stat -c '%n %h %a' s/a) && pax -f p.pax | sort
    tar -cSf t.tar --listed-incremental=i s && echo new >s/n && rm s/l && tar -cSf u.tar --listed-incremental=i s && mkdir t && tar -C t -xf t.tar --listed-incremental=/dev/null && tar -C t -xf u.tar --listed-incremental=/dev/null && diff -r s/d t/s/d && cmp s/sparse t/s/sparse && ls t/s && tar -dSf u.tar && stat -c '%b' t/s/sparse | awk '{ print $1 < 100 }'
    for z in 'zstd -q -T2 -19' 'xz -T2' 'lzip' 'bzip2' 'gzip -n'; do cp s/a z && $z z && ls z.* && cat z.* | ${z%% *} -dc | cmp - s/a && rm z.*; rm -f z; done
    zstd -q --train s/a c/s/a t/s/a s/d/.. -o dict 2>/dev/null; zstd -q --long s/a -o q.zst && zstd -q -d --rm q.zst -o q && cmp q s/a && ls q*
    dd if=s/sparse of=copy conv=sparse bs=64k status=none && cmp copy s/sparse && cp --sparse=always --preserve=all s/sparse copy2 && cmp copy2 copy
    rm -rf i c.cpio p.pax t.tar u.tar dict s/f c/s/f p/s/f t/s/f
}

in_mirrors() {
    mkdir -p s/d/e && for i in $(seq 60); do seq "$i" 500 >"s/d/$i"; done && ln s/d/1 s/one && ln s/d/1 s/d/e/one && ln -s ../1 s/d/e/l && truncate -s 3M s/hole && chmod 600 s/d/7 && touch -d 2001-01-01 s/d/[0-9]*
    rsync -aHS s/ a/ && diff -r s a && stat -c %h a/one && rsync -aHSi --delete s/ a/
    sleep 1.1 && rm s/d/2 s/one && echo more >>s/d/3 && mv s/d/4 s/d/new && rsync -aHSi --delete s/ a/ | sort && diff -r s a && stat -c %h a/d/1
    echo again >>s/d/5 && rsync -aH --link-dest="$PWD/a" s/ b/ && stat -c %h b/d/6 b/d/5 && rsync -a --inplace --no-whole-file s/d/5 a/d/5 && cmp s/d/5 a/d/5
    rsync -a --delete --backup --backup-dir="$PWD/old" --fuzzy --partial-dir=.p --exclude e s/d/ b/d/ && ls old b/d | cksum; rsync -acn --out-format=%n s/ b/ | sort
    rsync -a --write-batch=w.b s/ n/ && rsync -a --read-batch=w.b m/ && diff -r n m && echo same; rm -f w.b*
}

in_history() {
    export GIT_AUTHOR_DATE='@1000000000 +0000' GIT_COMMITTER_DATE='@1000000000 +0000' GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e
    git init -q -b main a && cd a && for i in $(seq 20); do seq "$i" 200 >f; echo "$i" >"g$i"; git add . && git commit -qm "$i"; done
    git clone -q --bare . ../b.git && git clone -q ../b.git ../c && git gc -q --aggressive && git fsck --strict 2>&1 && git repack -qadb && git count-objects -v | grep -c packs
    git worktree add -q ../w HEAD~5 2>/dev/null && (cd ../w && git log --oneline | wc -l) && git worktree remove ../w && git worktree list | wc -l
    git bisect start -q HEAD HEAD~15 >/dev/null && git bisect run sh -c 'test ! -e g12' | grep -c 'first bad' && git bisect reset -q 2>/dev/null
    echo x >>f && git stash -q && git stash pop -q && git diff --stat && git checkout -q f && git format-patch -q -3 -o ../p && git checkout -q -b side HEAD~3 && git am -q ../p/*.patch && git diff main --stat
    git checkout -q -b third main~6 && echo z >z && git add z && git commit -qm z && git rebase -q main 2>&1; git log --oneline | wc -l; git bundle create -q ../x.bundle main && git clone -q -b main ../x.bundle ../y && git -C ../y log --format=%H -1
    git tag -a -m t v1 && git push -q ../b.git v1 main 2>&1 && git archive --format=tar v1 | tar t | wc -l && git blame -s f | tail -n 1 && git grep -c 199 | head -n 3 && git sparse-checkout set --no-cone g1 && ls && git reflog | wc -l
    cd .. && git -C c fetch -q --tags && git -C c tag && git -C c fsck 2>/dev/null && rm -rf a/.git b.git c/.git y/.git x.bundle
}

in_packages() {
    mkdir -p t/DEBIAN t/usr/share/t && seq 1000 >t/usr/share/t/n && ln -s n t/usr/share/t/l && printf 'Package: t\nVersion: 1.0\nArchitecture: all\nMaintainer: m <m@m>\nDescription: text\n' >t/DEBIAN/control
    chmod -R go-w,a+rX t; SOURCE_DATE_EPOCH=1000000000 dpkg-deb --root-owner-group -Zxz -b t t.deb && dpkg-deb -I t.deb | tail -n 5 && dpkg-deb -c t.deb | awk '{ print $1, $6, $7, $8 }' && dpkg-deb -x t.deb x && diff -r t/usr x/usr && dpkg-deb -e t.deb c && cat c/control
    mkdir db && dpkg --root="$PWD" --admindir="$PWD/db" --info t.deb >/dev/null && ar t t.deb && ar p t.deb debian-binary && dpkg-scanpackages . 2>/dev/null | grep -c '^Package'
}

in_shells() {
    for sh in ${1:-dash bash ksh}; do
        echo "$sh"
        $sh -c 'for i in 1 2 3; do echo $i >>o; done; while read -r x; do y=$y$x; done <o; echo $y; (cd / && pwd); { echo e >&2; } 2>>o; cat o | tr 1 x; exec <o; read -r z; echo $z; trap "echo bye >>o" EXIT; cat <<E
here $y
E
[ -s o ] && test o -nt / && echo newer; echo *; rm -f none; umask 077; : >u; ls -l u | cut -c1-10'
        cat o; rm o u
    done
    [ $# = 0 ] || return 0
    fish -N -c 'for i in 1 2 3; echo $i >>o; end; while read x; set y $y$x; end <o; echo $y; cat o | string replace 1 x; set n (count *); echo $n; test -s o; and echo full; mkdir -p d/e; cd d/e; cd ../..; rm -r d'
    tcsh -f -c 'foreach i (1 2 3)
echo $i >>t
end
cat t; set n = `wc -l <t`; echo $n; if (-s t) echo full; pushd / >/dev/null; popd >/dev/null; echo *'
}

in_mksh() {
    in_shells mksh
}

in_gdbm() {
    for i in $(seq 300); do echo "store k$i v$((i * i))"; done >in
    { echo 'open g.db'; cat in; echo 'count'; echo 'fetch k17'; echo 'delete k18'; echo 'reorganize'; echo count; } >cmds && gdbmtool -q -f cmds && gdbm_dump g.db | grep -c '^#'
    rm g.db
}

btree() {
    printf 'VERSION=3\nformat=print\ntype=btree\nHEADER=END\n'
    for i in $(seq 100 299); do printf ' k%s\n v%s\n' "$i" "$i"; done
    echo DATA=END
}

# The size of a page comes from st_blksize, which differs.
in_db() {
    btree >d.txt
    db5.3_load -f d.txt b.db && db5.3_verify b.db && db5.3_dump -p b.db | grep -v db_pagesize | cksum && db5.3_stat -d b.db | grep keys
    rm b.db
}

in_lmdb() {
    btree >d.txt
    mdb_load -f d.txt -n m.db && mdb_stat -n m.db | tail -n 1 && mdb_dump -p -n m.db | grep -c '^ k' && mdb_copy -n -c m.db m2.db && mdb_dump -p -n m2.db | tail -n 2
    rm m.db* m2.db*
}

in_wal() {
    sqlite3 w.db 'pragma journal_mode = wal; create table t (a); insert into t values (1), (2); select sum(a) from t;'
    (for i in 1 2 3 4 5; do sqlite3 -cmd '.timeout 20000' w.db 'insert into t values (3)'; done) &
    for i in 1 2 3 4 5; do sqlite3 -cmd '.timeout 20000' w.db 'insert into t values (4)'; done
    wait
    sqlite3 w.db 'pragma wal_checkpoint(truncate); pragma integrity_check; select count(*), sum(a) from t'
    rm -f w.db*
}

in_javac() {
    mkdir -p s/p && printf 'package p; public class A { public static int f(int x) { return x * x; } }' >s/p/A.java && printf 'import p.A; public class M { public static void main(String[] a) throws Exception { System.out.println(A.f(12)); try (var o = new java.io.RandomAccessFile("r", "rw")) { o.seek(1000); o.writeUTF("text"); System.out.println(o.length()); } } }' >s/M.java
    javac -d c -sourcepath s s/M.java && ls -R c && java -Xshare:auto -cp c M && jar cf m.jar -C c . && jar tf m.jar | sort && java -cp m.jar M && javap -cp c p.A | tail -n 3
    rm m.jar
}

in_go() {
    export GOCACHE="$PWD/cache" GOPATH="$PWD/path" GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=0
    mkdir -p m/q && cd m && printf 'module t\n\ngo 1.18\n' >go.mod && printf 'package q\n\nfunc F(x int) int { return x * x }\n' >q/q.go && printf 'package q\n\nimport "testing"\n\nfunc TestF(t *testing.T) {\n\tif F(3) != 9 {\n\t\tt.Fatal()\n\t}\n}\n' >q/q_test.go
    printf 'package main\n\nimport (\n\t"fmt"\n\t"t/q"\n)\n\nfunc main() { fmt.Println(q.F(12)) }\n' >main.go
    go vet ./... && go build -trimpath -ldflags=-buildid= -o "$TMPDIR/go.$$" . && "$TMPDIR/go.$$" && cksum <"$TMPDIR/go.$$" && gofmt -l . && go list ./...
    rm -rf "$TMPDIR/go.$$" ../cache ../path
}

in_core() {
    printf '#include <stdlib.h>\nint answer = 42;\nstatic void f(int x) { answer += x; abort(); }\nint main(int c, char **v) { f(c); return 0; }\n' >p.c
    gcc -g -O0 -o p p.c && cp p "$TMPDIR/p.$$"
    gdb -q -batch -nx -ex 'set startup-with-shell off' -ex run -ex 'generate-core-file core.x' -ex 'bt 3' "$TMPDIR/p.$$" 2>&1 | grep -c 'SIGABRT\|Saved corefile'
    gdb -q -batch -nx -ex 'print answer' -ex 'frame function f' -ex 'print x' "$TMPDIR/p.$$" core.x 2>/dev/null | grep '^\$'
    readelf -h core.x | grep Type; gdb -q -batch -nx -ex 'info line f' -ex 'list f' p 2>&1 | tail -n 3
    rm core.x p "$TMPDIR/p.$$"
}

in_attributes() {
    truncate -s 10M sparse && echo middle | dd of=sparse bs=1 seek=5000000 conv=notrunc status=none
    mkdir d && seq 100 >d/f && ln d/f d/g && ln -s f d/l && chmod 751 d
    setfattr -n user.key -v value d/f && setfacl -m u:1:r d/f
    touch -d @1000000000 d/f d sparse
    tar -S --xattrs --acls -cf a.tar sparse d && mkdir x && tar -S --xattrs --acls -C x -xpf a.tar && cmp sparse x/sparse && getfattr -d x/d/f && getfacl -c x/d/f
    stat -c '%n %a %Y %h %s' x/d x/d/f x/sparse && du -k x/sparse | awk '{ print $1 < 2000 }'
    cp -a --reflink=auto d d2 && cp -a --sparse=always sparse sparse2 && stat -c '%n %a %Y %h' d2/f d2 && getfattr -d d2/f
    rsync -aHAX d/ d3/ && getfacl -c d3/f && stat -c '%a %Y %h' d3/f && rsync -aHAXin d/ d3/
    rm -r a.tar x d2 d3 d/l d/f d/g
}

# Each adds to a number in a file, with another kind of lock.
in_locks() {
    perl -MFcntl=:flock,:DEFAULT -e 'sysopen(F, "p", O_RDWR | O_CREAT); syswrite F, "0\n"; close F;
        for (1 .. 3) { if (!fork) { for (1 .. 40) { open(F, "+<", "p"); flock(F, LOCK_EX); $n = <F>; seek F, 0, 0; print F $n + 1, "\n"; close F } exit } }
        1 while wait > 0; open F, "p"; print <F>'
    python3 -c '
import fcntl, os
open("f", "w").write("0")
os.symlink("f", "link")
for name in ["f", "link", "f"]:
    if os.fork() == 0:
        for k in range(40):
            with open(name, "r+") as f:
                fcntl.lockf(f, fcntl.LOCK_EX)
                n = int(f.read())
                f.seek(0)
                f.write(str(n + 1))
        os._exit(0)
for i in range(3):
    os.wait()
print(open("f").read())'
    echo 0 >s
    for i in 1 2 3; do
        (for k in 1 2 3 4 5; do flock l sh -c 'read -r n <s; echo $((n + 1)) >s'; done) &
    done
    wait
    cat s
    rm f link
}

in_node() {
    node -e '
        const fs = require("fs");
        fs.writeFileSync("a", "hello"); fs.appendFileSync("a", " more"); console.log(fs.readFileSync("a", "utf8"));
        fs.mkdirSync("d/e/f", { recursive: true }); fs.copyFileSync("a", "d/e/b", fs.constants.COPYFILE_FICLONE); fs.cpSync("d", "d2", { recursive: true });
        fs.symlinkSync("a", "l"); console.log(fs.readlinkSync("l"), fs.realpathSync.native("l").endsWith("/a"), fs.lstatSync("l").isSymbolicLink());
        const w = fs.createWriteStream("s"); for (let i = 0; i < 5000; i++) w.write("line " + i + "\n");
        w.end(async () => {
            let n = 0; for await (const c of fs.createReadStream("s")) n += c.length; console.log(n);
            const h = await fs.promises.open("a", "r+"); await h.write("X", 0); await h.truncate(3); await h.datasync(); await h.close();
            await fs.promises.rm("d2", { recursive: true }); fs.utimesSync("a", 1, 2); console.log(fs.statSync("a").mtimeMs, fs.readdirSync(".").sort());
            try { fs.readFileSync("none"); } catch (e) { console.log(e.code); }
        });'
    rm l
}

# Its malloc may not be called before main.
in_maxima() {
    maxima --very-quiet --batch-string='f: integrate(x^2*sin(x), x)$ save("s.lisp", f)$ kill(all)$ load("s.lisp")$ with_stdout("o.txt", print(f))$' |
        grep -v s.lisp
    cat o.txt
    rm s.lisp
}

in_prolog() {
    cat >t.pl <<'END'
:- open(a, write, S), forall(between(1, 100, X), format(S, "f(~d).~n", [X])), close(S).
:- consult(a), aggregate_all(sum(X), f(X), N), writeln(N).
:- make_directory_path('d/e'), copy_file(a, 'd/b'), size_file('d/b', Z), writeln(Z), delete_directory_and_contents(d).
:- set_time_file(a, _, [modified(1000000000)]), directory_files('.', L), msort(L, M), writeln(M).
:- open(l, append, S, [lock(write)]), write(S, x), close(S).
END
    swipl -q -g halt t.pl && stat -c %Y a
}

in_logrotate() {
    seq 1000 >a.log && seq 500 >b.log && chmod 600 a.log
    printf '%s/*.log { rotate 3\n compress\n delaycompress\n size 100\n create 0640\n sharedscripts\n postrotate\n echo post >>%s/post\n endscript\n}\n' "$PWD" "$PWD" >c
    for i in 1 2 3; do
        logrotate -f -s st c
        echo "line$i" >>a.log
    done
    stat -c '%n %a' ./*log*
    zcat a.log.2.gz | tail -n 1
    cat post
    rm st c ./*.gz
}

in_mopac() {
    printf 'PM6 PRECISE\nwater\n\nO 0 0 0 0 0 0\nH 0.96 1 0 0 0 0 1\nH 0.96 1 104 1 0 0 1 2\n' >w.mop
    mopac w.mop >/dev/null 2>&1
    grep 'FINAL HEAT' w.out
    rm w.out w.arc
}

in_grib() {
    cp /usr/share/eccodes/samples/GRIB2.tmpl a.grib
    grib_set -s dataDate=20200101,step=6 a.grib b.grib
    grib_ls -p dataDate,step,shortName b.grib
    cat a.grib b.grib >c.grib
    grib_count c.grib
    grib_copy -w step=6 c.grib 'd_[step].grib'
    grib_compare a.grib b.grib | head -n 3
    grib_index_build -o idx c.grib >/dev/null
    rm idx
}

in_sequences() {
    awk 'BEGIN {
        srand(1)
        for (i = 1; i <= 6; i++) {
            print ">s" i
            for (j = 0; j < 300; j++)
                printf "%s", substr("ACGT", int(rand() * 4) + 1, 1)
            print ""
        }
    }' >s.fa
    minimap2 -d r.mmi s.fa 2>/dev/null
    head -n 2 s.fa >q.fa
    minimap2 -c r.mmi q.fa 2>/dev/null | cut -f1-9
}

in_nss() {
    mkdir n n2
    certutil -N -d sql:n --empty-password
    certutil -N -d sql:n2 --empty-password
    head -c 100 /dev/urandom >noise
    certutil -S -d sql:n -n ca -s CN=ca -x -t C,, -z noise -m 1 2>&1 | grep -v '^$\|Gener\|moment'
    certutil -L -d sql:n -n ca -a | grep -c CERT
    pk12util -o p.p12 -n ca -d sql:n -W pw
    pk12util -i p.p12 -d sql:n2 -W pw
    certutil -L -d sql:n2 | grep ca
    rm -r n n2 p.p12 noise
}

in_yara() {
    printf 'rule r { strings: $a = "needle" condition: $a }\n' >y.yar
    mkdir h
    for i in $(seq 20); do
        echo "hay$i" >"h/$i"
    done
    echo xneedlex >>h/7
    yara -r y.yar h
    yarac y.yar y.c && yara -C y.c h/7
    rm y.c
}

in_wim() {
    mkdir s s/d
    for i in $(seq 30); do
        seq "$i" 3000 >"s/$i"
    done
    ln -s 1 s/l
    echo x >s/d/y
    wimcapture s w.wim --solid --check --quiet
    wimapply w.wim o --quiet
    diff -r s o && echo same
    echo z >s/new
    wimappend s w.wim two --quiet
    wimupdate w.wim 1 --command='delete /5' --quiet
    wimextract w.wim 1 /6 --dest-dir=e --quiet && cmp e/6 s/6 && echo same
    wimoptimize w.wim --check --quiet && wimverify w.wim --quiet && echo right
    rm w.wim
}

in_ext2() {
    mkdir s s/d
    seq 3000 >s/5
    echo x >s/d/y
    genext2fs -b 4096 -d s -U -N 100 g.img 2>/dev/null
    e2cp g.img:/5 five && cmp five s/5 && echo same
    e2cp five g.img:/six && e2mkdir g.img:/dd && e2rm g.img:/5
    e2ls g.img:/ | wc -w
    rm g.img
}

in_ntfs() {
    truncate -s 16M n.img
    seq 3000 >nine
    mkntfs -q -F -f n.img
    ntfscp -q -f n.img nine nine
    ntfscat -f n.img nine | cmp - nine && ntfsls -f n.img
    ntfsclone -q -s -o n.clone n.img && ntfsclone -q -r -O n2.img n.clone
    ntfscat -f n2.img nine | cksum
    rm n.img n2.img n.clone
}

in_chunks() {
    mkdir s s/d
    seq 60000 >s/a
    cp s/a s/b
    ln s/a s/d/h && ln -s ../a s/d/l
    chmod 640 s/b
    touch -d 2001-01-01 s/a s/b s/d s
    casync make --store=st.castr i.caidx s >i.digest && casync extract --store=st.castr i.caidx o
    diff -r s o && stat -c '%n %a %Y %h' o/a o/b o/d
    rm -r st.castr i.caidx i.digest
}

in_duplicates() {
    mkdir d s t
    seq 100 >d/a
    cp d/a d/b && cp d/a d/c
    seq 5 >d/e
    jdupes -r d | sort
    rdfind -outputname r -makehardlinks true d >/dev/null
    stat -c '%n %h' d/*
    cp -r d s/p
    stow -d s -t t p && find t -type l | sort
    stow -d s -t t -D p && find t
    rm r
}

in_lammps() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
    cat >melt <<'X'
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
dump 1 all custom 50 d.*.txt id x y z vx
dump 2 all custom 50 all.gz id type x
thermo 50
run 100
write_restart at100
write_data data
X
    cat >again <<'X'
read_restart at100
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
thermo 50
run 50
write_dump all custom end.txt id x y z
X
    lmp -in melt -log m.log -screen none && lmp -in again -log a.log -screen none
    awk '/^ *Step/, /^Loop/' m.log a.log | grep -v Loop
    gzip -dc all.gz | cksum
    rm m.log a.log all.gz
}

in_climate() {
    cdo -s --no_history -f nc4 -z zip_3 remapbil,r36x18 -topo t.nc
    cdo -s --no_history mul t.nc -addc,1 t.nc m.nc && cdo -s infon m.nc
    ncks -h -O --no_tmp_fl -d lat,0,8 t.nc s.nc && ncap2 -h -O -s 'twice=2*topo' s.nc w.nc && ncks -h -O -v twice w.nc v.nc
    ncwa -h -O -a lat s.nc a.nc && ncdump v.nc | cksum
    cdo -s --no_history sellonlatbox,-20,20,-10,10 t.nc b.nc && cdo -s outputtab,lon,lat,value b.nc | tail -n 3
}

in_elements() {
    cat >g.geo <<'X'
h = 0.1;
Point(1) = {0, 0, 0, h}; Point(2) = {1, 0, 0, h}; Point(3) = {1, 1, 0, h}; Point(4) = {0, 1, 0, h};
Line(1) = {1, 2}; Line(2) = {2, 3}; Line(3) = {3, 4}; Line(4) = {4, 1};
Curve Loop(1) = {1, 2, 3, 4}; Plane Surface(1) = {1};
Physical Surface(1) = {1}; Physical Curve(2) = {4}; Physical Curve(3) = {2};
X
    cat >p.pro <<'X'
Group { Omega = Region[1]; Left = Region[2]; Right = Region[3]; }
Constraint { { Name C; Case { { Region Left; Value 0; } { Region Right; Value 1; } } } }
FunctionSpace { { Name H; Type Form0; BasisFunction { { Name s; NameOfCoef v; Function BF_Node; Support Omega; Entity NodesOf[All]; } }
  Constraint { { NameOfCoef v; EntityType NodesOf; NameOfConstraint C; } } } }
Jacobian { { Name J; Case { { Region All; Jacobian Vol; } } } }
Integration { { Name I; Case { { Type Gauss; Case { { GeoElement Triangle; NumberOfPoints 3; } } } } } }
Formulation { { Name F; Type FemEquation; Quantity { { Name v; Type Local; NameOfSpace H; } }
  Equation { Galerkin { [ Dof{d v}, {d v} ]; In Omega; Jacobian J; Integration I; } } } }
Resolution { { Name R; System { { Name A; NameOfFormulation F; } } Operation { Generate[A]; Solve[A]; SaveSolution[A]; } } }
PostProcessing { { Name P; NameOfFormulation F; Quantity { { Name v; Value { Local { [ {v} ]; In Omega; Jacobian J; } } } } } }
PostOperation { { Name O; NameOfPostProcessing P; Operation { Print[ v, OnElementsOf Omega, File "v.pos" ]; Print[ v, OnLine {{0,0.5,0}{1,0.5,0}} {10}, File "line.txt", Format Table ]; } } }
X
    gmsh -2 -format msh22 -v 1 g.geo -o g.msh && getdp p.pro -msh g.msh -solve R -pos O -v 1
    awk '{ printf "%.6f\n", $NF }' line.txt
    head -n 2 g.msh
    rm -f p.pre p.res
}
