// SPDX-License-Identifier: BSD-3-Clause
// Futures and promises: values that will be there, and what happens then.  A future belongs to the thread that made it.
#ifndef UPCXX_FUTURE_HPP
#define UPCXX_FUTURE_HPP

#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace upcxx {

template <class... T> class future;

namespace detail {

// Something to do later; unlike std::function it may hold what cannot be copied.
class task {
    struct base {
        virtual ~base() = default;
        virtual void run() = 0;
    };
    template <class F> struct of final : base {
        F f;
        explicit of(F g) : f(std::move(g)) {}
        void run() override { f(); }
    };
    std::unique_ptr<base> body;

  public:
    template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, task>>>
    task(F &&f) : body(new of<std::decay_t<F>>(std::forward<F>(f)))
    {
    }
    void operator()() { body->run(); }
};

[[noreturn]] void fail(const char *call, const char *what);
// Before a wait: ends the job inside a callback, where nothing goes on.  Then, again and again, until what is waited for is there.
void wait_begins();
void wait_step();

template <class... T> struct state {
    long needs = 1; // fulfilments that are missing
    std::optional<std::tuple<T...>> value;
    std::vector<task> then;

    void fulfill(long n)
    {
        needs -= n;
        if (needs < 0)
            fail("promise", "is fulfilled more often than it was required");
        if (needs)
            return;
        std::vector<task> now;
        now.swap(then);
        for (task &t : now)
            t();
    }
    template <class F> void when_ready(F &&f)
    {
        if (needs)
            then.emplace_back(std::forward<F>(f));
        else
            f();
    }
};

// What then() gives for a function that gives R: future<R>, future<> for void, R itself for a future.
template <class R> struct future_of {
    using type = future<std::decay_t<R>>;
    static constexpr bool nested = false;
};
template <> struct future_of<void> {
    using type = future<>;
    static constexpr bool nested = false;
};
template <class... U> struct future_of<future<U...>> {
    using type = future<U...>;
    static constexpr bool nested = true;
};

// Calls f with the values of args and lets `to` become ready with its result.
template <class R, class State, class F, class Args> void call_into(const std::shared_ptr<State> &to, F &f, Args &&args)
{
    if constexpr (future_of<std::decay_t<R>>::nested) {
        auto inner = std::apply(f, std::forward<Args>(args)).shared();
        inner->when_ready([to, inner] {
            to->value = inner->value;
            to->fulfill(1);
        });
    } else {
        if constexpr (std::is_void_v<R>) {
            std::apply(f, std::forward<Args>(args));
            to->value.emplace();
        } else {
            to->value.emplace(std::apply(f, std::forward<Args>(args)));
        }
        to->fulfill(1);
    }
}

} // namespace detail

template <class... T> class future {
    using state_t = detail::state<T...>;
    std::shared_ptr<state_t> s;

  public:
    explicit future(std::shared_ptr<state_t> state) : s(std::move(state)) {}
    future() = default; // never ready
    const std::shared_ptr<state_t> &shared() const { return s; }

    bool ready() const { return s && s->needs == 0; }

    // The values of a ready future: nothing, the value, or a tuple.
    auto result() const
    {
        if (!ready())
            detail::fail("future::result", "the future is not ready; wait() waits");
        if constexpr (sizeof...(T) == 1)
            return std::get<0>(*s->value);
        else if constexpr (sizeof...(T) > 1)
            return *s->value;
    }
    std::tuple<T...> result_tuple() const
    {
        if (!ready())
            detail::fail("future::result_tuple", "the future is not ready; wait() waits");
        return *s->value;
    }
    auto wait() const
    {
        if (!ready()) {
            detail::wait_begins();
            while (!ready())
                detail::wait_step();
        }
        return result();
    }

    // Calls f with the values when they are there; at once if they are.
    template <class F> auto then(F &&f) const
    {
        using R = std::invoke_result_t<std::decay_t<F> &, T &...>;
        using next = typename detail::future_of<std::conditional_t<std::is_void_v<R>, void, std::decay_t<R>>>::type;
        auto out = std::make_shared<typename next::state_type>();
        s->when_ready([in = s, out, g = std::forward<F>(f)]() mutable { detail::call_into<R>(out, g, *in->value); });
        return next(out);
    }
    using state_type = state_t;
};

// A future that is ready.
template <class... T> future<std::decay_t<T>...> make_future(T &&...values)
{
    if constexpr (sizeof...(T) == 0) {
        static const auto ready = [] {
            auto s = std::make_shared<detail::state<>>();
            s->value.emplace();
            s->needs = 0;
            return s;
        }();
        return future<>(ready);
    } else {
        auto s = std::make_shared<detail::state<std::decay_t<T>...>>();
        s->value.emplace(std::forward<T>(values)...);
        s->needs = 0;
        return future<std::decay_t<T>...>(s);
    }
}

template <class... T> class promise {
    std::shared_ptr<detail::state<T...>> s = std::make_shared<detail::state<T...>>();

  public:
    // The future is ready when each required fulfilment has come, one more from finalize() or the result.
    explicit promise(long required = 1)
    {
        s->needs = required;
        if constexpr (sizeof...(T) == 0)
            s->value.emplace();
    }
    void require_anonymous(long n) const { s->needs += n; }
    void fulfill_anonymous(long n) const { s->fulfill(n); }
    template <class... U> void fulfill_result(U &&...values) const
    {
        s->value.emplace(std::forward<U>(values)...);
        s->fulfill(1);
    }
    future<T...> finalize() const
    {
        auto keep = s;
        keep->fulfill(1);
        return future<T...>(keep);
    }
    future<T...> get_future() const { return future<T...>(s); }
};

namespace detail {
template <class T> auto to_future_state(T &&value)
{
    if constexpr (future_of<std::decay_t<T>>::nested)
        return value.shared();
    else
        return make_future(std::forward<T>(value)).shared();
}
template <class Tuple> struct future_of_tuple;
template <class... T> struct future_of_tuple<std::tuple<T...>> {
    using type = future<T...>;
};
} // namespace detail

// Ready when all of them are, with all their values; a plain value counts as a ready future.
template <class... F> auto when_all(F &&...futures)
{
    auto all = std::make_tuple(detail::to_future_state(std::forward<F>(futures))...);
    return std::apply(
        [](auto... in) {
            using values = decltype(std::tuple_cat(*in->value...));
            using result = typename detail::future_of_tuple<values>::type;
            auto out = std::make_shared<typename result::state_type>();
            auto left = std::make_shared<long>((long)sizeof...(in) + 1);
            auto one_less = [out, left, in...] {
                if (--*left)
                    return;
                out->value.emplace(std::tuple_cat(*in->value...));
                out->fulfill(1);
            };
            (in->when_ready(one_less), ...);
            one_less();
            return result(out);
        },
        all);
}

} // namespace upcxx

#endif
