// SPDX-License-Identifier: BSD-3-Clause
// Values as bytes: what can be copied byte by byte, strings, standard containers, and classes that name their members:
//     struct person { std::string name; int age; UPCXX_SERIALIZED_FIELDS(name, age) };
#ifndef UPCXX_SERIALIZE_HPP
#define UPCXX_SERIALIZE_HPP

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "future.hpp"

#define UPCXX_SERIALIZED_FIELDS(...) \
    auto upcxx_fields() { return std::tie(__VA_ARGS__); } \
    auto upcxx_fields() const { return std::tie(__VA_ARGS__); }

namespace upcxx {

// Writes, or only counts, if there is nowhere to write to.
class writer {
    char *to;
    std::size_t done = 0;

  public:
    explicit writer(void *at = nullptr) : to(static_cast<char *>(at)) {}
    void bytes(const void *from, std::size_t n)
    {
        if (to && n)
            std::memcpy(to + done, from, n);
        done += n;
    }
    std::size_t size() const { return done; }
};

// Reads what another process wrote; never beyond its end.
class reader {
    const char *at, *end;

  public:
    reader(const void *from, std::size_t n) : at(static_cast<const char *>(from)), end(at + n) {}
    void bytes(void *into, std::size_t n)
    {
        if (n > left())
            detail::fail("message", "ends before its values do");
        if (n)
            std::memcpy(into, at, n);
        at += n;
    }
    std::size_t left() const { return static_cast<std::size_t>(end - at); }
};

template <class T, class = void> struct serialization {
    // Of a lambda the copy constructor counts: it has no assignment.
    static_assert(std::is_trivially_copy_constructible_v<T> && std::is_trivially_destructible_v<T>,
                  "this type has no serialization: give it UPCXX_SERIALIZED_FIELDS");
    static void write(writer &w, const T &value) { w.bytes(&value, sizeof value); }
    static T read(reader &r)
    {
        alignas(T) char room[sizeof(T)];
        r.bytes(room, sizeof room);
        return *std::launder(reinterpret_cast<T *>(room));
    }
};

template <class T> void write(writer &w, const T &value)
{
    serialization<T>::write(w, value);
}
template <class T> T read(reader &r)
{
    return serialization<T>::read(r);
}

namespace detail {
// Functions lie at the same distance from the program's start in all processes, if not at the same address.
std::uint64_t function_number(void (*f)());
void (*function_of(std::uint64_t number))();

// How many elements follow: each takes a byte at least, so a false number is found before memory is asked for.
template <class T> std::size_t read_count(reader &r)
{
    auto n = read<std::uint64_t>(r);
    if (n > r.left())
        fail("message", "says that it has more elements than it has bytes");
    return static_cast<std::size_t>(n);
}
template <class C> void write_all(writer &w, const C &container)
{
    write<std::uint64_t>(w, container.size());
    for (const auto &element : container)
        write(w, element);
}
template <class T> struct is_table : std::false_type {};
template <class K, class V, class... R> struct is_table<std::map<K, V, R...>> : std::true_type {};
template <class K, class V, class... R> struct is_table<std::unordered_map<K, V, R...>> : std::true_type {};
} // namespace detail

template <class R, class... A> struct serialization<R (*)(A...)> {
    static void write(writer &w, R (*f)(A...)) { upcxx::write(w, detail::function_number(reinterpret_cast<void (*)()>(f))); }
    static auto read(reader &r) { return reinterpret_cast<R (*)(A...)>(detail::function_of(upcxx::read<std::uint64_t>(r))); }
};

template <> struct serialization<std::string> {
    static void write(writer &w, const std::string &s)
    {
        upcxx::write<std::uint64_t>(w, s.size());
        w.bytes(s.data(), s.size());
    }
    static std::string read(reader &r)
    {
        std::string s(detail::read_count<char>(r), '\0');
        r.bytes(s.data(), s.size());
        return s;
    }
};

template <class T> struct serialization<std::vector<T>> {
    static constexpr bool plain = std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>;
    static void write(writer &w, const std::vector<T> &v)
    {
        if constexpr (plain) {
            upcxx::write<std::uint64_t>(w, v.size());
            w.bytes(v.data(), v.size() * sizeof(T));
        } else {
            detail::write_all(w, v);
        }
    }
    static std::vector<T> read(reader &r)
    {
        std::size_t n = detail::read_count<T>(r);
        std::vector<T> v;
        if constexpr (plain) {
            if (n > r.left() / sizeof(T))
                detail::fail("message", "ends before its values do");
            v.resize(n);
            r.bytes(v.data(), n * sizeof(T));
        } else {
            for (std::size_t i = 0; i < n; i++)
                v.push_back(upcxx::read<T>(r));
        }
        return v;
    }
};

// Keys and values.
template <class C> struct serialization<C, std::enable_if_t<detail::is_table<C>::value>> {
    static void write(writer &w, const C &c) { detail::write_all(w, c); }
    static C read(reader &r)
    {
        C c;
        for (std::size_t n = detail::read_count<C>(r); n; n--) {
            auto key = upcxx::read<typename C::key_type>(r);
            c.emplace(std::move(key), upcxx::read<typename C::mapped_type>(r));
        }
        return c;
    }
};

template <class A, class B>
struct serialization<std::pair<A, B>, std::enable_if_t<!std::is_trivially_copyable_v<std::pair<A, B>>>> {
    static void write(writer &w, const std::pair<A, B> &p)
    {
        upcxx::write<std::remove_const_t<A>>(w, p.first);
        upcxx::write(w, p.second);
    }
    static std::pair<A, B> read(reader &r)
    {
        auto first = upcxx::read<std::remove_const_t<A>>(r);
        return { std::move(first), upcxx::read<B>(r) };
    }
};

template <class... T>
struct serialization<std::tuple<T...>, std::enable_if_t<!std::is_trivially_copyable_v<std::tuple<T...>>>> {
    static void write(writer &w, const std::tuple<T...> &t)
    {
        std::apply([&w](const T &...element) { (upcxx::write(w, element), ...); }, t);
    }
    static std::tuple<T...> read(reader &r) { return std::tuple<T...>{ upcxx::read<T>(r)... }; } // braces: from left to right
};

// Classes with UPCXX_SERIALIZED_FIELDS; they need a constructor without arguments.
template <class T> struct serialization<T, std::void_t<decltype(std::declval<const T &>().upcxx_fields())>> {
    static void write(writer &w, const T &value)
    {
        std::apply([&w](const auto &...field) { (upcxx::write(w, field), ...); }, value.upcxx_fields());
    }
    static T read(reader &r)
    {
        T value;
        std::apply([&r](auto &...field) { ((field = upcxx::read<std::decay_t<decltype(field)>>(r)), ...); }, value.upcxx_fields());
        return value;
    }
};

} // namespace upcxx

#endif
