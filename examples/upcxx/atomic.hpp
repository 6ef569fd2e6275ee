// SPDX-License-Identifier: BSD-3-Clause
// Atomic operations on numbers in shared segments.
#ifndef UPCXX_ATOMIC_HPP
#define UPCXX_ATOMIC_HPP

#include <atomic>
#include <initializer_list>

#include "collective.hpp"
#include "pointer.hpp"

#include <gasnet_ratomic.h>

namespace upcxx {

enum class atomic_op : gex_OP_t {
    load = GEX_OP_GET,
    store = GEX_OP_SET,
    compare_exchange = GEX_OP_FCAS,
    add = GEX_OP_ADD,
    fetch_add = GEX_OP_FADD,
    sub = GEX_OP_SUB,
    fetch_sub = GEX_OP_FSUB,
    inc = GEX_OP_INC,
    fetch_inc = GEX_OP_FINC,
    dec = GEX_OP_DEC,
    fetch_dec = GEX_OP_FDEC,
    mul = GEX_OP_MULT,
    fetch_mul = GEX_OP_FMULT,
    min = GEX_OP_MIN,
    fetch_min = GEX_OP_FMIN,
    max = GEX_OP_MAX,
    fetch_max = GEX_OP_FMAX,
    bit_and = GEX_OP_AND,
    fetch_bit_and = GEX_OP_FAND,
    bit_or = GEX_OP_OR,
    fetch_bit_or = GEX_OP_FOR,
    bit_xor = GEX_OP_XOR,
    fetch_bit_xor = GEX_OP_FXOR,
    exchange = GEX_OP_SWAP
};

namespace detail {

#define UPCXX_AD_OP(T, NAME) \
    inline gex_Event_t ad_op(gex_AD_t ad, T *result, rank_t rank, void *at, gex_OP_t op, T a, T b, gex_Flags_t flags) \
    { \
        return gex_AD_OpNB_##NAME(ad, result, rank, at, op, a, b, flags); \
    }
UPCXX_AD_OP(std::int32_t, I32)
UPCXX_AD_OP(std::uint32_t, U32)
UPCXX_AD_OP(std::int64_t, I64)
UPCXX_AD_OP(std::uint64_t, U64)
UPCXX_AD_OP(float, FLT)
UPCXX_AD_OP(double, DBL)
#undef UPCXX_AD_OP

inline gex_Flags_t order_flags(std::memory_order order)
{
    switch (order) {
    case std::memory_order_acquire:
    case std::memory_order_consume: return GEX_FLAG_AD_ACQ;
    case std::memory_order_release: return GEX_FLAG_AD_REL;
    case std::memory_order_acq_rel:
    case std::memory_order_seq_cst: return GEX_FLAG_AD_ACQ | GEX_FLAG_AD_REL;
    default: return 0;
    }
}

} // namespace detail

// The operations that are to be used, on objects of T.  Collective; so is destroy().  All operations on an object go through one
// domain, or several of the same team.
template <class T> class atomic_domain {
    static_assert(detail::has_data_type<T>, "atomics are for numbers of 4 and 8 bytes");
    using word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    using signed_word = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
    using number = std::conditional_t<std::is_floating_point_v<T>, T, std::conditional_t<std::is_signed_v<T>, signed_word, word>>;
    gex_AD_t domain = GEX_AD_INVALID;

    gex_Event_t start(atomic_op op, number *result, global_ptr<T> p, std::memory_order order, T a, T b) const
    {
        return detail::ad_op(domain, result, p.where(), const_cast<std::remove_const_t<T> *>(p.raw_ptr()), static_cast<gex_OP_t>(op),
                             static_cast<number>(a), static_cast<number>(b), detail::order_flags(order) | GEX_FLAG_RANK_IS_JOBRANK);
    }
    future<> quiet(atomic_op op, global_ptr<T> p, std::memory_order order, T a = T()) const
    {
        return detail::future_of_event(start(op, nullptr, p, order, a, T()));
    }
    future<T> telling(atomic_op op, global_ptr<T> p, std::memory_order order, T a = T(), T b = T()) const
    {
        auto room = std::make_shared<number>();
        return detail::future_of_event(start(op, room.get(), p, order, a, b)).then([room] { return static_cast<T>(*room); });
    }

  public:
    explicit atomic_domain(std::initializer_list<atomic_op> ops, const team &tm = world())
    {
        gex_OP_t set = 0;
        for (atomic_op op : ops)
            set |= static_cast<gex_OP_t>(op);
        gex_AD_Create(&domain, tm.gex(), detail::data_type<T>(), set, 0);
    }
    atomic_domain(const atomic_domain &) = delete;
    atomic_domain &operator=(const atomic_domain &) = delete;
    void destroy()
    {
        gex_AD_Destroy(domain);
        domain = GEX_AD_INVALID;
    }

    using order = std::memory_order;
    future<T> load(global_ptr<T> p, order o) const { return telling(atomic_op::load, p, o); }
    future<> store(global_ptr<T> p, T v, order o) const { return quiet(atomic_op::store, p, o, v); }
    // The future has what was there.
    future<T> compare_exchange(global_ptr<T> p, T expected, T v, order o) const
    {
        return telling(atomic_op::compare_exchange, p, o, expected, v);
    }
    future<T> exchange(global_ptr<T> p, T v, order o) const { return telling(atomic_op::exchange, p, o, v); }
    future<> inc(global_ptr<T> p, order o) const { return quiet(atomic_op::inc, p, o); }
    future<> dec(global_ptr<T> p, order o) const { return quiet(atomic_op::dec, p, o); }
    future<T> fetch_inc(global_ptr<T> p, order o) const { return telling(atomic_op::fetch_inc, p, o); }
    future<T> fetch_dec(global_ptr<T> p, order o) const { return telling(atomic_op::fetch_dec, p, o); }
#define UPCXX_PAIR(NAME) \
    future<> NAME(global_ptr<T> p, T v, order o) const { return quiet(atomic_op::NAME, p, o, v); } \
    future<T> fetch_##NAME(global_ptr<T> p, T v, order o) const { return telling(atomic_op::fetch_##NAME, p, o, v); }
    UPCXX_PAIR(add)
    UPCXX_PAIR(sub)
    UPCXX_PAIR(mul)
    UPCXX_PAIR(min)
    UPCXX_PAIR(max)
    UPCXX_PAIR(bit_and)
    UPCXX_PAIR(bit_or)
    UPCXX_PAIR(bit_xor)
#undef UPCXX_PAIR
};

} // namespace upcxx

#endif
