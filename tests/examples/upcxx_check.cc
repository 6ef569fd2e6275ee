// SPDX-License-Identifier: BSD-3-Clause
// The UPC++-like example library: each part with data that is looked at.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>

#include "examples/upcxx/upcxx.hpp"

using namespace upcxx;

#define CHECK(cond) \
    do { \
        if (!(cond)) { \
            std::fprintf(stderr, "%s:%d: process %u: %s does not hold\n", __FILE__, __LINE__, rank_me(), #cond); \
            gasnet_exit(1); \
        } \
    } while (0)

static rank_t me, n, right_one, left_one;

// ---- futures and promises ----

static void futures()
{
    CHECK(make_future().ready() && make_future(7).result() == 7);
    CHECK(make_future(3).then([](int i) { return i + 0.5; }).result() == 3.5);
    CHECK(make_future(3).then([](int i) { return make_future(i, std::string("x")); }).then([](int i, std::string &s) {
        return s + std::to_string(i);
    }).result() == "x3");
    promise<int> p;
    int seen = 0;
    auto f = p.get_future().then([&](int i) { seen = i; });
    CHECK(!f.ready());
    p.fulfill_result(5);
    CHECK(f.ready() && seen == 5);
    promise<> q;
    q.require_anonymous(3);
    auto done = q.get_future();
    q.fulfill_anonymous(2);
    CHECK(!done.ready());
    q.fulfill_anonymous(1);
    CHECK(!done.ready() && q.finalize().ready() && done.ready());
    promise<std::string> a;
    promise<> b;
    auto both = when_all(a.get_future(), b.get_future(), 4, make_future(1, 2.5));
    CHECK(!both.ready());
    a.fulfill_result("a");
    b.finalize();
    auto [s, four, one, half] = both.result();
    CHECK(s == "a" && four == 4 && one == 1 && half == 2.5);
    CHECK(when_all().ready());
}

// ---- the segment and transfers ----

struct counted {
    static int alive;
    int value = 3;
    counted() { alive++; }
    explicit counted(int v) : value(v) { alive++; }
    ~counted() { alive--; }
};
int counted::alive;

static void pointers()
{
    auto p = new_<counted>(8);
    auto a = new_array<counted>(10);
    CHECK(p.local()->value == 8 && a.local()[9].value == 3 && counted::alive == 11 && p.where() == me && p.is_local());
    CHECK(to_global_ptr(a.local() + 4) == a + 4 && (a + 7) - a == 7 && a < a + 1 && !(a == p));
    delete_(p);
    delete_array(a);
    CHECK(counted::alive == 0 && global_ptr<int>().is_null() && global_ptr<int>(nullptr).local() == nullptr);
    CHECK(allocate<char>(std::size_t(1) << 50).is_null());
    bool refused = false;
    try {
        new_array<double>(std::size_t(1) << 40);
    } catch (const std::bad_alloc &) {
        refused = true;
    }
    CHECK(refused);
    auto bytes = reinterpret_pointer_cast<char>(allocate<long>(4, 64));
    CHECK(reinterpret_cast<std::uintptr_t>(bytes.local()) % 64 == 0);
    deallocate(bytes);
}

static void transfers()
{
    constexpr std::size_t count = 50000;
    dist_object<global_ptr<int>> room(new_array<int>(count));
    auto there = room.fetch(right_one).wait();
    std::vector<int> out(count), back(count);
    std::iota(out.begin(), out.end(), static_cast<int>(me) * 1000000);
    barrier();
    for (std::size_t size : { std::size_t(1), std::size_t(100), count }) {
        rput(out.data(), there, size).wait();
        std::fill(back.begin(), back.end(), 0);
        rget(there, back.data(), size).wait();
        CHECK(std::equal(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(size), out.begin()));
    }
    barrier();
    CHECK((*room).local()[count - 1] == static_cast<int>(left_one) * 1000000 + static_cast<int>(count) - 1);
    barrier();
    rput(42, there).wait();
    CHECK(rget(there).wait() == 42);
    barrier();
    promise<> all;
    for (int i = 0; i < 100; i++)
        rput(i * 3, there + i, operation_cx::as_promise(all));
    all.finalize().wait();
    promise<> got;
    for (int i = 0; i < 100; i++)
        rget(there + i, &back[i], 1, operation_cx::as_promise(got));
    got.finalize().wait();
    for (int i = 0; i < 100; i++)
        CHECK(back[i] == i * 3);
    barrier();
    static int told; // the other's call may come at any time
    rput(out.data(), there, 1000, remote_cx::as_rpc([](dist_object<global_ptr<int>> &o, int first) {
             CHECK((*o).local()[0] == first && (*o).local()[999] == first + 999);
             told = 1;
         }, room, out[0]));
    while (!told)
        progress();
    barrier();
    // From the left one's memory to the right one's, by me.
    auto from = room.fetch(left_one).wait();
    barrier();
    copy(from + 1000, there + 2000, 500).wait();
    barrier();
    // A box of 4 x 5 out of rows of 20 into rows of 10.
    rput_strided<2>(out.data(), { 4, 80 }, there, { 4, 40 }, { 4, 5 }).wait();
    rget_strided<2>(there, { 4, 40 }, back.data(), { 4, 16 }, { 4, 5 }).wait();
    for (int row = 0; row < 5; row++)
        for (int column = 0; column < 4; column++)
            CHECK(back[row * 4 + column] == out[row * 20 + column]);
    barrier();
    delete_array(*room);
    barrier();
}

// ---- remote procedure calls ----

struct person {
    std::string name;
    std::map<std::string, std::vector<int>> marks;
    std::pair<int, std::string> note;
    UPCXX_SERIALIZED_FIELDS(name, marks, note)
};

static int twice(int i)
{
    return 2 * i;
}
static int hits;

static void calls()
{
    CHECK(rpc(right_one, [] { return rank_me(); }).wait() == right_one);
    CHECK(rpc(right_one, twice, 21).wait() == 42);
    CHECK(rpc(right_one, [](int (*f)(int), int i) { return f(i); }, &twice, 5).wait() == 10);
    int captured = static_cast<int>(me) * 10;
    CHECK(rpc(right_one, [captured](const std::string &s) { return s + std::to_string(captured); }, "to ").wait() ==
          "to " + std::to_string(captured));
    person p{ "Ada", { { "maths", { 1, 2, 3 } }, { "music", {} } }, { 7, "note" } };
    auto back = rpc(right_one, [](person q) {
        q.name += "!";
        q.marks["new"] = { static_cast<int>(rank_me()) };
        return q;
    }, p).wait();
    CHECK(back.name == "Ada!" && back.marks.size() == 3 && back.marks["maths"][2] == 3 && back.marks["music"].empty());
    CHECK(back.marks["new"][0] == static_cast<int>(right_one) && back.note.second == "note" && back.note.first == 7);
    auto two = rpc(right_one, [](std::tuple<int, std::string> t) { return make_future(std::get<1>(t), std::get<0>(t)); },
                   std::make_tuple(4, std::string("four"))).wait();
    CHECK(std::get<0>(two) == "four" && std::get<1>(two) == 4);
    // A call that calls on, back to here: its future is waited for over there.
    CHECK(rpc(right_one, [](rank_t home) { return rpc(home, [] { return rank_me() * 100; }); }, me).wait() == me * 100);
    // Of all sizes, also much longer than a message.
    for (std::size_t size : { 0, 1, 1000, 65000, 65536, 300001, 2000000 }) {
        std::vector<int> v(size);
        std::iota(v.begin(), v.end(), 17);
        auto sum = std::accumulate(v.begin(), v.end(), 0LL);
        auto answer = rpc(right_one, [](std::vector<int> &&w) {
            auto s = std::accumulate(w.begin(), w.end(), 0LL);
            w.push_back(5);
            return make_future(std::move(w), s);
        }, v).wait();
        CHECK(std::get<1>(answer) == sum && std::get<0>(answer).size() == size + 1 && std::get<0>(answer).back() == 5);
    }
    // Many at once, from all to all.
    barrier();
    future<> all = make_future();
    for (int i = 0; i < 200; i++)
        all = when_all(all, rpc((me + static_cast<rank_t>(i)) % n, [](int j) { hits += j; }, i));
    all.wait();
    barrier();
    CHECK(reduce_all(hits, op_fast_add).wait() == static_cast<int>(n) * 200 * 199 / 2);
    barrier();
    hits = 0; // nobody's call can be under way
    barrier();
    for (rank_t r = 0; r < n; r++)
        rpc_ff(r, [] { hits++; });
    while (hits < static_cast<int>(n))
        progress();
    barrier();
}

static void objects()
{
    // The call may come before the object is there: it waits for it.
    rpc_ff(right_one, [] {});
    dist_object<std::string> name("I am " + std::to_string(me));
    if (me == 0)
        std::this_thread::yield();
    CHECK(name.fetch(right_one).wait() == "I am " + std::to_string(right_one));
    dist_object<std::unordered_map<std::string, int>> table({});
    auto f = rpc(right_one, [](dist_object<std::unordered_map<std::string, int>> &t, const std::string &key, int v) {
        (*t)[key] = v;
        return static_cast<int>(t->size());
    }, table, "from " + std::to_string(me), static_cast<int>(me));
    CHECK(f.wait() == 1);
    barrier();
    CHECK((*table)["from " + std::to_string(left_one)] == static_cast<int>(left_one));
    barrier();
}

// ---- teams and collectives ----

static void on_team(const team &tm)
{
    rank_t m = tm.rank_me(), size = tm.rank_n();
    CHECK(tm[m] == me && tm.from_world(me) == m && rank_n(tm) == size);
    for (rank_t root = 0; root < size; root++) {
        CHECK(broadcast(m == root ? 77.5 + root : 0, root, tm).wait() == 77.5 + root);
        std::vector<long> v(3000, m == root ? static_cast<long>(root) : -1);
        broadcast(v.data(), v.size(), root, tm).wait();
        CHECK(v[0] == static_cast<long>(root) && v[2999] == static_cast<long>(root));
        std::string x(500 + root, 'x');
        CHECK(broadcast_nontrivial(m == root ? x : std::string(), root, tm).wait() == x);
        int sum = reduce_one(static_cast<int>(m) + 1, op_fast_add, root, tm).wait();
        CHECK(m != root || sum == static_cast<int>(size * (size + 1) / 2));
    }
    CHECK(reduce_all(static_cast<std::uint64_t>(1) << m, op_fast_bit_or, tm).wait() == (std::uint64_t(1) << size) - 1);
    CHECK(reduce_all(static_cast<double>(m), op_fast_max, tm).wait() == size - 1);
    CHECK(reduce_all(static_cast<float>(m), op_fast_min, tm).wait() == 0);
    struct range {
        int low, high;
    };
    auto r = reduce_all(range{ static_cast<int>(m), static_cast<int>(m) }, [](const range &a, const range &b) {
        return range{ a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high };
    }, tm).wait();
    CHECK(r.low == 0 && r.high == static_cast<int>(size) - 1);
    std::vector<int> in(1000, static_cast<int>(m)), out(1000);
    reduce_all(in.data(), out.data(), in.size(), op_fast_add, tm).wait();
    CHECK(out[999] == static_cast<int>(size * (size - 1) / 2));
    dist_object<rank_t> object(me, tm);
    CHECK(object.fetch((m + 1) % size).wait() == tm[(m + 1) % size]);
    CHECK(rpc(tm, 0, [] { return rank_me(); }).wait() == tm[0]);
    barrier(tm);
}

static void teams()
{
    on_team(world());
    on_team(local_team());
    for (rank_t r = 0; r < rank_n(local_team()); r++) {
        dist_object<global_ptr<int>> o(new_<int>(static_cast<int>(me)), local_team());
        CHECK(*o.fetch(r).wait().local() == static_cast<int>(local_team()[r]));
        barrier(local_team());
        delete_(*o);
    }
    team halves = world().split(static_cast<int>(me % 2), static_cast<int>(n - me)); // the other way round
    CHECK(halves[0] >= me);
    on_team(halves);
    team few = halves.split(halves.rank_me() < 2 ? 5 : team::color_none, 0);
    if (halves.rank_me() < 2) {
        on_team(few);
        few.destroy();
    } else {
        CHECK(few.is_null());
    }
    halves.destroy();
    barrier();
}

// ---- atomics ----

template <class T> static void atomics_of()
{
    dist_object<global_ptr<T>> o(me == 0 ? new_<T>(T(0)) : global_ptr<T>());
    auto p = o.fetch(0).wait();
    atomic_domain<T> ad({ atomic_op::load, atomic_op::store, atomic_op::add, atomic_op::fetch_add, atomic_op::sub, atomic_op::inc,
                          atomic_op::fetch_inc, atomic_op::dec, atomic_op::max, atomic_op::fetch_min, atomic_op::compare_exchange,
                          atomic_op::exchange, atomic_op::mul });
    constexpr auto relaxed = std::memory_order_relaxed;
    barrier();
    for (int i = 0; i < 20; i++) {
        ad.add(p, T(2), relaxed).wait();
        ad.fetch_add(p, T(3), std::memory_order_acq_rel).wait();
        ad.inc(p, relaxed).wait();
        ad.dec(p, relaxed).wait();
        ad.sub(p, T(1), relaxed).wait();
    }
    barrier();
    CHECK(ad.load(p, std::memory_order_acquire).wait() == T(80 * n));
    barrier();
    T was = ad.compare_exchange(p, T(80 * n), T(me + 1), relaxed).wait();
    CHECK(was == T(80 * n) ? true : was >= 1 && was <= T(n));
    barrier();
    ad.max(p, T(100000), relaxed).wait();
    CHECK(ad.fetch_min(p, T(100000), relaxed).wait() == T(100000));
    barrier();
    if (me == n - 1) {
        ad.store(p, T(6), std::memory_order_release).wait();
        ad.mul(p, T(7), relaxed).wait();
        CHECK(ad.exchange(p, T(1), relaxed).wait() == T(42));
    }
    barrier();
    ad.destroy();
    delete_(*o);
}

static void atomics()
{
    atomics_of<std::int32_t>();
    atomics_of<std::uint32_t>();
    atomics_of<std::int64_t>();
    atomics_of<std::uint64_t>();
    atomics_of<float>();
    atomics_of<double>();
    atomic_domain<unsigned> bits({ atomic_op::bit_or, atomic_op::fetch_bit_xor, atomic_op::bit_and, atomic_op::load });
    dist_object<global_ptr<unsigned>> o(new_<unsigned>(0u));
    auto p = o.fetch(right_one).wait();
    bits.bit_or(p, 0xf0u, std::memory_order_relaxed).wait();
    CHECK(bits.fetch_bit_xor(p, 0x11u, std::memory_order_relaxed).wait() == 0xf0u);
    bits.bit_and(p, 0x0fu, std::memory_order_relaxed).wait();
    CHECK(bits.load(p, std::memory_order_relaxed).wait() == 1);
    barrier();
    bits.destroy();
    delete_(*o);
    barrier();
}

// ---- personas: another thread ----

static void personas()
{
    CHECK(master_persona().active_with_caller() && default_persona().active_with_caller());
    CHECK(current_persona().lpc([] { return 3; }).wait() == 3);
    persona shared;
    bool stop = false;
    persona *other = nullptr;
    std::thread worker([&] {
        CHECK(!master_persona().active_with_caller());
        other = &default_persona();
        // Calls of this thread; their answers come here.
        CHECK(rpc(right_one, [](rank_t r) { return r + rank_me(); }, me).wait() == me + right_one);
        int from_master = master_persona().lpc([] { return static_cast<int>(rank_me()) + 100; }).wait();
        CHECK(from_master == static_cast<int>(me) + 100);
        {
            persona_scope scope(shared);
            CHECK(&current_persona() == &shared && shared.active_with_caller());
            while (!stop)
                progress();
        }
        CHECK(!shared.active_with_caller());
    });
    auto id = shared.lpc([] { return std::this_thread::get_id(); });
    CHECK(id.wait() == worker.get_id());
    promise<> p;
    shared.lpc_ff([&] { master_persona().lpc_ff([&] { p.fulfill_anonymous(1); }); });
    p.get_future().wait();
    shared.lpc([&] { stop = true; }).wait();
    worker.join();
    barrier();
}

// Misuse ends the job with a sentence.
static void misuse(const std::string &what)
{
    if (what == "wait")
        rpc(right_one, [] { barrier(); }).wait();
    else if (what == "result")
        promise<int>().get_future().result();
    else if (what == "delete")
        delete_(global_ptr<int>(me, new int(3)));
    else if (what == "foreign")
        deallocate(global_ptr<int>(right_one, new int(3)));
    else if (what == "promise")
        promise<>().fulfill_anonymous(2);
    else if (what == "rank")
        rpc_ff(n, [] {});
    barrier();
    gasnet_exit(99);
}

int main(int argc, char **argv)
{
    init();
    init();
    me = rank_me();
    n = rank_n();
    right_one = (me + 1) % n;
    left_one = (me + n - 1) % n;
    CHECK(initialized());
    if (argc > 1)
        misuse(argv[1]);
    futures();
    pointers();
    transfers();
    calls();
    objects();
    teams();
    atomics();
    personas();
    finalize();
    CHECK(initialized());
    finalize();
    return 0;
}
