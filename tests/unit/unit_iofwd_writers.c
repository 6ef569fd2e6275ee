/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of iofwd/wire/writers.c and repair.c: what killed processes leave, and records of processes whose numbers
 * are used again.  The linker gives writers.c the kill of this file (--wrap), so that a process dies, and another one
 * starts, at a moment of the test's choice. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "iofwd/wire/marshal.h"
#include "iofwd/wire/repair.h"
#include "iofwd/wire/versions.h"
#include "iofwd/wire/writers.h"

enum {
    NUMBER = 1234, /* of the process that dies */
    LINE = 7
};

static struct amph_fwd_versions v;
static struct amph_fwd_writer *newcomers;
static bool dead, returns;

int __wrap_kill(pid_t pid, int sig);

/* Is asked whether the process exists.  returns: it does not, but when the caller knows that, a new process has its
 * number, and has taken a record. */
int __wrap_kill(pid_t pid, int sig)
{
    cr_assert(sig == 0 && pid != 0);
    if (pid != NUMBER || !dead)
        return 0;

    if (returns) {
        dead = false;
        newcomers = amph_fwd_writer_take(&v, NUMBER);
        amph_fwd_writer_open(&v, newcomers, 3, LINE);
    }

    errno = ESRCH;
    return -1;
}

static bool is_under_way(const struct amph_fwd_version *version)
{
    return version->begun != version->ended;
}

static void repair(void)
{
    amph_fwd_writers_forget_dead(&v);
    (void)amph_fwd_versions_repair(&v);
}

static void one_dies(bool number_returns)
{
    struct amph_fwd_writer *w = amph_fwd_writer_take(&v, NUMBER);

    amph_fwd_writer_open(&v, w, 1, LINE + 1);
    amph_fwd_writer_begin(&v, w, true);
    dead = true;
    returns = number_returns;
}

Test(writers, dead_are_ended)
{
    one_dies(false);
    cr_assert(is_under_way(&v.names) && is_under_way(&v.cuts));
    repair();
    cr_assert(!is_under_way(&v.names) && !is_under_way(&v.cuts));
    cr_assert(!is_under_way(&v.line[LINE + 1].data));
    cr_assert(!amph_fwd_writers_any(&v));
}

Test(writers, number_is_used_again)
{
    one_dies(true);
    repair();
    cr_assert(newcomers);
    cr_assert(is_under_way(&v.line[LINE].data));
    cr_assert(is_under_way(&v.line[LINE].attributes));
    cr_assert(amph_fwd_writers_any(&v));

    /* the record is still the new process's */
    for (unsigned i = 1; i < FWD_WRITERS; i++)
        cr_assert(amph_fwd_writer_take(&v, NUMBER + i) != newcomers);

    amph_fwd_writer_close(&v, newcomers, 3);
    cr_assert(!is_under_way(&v.line[LINE].data));
    repair();
    cr_assert(!is_under_way(&v.line[LINE + 1].data));
    cr_assert(!is_under_way(&v.names) && !is_under_way(&v.cuts));
}

/* All records have owners: the next process gets that of a dead one, but not that of a new one with its number. */
Test(writers, all_are_taken)
{
    for (unsigned i = 1; i < FWD_WRITERS; i++)
        cr_assert(amph_fwd_writer_take(&v, NUMBER + i));

    one_dies(true);
    cr_assert(!amph_fwd_writer_take(&v, 1));
    cr_assert(is_under_way(&v.line[LINE].data));

    amph_fwd_writer_close(&v, newcomers, 3);
    dead = true;
    returns = false;
    cr_assert(amph_fwd_writer_take(&v, 1) == newcomers);
}

/* An exec: what is kept stays, what was under way has ended. */
Test(writers, exec)
{
    struct amph_fwd_writer *w = amph_fwd_writer_take(&v, NUMBER);

    amph_fwd_writer_open(&v, w, 1, LINE);
    amph_fwd_writer_open(&v, w, 2, LINE + 1);
    atomic_fetch_or(&w->line[1], FWD_WRITER_KEPT);
    amph_fwd_writer_begin(&v, w, false);
    cr_assert(amph_fwd_writer_take(&v, NUMBER) == w);
    cr_assert(is_under_way(&v.line[LINE].data));
    cr_assert(!is_under_way(&v.line[LINE + 1].data));
    repair();
    cr_assert(is_under_way(&v.line[LINE].data));
    cr_assert(!is_under_way(&v.names));
}

