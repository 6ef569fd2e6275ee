/* SPDX-License-Identifier: BSD-3-Clause */
/* The client in a library of its own, loaded at the first call that is forwarded.  Layer: iofwd
 * (preload).  Thread rule: see core.h. */
#include <dlfcn.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/client.h"
#include "iofwd/calls/names.h"

static const struct {
    const char *name;
    size_t at;
} imports[] = {
#define AMPH_IP_CORE_IMPORT(n) { "amph_fwd_" #n, offsetof(struct amph_ip_client, n) },
    AMPH_IP_CORE_CALLS(AMPH_IP_CORE_IMPORT) AMPH_IP_CORE_EXTRAS(AMPH_IP_CORE_IMPORT)
#undef AMPH_IP_CORE_IMPORT
};

/* libiofwd lies beside the preload library (build tree) or one folder up (installed:
 * $libdir/amphora). */
static void *open_library(void)
{
    static const char *const places[] = { "", "../" };
    char path[PATH_MAX];
    Dl_info self;
    const char *slash = dladdr(&amph_ip_client, &self) && self.dli_fname
                            ? strrchr(self.dli_fname, '/')
                            : NULL;

    for (size_t i = 0; slash && i < AMPH_COUNTOF(places); i++) {
        snprintf(path, sizeof path, "%.*s/%slibiofwd.so.0", (int)(slash - self.dli_fname),
                 self.dli_fname, places[i]);
        if (libc_access(path, R_OK) == 0)
            return dlopen(path, RTLD_LAZY);
    }

    return dlopen("libiofwd.so.0", RTLD_LAZY);
}

const bool amph_ip_core_linked = false;

bool amph_ip_client_bind(const char **what_p, const char **why_p)
{
    void *library = open_library();

    if (!library) {
        *what_p = "libiofwd cannot be loaded";
        *why_p = dlerror();
        return false;
    }

    for (size_t i = 0; i < AMPH_COUNTOF(imports); i++) {
        void *symbol = dlsym(library, imports[i].name);

        if (!symbol) {
            *what_p = "libiofwd is of another version, it lacks";
            *why_p = imports[i].name;
            return false;
        }

        memcpy((char *)&amph_ip_client + imports[i].at, &symbol, sizeof symbol);
    }

    return true;
}
