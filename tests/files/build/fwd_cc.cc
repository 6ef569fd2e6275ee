// SPDX-License-Identifier: BSD-3-Clause
// A C++ program for fwd_cc.sh: fstream, std::filesystem and redirected iostreams in the directory that is its argument.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>
namespace fs = std::filesystem;

static void streams(const fs::path &dir)
{
    std::ofstream(dir / "text") << "by C++ " << 42 << "\nsecond\n";
    std::ofstream(dir / "text", std::ios::app) << "appended\n";
    std::fstream both(dir / "text", std::ios::in | std::ios::out | std::ios::binary);
    std::string word;
    both.seekg(3);
    both >> word;
    both.seekp(0, std::ios::end);
    both << "end\n";
    both.seekg(0);
    std::cout << word << " " << both.tellg() << "\n" << both.rdbuf() << std::flush;
    std::ifstream missing(dir / "missing");
    std::cout << "missing: " << missing.is_open() << "\n";
}

static void names(const fs::path &dir)
{
    fs::create_directories(dir / "a" / "b");
    fs::copy_file(dir / "text", dir / "a" / "copy");
    fs::rename(dir / "a" / "copy", dir / "a" / "b" / "moved");
    fs::create_symlink("text", dir / "link");
    fs::resize_file(dir / "a" / "b" / "moved", 5);
    std::vector<std::string> found;
    for (auto &e : fs::recursive_directory_iterator(dir))
        found.push_back(fs::relative(e.path(), dir).string() + (e.is_directory() ? "/" : ""));
    std::sort(found.begin(), found.end());
    for (auto &name : found)
        std::cout << name << "\n";
    std::cout << fs::file_size(dir / "text") << " " << fs::read_symlink(dir / "link") << " "
              << fs::equivalent(dir / "link", dir / "text") << "\n";
    std::error_code error;
    fs::remove(dir / "a", error);
    std::cout << error.message() << "\n" << fs::remove_all(dir / "a" / "b") << " removed\n";
    fs::current_path(dir);
    std::cout << fs::current_path() << "\n";
}

int main(int, char **argv)
{
    fs::path dir = argv[1];
    streams(dir);
    names(dir);
    // Standard output into a file, through all layers.
    std::cout << std::flush;
    if (!std::freopen((dir / "out").c_str(), "w", stdout))
        return 1;
    std::cout << "redirected " << 1.5 << std::endl;
    std::cerr << "done\n";
    return 0;
}
