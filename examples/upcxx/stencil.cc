// SPDX-License-Identifier: BSD-3-Clause
// A wave on a string of points on a UPC++-like library: blocks of points with halos; a put to each neighbour brings its own message, which
// counts there, and the inside is computed meanwhile.  Process 0 writes the points as text by a plain ofstream.
//
//   amphora-run -n 4 examples/upcxx/stencil [points [steps [file]]]
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <vector>

#include "upcxx.hpp"

using upcxx::rank_t;

class wave {
    long points, first, count;              // all; this block's
    upcxx::global_ptr<double> mine;         // 3 times (1 + count + 1): three steps in turn
    upcxx::dist_object<wave *> self{ this };
    upcxx::global_ptr<double> left, right;  // the neighbours' blocks
    long left_count = 0, step_number = 0;
    long come[2] = { 0, 0 };                // steps whose halo has come: from the left, from the right

    static long first_of(long n, rank_t r) { return n * static_cast<long>(r) / static_cast<long>(upcxx::rank_n()); }
    static long count_of(long n, rank_t r) { return first_of(n, r + 1) - first_of(n, r); }
    static long row(long count, long step) { return step % 3 * (count + 2); }

    void tell(upcxx::global_ptr<double> to, const double *value, int side)
    {
        upcxx::rput(value, to, 1,
                    upcxx::remote_cx::as_rpc([](upcxx::dist_object<wave *> &w, int s) { (*w)->come[s]++; }, self, side));
    }
    void hand_over()
    {
        double *now = mine.local() + row(count, step_number);
        if (left)
            tell(left + row(left_count, step_number) + left_count + 1, now + 1, 1);
        if (right)
            tell(right + row(count_of(points, upcxx::rank_me() + 1), step_number), now + count, 0);
    }
    double *at(long step) { return mine.local() + row(count, step); }
    void compute(long from, long to)
    {
        const double *now = at(step_number), *before = at(step_number + 2);
        double *next = at(step_number + 1);
        for (long i = from; i <= to; i++) {
            long place = first + i - 1;
            next[i] = place == 0 || place == points - 1 ? 0 : 2 * now[i] - before[i] + 0.25 * (now[i - 1] - 2 * now[i] + now[i + 1]);
        }
    }

  public:
    explicit wave(long n) : points(n), first(first_of(n, upcxx::rank_me())), count(count_of(n, upcxx::rank_me()))
    {
        mine = upcxx::new_array<double>(static_cast<std::size_t>(3 * (count + 2)));
        upcxx::dist_object<upcxx::global_ptr<double>> blocks(mine);
        rank_t me = upcxx::rank_me();
        if (me > 0)
            left = blocks.fetch(me - 1).wait(), left_count = count_of(n, me - 1);
        if (me + 1 < upcxx::rank_n())
            right = blocks.fetch(me + 1).wait();
        for (long step : { 0L, 2L }) // now and before: at rest
            for (long i = 0; i < count + 2; i++)
                at(step)[i] = std::exp(-std::pow((double(first + i - 1) / double(n) - 0.3) * 20, 2));
        upcxx::barrier();
    }
    void step()
    {
        hand_over();
        compute(2, count - 1);
        while ((left && come[0] <= step_number) || (right && come[1] <= step_number))
            upcxx::progress();
        compute(1, 1);
        if (count > 1)
            compute(count, count);
        step_number++;
    }
    double energy()
    {
        double sum = 0;
        for (long i = 1; i <= count; i++)
            sum += at(step_number)[i] * at(step_number)[i];
        return upcxx::reduce_all(sum, upcxx::op_fast_add).wait();
    }
    // All points, at process 0.
    std::vector<double> gather()
    {
        upcxx::dist_object<upcxx::global_ptr<double>> blocks(mine);
        std::vector<double> all(static_cast<std::size_t>(upcxx::rank_me() == 0 ? points : 0));
        for (rank_t r = 0; r < upcxx::rank_n() && upcxx::rank_me() == 0; r++) {
            long n = count_of(points, r);
            auto from = blocks.fetch(r).wait() + row(n, step_number) + 1;
            upcxx::rget(from, all.data() + first_of(points, r), static_cast<std::size_t>(n)).wait();
        }
        upcxx::barrier();
        return all;
    }
    ~wave()
    {
        upcxx::barrier();
        upcxx::delete_array(mine);
    }
};

int main(int argc, char **argv)
{
    long points = argc > 1 ? std::atol(argv[1]) : 1000, steps = argc > 2 ? std::atol(argv[2]) : 200;
    bool bad = false;
    upcxx::init();
    if (points < 2 * static_cast<long>(upcxx::rank_n()) || points > 100000000 || steps < 0) {
        if (upcxx::rank_me() == 0)
            std::cerr << "usage: stencil [points, at least two for each process [steps [file]]]\n";
        upcxx::finalize();
        return 2;
    }
    {
        wave w(points);
        for (long i = 0; i < steps; i++)
            w.step();
        upcxx::barrier();
        double energy = w.energy();
        auto all = w.gather();
        if (upcxx::rank_me() == 0) {
            std::cout << "stencil: " << points << " points, " << steps << " steps, " << upcxx::rank_n()
                      << " processes: " << std::setprecision(12) << energy << std::endl;
            if (argc > 3) {
                std::ofstream file(argv[3]);
                for (double v : all)
                    file << std::setprecision(17) << v << '\n';
                file.close();
                bad = !file;
            }
        }
    }
    upcxx::finalize();
    if (bad)
        std::cerr << "stencil: " << argv[3] << " cannot be written\n";
    return bad;
}
