/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copying by the kernel, from and to pipes: how much is moved, when it waits, and what is wrong
 * with places and kinds of files.  Says what each call gives, so that a local and a forwarded run
 * can be compared.
 *   fwd_pipes SECTION DIR SCRATCH
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/files/fwd_say.h"

#define SECTION_MAX_S 15

static char block[1 << 20];
static int file, other, appends, reads_only, folder, fifo, ends[2], more[2], sockets[2];

/* A file with something in it, one without, and pipes of all kinds. */
static void open_all(void)
{
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (char)(i * 7 + i / 251);

    file = open(in("file"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    other = open(in("other"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    T(pwrite(file, block, sizeof block, 0));
    OK(mkfifo(in("fifo"), 0600));
    fifo = open(in("fifo"), O_RDWR);
    appends = open(in("other"), O_RDWR | O_APPEND);
    reads_only = open(in("other"), O_RDONLY);
    folder = open(in("."), O_RDONLY | O_DIRECTORY);
    OK(pipe(ends));
    OK(pipe(more));
    OK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
}

static long at(int fd)
{
    return (long)lseek(fd, 0, SEEK_CUR);
}

/* How much there is in a pipe; it is taken out, and must be what the file has from a place on. */
static long holds(int fd, off_t from)
{
    static char got[1 << 20];
    int n = 0;
    ssize_t r = 0;

    if (ioctl(fd, FIONREAD, &n) != 0 || (n && (r = read(fd, got, (size_t)n)) != n))
        return -1;

    return memcmp(got, block + from, (size_t)r) == 0 ? r : -2;
}

/* Into a pipe goes what there is room for. */
static void room(void)
{
    open_all();
    T(fcntl(ends[1], F_SETPIPE_SZ, 2 * 4096));
    T(write(ends[1], block, 1));
    T(lseek(file, 1, SEEK_SET));
    T(splice(file, NULL, ends[1], NULL, 4095, 0));
    T(at(file));
    T(splice(file, NULL, ends[1], NULL, 65536, SPLICE_F_NONBLOCK)); /* full: the pages are */
    T(at(file));
    T(holds(ends[0], 0));
    T(lseek(file, 0, SEEK_SET));
    T(splice(file, NULL, ends[1], NULL, 65536, 0));
    T(at(file));
    T(fcntl(ends[1], F_SETFL, O_NONBLOCK));
    T(splice(file, NULL, ends[1], NULL, 65536, 0));
    T(sendfile(ends[1], file, NULL, 65536));
    T(holds(ends[0], 0));
    T(sendfile(ends[1], file, NULL, 65536));
    T(at(file));
    T(holds(ends[0], 8192));
    T(fcntl(ends[1], F_SETFL, 0));

    off_t place = 4097;

    T(splice(file, &place, ends[1], NULL, 65536, 0));
    T(place);
    T(at(file));
    T(holds(ends[0], 4097));
    T(fcntl(ends[1], F_SETPIPE_SZ, 1 << 20));
    place = 0;
    T(sendfile(ends[1], file, &place, 1 << 20));
    T(place);
    T(holds(ends[0], 0));
    T(lseek(file, 0, SEEK_END));
    T(splice(file, NULL, ends[1], NULL, 5, 0));
    T(sendfile(ends[1], file, NULL, 5));
    T(splice(file, NULL, fifo, NULL, 5, 0));
    close(ends[0]);
    T(lseek(file, 0, SEEK_SET));
    signal(SIGPIPE, SIG_IGN);
    T(splice(file, NULL, ends[1], NULL, 5, 0));
    T(sendfile(ends[1], file, NULL, 5));
    T(at(file));
}

/* The pages that a pipe got stay as they are, whatever comes to the file, and into our buffers,
 * later. */
static void kept(void)
{
    open_all();
    T(splice(file, NULL, ends[1], NULL, 10000, 0));
    T(splice(file, NULL, more[1], NULL, 10000, 0));
    T(close(file));
    T(holds(ends[0], 0));
    T(holds(more[0], 10000));
}

static void *empties(void *arg)
{
    while (read(ends[0], block, 4096) > 0)
        ;

    return NULL;
}

/* A full pipe is waited for. */
static void waits(void)
{
    pthread_t t;

    open_all();
    T(splice(file, NULL, ends[1], NULL, 65536, 0));
    T(pthread_create(&t, NULL, empties, NULL));

    long sum = 0;
    long n;

    while (sum < 300000 && (n = splice(file, NULL, ends[1], NULL, (size_t)(300000 - sum), 0)) > 0)
        sum += n;

    T(sum);
    T(at(file));
    close(ends[1]);
    pthread_join(t, NULL);
}

/* Out of pipes comes what there is. */
static void empty(void)
{
    open_all();
    T(splice(ends[0], NULL, file, NULL, 100, SPLICE_F_NONBLOCK));
    T(splice(fifo, NULL, file, NULL, 100, SPLICE_F_NONBLOCK));
    T(splice(fifo, NULL, ends[1], NULL, 100, SPLICE_F_NONBLOCK));
    T(splice(ends[0], NULL, fifo, NULL, 100, SPLICE_F_NONBLOCK));
    T(write(ends[1], block, 10));
    T(splice(ends[0], NULL, other, NULL, 100, SPLICE_F_NONBLOCK));
    T(at(other));
    T(write(ends[1], block, 10));
    T(splice(ends[0], NULL, fifo, NULL, 100, 0));
    T(holds(fifo, 0));
    T(splice(file, NULL, fifo, NULL, 100, 0));
    T(at(file));
    T(splice(fifo, NULL, other, NULL, 100, 0));
    T(lseek(file, 4096, SEEK_SET));
    T(splice(file, NULL, fifo, NULL, 1 << 20, 0));
    T(at(file));
    T(splice(file, NULL, fifo, NULL, 1 << 20, SPLICE_F_NONBLOCK));
    T(splice(fifo, NULL, ends[1], NULL, 4096, 0));
    T(holds(ends[0], 4096));
    T(fcntl(fifo, F_SETFL, O_NONBLOCK));
    while (read(fifo, block, sizeof block) > 0)
        ;

    T(splice(fifo, NULL, other, NULL, 100, 0));
    T(splice(fifo, NULL, fifo, NULL, 100, 0));
    close(ends[1]);
    T(splice(ends[0], NULL, other, NULL, 100, 0));
    T(splice(ends[0], NULL, other, NULL, 100, SPLICE_F_NONBLOCK));
}

/* What a file is sent from has places. */
static void sources(void)
{
    open_all();

    off_t place = 0;
    int zero = open("/dev/zero", O_RDONLY);

    for (int full = 0; full < 2; full++) {
        T(sendfile(file, ends[0], NULL, 5));
        T(sendfile(file, sockets[0], NULL, 5));
        T(sendfile(file, fifo, NULL, 5));
        T(sendfile(file, fifo, &place, 5));
        T(sendfile(more[1], fifo, NULL, 5));
        T(sendfile(fifo, ends[0], NULL, 5));
        T(sendfile(fifo, fifo, NULL, 5));
        T(sendfile(file, ends[0], NULL, 0));
        T(sendfile(appends, ends[0], NULL, 5));
        T(sendfile(reads_only, ends[0], NULL, 5));
        T(write(ends[1], block, 5));
        T(write(sockets[1], block + 5 * full, 5));
    }

    T(sendfile(fifo, sockets[0], NULL, 10));
    T(holds(fifo, 0));
    T(sendfile(fifo, file, &place, 10));
    T(place);
    T(sendfile(sockets[1], file, NULL, 10));
    T(sendfile(other, zero, NULL, 10));
    T(sendfile(other, zero, &place, 10));
    T(sendfile(other, folder, NULL, 10));
    T(at(other));
}

/* Places that no file has; -1 is one of them. */
static void places(void)
{
    static const off_t wrong[] = { -1, -5, -100, INT64_MIN };

    open_all();
    T(write(ends[1], block, 10));

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        off_t a = wrong[i];
        off_t b = wrong[i];
        off_t zero = 0;

        T(copy_file_range(file, &a, other, NULL, 5, 0));
        T(copy_file_range(file, &zero, other, &a, 5, 0));
        T(copy_file_range(file, &a, other, &b, 5, 0));
        T(copy_file_range(file, &a, file, &b, 4, 0));
        T(copy_file_range(file, &a, other, NULL, 0, 0));
        T(copy_file_range(file, &a, appends, NULL, 5, 0));
        T(copy_file_range(file, &a, ends[1], NULL, 5, 0));
        T(splice(file, &a, ends[1], NULL, 5, 0));
        T(splice(ends[0], NULL, file, &a, 5, 0));
        T(sendfile(other, file, &a, 5));
        T(a == wrong[i] && b == wrong[i]);
    }

    off_t last = INT64_MAX;

    T(copy_file_range(file, &last, other, NULL, 5, 0));
    T(splice(file, &last, ends[1], NULL, 5, 0));
    T(splice(ends[0], NULL, file, &last, 5, 0));
    T(sendfile(other, file, &last, 5));
    T(at(file));
    T(at(other));
    T(splice(file, NULL, ends[1], NULL, -1L, 0));
    T(sendfile(other, file, NULL, -1L));
    T(sendfile(ends[1], file, NULL, -1L));
    T(holds(ends[0], 0));
}

/* What is no pipe, and flags that there are not. */
static void kinds(void)
{
    off_t place = 0;

    open_all();
    T(splice(file, NULL, ends[1], NULL, 5, 0x100));
    T(splice(file, NULL, ends[1], NULL, 0, 0x100));
    T(splice(-1, NULL, file, NULL, 5, 0x100));
    T(splice(file, NULL, -1, NULL, 5, 0));
    T(splice(file, NULL, other, NULL, 5, 0));
    T(splice(folder, NULL, ends[1], NULL, 5, 0));
    T(splice(ends[0], NULL, folder, NULL, 5, 0));
    T(splice(ends[0], NULL, reads_only, NULL, 5, 0));
    T(splice(ends[0], NULL, appends, NULL, 5, 0));
    T(splice(ends[0], &place, reads_only, NULL, 5, 0));
    T(splice(file, NULL, fifo, &place, 5, 0));
    T(tee(file, ends[1], 5, 0));
    T(tee(ends[0], file, 5, 0));
    T(tee(ends[0], file, 0, 0));
    T(tee(file, ends[1], 5, 0x100));
    T(tee(folder, ends[1], 5, 0));
    T(tee(ends[0], reads_only, 5, 0));
    T(tee(ends[1], file, 5, 0));
    T(tee(-1, file, 5, 0));
    T(tee(fifo, fifo, 5, SPLICE_F_NONBLOCK));
    T(syscall(SYS_tee, file, ends[1], 5L, 0));
    T(tee(ends[0], more[1], 5, SPLICE_F_NONBLOCK));
    T(write(ends[1], block, 5));
    T(tee(ends[0], more[1], 5, 0));
    T(holds(more[0], 0));
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "room", room },       { "kept", kept },     { "waits", waits }, { "empty", empty },
        { "sources", sources }, { "places", places }, { "kinds", kinds },
    };

    if (argc != 4)
        return 2;

    dir = argv[2];
    end_after(SECTION_MAX_S);
    return run_section(sections, sizeof sections / sizeof sections[0], argv[1]) ? 0 : 2;
}
