# SPDX-License-Identifier: BSD-3-Clause
# Unmodified programs on a directory: fwd_tools_commands.sh DIRECTORY SCRATCH.  Run by fwd_tools.sh, on a local and on a forwarded one.
D=$1 T=$2
TZ=UTC LC_ALL=C
export TZ LC_ALL
cd /

# rc COMMAND...: the command, what it prints, and its exit code
rc() {
    echo "== $*"
    "$@"
    echo "rc $?"
}

seq 1 3000 >"$T/num"
rc cp $T/num $D/num
rc cmp $T/num $D/num
rc sha256sum $D/num
rc wc $D/num
rc head -n 3 $D/num
rc tail -n 3 $D/num
rc tail -c 10 $D/num
rc dd if=$D/num of=$D/num2 bs=1000 count=7 status=none
rc dd if=$T/num of=$D/num2 bs=100 seek=3 count=2 conv=notrunc status=none
rc sha256sum $D/num2
rc stat -c '%n %s %a %F %h' $D/num $D/num2 $D
rc ls $D
rc ls -l --time-style=+T $D/num2
rc mkdir -p $D/a/b/c
rc mkdir $D/a
rc mkdir $D/zz/yy
rc touch -d '2020-01-02 03:04:05.123456789' $D/a/t
rc stat -c '%y %x' $D/a/t
rc chmod 640 $D/a/t
rc stat -c %a $D/a/t
rc chmod -R u+x $D/a
rc ln -s t $D/a/link
rc ln $D/a/t $D/a/hard
rc readlink $D/a/link
rc readlink -f $D/a/link
rc realpath $D/a/../a/link $D/a/b/c/..
rc ls -l --time-style=+T $D/a
rc stat -c '%h %F' $D/a/hard $D/a/link
rc stat -L -c '%F' $D/a/link
rc mv $D/num2 $D/a/moved
rc mv $D/nothere $D/x
rc mv -n $D/num $D/a/moved
rc mv $D/a/b $D/b
rc mv $T/num $D/from_outside
rc mv $D/from_outside $T/num
rc cmp $T/num $D/num
rc cp -r $D/a $D/a_copy
rc cp -a $D/a $D/a_copy2
rc cp -a $D/a $T/a_out
rc diff -r $D/a $T/a_out
rc diff $D/num $D/a/moved
rc diff -r $D/a $D/a_copy
rc find $D -type f -name 'n*'
find $D | sort | sed "s#$D#@D#g"
rc find $D/a -name t -newermt 2019-12-31 ! -newermt 2020-06-01
rc grep -c 99 $D/num
rc grep -r 1999 $D/num $D/a
rc sort -rn -o $D/sorted $D/num
rc head -2 $D/sorted
rc sort -u $D/num $D/sorted -o $D/num3
rc wc -l $D/num3
rc sh -c "echo one > $D/w; echo two >> $D/w; cat < $D/w; cat $D/w | tr a-z A-Z > $D/W; cat $D/W"
rc sh -c "sort -n < $D/num | uniq | wc -l > $D/count; cat $D/count"
rc sh -c "cd $D && pwd && ls && cd a && pwd && cat ../w && echo rel > rel && cat rel && cd .. && pwd && cd / && pwd"
rc sh -c "cd $D && for i in 1 2 3; do echo \$i; done > loop; cat loop; rm loop; ls"
rc sh -c "cd $D/nothere"
rc sh -c "cat < $D/nothere"
rc sh -c "echo x > $D/nodir/x"
rc sh -c "exec 3> $D/fd3; echo to3 >&3; exec 3>&-; cat $D/fd3"
rc sh -c "exec 4< $D/num; read a <&4; read b <&4; echo \$a \$b; cat <&4 | head -2"
rc sh -c "(echo sub1; (echo sub2)) > $D/sub; cat $D/sub"
rc sh -c "cat > $D/here <<X
heredoc
X
cat $D/here"
rc sh -c "echo noclob > $D/nc; set -C; echo again > $D/nc"
rc sh -c "test -f $D/w && test -d $D/a && test ! -e $D/q && test -L $D/a/link && test $D/w -ef $D/w && test -r $D/w && echo all"
rc sh -c "echo $D/a/*"
rc sh -c "printf '#!/bin/sh\necho script \$0 \$1\n' > $D/s.sh; chmod +x $D/s.sh; $D/s.sh arg"
rc bash -c "cd $D; echo b{1,2} > bb; cat bb; ls -d n*; pwd; cat <(cat bb) ; mapfile x < num; echo \${#x[@]}"
rc bash -c "echo \$(< $D/w)"
rc tee $D/t1 $D/t2 < $D/w
rc cat $D/t1 $D/t2
rc truncate -s 5 $D/t1
rc cat $D/t1
rc stat -c %s $D/t1
rc split -l 1000 $D/num $D/part.
rc ls $D
rc cat $D/part.aa $D/part.ab $D/part.ac
rc awk "{s+=\$1} END {print s > \"$D/awk\"}" $D/num
rc cat $D/awk
rc sed -i 's/^1/X/' $D/num3
rc head -3 $D/num3
rc tar cf $D/t.tar -C $D a
rc tar tf $D/t.tar
rc mkdir $D/x
rc tar xf $D/t.tar -C $D/x
rc diff -r $D/a $D/x/a
rc gzip -k $D/num
rc gunzip -c $D/num.gz
rc du -b --apparent-size $D/num
rc install -m 600 $D/num $D/inst
rc stat -c %a $D/inst
rc comm -12 $D/t1 $D/t2
rc od -c $D/t1
rc rmdir $D/a
rc rm $D/nothere
rc rm -f $D/nothere
rc rm $D/a
rc rm -r $D/a $D/x
rc env -i /bin/cat $D/w
rc env -i PATH=/bin sh -c "cat $D/w"
rc sh -c "umask 077; echo p > $D/priv; stat -c %a $D/priv; mkdir $D/pd; stat -c %a $D/pd"
rc sh -c "t=\$(mktemp -d $D/tmpd.XXXXXX) && rmdir \$t && echo ok"
rc sh -c "(flock 9; echo locked) 9> $D/lock"
rc xargs -n 1 cat < $D/w
rc stat -f -c %T $D
rc cat $D
rc cat $D/nothere
rc ls $D/nothere
rc cp $D/nothere $D/y
rc head -c 5 /dev/stdin < $D/num
rc sh -c "cat /dev/fd/0 < $D/w; cat /proc/self/fd/0 < $D/w"
rc sh -c "cat $D/w > /dev/stdout > $D/w2; cat $D/w2"
rc perl -e "open(F,'>>','$D/perl') or die; print F 'hi'; close F; open(F,'<','$D/perl'); print <F>; opendir(D,'$D'); print join(',',sort readdir D); print -s '$D/perl'; rename '$D/perl','$D/p2' or print \$!; unlink '$D/p2'; print -e '$D/p2' ? 1:0; mkdir '$D/pp'; chdir '$D/pp'; use Cwd; print getcwd;"
rc sh -c "rm -r $D/*; ls -A $D; ls -a $D"
rc sh -c "seq 1 9 > $D/left; mkdir -m 711 $D/dir; ln -s left $D/dir/link; chmod 604 $D/left"
