# SPDX-License-Identifier: BSD-3-Clause
# Generates C from iofwd/preload/names.def:  awk -f names.awk -v out=names.h|names.c names.def
# and, with out=core.h, the list of the client's calls from iofwd/calls.def.

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

function guard_of(text,    n, i, part, w, s) {
    if (text == "always") return "1"
    n = split(text, part, / or /)
    s = ""
    for (i = 1; i <= n; i++) {
        split(part[i], w, " ")
        if (part[i] == "inside") { s = s (i > 1 ? " || " : "") "fwd_inside"; continue }
        if (w[1] !~ /^(fd|path|at|dir|file)$/) die("unknown guard: " part[i])
        s = s (i > 1 ? " || " : "") "fwd_" w[1] "(" w[2] (w[1] == "at" ? ", " w[3] : "") ")"
    }
    return s
}

BEGIN {
    if (out != "core.h") FS = "|"
    head = "/* SPDX-License-Identifier: BSD-3-Clause */\n/* Made by iofwd/preload/names.awk from %s.  Layer: iofwd. */\n"
    count = 0
}

/^[ \t]*(#|$)/ { next }

out == "core.h" { split($0, f, "|"); calls[++count] = trim(f[1]); next }

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
        f_guard[count] = guard_of(trim($2)); f_target[count] = trim(target); f_after[count] = trim($NF)
    }
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
            if (match(v, / if [a-z]+$/)) { va_cond = "fwd_needs_mode(" substr(v, RSTART + 4) ")"; v = substr(v, 1, RSTART - 1) }
            if (match(v, / via [a-z_]+$/)) { va_via = substr(v, RSTART + 5); v = substr(v, 1, RSTART - 1) }
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

function star(type) { return type (type ~ /\*$/ ? "" : " ") }

function make_h(    c) {
    printf head, "iofwd/preload/names.def"
    print "#ifndef AMPH_IOFWD_NAMES_H\n#define AMPH_IOFWD_NAMES_H\n"
    print "#include \"iofwd/preload/real.h\"\n"
    print "enum fwd_name {"
    for (c = 1; c <= count; c++) print "    FWD_NAME_" f_name[c] ","
    print "    FWD_NAME_COUNT\n};\n"
    for (c = 1; c <= count; c++) {
        shape_of(c)
        if (variadic && va_type == "va_list") continue
        print "static inline " star(f_type[c]) "real_" f_name[c] "(" fixed ")\n{"
        print "    " (f_type[c] == "void" ? "" : "return ") "((" star(f_type[c]) "(*)(" proto "))fwd_real(FWD_NAME_" f_name[c] "))(" args ");\n}"
    }
    print "\n#endif"
}

function make_c(    c, ret, real, call) {
    printf head, "iofwd/preload/names.def"
    print "#include \"iofwd/preload/names.h\"\n\n#include \"iofwd/preload/catch.h\"\n#include \"iofwd/preload/targets.h\"\n"
    print "const char *const fwd_name_texts[FWD_NAME_COUNT] = {"
    for (c = 1; c <= count; c++) print "    \"" f_name[c] "\","
    print "};\nvoid *fwd_real_slots[FWD_NAME_COUNT];\n"
    for (c = 1; c <= count; c++) {
        shape_of(c)
        ret = f_type[c] == "void" ? "" : "return "
        print star(f_type[c]) "caught_" f_name[c] "(" proto ") __asm__(\"" f_name[c] "\") FWD_EXPORT;"
        print star(f_type[c]) "caught_" f_name[c] "(" proto ")\n{"
        if (variadic && va_type == "va_list") {
            # the result passes a variable, since va_end comes after the call
            print "    va_list ap;\n    va_start(ap, " va_last ");"
            call = f_target[c]
            if (va_via != "") {
                real = args; sub(/^/, "real_" va_via "(", real); real = real ", ap)"
                call = f_guard[c] " ? " call " : " real
            } else if (f_name[c] ~ /dprintf/) {
                real = "real_" (f_name[c] ~ /^__/ ? "__v" substr(f_name[c], 3) : "v" f_name[c]) "(" args ", ap)"
                call = f_guard[c] " ? " call " : " real
            }
            print "    " star(f_type[c]) "result = " call ";\n    va_end(ap);\n    return result;\n}\n"
            continue
        }
        if (variadic) {
            print "    " star(va_type) va_name " = 0;"
            print "    if (" va_cond ") {\n        va_list ap;\n        va_start(ap, " va_last ");"
            print "        " va_name " = va_arg(ap, " va_type ");\n        va_end(ap);\n    }"
        }
        if (f_guard[c] == "1") {
            print "    " ret f_target[c] ";\n}\n"
            continue
        }
        real = "real_" f_name[c] "(" args ")"
        if (f_after[c] == "new") real = "fwd_note_local(" real ")"
        else if (f_after[c] != "-") die("unknown last field: " f_after[c])
        print "    if (" f_guard[c] ")\n        " ret f_target[c] ";"
        print (f_type[c] == "void" ? "    else\n        " : "    ") ret real ";\n}\n"
    }
}

function make_core(    c) {
    printf head, "iofwd/calls.def"
    print "#define FWD_CORE_CALLS(X) \\"
    for (c = 1; c <= count; c++) print "    X(" calls[c] ")" (c < count ? " \\" : "")
}

END {
    if (failed) exit 1
    if (out == "names.h") make_h()
    else if (out == "names.c") make_c()
    else if (out == "core.h") make_core()
    else { print "names.awk: -v out= must name what to make" > "/dev/stderr"; exit 1 }
}
