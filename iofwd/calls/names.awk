# SPDX-License-Identifier: BSD-3-Clause
# Generates C from iofwd/calls/calls.def and names.def:  awk -f names.awk -v out=WHAT calls.def names.def
#   WHAT: names.h, names.c, names_wrap.c   interposed functions, and typed calls of the real ones
#         iofwd-wrap.args                  the linker's options for static programs
#         implementations.h                prototypes of the functions that execute caught calls (amph_do_NAME)
#         numbers.h                        rows of system calls (calls.def alone)
#         core.h                           list of the client's calls (calls.def alone)
#         names                            bare names
#         doc                              doc/iofwd-calls.md, from calls.def, names.def and libc.def, in this order

function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
function die(text) { print FILENAME ":" FNR ": " text > "/dev/stderr"; failed = 1; exit 1 }

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

# On machines with a 32-bit off_t, functions without 64 in their names have narrow offsets and records.  The functions listed here never have.
function narrow(name) { return name !~ /64|^(llseek|sync_file_range|readahead|copy_file_range|splice)$/ }
# Do the parameters contain records of such functions?  Forwarding implements their wide form only.
function has_records(s) { return s ~ /struct (stat|statfs|statvfs|dirent|aiocb) |FTS|off_t \*/ }
function in_form(s) {
    gsub(/off_t/, "amph_ip_off_t", s)
    gsub(/struct stat /, "struct amph_ip_stat ", s); gsub(/struct statfs /, "struct amph_ip_statfs ", s)
    gsub(/struct statvfs /, "struct amph_ip_statvfs ", s); gsub(/struct dirent /, "struct amph_ip_dirent ", s)
    return s
}

function guard_of(text,    n, i, part, w, s) {
    if (text == "always") return "1"
    if (text == "stdio") return "0"
    n = split(text, part, / or /)
    s = ""
    for (i = 1; i <= n; i++) {
        split(part[i], w, " ")
        if (part[i] == "inside") { s = s (i > 1 ? " || " : "") "amph_ip_inside"; continue }
        if (part[i] == "on") { s = s "amph_ip_state.on && !amph_ip_inside"; continue }
        if (part[i] == "maps") { s = s (i > 1 ? " || " : "") "amph_ip_has_maps()"; continue }
        if (part[i] == "near") { s = s (i > 1 ? " || " : "") "amph_ip_near_has(fd)"; continue }
        if (part[i] == "shared") { s = s " || (AMPH_UNLIKELY((flags & MAP_TYPE) != MAP_PRIVATE) && amph_ip_near_has(fd))"; continue }
        if (part[i] == "fixed") { s = s " || (AMPH_UNLIKELY(flags & MAP_FIXED) && amph_ip_state.on && !amph_ip_inside)"; continue }
        if (w[1] !~ /^(fd|path|text|led|at|dir|file|lib|fts|epoll|hidden|carries)$/) die("unknown guard: " part[i])
        s = s (i > 1 ? " || " : "") "amph_ip_" w[1] "(" w[2] (w[1] ~ /^(at|carries)$/ ? ", " w[3] : "") ")"
    }
    return s
}

