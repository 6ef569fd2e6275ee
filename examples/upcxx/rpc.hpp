// SPDX-License-Identifier: BSD-3-Clause
// Remote procedure calls.  A message is the number of a function that knows the types, and their bytes; it travels as a negotiated-payload
// active message whose payload is written where the library wants it, in pieces if it is longer than a message may be.
#ifndef UPCXX_RPC_HPP
#define UPCXX_RPC_HPP

#include "runtime.hpp"
#include "serialize.hpp"
#include "team.hpp"

namespace upcxx {

template <class T> class dist_object;

namespace detail {

// Carries a message out; false: not possible yet, to be tried again later.
using invoker = bool (*)(reader &message, rank_t from);

// Sends nbytes that write(context, room) writes.
void send_message(rank_t to, invoker f, std::size_t nbytes, void (*write)(const void *context, void *room), const void *context);

template <class Fill> void send(rank_t to, invoker f, const Fill &fill)
{
    writer count;
    fill(count);
    send_message(
        to, f, count.size(),
        [](const void *context, void *room) {
            writer w(room);
            (*static_cast<const Fill *>(context))(w);
        },
        &fill);
}

// Calls whose answers are awaited, by number.
std::uint64_t call_enter(std::shared_ptr<void> call);
std::shared_ptr<void> call_leave(std::uint64_t number);

// The object of this process that stands for a distributed one; nullptr: not made yet.
void *object_of(std::uint64_t id);
template <class T> struct object_name {
    std::uint64_t id;
};

// How arguments travel: W is the type in the message.
template <class A> struct wire {
    using type = A;
    static const A &out(const A &a) { return a; }
    static bool ready(const A &) { return true; }
    static A &&in(A &a) { return std::move(a); }
};
template <> struct wire<const char *> : wire<std::string> {
    static std::string out(const char *a) { return a; }
};
template <> struct wire<char *> : wire<const char *> {};
template <class T> struct wire<dist_object<T>> {
    using type = object_name<T>;
    static type out(const dist_object<T> &o) { return { o.id() }; }
};
template <class T> struct wire<object_name<T>> {
    static bool ready(const object_name<T> &n) { return object_of(n.id); }
    static dist_object<T> &in(object_name<T> &n) { return *static_cast<dist_object<T> *>(object_of(n.id)); }
};
template <class A> using wire_t = typename wire<std::decay_t<A>>::type;
template <class W> using passed_t = decltype(wire<W>::in(std::declval<W &>()));

template <class F, class... W> struct call {
    using result = std::invoke_result_t<F &, passed_t<W>...>;
    std::tuple<F, W...> parts;
    explicit call(reader &r) : parts{ read<F>(r), read<W>(r)... } {}
    bool ready() const
    {
        return std::apply([](const F &, const W &...w) { return (wire<W>::ready(w) && ...); }, parts);
    }
    result operator()()
    {
        return std::apply([](F &f, W &...w) -> result { return f(wire<W>::in(w)...); }, parts);
    }
};

template <class F, class... W> bool run_call(reader &r, rank_t)
{
    call<F, W...> c(r);
    if (!c.ready())
        return false;
    (void)c();
    return true;
}

template <class... T> struct awaited {
    persona *home;
    std::shared_ptr<state<T...>> to;
};

template <class... T> bool run_answer(reader &r, rank_t)
{
    auto call = std::static_pointer_cast<awaited<T...>>(call_leave(read<std::uint64_t>(r)));
    call->to->value.emplace(std::tuple<T...>{ read<T>(r)... });
    if (call->home->active_with_caller())
        call->to->fulfill(1);
    else
        call->home->lpc_ff([call] { call->to->fulfill(1); });
    return true;
}

template <class... T> void answer_when_ready(const std::shared_ptr<state<T...>> &value, rank_t to, std::uint64_t number)
{
    value->when_ready([value, to, number] {
        send(to, &run_answer<T...>, [&](writer &w) {
            write(w, number);
            std::apply([&w](const T &...v) { (write(w, v), ...); }, *value->value);
        });
    });
}

template <class F, class... W> bool run_call_and_answer(reader &r, rank_t from)
{
    auto number = read<std::uint64_t>(r);
    auto c = std::make_shared<call<F, W...>>(r); // stays until the answer is known
    if (!c->ready())
        return false;
    using R = typename call<F, W...>::result;
    using result = typename future_of<std::conditional_t<std::is_void_v<R>, void, std::decay_t<R>>>::type;
    auto value = std::make_shared<typename result::state_type>();
    call_into<R>(value, *c, std::tuple<>());
    value->when_ready([c] {});
    answer_when_ready(value, from, number);
    return true;
}

template <class T> struct await;
template <class... T> struct await<future<T...>> {
    static std::shared_ptr<awaited<T...>> make()
    {
        return std::make_shared<awaited<T...>>(awaited<T...>{ &current_persona(), std::make_shared<state<T...>>() });
    }
};

} // namespace detail

// Runs f(args...) in process `to` (of the team), without an answer.  f: a function, or a lambda whose captures can be copied byte by byte.
template <class F, class... A> void rpc_ff(rank_t to, F &&f, A &&...args)
{
    using G = std::decay_t<F>;
    detail::send(to, &detail::run_call<G, detail::wire_t<A>...>, [&](writer &w) {
        write<G>(w, f);
        (write<detail::wire_t<A>>(w, detail::wire<std::decay_t<A>>::out(args)), ...);
    });
}
template <class F, class... A> void rpc_ff(const team &tm, rank_t to, F &&f, A &&...args)
{
    rpc_ff(tm[to], std::forward<F>(f), std::forward<A>(args)...);
}

// The same; the future has the result.  A future that f gives is waited for over there.
template <class F, class... A, class = std::enable_if_t<!std::is_integral_v<std::decay_t<F>>>> auto rpc(rank_t to, F &&f, A &&...args)
{
    using G = std::decay_t<F>;
    using R = typename detail::call<G, detail::wire_t<A>...>::result;
    using result = typename detail::future_of<std::conditional_t<std::is_void_v<R>, void, std::decay_t<R>>>::type;
    auto call = detail::await<result>::make();
    std::uint64_t number = detail::call_enter(call);
    detail::send(to, &detail::run_call_and_answer<G, detail::wire_t<A>...>, [&](writer &w) {
        write(w, number);
        write<G>(w, f);
        (write<detail::wire_t<A>>(w, detail::wire<std::decay_t<A>>::out(args)), ...);
    });
    return result(call->to);
}
template <class F, class... A> auto rpc(const team &tm, rank_t to, F &&f, A &&...args)
{
    return rpc(tm[to], std::forward<F>(f), std::forward<A>(args)...);
}

// A T in each process of a team; the name by which the others' are found.  Collective, in the same order at all members.
template <class T> class dist_object {
    T mine;
    const upcxx::team *members;
    std::uint64_t number;

  public:
    explicit dist_object(T value, const upcxx::team &tm = world())
        : mine(std::move(value)), members(&tm), number(tm.new_object(this))
    {
    }
    ~dist_object() { upcxx::team::object_gone(number); }
    dist_object(const dist_object &) = delete;
    dist_object &operator=(const dist_object &) = delete;
    T &operator*() { return mine; }
    const T &operator*() const { return mine; }
    T *operator->() { return &mine; }
    std::uint64_t id() const { return number; }
    const upcxx::team &team() const { return *members; }
    // A copy of the member's value.
    future<T> fetch(rank_t member) const
    {
        return rpc(
            *members, member, [](dist_object &o) { return *o; }, *this);
    }
};

} // namespace upcxx

#endif
