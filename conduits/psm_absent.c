/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps Intel's PSM libraries out of a process on a machine without their devices.
 * Layer: conduits.  Thread rule: called once, before libfabric is loaded (registry.c).
 *
 * Debian's libfabric depends on libpsm_infinipath and libpsm2.  Their constructors sleep 0.1 s each if
 * the machine lacks the device, and libinfinipath installs signal handlers.  The loader takes a library
 * that is loaded already for every dependency of the same soname, so two stand-ins that carry these
 * sonames (conduits/psm/) are loaded first.  libfabric lists the same providers with them.
 */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/settings/env.h"
#include "base/platform.h"
#include "conduits/psm_absent.h"

/* clang-format off */
static const struct {
    const char *soname;
    const char *stand_in;   /* its file, beside the module */
    const char *device;     /* the start of its devices' names in /dev */
    const char *provider;   /* libfabric's name for it */
} libraries[] = {
    { "libpsm_infinipath.so.1", "amphora_no_psm.so",  "ipath", "psm" },
    { "libpsm2.so.2",           "amphora_no_psm2.so", "hfi1",  "psm2" },
};
/* clang-format on */

static bool device_exists(const char *prefix)
{
    DIR *dev = opendir("/dev");
    bool found = !dev; /* unknown: do not interfere */

    for (struct dirent *e = dev ? readdir(dev) : NULL; e && !found; e = readdir(dev))
        found = strncmp(e->d_name, prefix, strlen(prefix)) == 0;

    if (dev)
        closedir(dev);

    return found;
}

/* PSM2 also works without a device, within one host.  Whoever names its provider in libfabric's list of
 * providers wants the library itself. */
static bool named_by_user(const char *provider)
{
    const char *list = amph_env_foreign("FI_PROVIDER");
    size_t len = strlen(provider);

    if (!list || list[0] == '^')
        return false;

    for (const char *at = list; (at = strstr(at, provider)) != NULL; at += len)
        if ((at == list || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[len]))
            return true;

    return false;
}

void amph_conduit_skip_psm(const char *dir, const char *sub)
{
    for (size_t i = 0; i < AMPH_COUNTOF(libraries); i++) {
        char path[4096];

        if (dlopen(libraries[i].soname, RTLD_NOLOAD | RTLD_LAZY))
            continue;

        if (device_exists(libraries[i].device) || named_by_user(libraries[i].provider))
            continue;

        int len = snprintf(path, sizeof path, "%s%s/%s", dir, sub, libraries[i].stand_in);

        if (len < (int)sizeof path)
            dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
}
