/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_maps DIRECTORY SCRATCH: files in memory, shared with other maps, descriptors and processes;
 * what is read and written besides; lengths that change; errors.  Prints what each gave;
 * fwd_maps.sh runs it in a local directory and in a forwarded one and compares.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/fwd_say.h"

#define PAGE 4096
#define RW (PROT_READ | PROT_WRITE)
#define SHARED(fd, len) mmap(NULL, len, RW, MAP_SHARED, fd, 0)
/* maps are compared as made or not */
#define MAP(call) T((call) == MAP_FAILED ? -1 : 0)

static sigjmp_buf back;

static void on_fault(int sig)
{
    siglongjmp(back, sig);
}

/* What reading a byte gives: it, or minus the signal. */
static int look(const volatile char *at)
{
    int sig = sigsetjmp(back, 1);
    return sig ? -sig : *at;
}

static int make(const char *name, off_t len)
{
    int fd = open(in(name), O_RDWR | O_CREAT | O_TRUNC, 0644);

    if (fd < 0 || ftruncate(fd, len) != 0)
        _exit(9);

    return fd;
}

/* Another process, not a relative of ours but for its two pipes, does what the letters that it
 * hears say. */
static int hear_fd, tell_fd;

static int peer(const char *name, int from, int to)
{
    char what, c;
    int fd = open(in(name), O_RDWR);
    char *p = SHARED(fd, 4 * PAGE);

    for (; read(from, &what, 1) == 1; (void)!write(to, &c, 1)) {
        c = 'y';
        switch (what) {
        case 'l':
            c = p[10];
            break;
        case 's':
            p[20] = 's';
            break;
        case 'w':
            c = pwrite(fd, "w", 1, 30) == 1 ? 'y' : 'n';
            break;
        case 'g':
            c = ftruncate(fd, 4 * PAGE) == 0 ? 'y' : 'n';
            break;
        case 'e':
            c = p[3 * PAGE];
            break;
        case 'k':
            raise(SIGKILL);
            break;
        }
    }

    return 0;
}

static char ask(char what)
{
    char c = 0;
    return write(tell_fd, &what, 1) == 1 && read(hear_fd, &c, 1) == 1 ? c : -1;
}

static pid_t start_peer(const char *program, const char *name)
{
    int there[2], back_[2];
    char a[12], b[12];

    if (pipe(there) != 0 || pipe(back_) != 0)
        _exit(9);

    pid_t pid = fork();

    if (pid == 0) {
        close(there[1]);
        close(back_[0]);
        snprintf(a, sizeof a, "%d", there[0]);
        snprintf(b, sizeof b, "%d", back_[1]);
        execl(program, program, dir, "peer", name, a, b, (char *)NULL);
        _exit(9);
    }

    close(there[0]);
    close(back_[1]);
    tell_fd = there[1];
    hear_fd = back_[0];

    return pid;
}

static void processes(const char *program)
{
    int status;
    int fd = make("both", 2 * PAGE);
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1 };
    pid_t pid = start_peer(program, "both");

    T(fcntl(fd, F_SETLK, &lock));

    char *p = SHARED(fd, 4 * PAGE);

    MAP(p);

    const char *only = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

    p[10] = 'p';
    T(ask('l'));
    T(ask('s'));
    T(p[20]);
    T(only[20]);
    T(ask('w'));
    T(p[30]);
    T(ask('g'));
    T(look(p + 3 * PAGE));
    p[3 * PAGE] = 'e';
    T(ask('e'));
    T(ask('s'));
    T(ask('k'));
    waitpid(pid, &status, 0);
    T(p[20]);
    T(munmap(p, 4 * PAGE));
    T(close(fd));
    close(tell_fd);
    close(hear_fd);
}

