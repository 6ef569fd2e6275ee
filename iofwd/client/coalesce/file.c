/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the coalescing layer knows of an open file: the memory for it, its flags, and whether its
 * small calls may be coalesced.
 *
 * Layer: iofwd.  Thread rule: the caller owns the coalescer, except in amph_client_file_memory.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "iofwd/calls/calls.h"
#include "iofwd/client/coalesce/blocks.h"
#include "iofwd/client/versions.h"
#include "iofwd/wire/marshal.h"

#define SPARE 32u

struct coalescer *amph_client_file_memory(void)
{
    if (amph_client_coalesce.nspare == 0) {
        void *at = mmap(NULL, SPARE * sizeof *amph_client_coalesce.spare, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (at == MAP_FAILED)
            return NULL;

        amph_client_coalesce.spare = at;
        amph_client_coalesce.nspare = SPARE;
    }

    return &amph_client_coalesce.spare[--amph_client_coalesce.nspare];
}

void amph_client_file_flags(struct coalescer *c, int flags)
{
    c->plain = !(flags & (O_DIRECT | O_SYNC | O_DSYNC | O_PATH));
    c->append = flags & O_APPEND;
    c->access = flags & O_ACCMODE;
    c->flags_known = true;
}

bool amph_client_file_allows(struct coalescer *c, enum mode mode)
{
    struct stat st;
    int flags = 0;
    struct amph_fwd_args_fstat fstat_args = { .file = &c->file, .st = &st };
    struct amph_fwd_args_getflags flags_args = { .file = &c->file, .flags = &flags };

    if (!c->checked) {
        c->checked = true;

        bool regular = amph_client_call(c->cl, AMPH_FWD_FSTAT, &fstat_args) == 0 &&
                       S_ISREG(st.st_mode);

        if (!atomic_load(&c->identity))
            atomic_store(&c->identity, regular
                                           ? (st.st_ino * UINT64_C(0x9e3779b97f4a7c15) >> 16) | 1
                                           : UINT64_MAX);

        if (regular && !c->flags_known &&
            amph_client_call(c->cl, AMPH_FWD_GETFLAGS, &flags_args) == 0)
            amph_client_file_flags(c, flags);

        c->able = regular && c->flags_known && c->plain;
        if (regular)
            c->line = amph_fwd_versions_line_of(st.st_dev, st.st_ino);
    }

    return c->able && (c->access == O_RDWR || c->access == (mode == WRITING ? O_WRONLY : O_RDONLY));
}

bool amph_client_file_is_beside(const struct amph_fwd_call_desc *desc)
{
    const unsigned own = FWD_COALESCE_DROP | FWD_COALESCE_RECHECK | FWD_COALESCE_UNLOCK;

    return !(desc->flags & FWD_CALL_OFFSET) && !(desc->coalesce_flags & own) &&
           !amph_fwd_find_arg(desc, FWD_IN_LOCK);
}
