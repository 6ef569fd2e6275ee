# SPDX-License-Identifier: BSD-3-Clause
# Makes mpi_io.h (-v out=mpi_io.h) or mpi_io.c (-v out=mpi_io.c) from mpi_io.def.
BEGIN {
    print "/* SPDX-License-Identifier: BSD-3-Clause */"
    print "/* Made by iofwd/calls/mpi_io.awk from iofwd/calls/mpi_io.def.  Layer: iofwd. */"
    if (out == "mpi_io.h")
        print "#ifndef AMPH_IOFWD_CALLS_MPI_IO_H\n#define AMPH_IOFWD_CALLS_MPI_IO_H\n\nenum amph_ip_mpi_row {"
    else
        print "#include \"iofwd/interpose/entry/mpi_io.h\"\n\n#define EXPORTED __attribute__((visibility(\"default\")))\n"

    split("amode whence n", ints)
    for (i in ints)
        type["" ints[i]] = "int"

    type["offset"] = type["size"] = type["N"] = "int64_t"
    member["n"] = member["N"] = "count"
    member["size"] = "offset"
    split("path amode whence file file_p offset size n N type status request", kept)
    for (i in kept)
        keeps[kept[i]] = 1
}

/^#/ || !NF {
    next
}

{
    match($0, /^[a-z_]+ [a-z]+!?\(/)
    split(substr($0, 1, RLENGTH - 1), head, " ")
    name = head[1]
    kind = head[2]
    initiated = sub(/!$/, "", kind)
    list = substr($0, RLENGTH + 1)
    sub(/\).*/, "", list)
    n = split(list, arg, ", ")

    rows++
    if (out == "mpi_io.h") {
        printf "    AMPH_IP_MPI_%s,\n", name
        next
    }

    row_kind[rows] = toupper(kind) (initiated ? " | AMPH_IP_MPI_INITIATED" : "")
    row_name[rows] = name
    put("MPI_File_" name, name, "false")
    put("PMPI_File_" name, name, "true")
}

END {
    if (out == "mpi_io.h") {
        print "    AMPH_IP_MPI_ROWS\n};\n\n#endif"
        exit
    }

    print "const struct amph_ip_mpi_shape amph_ip_mpi_shapes[AMPH_IP_MPI_ROWS] = {"
    for (i = 1; i <= rows; i++)
        printf "    { \"MPI_File_%s\", AMPH_IP_MPI_%s },\n", row_name[i], row_kind[i]
    print "};"
}

function put(symbol, row, profiling,    i, params, types, values, fields, a, t) {
    params = types = values = fields = ""
    for (i = 1; i <= n; i++) {
        a = arg[i]
        t = a in type ? type[a] : "uintptr_t"
        params = params (i > 1 ? ", " : "") t " " a
        types = types (i > 1 ? ", " : "") t
        values = values (i > 1 ? ", " : "") (a == "status" ? "call.status" : a)
        if (a in keeps)
            fields = fields ", ." (a in member ? member[a] : a) " = " a
    }

    printf "EXPORTED int %s(%s);\n", symbol, params
    printf "int %s(%s)\n{\n", symbol, params
    printf "    struct amph_ip_mpi_call call = { .row = AMPH_IP_MPI_%s%s };\n", row, fields
    printf "    int (*real)(%s) = (int (*)(%s))amph_ip_mpi_begin(&call, %s);\n\n", types, types, profiling
    printf "    return amph_ip_mpi_end(&call, real(%s));\n}\n\n", values
}