/* Counters that a parent and its children count in, also after the parent has no map any more. */
static void relatives(void)
{
    int fd = make("count", PAGE);
    int *count = (int *)SHARED(fd, PAGE);

    T(close(fd));
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            for (int n = 0; n < 10000; n++)
                __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);

            _exit(0);
        }

    while (wait(NULL) > 0)
        ;

    T(*count);

    int turn[2];

    if (pipe(turn) != 0 || fork() == 0) {
        char c;

        close(turn[1]);
        (void)!read(turn[0], &c, 1);
        count[1] = 77;
        exit(munmap(count, PAGE));
    }

    T(munmap(count, PAGE));
    close(turn[0]);
    close(turn[1]);

    int status;

    wait(&status);
    T(status);
    fd = open(in("count"), O_RDONLY);

    int now[2] = { 0, 0 };

    T(read(fd, now, sizeof now));
    T(now[0]);
    T(now[1]);
    T(close(fd));
}

/* What descriptors of the file read and write, in this process. */
static void descriptors(void)
{
    char buf[16] = "";
    int fd = make("calls", 3 * PAGE + 100);
    int other = open(in("calls"), O_RDWR | O_APPEND);
    char *p = SHARED(fd, 5 * PAGE);

    memcpy(p + 5, "mapped", 6);
    T(pread(other, buf, 6, 5));
    T(memcmp(buf, "mapped", 6));
    T(lseek(fd, 6, SEEK_SET));
    T(read(fd, buf, 3));
    T(memcmp(buf, "app", 3));
    T(write(fd, "WRI", 3));
    T(memcmp(p + 5, "mappWRI", 7));
    T(pwrite(fd, "a", 1, 6)); /* what is there already, over a change */
    p[7] = 'x';
    T(pwrite(fd, "\0", 1, 7));
    T(msync(p, PAGE, MS_SYNC));
    T(p[7]);
    T(write(other, "end", 3));
    T(p[3 * PAGE + 100]);
    T(p[3 * PAGE + 102]);
    T(p[3 * PAGE + 103]);
    T(pwrite(fd, "far", 3, 4 * PAGE + 10));
    T(p[4 * PAGE + 11]);
    T(look(p + 4 * PAGE + 100));
    T(ftruncate(other, 2 * PAGE + 7));
    T(look(p + 2 * PAGE + 9));
    T(look(p + 3 * PAGE));
    T(truncate(in("calls"), 4 * PAGE));
    T(look(p + 3 * PAGE + 100));
    memset(p, 'f', 2 * PAGE);
    T(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, 100));
    T(p[PAGE - 1]);
    T(p[PAGE + 99]);
    T(p[PAGE + 100]);

    FILE *f = fopen(in("calls"), "r+");

    p[0] = 'm';
    T(fgetc(f));
    T(fclose(f));
    f = fopen(in("calls"), "w");
    T(look(p));
    T(fprintf(f, "%d", 1234));
    T(fclose(f));
    T(look(p + 3));
    T(look(p + PAGE));
    T(munmap(p, 5 * PAGE));
    T(close(fd));
    T(close(other));
}

/* Parts, moves, protections. */
static void parts(void)
{
    int fd = make("parts", 8 * PAGE);
    int read_only = open(in("parts"), O_RDONLY);
    char *p = SHARED(fd, 8 * PAGE);
    char *q = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 6 * PAGE);
    char c = 0;

    for (int i = 0; i < 8; i++)
        p[i * PAGE] = (char)('a' + i);

    T(q[0]);
    T(munmap(p + 2 * PAGE, PAGE));
    T(look(p + 2 * PAGE));
    p[3 * PAGE] = 'D';
    T(mprotect(p + 3 * PAGE, PAGE, PROT_READ));
    T(p[3 * PAGE]);

    char *moved = mremap(p + 4 * PAGE, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE);

    MAP(moved);
    T(moved[2 * PAGE]);
    moved[2 * PAGE] = 'G';
    T(q[0]);
    T(msync(moved, 3 * PAGE, MS_ASYNC));
    T(pread(read_only, &c, 1, 6 * PAGE));
    T(c);
    T(madvise(p, PAGE, MADV_DONTNEED));
    T(p[0]);
    T(madvise(p, PAGE, MADV_REMOVE));
    T(p[0]);
    T(pread(fd, &c, 1, 0));
    T(c);
    T(mlock(p, PAGE));
    T(munlock(p, PAGE));
    T(munmap(p, 8 * PAGE)); /* with holes in it */
    T(munmap(moved, 3 * PAGE));
    T(munmap(q, PAGE));
    p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED | MAP_POPULATE, read_only, 3 * PAGE);
    T(p[0]);
    T(mprotect(p, PAGE, RW));
    T(munmap(p, PAGE));
    p = mmap(NULL, 2 * PAGE, RW, MAP_PRIVATE, read_only, 7 * PAGE);
    T(p[0]);
    p[0] = 'P';
    T(look(p + PAGE));
    T(munmap(p, 2 * PAGE));
    T(pread(fd, &c, 1, 7 * PAGE));
    T(c);
    T(close(fd));
    T(close(read_only));
}

