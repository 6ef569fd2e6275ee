/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of iofwd/server/versions.c: another of the user's servers looks for changes that killed ones have left, at
 * every moment at which a server moves a version. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "iofwd/wire/repair.h"
#include "iofwd/wire/versions.h"

static void end_beside_another(struct amph_fwd_version *version);

/* versions.c ends changes by a function of this file. */
#define amph_fwd_version_end end_beside_another
#include "iofwd/server/versions.c"
#undef amph_fwd_version_end

enum {
    LINE = 7
};

static struct amph_fwd_versions v;
static struct amph_server server;

static void end_beside_another(struct amph_fwd_version *version)
{
    cr_assert(amph_fwd_versions_repair(&v) == 0, "what is under way belongs to a living server");
    amph_fwd_version_end(version);
}

static struct amph_server_request request(enum amph_fwd_id id, bool in_worker)
{
    struct amph_server_request rq = { .server = &server, .id = id, .desc = &amph_fwd_calls[id] };

    rq.shared.in_worker = in_worker;
    rq.exec.line = FWD_VERSIONS_LINE_NONE;
    server = (struct amph_server){ .versions = &v, .journal = &v.journal[0], .journal_used = 1 };
    return rq;
}

static bool is_under_way(const struct amph_fwd_version *version)
{
    return version->begun != version->ended;
}

/* A call by path, whose file is known only when it has been cut. */
static void cut(bool in_worker)
{
    struct amph_server_request rq = request(AMPH_FWD_TRUNCATE, in_worker);
    unsigned begun = amph_server_versions_begin(&rq);

    cr_assert(is_under_way(&v.names) && is_under_way(&v.cuts));
    rq.exec.line = LINE;
    amph_server_versions_end(&rq, begun);
    cr_assert(v.line[LINE].data.begun == 1 && v.line[LINE].data.ended == 1);
    cr_assert(!is_under_way(&v.names) && !is_under_way(&v.cuts));
    cr_assert(is_empty(server.journal) && server.journal_used == 1);
}

Test(versions, cut_by_a_worker)
{
    cut(true);
}

Test(versions, cut_by_the_progress_thread)
{
    cut(false);
}

/* More changes at a time than the journal has entries. */
Test(versions, cut_without_an_entry)
{
    struct amph_server_request rq = request(AMPH_FWD_TRUNCATE, true);

    server.journal_used = UINT32_MAX;

    unsigned begun = amph_server_versions_begin(&rq);

    rq.exec.line = LINE;
    amph_server_versions_end(&rq, begun);
    cr_assert(v.line[LINE].data.begun == 1 && v.line[LINE].data.ended == 1);
    cr_assert(is_empty(server.journal));
}

/* A server that is killed in the midst of this is no obstacle to the others. */
Test(versions, killed)
{
    (void)request(AMPH_FWD_TRUNCATE, true);
    claim(&server, NO_ENTRY, FWD_VERSION_DATA, LINE);
    amph_fwd_version_begin(&v.line[LINE].data);
    cr_assert(amph_fwd_versions_repair(&v) == 0);

    clear_journal(server.journal);
    cr_assert(amph_fwd_versions_repair(&v) == 1);
    cr_assert(!is_under_way(&v.line[LINE].data));
}
