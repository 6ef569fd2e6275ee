/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dynamic linker's last error; see dl_error.h.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 *
 * An error that the program has not asked for is restored by an error of the same kind: a symbol that
 * does not exist is searched.  So whatever the program calls next replaces or clears it, as it would
 * have done with the original, and dlerror answers it with the kept text.
 */
#include "iofwd/interpose/loader/dl_error.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/loader/elf_deps.h"

#define MISSING "amphora keeps the error"

/* Before the constructor has found dlerror there is nothing to keep. */
static bool is_found(void)
{
    return __atomic_load_n(&amph_ip_libc_slots[AMPH_IP_NAME_dlerror], __ATOMIC_RELAXED) != NULL;
}

static void at_thread_end(void *thread)
{
    struct amph_ip_thread *t = thread;

    free(t->dl_error.kept);
    free(t->dl_error.returned);
    t->dl_error.kept = t->dl_error.returned = NULL;
}

static void make_key(void)
{
    amph_ip_loader.has_error_key = pthread_key_create(&amph_ip_loader.error_key, at_thread_end) ==
                                   0;
}

/* Replaces the kept text.  Without memory no text is kept. */
static void keep(const char *text)
{
    free(amph_ip_thread.dl_error.kept);
    amph_ip_thread.dl_error.kept = strdup(text);

    pthread_once(&amph_ip_loader.error_once, make_key);
    if (amph_ip_loader.has_error_key)
        pthread_setspecific(amph_ip_loader.error_key, &amph_ip_thread);
}

static void forget(void)
{
    free(amph_ip_thread.dl_error.kept);
    amph_ip_thread.dl_error.kept = NULL;
}

/* Takes the C library's error; afterwards the kept text is the one that dlerror has to return. */
static void take(void)
{
    const char *text = libc_dlerror();

    if (!text)
        forget();
    else if (!strstr(text, MISSING))
        keep(text);
}

void amph_ip_dl_error_keep(void)
{
    int saved = errno;

    if (amph_ip_thread.dl_error.depth++ == 0 && is_found())
        take();

    errno = saved;
}

void amph_ip_dl_error_restore(void)
{
    int saved = errno;

    if (--amph_ip_thread.dl_error.depth == 0 && is_found()) {
        libc_dlerror(); /* an error of the library's own calls */
        if (amph_ip_thread.dl_error.kept)
            (void)dlsym(RTLD_DEFAULT, MISSING);
    }

    errno = saved;
}

char *amph_do_dlerror(void)
{
    if (amph_ip_thread.dl_error.depth > 0)
        return libc_dlerror(); /* asked by the library's own code */

    take();
    free(amph_ip_thread.dl_error.returned);
    amph_ip_thread.dl_error.returned = amph_ip_thread.dl_error.kept;
    amph_ip_thread.dl_error.kept = NULL;

    return amph_ip_thread.dl_error.returned;
}
