// SPDX-License-Identifier: BSD-3-Clause
// Start and end, the segment, personas, progress and waiting.
#include <gasnet_tools.h>
#include <sched.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

#include "../common/arena.h"
#include "inside.hpp"

namespace upcxx {

namespace {

// What a process has once.
struct process {
    int starts = 0;
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Segment_t segment;
    char *base;
    std::uintptr_t size;
    std::vector<std::intptr_t> delta; // of each rank: its address + delta = address here
    std::vector<char> mapped;
    std::mutex lock; // of the arena
    arena *pieces;
    std::unordered_map<std::size_t, std::size_t> objects; // by offset
    persona master;
    std::atomic<int> threads{ 0 }; // that have used the library
} job;

// What each thread has.
struct waiting {
    gex_Event_t event;
    detail::task then;
};
struct thread_state {
    persona own;
    std::vector<persona *> held{ &own };
    std::vector<waiting> events;
    bool inside = false; // progress runs callbacks
    thread_state() { job.threads++; }
    ~thread_state() { job.threads--; }
};
thread_state &thread()
{
    thread_local thread_state state;
    return state;
}

constexpr std::uintptr_t default_bytes = std::uintptr_t(64) << 20;

std::uintptr_t segment_bytes()
{
    std::uintptr_t most = gasnet_getMaxGlobalSegmentSize(), page = GASNET_PAGESIZE;
    const char *text = gasnett_getenv("UPCXX_SHARED_HEAP_SIZE");
    std::uintptr_t size = text ? static_cast<std::uintptr_t>(gasnett_parse_int(text, 1 << 20)) : default_bytes;
    size = (size + page - 1) / page * page;
    if (size == 0 || size > most) {
        std::fprintf(stderr, "upcxx::init: a shared segment of %zu bytes cannot be had; UPCXX_SHARED_HEAP_SIZE: up to %zu\n",
                     static_cast<std::size_t>(size), static_cast<std::size_t>(most));
        gasnet_exit(1);
    }
    return size;
}

void check(int err, const char *call)
{
    if (err != GASNET_OK) {
        std::fprintf(stderr, "upcxx::init: %s: %s\n", call, gasnet_ErrorDesc(err));
        std::exit(1);
    }
}

// Who can be reached by loads and stores, and where.
void look_around()
{
    gex_Rank_t n = gex_TM_QuerySize(job.tm);
    job.delta.assign(n, 0);
    job.mapped.assign(n, 0);
    for (gex_Rank_t r = 0; r < n; r++) {
        void *there = nullptr, *here = nullptr;
        std::uintptr_t size = 0;
        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(job.tm, r, &there, &here, &size, 0));
        job.mapped[r] = size && here;
        job.delta[r] = static_cast<char *>(here) - static_cast<char *>(there);
    }
}

} // namespace

void init()
{
    if (job.starts++)
        return;
    check(gex_Client_Init(&job.client, &job.ep, &job.tm, "UPCXX_EXAMPLE", nullptr, nullptr, 0), "gex_Client_Init");
    check(detail::register_handlers(job.ep), "gex_EP_RegisterHandlers");
    check(gex_Segment_Attach(&job.segment, job.tm, segment_bytes()), "gex_Segment_Attach");
    job.base = static_cast<char *>(gex_Segment_QueryAddr(job.segment));
    job.size = gex_Segment_QuerySize(job.segment);
    job.pieces = arena_create(job.size);
    if (!job.pieces)
        detail::fail("init", "no memory for the notes on the segment");
    thread().held.push_back(&job.master);
    look_around();
    detail::teams_start(job.tm);
    gex_Event_Wait(gex_Coll_BarrierNB(job.tm, 0));
}

void finalize()
{
    if (job.starts == 0)
        detail::fail("finalize", "was called more often than init");
    if (job.starts > 1) {
        job.starts--;
        return;
    }
    detail::future_of_event(gex_Coll_BarrierNB(job.tm, 0)).wait();
    detail::teams_end();
    detail::future_of_event(gex_Coll_BarrierNB(job.tm, 0)).wait();
    job.starts = 0;
    arena_destroy(job.pieces);
}

