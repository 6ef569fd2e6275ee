// SPDX-License-Identifier: BSD-3-Clause
// Pointers into the shared segments of all processes, and objects there.
#ifndef UPCXX_POINTER_HPP
#define UPCXX_POINTER_HPP

#include <functional>
#include <new>

#include "runtime.hpp"

namespace upcxx {

namespace detail {
// size bytes of this process's segment; nullptr: none left.  How many objects there are is kept for delete_array.
void *segment_take(std::size_t size, std::size_t align, std::size_t objects);
// Gives them back and tells how many objects there were; ends the job where nothing begins at p.
std::size_t segment_give(const char *call, void *p);
// Where a process's address is in this one; nullptr: not mapped.
void *here(rank_t rank, void *p);
bool in_own_segment(const void *p);
} // namespace detail

// An object of process where(); its address counts there.
template <class T> class global_ptr {
    rank_t rank = 0;
    T *raw = nullptr;

  public:
    using element_type = T;
    global_ptr() = default;
    global_ptr(std::nullptr_t) {}
    global_ptr(rank_t where, T *there) : rank(where), raw(there) {}

    bool is_null() const { return !raw; }
    explicit operator bool() const { return raw; }
    rank_t where() const { return rank; }
    T *raw_ptr() const { return raw; }
    // Can it be reached by loads and stores?  local() gives the pointer, or nullptr.
    bool is_local() const { return !raw || local(); }
    T *local() const { return raw ? static_cast<T *>(detail::here(rank, const_cast<std::remove_const_t<T> *>(raw))) : nullptr; }

    global_ptr operator+(std::ptrdiff_t n) const { return { rank, raw + n }; }
    global_ptr operator-(std::ptrdiff_t n) const { return { rank, raw - n }; }
    std::ptrdiff_t operator-(global_ptr other) const { return raw - other.raw; }
    global_ptr &operator+=(std::ptrdiff_t n) { return *this = *this + n; }
    global_ptr &operator++() { return *this += 1; }
    bool operator==(global_ptr other) const { return rank == other.rank && raw == other.raw; }
    bool operator!=(global_ptr other) const { return !(*this == other); }
    bool operator<(global_ptr other) const { return rank != other.rank ? rank < other.rank : std::less<T *>()(raw, other.raw); }
};

template <class T, class U> global_ptr<T> reinterpret_pointer_cast(global_ptr<U> p)
{
    return { p.where(), reinterpret_cast<T *>(p.raw_ptr()) };
}

// The global pointer of an object in this process's own segment.
template <class T> global_ptr<T> to_global_ptr(T *p)
{
    if (p && !detail::in_own_segment(p))
        detail::fail("to_global_ptr", "the object is not in the shared segment");
    return { p ? rank_me() : 0, p };
}

template <class T> global_ptr<T> allocate(std::size_t n = 1, std::size_t align = alignof(T))
{
    void *p = n > SIZE_MAX / sizeof(T) ? nullptr : detail::segment_take(n * sizeof(T), align, n);
    return p ? global_ptr<T>(rank_me(), static_cast<T *>(p)) : global_ptr<T>();
}
template <class T> void deallocate(global_ptr<T> p)
{
    if (p && p.where() != rank_me())
        detail::fail("deallocate", "the memory belongs to another process");
    if (p)
        detail::segment_give("deallocate", p.raw_ptr());
}

// Throws std::bad_alloc where the segment is full.
template <class T, class... A> global_ptr<T> new_(A &&...args)
{
    auto p = allocate<T>();
    if (!p)
        throw std::bad_alloc();
    ::new (p.raw_ptr()) T(std::forward<A>(args)...);
    return p;
}
template <class T> global_ptr<T> new_array(std::size_t n)
{
    auto p = allocate<T>(n);
    if (!p)
        throw std::bad_alloc();
    for (std::size_t i = 0; i < n; i++)
        ::new (p.raw_ptr() + i) T();
    return p;
}
template <class T> void delete_array(global_ptr<T> p)
{
    if (!p)
        return;
    if (p.where() != rank_me())
        detail::fail("delete_array", "the objects belong to another process");
    std::size_t n = detail::segment_give("delete_array", p.raw_ptr());
    for (std::size_t i = n; i-- > 0;)
        p.raw_ptr()[i].~T();
}
template <class T> void delete_(global_ptr<T> p)
{
    delete_array(p);
}

} // namespace upcxx

template <class T> struct std::hash<upcxx::global_ptr<T>> {
    std::size_t operator()(upcxx::global_ptr<T> p) const
    {
        return std::hash<T *>()(p.raw_ptr()) * 31 + p.where();
    }
};

#endif
