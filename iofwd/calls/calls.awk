# SPDX-License-Identifier: BSD-3-Clause
# Generates C from iofwd/calls/calls.def:  awk -f calls.awk -v out=WHAT calls.def
#   WHAT: calls.h          numbers, client records, stub prototypes
#         client_calls.c   stubs
#         server_calls.h   server records and prototypes of the functions that execute the calls
#         table.c          facts and encoding of each call
#         server_dispatch.c
#         names            call and library name, one pair a line

function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
function die(text) { print FILENAME ":" NR ": " text > "/dev/stderr"; failed = 1; exit 1 }
function word(dir, name, client, server) { known[dir name] = 1; client_c[dir name] = client; server_c[dir name] = server }

# word: how client and server declare an argument of this type word.  Parts are separated by ";", and @ is replaced by the name.
BEGIN {
    FS = "|"
    word("i", "path", "const struct amph_fwd_file *@_dir;const char *@", "struct amph_server_handle *@_dir;const char *@")
    word("i", "file", "const struct amph_fwd_file *@", "struct amph_server_handle *@")
    n = split("oflags sflags atflags amode whence xflags falloc lockop", w, " ")
    for (i = 1; i <= n; i++) word("i", w[i], "int @", "int @")
    word("i", "rflags", "unsigned @", "unsigned @")
    word("i", "mode", "mode_t @", "mode_t @")
    word("i", "off", "off_t @", "off_t @")
    word("i", "len", "size_t @", "size_t @")
    word("i", "uid", "uid_t @", "uid_t @")
    word("i", "gid", "gid_t @", "gid_t @")
    word("i", "dev", "dev_t @", "dev_t @")
    word("i", "times", "const struct timespec *@", "struct timespec @[2]")
    word("i", "lock", "const struct flock *@", "struct flock @")
    word("i", "text", "const char *@", "const char *@")
    word("i", "blob", "const void *@;size_t @_len", "const void *@;size_t @_len")
    word("i", "data", "const void *@;size_t @_len", "const void *@;size_t @_len")
    word("o", "newfile", "struct amph_fwd_file *@", "uint64_t @")
    word("o", "offset", "off_t *@", "off_t @")
    word("o", "statbuf", "struct stat *@", "struct stat @")
    word("o", "statxbuf", "struct statx *@", "struct statx @")
    word("o", "fsbuf", "struct statfs *@", "struct statfs @")
    word("o", "count", "size_t *@", "size_t @")
    word("o", "sflags", "int *@", "int @")
    word("o", "gotlock", "struct flock *@", "struct flock @")
    n = split("string dirents buf", w, " ")
    for (i = 1; i <= n; i++) word("o", w[i], "void *@;size_t @_cap;size_t *@_len", "void *@;size_t @_cap;size_t @_len")
    client_c["ostring"] = "char *@;size_t @_cap;size_t *@_len"
    ncalls = 0

    flag_words = "pure blocking bulk change offset interruptible trylock passthrough lookup light"
    server_words = "any progress locker collective"
    coalesce_words = "data file all end"
    coalesce_options = "report unlock drop recheck open"
    repeat_words = "always recorded check never"
    failover_options = "record adopt forget"
    stripe_words = "home all spread open"
    version_words = "data attributes directory names cuts check hold"
}

# Returns whether w is one of the words of the list.
function is_one_of(w, list) { return index(" " list " ", " " w " ") > 0 }

# Returns the C constant for a word of a column.
function fact(column, w, list, prefix) {
    if (!is_one_of(w, list)) die("column " column ": " (w == "" ? "a word" : w) " is not one of: " list)
    return prefix toupper(w)
}

# The bits of the words of a column from the given one on, or 0.
function facts(column, text, first, list, prefix,    n, i, w, bits) {
    bits = "0"
    if (text == "-") return bits
    n = split(text, w, ",")
    for (i = first; i <= n; i++) bits = bits " | " fact(column, w[i], list, prefix)
    return bits
}

# The first word of a column.
function first_of(text,    w) { split(text, w, ","); return w[1] }