bool initialized()
{
    return job.starts > 0;
}
rank_t rank_me()
{
    return gex_System_QueryJobRank();
}
rank_t rank_n()
{
    return gex_System_QueryJobSize();
}

// ---- personas ----

void persona::lpc_ff(detail::task f)
{
    std::lock_guard<std::mutex> guard(lock);
    due.push_back(std::move(f));
}

bool persona::run_due()
{
    std::deque<detail::task> now;
    {
        std::lock_guard<std::mutex> guard(lock);
        now.swap(due);
    }
    for (detail::task &t : now)
        t();
    return !now.empty();
}

bool persona::active_with_caller() const
{
    for (const persona *p : thread().held)
        if (p == this)
            return true;
    return false;
}

persona &master_persona()
{
    return job.master;
}
persona &default_persona()
{
    return thread().own;
}
persona &current_persona()
{
    return *thread().held.back();
}

persona_scope::persona_scope(persona &p)
{
    thread().held.push_back(&p);
}
persona_scope::~persona_scope()
{
    thread().held.pop_back();
}

// ---- progress ----

namespace {

bool complete_events(thread_state &me)
{
    std::vector<waiting> now, left;
    bool any = false;
    now.swap(me.events);
    for (waiting &w : now) {
        if (gex_Event_Test(w.event) != GASNET_OK) {
            left.push_back(std::move(w));
            continue;
        }
        any = true;
        w.then();
    }
    for (waiting &w : me.events) // that the callbacks have added
        left.push_back(std::move(w));
    me.events.swap(left);
    return any;
}

bool step()
{
    thread_state &me = thread();
    gasnet_AMPoll();
    if (me.inside)
        return false;
    me.inside = true;
    bool any = complete_events(me);
    for (std::size_t i = 0; i < me.held.size(); i++)
        any |= me.held[i]->run_due();
    me.inside = false;
    return any;
}

} // namespace

void progress()
{
    step();
}

namespace detail {

void fail(const char *call, const char *what)
{
    std::fprintf(stderr, "process %u: upcxx::%s: %s\n", static_cast<unsigned>(gex_System_QueryJobRank()), call, what);
    gasnet_exit(1);
}

gex_TM_t world_tm()
{
    return job.tm;
}

void wait_begins()
{
    if (!job.starts)
        fail("future::wait", "the library has not been started");
    if (thread().inside)
        fail("future::wait", "was called by a callback or a remote procedure call, where nothing goes on; use then()");
}
// With one thread only messages and events can change something, and GASNet knows how to wait for them; another thread's lpc it does
// not see.
void wait_step()
{
    if (job.threads > 1) {
        if (!step())
            sched_yield();
    } else {
        GASNET_BLOCKUNTIL(step());
    }
}

void when_complete(gex_Event_t event, task f)
{
    if (event == GEX_EVENT_INVALID)
        f();
    else
        thread().events.push_back({ event, std::move(f) });
}

future<> future_of_event(gex_Event_t event)
{
    if (event == GEX_EVENT_INVALID)
        return make_future();
    promise<> p;
    when_complete(event, [p] { p.fulfill_anonymous(1); });
    return p.get_future();
}

// ---- the segment ----

void *segment_take(std::size_t size, std::size_t align, std::size_t objects)
{
    std::lock_guard<std::mutex> guard(job.lock);
    std::size_t offset = arena_take(job.pieces, size, align);
    if (offset == ARENA_NONE)
        return nullptr;
    job.objects[offset] = objects;
    return job.base + offset;
}

std::size_t segment_give(const char *call, void *p)
{
    std::lock_guard<std::mutex> guard(job.lock);
    std::size_t offset = static_cast<std::size_t>(static_cast<char *>(p) - job.base), n = job.objects[offset];
    job.objects.erase(offset);
    if (arena_give(job.pieces, offset))
        fail(call, "nothing in the shared segment begins there");
    return n;
}

bool in_own_segment(const void *p)
{
    return static_cast<std::uintptr_t>(static_cast<const char *>(p) - job.base) < job.size;
}

void *here(rank_t rank, void *p)
{
    return rank < job.mapped.size() && job.mapped[rank] ? static_cast<char *>(p) + job.delta[rank] : nullptr;
}

} // namespace detail

} // namespace upcxx
