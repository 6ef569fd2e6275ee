// SPDX-License-Identifier: BSD-3-Clause
// A histogram over all processes' memories on a UPC++-like library: atomic additions anywhere, hundreds under way at once, and the result
// looked at by loads where the memory is shared, by gets where it is not.
//
//   amphora-run -n 4 examples/upcxx/histogram [values for each process]
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include "upcxx.hpp"

constexpr std::uint64_t bins_each = 64;

int main(int argc, char **argv)
{
    long count = argc > 1 ? std::atol(argv[1]) : 2000;
    upcxx::init();
    upcxx::rank_t n = upcxx::rank_n(), me = upcxx::rank_me();
    upcxx::dist_object<upcxx::global_ptr<std::uint64_t>> bins(upcxx::new_array<std::uint64_t>(bins_each));
    std::vector<upcxx::global_ptr<std::uint64_t>> all;
    for (upcxx::rank_t r = 0; r < n; r++)
        all.push_back(bins.fetch(r).wait());
    upcxx::atomic_domain<std::uint64_t> ad({ upcxx::atomic_op::inc, upcxx::atomic_op::fetch_inc });
    std::mt19937_64 random(me);
    std::uint64_t sum = 0;
    upcxx::barrier();
    upcxx::future<> pending = upcxx::make_future();
    for (long i = 0; i < count; i++) {
        std::uint64_t bin = random() % (bins_each * n);
        sum += bin;
        auto at = all[bin / bins_each] + static_cast<std::ptrdiff_t>(bin % bins_each);
        pending = upcxx::when_all(pending, ad.inc(at, std::memory_order_relaxed));
        if (i % 256 == 255)
            pending.wait();
    }
    pending.wait();
    upcxx::barrier();
    std::uint64_t in = upcxx::reduce_all(sum, upcxx::op_fast_add).wait(), out = 0, by_load = 0;
    for (upcxx::rank_t r = 0; r < n && me == 0; r++) {
        std::vector<std::uint64_t> copy(bins_each);
        const std::uint64_t *there = all[r].local();
        by_load += there != nullptr;
        if (!there) {
            upcxx::rget(all[r], copy.data(), bins_each).wait();
            there = copy.data();
        }
        for (std::uint64_t i = 0; i < bins_each; i++)
            out += there[i] * (r * bins_each + i);
    }
    bool bad = upcxx::broadcast(int(me == 0 && in != out), 0).wait() != 0;
    if (me == 0)
        std::cout << "histogram: " << count * static_cast<long>(n) << " values in " << bins_each * n << " bins, " << by_load << " of " << n
                  << " parts read in place: " << (bad ? "wrong" : "right") << std::endl;
    upcxx::barrier();
    ad.destroy();
    upcxx::delete_array(*bins);
    upcxx::finalize();
    return bad;
}
