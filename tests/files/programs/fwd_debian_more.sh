# SPDX-License-Identifier: BSD-3-Clause
# More programs of Debian for fwd_debian.sh, in the form of fwd_debian_programs.sh: HDF5's and HDF4's tools, databases, backups, mail,
# languages, servers.  -trap refuses shared maps that are written (xfs_io, Mono, Kyoto Cabinet, systemd's journals, LMDB of BLAST) and
# programs below a prefix (Haskell).
debian_programs="$debian_programs
hdf5_tools h5repack
hdf4_tools hrepack
cgns cgnsconvert
io_commands xfs_io trap
mono mono trap
haskell ghc trap
kyoto kchashmgr trap
notmuch notmuch
dar dar
roots dpkg-scanpackages
partitions sgdisk
journal /lib/systemd/systemd-journal-remote trap
proteins blastp trap
reads samtools
nbd nbdcopy
broker mosquitto
darcs darcs trap
viruses clamscan
media gst-launch-1.0
ruby_stores gem"

in_hdf5_tools() {
    seq 4000 >numbers
    for group in a b; do
        printf 'PATH %s/x\nINPUT-CLASS TEXTIN\nINPUT-SIZE 32\nRANK 2\nDIMENSION-SIZES 40 100\n' "$group" >"$group.conf"
        h5import numbers -c "$group.conf" -o "$group.h5"
        echo "import $?"
        h5repack -f SHUF -f GZIP=4 -l CHUNK=10x10 "$group.h5" "$group.packed.h5"
        h5diff "$group.h5" "$group.packed.h5" && echo same
    done
    h5copy -p -i b.packed.h5 -o a.packed.h5 -s b/x -d deep/er/x
    h5ls -r a.packed.h5
    h5dump -d /deep/er/x -o text -y -w 60 a.packed.h5 >/dev/null
    h5dump -d /a/x -b LE -o binary a.packed.h5 >/dev/null
    cksum text binary
    h5jam -i a.h5 -u text -o jam.h5 && h5unjam -i jam.h5 -u text2 -o a2.h5 && cmp a.h5 a2.h5 && echo unjammed
    h5repart -m 10000 b.h5 part%02d.h5 && h5repart part%02d.h5 whole.h5 && h5diff whole.h5 b.h5 && echo whole
    h5clear -s a.packed.h5
    h5stat -S a.packed.h5
    rm ./*.h5 # with the times of their objects
}

in_hdf4_tools() {
    printf 'netcdf a { dimensions: x = 2000; t = UNLIMITED; variables: float v(t, x); int n(x); data: n = 1, 2, 3, 4; v = 5, 6, 7; }\n' >a.cdl
    ncgen-hdf -o a.hdf a.cdl
    ncdump-hdf a.hdf | cksum
    hrepack -i a.hdf -o packed.hdf -t '*:GZIP 6' | tail -n 2
    hdiff a.hdf packed.hdf
    hdp dumpsds packed.hdf | cksum
    hdfls packed.hdf | tail -n 3
}

in_cgns() {
    awk 'BEGIN { n = 12; print 1; print n, n, n
        for (d = 0; d < 3; d++) for (k = 0; k < n; k++) for (j = 0; j < n; j++) for (i = 0; i < n; i++) print d == 0 ? i : (d == 1 ? j : k) }' >grid.xyz
    plot3d_to_cgns -f grid.xyz grid.cgns
    cgnscheck grid.cgns | tail -n 2
    cgnsconvert -f -h grid.cgns h.cgns | grep -c format
    cgnsconvert -f -a grid.cgns a.cgns | grep -c format
    cgnsdiff -d a.cgns h.cgns && echo same
    cgnscompress a.cgns | tail -n 1
    cgnslist a.cgns
    cgns_to_vtk -a h.cgns . && cksum ./*.vtk
    rm ./*.cgns # with times
}

in_io_commands() {
    xfs_io -f -c 'pwrite -q -S 0x41 0 100k' -c 'truncate 60k' -c 'mmap -rw 0 60k' -c 'mwrite -S 0x42 4k 8k' -c 'msync -s' \
        -c 'mread -v 4090 20' -c munmap a
    xfs_io -c 'fpunch 8k 8k' -c 'fzero 20k 4k' -c 'pread -v 8190 4' -c 'falloc -k 60k 100k' -c 'falloc 0 100k' a | grep -v ops
    xfs_io -c 'pwrite -q -V 4 -b 4k 0 64k' -c 'pread -q -V 3 -b 1k 0 3k' -c 'sync_range 0 10k' -c fdatasync -c 'fadvise -d 0 10k' a
    xfs_io -d -c 'pwrite -q -b 4k 0 64k' -c 'pread -q -b 4k 4k 8k' a
    xfs_io -a -c 'pwrite -q 0 10' -c 'pwrite -q 0 10' a
    xfs_io -f -c 'copy_range a' b && cmp a b
    xfs_io -f -c 'sendfile -q -i b 0 50k' c && cmp -n 51200 b c
    xfs_io -f -c 'pwrite -q 1000000 1' -c 'seek -h 999999' sparse
    xfs_io -r -c 'pwrite 0 1' b
    xfs_io -c 'utimes 1000 5 2000 6' b
    stat -c '%n %s' a b c sparse
}

in_mono() {
    cat >m.cs <<'X'
using System; using System.IO; using System.IO.Compression; using System.IO.MemoryMappedFiles;
class M {
    static void Try(string what, Func<object> f) { try { Console.WriteLine(what + ": " + f()); } catch (Exception e) { Console.WriteLine(what + ": " + e.GetType().Name); } }
    static int Main() {
        File.WriteAllText("a", "hello\n"); File.AppendAllText("a", "more\n"); Try("lines", () => File.ReadAllLines("a").Length);
        using (var f = new FileStream("b", FileMode.Create, FileAccess.ReadWrite, FileShare.None)) {
            for (int i = 0; i < 1000; i++) f.Write(new byte[777], 0, 777);
            f.Seek(100, SeekOrigin.Begin); f.WriteByte(9); f.SetLength(50000); f.Flush(true);
            Try("shared", () => new FileStream("b", FileMode.Open).Length); Try("lock", () => { f.Lock(0, 10); f.Unlock(0, 10); return 1; });
        }
        using (var m = MemoryMappedFile.CreateFromFile("map", FileMode.Create, null, 100000)) using (var v = m.CreateViewAccessor()) { v.Write(5000, 1234567L); v.Flush(); }
        Try("map", () => BitConverter.ToInt64(File.ReadAllBytes("map"), 5000));
        Directory.CreateDirectory("d/e/f"); File.Copy("a", "d/e/c"); File.Move("d/e/c", "d/x"); Try("not empty", () => { Directory.Delete("d"); return 0; });
        Directory.Delete("d", true); File.SetLastWriteTimeUtc("a", new DateTime(2001, 1, 1)); Try("time", () => File.GetLastWriteTimeUtc("a").Year);
        Try("replace", () => { File.WriteAllText("r1", "1"); File.WriteAllText("r2", "2"); File.Replace("r1", "r2", "r3"); return File.ReadAllText("r2") + File.ReadAllText("r3"); });
        using (var g = new GZipStream(File.Create("g.gz"), CompressionMode.Compress)) g.Write(new byte[10000], 0, 10000);
        Try("missing", () => File.ReadAllText("none"));
        return 3;
    }
}
X
    mcs m.cs && mono m.exe
    echo "exit code $?"
    rm m.exe # with an identity of its own
}

in_haskell() {
    cat >Main.hs <<'X'
module Main where
import Control.Concurrent
import Control.Exception
import System.Directory
import System.IO
import Lib
main :: IO ()
main = do
  writeFile "a" (unlines (map show [1 .. 1000 :: Int]))
  s <- readFile "a"
  print (f (sum (map read (lines s))))
  h <- openFile "c" ReadWriteMode
  hSetBuffering h (BlockBuffering (Just 100)) >> hPutStr h (concat (replicate 1000 "abc")) >> hSeek h AbsoluteSeek 300 >> hGetChar h >>= print
  r <- try (openFile "c" ReadMode) :: IO (Either IOException Handle)
  putStrLn (either (const "locked") (const "open") r)
  hSetFileSize h 100 >> hClose h
  createDirectoryIfMissing True "d/e/f" >> renameFile "c" "d/e/c" >> getFileSize "d/e/c" >>= print >> removeDirectoryRecursive "d"
  m <- newEmptyMVar
  mapM_ (\i -> forkIO (writeFile ("t" ++ show i) (show i) >> putMVar m ())) [1 .. 10 :: Int]
  mapM_ (const (takeMVar m)) [1 .. 10 :: Int]
X
    printf 'module Lib where\nf :: Int -> Int\nf x = x * 2\n' >Lib.hs
    ghc -O -threaded -v0 Main.hs -o program && ./program +RTS -N2
    runghc Main.hs
    ls
    rm program ./*.o ./*.hi
}

in_kyoto() {
    for number in $(seq 500); do
        printf 'k%s\tvalue%s\n' "$number" "$number"
    done >list
    for kind in hash tree; do
        kc${kind}mgr create "$kind" && kc${kind}mgr import "$kind" list >/dev/null
        kc${kind}mgr get "$kind" k77
        kc${kind}mgr remove "$kind" k5
        kc${kind}mgr list "$kind" | wc -l
        kc${kind}mgr copy "$kind" copy-$kind >/dev/null
        kc${kind}mgr check copy-$kind | tail -n 1
        kc${kind}test queue -th 2 threads-$kind 1000 >/dev/null
        echo "exit code $?"
    done
    kcdirmgr create d && kcdirmgr import d list >/dev/null && kcdirmgr get d k9
    rm -r hash tree copy-* threads-* d
}

in_notmuch() {
    mkdir -p mail/cur mail/new mail/tmp
    for number in 10 11 12 13 14 15 16 17 18 19; do
        printf 'From: a@b\nSubject: topic %s\nDate: Mon, 1 Jan 2024 00:%s:00 +0000\nMessage-ID: <%s@x>\n\nbody %s\n' \
            $number $number $number $number >"mail/cur/$number:2,S"
    done
    printf '[database]\npath=%s/mail\n[user]\nname=u\nprimary_email=u@v\n[maildir]\nsynchronize_flags=true\n' "$PWD" >config
    export NOTMUCH_CONFIG="$PWD/config"
    notmuch new 2>&1 | grep -c Added
    notmuch tag +flagged id:13@x
    mv mail/cur/14:2,S mail/cur/14:2,RS
    notmuch new >/dev/null 2>&1
    notmuch search --output=messages --sort=oldest-first tag:flagged or tag:replied
    notmuch dump | sort
    notmuch compact --quiet
    echo "exit code $?"
    rm -r mail/.notmuch config
    ls mail/cur
}

in_dar() {
    mkdir s
    for number in 1 2 3 4 5 6 7 8; do
        head -c "${number}0000" /dev/zero | tr '\0' "$number" >"s/f$number"
    done
    ln -s f1 s/link
    setfattr -n user.a -v b s/f3
    dar -Q -c full -R s -s 20k -S 20k >/dev/null
    echo "exit code $?"
    dar -Q -t full >/dev/null && mkdir x && dar -Q -x full -R x >/dev/null && diff -r s x && getfattr -d x/f3
    echo more >>s/f5
    dar -Q -c part -A full -R s >/dev/null && dar -Q -l part | grep -c 'Saved'
    ls
    rm ./*.dar
}

in_roots() {
    mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates p/DEBIAN p/etc p/usr/bin
    : >root/var/lib/dpkg/status
    printf 'Package: p\nVersion: 1\nArchitecture: all\nMaintainer: m <a@b>\nDescription: x\n' >p/DEBIAN/control
    echo /etc/p.conf >p/DEBIAN/conffiles
    echo first >p/etc/p.conf
    for number in $(seq 40); do
        echo "$number" >"p/usr/bin/f$number"
    done
    dpkg-deb --root-owner-group -b p p1.deb >/dev/null
    install="dpkg --root=root --force-not-root --force-script-chrootless --force-confold"
    $install -i p1.deb >/dev/null
    echo local >>root/etc/p.conf
    echo second >p/etc/p.conf
    sed -i 's/Version: 1/Version: 2/' p/DEBIAN/control
    dpkg-deb --root-owner-group -b p p2.deb >/dev/null
    $install -i p2.deb >/dev/null 2>&1
    cat root/etc/p.conf root/etc/p.conf.dpkg-dist
    dpkg --root=root -l p | tail -n 1
    dpkg --root=root -S usr/bin/f7
    dpkg-scanpackages . 2>/dev/null | grep -c Package
    $install -P p >/dev/null
    find root -name 'f*' -o -name 'p.conf*' | sort
    rm -r root ./*.deb
}

in_partitions() {
    truncate -s 64M gpt dos
    sgdisk -U 00000000-0000-0000-0000-000000000001 -n 1:0:+10M -u 1:00000000-0000-0000-0000-000000000002 -p gpt | tail -n 2
    sgdisk -v gpt | head -n 2
    sgdisk -b table gpt >/dev/null && sgdisk -z gpt >/dev/null && sgdisk -l table gpt >/dev/null
    sgdisk -p gpt | tail -n 1
    if command -v sfdisk >/dev/null; then
        printf 'label: dos\nlabel-id: 0x1\n,10M,83\n,,82\n' | sfdisk -q dos
        sfdisk --delete dos 1 -q
        sfdisk -d dos
    fi
}

in_journal() {
    for number in $(seq 300); do
        printf '__REALTIME_TIMESTAMP=%s\n_BOOT_ID=00000000000000000000000000000001\nMESSAGE=message %s\nPRIORITY=%s\nBIG=%0*d\n\n' \
            $((1700000000000000 + number)) "$number" $((number % 7)) $((number * 11)) 1
    done >entries
    /lib/systemd/systemd-journal-remote -o kept.journal entries
    /lib/systemd/systemd-journal-remote -o kept.journal entries
    journalctl --file kept.journal -o cat | cksum
    journalctl --file kept.journal -o cat PRIORITY=3 | wc -l
    journalctl --file kept.journal --verify 2>&1 | grep -c PASS
    rm kept.journal
}

in_proteins() {
    awk 'BEGIN { for (n = 1; n <= 200; n++) { print ">s" n; s = ""
        for (i = 0; i < 300; i++) s = s substr("ACDEFGHIKLMNPQRSTVWY", (n * n * 7 + i * i * (n % 13 + 3) + i * n) % 20 + 1, 1); print s } }' >p.fa
    makeblastdb -in p.fa -dbtype prot -parse_seqids -out db >/dev/null
    echo "exit code $?"
    blastdbcmd -db db -entry s77 | cksum
    head -n 4 p.fa >query.fa
    blastp -db db -query query.fa -outfmt 6 -num_threads 2 2>/dev/null | cut -f1-4 | head -n 5
    rm db.*
}

in_reads() {
    awk 'BEGIN { srand(5); for (c = 1; c < 4; c++) { print ">chr" c; for (k = 0; k < 200; k++) { s = ""
        for (i = 0; i < 70; i++) s = s substr("ACGT", int(rand() * 4) + 1, 1); print s } } }' >ref.fa
    grep -v '>' ref.fa | awk '{ q = $0; gsub(/./, "I", q); print "@r" NR "\n" $0 "\n+\n" q }' >reads.fq
    bwa index ref.fa 2>/dev/null
    bwa mem -t 2 ref.fa reads.fq 2>/dev/null | samtools sort -@ 2 -T part -o a.bam - 2>/dev/null
    samtools index a.bam && samtools view a.bam chr2:100-2000 | cksum
    samtools faidx ref.fa chr3:10-60
    samtools view -C -T ref.fa -o a.cram a.bam && samtools index a.cram && samtools view -T ref.fa a.cram chr1:1-500 | wc -l
    samtools flagstat a.bam | head -n 1
    rm a.*
}

in_nbd() {
    truncate -s 8M disk
    printf 'data %.0s' 1 2 3 4 5 6 7 8 9 | dd of=disk bs=1000 seek=300 conv=notrunc status=none
    # shellcheck disable=SC2016
    nbdkit -U - file "$PWD/disk" --run 'nbdinfo --map --totals "$uri"; nbdcopy "$uri" copy
        qemu-io -f raw -c "write -q -P 7 1M 64k" -c "discard -q 0 64k" -c "write -q -z 2M 64k" -c flush -c "read -q -P 7 1M 64k" "$uri"'
    echo "exit code $?"
    cmp disk copy | cut -d' ' -f1-4
}

in_broker() {
    port=$((29000 + $$ % 5000))
    printf 'listener %s 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location %s/\npersistence_file kept.db\nuser root\n' \
        $port "$PWD" >conf
    for round in 1 2; do
        mosquitto -c conf 2>/dev/null &
        for attempt in $(seq 100); do
            mosquitto_pub -p $port -t up -m "$attempt" 2>/dev/null && break
            sleep 0.1
        done
        [ $round = 1 ] && for topic in a b c; do mosquitto_pub -p $port -r -q 1 -t "kept/$topic" -m "value $topic"; done
        mosquitto_sub -p $port -t 'kept/#' -C 3 -W 5 | sort
        kill $!
        wait $!
    done
    ls
    rm conf kept.db
}

in_darcs() {
    mkdir one
    (
        cd one && darcs init -q
        for patch in 1 2 3; do
            seq $patch $((patch * 50)) >"f$patch"
            darcs add -q "f$patch" && darcs record -q -a -A 'a <a@b>' -m "patch $patch" --ignore-times
        done
        echo more >>f1
        darcs whatsnew -s
        darcs revert -q -a
    )
    darcs clone -q one two
    (
        cd two && darcs show repo | grep 'Num P'
        darcs mv -q f2 g2 && darcs record -q -a -A 'a <a@b>' -m moved
        darcs tag -q -A 'a <a@b>' t && darcs push -q -a ../one
        darcs optimize compress -q && darcs check -q
        echo "check $?"
    )
    ls one
    rm -r one/_darcs two/_darcs
}

in_viruses() {
    mkdir base files kept tmp
    printf 'Test.Evil:0:*:6576696c2d6d61726b\n' >base/test.ndb
    for i in $(seq 20); do seq "$i" $((i * 500)) >"files/f$i"; done
    sigtool --md5 files/f3 >base/known.hdb
    printf 'xx evil-mark yy' >files/bad
    gzip -nk files/bad
    tar -C files -c --mtime=@1000000000 -f inside.tar bad f1 && mv inside.tar files
    clamscan -d base -r files --tempdir="$PWD/tmp" | grep -E 'FOUND|Infected|Scanned (files|dir)|Known' | sort
    clamscan --no-summary -d base -r files --move=kept --log=log | grep -c FOUND
    grep -c FOUND log
    rm -r log tmp
}

in_media() {
    export GST_REGISTRY="$TMPDIR/registry"
    launch() {
        gst-launch-1.0 -q "$@" 2>&1
        echo "exit code $?"
    }
    launch videotestsrc num-buffers=20 ! video/x-raw,width=160,height=120 ! jpegenc ! multifilesink location=f%03d.jpg
    launch videotestsrc num-buffers=60 ! video/x-raw,width=160,height=120 ! jpegenc ! avimux ! \
        multifilesink next-file=max-size max-file-size=20000 location=s%02d.avi
    launch videotestsrc num-buffers=60 ! video/x-raw,width=320,height=240 ! jpegenc ! \
        qtmux faststart=true faststart-file="$PWD/moved" ! filesink location=b.mov
    launch multifilesrc location=f%03d.jpg index=0 caps=image/jpeg,framerate=10/1 ! jpegdec ! filesink location=raw
    launch audiotestsrc num-buffers=100 ! wavenc ! filesink location=a.wav
    launch filesrc location=a.wav ! wavparse ! tee name=t ! queue ! filesink location=x1 t. ! queue ! filesink location=x2
    cmp x1 x2
    ls
    rm b.mov
}

in_ruby_stores() {
    cat >stores.rb <<'END'
require 'pstore'
require 'yaml/store'
require 'fileutils'
store = PStore.new('p.store')
20.times { |i| store.transaction { store[i] = "v#{i}"; store.abort if i == 7 } }
p store.transaction(true) { store.roots.size }
4.times { fork { s = PStore.new('q.store'); 10.times { s.transaction { s[:n] = (s[:n] || 0) + 1 } } } }
Process.waitall
counted = PStore.new('q.store')
counted.transaction(true) { p counted[:n] }
yaml = YAML::Store.new('y.store')
yaml.transaction { yaml['a'] = { 'b' => [1, 2] } }
IO.copy_stream('y.store', 'part', 10, 5)
File.open('m', 'w+') { |f| f.pwrite('hello', 3); p f.pread(5, 3), f.flock(File::LOCK_EX | File::LOCK_NB) }
FileUtils.mkdir_p 'a/b/c'
FileUtils.cp_r 'a', 'k'
FileUtils.mv 'k', 'l'
p Dir.glob('**/*').sort, File.realpath('a') == File.join(Dir.pwd, 'a')
END
    ruby stores.rb
    mkdir gem gem/lib home
    echo 'puts :loaded' >gem/lib/mygem.rb
    echo "Gem::Specification.new { |s| s.name = 'mygem'; s.version = '1.0'; s.summary = 'x'; s.authors = ['a']
        s.files = ['lib/mygem.rb'] }" >gem/mygem.gemspec
    export GEM_HOME="$PWD/home"
    (cd gem && gem build -q mygem.gemspec 2>/dev/null && gem install -q --local --no-document mygem-1.0.gem)
    ruby -e 'require "mygem"'
    gem uninstall -q -x mygem
    rm -r home gem/mygem-1.0.gem
}
