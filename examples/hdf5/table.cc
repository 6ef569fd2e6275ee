// SPDX-License-Identifier: BSD-3-Clause
//
// A table of measurements in an HDF5 file: made, extended, changed in the middle and read again.
//
//   table FILE [ROWS]
//
// Plain C++ with HDF5's library; it knows nothing of Amphora.  The table grows in pieces and is compressed, so that the library reads and
// rewrites parts of the file in an order of its own.

#include <H5Cpp.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace {

struct Row {
    std::int64_t time;
    double pressure, temperature;
};

constexpr hsize_t chunk_rows = 512;

H5::CompType row_type()
{
    H5::CompType type(sizeof(Row));

    type.insertMember("time", HOFFSET(Row, time), H5::PredType::NATIVE_INT64);
    type.insertMember("pressure", HOFFSET(Row, pressure), H5::PredType::NATIVE_DOUBLE);
    type.insertMember("temperature", HOFFSET(Row, temperature), H5::PredType::NATIVE_DOUBLE);
    return type;
}

std::vector<Row> rows_from(hsize_t first, hsize_t n)
{
    std::vector<Row> rows;

    for (hsize_t i = first; i < first + n; i++) {
        const double x = static_cast<double>(i);
        rows.push_back({ static_cast<std::int64_t>(i), std::floor(x * x / 7) / 16, 273 + x / 1024 });
    }

    return rows;
}

void write_rows(const H5::DataSet &table, hsize_t first, const std::vector<Row> &rows)
{
    const hsize_t n = rows.size();
    H5::DataSpace in_file = table.getSpace();

    in_file.selectHyperslab(H5S_SELECT_SET, &n, &first);
    table.write(rows.data(), row_type(), H5::DataSpace(1, &n), in_file);
}

void make(const std::string &path, hsize_t total)
{
    H5::H5File file(path, H5F_ACC_TRUNC);
    H5::Group group = file.createGroup("/run");
    const hsize_t none = 0;
    const hsize_t endless = H5S_UNLIMITED;
    H5::DSetCreatPropList options;

    options.setChunk(1, &chunk_rows);
    options.setDeflate(4);
    H5Pset_obj_track_times(options.getId(), false); // the same file on each day

    H5::DataSet table = group.createDataSet("table", row_type(), H5::DataSpace(1, &none, &endless),
                                            options);

    for (hsize_t first = 0; first < total; first += chunk_rows / 3) {
        const hsize_t n = std::min(chunk_rows / 3, total - first);
        const hsize_t longer = first + n;

        table.extend(&longer);
        write_rows(table, first, rows_from(first, n));
        if (first % (chunk_rows * 4) == 0)
            file.flush(H5F_SCOPE_GLOBAL);
    }

    const std::int64_t rows = static_cast<std::int64_t>(total);

    table.createAttribute("rows", H5::PredType::STD_I64LE, H5::DataSpace())
        .write(H5::PredType::NATIVE_INT64, &rows);
}

void change(const std::string &path, hsize_t total)
{
    H5::H5File file(path, H5F_ACC_RDWR);

    write_rows(file.openDataSet("/run/table"), total / 2, rows_from(0, total / 4));
    file.move("/run", "/changed");
}

double read_again(const std::string &path)
{
    H5::H5File file(path, H5F_ACC_RDONLY);
    H5::DataSet table = file.openDataSet("/changed/table");
    std::vector<Row> rows(static_cast<std::size_t>(table.getSpace().getSimpleExtentNpoints()));
    double sum = 0;

    table.read(rows.data(), row_type());
    for (const Row &row : rows)
        sum += static_cast<double>(row.time) + row.pressure + row.temperature;

    return sum;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        std::cerr << "usage: table FILE [ROWS]\n";
        return 2;
    }

    const hsize_t total = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 100000;

    try {
        H5::Exception::dontPrint();
        make(argv[1], total);
        change(argv[1], total);
        std::cout << total << " rows, sum " << std::hexfloat << read_again(argv[1]) << '\n';
    } catch (const H5::Exception &error) {
        std::cerr << "table: " << argv[1] << ": " << error.getDetailMsg() << " (" << error.getFuncName() << ")\n";
        return 1;
    }

    return 0;
}
