# SPDX-License-Identifier: BSD-3-Clause
# Makes amphora-settings(7) from the preprocessed man/settings.c.
#   awk -v version=VERSION -f settings.awk
# A field is one or more string constants, which are joined, or a constant expression.

# text: the strings of a field, joined, as roff text
function text(field,    joined, rest) {
    joined = ""
    rest = field
    while (match(rest, /"([^"\\]|\\.)*"/)) {
        joined = joined substr(rest, RSTART + 1, RLENGTH - 2)
        rest = substr(rest, RSTART + RLENGTH)
    }
    gsub(/\\"/, "\"", joined)
    return roff(joined)
}

function roff(s) {
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    sub(/^\./, "\\\\\\&.", s)
    return s
}

# number: the value of "1 << 20", "1ull << 40" or "4096"
function number(field,    part) {
    gsub(/[ ulUL]/, "", field)
    if (split(field, part, "<<") == 2)
        return part[1] * 2 ^ part[2]
    return field + 0
}

# size: n with the largest binary suffix that leaves a whole number
function size(n,    k) {
    for (k = 0; k < 4 && n >= 1024 && n % 1024 == 0; k++)
        n /= 1024
    return sprintf("%.0f", n) substr(" KMGT", k + 1, k > 0)
}

# duration: n nanoseconds in the largest unit that leaves a whole number
function duration(n) {
    if (n >= 1e9 && n % 1e9 == 0)
        return sprintf("%.0fs", n / 1e9)
    if (n >= 1e6 && n % 1e6 == 0)
        return sprintf("%.0fms", n / 1e6)
    return sprintf("%.0fns", n)
}

function bound(type, n) {
    return type == "SIZE" ? size(n) : type == "DUR" ? duration(n) : sprintf("%.0f", n)
}

# row: prints a setting and what it takes
function row(f,    name, type, def, unit, least, most, takes, words) {
    name = text(f[2])
    type = text(f[3])
    def = text(f[4])
    unit = text(f[5])
    least = number(f[6])
    most = number(f[7])

    takes = kind[type]
    if (type == "ENUM") {
        words = def
        gsub(/\|/, ", ", words)
        takes = words
        sub(/\|.*/, "", def)
    }
    if (unit != "" && type != "DUR" && type != "SIZE")
        takes = type == "STR" ? unit : takes ", " unit
    if (least || most)
        takes = takes ", " roff(bound(type, least)) " to " roff(bound(type, most))

    if (text(f[8]) != group)
        printf ".SS %s\n", title[group = text(f[8])] ? title[group] : group
    printf ".TP\n.B %s\n%s.\n.br\nTakes %s; the default is %s.\n", name, text(f[9]), takes, def == "" ? "none" : def
}

# list: prints another variable, under the heading of its kind
function list(heading, words, name, help) {
    if (heading != section)
        printf ".SH %s\n%s\n", section = heading, words
    printf ".TP\n.B %s\n%s.\n", name, help
}

BEGIN {
    kind["STR"] = "any text"
    kind["BOOL"] = "0 or 1"
    kind["INT"] = "a whole number"
    kind["SIZE"] = "a size"
    kind["DUR"] = "a time"
    title["iofwd"] = "file forwarding"

    printf ".\\\" SPDX-License-Identifier: BSD-3-Clause\n.\\\" Made by man/settings.awk of base/settings/env_defs.h.\n"
    printf ".TH AMPHORA-SETTINGS 7 \"\" \"Amphora %s\" \"Amphora\"\n", version
    printf ".SH NAME\namphora-settings \\- the environment variables of Amphora\n"
    printf ".SH DESCRIPTION\nAll programs and libraries of Amphora read these environment variables; there is no configuration file.\n"
    printf "An invalid or out-of-range value ends the program with a sentence that names the variable, the value and what is accepted.\n"
    printf "An empty value means the default, except for settings that take text.\n"
    printf "An unknown variable AMPHORA_* or IOFWD_* causes a warning, which names a similar setting if there is one.\n.PP\n"
    printf ".BR amphora-run (1)\npasses its environment on to all processes of the job.\n"
    printf ".B amphora-info -c\nprints each setting with its current value and the source of the value.\n"
    printf ".PP\nA size is a number of bytes, optionally with the suffix K, M, G or T for powers of 1024, such as 64K or 1.5G.\n"
    printf "A time has the suffix ns, us, ms or s; a bare number is in seconds.\n"
    printf "Settings that take 0 or 1 also take no and yes, off and on, false and true.\n"
    printf ".SH SETTINGS\n"
}

{ all = all " " $0 }

END {
    n = split(all, entry, "@@")
    for (i = 1; i <= n; i++) {
        split(entry[i], f, " @ ")
        if (f[1] == "row")
            row(f)
        else if (f[1] == "foreign")
            list("VARIABLES OF OTHER PROGRAMS", "Amphora reads these variables, which launchers or the system set.", text(f[2]), text(f[3]))
        else if (f[1] == "private")
            list("PRIVATE VARIABLES", "Programs of Amphora set these for each other; users do not set them.", text(f[2]), text(f[3]))
        else if (f[1] == "accepted")
            list("VARIABLES WITHOUT EFFECT", "Variables of GASNet that are accepted but not read, with the reason.", text(f[2]), text(f[3]))
    }
    printf ".SH SEE ALSO\n.BR amphora-info (1),\n.BR amphora-run (1),\n.BR amphora-security (7),\n.BR iofwd-server (1)\n"
}