static void errors(void)
{
    int fd = make("errors", PAGE);
    int wr = open(in("errors"), O_WRONLY);
    int d = open(dir, O_RDONLY);
    char *p = SHARED(fd, PAGE);

    MAP(mmap(NULL, 0, RW, MAP_SHARED, fd, 0));
    MAP(mmap(NULL, PAGE, RW, MAP_SHARED, fd, 100));
    MAP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, wr, 0));
    MAP(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, wr, 0));
    MAP(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, d, 0));
    MAP(mmap(NULL, PAGE, PROT_READ, 0, fd, 0));
    MAP(mmap(p + 1, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0));
    MAP(mmap(p, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0));
    T(msync(p, PAGE, MS_SYNC | MS_ASYNC));
    T(msync(p + 1, PAGE, MS_SYNC));
    T(munmap(p + 1, PAGE));
    T(munmap(p, 0));
    p[0] = 'x';
    T(munmap(p, PAGE));
    T(msync(p, PAGE, MS_SYNC));
    T(close(fd));
    T(close(wr));
    T(close(d));
}

/* Memory that a call has used and that another map has taken the place of. */
static void replaced(void)
{
    int fd = make("replaced", PAGE);
    char *p = mmap(NULL, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *q;

    T(pwrite(fd, p, 100, 0));
    T(pread(fd, p, 100, 0));
    MAP(mmap(p, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    T(pwrite(fd, p, 100, 0));
    T(pread(fd, p, 100, 0));
    MAP(mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    T(pwrite(fd, p, 100, 0));
    T(pread(fd, p, 100, 0));

    /* other memory over a map of the file: what was changed has gone to the file, what comes then
     * has not */
    q = SHARED(fd, PAGE);
    q[1] = 'q';
    MAP(mmap(q, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    q[1] = 'n';
    T(msync(q, PAGE, MS_SYNC));
    T(pread(fd, q, 2, 0));
    T(q[1]);
    T(munmap(q, PAGE));
    T(munmap(p, PAGE));
    T(close(fd));
}

/* A large file of holes takes no time and no memory. */
static void sparse(void)
{
    const off_t size = (off_t)1 << 36;
    char c = 0;
    int fd = make("sparse", size);

    T(pwrite(fd, "middle", 6, size / 2));

    char *p = mmap(NULL, (size_t)size, RW, MAP_SHARED | MAP_NORESERVE, fd, 0);
    char *q = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, fd, 0);

    MAP(p);
    MAP(q);
    T(p[size / 2]);
    T(q[size / 2 + 1]);
    p[size - 1] = 'z';
    T(msync(p, (size_t)size, MS_SYNC));
    T(pread(fd, &c, 1, size - 1));
    T(c);
    T(munmap(p, (size_t)size));
    T(munmap(q, (size_t)size));
    T(ftruncate(fd, 0));
    T(close(fd));
}

/* Private maps, small and large ones: what is stored in them stays there. */
static void copies(off_t len)
{
    int fd = make("copies", len);
    int read_only = open(in("copies"), O_RDONLY);
    char byte = 0;

    T(pwrite(fd, "first", 5, 0));
    T(pwrite(fd, "last", 4, len - 4));

    char *p = mmap(NULL, (size_t)len + 2 * PAGE, RW, MAP_PRIVATE, read_only, 0);
    char *q = mmap(NULL, (size_t)len, PROT_READ, MAP_PRIVATE, fd, PAGE);

    MAP(p);
    MAP(q);
    T(close(read_only));
    T(p[0]);
    T(q[len - PAGE - 1]);
    p[0] = 'p';
    T(pread(fd, &byte, 1, 0));
    T(byte);
    T(look(p + len));
    T(look(p + len + PAGE));
    T(mprotect(q, PAGE, RW));
    q[1] = 'q';
    T(p[PAGE + 1]);
    T(msync(p, PAGE, MS_SYNC));

    if (fork() == 0) {
        p[1] = 'c';
        _exit(p[0] + q[1]);
    }

    int status;

    wait(&status);
    T(status);
    T(p[1]);
    T(munmap(p, (size_t)len + 2 * PAGE));
    T(munmap(q, (size_t)len));
    T(close(fd));
}

/* A limit of file sizes is for files. */
static void limited(void)
{
    struct rlimit limit;
    int fd = make("limited", 2 * PAGE);

    getrlimit(RLIMIT_FSIZE, &limit);

    rlim_t before = limit.rlim_cur;

    limit.rlim_cur = 2 * PAGE;
    T(setrlimit(RLIMIT_FSIZE, &limit));

    char *p = SHARED(fd, 2 * PAGE);

    MAP(p);
    p[5] = 'l';
    T(msync(p, PAGE, MS_SYNC));
    T(getrlimit(RLIMIT_FSIZE, &limit));
    T(limit.rlim_cur);
    limit.rlim_cur = before;
    T(setrlimit(RLIMIT_FSIZE, &limit));
    T(munmap(p, 2 * PAGE));
    T(close(fd));
}

/* ---- record locks ---- */

static void lock(int fd, short type, off_t from)
{
    struct flock whole = { .l_type = type, .l_whence = SEEK_SET, .l_start = from };

    OK(fcntl(fd, F_SETLK, &whole));
}

/* What is locked for another process. */
static void look_for_locks(int fd)
{
    struct flock found = { .l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -1 };
    pid_t child = fork();

    if (child == 0) {
        OK(fcntl(fd, F_GETLK, &found));
        printf("type %d, from %ld, %ld bytes\n", found.l_type, (long)found.l_start,
               (long)found.l_len);
        fflush(stdout);
        _exit(0);
    }

    waitpid(child, NULL, 0);
}

/* Locks to the end of a file have nothing to do with its maps. */
static void locks(void)
{
    int fd = make("locked", PAGE);
    int other = make("locked too", PAGE);
    char c;

    for (int i = 0; i < 10; i++) {
        T(pread(fd, &c, 1, 0));
        T(pread(other, &c, 1, 0));
    }

    MAP(SHARED(fd, PAGE));
    lock(fd, F_WRLCK, 0);
    look_for_locks(fd);
    lock(fd, F_UNLCK, 0);
    lock(fd, F_RDLCK, 10);
    look_for_locks(fd);
    lock(fd, F_UNLCK, 10);
    look_for_locks(fd);

    lock(other, F_WRLCK, 0);
    MAP(SHARED(other, PAGE));
    look_for_locks(other);

    close(fd);
    close(other);
}

int main(int argc, char **argv)
{
    struct sigaction fault = { .sa_handler = on_fault };

    if (argc < 2)
        return 2;

    dir = argv[1];
    if (argc == 6)
        return peer(argv[3], atoi(argv[4]), atoi(argv[5]));

    sigaction(SIGBUS, &fault, NULL);
    sigaction(SIGSEGV, &fault, NULL);
    processes(argv[0]);
    relatives();
    descriptors();
    parts();
    errors();
    replaced();
    sparse();
    copies(2 * PAGE + 10);
    copies(80 * PAGE + 10);
    limited();
    locks();

    return 0;
}
