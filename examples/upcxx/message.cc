// SPDX-License-Identifier: BSD-3-Clause
// Messages: out as negotiated-payload active messages, in through handlers that only put them before the master persona.
#include <cstring>
#include <map>
#include <unordered_map>

#include "inside.hpp"

// The program's code, between two names of the linker's.
extern "C" char __executable_start[], etext[];

namespace upcxx::detail {

namespace {

enum : gex_AM_Index_t { h_whole = 140, h_piece };
constexpr unsigned whole_args = 2, piece_args = 8;
constexpr std::size_t least_piece = 512; // so much room is waited for

gex_AM_Arg_t high(std::uint64_t v)
{
    return static_cast<gex_AM_Arg_t>(v >> 32);
}
gex_AM_Arg_t low(std::uint64_t v)
{
    return static_cast<gex_AM_Arg_t>(v);
}
std::uint64_t joined(gex_AM_Arg_t h, gex_AM_Arg_t l)
{
    return std::uint64_t(static_cast<std::uint32_t>(h)) << 32 | static_cast<std::uint32_t>(l);
}

// A message that has come.  One that cannot be carried out yet is put before the persona again.
struct arrived {
    invoker f;
    rank_t from;
    std::vector<char> bytes;

    static void run(std::shared_ptr<arrived> m)
    {
        reader r(m->bytes.data(), m->bytes.size());
        if (!m->f(r, m->from))
            master_persona().lpc_ff([m] { run(m); });
    }
};

void deliver(std::shared_ptr<arrived> m)
{
    master_persona().lpc_ff([m] { arrived::run(m); });
}

invoker invoker_of(std::uint64_t number)
{
    return reinterpret_cast<invoker>(function_of(number));
}

rank_t source_of(gex_Token_t token)
{
    gex_Token_Info_t info;
    gex_Token_Info(token, &info, GEX_TI_SRCRANK);
    return info.gex_srcrank;
}

void on_whole(gex_Token_t token, void *bytes, std::size_t n, gex_AM_Arg_t f1, gex_AM_Arg_t f0)
{
    const char *at = static_cast<const char *>(bytes);
    deliver(std::make_shared<arrived>(arrived{ invoker_of(joined(f1, f0)), source_of(token), std::vector<char>(at, at + n) }));
}

// Messages in pieces, which may come in any order.
struct in_pieces {
    std::shared_ptr<arrived> message;
    std::size_t missing;
};
std::mutex pieces_lock;
std::map<std::pair<rank_t, std::uint64_t>, in_pieces> pieces;
constexpr std::uint64_t longest = std::uint64_t(1) << 40;

void on_piece(gex_Token_t token, void *bytes, std::size_t n, gex_AM_Arg_t f1, gex_AM_Arg_t f0, gex_AM_Arg_t number1, gex_AM_Arg_t number0,
              gex_AM_Arg_t total1, gex_AM_Arg_t total0, gex_AM_Arg_t at1, gex_AM_Arg_t at0)
{
    std::uint64_t total = joined(total1, total0), at = joined(at1, at0);
    rank_t from = source_of(token);
    if (total > longest || at > total || n > total - at || n == 0)
        fail("message", "a piece lies outside its message");
    std::shared_ptr<arrived> complete;
    {
        std::lock_guard<std::mutex> guard(pieces_lock);
        auto key = std::make_pair(from, joined(number1, number0));
        auto &entry = pieces[key];
        if (!entry.message)
            entry = { std::make_shared<arrived>(arrived{ invoker_of(joined(f1, f0)), from, std::vector<char>(total) }), total };
        if (entry.message->bytes.size() != total || entry.missing < n)
            fail("message", "its pieces do not fit together");
        std::memcpy(entry.message->bytes.data() + at, bytes, n);
        entry.missing -= n;
        if (entry.missing == 0) {
            complete = entry.message;
            pieces.erase(key);
        }
    }
    if (complete)
        deliver(complete);
}

std::mutex calls_lock;
std::unordered_map<std::uint64_t, std::shared_ptr<void>> calls;
std::uint64_t last_call, last_long;

// Each piece is as long as the library has room for at the moment.
void send_pieces(rank_t to, std::uint64_t f, std::size_t nbytes, const char *bytes)
{
    std::uint64_t number;
    {
        std::lock_guard<std::mutex> guard(calls_lock);
        number = ++last_long;
    }
    for (std::size_t at = 0, n; at < nbytes; at += n) {
        std::size_t rest = nbytes - at;
        std::size_t most = gex_AM_MaxRequestMedium(world_tm(), to, nullptr, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, piece_args);
        gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(world_tm(), to, nullptr, rest < least_piece ? rest : least_piece,
                                                          rest < most ? rest : most, nullptr, 0, piece_args);
        n = gex_AM_SrcDescSize(sd) < rest ? gex_AM_SrcDescSize(sd) : rest;
        std::memcpy(gex_AM_SrcDescAddr(sd), bytes + at, n);
        gex_AM_CommitRequestMedium8(sd, h_piece, n, high(f), low(f), high(number), low(number), high(nbytes), low(nbytes), high(at),
                                    low(at));
    }
}

} // namespace

int register_handlers(gex_EP_t ep)
{
    gex_AM_Entry_t table[] = {
        { h_whole, (gex_AM_Fn_t)on_whole, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, whole_args, nullptr, "upcxx whole" },
        { h_piece, (gex_AM_Fn_t)on_piece, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, piece_args, nullptr, "upcxx piece" },
    };
    return gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof *table);
}

void send_message(rank_t to, invoker f, std::size_t nbytes, void (*write)(const void *, void *), const void *context)
{
    if (to >= rank_n())
        fail("rpc", "there is no such process");
    std::uint64_t number = function_number(reinterpret_cast<void (*)()>(f));
    if (nbytes <= gex_AM_MaxRequestMedium(world_tm(), to, nullptr, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, whole_args)) {
        gex_AM_SrcDesc_t sd = gex_AM_PrepareRequestMedium(world_tm(), to, nullptr, nbytes, nbytes, nullptr, 0, whole_args);
        write(context, gex_AM_SrcDescAddr(sd));
        gex_AM_CommitRequestMedium2(sd, h_whole, nbytes, high(number), low(number));
        return;
    }
    std::vector<char> bytes(nbytes);
    write(context, bytes.data());
    send_pieces(to, number, nbytes, bytes.data());
}

// Where a program is loaded differs from process to process; the distance from its start does not.
std::uint64_t function_number(void (*f)())
{
    auto number = reinterpret_cast<std::uintptr_t>(f) - reinterpret_cast<std::uintptr_t>(__executable_start);
    if (number >= static_cast<std::uintptr_t>(etext - __executable_start))
        fail("rpc", "the function is not the program's own, but a shared library's");
    return number;
}

void (*function_of(std::uint64_t number))()
{
    if (number >= static_cast<std::uintptr_t>(etext - __executable_start))
        fail("message", "names no function of this program");
    return reinterpret_cast<void (*)()>(__executable_start + number);
}

std::uint64_t call_enter(std::shared_ptr<void> call)
{
    std::lock_guard<std::mutex> guard(calls_lock);
    calls[++last_call] = std::move(call);
    return last_call;
}

std::shared_ptr<void> call_leave(std::uint64_t number)
{
    std::lock_guard<std::mutex> guard(calls_lock);
    auto it = calls.find(number);
    if (it == calls.end())
        fail("message", "answers a call that nobody made");
    auto call = it->second;
    calls.erase(it);
    return call;
}

} // namespace upcxx::detail
