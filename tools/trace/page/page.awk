# SPDX-License-Identifier: BSD-3-Clause
# Makes one text of page.html and the files that its lines "@include FILE@" name, in the folder `from`.
/^@include [a-zA-Z0-9_.\/]+@$/ {
    file = from "/" substr($2, 1, length($2) - 1)
    lines = 0
    while ((getline line < file) > 0) {
        print line
        lines++
    }
    close(file)
    if (lines == 0) {
        print "page.awk: " file " cannot be read, or is empty" >"/dev/stderr"
        exit 1
    }
    next
}
{ print }
