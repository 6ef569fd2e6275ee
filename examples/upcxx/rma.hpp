// SPDX-License-Identifier: BSD-3-Clause
// One-sided transfers between this process's memory and shared segments.  Each gives a future, or tells a promise or the target.
#ifndef UPCXX_RMA_HPP
#define UPCXX_RMA_HPP

#include <gasnet_vis.h>

#include <array>

#include "pointer.hpp"
#include "rpc.hpp"

namespace upcxx {

namespace detail {

// Completions other than futures: how they are asked for stands in operation_cx and remote_cx.
template <class... T> struct as_promise_cx {
    promise<T...> p;
};
template <class F, class... W> struct as_rpc_cx {
    F f;
    std::tuple<W...> args; // as they travel
    void send_to(rank_t rank) const
    {
        send(rank, &run_call<F, W...>, [this](writer &w) {
            write<F>(w, f);
            std::apply([&w](const W &...arg) { (write<W>(w, arg), ...); }, args);
        });
    }
};

template <class T> gex_Event_t put(const T *src, global_ptr<T> dest, std::size_t n, gex_Event_t *lc)
{
    static_assert(std::is_trivially_copyable_v<T>, "rput copies bytes");
    return gex_RMA_PutNB(world_tm(), dest.where(), dest.raw_ptr(), src, n * sizeof(T), lc, 0);
}

inline void complete(gex_Event_t event, as_promise_cx<> &&cx)
{
    cx.p.require_anonymous(1);
    when_complete(event, [p = cx.p] { p.fulfill_anonymous(1); });
}

} // namespace detail

struct operation_cx {
    // The promise gets one more requirement now, and its fulfilment at the end.
    template <class... T> static detail::as_promise_cx<T...> as_promise(promise<T...> p) { return { p }; }
};
struct remote_cx {
    // f(args...) runs at the target when the data is there.
    template <class F, class... A> static detail::as_rpc_cx<std::decay_t<F>, detail::wire_t<A>...> as_rpc(F &&f, const A &...args)
    {
        return { std::forward<F>(f), { detail::wire<std::decay_t<A>>::out(args)... } };
    }
};

template <class T> future<> rput(const T *src, global_ptr<T> dest, std::size_t n)
{
    return detail::future_of_event(detail::put(src, dest, n, GEX_EVENT_DEFER));
}
template <class T> future<> rput(const T &value, global_ptr<T> dest)
{
    return detail::future_of_event(detail::put(&value, dest, 1, GEX_EVENT_NOW));
}
template <class T> void rput(const T *src, global_ptr<T> dest, std::size_t n, detail::as_promise_cx<> cx)
{
    detail::complete(detail::put(src, dest, n, GEX_EVENT_DEFER), std::move(cx));
}
template <class T> void rput(const T &value, global_ptr<T> dest, detail::as_promise_cx<> cx)
{
    detail::complete(detail::put(&value, dest, 1, GEX_EVENT_NOW), std::move(cx));
}
template <class T, class F, class... W> void rput(const T *src, global_ptr<T> dest, std::size_t n, detail::as_rpc_cx<F, W...> cx)
{
    rank_t to = dest.where();
    detail::when_complete(detail::put(src, dest, n, GEX_EVENT_NOW), [to, cx = std::move(cx)] { cx.send_to(to); });
}

template <class T> future<> rget(global_ptr<T> src, std::remove_const_t<T> *dest, std::size_t n)
{
    static_assert(std::is_trivially_copyable_v<T>, "rget copies bytes");
    return detail::future_of_event(gex_RMA_GetNB(detail::world_tm(), dest, src.where(),
                                                 const_cast<std::remove_const_t<T> *>(src.raw_ptr()), n * sizeof(T), 0));
}
template <class T> void rget(global_ptr<T> src, std::remove_const_t<T> *dest, std::size_t n, detail::as_promise_cx<> cx)
{
    cx.p.require_anonymous(1);
    rget(src, dest, n).then([p = cx.p] { p.fulfill_anonymous(1); });
}
template <class T> future<std::remove_const_t<T>> rget(global_ptr<T> src)
{
    auto room = std::make_shared<std::remove_const_t<T>>();
    return rget(src, room.get(), 1).then([room] { return *room; });
}

// Between any two places: by the side that has one of them.
template <class T> future<> copy(global_ptr<T> src, global_ptr<T> dest, std::size_t n)
{
    if (dest.where() == rank_me())
        return rget(src, dest.raw_ptr(), n);
    if (src.where() == rank_me())
        return rput(static_cast<const T *>(src.raw_ptr()), dest, n);
    return rpc(
        src.where(),
        [](global_ptr<T> from, global_ptr<T> to, std::size_t count) {
            return rput(static_cast<const T *>(from.raw_ptr()), to, count);
        },
        src, dest, n);
}

// A box of elements: extents in each dimension, and how many bytes apart neighbours in it are.
template <std::size_t Dim, class T>
future<> rput_strided(const T *src, std::array<std::ptrdiff_t, Dim> src_strides, global_ptr<T> dest,
                      std::array<std::ptrdiff_t, Dim> dest_strides, std::array<std::size_t, Dim> extents)
{
    return detail::future_of_event(gex_VIS_StridedPutNB(detail::world_tm(), dest.where(), dest.raw_ptr(), dest_strides.data(),
                                                        const_cast<T *>(src), src_strides.data(), sizeof(T), extents.data(), Dim, 0));
}
template <std::size_t Dim, class T>
future<> rget_strided(global_ptr<T> src, std::array<std::ptrdiff_t, Dim> src_strides, T *dest,
                      std::array<std::ptrdiff_t, Dim> dest_strides, std::array<std::size_t, Dim> extents)
{
    return detail::future_of_event(gex_VIS_StridedGetNB(detail::world_tm(), dest, dest_strides.data(), src.where(), src.raw_ptr(),
                                                        src_strides.data(), sizeof(T), extents.data(), Dim, 0));
}

} // namespace upcxx

#endif
