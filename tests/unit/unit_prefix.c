/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of iofwd/prefix: which paths are forwarded, and in what form. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/platform.h"
#include "iofwd/wire/prefix.h"

static struct amph_fwd_prefixes set;

static void given(const char *spec)
{
    const char *why = NULL;
    cr_assert(amph_fwd_prefix_parse(&set, spec, &why), "%s: %s", spec, why);
}

Test(prefix, list_is_parsed)
{
    given("/a:/b=/srv/b::/c//d/./e/=/x=y:/f/../g");
    cr_assert_eq(set.count, 4);
    cr_assert_str_eq(set.item[0].path, "/a");
    cr_assert_str_eq(set.item[1].path, "/b");
    cr_assert_str_eq(set.item[2].path, "/c/d/e");
    cr_assert_str_eq(set.item[3].path, "/g");
    cr_assert_eq(set.item[2].len_bytes, 6);
    given("");
    cr_assert_eq(set.count, 0);
}

Test(prefix, bad_lists_are_refused_with_a_reason)
{
    static const char *const bad[] = {
        "a",        "/a:b",  "/",
        "/a/..=/x", "=/srv", "/1:/2:/3:/4:/5:/6:/7:/8:/9:/10:/11:/12:/13:/14:/15:/16:/17"
    };

    for (size_t i = 0; i < AMPH_COUNTOF(bad); i++) {
        const char *why = NULL;

        cr_assert(!amph_fwd_prefix_parse(&set, bad[i], &why), "%s", bad[i]);
        cr_assert_not_null(why);
    }
}

Test(prefix, match_is_by_whole_names)
{
    given("/fwd:/data/run");
    cr_assert_eq(amph_fwd_prefix_match(&set, "/fwd"), &set.item[0]);
    cr_assert_eq(amph_fwd_prefix_match(&set, "/fwd/"), &set.item[0]);
    cr_assert_eq(amph_fwd_prefix_match(&set, "/fwd/x/y"), &set.item[0]);
    cr_assert_eq(amph_fwd_prefix_match(&set, "/data/run/x"), &set.item[1]);
    cr_assert_null(amph_fwd_prefix_match(&set, "/fwdx"));
    cr_assert_null(amph_fwd_prefix_match(&set, "/fw"));
    cr_assert_null(amph_fwd_prefix_match(&set, "/data"));
    cr_assert_null(amph_fwd_prefix_match(&set, "/"));
}

/* base, path, result, in a prefix?, left one? */
struct row {
    const char *base, *path, *want;
    bool inside, left;
};

/* clang-format off */
static const struct row rows[] = {
    { NULL, "/fwd", "/fwd", true, false },
    { NULL, "/fwd/", "/fwd/", true, false },
    { NULL, "//fwd///a/./b", "/fwd/a/b", true, false },
    { NULL, "/fwd/a/.", "/fwd/a/.", true, false },
    { NULL, "/tmp/../fwd/a", "/fwd/a", true, false },
    { NULL, "/fwd/a/../b", "/fwd/a/../b", true, false }, /* a may be a link: the server resolves */
    { NULL, "/fwd/a/../../etc", "/etc", false, true },
    { NULL, "/fwd/..", "/", false, true },
    { NULL, "/fwd/../fwd/x", "/fwd/x", true, true },
    { NULL, "/fwd/a/../..//fwd", "/fwd", true, true },
    { NULL, "/data/run/../x", "/data/x", false, true },
    { NULL, "/data/../../..", "/", false, false },
    { NULL, "/fwdx/a", "/fwdx/a", false, false },
    { "/fwd/d", "x", "/fwd/d/x", true, false },
    { "/fwd/d", "../x", "/fwd/d/../x", true, false },
    { "/fwd/d", "../../x", "/x", false, true },
    { "/fwd/d", "/etc", "/etc", false, false },
    { "/home/me", "../../fwd/x", "/fwd/x", true, false },
    { "/data", "run/x", "/data/run/x", true, false },
    { "/", "fwd", "/fwd", true, false },
    { "/", "..", "/", false, false },
    { "/fwd", ".", "/fwd/.", true, false },
};
/* clang-format on */

Test(prefix, paths_are_cleaned)
{
    given("/fwd:/data/run");
    for (size_t i = 0; i < AMPH_COUNTOF(rows); i++) {
        char out[PATH_MAX];
        struct amph_fwd_clean clean;
        const struct row *r = &rows[i];

        cr_assert_eq(amph_fwd_path_clean(&set, r->base, r->path, out, sizeof out, &clean), 0);
        cr_expect_str_eq(out, r->want, "%s + %s: %s", r->base, r->path, out);
        cr_expect_eq(clean.prefix != NULL, r->inside, "%s", r->path);
        cr_expect_eq(clean.left, r->left, "%s", r->path);
    }
}

Test(prefix, long_and_empty_paths_are_errors)
{
    char path[300], out[64];
    struct amph_fwd_clean clean;

    given("/fwd");
    memset(path, 'a', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = 0;
    cr_assert_eq(amph_fwd_path_clean(&set, NULL, path, out, sizeof out, &clean), ENAMETOOLONG);
    cr_assert_eq(amph_fwd_path_clean(&set, "/x", "", out, sizeof out, &clean), ENOENT);

    /* every length up to the limit: never a byte behind the buffer */
    for (size_t cap = 4; cap < 40; cap++) {
        char small[64];

        memset(small, 0x55, sizeof small);
        amph_fwd_path_clean(&set, NULL, "/fwd/aaaa/bbbb/../cc/", small, cap, &clean);
        for (size_t i = cap; i < sizeof small; i++)
            cr_assert_eq(small[i], 0x55);
    }
}

Test(prefix, relative_paths_that_may_enter)
{
    given("/fwd:/data/run");
    cr_assert(amph_fwd_prefix_may_enter(&set, "fwd"));
    cr_assert(amph_fwd_prefix_may_enter(&set, "run/x"));
    cr_assert(amph_fwd_prefix_may_enter(&set, "data"));
    cr_assert(amph_fwd_prefix_may_enter(&set, "../x"));
    cr_assert(amph_fwd_prefix_may_enter(&set, "."));
    cr_assert(!amph_fwd_prefix_may_enter(&set, "fwdx"));
    cr_assert(!amph_fwd_prefix_may_enter(&set, "src/fwd"));
    cr_assert(!amph_fwd_prefix_may_enter(&set, "x"));
}