# Returns the C condition that a local link in one of the paths leads below a prefix; "" if a failed call may have had an effect.
function links_of(text, name,    n, i, part, w, s) {
    n = split(text, part, / or /)
    for (i = 1; i <= n; i++) {
        split(part[i], w, " ")
        if (w[1] !~ /^(path|text|at)$/ || w[2] == "P_tmpdir") return ""
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

# calls.def: lines that begin with "+" are rows of numbers.def or of this table's form; all others are the client's calls.
FILENAME ~ /calls\.def$/ && /^\+ *ROW\(/ { sub(/^\+ */, ""); number_row[++nnumbers] = $0; next }
FILENAME ~ /calls\.def$/ && /^\+/ && (out == "core.h" || out == "numbers.h") { next }
# For traces: the type words of the call's arguments.  The C library's functions that lead to the call use the same argument names.
FILENAME ~ /calls\.def$/ && !/^\+/ && FS == "|" && NF == 11 {
    nw = split($11, w, " ")
    for (i = 1; i <= nw; i++) trace_call[w[i]] = trim($1)
    nw = split($9 " " $10, w, " ")
    for (i = 1; i <= nw; i++) if (split(w[i], part, ":") == 2) trace_word[trim($1) " " part[2]] = toupper(part[1])
}
FILENAME ~ /calls\.def$/ && !/^\+/ && out != "core.h" && out != "doc" { next }
/^\+/ { sub(/^\+ */, "") }

out == "core.h" { split($0, f, "|"); calls[++count] = trim(f[1]); next }

# For the document: the call to which a function of the C library leads.
out == "doc" && FILENAME ~ /calls\.def$/ && NF == 11 { nw = split($11, w, " "); for (i = 1; i <= nw; i++) leads[w[i]] = trim($1); next }
out == "doc" && FILENAME ~ /libc\.def$/ {
    nw = split($3, w, " ")
    for (i = 1; i <= nw; i++) if (trim($1) != "none") { rows++; row_name[rows] = w[i]; row_class[rows] = trim($1); row_why[rows] = trim($2) }
    next
}

{
    if (NF < 4) die("four fields are needed, here are " NF)
    # a target may contain the separator (a guard may not), so its parts are joined again
    target = $3
    for (i = 4; i < NF; i++) target = target "|" $i
    shape = trim($1)
    # the names are before the first parenthesis
    open_at = index(shape, "(")
    front = substr(shape, 1, open_at - 1)
    params = substr(shape, open_at + 1, length(shape) - open_at - 1)
    match(front, /[A-Za-z0-9_,]+$/)
    names = substr(front, RSTART)
    type = trim(substr(front, 1, RSTART - 1))
    n = split(names, name, ",")
    for (k = 1; k <= n; k++) {
        if (name[k] in seen) die(name[k] " is there twice")
        seen[name[k]] = 1
        count++
        f_name[count] = name[k]; f_type[count] = type; f_params[count] = params
        wide_type[count] = type; wide_params[count] = params
        f_raw_guard[count] = trim($2); f_guard[count] = guard_of(trim($2)); f_turns[count] = trim($2) ~ /^fd /; f_target[count] = trim(target); f_after[count] = trim($NF)
        f_links[count] = links_of(trim($2), name[k])
        f_time64[count] = sub(/ *time64$/, "", f_after[count])
        f_foreign[count] = sub(/ *of lib[a-z]+$/, "", f_after[count])
        if (f_after[count] == "") f_after[count] = "-"
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

# Cancellation points of glibc.  Functions that may block for long also check for cancellation while they wait.
function is_cancel_point(name) {
    return name ~ /^(__)?(open|openat|creat|close|read|write|pread|pwrite)(64)?(_2|_chk)?$/ ||
        name ~ /^(readv|writev|preadv|pwritev|fallocate|posix_fallocate)(64)?(v?2)?$/ ||
        name ~ /^(fsync|fdatasync|sync_file_range|msync|copy_file_range|splice|tee)$/
}

# Parses one function into proto (as in the C library), fixed (without dots), args, and the code that reads the variadic part.
function shape_of(c,    n, i, p, v, w) {
    n = split_params(f_params[c], p)
    proto = fixed = args = types = va_read = va_via = ""
    variadic = 0
    for (i = 1; i <= n; i++) {
        if (p[i] ~ /^\.\.\./) {
            variadic = 1
            v = substr(p[i], 4)
            va_cond = "1"
            if (match(v, / if [a-z]+$/)) { va_cond = "amph_ip_open_takes_mode(" substr(v, RSTART + 4) ")"; v = substr(v, 1, RSTART - 1) }
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

# Returns the C condition for success; "" if the function never sets errno, or returns the error.
function succeeds(c) {
    if (f_type[c] ~ /\*$/) return f_name[c] ~ /^(mmap|mremap)/ ? "result != MAP_FAILED" : "result"
    if (f_type[c] == "mode_t" || f_name[c] ~ /^(posix_|pthread_|readdir(64)?_r$)/) return ""
    if (f_type[c] == "wint_t") return "result != WEOF"
    if (f_name[c] ~ /^(n?ftw|glob)(64)?$/) return "result == 0"
    if (f_type[c] ~ /^(int|long|ssize_t|off_t|amph_ip_off_t|pid_t|key_t)$/) return f_name[c] == "syscall" ? "result != -1" : "result >= 0"
    die("succeeds: which results of " f_name[c] " are failures?")
}

# Does the function that executes the call preserve errno itself, or never return?
function keeps_errno(c) { return f_target[c] ~ /^amph_ip_(own|own_pair|fail)\(/ || f_name[c] ~ /^(__libc_start_main|abort|__assert|__assert_fail|__assert_perror_fail|_Exit|_exit|sigaction|__sigaction|signal)$/ }

# Prints the forwarded call.  A call that succeeds leaves errno unchanged, like one of the kernel, because programs such as LMDB read it later.
#   declared: the variable `result` exists   saved: the variable `before` contains errno
function print_ours(c, indent, declared, saved,    ok) {
    if (!saved && !keeps_errno(c)) print indent "int before = errno;"
    print indent (declared ? "" : star(f_type[c])) "result = " f_target[c] ";"
    if (keeps_errno(c)) return
    ok = succeeds(c)
    print (ok ? indent "if (" ok ")\n    " : "") indent "errno = before;"
}

function print_call(c, point, real, indent) {
    print indent "if ((ours = " f_guard[c] ")) {"
    if (point) print indent "    " point
    print_ours(c, indent "    ", 1, 0)
    print indent "} else {\n" indent "    result = " real ";"
    print_again(c, real, indent "    ")
    print indent "}"
}

# Can a call that found no free descriptor be made again?  mkstemp has changed its pattern by then, freopen has closed the stream.
function makes_descriptor(c) { return (f_after[c] == "new" && f_name[c] !~ /^mk/) || f_name[c] ~ /^(_IO_)?fopen(64)?$/ }

# Prints the repetition of such a call, if the client has given up some descriptors of its own.
function print_again(c, real, indent) {
    if (!makes_descriptor(c)) return
    print indent "if (AMPH_UNLIKELY(" has_failed(c) ") && amph_ip_client_made_room())"
    print indent "    result = " real ";"
}

# The same, followed by the return to the program.
function print_returned(c, indent, saved) {
    if (f_type[c] == "void") {
        print keeps_errno(c) ? indent f_target[c] ";" : indent "int before = errno;\n" indent f_target[c] ";\n" indent "errno = before;"
        return
    }
    print_ours(c, indent, 0, saved)
    print indent "return result;"
}

# ---- traces ----

# Functions without a trace: a child of clone continues in another function, and main does not return here; aio_error and aio_return only look
# into a control block, many times.
function is_traced(c) { return f_name[c] !~ /^(clone|__clone|__libc_start_main|abort|__assert|__assert_fail|__assert_perror_fail|sigaction|__sigaction|signal|openlog|closelog|aio_(error|return)(64)?)$/ }

# Is it a function that is caught for the recorder and traces alone?  Its target says which bytes it moves.
function is_stdio(c) { return f_raw_guard[c] == "stdio" }

# Returns the type word of calls.def for the argument of that name, if traces show this type specially.
function word_of(c, name,    called, w) {
    called = f_name[c]
    if (!(called in trace_call)) sub(/^__/, "", called)
    if (!(called in trace_call) || !((trace_call[called] " " name) in trace_word)) return ""
    w = trace_word[trace_call[called] " " name]
    if (w ~ /^(OFLAGS|SFLAGS|MODE|ATFLAGS|AMODE|WHENCE|RFLAGS|XFLAGS|FALLOC|LOCKOP|UID|GID|DEV|OFF)$/) return "FWD_IN_" w
    return ""
}

# Returns the type word of a parameter.
function shown_as(c, p,    name, w) {
    name = param_name(p)
    if (p ~ /^(amph_ip_)?off_t len(gth)?$/ && f_params[c] ~ /off_t off,/) return "FWD_IN_LEN" # of a range
    if (name == "how" && f_name[c] ~ /^fallocate/) return "FWD_IN_FALLOC"
    w = word_of(c, name)
    if (w != "") return w
    if (f_name[c] == "syscall") return name == "number" ? "AMPH_FWD_SHOW_CALL" : "AMPH_FWD_SHOW_HEX"
    if (p ~ /^FILE \*/) return "AMPH_FWD_SHOW_STREAM"
    if (is_stdio(c) && name == "off") return "FWD_IN_OFF"
    if (is_stdio(c) && name == "whence") return "FWD_IN_WHENCE"
    if (is_stdio(c) && p ~ /^char \*text$/) return "AMPH_FWD_SHOW_POINTER"
    if (p ~ /^DIR \*/) return "AMPH_FWD_SHOW_DIR"
    if (p ~ /^struct (amph_ip_)?stat \*/) return "FWD_OUT_STATBUF"
    if (p ~ /^(const )?char \*[a-z_]+$/ && (" " f_raw_guard[c] " ") ~ ("(path|led|at [a-z_]+|lib) " name " ")) return "AMPH_FWD_SHOW_PATH"
    if (p ~ /^const char \*(path|file)$/) return "AMPH_FWD_SHOW_PATH"
    if (p ~ /^const char \*[a-z_]+$/) return "AMPH_FWD_SHOW_TEXT"
    if (p ~ /^const void \*buf$/) return "AMPH_FWD_SHOW_DATA_IN"
    if (p ~ /^(void|char) \*buf$/ && f_type[c] ~ /^(ssize_t|int)$/ && f_name[c] !~ /^getdirentries/) return "AMPH_FWD_SHOW_DATA_OUT"
    if (p ~ /^int ([a-z]+_)?dir$/) return "AMPH_FWD_SHOW_DIRFD"
    if (p ~ /^int (fd|in|out|ep)$/ || (f_name[c] ~ /dup[23]$/ && p ~ /^int (from|to)$/)) return "AMPH_FWD_SHOW_FD"
    if (p ~ /[*\[(]/) return "AMPH_FWD_SHOW_POINTER"
    if (name == "command" && f_name[c] ~ /fcntl/) return "AMPH_FWD_SHOW_COMMAND"
    if (name == "prot") return "AMPH_FWD_SHOW_PROTECTION"
    if (name == "flags" && f_name[c] ~ /^mmap/) return "AMPH_FWD_SHOW_MAP"
    if (p ~ /^mode_t /) return "FWD_IN_MODE"
    if (p ~ /^(off_t|amph_ip_off_t) /) return "FWD_IN_OFF"
    if (p ~ /^size_t /) return "FWD_IN_LEN"
    if (p ~ /^(unsigned|uint32_t|uint64_t|int) flags$|^uint|^unsigned long|^unsigned (mask|command)/) return "AMPH_FWD_SHOW_HEX"
    return "AMPH_FWD_SHOW_NUMBER"
}

function outcome_of(c) {
    if (f_type[c] == "void") return "NONE"
    if (f_type[c] ~ /\*$/) return "POINTER"
    if (f_type[c] == "mode_t") return "MODE"
    if (f_name[c] ~ /^(posix_|pthread_)/) return "ERRNO"
    return f_after[c] == "new" || f_name[c] ~ /dup[23]$/ ? "FD" : "NUMBER"
}

function kind_of(c) {
    if (f_name[c] ~ /^_?_?_?v?[fF]ork$/) return "FORKS"
    return f_name[c] ~ /^(_exit|_Exit|f?exec.*)$/ ? "LEAVES" : "RETURNS"
}

# Stores the parameters that a trace shows in shown[1..n]; a variadic one is shown as the entry has read it.
function trace_params(c, shown,    n, i, p) {
    n = split_params(f_params[c], p)
    for (i = 1; i <= n && i <= 7; i++) {
        if (p[i] ~ /^\.\.\./) {
            if (va_type == "va_list") return i - 1
            p[i] = va_type " " va_name
        }
        if (p[i] ~ /^va_list /) return i - 1
        shown[i] = p[i]
    }
    return i - 1
}

function make_shape(c,    n, i, shown, s) {
    shape_of(c)
    n = trace_params(c, shown)
    s = "{ AMPH_IP_SHAPE_" kind_of(c) ", AMPH_FWD_OUTCOME_" outcome_of(c) ", AMPH_IP_STDIO_" (is_stdio(c) ? f_target[c] : "NO") ", " n ", {"
    for (i = 1; i <= n; i++) s = s (i > 1 ? ", " : " ") shown_as(c, shown[i])
    return s (n ? " } }," : " 0 } },")
}

# Returns the list of the arguments, converted to numbers.
function trace_args(c,    n, i, shown, s) {
    n = trace_params(c, shown)
    s = "    const uint64_t traced_arg[] = { "
    for (i = 1; i <= n; i++) s = s (i > 1 ? ", " : "") (shown[i] ~ /[*\[(]/ ? "(uintptr_t)" : "(uint64_t)") param_name(shown[i])
    return s (n ? "" : "0") " };"
}

# Prints the traced variant of an entry.  It calls the entry again, which then has a stack frame.
function make_traced(c,    type) {
    type = star(f_type[c])
    print "static AMPH_NOINLINE " type "traced_" f_name[c] "(" fixed ")\n{"
    print trace_args(c) "\n    struct amph_ip_trace_frame traced_frame;\n"
    print "    amph_ip_trace_begin(&traced_frame, AMPH_IP_NAME_" f_name[c] ", traced_arg);"
    if (f_type[c] == "void") print "    caught_" f_name[c] "(" args ");\n    amph_ip_trace_end(&traced_frame, 0);"
    else {
        print "    " type "traced_result = caught_" f_name[c] "(" args ");"
        print "    amph_ip_trace_end(&traced_frame, " (type ~ /\*$/ ? "(intptr_t)" : "(int64_t)") "traced_result);\n    return traced_result;"
    }
    print "}\n"
}

function trace_hook(c) {
    if (!is_traced(c)) return ""
    if (f_type[c] == "void") return "    if (amph_ip_traces()) {\n        traced_" f_name[c] "(" args ");\n        return;\n    }\n"
    return "    if (amph_ip_traces())\n        return traced_" f_name[c] "(" args ");\n"
}

# The repeated call is a function of its own, so that the entry needs little stack.
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
    if (variadic) read_variadic()
    printf "%s", trace_hook(c)
    printf "%s", look
    print_call(c, point, real, "    ")
    print "    return AMPH_UNLIKELY(" failed ") ? again_" f_name[c] "(" args ", result, ours" (look ? ", turns" : "") ") : result;\n}\n" after(c)
}

function star(type) { return type (type ~ /\*$/ ? "" : " ") }

# Prints the #if around functions that exist only in a C library with two sizes of time_t.
function before(c) { return f_time64[c] ? "#if AMPH_IP_LONG_TIMES\n" : "" }
function after(c) { return f_time64[c] ? "\n#endif" : "" }

function make_h(    c) {
    printf head, "iofwd/calls/names.def"
    print "#ifndef AMPH_IOFWD_NAMES_H\n#define AMPH_IOFWD_NAMES_H\n"
    print "#include \"iofwd/interpose/libc/time64.h\"\n#include \"iofwd/interpose/libc/libc_real.h\"\n"
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

# Functions that static programs do not catch: those of the dynamic linker, and those that this C library has as an old version only.
function wrapped(c) { return !f_time64[c] && f_name[c] !~ /^(__libc_start_main|dlerror|dlopen|dlmopen|__fxstat.*|__l?xstat.*|__xmknod.*|llseek|closefrom64|futimes64|fts64_.*|ftw64_old)$/ }

function make_flags(    c) {
    for (c = 1; c <= count; c++) if (wrapped(c)) print "-Wl,--wrap=" f_name[c]
    n = split("_IO_2_1_stdin_ _IO_2_1_stdout_ _IO_2_1_stderr_", streams, " ") # std_files.c
    for (i = 1; i <= n; i++) print "-Wl,--wrap=" streams[i]

    # Always linked: for a function that only libraries behind this one call (libgfortran, libstdc++, the C library itself),
    # the linker would search the archive too early.
    for (c = 1; c <= count; c++) if (wrapped(c)) print "-Wl,-u,__wrap_" f_name[c]
    for (i = 1; i <= n; i++) print "-Wl,-u,__wrap_" streams[i]
}

function make_c(    c, ret, real, call) {
    printf head, "iofwd/calls/names.def"
    print "#include \"iofwd/calls/names.h\"\n\n#include \"iofwd/interpose/entry/catch.h\"\n#include \"iofwd/interpose/entry/targets.h\"\n#include \"iofwd/interpose/entry/trace.h\"\n"
    print "const char *const amph_ip_name_texts[AMPH_IP_NAME_COUNT] = {"
    for (c = 1; c <= count; c++) print before(c) "    \"" f_name[c] "\"," after(c)
    print "};"
    print "const struct amph_ip_shape amph_ip_shapes[AMPH_IP_NAME_COUNT] = {"
    for (c = 1; c <= count; c++) print before(c) "    " make_shape(c) after(c)
    print "};"
    if (wrap) {
        for (c = 1; c <= count; c++) if (wrapped(c)) print "extern char __real_" f_name[c] "[]" (f_foreign[c] ? " __attribute__((weak))" : "") ";"
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
        if (is_traced(c) && !(variadic && va_type == "va_list")) make_traced(c)
        real = f_after[c] ~ /^calls / ? substr(f_after[c], 7) : "libc_" f_name[c] "(" args ")"
        if (f_after[c] == "new") real = "amph_ip_note_local(" real ")"
        if (f_after[c] == "stream") real = "amph_ip_note_stream(" real ")"
        if (is_stdio(c) && !variadic) {
            print star(f_type[c]) "caught_" f_name[c] "(" proto ")\n{\n" trace_hook(c) "    " ret real ";\n}\n"
            continue
        }
        point = is_cancel_point(f_name[c]) ? "amph_ip_cancel_point();" : ""
        if (turns(c)) {
            make_turning(c, point, real)
            continue
        }
        print star(f_type[c]) "caught_" f_name[c] "(" proto ")\n{"
        if (variadic && va_type == "va_list") {
            # the result is stored in a variable, because va_end follows the call
            print "    va_list ap;\n    va_start(ap, " va_last ");"
            real = ""
            if (va_via != "")
                real = "libc_" va_via "(" args ", ap)"
            else if (f_name[c] ~ /dprintf/)
                real = "libc_" (f_name[c] ~ /^__/ ? "__v" substr(f_name[c], 3) : "v" f_name[c]) "(" args ", ap)"
            if (is_traced(c)) {
                print trace_args(c) "\n    struct amph_ip_trace_frame traced_frame;\n    bool traced = amph_ip_traces();\n"
                print "    if (AMPH_UNLIKELY(traced))\n        amph_ip_trace_begin(&traced_frame, AMPH_IP_NAME_" f_name[c] ", traced_arg);\n"
            }
            if (ret != "") print "    " star(f_type[c]) "result;"
            if (is_stdio(c)) print "    result = " real ";"
            else {
                print "    " (real != "" ? "if (" f_guard[c] ") " : "") "{"
                if (ret != "") print_ours(c, "        ", 1, 0)
                else print_returned(c, "        ", 0)
                print "    }" (real != "" ? " else\n        " (ret != "" ? "result = " : "") real ";" : "")
            }
            if (is_traced(c))
                print "    if (AMPH_UNLIKELY(traced))\n        amph_ip_trace_end(&traced_frame, " \
                    (ret == "" ? "0" : (f_type[c] ~ /\*$/ ? "(intptr_t)" : "") "result") ");\n"
            print "    va_end(ap);\n" (ret != "" ? "    return result;\n" : "") "}\n"
            continue
        }
        if (variadic)
            read_variadic()
        printf "%s", trace_hook(c)
        if (f_guard[c] == "1") {
            if (point) print "    " point
            print_returned(c, "    ", 0)
            print "}\n"
            continue
        }
        if (f_after[c] !~ /^(new|stream|-|calls .*)$/ && f_after[c] !~ /^refused E[A-Z]+ ./) die("unknown last field: " f_after[c])
        if (f_links[c] != "" && !keeps_errno(c)) print "    int before = errno;"
        print "    if (" f_guard[c] ") {"
        if (point) print "        " point
        print_returned(c, "        ", f_links[c] != "")
        print "    }" (f_type[c] == "void" ? " else" : "")
        if (f_links[c] != "") {
            # a path that the kernel did not find may lead into a prefix by a link
            print "    " star(f_type[c]) "result = " real ";"
            print_again(c, real, "    ")
            print "    if (AMPH_LIKELY(result" (f_type[c] ~ /\*$/ ? " != NULL" : " >= 0") ") || errno != ENOENT || !(" f_links[c] "))"
            print "        return result;"
            print "    amph_ip_links++;"
            print_ours(c, "    ", 1, 1)
            print "    amph_ip_links--;\n    return result;\n}\n" after(c)
            continue
        }
        if (makes_descriptor(c)) {
            print "    " star(f_type[c]) "result = " real ";"
            print_again(c, real, "    ")
            print "    return result;\n}\n" after(c)
            continue
        }
        print (f_type[c] == "void" ? "        " : "    ") ret real ";\n}\n" after(c)
    }
}

# Returns the document's line for a caught function: forwarded, refused (errno and reason), or for Amphora's own use.
function doc_row(c,    why, err) {
    if (f_after[c] ~ /^refused /) {
        err = f_after[c]; sub(/^refused /, "", err); sub(/ .*/, "", err)
        return "| `" f_name[c] "` | refused: " err " | " substr(f_after[c], 10 + length(err)) " |"
    }
    if (is_stdio(c)) return "| `" f_name[c] "` | forwarded | a forwarded stream is a stream of the C library; caught so that the recorder sees it |"
    if (f_target[c] ~ /^amph_ip_own/)
        return "| `" f_name[c] "` | local | has no path; caught so that Amphora's own descriptors get high numbers |"
    if (f_name[c] in leads) return "| `" f_name[c] "` | forwarded | request `" leads[f_name[c]] "` |"
    if (f_name[c] ~ /^(umask|abort|__libc_start_main)$/ || f_target[c] ~ /^amph_ip_limits_changed/ || f_name[c] ~ /^pthread_(create|cancel)$/)
        return "| `" f_name[c] "` | local | caught so that forwarded calls know of it |"
    return "| `" f_name[c] "` | forwarded | by the requests of other calls |"
}

function make_doc(    c, how) {
    print "# What becomes of each file function of the C library\n"
    print "Made from `iofwd/calls/calls.def`, `iofwd/calls/names.def` and `iofwd/calls/libc.def`; `tests/files/calls/iofwd_names.sh` compares it with what"
    print "`nm -D` finds in libc.so.6 (glibc 2.36). *Forwarded*: on a path below `IOFWD_PREFIX`, and on a descriptor or stream that such a call"
    print "has returned, an I/O server executes it; otherwise the C library does. *Refused*: on such a path it fails, as the third column says."
    print "*Local*: the C library executes it.\n"
    print "[limits.md](limits.md) lists where forwarded files differ from local ones.\n"
    print "| name | what becomes of it | how, or why |\n|---|---|---|"
    for (c = 1; c <= count; c++) if (!f_time64[c]) print doc_row(c)
    for (c = 1; c <= rows; c++) {
        how = row_class[c] == "local" ? "local" : "forwarded"
        print "| `" row_name[c] "` | " how " | " row_why[c] " |"
    }
}

# Prints prototypes of the functions that execute the calls.  A row whose target has all its parameters, in order, gives the prototype;
# entry/targets.h declares the other targets.
function make_implementations(    c, call, declared) {
    printf head, "iofwd/calls/names.def and iofwd/calls/calls.def"
    print "/* Included by iofwd/interpose/entry/targets.h, which has the types. */"
    print "#ifndef AMPH_IOFWD_IMPLEMENTATIONS_H\n#define AMPH_IOFWD_IMPLEMENTATIONS_H\n"
    for (c = 1; c <= count; c++) {
        if (f_time64[c] || f_target[c] !~ /amph_do_/) continue
        f_params[c] = wide_params[c]
        shape_of(c)
        if (variadic && va_type == "va_list") {
            fixed = fixed ", va_list " va_name
            args = args ", " va_name
        }
        call = f_target[c]
        sub(/^AMPH_IP_WIDE_(ONLY|POINTER)\(/, "", call)
        sub(/^amph_ip_narrow_off\(/, "", call)
        if (!match(call, /^amph_do_[A-Za-z0-9_]+\(/)) continue
        target = substr(call, 1, RLENGTH - 1)
        if (target in declared || index(call ")", target "(" args ")") != 1) continue
        declared[target] = 1
        print star(wide_type[c]) target "(" fixed ");"
    }
    print "\n#endif"
}

# Prints the rows of system calls that calls.def contains; numbers.def includes them.
function make_numbers(    i) {
    printf head, "iofwd/calls/calls.def"
    for (i = 1; i <= nnumbers; i++) print number_row[i]
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
    else if (out == "implementations.h") make_implementations()
    else if (out == "numbers.h") make_numbers()
    else if (out == "core.h") make_core()
    else if (out == "names") { for (c = 1; c <= count; c++) if (!f_time64[c]) print f_name[c] }
    else if (out == "doc") make_doc()
    else { print "names.awk: -v out= must name what to make" > "/dev/stderr"; exit 1 }
}
