// SPDX-License-Identifier: BSD-3-Clause
// One file operation of the matrix of ways, in C++; see ways.c.
#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;

static std::string own_name;
static fs::path dir;

static int check(int result, const char *what)
{
    if (result < 0)
        throw std::runtime_error(what);

    return result;
}

static int open_file(const char *name, int flags)
{
    return check(open((dir / name).c_str(), flags | O_CLOEXEC, 0644), name);
}

template <class Stream> static Stream stream(const char *name, std::ios::openmode mode)
{
    Stream s(dir / name, mode);

    if (!s)
        throw std::runtime_error(name);

    return s;
}

static void read()
{
    auto s = stream<std::ifstream>("in", std::ios::in);
    std::string all(std::istreambuf_iterator<char>(s), {});
    long sum = 0;

    for (unsigned char c : all)
        sum += c;

    std::cout << "lines " << std::count(all.begin(), all.end(), '\n') << " sum " << sum << "\n";
}

static void write()
{
    auto s = stream<std::ofstream>("new", std::ios::out);

    for (int i = 0; i < 2000; i++)
        s << "line " << i << "\n";

    s.close();
    std::cout << (s ? "written\n" : "failed\n");
}

static void list()
{
    std::vector<std::string> names;

    for (const auto &entry : fs::directory_iterator(dir))
        names.push_back(entry.path().filename());

    std::sort(names.begin(), names.end());
    for (const auto &name : names)
        std::cout << name << "\n";
}

static void stat()
{
    std::cout << "size " << fs::file_size(dir / "in") << "\n";
    std::cout << "none " << (fs::exists(dir / "none") ? "exists" : "missing") << "\n";
}

static void append()
{
    auto s = stream<std::ofstream>("log", std::ios::app);

    s << "second\n" << std::flush << "third\n" << std::flush;
    std::cout << (s ? "appended\n" : "failed\n");
}

static void rename()
{
    fs::rename(dir / "old", dir / "moved");
    std::cout << "old " << (fs::exists(dir / "old") ? "exists" : "missing") << "\n";
}

static char *map(const char *name, bool shared, size_t &len)
{
    int fd = open_file(name, shared ? O_RDWR : O_RDONLY);

    len = fs::file_size(dir / name);

    void *at = mmap(nullptr, len, shared ? PROT_READ | PROT_WRITE : PROT_READ, shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);

    if (at == MAP_FAILED)
        throw std::runtime_error("mmap");

    close(fd);
    return static_cast<char *>(at);
}

static void map_read()
{
    size_t len;
    const char *at = map("in", false, len);
    long sum = 0;

    for (size_t i = 0; i < len; i++)
        sum += static_cast<unsigned char>(at[i]);

    std::cout << "sum " << sum << "\n";
}

static void map_shared()
{
    size_t len;
    char *at = map("map", true, len);

    std::copy_n("mapped", 6, at);
    check(msync(at, len, MS_SYNC), "msync");
    check(munmap(at, len), "munmap");
    std::cout << "mapped\n";
}

static void run(std::vector<std::string> words)
{
    std::vector<char *> argv;
    int status;

    for (auto &word : words)
        argv.push_back(word.data());

    argv.push_back(nullptr);

    pid_t child = check(fork(), "fork");

    if (child == 0) {
        execvp(argv[0], argv.data());
        _exit(127);
    }

    check(waitpid(child, &status, 0), "wait");
    if (status)
        throw std::runtime_error(words[0] + " failed");
}

static bool lock(int fd)
{
    struct flock lock = {};

    lock.l_type = F_WRLCK;
    return fcntl(fd, F_SETLK, &lock) == 0;
}

int main(int argc, char **argv)
try {
    if (argc < 3)
        throw std::runtime_error("usage: ways OPERATION DIRECTORY [self]");

    std::string operation = argv[1];

    own_name = argv[0];
    dir = argv[2];
    if (argc > 3)
        check(dup2(open_file("printed", O_WRONLY | O_CREAT | O_TRUNC), 1), "dup2");

    if (operation == "read")
        read();
    else if (operation == "write")
        write();
    else if (operation == "list")
        list();
    else if (operation == "stat")
        stat();
    else if (operation == "append")
        append();
    else if (operation == "rename")
        rename();
    else if (operation == "mmap")
        map_read();
    else if (operation == "share")
        map_shared();
    else if (operation == "exec")
        run({ "cat", dir / "log" });
    else if (operation == "lock" && lock(open_file("log", O_RDWR)))
        run({ own_name, "trylock", dir });
    else if (operation == "trylock")
        std::cout << (lock(open_file("log", O_RDWR)) ? "free\n" : "held\n");
    else if (operation == "print")
        for (int i = 0; i < 3; i++)
            std::cout << "printed " << i << "\n";
    else
        throw std::runtime_error("no operation " + operation);

    return std::cout.flush() ? 0 : 1;
} catch (const std::exception &e) {
    std::cerr << e.what() << "\n";
    return 1;
}
