// SPDX-License-Identifier: BSD-3-Clause
// Collectives over teams.
#ifndef UPCXX_COLLECTIVE_HPP
#define UPCXX_COLLECTIVE_HPP

#include "rpc.hpp"

namespace upcxx {

inline future<> barrier_async(const team &tm = world())
{
    return detail::future_of_event(gex_Coll_BarrierNB(tm.gex(), 0));
}
inline void barrier(const team &tm = world())
{
    detail::wait_begins(); // an error in a callback even if all others are there already
    barrier_async(tm).wait();
}

// n elements of the root's buf go to everybody's.
template <class T> future<> broadcast(T *buf, std::size_t n, rank_t root, const team &tm = world())
{
    static_assert(std::is_trivially_copyable_v<T>, "this broadcast copies bytes; there is broadcast_nontrivial");
    return detail::future_of_event(gex_Coll_BroadcastNB(tm.gex(), root, buf, buf, n * sizeof(T), 0));
}
template <class T> future<T> broadcast(T value, rank_t root, const team &tm = world())
{
    auto room = std::make_shared<T>(value);
    return broadcast(room.get(), 1, root, tm).then([room] { return *room; });
}
// Of anything that has a serialization: its length goes first.
template <class T> future<T> broadcast_nontrivial(const T &value, rank_t root, const team &tm = world())
{
    auto bytes = std::make_shared<std::vector<char>>();
    std::uint64_t size = 0;
    if (tm.rank_me() == root) {
        writer count;
        write(count, value);
        bytes->resize(size = count.size());
        writer w(bytes->data());
        write(w, value);
    }
    // The second collective is started by a callback, so nobody may start another before; the future tells when.
    return broadcast(size, root, tm).then([bytes, root, &tm](std::uint64_t n) {
        bytes->resize(n);
        return broadcast(bytes->data(), n, root, tm).then([bytes] {
            reader r(bytes->data(), bytes->size());
            return read<T>(r);
        });
    });
}

// Operators for reductions: those that the library knows, and any other function object.
struct op_fast_add_t {
    static constexpr gex_OP_t op = GEX_OP_ADD;
};
struct op_fast_mul_t {
    static constexpr gex_OP_t op = GEX_OP_MULT;
};
struct op_fast_min_t {
    static constexpr gex_OP_t op = GEX_OP_MIN;
};
struct op_fast_max_t {
    static constexpr gex_OP_t op = GEX_OP_MAX;
};
struct op_fast_bit_and_t {
    static constexpr gex_OP_t op = GEX_OP_AND;
};
struct op_fast_bit_or_t {
    static constexpr gex_OP_t op = GEX_OP_OR;
};
struct op_fast_bit_xor_t {
    static constexpr gex_OP_t op = GEX_OP_XOR;
};
inline constexpr op_fast_add_t op_fast_add{};
inline constexpr op_fast_mul_t op_fast_mul{};
inline constexpr op_fast_min_t op_fast_min{};
inline constexpr op_fast_max_t op_fast_max{};
inline constexpr op_fast_bit_and_t op_fast_bit_and{};
inline constexpr op_fast_bit_or_t op_fast_bit_or{};
inline constexpr op_fast_bit_xor_t op_fast_bit_xor{};

namespace detail {

template <class T> constexpr gex_DT_t data_type()
{
    if constexpr (std::is_floating_point_v<T>)
        return sizeof(T) == sizeof(float) ? GEX_DT_FLT : GEX_DT_DBL;
    else if constexpr (sizeof(T) == 4)
        return std::is_signed_v<T> ? GEX_DT_I32 : GEX_DT_U32;
    else
        return std::is_signed_v<T> ? GEX_DT_I64 : GEX_DT_U64;
}
template <class T>
inline constexpr bool has_data_type = (std::is_floating_point_v<T> && sizeof(T) <= 8) ||
    (std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));

template <class T, class Op> void reduce_by(const void *arg1, void *arg2_and_out, std::size_t n, const void *op)
{
    const T *a = static_cast<const T *>(arg1);
    T *b = static_cast<T *>(arg2_and_out);
    for (std::size_t i = 0; i < n; i++)
        b[i] = (*static_cast<const Op *>(op))(a[i], b[i]);
}

template <class T, class = void> struct knows : std::false_type {};
template <class Op> struct knows<Op, std::void_t<decltype(Op::op)>> : std::true_type {};

// root: GEX_RANK_INVALID for all members.
template <class T, class Op>
gex_Event_t reduce(const T *src, T *dst, std::size_t n, rank_t root, const team &tm, const std::shared_ptr<Op> &op)
{
    static_assert(std::is_trivially_copyable_v<T>, "reductions copy bytes");
    gex_DT_t dt = GEX_DT_USER;
    gex_OP_t code = GEX_OP_USER;
    gex_Coll_ReduceFn_t fn = nullptr;
    if constexpr (knows<Op>::value) {
        static_assert(has_data_type<T>, "op_fast_* are for numbers of 4 and 8 bytes");
        dt = data_type<T>();
        code = Op::op;
    } else {
        fn = &reduce_by<T, Op>;
    }
    if (root == GEX_RANK_INVALID)
        return gex_Coll_ReduceToAllNB(tm.gex(), dst, src, dt, sizeof(T), n, code, fn, op.get(), 0);
    return gex_Coll_ReduceToOneNB(tm.gex(), root, dst, src, dt, sizeof(T), n, code, fn, op.get(), 0);
}

template <class T, class Op> future<T> reduce_value(T value, Op op, rank_t root, const team &tm)
{
    auto room = std::make_shared<std::pair<T, T>>(value, value);
    auto keep = std::make_shared<Op>(op);
    return future_of_event(reduce(&room->first, &room->second, 1, root, tm, keep)).then([room, keep] { return room->second; });
}

} // namespace detail

template <class T, class Op> future<T> reduce_one(T value, Op op, rank_t root, const team &tm = world())
{
    return detail::reduce_value(value, op, root, tm);
}
template <class T, class Op> future<T> reduce_all(T value, Op op, const team &tm = world())
{
    return detail::reduce_value(value, op, GEX_RANK_INVALID, tm);
}
template <class T, class Op> future<> reduce_all(const T *src, T *dst, std::size_t n, Op op, const team &tm = world())
{
    auto keep = std::make_shared<Op>(op);
    return detail::future_of_event(detail::reduce(src, dst, n, GEX_RANK_INVALID, tm, keep)).then([keep] {});
}

} // namespace upcxx

#endif
