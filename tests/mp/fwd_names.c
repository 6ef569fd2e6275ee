/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_names SECTION DIRECTORY SCRATCH: the ways there are to name a file.  Prints what each call gave; fwd_names.sh runs it in a local
 * directory and in a forwarded one and compares.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fwd_say.h"

static const char *scratch, *self;

static int make(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    return fd < 0 ? fd : close(fd);
}

/* Runs another image of this program, which has inherited descriptors only, and says how it ended. */
static void run(const char *section)
{
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        execl(self, self, section, dir, scratch, (char *)NULL);
        _exit(9);
    }
    waitpid(pid, &status, 0);
    printf("%s ended with %d\n", section, status);
    fflush(stdout);
}

/* ---- two names, of which one starts at a directory that another process has opened ---- */

#define INHERITED 20 /* the directory "held", which is also the working directory */
#define NAMELESS 21  /* a file that never had a name */
#define REMOVED 22   /* a directory that is gone */

static bool same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_ino == y.st_ino;
}

static void pairs_here(void)
{
    int own = open(in("own"), O_RDONLY | O_DIRECTORY);
    T(make(in("a")));
    T(rename(in("a"), "b"));
    T(rename("b", in("own/b")));
    T(renameat(own, "b", INHERITED, "c"));
    T(renameat(INHERITED, "c", own, "d"));
    T(renameat2(own, "d", INHERITED, "new", RENAME_NOREPLACE));
    T(make(in("own/other")));
    T(renameat2(INHERITED, "new", own, "other", RENAME_EXCHANGE));
    T(renameat2(INHERITED, "new", own, "other", RENAME_NOREPLACE));
    T(linkat(own, "other", INHERITED, "hard", 0));
    T(linkat(INHERITED, "new", own, "hard", 0));
    T(same(in("own/other"), "hard"));
    T(same("new", in("own/hard")));
    T(link("hard", in("own/third")));
    T(rename(in("nothing"), "x"));
    T(renameat(INHERITED, "nothing", own, "x"));
    T(renameat(own, "other", INHERITED, "nothing/x"));
    T(renameat(own, "other", INHERITED, "hard/x"));
    T(renameat(own, "other", NAMELESS, "x"));
    T(renameat(own, "other", REMOVED, "x"));
    T(linkat(own, "other", REMOVED, "x", 0));
    T(linkat(NAMELESS, "", own, "named", AT_EMPTY_PATH) == 0 || errno == ENOENT); /* Linux wants a capability for this one */
    T(linkat(AT_FDCWD, "/proc/self/fd/21", own, "by-number", AT_SYMLINK_FOLLOW));
    int nameless = open(in("own"), O_TMPFILE | O_RDWR, 0600);
    char number[40];
    snprintf(number, sizeof number, "/proc/self/fd/%d", nameless);
    T(linkat(AT_FDCWD, number, INHERITED, "mine", AT_SYMLINK_FOLLOW));
    T(write(nameless, "mine", 4));
    T(rename(in("own"), "moved")); /* own is one place, its name another */
    T(renameat(INHERITED, "mine", own, "mine"));
    T(access("moved/mine", F_OK));
    T(rename("moved", in("own")));
    T(fchdir(own));
    T(rename("mine", in("held/mine")));
    T(renameat(INHERITED, "mine", AT_FDCWD, "last"));
    T(fchdir(INHERITED));
    T(rename(in("own/last"), "end"));
    close(own);
    if (system("rm -f * ../own/*") != 0)
        exit(1);
    const char *deep = getenv("FWD_DEEP"); /* each image that lives has a server of its own in turn */
    if (!deep || strlen(deep) < 3) {
        setenv("FWD_DEEP", !deep ? "1" : deep[1] ? "123" : "12", 1);
        run("pairs-here");
    }
}

static void pairs(void)
{
    T(mkdir(in("own"), 0755));
    T(mkdir(in("held"), 0755));
    T(mkdir(in("gone"), 0755));
    int held = open(in("held"), O_RDONLY | O_DIRECTORY), gone = open(in("gone"), O_PATH);
    int nameless = open(dir, O_TMPFILE | O_RDWR, 0600);
    T(dup2(held, INHERITED));
    T(dup2(nameless, NAMELESS));
    T(dup2(gone, REMOVED));
    T(write(nameless, "nameless", 8));
    T(rmdir(in("gone")));
    T(chdir(in("held")));
    run("pairs-here");
    T(rename(in("held"), in("elsewhere"))); /* what is open stays, by whatever name */
    T(make(in("a")));
    T(renameat(AT_FDCWD, in("a"), held, "a"));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } sections[] = {
        { "pairs", pairs }, { "pairs-here", pairs_here },
    };
    if (argc != 4)
        return 2;
    self = argv[0];
    dir = argv[2];
    scratch = argv[3];
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++)
        if (strcmp(argv[1], sections[i].name) == 0)
            sections[i].run();
    return 0;
}
