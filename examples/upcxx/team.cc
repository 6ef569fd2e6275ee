// SPDX-License-Identifier: BSD-3-Clause
// Teams and the distributed objects on them.
#include "team.hpp"

#include <unordered_map>

#include "inside.hpp"

namespace upcxx {

namespace {

std::unique_ptr<team> all, local;
std::unordered_map<std::uint64_t, void *> objects;

// The same at all members, different for different teams and objects of theirs.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b)
{
    std::uint64_t z = a * 0x9e3779b97f4a7c15u + b + 1;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

} // namespace

team team::split(int color, int key) const
{
    gex_TM_t tm = GEX_TM_INVALID, *tm_p = color == color_none ? nullptr : &tm;
    std::uint64_t id = mixed(mixed(number, ++made), static_cast<std::uint64_t>(color));
    std::size_t size = gex_TM_Split(tm_p, members, color, key, nullptr, 0, GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED);
    void *scratch = size ? detail::segment_take(size, GASNET_PAGESIZE, 1) : nullptr;
    if (size && !scratch)
        detail::fail("team::split", "the shared segment has no room for the team's scratch space");
    gex_TM_Split(tm_p, members, color, key, scratch, size, 0);
    return { tm, id };
}

void team::destroy()
{
    gex_Memvec_t scratch;
    if (is_null())
        return;
    if (gex_TM_Destroy(members, &scratch, 0))
        detail::segment_give("team::destroy", scratch.gex_addr);
    members = GEX_TM_INVALID;
}

std::uint64_t team::new_object(void *object) const
{
    std::uint64_t id = mixed(number, ++made);
    objects[id] = object;
    return id;
}

void team::object_gone(std::uint64_t id)
{
    objects.erase(id);
}

const team &world()
{
    return *all;
}
const team &local_team()
{
    return *local;
}

namespace detail {

void *object_of(std::uint64_t id)
{
    auto it = objects.find(id);
    return it == objects.end() ? nullptr : it->second;
}

void teams_start(gex_TM_t tm)
{
    gex_RankInfo_t *neighbours;
    gex_Rank_t count;
    all = std::make_unique<team>(tm, 1);
    gex_System_QueryNbrhdInfo(&neighbours, &count, nullptr);
    local = std::make_unique<team>(all->split(static_cast<int>(neighbours[0].gex_jobrank), static_cast<int>(rank_me())));
}

void teams_end()
{
    local->destroy();
    local.reset();
    all.reset();
}

} // namespace detail

} // namespace upcxx
