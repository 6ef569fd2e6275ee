/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client in the same static program, and the C library's functions by the names that ld --wrap gives them.
 * Layer: iofwd (preload).  Thread rule: see core.h and entry/libc_real.h.
 */
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/client.h"
#include "iofwd/interpose/stdio/foreign_file.h"
#include "iofwd/calls/names.h"

const bool fwd_core_linked = true;

bool fwd_core_bind(const char **what_p, const char **why_p)
{
#define FWD_CORE_BIND(name) fwd_core.name = amph_fwd_##name;
    FWD_CORE_CALLS(FWD_CORE_BIND) FWD_CORE_EXTRAS(FWD_CORE_BIND)
#undef FWD_CORE_BIND
    return true;
}

static long missing(void)
{
    errno = ENOSYS;
    return -1;
}

void *fwd_real_find(int name)
{
    return (void *)missing;
}

void fwd_real_find_all(void)
{
}

extern const FILE original_in __asm__("__real__IO_2_1_stdin_");
extern const FILE original_out __asm__("__real__IO_2_1_stdout_");
extern const FILE original_err __asm__("__real__IO_2_1_stderr_");

const FILE *fwd_std_original(int fd)
{
    static const FILE *const files[] = { &original_in, &original_out, &original_err };

    return files[fd];
}

FILE *fwd_plain_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions)
{
    return fopencookie(cookie, mode, functions);
}

extern void _IO_link_in(FILE *f); /* into the C library's list of all streams */

/* The list of a static program begins with the original objects, which nobody uses. */
static void __attribute__((constructor(101))) link_std_files(void)
{
    for (int fd = 0; fd < 3; fd++) {
        FILE *f = &fwd_std_file(fd)->file;

        f->_flags &= ~0x80; /* it is in the list */
        _IO_link_in(f);
    }

    fwd_std_complete();
}
