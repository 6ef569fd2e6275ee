# SPDX-License-Identifier: BSD-3-Clause
# Generates C from iofwd/calls/names.def:  awk -f names.awk -v out=names.h|names.c names.def
# and, with out=core.h, the list of the client's calls from iofwd/calls/calls.def; with out=names the bare names; with out=doc
# doc/iofwd-calls.md from calls.def, names.def and libc.def, in this order.

function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
function die(text) { print FILENAME ":" NR ": " text > "/dev/stderr"; failed = 1; exit 1 }

# Splits a parameter list at its outer commas into param[1..n].
function split_params(s, param,    i, c, depth, n, at) {
    delete param
    if (s == "void") return 0
    n = 1; depth = 0; at = 1
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        if (c == "(") depth++
        if (c == ")") depth--
        if (c == "," && depth == 0) { param[n++] = trim(substr(s, at, i - at)); at = i + 1 }
    }
    param[n] = trim(substr(s, at))
    return n
}

function param_name(p) {
    if (match(p, /\(\*[a-z_]+\)/)) return substr(p, RSTART + 2, RLENGTH - 3)
    gsub(/\[[^]]*\]/, "", p)
    sub(/^.*[ *]/, "", p)
    return p
}

# Where off_t has 32 bits, names without 64 take offsets and records of another form.  These are of 64 bits always.
function narrow(name) { return name !~ /64|^(llseek|sync_file_range|readahead|copy_file_range|splice)$/ }
# Records that such names fill in or take, which forwarding has in the wide form only.
function has_records(s) { return s ~ /struct (stat|statfs|statvfs|dirent|aiocb) |FTS|off_t \*/ }
function in_form(s) {
    gsub(/off_t/, "amph_ip_off_t", s)
    gsub(/struct stat /, "struct amph_ip_stat ", s); gsub(/struct statfs /, "struct amph_ip_statfs ", s)
    gsub(/struct statvfs /, "struct amph_ip_statvfs ", s); gsub(/struct dirent /, "struct amph_ip_dirent ", s)
    return s
}

function guard_of(text,    n, i, part, w, s) {
    if (text == "always") return "1"
    n = split(text, part, / or /)
    s = ""
    for (i = 1; i <= n; i++) {
        split(part[i], w, " ")
        if (part[i] == "inside") { s = s (i > 1 ? " || " : "") "amph_ip_inside"; continue }
        if (part[i] == "on") { s = s "amph_ip_state.on && !amph_ip_inside"; continue }
        if (part[i] == "maps") { s = s (i > 1 ? " || " : "") "__atomic_load_n(&amph_ip_state.maps, __ATOMIC_RELAXED)"; continue }
        if (part[i] == "fixed") { s = s " || (AMPH_UNLIKELY(flags & MAP_FIXED) && amph_ip_state.on && !amph_ip_inside)"; continue }
        if (w[1] !~ /^(fd|path|led|at|dir|file|lib|fts|epoll)$/) die("unknown guard: " part[i])
        s = s (i > 1 ? " || " : "") "amph_ip_" w[1] "(" w[2] (w[1] == "at" ? ", " w[3] : "") ")"
    }
    return s
}

# Which of a function's paths may lead below a prefix by a local link, where a call that fails has done nothing.
function links_of(text, name,    n, i, part, w, s) {
    n = split(text, part, / or /)
    for (i = 1; i <= n; i++) {
        split(part[i], w, " ")
        if (w[1] !~ /^(path|at)$/ || w[2] == "P_tmpdir") return ""
        s = s (i > 1 ? " || " : "") "amph_ip_led_in(" (w[1] == "at" ? w[2] ", " w[3] : "AT_FDCWD, " w[2]) ")"
    }
    return s
}

BEGIN {
    if (out == "core.h") FS = " "
    else FS = "|"
    head = "/* SPDX-License-Identifier: BSD-3-Clause */\n/* Made by iofwd/calls/names.awk from %s.  Layer: iofwd. */\n"
    count = 0
}

