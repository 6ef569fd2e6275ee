#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Shared libraries in a forwarded prefix: programs find there what they need as they would in a local directory, by $ORIGIN, by other
# RPATHs, by a path, by LD_LIBRARY_PATH; so does what dlopen brings in.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

cat >"$mp_dir/commands" <<'X'
D=$1 T=$2
set -e
export LC_ALL=C
unset LD_LIBRARY_PATH MAKEFLAGS
cd "$D"
mkdir lib deep plug
# a library without a name of its own, one with a name that needs it, one with versions, and plug-ins with state that need others
echo 'int deepest(void) { return 7; }' >deepest.c
printf 'int deepest(void);\nint middle(void) { return deepest() + 10; }\n' >middle.c
echo 'int versioned(void) { return 100; }' >versioned.c
printf 'V_1 { global: versioned; local: *; };\n' >versions
printf 'int middle(void);\nstatic int n;\nint count(void) { return ++n + middle(); }\n' >one.c
printf 'static int n = 1000;\nint count(void) { return ++n; }\n' >two.c
cat >prog.c <<'Y'
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int middle(void);
int versioned(void);
int main(void)
{
    char link[64], name[4096];
    int fds = 0, libs = 0;
    for (char **e = environ; *e; e++)
        libs += strncmp(*e, "IOFWD_PRIVATE_LIBS", 18) == 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        snprintf(link, sizeof link, "/proc/self/fd/%s", e->d_name);
        ssize_t n = readlink(link, name, sizeof name);
        fds += n > 8 && memcmp(name, "/memfd:/", 8) == 0; /* a copy is called by its path */
    }
    printf("%d %d, %d settings, %d copies held, %s\n", middle(), versioned(), libs, fds, getenv("LD_LIBRARY_PATH"));
    name[readlink("/proc/self/exe", name, sizeof name - 1)] = 0;
    printf("%s %s", name, realpath("/proc/self/exe", NULL));
    FILE *f = fopen("/proc/self/comm", "r");
    printf(" %s", fgets(name, sizeof name, f));
    fclose(f);
    f = fopen("/proc/self/exe", "r");
    printf("%d %d\n", access("/proc/self/exe", X_OK), f ? fgetc(f) : -1);
    return 0;
}
Y
cat >load.c <<'Y'
#include <dlfcn.h>
#include <stdio.h>
static int count(void *lib)
{
    int (*fn)(void) = lib ? (int (*)(void))dlsym(lib, "count") : NULL;
    return fn ? fn() : -1;
}
int main(int argc, char **argv)
{
    void *first = NULL;
    for (int i = 1; i < argc; i++) {
        void *lib = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL), *again = dlopen(argv[i], RTLD_NOW | RTLD_NOLOAD);
        if (!lib)
            printf("%s\n", dlerror() ? "not found" : "?");
        first = first ? first : lib;
        printf("%d %d %s %s\n", count(lib), count(again), lib == again ? "same" : "other", lib == first ? "first" : "not first");
        if (again)
            dlclose(again);
    }
    dlclose(first);
    printf("%s\n", dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) ? "still loaded" : "unloaded");
    return 0;
}
Y
cc="gcc -O1 -fPIC"
$cc -shared -o deep/libdeepest.so deepest.c
$cc -shared -o lib/libmiddle.so.1 -Wl,-soname,libmiddle.so.1 middle.c -Ldeep -ldeepest -Wl,-rpath,'$ORIGIN/../deep'
ln -s libmiddle.so.1 lib/libmiddle.so
$cc -shared -o lib/libversioned.so -Wl,--version-script,versions versioned.c
$cc -o origin prog.c -Llib -lmiddle -lversioned -Wl,-rpath,'${ORIGIN}/lib'
$cc -o absolute prog.c -Llib -lmiddle -lversioned -Wl,-rpath,"/nowhere:$D/lib" -Wl,--disable-new-dtags
$cc -o bypath prog.c ./lib/libmiddle.so.1 lib/libversioned.so -Wl,-rpath-link,deep -Wl,-rpath,'$ORIGIN/lib'
$cc -o plain prog.c -Llib -lmiddle -lversioned -Wl,-rpath-link,deep
$cc -shared -o plug/one.so one.c "../${D##*/}/lib/libmiddle.so" -Wl,-rpath,'$ORIGIN/../lib'
$cc -shared -o plug/two.so two.c
$cc -o load load.c
$cc -o "$T/near" load.c -Wl,-rpath,'$ORIGIN'
cp load plain plug/two.so "$T"
./origin; ./absolute; ./bypath; "$D/origin"; (cd deep && ../origin); ln -s ../origin lib/link; lib/link
./plain 2>/dev/null || echo "not found: $?"
LD_LIBRARY_PATH=lib ./plain
LD_LIBRARY_PATH=/nowhere:$D/lib "$T/plain"
cd /
LD_LIBRARY_PATH=$D/lib sh -c '"$0/plain"; "$0/plain" | cat' "$T"
cd "$D"
for load in ./load "$T/load"; do
    $load plug/one.so plug/two.so plug/one.so "$D/plug/two.so" ./nothing.so
    LD_LIBRARY_PATH=$D/plug $load two.so one.so two.so libc.so.6
