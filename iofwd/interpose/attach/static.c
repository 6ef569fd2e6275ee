/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interposer of a static program: the client is linked into the same program, and the C
 * library's functions have the names that ld --wrap gives them.
 *
 * Layer: iofwd (interposer).  Thread rule: see attach/client.h and libc/libc_real.h.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/program/note.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/process/mpi_job.h"
#include "iofwd/interpose/stdio/abort_text.h"
#include "iofwd/interpose/stdio/foreign_file.h"
#include "iofwd/calls/names.h"

const bool amph_ip_client_is_linked = true;

__attribute__((section(".note.amphora"), used, aligned(4))) static const struct amph_note note = {
    .namesz = 8, .type = AMPH_NOTE_FORWARDS, .name = AMPH_NOTE_NAME
};

const struct amph_fwd_interface *amph_ip_client_bind(const char **what_p, const char **why_p)
{
    return &amph_fwd_interface;
}

/* That of the installation: a static program is no library. */
const char *amph_ip_library_path(void)
{
    static const char path[] = AMPH_IP_LIBRARY_INSTALLED;

    return libc_access(path, R_OK) == 0 ? path : NULL;
}

bool amph_ip_is_in_front(void)
{
    return true;
}

bool amph_ip_has_own_malloc(void)
{
    return false;
}

static long missing(void)
{
    errno = ENOSYS;
    return -1;
}

void *amph_ip_libc_find(int name)
{
    return (void *)missing;
}

/* The linker takes the calls of the archive with that version's functions. */
void *amph_ip_next_unless(const char *name, const char *version)
{
    return NULL;
}

void amph_ip_libc_find_all(void)
{
}

extern const FILE original_in __asm__("__real__IO_2_1_stdin_");
extern const FILE original_out __asm__("__real__IO_2_1_stdout_");
extern const FILE original_err __asm__("__real__IO_2_1_stderr_");

const FILE *amph_ip_std_original(int fd)
{
    static const FILE *const files[] = { &original_in, &original_out, &original_err };

    return files[fd];
}

/* A static program shares no PMIx library with an MPI library. */
void amph_ip_mpi_hold(void)
{
}

void amph_ip_mpi_release(void)
{
}

bool amph_ip_program_uses_api(void)
{
    return true; /* libiofwd is linked in, whether or not the program calls it */
}

FILE *amph_ip_plain_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions)
{
    return fopencookie(cookie, mode, functions);
}

extern const struct amph_ip_abort_text *__abort_msg __attribute__((weak));

const struct amph_ip_abort_text *const *amph_ip_abort_variable(void)
{
    return &__abort_msg;
}

extern void _IO_link_in(FILE *f); /* into the C library's list of all streams */

/* The list of a static program begins with the original objects, which nobody uses. */
static void __attribute__((constructor(101))) link_std_files(void)
{
    for (int fd = 0; fd < 3; fd++) {
        FILE *f = &amph_ip_std_file(fd)->file;

        f->_flags &= ~0x80; /* it is in the list */
        _IO_link_in(f);
    }

    amph_ip_std_complete();
}