/^[ \t]*(#|$)/ { next }

out == "core.h" { split($0, f, "|"); calls[++count] = trim(f[1]); next }

# For the document: which request of the table a name of the C library leads to.
out == "doc" && FILENAME ~ /calls\.def$/ { nw = split($10, w, " "); for (i = 1; i <= nw; i++) leads[w[i]] = trim($1); next }
out == "doc" && FILENAME ~ /libc\.def$/ {
    nw = split($3, w, " ")
    for (i = 1; i <= nw; i++) if (trim($1) != "none") { rows++; row_name[rows] = w[i]; row_class[rows] = trim($1); row_why[rows] = trim($2) }
    next
}

{
    if (NF < 4) die("four fields are needed, here are " NF)
    # a guard may not hold the separator, a target may: put it together again
    target = $3
    for (i = 4; i < NF; i++) target = target "|" $i
    shape = trim($1)
    # the names stand before the first parenthesis
    open_at = index(shape, "(")
    front = substr(shape, 1, open_at - 1)
    params = substr(shape, open_at + 1, length(shape) - open_at - 1)
    match(front, /[A-Za-z0-9_,]+$/)
    names = substr(front, RSTART)
    type = trim(substr(front, 1, RSTART - 1))
    n = split(names, name, ",")
    for (k = 1; k <= n; k++) {
        if (name[k] in seen) die(name[k] " stands here twice")
        seen[name[k]] = 1
        count++
        f_name[count] = name[k]; f_type[count] = type; f_params[count] = params
        f_guard[count] = guard_of(trim($2)); f_turns[count] = trim($2) ~ /^fd /; f_target[count] = trim(target); f_after[count] = trim($NF)
        f_links[count] = links_of(trim($2), name[k])
        f_time64[count] = sub(/ *time64$/, "", f_after[count])
        if (f_time64[count] && f_after[count] == "") f_after[count] = "-"
        if (!narrow(name[k])) continue
        f_type[count] = in_form(type); f_params[count] = in_form(params)
        if (has_records(type " " params) && trim($2) == "on") f_guard[count] = "AMPH_IP_WIDE && " f_guard[count]
        else if (has_records(type " " params)) f_target[count] = (type ~ /\*$/ ? "AMPH_IP_WIDE_POINTER(" : "AMPH_IP_WIDE_ONLY(") f_target[count] ")"
        else if (type == "off_t") f_target[count] = "amph_ip_narrow_off(" f_target[count] ")"
    }
}

function read_variadic() {
    print "    " star(va_type) va_name " = 0;"
    print "    if (" va_cond ") {\n        va_list ap;\n        va_start(ap, " va_last ");"
    print "        " va_name " = va_arg(ap, " va_type ");\n        va_end(ap);\n    }"
}

# Those of glibc that act on a thread's cancellation; what may wait for long looks again while it does.
function is_cancel_point(name) {
    return name ~ /^(__)?(open|openat|creat|close|read|write|pread|pwrite)(64)?(_2|_chk)?$/ ||
        name ~ /^(readv|writev|preadv|pwritev|fallocate|posix_fallocate)(64)?(v?2)?$/ ||
        name ~ /^(fsync|fdatasync|sync_file_range|msync|copy_file_range|splice|tee)$/
}

# Takes one function apart: proto (as the C library has it), fixed (without dots), args, and how the variadic part is read.
function shape_of(c,    n, i, p, v, w) {
    n = split_params(f_params[c], p)
    proto = fixed = args = types = va_read = va_via = ""
    variadic = 0
    for (i = 1; i <= n; i++) {
        if (p[i] ~ /^\.\.\./) {
            variadic = 1
            v = substr(p[i], 4)
            va_cond = "1"
            if (match(v, / if [a-z]+$/)) { va_cond = "amph_ip_elf_deps_mode(" substr(v, RSTART + 4) ")"; v = substr(v, 1, RSTART - 1) }
            if (match(v, / via [a-z0-9_]+$/)) { va_via = substr(v, RSTART + 5); v = substr(v, 1, RSTART - 1) }
            va_name = param_name(v)
            va_type = trim(substr(v, 1, length(v) - length(va_name)))
            proto = proto ", ..."; types = proto
            if (va_type != "va_list") { fixed = fixed ", " v; args = args ", " va_name }
            va_last = param_name(p[i - 1])
            continue
        }
        proto = proto (i > 1 ? ", " : "") p[i]
        fixed = fixed (i > 1 ? ", " : "") p[i]
        args = args (i > 1 ? ", " : "") param_name(p[i])
    }
    if (n == 0) proto = fixed = "void"
}

# Is a call by descriptor, which another thread's dup2 may turn from local to forwarded or back before it is made?  One that takes a list
# cannot be made twice, since that is used up.
function turns(c) { return f_turns[c] && f_params[c] !~ /va_list/ && f_type[c] != "void" }
function has_failed(c) {
    if (f_type[c] ~ /\*$/) return f_type[c] ~ /^void/ ? "result == MAP_FAILED" : "!result"
    return f_name[c] ~ /^posix_/ ? "result != 0" : "result < 0"
}

function print_call(c, point, real, indent) {
    print indent "if ((ours = " f_guard[c] "))" (point ? " {\n" indent "    " point : "") "\n" indent "    result = " f_target[c] ";"
    print indent (point ? "} " : "") "else\n" indent "    result = " real ";"
}

# What is made again stands apart, so that the call itself needs little of the stack.
function make_turning(c, point, real,    type, err, failed, look) {
    type = star(f_type[c])
    err = f_name[c] ~ /^posix_/ ? "result" : "errno"
    failed = has_failed(c)
    if (f_name[c] ~ /^(__fx|f)stat(v?fs)?(64)?$/) { # a placeholder has a record of its own
        look = "    unsigned turns = amph_ip_turns_now();\n"
        failed = failed " || (!ours && (" f_guard[c] " || turns != amph_ip_turns_now()))"
        err = "result ? errno : EBADF"
    }
    print "static AMPH_COLD " type "again_" f_name[c] "(" fixed ", " type "result, bool ours" (look ? ", unsigned turns" : "") ")\n{"
    print "    for (int tries = 0; (" failed ") && amph_ip_turned(" err ", ours, tries); tries++) {"
    if (look) print "        turns = amph_ip_turns_now();"
    print_call(c, "", real, "        ")
    print "    }\n    return result;\n}\n"
    print type "caught_" f_name[c] "(" proto ")\n{\n    bool ours;\n    " type "result;"
    printf "%s", look
    if (variadic) read_variadic()
    print_call(c, point, real, "    ")
    print "    return AMPH_UNLIKELY(" failed ") ? again_" f_name[c] "(" args ", result, ours" (look ? ", turns" : "") ") : result;\n}\n" after(c)
}

function star(type) { return type (type ~ /\*$/ ? "" : " ") }

# Around what only a C library with two forms of time has.
function before(c) { return f_time64[c] ? "#if AMPH_IP_LONG_TIMES\n" : "" }
function after(c) { return f_time64[c] ? "\n#endif" : "" }

function make_h(    c) {
    printf head, "iofwd/calls/names.def"
    print "#ifndef AMPH_IOFWD_NAMES_H\n#define AMPH_IOFWD_NAMES_H\n"
    print "#include \"iofwd/interpose/entry/time64.h\"\n#include \"iofwd/interpose/entry/libc_real.h\"\n"
    print "enum amph_fwd_name {"
    for (c = 1; c <= count; c++) print before(c) "    AMPH_IP_NAME_" f_name[c] "," after(c)
    print "    AMPH_IP_NAME_COUNT\n};\n"
    for (c = 1; c <= count; c++) {
        shape_of(c)
        if (variadic && va_type == "va_list") continue
        printf "%s", before(c)
        print "static inline " star(f_type[c]) "libc_" f_name[c] "(" fixed ")\n{"
        print "    " (f_type[c] == "void" ? "" : "return ") "((" star(f_type[c]) "(*)(" proto "))amph_ip_libc(AMPH_IP_NAME_" f_name[c] "))(" args ");\n}" after(c)
    }
    print "\n#endif"
}

# A static program has no linker at run time, so what asks for it, or comes from it, is left alone; and what this C library has only as an old version.
function wrapped(c) { return !f_time64[c] && f_name[c] !~ /^(__libc_start_main|dlopen|dlmopen|__fxstat.*|__l?xstat.*|__xmknod.*|llseek|closefrom64|futimes64|fts64_.*|ftw64_old)$/ }

function make_flags(    c) {
    for (c = 1; c <= count; c++) if (wrapped(c)) print "-Wl,--wrap=" f_name[c]
    print "-Wl,--wrap=_IO_2_1_stdin_\n-Wl,--wrap=_IO_2_1_stdout_\n-Wl,--wrap=_IO_2_1_stderr_" # std_files.c
}

function make_c(    c, ret, real, call) {
    printf head, "iofwd/calls/names.def"
    print "#include \"iofwd/calls/names.h\"\n\n#include \"iofwd/interpose/entry/catch.h\"\n#include \"iofwd/interpose/entry/targets.h\"\n"
    print "const char *const amph_ip_name_texts[AMPH_IP_NAME_COUNT] = {"
    for (c = 1; c <= count; c++) print before(c) "    \"" f_name[c] "\"," after(c)
    print "};"
    if (wrap) {
        for (c = 1; c <= count; c++) if (wrapped(c)) print "extern char __real_" f_name[c] "[];"
        print "const char *const amph_fwd_init_keep = &amph_ip_init_linked;"
    }
    print "void *amph_ip_libc_slots[AMPH_IP_NAME_COUNT]" (wrap ? " = {" : ";")
    for (c = 1; wrap && c <= count; c++) print before(c) "    " (wrapped(c) ? "__real_" f_name[c] : "NULL") "," after(c)
    print wrap ? "};\n" : ""
    for (c = 1; c <= count; c++) {
        if (wrap && !wrapped(c)) continue
        shape_of(c)
        ret = f_type[c] == "void" ? "" : "return "
        printf "%s", before(c)
        print star(f_type[c]) "caught_" f_name[c] "(" proto ") __asm__(\"" (wrap ? "__wrap_" : "") f_name[c] "\") AMPH_IP_EXPORT;"
        real = "libc_" f_name[c] "(" args ")"
        if (f_after[c] == "new") real = "amph_ip_note_local(" real ")"
        if (f_after[c] == "stream") real = "amph_ip_note_stream(" real ")"
        point = is_cancel_point(f_name[c]) ? "amph_ip_cancel_point();" : ""
        if (turns(c)) {
            make_turning(c, point, real)
            continue
        }
        print star(f_type[c]) "caught_" f_name[c] "(" proto ")\n{"
        if (variadic && va_type == "va_list") {
            # the result passes a variable, since va_end comes after the call
            print "    va_list ap;\n    va_start(ap, " va_last ");"
            call = f_target[c]
            if (va_via != "") {
                real = args; sub(/^/, "libc_" va_via "(", real); real = real ", ap)"
                call = f_guard[c] " ? " call " : " real
            } else if (f_name[c] ~ /dprintf/) {
                real = "libc_" (f_name[c] ~ /^__/ ? "__v" substr(f_name[c], 3) : "v" f_name[c]) "(" args ", ap)"
                call = f_guard[c] " ? " call " : " real
            }
            print "    " star(f_type[c]) "result = " call ";\n    va_end(ap);\n    return result;\n}\n"
            continue
        }
        if (variadic)
            read_variadic()
        if (f_guard[c] == "1") {
            print (point ? "    " point "\n" : "") "    " ret f_target[c] ";\n}\n"
            continue
        }
        if (f_after[c] !~ /^(new|stream|-)$/ && f_after[c] !~ /^refused ./) die("unknown last field: " f_after[c])
        print "    if (" f_guard[c] ")" (point ? " {\n        " point : "") "\n        " ret f_target[c] ";" (point ? "\n    }" : "")
        if (f_links[c] != "") {
            # what the kernel did not find may lie behind a link into a prefix
            print "    " star(f_type[c]) "result = " real ";"
            print "    if (AMPH_LIKELY(result" (f_type[c] ~ /\*$/ ? " != NULL" : " >= 0") ") || errno != ENOENT || !(" f_links[c] "))"
            print "        return result;"
            print "    amph_ip_links++;\n    result = " f_target[c] ";\n    amph_ip_links--;\n    return result;\n}\n" after(c)
            continue
        }
        print (f_type[c] == "void" ? "    else\n        " : "    ") ret real ";\n}\n" after(c)
    }
}

# The line of a caught name: forwarded, refused with which errno and why, or for Amphora's own use.
function doc_row(c,    why, err) {
    if (f_after[c] ~ /^refused /) {
        err = f_target[c]; sub(/^amph_ip_fail\(/, "", err); sub(/\)$/, "", err)
        if (err ~ /^x_/) err = "below a prefix" # what takes the call finds the path first
        return "| `" f_name[c] "` | refused: " err " | " substr(f_after[c], 9) " |"
    }
    if (f_target[c] ~ /^amph_ip_own/)
        return "| `" f_name[c] "` | local | has no path; caught so that Amphora's own descriptors get high numbers |"
    if (f_name[c] in leads) return "| `" f_name[c] "` | forwarded | request `" leads[f_name[c]] "` |"
    if (f_name[c] ~ /^(umask|abort|__libc_start_main)$/ || f_target[c] ~ /^amph_ip_limits_changed/ || f_name[c] ~ /^pthread_(create|cancel)$/)
        return "| `" f_name[c] "` | local | caught so that forwarded calls know of it |"
    return "| `" f_name[c] "` | forwarded | by the requests of other calls |"
}

# What the table cannot say; one item for each call, or few.
function doc_differences() {
    print "Where forwarded files differ from local ones:\n"
    print "* `mmap`, MAP_SHARED: processes of one user on one host that map a file have one memory for it (in /dev/shm/iofwd-UID);"
    print "  it goes to the file at msync, munmap, fsync, close, exec and exit, which is when other hosts see it."
    print "* `mmap`, `msync`: what processes write or cut that do not map the file appears in the shared memory at the next mmap or"
    print "  msync(MS_INVALIDATE); what a process killed by a signal has changed is lost where no other one maps the file."
    print "* `mmap`, writable and shared: refused (ENODEV) while the process holds a record lock on the file, if another host maps"
    print "  the file or there is no /dev/shm; refused (ENOMEM) with any hard limit of file sizes (ulimit -f)."
    print "* `mmap`, MAP_PRIVATE: the file is read in, but for holes, when the map is made."
    print "* `fcntl`: F_SETLEASE and F_NOTIFY give EOPNOTSUPP; F_GETLK names the holder by its number on its own host."
    print "* `fcntl`, `flock`, `lockf`: the locks of a process that ends without freeing them are free a moment after its parent"
    print "  hears of its end."
    print "* `ioctl`: FICLONE and its relatives give EOPNOTSUPP; only what asks for and sets a file's marks (lsattr, chattr),"
    print "  FIONREAD, FIGETBSZ and those of descriptors are known, others give ENOTTY."
    print "* `tee`, `vmsplice`: do not know forwarded FIFOs (EINVAL, EBADF)."
    print "* `setxattr`, `getxattr` and their relatives: values of extended attributes are limited to 32 KiB (E2BIG, ERANGE)."
    print "* `openat2`: RESOLVE_CACHED gives EAGAIN; RESOLVE_IN_ROOT gives ENOSYS where a prefix lies below the root that is meant;"
    print "  RESOLVE_NO_XDEV takes a prefix for a mount, and a directory of another device for one."
    print "* `open` and other calls by path, links: one that leads out of what the servers export gives EACCES, but one with an"
    print "  absolute target outside of the prefixes means this host's file, as on a mount."
    print "* `open` and other calls by path, local links: one that leads below a prefix is followed where the prefix does not exist"
    print "  on this host (where it does, the kernel follows it there); but not inside the tree that ftw and nftw walk through."
    print "* `open` on /proc: /proc/PID/cwd of another process does not say its forwarded directory, and lsof and fuser do not find"
    print "  forwarded files."
    print "* `rename`, `link`: from one export to another, or between an export and this host, give EXDEV."
    print "* `stat` and its relatives tell of a regular file 32 KiB as the best size of calls (st_blksize), if the server's file"
    print "  system says less: IOFWD_BLKSIZE changes that, 0 leaves it as it is; what makes its own blocks of that size, as gdbm"
    print "  does, makes larger ones."
    print "* `statx`: leaves out what is about mounts and about O_DIRECT."
    print "* `fopen`, buffers: that of a stream on a regular file has 128 KiB; it is filled by 8 KiB first, and by more while it is"
    print "  read in a row."
    print "* `fread`, `fwrite` and others on one stream: one that is read and then written, or the other way round, without a"
    print "  positioning call between has no defined place, as ISO C says, and may take another one than a local stream, whose"
    print "  buffer is smaller."
    print "* `fgetc`, `fputc` and other byte functions work on a stream of wide characters."
    print "* `write` with O_APPEND: what others append may come between the first 4 MiB of one call and its rest."
    print "* `lseek`, SEEK_DATA and SEEK_HOLE: ext4 and others take for data what their cache has pages of, where room has been reserved by"
    print "  fallocate; that is the server's cache, and what it has read ahead."
    print "* `freopen` that leads a stream of popen or one in memory to a forwarded path gives another stream back."
    print "* `dup2` of a forwarded file below a stream of popen: what is written to the stream is lost; the end of the process says so, and"
    print "  its exit code is 1."
    print "* `read`, `write` and others that take a buffer: one that free has given back to the kernel may be a SIGSEGV where the"
    print "  kernel would say EFAULT, if it was used before."
    print "* `setrlimit`, RLIMIT_FSIZE: looked at when a program starts and when it sets it by itself: what another process sets by"
    print "  prlimit is not noticed; several processes that share an offset may together pass it by one call's length; with a hard"
    print "  limit (ulimit -f) below some MiB nothing can be forwarded (EIO)."
    print "* `setrlimit`, RLIMIT_AS: with too few addresses (ulimit -v) to reach the servers, calls give ENOMEM."
    print "* `lseek`, `flock`, `fsync` and their like in one thread, while dup2 in another makes the descriptor a forwarded one: what is"
    print "  decided on just before and done just after is lost; data, sizes and records are not."
    print "* `pthread_cancel`: acts in calls on regular files where they begin, not in their middle."
    print "* `epoll_ctl`, `epoll_wait`: a set tells of forwarded FIFOs the process that put them in and what it forks then or"
    print "  later; not what it execs, nor who gets the set by a socket, nor a relative forked before the first of a server's files"
    print "  was put in."
    print "* `io_submit`, `io_uring_enter`: these, which no library sees, fail on a forwarded descriptor."
    print "* `dlopen`, `execve`: the dynamic linker gets copies of the forwarded libraries that a forwarded program, a library that"
    print "  dlopen loads, LD_PRELOAD, or by LD_LIBRARY_PATH a local program needs; what local libraries need, and a local"
    print "  program's own run path, it looks for on its own host only, and so it does with LD_AUDIT, with LD_PRELOAD for the shell"
    print "  that system and popen start, and with the program that is its argument (ldd)."
    print "* `exit` of a program built with -pg: what it leaves in gmon.out the C library writes by itself: in a forwarded"
    print "  directory it is lost, unless GMON_OUT_PREFIX names a local path."
    print "* `stat` and others on 32-bit machines: programs have to be built for large files (_FILE_OFFSET_BITS=64), as Debian's"
    print "  are; others get EOVERFLOW where a call fills in a record. The names of glibc's 64-bit times (`__stat64_time64` and its"
    print "  like) are forwarded there too, but for ftw, fts, glob and aio_suspend."
    print ""
}

function make_doc(    c, how) {
    print "# What becomes of each file function of the C library\n"
    print "Made from `iofwd/calls/calls.def`, `iofwd/calls/names.def` and `iofwd/calls/libc.def`; `tests/files/calls/iofwd_names.sh` compares it with what"
    print "`nm -D` finds in libc.so.6 (glibc 2.36). *Forwarded*: on a path below `IOFWD_PREFIX`, or a descriptor or stream that such a call"
    print "gave, an I/O server does it; elsewhere the C library does. *Refused*: on such a path it fails as told. *Local*: it stays with this host.\n"
    doc_differences()
    print "| name | what becomes of it | how, or why |\n|---|---|---|"
    for (c = 1; c <= count; c++) if (!f_time64[c]) print doc_row(c)
    for (c = 1; c <= rows; c++) {
        how = row_class[c] == "local" ? "local" : "forwarded"
        print "| `" row_name[c] "` | " how " | " row_why[c] " |"
    }
}

function make_core(    c) {
    printf head, "iofwd/calls/calls.def"
    print "#define AMPH_IP_CORE_CALLS(X) \\"
    for (c = 1; c <= count; c++) print "    X(" calls[c] ")" (c < count ? " \\" : "")
}

END {
    if (failed) exit 1
    if (out == "names.h") make_h()
    else if (out == "names.c") make_c()
    else if (out == "names_wrap.c") { wrap = 1; make_c() }
    else if (out == "iofwd-wrap.args") make_flags()
    else if (out == "core.h") make_core()
    else if (out == "names") { for (c = 1; c <= count; c++) if (!f_time64[c]) print f_name[c] }
    else if (out == "doc") make_doc()
    else { print "names.awk: -v out= must name what to make" > "/dev/stderr"; exit 1 }
}