done
"$T/near" two.so
rm -r lib && ./origin 2>/dev/null || echo "not found: $?"
cd / && rm -r "$D"/*
echo left >"$D/left"
X
fwd_both "libraries" sh "$mp_dir/commands"

# Functions that a program looks up in the handle of a library (Python's ctypes, Java's JNA and FFM): those of forwarded files, if they are
# the C library's.  What the linker searches from the caller on, it finds as without us, and dlerror says nothing after a success.
cat >"$mp_dir/commands" <<'X'
D=$1
set -e
cd "$D"
cat >looks.c <<'Y'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    void *handle = dlopen(argv[1], argv[2] ? RTLD_LAZY | RTLD_NOLOAD : RTLD_NOW);
    if (!handle) {
        printf("%s: not found\n", argv[1]);
        return 1;
    }
    int (*own_open)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(handle, "open");
    int (*own_fallocate)(int, off_t, off_t) = (int (*)(int, off_t, off_t))dlsym(handle, "posix_fallocate");
    int (*own_rename)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(handle, "rename");
    ssize_t (*own_write)(int, const void *, size_t) = (ssize_t(*)(int, const void *, size_t))dlsym(handle, "write");
    int fd = own_open("by_name", O_RDWR | O_CREAT, 0600);
    printf("%d %zd", own_fallocate(fd, 0, 5000), own_write(fd, "text", 4));
    printf(" %d %d", own_rename("by_name", "renamed"), close(fd));
    printf(" %s %s", dlsym(handle, "qsort") == dlsym(RTLD_DEFAULT, "qsort") ? "same" : "other", dlerror() ? "error" : "fine");
    printf(" %s", dlsym(handle, "no_such_function") ? "found" : "not found");
    printf(" %s %d\n", dlerror() ? "error" : "fine", dlclose(handle));
    return 0;
}
Y
gcc -O1 -o looks looks.c
for how in libc.so.6 "$(ldd /bin/sh | awk '/libc.so.6/ { print $3 }')" "libc.so.6 loaded" libm.so.6 libpthread.so.0; do
    ./looks $how
    stat -c '%n %s' renamed
    rm renamed
done
for name in one two; do
    printf '#define _GNU_SOURCE\n#include <dlfcn.h>\nconst char *which(void) { return "%s"; }\nvoid *next_of_%s(void) { return dlsym(RTLD_NEXT, "which"); }\n' \
        $name $name >$name.c
    gcc -shared -fPIC -O1 -o lib$name.so $name.c
done
cat >next.c <<'Y'
#include <stdio.h>
void *next_of_one(void), *next_of_two(void);
int main(void)
{
    const char *(*next)(void) = (const char *(*)(void))next_of_one();
    printf("%s %s\n", next ? next() : "none", next_of_two() ? "one more" : "none");
    return 0;
}
Y
gcc -O1 -o next next.c -L. -lone -ltwo
LD_LIBRARY_PATH=$D ./next
cat >by_name.py <<'Y'
import ctypes, ctypes.util, os
libc = ctypes.CDLL(ctypes.util.find_library("c"))
f = open("from_python", "w+")
print(libc.posix_fallocate(f.fileno(), ctypes.c_long(0), ctypes.c_long(3000)), os.fstat(f.fileno()).st_size)
print(libc.link(b"from_python", b"linked"), os.stat("linked").st_nlink, libc.access(b"nothing", 0))
Y
python3 by_name.py
X
fwd_both "functions that are looked up in libraries" sh "$mp_dir/commands"

# A library that is loaded with RTLD_DEEPBIND (PHP's extensions) finds the C library's functions before those of the program and of preloaded
# libraries; one whose name has no slash is searched by the run path of who loads it.
cat >"$mp_dir/commands" <<'X'
D=$1
set -e
L=$(mktemp -d)
cd "$D"
cat >deep.c <<'Y'
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
int deep(const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT, 0600);
    return (int)write(fd, "deep\n", 5) + 10 * close(fd) + 100 * mkdir("made", 0700);
}
Y
cat >loads.c <<'Y'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    int (*deep)(const char *) = library ? (int (*)(const char *))dlsym(library, "deep") : NULL;
    printf("%d\n", deep ? deep(argv[2]) : -1);
    return 0;
}
Y
gcc -shared -fPIC -O1 -o "$L/deep.so" deep.c
gcc -O1 -o "$L/loads" loads.c -Wl,-rpath,"$L"
cp "$L/deep.so" forwarded.so
for library in deep.so "$L/deep.so" ./forwarded.so "$D/forwarded.so"; do
    "$L/loads" "$library" "$D/written"
    cat written
    rm written
    rmdir made
done
rm -r "$L" forwarded.so
X
fwd_both "libraries that are bound deeply" sh "$mp_dir/commands"

# A library in a name space of its own is loaded, also a forwarded one, and a sentence says that its calls are not forwarded.
cat >"$mp_dir/apart.c" <<'Y'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *base = dlmopen(LM_ID_BASE, argv[1], RTLD_NOW);
    void *apart = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
    int (*seven)(void) = apart ? (int (*)(void))dlsym(apart, "seven") : NULL;
    printf("%d %d\n", base != NULL, seven ? seven() : -1);
    return 0;
}
Y
mkdir -p "$mp_dir/kept"
echo 'int seven(void) { return 7; }' >"$mp_dir/seven.c"
{
    gcc -shared -fPIC -o "$mp_dir/kept/seven.so" "$mp_dir/seven.c" && gcc -o "$mp_dir/apart" "$mp_dir/apart.c" &&
        fwd_servers "$mp_dir/kept" "$mp_dir/apart" /fwd/seven.so
} >"$mp_dir/out" 2>&1
grep -q '^1 7$' "$mp_dir/out" && grep -q 'amphora: warning: dlmopen has loaded /fwd/seven.so' "$mp_dir/out"
mp_report $? "a library in a name space of its own" "$mp_dir/out"

# dlerror's text outlives what the preload library does with the dynamic linker: it looks up each function of the C library where the
# program first needs it, and loads the client at the first forwarded call.
cat >"$mp_dir/commands" <<'X'
D=$1
set -e
export LC_ALL=C
cd "$D"
cat >error.c <<'Y'
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    const char *text = "";
    void *lib = strcmp(argv[1], "symbol") ? dlopen("./nothing.so", RTLD_NOW) : dlsym(RTLD_DEFAULT, "nothing");
    if (!strcmp(argv[1], "cleared"))
        lib = dlopen("libc.so.6", RTLD_NOW);
    if (!strcmp(argv[1], "asked") || !strcmp(argv[1], "symbol"))
        text = dlerror();
    if (argc > 2)
        access(argv[2], R_OK);
    if (!*text)
        text = dlerror();
    fprintf(stderr, "%s: ", argv[1]);
    printf("%s\n", text ? text : "no error");
    printf("%s\n", dlerror() ? "another error" : "no other");
    return 0;
}
Y
gcc -O1 -o error error.c
for file in "" "$D/error" /etc/passwd; do
    for way in asked open symbol cleared; do
        ./error $way $file 2>e
        ./error $way $file >o 2>&1
        cat o
    done
done
rm error error.c e o
X
fwd_both "the dynamic linker's errors" sh "$mp_dir/commands"

# LD_PRELOAD names forwarded libraries by paths, and by names for LD_LIBRARY_PATH; what is started hears of the list as it was told.
cat >"$mp_dir/commands" <<'X'
D=$1 T=$2
set -e
export LC_ALL=C
unset LD_LIBRARY_PATH MAKEFLAGS
ours=${LD_PRELOAD:+$LD_PRELOAD:}
cd "$D"
echo 'const char *deeper(void) { return "from below"; }' >deeper.c
printf '#include <string.h>\nconst char *deeper(void);\nint getdomainname(char *b, size_t n) { strncpy(b, deeper(), n); return 0; }\n' >one.c
printf '#include <unistd.h>\nstatic void __attribute__((constructor)) here(void) { write(1, "two\\n", 4); }\n' >two.c
cat >prog.c <<'Y'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv)
{
    char name[100] = "";
    int told = 0;
    const char *list = getenv("LD_PRELOAD"), *own = list ? strstr(list, argv[1]) : NULL;
    for (char **e = environ; *e; e++)
        told += strncmp(*e, "IOFWD_PRIVATE_L", 15) == 0;
    getdomainname(name, sizeof name);
    printf("%s, %d settings, %s\n", strcmp(name, "from below") ? "not loaded" : name, told, own ? own : "?");
    fflush(stdout);
    return argc > 2 ? execvp(argv[2], argv + 2) : 0;
}
Y
cc="gcc -O1 -fPIC"
$cc -shared -o libdeeper.so deeper.c
$cc -shared -o one.so one.c -L. -ldeeper -Wl,-rpath,'$ORIGIN'
$cc -shared -o libtwo.so two.c
$cc -o prog prog.c
cp prog "$T"
for prog in ./prog "$D/prog" "$T/prog"; do
    LD_PRELOAD=$ours$D/one.so $prog /one
    LD_PRELOAD=$ours./one.so $prog ./one
    LD_PRELOAD="$ours$D/libtwo.so $D/one.so" $prog "$D/libtwo"
    LD_LIBRARY_PATH=$D LD_PRELOAD=${ours}libtwo.so:./one.so $prog libtwo
    env LD_PRELOAD="$D/one.so" $prog "$D/one" $prog "$D/one"
    LD_PRELOAD=$ours$D/one.so $prog /one sh -c '"$0" /one; LD_PRELOAD= "$0" none' $prog
done
cd /
PATH=$T:$PATH LD_PRELOAD=$ours$D/libtwo.so:$D/one.so env prog /one nice -n 0 prog /one
if command -v python3 >/dev/null; then
    python3 -c 'import os, sys
env = dict(os.environ, LD_PRELOAD=sys.argv[1] + ":" + sys.argv[3])
for start in os.posix_spawn, os.posix_spawnp:
    os.waitpid(start(sys.argv[2], ["prog", "/one"], env), 0)' "${ours%:}" "$T/prog" "$D/one.so"
fi
LD_PRELOAD=$ours$D/none.so:$D/one.so "$T/prog" /one 2>&1

# Functions of another preloaded library (libfaketime's) are not called before main: there is no environment yet.
cd "$D"
cat >early.c <<'Y'
#define _GNU_SOURCE
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long call(long number, long a, long b, long c)
{
    if (!environ)
        syscall(SYS_write, 1, "early\n", 6);
    return syscall(number, a, b, c);
}
pid_t getpid(void) { return call(SYS_getpid, 0, 0, 0); }
int clock_gettime(clockid_t clock, struct timespec *now) { return call(SYS_clock_gettime, clock, (long)now, 0); }
time_t time(time_t *now)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return now ? *now = t.tv_sec : t.tv_sec;
}
int nanosleep(const struct timespec *span, struct timespec *rest) { return call(SYS_nanosleep, (long)span, (long)rest, 0); }
int poll(struct pollfd *p, nfds_t n, int ms) { return call(SYS_poll, (long)p, n, ms); }
int fstat(int fd, struct stat *st) { return call(SYS_fstat, fd, (long)st, 0); }
Y
$cc -shared -o "$T/early.so" early.c
LD_PRELOAD=$T/early.so:${ours%:} sh -c 'echo text; "$0" none' "$T/prog" | sed 's/, [^,]*$//'

# One behind ours that looks whether a descriptor is open (libeatmydata) finds those of files that servers have passed.
printf '#include <fcntl.h>\nint fdatasync(int fd) { return fcntl(fd, F_GETFD) < 0 ? -1 : 0; }\nint fsync(int fd) { return fdatasync(fd); }\n' >sync.c
cat >syncs.c <<'Y'
#include <fcntl.h>
#include <unistd.h>
int main(void)
{
    int failed = 0, fd = open("synced", O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 20; i++)
        failed += write(fd, "a", 1) != 1 || fdatasync(fd) != 0 || fsync(fd) != 0;
    return failed;
}
Y
$cc -shared -o "$T/sync.so" sync.c
$cc -o "$T/syncs" syncs.c
LD_PRELOAD=$ours$T/sync.so "$T/syncs" && wc -c <synced

# A malloc that is locked around a fork by handlers (tcmalloc, jemalloc): what we do there needs memory.
cat >locks.c <<'Y'
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void __libc_free(void *);
static int locked;
static void lock(void) { locked = 1; }
static void unlock(void) { locked = 0; }
static void __attribute__((constructor)) begin(void) { pthread_atfork(lock, unlock, unlock); }
static void look(void)
{
    if (locked) {
        (void)!write(2, "malloc is locked\n", 17);
        _exit(97);
    }
}
void *malloc(size_t n) { return look(), __libc_malloc(n); }
void *calloc(size_t n, size_t each) { return look(), __libc_calloc(n, each); }
void *realloc(void *p, size_t n) { return look(), __libc_realloc(p, n); }
void free(void *p) { look(), __libc_free(p); }
Y
cat >forks.c <<'Y'
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    int status = 0, failed = 0, fd = open("forked", O_RDWR | O_CREAT | O_APPEND, 0600);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(write(fd, "child", 5) != 5 || access("forked", R_OK) != 0);
        failed += waitpid(child, &status, 0) != child || status != 0 || write(fd, "parent", 6) != 6;
    }
    return failed;
}
Y
$cc -shared -o "$T/locks.so" locks.c
$cc -o "$T/forks" forks.c
$cc -o "$T/forks-own" forks.c locks.c
LD_PRELOAD=$ours$T/locks.so "$T/forks"
LD_PRELOAD=$T/locks.so:${ours%:} "$T/forks"
"$T/forks-own"
wc -c <forked

# One behind ours whose functions call those that it has looked up in the C library: they must not be ours, which call it.
cat >wraps.c <<'Y'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
static int (*real)(const char *, int, ...);
static void __attribute__((constructor)) begin(void)
{
    real = (int (*)(const char *, int, ...))dlsym(dlopen("libc.so.6", RTLD_LAZY), "open");
}
int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    int mode = va_arg(ap, int);
    va_end(ap);
    return real ? real(path, flags, mode) : -1;
}
Y
$cc -shared -o "$T/wraps.so" wraps.c
LD_PRELOAD=$ours$T/wraps.so "$T/syncs" && wc -c <synced
LD_PRELOAD=$ours$T/wraps.so "$T/forks" && wc -c <forked
LD_PRELOAD=$ours$T/wraps.so sh -c 'sort </etc/passwd | wc -l; cat synced | wc -c'
rm "$D"/*
echo left >"$D/left"
X
fwd_both "preloaded libraries" sh "$mp_dir/commands"

# A program by its name, in a local directory, that needs a forwarded library
cat >"$mp_dir/commands" <<'X'
D=$1 T=$2
set -e
cd "$D"
echo 'int seven(void) { return 7; }' >seven.c
printf '#include <stdio.h>\nint seven(void);\nint main(void) { return printf("%%d\\n", seven()) < 0; }\n' >main.c
gcc -shared -fPIC -o libseven.so seven.c
gcc -o "$T/says-seven" main.c -L. -lseven
PATH=$T:$PATH env LD_LIBRARY_PATH="$D" says-seven
long=$T/$(printf '%0200d/%0200d' 1 2)
mkdir -p "$long"
cp "$T/says-seven" "$long"
LD_LIBRARY_PATH="$D" "$long/says-seven"
rm "$D"/*.[ch]
X
fwd_both "libraries of a program by its name" sh "$mp_dir/commands"
mp_done