# Refuses a row whose versions do not follow from what the call changes: clients would answer from what is no longer current.
function check_versions(c,    by_file) {
    by_file = arg_word[c, 1] == "file"
    if (flags[c] ~ /CALL_CHANGE/ && versions[c] == "0") die("a call with the flag change must move a version")
    if (flags[c] ~ /CALL_WRITES/ && versions[c] !~ /_DATA/) die("a call that writes must move the version data")
    if (flags[c] ~ /CALL_READS/ && versions[c] !~ /_ATTRIBUTES/) die("a call that reads must move the version attributes")
    if (versions[c] ~ /_(DATA|ATTRIBUTES|DIRECTORY)/ && !by_file) die("only a call on an open file moves data, attributes or directory")
    if (versions[c] ~ /_(NAMES|CUTS)/ && by_file) die("a call on an open file moves names by the word directory")
    if (versions[c] ~ /_(CHECK|HOLD)/ && versions[c] ~ /\|.*\|/) die("check and hold stand alone")
}

/^[ \t]*(#|$)/ { next }
/^\+/ { next } # for names.awk

{
    if (NF != 11) die("eleven columns are needed, this row has " NF)
    for (i = 1; i <= NF; i++) if (trim($i) == "") die("column " i " is empty; write - if it has nothing to say")
    name = trim($1)
    if (name !~ /^[a-z][a-z0-9]*$/) die("bad name: " name)
    number = trim($2)
    if (number !~ /^[0-9]+$/ || number + 0 < 1 || number + 0 > 199) die("bad service number: " number)
    if (number in taken) die("service number " number " is taken by " taken[number])
    taken[number] = name

    c = ++ncalls
    call[c] = name; service[c] = number + 0; nargs[c] = 0
    words[c] = reads = writes = opens = ""
    result_at[c] = data_at[c] = "0"
    for (side = 9; side <= 10; side++) {
        if (trim($side) == "-") continue
        na = split(trim($side), a, /[ \t]+/)
        for (i = 1; i <= na; i++) {
            if (split(a[i], p, ":") != 2) die("argument is not word:name: " a[i])
            dir = side == 9 ? "i" : "o"
            if (!((dir p[1]) in known)) die("unknown type word: " p[1])
            k = ++nargs[c]
            arg_dir[c, k] = dir; arg_word[c, k] = p[1]; arg_name[c, k] = p[2]
            words[c] = words[c] (words[c] == "" ? "" : " | ") "FWD_WORD(FWD_" (dir == "i" ? "IN_" : "OUT_") toupper(p[1]) ")"
            if (p[1] == "buf") { reads = " | FWD_CALL_READS"; result_at[c] = at_server(name, p[2] "_len") }
            if (p[1] == "data") { writes = " | FWD_CALL_WRITES"; data_at[c] = at_server(name, p[2]) }
            if (p[1] == "count" && writes) result_at[c] = at_server(name, p[2])
            if (p[1] == "newfile") opens = " | FWD_CALL_OPENS"
        }
    }

    flags[c] = facts(3, trim($3), 1, flag_words, "FWD_CALL_") reads writes opens
    if ((flags[c] ~ /BULK/) != (reads writes != "")) die("bulk goes with buf or data, and only with them")
    server[c] = fact(4, trim($4), server_words, "FWD_RUN_")
    coalesce[c] = fact(5, first_of(trim($5)), coalesce_words, "FWD_COALESCE_")
    coalesce_flags[c] = facts(5, trim($5), 2, coalesce_options, "FWD_COALESCE_")
    repeat[c] = fact(6, first_of(trim($6)), repeat_words, "FWD_REPEAT_")
    failover_flags[c] = facts(6, trim($6), 2, failover_options, "FWD_FAILOVER_")
    stripe[c] = fact(7, trim($7), stripe_words, "FWD_STRIPE_")
    if ((stripe[c] ~ /SPREAD/) != (coalesce[c] ~ /DATA/)) die("stripe spread and coalescing data go together")
    versions[c] = facts(8, trim($8), 1, version_words, "FWD_VERSION_")
    check_versions(c)
    if (nargs[c] > 6) die("too many arguments")
    names[c] = trim($11) == "-" ? "" : trim($11)
}

# Returns the declarations of all arguments of a call for client or server, each with `before` and `after` around it.
function decls(c, is_client, before, after,    k, i, n, p, text, s) {
    text = ""
    for (k = 1; k <= nargs[c]; k++) {
        s = arg_dir[c, k] arg_word[c, k]
        n = split(is_client ? client_c[s] : server_c[s], p, ";")
        for (i = 1; i <= n; i++) {
            gsub(/@/, arg_name[c, k], p[i])
            text = text before p[i] after
        }
    }
    return text
}

# Returns the names of all arguments of a call, separated by commas.
function uses(c,    k, i, n, p, text) {
    text = ""
    for (k = 1; k <= nargs[c]; k++) {
        n = split(client_c[arg_dir[c, k] arg_word[c, k]], p, ";")
        for (i = 1; i <= n; i++) {
            sub(/^.*[ *]/, "", p[i])
            gsub(/@/, arg_name[c, k], p[i])
            text = text (text == "" ? "" : ", ") p[i]
        }
    }
    return text
}

# Returns the C expression for the offset of a member in the server's record of a call.
function at_server(name, member) { return "offsetof(struct amph_server_args_" name ", " member ")" }

# Prints an X-macro with the calls whose text[c] matches the pattern.
function print_list(macro, text, pattern,    c) {
    printf "#define %s(X)", macro
    for (c = 1; c <= ncalls; c++) if (text[c] ~ pattern) printf " \\\n    X(%s, %s)", toupper(call[c]), call[c]
    print "\n"
}

function stub(c) { return "int amph_fwd_" call[c] "(struct amph_fwd_client *client" decls(c, 1, ", ", "") ")" }

function head(what) {
    print "/* SPDX-License-Identifier: BSD-3-Clause */"
    print "/* Made by iofwd/calls/calls.awk from iofwd/calls/calls.def: " what ".\n * Layer: iofwd.  Thread rule: as client.h and server.h say. */"
}

function make_calls_h(    c) {
    head("calls, their argument records and the client's stubs")
    print "#ifndef AMPH_IOFWD_CALLS_H\n#define AMPH_IOFWD_CALLS_H\n"
    print "#include <fcntl.h>\n#include <stddef.h>\n#include <sys/stat.h>\n#include <sys/types.h>\n#include <sys/vfs.h>\n#include <time.h>\n"
    print "struct amph_fwd_client;\nstruct amph_fwd_file;\n"
    print "enum amph_fwd_id {"
    for (c = 1; c <= ncalls; c++) print "    AMPH_FWD_" toupper(call[c]) ","
    print "    AMPH_FWD_NCALLS\n};\n"
    for (c = 1; c <= ncalls; c++) print "struct amph_fwd_args_" call[c] " {\n" decls(c, 1, "    ", ";\n") "};\n"
    print "union amph_fwd_args {"
    for (c = 1; c <= ncalls; c++) print "    struct amph_fwd_args_" call[c] " " call[c] ";"
    print "};\n"
    print "/* X(ID, name) of each call after which failover updates the recovery record by record_NAME, and of each of which repeats_NAME"
    print " * says whether it may be repeated.  A function that is missing is an error of the compiler. */"
    print_list("AMPH_FWD_RECORDED_CALLS", failover_flags, "_RECORD")
    print_list("AMPH_FWD_CHECKED_CALLS", repeat, "_CHECK")
    print "/* X(ID, name) of each call for which moves_NAME returns the versions that the server moves, and of each that query_NAME lets the"
    print " * client answer from an earlier answer. */"
    print_list("AMPH_FWD_VERSION_CHECKED_CALLS", versions, "_CHECK")
    print_list("AMPH_FWD_HELD_CALLS", versions, "_HOLD")
    print "/* X(ID, name) of each call that the client makes by do_NAME on a descriptor that its server has passed to it. */"
    print_list("AMPH_FWD_PASSTHROUGH_CALLS", flags, "_PASSTHROUGH")
    print "/* X(ID, name) of each call that the client makes by do_NAME below a directory whose descriptor its server has passed to it. */"
    print_list("AMPH_FWD_LOOKUP_CALLS", flags, "_LOOKUP")
    for (c = 1; c <= ncalls; c++) print stub(c) ";"
    print "\n#endif"
}

function make_calls_client_c(    c) {
    head("the client's stubs")
    print "#include \"iofwd/client/client.h\"\n"
    for (c = 1; c <= ncalls; c++) {
        print stub(c) "\n{"
        print "    struct amph_fwd_call call = { .id = AMPH_FWD_" toupper(call[c]) ", .client = client, .u." call[c] " = { " uses(c) " } };"
        print "    return amph_layer_enter(&call);\n}\n"
    }
}

function make_calls_server_h(    c) {
    head("the server's argument records and what executes them")
    print "#ifndef AMPH_IOFWD_CALLS_SERVER_H\n#define AMPH_IOFWD_CALLS_SERVER_H\n"
    print "#include <stdint.h>\n\n#include \"iofwd/calls/calls.h\"\n"
    print "struct amph_server_handle;\nstruct amph_server_request;\n"
    for (c = 1; c <= ncalls; c++) print "struct amph_server_args_" call[c] " {\n" decls(c, 0, "    ", ";\n") "};\n"
    print "union amph_server_args {"
    for (c = 1; c <= ncalls; c++) print "    struct amph_server_args_" call[c] " " call[c] ";"
    print "};\n"
    print "/* Each executes one request: arguments and results in rq->u, gives 0 or an errno value. */"
    for (c = 1; c <= ncalls; c++) print "int amph_server_do_" call[c] "(struct amph_server_request *rq, struct amph_server_args_" call[c] " *a);"
    print "\n#endif"
}

function make_calls_table_c(    c, k) {
    head("the facts of each call, and how it is put on the wire")
    print "#include \"iofwd/wire/marshal.h\"\n"
    print "const struct amph_fwd_call_desc amph_fwd_calls[AMPH_FWD_NCALLS] = {"
    for (c = 1; c <= ncalls; c++) {
        print "    [AMPH_FWD_" toupper(call[c]) "] = {"
        print "      .name = \"" call[c] "\", .service = " service[c] ", .nargs = " nargs[c] ","
        print "      .flags = " flags[c] ", .run = " server[c] ", .stripe = " stripe[c] ","
        print "      .coalesce = " coalesce[c] ", .coalesce_flags = " coalesce_flags[c] ","
        print "      .repeat = " repeat[c] ", .failover_flags = " failover_flags[c] ","
        print "      .versions = " versions[c] ","
        print "      .words = " words[c] ","
        print "      .data_at = " data_at[c] ", .result_at = " result_at[c] ","
        print "      .arg = {"
        for (k = 1; k <= nargs[c]; k++)
            print "          { FWD_" (arg_dir[c, k] == "i" ? "IN_" : "OUT_") toupper(arg_word[c, k]) ", offsetof(struct amph_fwd_args_" \
                call[c] ", " arg_name[c, k] (arg_word[c, k] == "path" ? "_dir" : "") "), offsetof(struct amph_server_args_" call[c] ", " \
                arg_name[c, k] (arg_word[c, k] == "path" ? "_dir" : "") "), \"" arg_name[c, k] "\" },"
        print "      } },"
    }
    print "};"
}

function make_calls_do_c(    c) {
    head("the server's dispatch")
    print "#include \"iofwd/server/internal.h\"\n"
    for (c = 1; c <= ncalls; c++)
        print "static int run_" call[c] "(struct amph_server_request *rq)\n{\n    return amph_server_do_" call[c] "(rq, &rq->u." call[c] ");\n}\n"
    print "const amph_server_run_fn amph_server_call_table[AMPH_FWD_NCALLS] = {"
    for (c = 1; c <= ncalls; c++) print "    run_" call[c] ","
    print "};"
}

function make_names(    c, n, i, p) {
    for (c = 1; c <= ncalls; c++) {
        n = split(names[c], p, /[ \t]+/)
        for (i = 1; i <= n; i++) if (p[i] != "") print call[c], p[i]
    }
}

END {
    if (failed) exit 1
    if (out == "calls.h") make_calls_h()
    else if (out == "client_calls.c") make_calls_client_c()
    else if (out == "server_calls.h") make_calls_server_h()
    else if (out == "table.c") make_calls_table_c()
    else if (out == "server_dispatch.c") make_calls_do_c()
    else if (out == "names") make_names()
    else { print "calls.awk: -v out= must name what to make" > "/dev/stderr"; exit 1 }
}
