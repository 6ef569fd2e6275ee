/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See place.h.
 *
 * Layer: upc-bridge/driver.  Thread rule: one thread.
 */
#include "upc-bridge/driver/place.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/program/install.h"

char *upcc_text(const char *fmt, ...)
{
    char *s;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0) {
        fputs("amphora-upcc: out of memory\n", stderr);
        exit(2);
    }

    va_end(ap);
    return s;
}

bool upcc_is_file(const char *path)
{
    return access(path, R_OK) == 0;
}

/* Returns the source tree of a build tree, from its Makefile. */
static char *source_of(const char *build)
{
    char *makefile = upcc_text("%s/Makefile", build);
    char *found = NULL;
    FILE *f = fopen(makefile, "r");
    char line[4096];

    while (f && !found && fgets(line, sizeof line, f))
        if (strncmp(line, "abs_top_srcdir = ", 17) == 0) {
            line[strcspn(line, "\n")] = 0;
            found = upcc_text("%s", line + 17);
        }

    if (f)
        fclose(f);

    free(makefile);
    return found;
}

bool upcc_place_find(struct place *p, const char *self)
{
    char *bin = amph_install_bin();

    if (!bin) {
        fprintf(stderr, "%s: /proc/self/exe cannot be read\n", self);
        return false;
    }

    char *la = upcc_text("%s/libamphora-upc.la", bin);
    char *source = upcc_is_file(la) ? source_of(bin) : NULL;

    free(la);
    p->bin = bin;

    if (source) {
        p->lib = upcc_text("%s/.libs", bin);
        p->include = upcc_text("%s/include", source);
        p->upc_include = upcc_text("%s/upc-bridge/include", source);
        return true;
    }

    p->lib = upcc_text("%s", amph_install_moved(AMPH_LIBDIR, bin));
    p->include = upcc_text("%s", amph_install_moved(AMPH_INCLUDEDIR, bin));
    p->upc_include = upcc_text("%s/amphora-upc", p->include);

    char *header = upcc_text("%s/upcx.h", p->upc_include);
    bool ok = upcc_is_file(header);

    if (!ok)
        fprintf(stderr, "%s: %s is missing; is Amphora installed completely?\n", self, header);

    free(header);
    return ok;
}

const char *upcc_option_value(int argc, char **argv, int *i, const char *name)
{
    const char *a = argv[*i];
    size_t n = strlen(name);

    if (*a++ != '-')
        return NULL;

    if (*a == '-')
        a++;

    if (strncmp(a, name, n) != 0 || (a[n] && a[n] != '='))
        return NULL;
    if (a[n] == '=')
        return a + n + 1;

    if (*i + 1 >= argc) {
        fprintf(stderr, "%s: option -%s needs a value\n", argv[0], name);
        exit(2);
    }

    return argv[++*i];
}
