// SPDX-License-Identifier: BSD-3-Clause
// Teams: sets of processes with ranks of their own, for collectives, calls and distributed objects.
#ifndef UPCXX_TEAM_HPP
#define UPCXX_TEAM_HPP

#include "runtime.hpp"

namespace upcxx {

class team {
    gex_TM_t members;
    std::uint64_t number;
    mutable std::uint64_t made = 0; // teams and objects out of this one, as all members count them

  public:
    static constexpr int color_none = -1;

    team(gex_TM_t tm, std::uint64_t id) : members(tm), number(id) {}
    team(const team &) = delete;
    team(team &&other) noexcept : members(other.members), number(other.number), made(other.made) { other.members = GEX_TM_INVALID; }
    team &operator=(const team &) = delete;

    rank_t rank_me() const { return gex_TM_QueryRank(members); }
    rank_t rank_n() const { return gex_TM_QuerySize(members); }
    // The member's rank in the world, and back (GEX_RANK_INVALID: no member).
    rank_t operator[](rank_t member) const { return gex_TM_TranslateRankToJobrank(members, member); }
    rank_t from_world(rank_t rank) const { return gex_TM_TranslateJobrankToRank(members, rank); }
    // Collective: who passes the same color becomes a team, in the order of the keys.  color_none: is in none (is_null).
    team split(int color, int key) const;
    bool is_null() const { return members == GEX_TM_INVALID; }
    // Collective, when nothing is under way on it.
    void destroy();

    gex_TM_t gex() const { return members; }
    std::uint64_t id() const { return number; }
    // For dist_object: enters an object, takes it out.
    std::uint64_t new_object(void *object) const;
    static void object_gone(std::uint64_t number);
};

const team &world();
// The processes whose segments can be reached by loads and stores.
const team &local_team();
inline rank_t rank_me(const team &tm)
{
    return tm.rank_me();
}
inline rank_t rank_n(const team &tm)
{
    return tm.rank_n();
}

} // namespace upcxx

#endif
