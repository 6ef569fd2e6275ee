// SPDX-License-Identifier: BSD-3-Clause
// A table spread over all processes on a UPC++-like library: each key has a home, where remote procedure calls put it in and find it.
//
//   amphora-run -n 4 examples/upcxx/dht [entries for each process]
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <unordered_map>

#include "upcxx.hpp"

class table {
    using part = std::unordered_map<std::string, std::string>;
    upcxx::dist_object<part> mine{ part() };

    static upcxx::rank_t home_of(const std::string &key)
    {
        std::uint64_t h = 1469598103934665603u;
        for (unsigned char c : key)
            h = (h ^ c) * 1099511628211u;
        return static_cast<upcxx::rank_t>((h >> 32) % upcxx::rank_n());
    }

  public:
    upcxx::future<> put(const std::string &key, const std::string &value)
    {
        return upcxx::rpc(
            home_of(key), [](upcxx::dist_object<part> &p, std::string &&k, std::string &&v) { (*p)[k] = std::move(v); }, mine, key, value);
    }
    // Nothing, or the value.
    upcxx::future<std::vector<std::string>> find(const std::string &key)
    {
        return upcxx::rpc(
            home_of(key),
            [](upcxx::dist_object<part> &p, const std::string &k) {
                auto it = p->find(k);
                return it == p->end() ? std::vector<std::string>() : std::vector<std::string>{ it->second };
            },
            mine, key);
    }
    std::size_t size() const { return (*mine).size(); }
};

static std::string key_of(upcxx::rank_t rank, long i)
{
    return "key " + std::to_string(rank) + "/" + std::to_string(i);
}
static std::string value_of(upcxx::rank_t rank, long i)
{
    return std::string(static_cast<std::size_t>(i % 50 + 1), static_cast<char>('a' + (rank + i) % 26));
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? std::atol(argv[1]) : 500, wrong = 0;
    upcxx::init();
    {
        table t;
        upcxx::future<> all = upcxx::make_future();
        for (long i = 0; i < count; i++)
            all = upcxx::when_all(all, t.put(key_of(upcxx::rank_me(), i), value_of(upcxx::rank_me(), i)));
        all.wait();
        upcxx::barrier();
        // What the next process has put in, and one key that nobody has.
        upcxx::rank_t next = (upcxx::rank_me() + 1) % upcxx::rank_n();
        all = upcxx::make_future();
        for (long i = 0; i < count; i++)
            all = upcxx::when_all(all, t.find(key_of(next, i)).then([&wrong, next, i](const std::vector<std::string> &found) {
                wrong += found.size() != 1 || found[0] != value_of(next, i);
            }));
        all.wait();
        wrong += !t.find("no such key").wait().empty();
        auto total = upcxx::reduce_all(static_cast<long>(t.size()), upcxx::op_fast_add).wait();
        wrong = upcxx::reduce_all(wrong, upcxx::op_fast_add).wait();
        wrong += total != count * static_cast<long>(upcxx::rank_n());
        if (upcxx::rank_me() == 0)
            std::cout << "dht: " << total << " entries in " << upcxx::rank_n() << " processes, " << t.size() << " of them here; " << wrong
                      << " wrong" << std::endl;
        upcxx::barrier(); // before the table goes
    }
    upcxx::finalize();
    return wrong != 0;
}
