// SPDX-License-Identifier: BSD-3-Clause
// Start and end, ranks, personas and progress.  A process joins by init(); one GASNet client, its primordial team is world().
#ifndef UPCXX_RUNTIME_HPP
#define UPCXX_RUNTIME_HPP

#include <gasnetex.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

#include "future.hpp"

namespace upcxx {

using rank_t = std::uint32_t;

// Collective.  Calls nest: the last finalize() counts.
void init();
void finalize();
bool initialized();
rank_t rank_me();
rank_t rank_n();

// Lets messages in, completes what has come to its end, runs what is due for this thread's personas.
void progress();

// Who futures' callbacks and other tasks are run for: each thread has one of its own; the master persona, which the thread of init()
// holds, also gets the remote procedure calls.
class persona {
    std::mutex lock;
    std::deque<detail::task> due;

  public:
    persona() = default;
    persona(const persona &) = delete;
    persona &operator=(const persona &) = delete;
    // Any thread: f runs in a progress() of the thread that holds this persona.
    void lpc_ff(detail::task f);
    // The same; the caller's future tells the result.
    template <class F> auto lpc(F &&f);
    bool active_with_caller() const;
    // Runs what was due when the call began; true: there was something.
    bool run_due();
};
persona &master_persona();
persona &default_persona();
persona &current_persona();

// This thread holds the persona, too, as long as the scope lasts.
class persona_scope {
  public:
    explicit persona_scope(persona &p);
    ~persona_scope();
    persona_scope(const persona_scope &) = delete;
    persona_scope &operator=(const persona_scope &) = delete;
};

namespace detail {

gex_TM_t world_tm();

// f runs when the event, which this thread's call gave, is complete: at once if it is.
void when_complete(gex_Event_t event, task f);
future<> future_of_event(gex_Event_t event);

} // namespace detail

template <class F> auto persona::lpc(F &&f)
{
    using R = std::invoke_result_t<std::decay_t<F> &>;
    using result = typename detail::future_of<std::conditional_t<std::is_void_v<R>, void, std::decay_t<R>>>::type;
    auto out = std::make_shared<typename result::state_type>();
    persona *home = &current_persona();
    lpc_ff([out, home, g = std::forward<F>(f)]() mutable {
        // A future belongs to its thread: the result is made here and handed over there.
        auto here = std::make_shared<typename result::state_type>();
        detail::call_into<R>(here, g, std::tuple<>());
        here->when_ready([out, here, home] {
            home->lpc_ff([out, here] {
                out->value = here->value;
                out->fulfill(1);
            });
        });
    });
    return result(out);
}

} // namespace upcxx

#endif
