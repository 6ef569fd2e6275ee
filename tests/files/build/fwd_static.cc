// SPDX-License-Identifier: BSD-3-Clause
// A static C++ program: streams and std::filesystem in the directory that is its argument.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
int main(int, char **argv)
{
    std::string dir = argv[1], line;
    std::ofstream(dir + "/cc") << "by C++ " << 42 << "\n";
    std::ifstream in(dir + "/cc");
    std::getline(in, line);
    std::cout << line << " " << std::filesystem::file_size(dir + "/cc") << "\n";
    for (auto &e : std::filesystem::directory_iterator(dir))
        std::cout << e.path().filename().string() << "\n";
    std::filesystem::rename(dir + "/cc", dir + "/cxx");
    return !std::filesystem::exists(dir + "/cxx");
}
