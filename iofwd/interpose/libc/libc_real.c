/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C library's own functions; see libc/libc_real.h.
 *
 * Layer: iofwd (interposer).
 */
#include "iofwd/interpose/libc/libc_real.h"

#include <dlfcn.h>
#include <errno.h>

#include "iofwd/interpose/entry/state.h"
#include "iofwd/interpose/loader/dl_error.h"
#include "iofwd/interpose/stdio/abort_text.h"
#include "iofwd/interpose/stdio/foreign_file.h"
#include "iofwd/calls/names.h"

static long missing(void)
{
    errno = ENOSYS;
    return -1;
}

const FILE *amph_ip_std_original(int fd)
{
    static const char *const names[] = { "_IO_2_1_stdin_", "_IO_2_1_stdout_", "_IO_2_1_stderr_" };

    return dlsym(RTLD_NEXT, names[fd]);
}

const struct amph_ip_abort_text *const *amph_ip_abort_variable(void)
{
    return dlsym(RTLD_NEXT, "__abort_msg");
}

/* Finds the function without its name: a sanitizer in the program defines one with that name, which
 * would wrap our cookie in its own.  dlopen would return a handle of the C library, but would run
 * its constructor too early. */
FILE *amph_ip_plain_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions)
{
    FILE *(*plain)(void *, const char *, cookie_io_functions_t);

    plain = (FILE * (*)(void *, const char *, cookie_io_functions_t))
        dlsym(RTLD_NEXT, "fopencookie");
    return plain ? plain(cookie, mode, functions) : NULL;
}

void *amph_ip_libc_find(int name)
{
    int saved = errno;

    amph_ip_std_complete();
    amph_ip_dl_error_keep();

    void *real = dlsym(RTLD_NEXT, amph_ip_name_texts[name]);

    amph_ip_dl_error_restore();
    errno = saved;
    if (!real) /* a library that is loaded later may define it */
        return (void *)missing;

    __atomic_store_n(&amph_ip_libc_slots[name], real, __ATOMIC_RELAXED);
    return real;
}

void *amph_ip_next_unless(const char *name, const char *version)
{
    int saved = errno;

    amph_ip_dl_error_keep();

    void *next = dlsym(RTLD_NEXT, name);

    if (next && next == dlvsym(RTLD_NEXT, name, version))
        next = NULL;

    amph_ip_dl_error_restore();

    errno = saved;
    return next;
}

void amph_ip_libc_find_all(void)
{
    if (__atomic_load_n(&amph_ip_state.libc_found, __ATOMIC_RELAXED))
        return;

    for (int name = 0; name < AMPH_IP_NAME_COUNT; name++)
        amph_ip_libc(name);

    __atomic_store_n(&amph_ip_state.libc_found, true, __ATOMIC_RELAXED);
}
