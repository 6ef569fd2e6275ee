# SPDX-License-Identifier: BSD-3-Clause
# Makes the functions of libiofwd_messages (functions.c) from messages.def.
BEGIN {
    FS = " \\| "
    print "/* SPDX-License-Identifier: BSD-3-Clause */"
    print "/* Made by iofwd/messages/messages.awk from iofwd/messages/messages.def.  Layer: iofwd. */"
    print "#include \"iofwd/messages/messages.h\"\n\n#define EXPORTED __attribute__((visibility(\"default\")))\n"
}

/^#/ || !NF {
    next
}

{
    split($1, head, " ")
    kind = head[1]
    name = head[2]
    declaration = $2
    open = index(declaration, "(")
    start = substr(declaration, 1, open - 1)
    match(start, /[A-Za-z0-9_]+$/)
    symbol = substr(start, RSTART)
    type = substr(start, 1, RSTART - 1)
    sub(/ $/, "", type)
    list = substr(declaration, open + 1, length(declaration) - open - 1)
    n = split(list, param, ", ")
    values = ""
    for (i = 1; i <= n; i++) {
        value = param[i]
        sub(/\[\]$/, "", value)
        match(value, /[A-Za-z0-9_]+$/)
        values = values (i > 1 ? ", " : "") substr(value, RSTART)
    }

    sent = "true"
    if (kind == "am" || kind == "rma") {
        if (type == "int")
            sent = "answer == 0"
        else if (type == "gex_Event_t")
            sent = "answer != GEX_EVENT_NO_OP"
    }

    returns = type != "void"
    printf "EXPORTED %s;\n", declaration
    printf "%s\n{\n", declaration
    printf "    __typeof__(&%s) real = (__typeof__(&%s))amph_message_real(%d, \"%s\");\n", symbol, symbol, rows, symbol
    printf "    struct amph_message m = { .on = false };\n\n"
    printf "    if (amph_message_wanted(AMPH_MESSAGE_%s))\n", toupper(kind)
    printf "        amph_message_begin(&m, %d, \"%s\", %s, %s, %s);\n\n", rows, name, $3, $4, $5 == "-" ? "0" : $5
    printf "    %sreal(%s);\n", returns ? type " answer = " : "", values
    printf "    amph_message_end(&m, %s);\n", sent
    if (returns)
        print "    return answer;"
    print "}\n"
    rows++
}

END {
    printf "_Static_assert(%d <= AMPH_MESSAGE_ROWS, \"each row has a number\");\n", rows
}
