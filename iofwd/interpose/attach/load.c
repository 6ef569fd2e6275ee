/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads libiofwd, which holds the file client, and checks that its table of functions is the one
 * that this library was built with.  The first forwarded call does so: a program that forwards
 * nothing never maps the client.
 *
 * Layer: iofwd (interposer).  Thread rule: under the lock of client.c.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/platform.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/calls/names.h"

const bool amph_ip_client_is_linked = false;

/* Is there a library of that name in the directory that path ends with?  Then path names it. */
static bool is_in(char *path, size_t directory_len, size_t cap_bytes, const char *name)
{
    if (directory_len + strlen(name) >= cap_bytes)
        return false;

    strcpy(path + directory_len, name);
    return libc_access(path, R_OK) == 0;
}

static int names_libamphora(struct dl_phdr_info *object, size_t size, void *unused)
{
    const char *slash = strrchr(object->dlpi_name, '/');
    const char *name = slash ? slash + 1 : object->dlpi_name;

    return strncmp(name, "libamphora.so", strlen("libamphora.so")) == 0;
}

/* Has the program a libamphora of its own?  dlopen with RTLD_NOLOAD would say so too, but searches
 * all the linker's directories if it has none: 100 system calls for each process. */
static bool has_libamphora(void)
{
    return dl_iterate_phdr(names_libamphora, NULL) != 0;
}

/* Opens libiofwd, which is in the preload library's own directory (build tree), one directory up
 * (installed: $libdir/amphora), or where the linker searches.  First the libamphora beside it, which it
 * needs, unless the program has one: the linker would look for it in every subdirectory of the run
 * path that suits this processor.  One buffer for all paths: the stack may be small. */
static void *open_library(void)
{
    static const char *const directories[] = { "", "../" };
    char path[PATH_MAX];
    Dl_info self;
    const char *slash = NULL;

    if (dladdr(&amph_ip_client, &self) && self.dli_fname)
        slash = strrchr(self.dli_fname, '/');

    for (size_t i = 0; slash && i < AMPH_COUNTOF(directories); i++) {
        int n = snprintf(path, sizeof path, "%.*s/%s", (int)(slash - self.dli_fname),
                         self.dli_fname, directories[i]);
        size_t len = (size_t)n;

        if (!is_in(path, len, sizeof path, "libiofwd.so.0"))
            continue;

        /* on failure the linker searches, or says why libiofwd cannot be loaded */
        if (!has_libamphora() && is_in(path, len, sizeof path, "libamphora.so.0"))
            dlopen(path, RTLD_LAZY);

        (void)is_in(path, len, sizeof path, "libiofwd.so.0");
        return dlopen(path, RTLD_LAZY);
    }

    return dlopen("libiofwd.so.0", RTLD_LAZY);
}

const char *amph_ip_library_path(void)
{
    Dl_info self;

    return dladdr(&amph_ip_client, &self) && self.dli_fname && self.dli_fname[0] == '/'
               ? self.dli_fname
               : NULL;
}

/* Writes into why how the table differs from the one that this library was built with; false: it
 * does not differ.  The version is looked at first: the rest of the table depends on it. */
static bool differs(const struct amph_fwd_interface *table, char *why, size_t cap_bytes)
{
    if (table->version != AMPH_FWD_INTERFACE_VERSION) {
        snprintf(why, cap_bytes, "its interface has version %u, this library needs version %u",
                 table->version, (unsigned)AMPH_FWD_INTERFACE_VERSION);
        return true;
    }

    if (table->size_bytes != sizeof *table) {
        snprintf(why, cap_bytes, "its interface has %u bytes, this library needs %zu",
                 table->size_bytes, sizeof *table);
        return true;
    }

    if (strcmp(table->names, AMPH_FWD_INTERFACE_NAMES) != 0) {
        snprintf(why, cap_bytes, "its interface has other functions than this library needs");
        return true;
    }

    return false;
}

/* Only its address is used, which is NULL if neither the program nor its libraries are linked with
 * libiofwd.  A dlsym that finds nothing would call malloc, perhaps before main (kept.h). */
extern void iofwd_of_fd(void) __attribute__((weak));

bool amph_ip_program_uses_api(void)
{
    return iofwd_of_fd != NULL;
}

const struct amph_fwd_interface *amph_ip_client_bind(const char **what_p, const char **why_p)
{
    char *why = amph_ip_client.why;
    size_t cap = sizeof amph_ip_client.why;
    void *library = open_library();

    if (!library) {
        *what_p = "libiofwd cannot be loaded";
        *why_p = libc_dlerror();
        return NULL;
    }

    const struct amph_fwd_interface *table = dlsym(library, "amph_fwd_interface");

    *what_p = "libiofwd and libiofwd_preload are of different builds, install both from one";
    *why_p = why;

    if (!table) {
        snprintf(why, cap, "libiofwd lacks amph_fwd_interface");
        return NULL;
    }

    return differs(table, why, cap) ? NULL : table;
}
