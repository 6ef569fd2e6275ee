/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the exports to processes that can read them without the servers; see wire/near.h.
 *
 * Layer: iofwd.
 * Thread rule: the process that watches over the servers.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/platform.h"
#include "base/settings/env.h"
#include "iofwd/server/fs/exports.h"
#include "iofwd/server/near.h"
#include "iofwd/wire/near.h"
#include "iofwd/wire/versions.h"

static bool print_place(FILE *out, const struct stat *st)
{
    return fprintf(out, FWD_NEAR_PLACE, (uint64_t)st->st_dev, (uint64_t)st->st_ino) > 0;
}

/* Prints which host, which view of its files and which user this process has. */
static bool print_here(FILE *out)
{
    static const char *const objects[] = FWD_NEAR_OBJECTS;
    char boot[FWD_NEAR_BOOT_ID_BYTES] = "";
    FILE *f = fopen(FWD_NEAR_BOOT_ID, "re");
    bool ok = f && fscanf(f, "%39s", boot) == 1 && fprintf(out, FWD_NEAR_HERE, boot) > 0;
    struct stat st;

    if (f)
        fclose(f);

    for (size_t i = 0; i < AMPH_COUNTOF(objects) && ok; i++)
        ok = stat(objects[i], &st) == 0 && print_place(out, &st);

    return ok && fprintf(out, " %" PRIu32 "\n", (uint32_t)geteuid()) > 0;
}

static void print_export(FILE *out, const struct amph_server_export *e)
{
    struct stat st;

    if (!e->outer && !strchr(e->dir, '\n') && !strchr(e->name, '\n') && fstat(e->fd, &st) == 0)
        fprintf(out, FWD_NEAR_EXPORT, (uint64_t)st.st_dev, (uint64_t)st.st_ino,
                e->readonly ? FWD_NEAR_READONLY : FWD_NEAR_WRITABLE, e->name, e->dir);
}

char *amph_server_near_print(const char *spec)
{
    struct amph_server_exports exports;
    char *text = NULL;
    size_t len;

    if (!amph_env_bool(AMPH_ENV_IOFWD_PASSTHROUGH) || amph_env_bool(AMPH_ENV_IOFWD_DIRECT) ||
        amph_server_exports_open(spec, &exports) != AMPH_OK)
        return NULL;

    (void)amph_server_exports_protect(&exports, amph_env_str(AMPH_ENV_IOFWD_READONLY));

    FILE *out = open_memstream(&text, &len);
    bool ok = out && print_here(out) &&
              fprintf(out, FWD_NEAR_VERSIONS, amph_fwd_versions_id()) > 0;

    for (size_t i = 0; i < exports.n && ok; i++)
        print_export(out, &exports.item[i]);

    if (out && (fclose(out) != 0 || !ok)) {
        free(text);
        text = NULL;
    }

    amph_server_exports_close(&exports);
    return text;
}
