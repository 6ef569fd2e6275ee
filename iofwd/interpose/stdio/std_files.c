/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects behind stdin, stdout and stderr.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's streams.
 *
 * glibc uses its own three objects, _IO_2_1_stdin_ and so on, by their names, so that a library may
 * define others; old versions of libstdc++ did.  The objects here are used from the first
 * instruction of any library on, and have the room behind them that a stream of fopencookie needs.
 * So each can become a forwarded stream in place, even if a program has stored a pointer to it.
 */
#include "iofwd/interpose/libc/libc_real.h"

#include "iofwd/interpose/stdio/foreign_file.h"
#include "iofwd/interpose/stdio/state.h"

/* Bits of FILE._flags in every glibc. */
#define MAGIC 0xfbad0000
#define UNBUFFERED 0x0002
#define NO_READS 0x0004
#define NO_WRITES 0x0008
#define LINKED 0x0080
#define HAS_FILE_BUFFER 0x2000

extern const char _IO_file_jumps[];

struct amph_ip_stdio_state amph_ip_stdio = { .lock = PTHREAD_MUTEX_INITIALIZER,
                                             .changing = PTHREAD_MUTEX_INITIALIZER };

/* Room for the C library's lock: two numbers and a pointer, all zero while it is free. */
static void *locks[3][4];

#define STD_FILE(fd, next, direction) \
    { \
        .file = { ._flags = (int)(MAGIC | LINKED | HAS_FILE_BUFFER | (direction)), \
                  ._chain = (next), \
                  ._fileno = (fd), \
                  ._old_offset = -1, \
                  ._lock = (void *)locks[fd], \
                  ._offset = -1 }, \
        .vtable = _IO_file_jumps \
    }

struct amph_ip_cookie_file amph_ip_std_in = STD_FILE(0, NULL, NO_WRITES);
struct amph_ip_cookie_file amph_ip_std_out = STD_FILE(1, &amph_ip_std_in.file, NO_READS);
struct amph_ip_cookie_file amph_ip_std_err = STD_FILE(2, &amph_ip_std_out.file,
                                                      NO_READS | UNBUFFERED);

#define AMPH_IP_STD(name) __attribute__((alias(name), visibility("default")))

/* The names by which the C library finds them; those of a static program come from ld --wrap. */
extern struct amph_ip_cookie_file exported_in __asm__(AMPH_IP_STD_PREFIX "stdin_")
    AMPH_IP_STD("amph_ip_std_in");
extern struct amph_ip_cookie_file exported_out __asm__(AMPH_IP_STD_PREFIX "stdout_")
    AMPH_IP_STD("amph_ip_std_out");
extern struct amph_ip_cookie_file exported_err __asm__(AMPH_IP_STD_PREFIX "stderr_")
    AMPH_IP_STD("amph_ip_std_err");

/* Keeps the start of forwarding in a static program that uses streams and no other caught call. */
const char *const amph_ip_std_init_keep = &amph_ip_init_linked;

struct amph_ip_cookie_file *amph_ip_std_file(int fd)
{
    static struct amph_ip_cookie_file *const files[] = { &amph_ip_std_in, &amph_ip_std_out,
                                                         &amph_ip_std_err };

    return files[fd];
}

/* Uses the original object's part for wide characters, which differs between versions of the C
 * library. */
void amph_ip_std_complete(void)
{
    if (AMPH_LIKELY(__atomic_load_n(&amph_ip_stdio.std_complete, __ATOMIC_ACQUIRE)))
        return;

    for (int fd = 0; fd < 3; fd++) {
        const FILE *original = amph_ip_std_original(fd);

        if (original)
            amph_ip_std_file(fd)->file._wide_data = original->_wide_data;
    }

    __atomic_store_n(&amph_ip_stdio.std_complete, true, __ATOMIC_RELEASE);
}
