# SPDX-License-Identifier: BSD-3-Clause
# Makes amphora-counters(7) from the preprocessed man/counters.c.
#   awk -f counters.awk

# text: the strings of a field, joined, as roff text
function text(field,    joined, rest) {
    joined = ""
    rest = field
    while (match(rest, /"([^"\\]|\\.)*"/)) {
        joined = joined substr(rest, RSTART + 1, RLENGTH - 2)
        rest = substr(rest, RSTART + RLENGTH)
    }
    gsub(/\\/, "\\e", joined)
    gsub(/-/, "\\-", joined)
    sub(/^[.']/, "\\\\\\&&", joined)
    return joined
}

function word(field) {
    gsub(/[ \t\n]/, "", field)
    return field
}

function entry(name, unit, help) {
    return sprintf(".TP\n.B %s\n%s%s.\n", name, help, unit)
}

BEGIN {
    RS = "@@"
    FS = "@"
}

word($1) == "row" {
    name = text($2)
    kind = word($3)
    row = entry(name, " (" text($4) (kind == "COUNT" ? "" : ", now") ")", text($5))
    if (name ~ /^server_/)
        servers = servers row
    else
        others = others row
}

word($1) == "column" {
    list = word($4)
    lists[list] = lists[list] entry(text($2), "", text($5))
}

END {
    print ".\\\" SPDX-License-Identifier: BSD-3-Clause"
    print ".TH AMPHORA-COUNTERS 7 \"\" \"amphora\" \"Amphora\""
    print ".SH NAME\namphora-counters \\- what processes and I/O servers count"
    print ".SH DESCRIPTION"
    print "A process prints its counters that are not 0 when it ends, if AMPHORA_STATS is 1."
    print "An I/O server's are read while it runs by\n.BR iofwd\\-ctl (1),\nas text or JSON."
    print ".SH COUNTERS OF I/O SERVERS\n" servers
    print ".SH COLUMNS OF CLIENTS (iofwd\\-ctl clients)\n" lists["CLIENTS"]
    print ".SH COLUMNS OF FILES (iofwd\\-ctl files)\n" lists["FILES"]
    print ".SH COUNTERS OF ALL PROCESSES\n" others
    print ".SH SEE ALSO\n.BR iofwd\\-ctl (1),\n.BR amphora\\-settings (7)"
}
