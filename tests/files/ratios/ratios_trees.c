/* SPDX-License-Identifier: BSD-3-Clause */
/* Patterns of calls that list directories and walk trees. */
#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/files/ratios/ratios.h"

#define DIRECTORIES 20
#define FILES 20 /* in each */
#define NAMES (DIRECTORIES * FILES)
#define MANY 10000 /* names in a large directory */

static void make_tree(void)
{
    for (int d = 0; d < DIRECTORIES; d++) {
        must(mkdir(at("d%d", d), 0700) == 0, "mkdir");
        for (int f = 0; f < FILES; f++)
            make_file(at("d%d/f%d", d, f), 10);
    }
}

static int found;

static int count(const char *name, const struct stat *st, int type, struct FTW *ftw)
{
    found += type == FTW_F;
    return 0;
}

static void call_nftw(int worker, int i)
{
    found = 0;
    must(nftw(at("."), count, 16, FTW_PHYS) == 0 && found == NAMES, "nftw");
}

/* With the working directory in each directory. */
static void call_nftw_chdir(int worker, int i)
{
    found = 0;
    must(nftw(at("."), count, 16, FTW_PHYS | FTW_CHDIR) == 0 && found == NAMES, "nftw");
}

static void call_fts(int worker, int i)
{
    char *roots[] = { (char *)at("."), NULL };
    FTS *walk = fts_open(roots, FTS_PHYSICAL, NULL);

    must(walk != NULL, "fts_open");
    found = 0;
    for (FTSENT *e; (e = fts_read(walk)) != NULL;)
        found += e->fts_info == FTS_F;

    must(fts_close(walk) == 0 && found == NAMES, "fts");
}

static void call_glob(int worker, int i)
{
    glob_t g;

    must(glob(at("*/f*"), 0, NULL, &g) == 0 && g.gl_pathc == NAMES, "glob");
    globfree(&g);
}

/* As a program that lists a tree: each directory and the attributes of each name. */
static void call_walk(int worker, int i)
{
    struct stat st;

    for (int d = 0; d < DIRECTORIES; d++) {
        DIR *dir = opendir(at("d%d", d));

        must(dir != NULL, "opendir");
        for (struct dirent *e; (e = readdir(dir)) != NULL;)
            must(fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0, e->d_name);

        must(closedir(dir) == 0, "closedir");
    }
}

static void make_many(void)
{
    for (int i = 0; i < MANY; i++)
        make_file(at("name%05d", i), 0);
}

static void call_scandir(int worker, int i)
{
    struct dirent **list;
    int n = scandir(at("."), &list, NULL, alphasort);

    must(n == MANY + 2, "scandir");
    while (n > 0)
        free(list[--n]);

    free(list);
}

static void call_readdir(int worker, int i)
{
    DIR *dir = opendir(at("."));
    int n = 0;

    must(dir != NULL, "opendir");
    while (readdir(dir))
        n++;

    must(closedir(dir) == 0 && n == MANY + 2, "readdir");
}

const struct pattern patterns_trees[] = {
    /* clang-format off */
    { "nftw", make_tree, NULL, NULL, call_nftw, 5, .each = NAMES },
    { "nftw_chdir", make_tree, NULL, NULL, call_nftw_chdir, 5, .each = NAMES },
    { "fts", make_tree, NULL, NULL, call_fts, 5, .each = NAMES },
    { "glob", make_tree, NULL, NULL, call_glob, 5, .each = NAMES },
    { "readdir+fstatat", make_tree, NULL, NULL, call_walk, 5, .each = NAMES },
    { "scandir_10000", make_many, NULL, NULL, call_scandir, 3, .each = MANY },
    { "readdir_10000", make_many, NULL, NULL, call_readdir, 3, .each = MANY },
    { NULL },
    /* clang-format on */
};