/* ---- repair ---- */

/* A process is killed in the midst of a step: after the claim, or after one version or both have moved. */
Test(writers, killed_in_a_step)
{
    for (unsigned moved = 0; moved <= 2; moved++) {
        struct amph_fwd_writer *w = amph_fwd_writer_take(&v, NUMBER);

        w->line[5] = (LINE + 1) | FWD_WRITER_MOVES;
        if (moved > 0)
            amph_fwd_version_begin(&v.line[LINE].data);
        if (moved > 1)
            amph_fwd_version_begin(&v.line[LINE].attributes);

        repair(); /* it may go on */
        cr_assert(is_under_way(&v.line[LINE].data) == (moved > 0));
        dead = true;
        repair();
        cr_assert(!is_under_way(&v.line[LINE].data));
        cr_assert(!is_under_way(&v.line[LINE].attributes));
        dead = false;
    }
}

/* The next process with a record has nothing of what the last owner claimed. */
Test(writers, former_claims_end)
{
    struct amph_fwd_writer *w = amph_fwd_writer_take(&v, NUMBER);

    amph_fwd_writer_open(&v, w, 2, LINE);
    amph_fwd_writer_begin(&v, w, true);
    dead = true;
    amph_fwd_writers_forget_dead(&v);
    cr_assert(amph_fwd_writer_take(&v, NUMBER + 1) == w);
    (void)amph_fwd_versions_repair(&v);
    cr_assert(!is_under_way(&v.line[LINE].data));
    cr_assert(!is_under_way(&v.names) && !is_under_way(&v.cuts));
}

Test(writers, a_change_beside_a_left_one)
{
    struct amph_fwd_writer *w = amph_fwd_writer_take(&v, NUMBER);

    amph_fwd_version_begin(&v.line[LINE].data); /* left */
    amph_fwd_writer_open(&v, w, 0, LINE);
    repair();
    cr_assert(is_under_way(&v.line[LINE].data));
    amph_fwd_writer_close(&v, w, 0);
    cr_assert(is_under_way(&v.line[LINE].data));
    cr_assert(!is_under_way(&v.line[LINE].attributes));
    repair();
    cr_assert(!is_under_way(&v.line[LINE].data));
}

Test(writers, passed_descriptors)
{
    _Atomic uint32_t *claims = amph_fwd_passer_take(&v, NUMBER);

    cr_assert(claims != &v.others);
    atomic_fetch_add(claims, 1);
    amph_fwd_version_begin(&v.line[LINE].data);
    amph_fwd_version_begin(&v.names); /* left by another one: such a process changes no names */
    repair();
    cr_assert(is_under_way(&v.line[LINE].data));
    cr_assert(!is_under_way(&v.names));
    dead = true;
    repair();
    cr_assert(!is_under_way(&v.line[LINE].data));

    dead = false;
    for (unsigned i = 0; i < FWD_PASSERS; i++)
        cr_assert(amph_fwd_passer_take(&v, NUMBER + i) != &v.others);

    cr_assert(amph_fwd_passer_take(&v, 1) == &v.others);
    cr_assert(*amph_fwd_passer_take(&v, NUMBER) == 0);
}

Test(writers, servers)
{
    struct amph_fwd_journal_entry *e = &v.journal[3].entry[4];

    e->line = LINE;
    e->claims = FWD_VERSION_DATA;
    amph_fwd_version_begin(&v.line[LINE].data);
    amph_fwd_version_begin(&v.line[LINE].attributes);
    amph_fwd_version_begin(&v.line[LINE + 1].data);
    cr_assert(amph_fwd_versions_repair(&v) == 1);
    cr_assert(is_under_way(&v.line[LINE].data));

    e->claims = 0;
    v.journal[3].others = 1;
    cr_assert(amph_fwd_versions_repair(&v) == 0);
    v.journal[3].others = 0;
    v.others = 1;
    cr_assert(amph_fwd_versions_repair(&v) == 0);
    v.others = 0;
    cr_assert(amph_fwd_versions_repair(&v) == 2);
    cr_assert(!is_under_way(&v.line[LINE].data));
}
