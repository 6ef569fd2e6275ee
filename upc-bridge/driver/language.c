/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See language.h.
 *
 * Layer: upc-bridge/driver.  Thread rule: one thread.
 */
#include "upc-bridge/driver/language.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "upc-bridge/driver/options.h"

/* The state of the scan. */
struct reader {
    const char *upc_include;
    bool system;      /* inside a header of the system or of UPC */
    bool upc, bridge; /* a word of UPC was found; upc_bridge.h is included */
    bool tag;         /* the last word was struct, union or enum */
};

static bool is_word(const char *const *words, const char *w, size_t n)
{
    for (; *words; words++)
        if (strlen(*words) == n && strncmp(*words, w, n) == 0)
            return true;

    return false;
}

/* # 12 "file" 1 3 */
static void line_marker(struct reader *r, const char *line, size_t n)
{
    const char *name = memchr(line, '"', n);
    const char *end = name ? memchr(name + 1, '"', (size_t)(line + n - name - 1)) : NULL;

    if (end == NULL)
        return;

    char *file = strndup(name + 1, (size_t)(end - name - 1));
    size_t dir = strlen(r->upc_include);

    if (file == NULL)
        return;

    r->system = memchr(end, '3', (size_t)(line + n - end)) != NULL;
    if (strncmp(file, r->upc_include, dir) == 0 && file[dir] == '/') {
        r->upc |= !upcc_ends_in(file, "/upcx.h");
        r->system = true;
    }

    r->bridge |= upcc_ends_in(file, "/upc_bridge.h");
    free(file);
}

/* Does text, which follows the word 'shared', occur there in UPC only?  A word, perhaps after [ ...
 * ]. */
static bool begins_declaration(const char *p, const char *end)
{
    int depth = 0;

    for (; p < end; p++) {
        if (*p == '[')
            depth++;
        else if (*p == ']')
            depth--;
        else if (depth == 0 && !isspace((unsigned char)*p))
            return isalpha((unsigned char)*p) || *p == '_';
    }

    return false;
}

/* Handles the word w of n characters. */
static void word(struct reader *r, const char *w, size_t n, const char *end)
{
    static const char *const upc_words[] = {
        "MYTHREAD",        "THREADS",        "upc_barrier", "upc_notify",
        "upc_wait",        "upc_fence",      "upc_forall",  "upc_blocksizeof",
        "upc_localsizeof", "upc_elemsizeof", NULL
    };
    static const char *const tags[] = { "struct", "union", "enum", NULL };
    static const char *const shared[] = { "shared", NULL };

    if (!r->system && is_word(upc_words, w, n))
        r->upc = true;

    if (!r->system && !r->tag && is_word(shared, w, n) && begins_declaration(w + n, end))
        r->upc = true;

    r->tag = is_word(tags, w, n);
}

static const char *quoted_end(const char *p, const char *end)
{
    char quote = *p;

    for (p++; p < end && *p != quote && *p != '\n'; p++)
        if (*p == '\\' && p + 1 < end)
            p++;

    return p < end ? p + 1 : end;
}

static void scan(struct reader *r, const char *p, const char *end)
{
    bool line_start = true;

    while (p < end && !r->upc) {
        if (*p == '\n') {
            line_start = true;
            p++;
        } else if (isspace((unsigned char)*p)) {
            p++;
        } else if (*p == '#' && line_start) {
            const char *e = memchr(p, '\n', (size_t)(end - p));

            e = e ? e : end;
            line_marker(r, p, (size_t)(e - p));
            p = e;
        } else if (*p == '"' || *p == '\'') {
            p = quoted_end(p, end);
            line_start = false;
        } else if (isalnum((unsigned char)*p) || *p == '_') {
            const char *w = p;

            while (p < end && (isalnum((unsigned char)*p) || *p == '_'))
                p++;

            word(r, w, (size_t)(p - w), end);
            line_start = false;
        } else {
            r->tag = false;
            p++;
            line_start = false;
        }
    }
}

static char *read_file(const char *file, size_t *len_p)
{
    FILE *f = fopen(file, "r");
    char *s = NULL;
    FILE *to = open_memstream(&s, len_p);

    if (f == NULL || to == NULL) {
        if (f)
            fclose(f);

        if (to)
            fclose(to);

        free(s);
        return NULL;
    }

    char part[65536];

    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        fwrite(part, 1, n, to);

    fclose(f);
    fclose(to);
    return s;
}

bool upcc_language_is_upc(const char *file, const char *upc_include)
{
    size_t len = 0;
    char *s = read_file(file, &len);
    struct reader r = { .upc_include = upc_include };

    if (s == NULL)
        return false;

    scan(&r, s, s + len);
    free(s);
    return r.upc && !r.bridge;
}
