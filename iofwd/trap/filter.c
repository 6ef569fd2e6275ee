/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: the seccomp filter.  It is made from the table of calls: a binary search by the number
 * of the call leads to a block that compares the descriptors among its arguments with the range of
 * forwarded files.  Only the low 32 bits of a descriptor count, as for the kernel.  Calls of another
 * architecture, and x32's, are all reported, and refused by the supervisor with a sentence.
 *
 * Layer: iofwd.  Thread rule: pure; install by the program's process before exec.
 */
#include <errno.h>
#include <linux/audit.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/trap/trap.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0 /* the mount serves this machine */
#endif
#define X32_BIT 0x40000000u

#define ROOM 2048

/* The flags of clone that make a thread whose working directory and descriptors are its process's. */
#define THREAD_FLAGS (CLONE_THREAD | CLONE_FS | CLONE_FILES)

struct maker {
    struct sock_filter *out;
    size_t n, room;
    bool full;
    int low_fds, first_fd, last_fd;
};

static void put(struct maker *m, uint16_t code, uint32_t k, unsigned yes, unsigned no)
{
    if (m->n == m->room || yes > 255 || no > 255) {
        m->full = true;
        return;
    }

    m->out[m->n++] =
        (struct sock_filter){ .code = code, .jt = (uint8_t)yes, .jf = (uint8_t)no, .k = k };
}

static void load(struct maker *m, size_t offset)
{
    put(m, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void result(struct maker *m, uint32_t action)
{
    put(m, BPF_RET | BPF_K, action, 0, 0);
}

/* Offset of the low half of an argument; both machines are little-endian. */
static size_t low_half(unsigned arg)
{
    return offsetof(struct seccomp_data, args) + 8 * arg;
}

/* Reports the call if one of the descriptors is a low one or in the range. */
static void compare(struct maker *m, unsigned descriptors)
{
    for (unsigned i = 0; i < 6; i++) {
        if (!(descriptors & 1u << i))
            continue;

        load(m, low_half(i));
        put(m, BPF_JMP | BPF_JGE | BPF_K, (uint32_t)m->first_fd, 0, 1);
        put(m, BPF_JMP | BPF_JGT | BPF_K, (uint32_t)m->last_fd, 2, 1);
        put(m, BPF_JMP | BPF_JGE | BPF_K, (uint32_t)m->low_fds, 1, 0);
        result(m, SECCOMP_RET_USER_NOTIF);
    }

    result(m, SECCOMP_RET_ALLOW);
}

/* What follows when the number is known. */
static void block(struct maker *m, long number)
{
    const struct amph_trap_row *row = &amph_trap_rows[number];

    if (number == SYS_clone) {
        load(m, low_half(0));
        put(m, BPF_ALU | BPF_AND | BPF_K, THREAD_FLAGS, 0, 0);
        put(m, BPF_JMP | BPF_JEQ | BPF_K, THREAD_FLAGS, 0, 1);
        result(m, SECCOMP_RET_ALLOW);
        result(m, SECCOMP_RET_USER_NOTIF);
    } else if (row->descriptors) {
        compare(m, row->descriptors);
    } else {
        result(m, SECCOMP_RET_USER_NOTIF);
    }
}

/* A binary search among the n numbers; the last one found goes to its block. */
static void search(struct maker *m, const long *number, size_t n)
{
    if (n == 1) {
        put(m, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number[0], 1, 0);
        result(m, SECCOMP_RET_ALLOW);
        block(m, number[0]);
        return;
    }

    size_t half = n / 2;
    size_t jump = m->n + 1;

    /* a conditional jump reaches 255 instructions only */
    put(m, BPF_JMP | BPF_JGE | BPF_K, (uint32_t)number[half], 0, 1);
    put(m, BPF_JMP | BPF_JA, 0, 0, 0);
    search(m, number, half);
    if (!m->full)
        m->out[jump].k = (uint32_t)(m->n - jump - 1);

    search(m, number + half, n - half);
}

/* The calls whose time matters most come first.  Their descriptor is argument 0, so they share a block. */
static void often(struct maker *m)
{
    static const long numbers[] = { SYS_read,     SYS_write, SYS_lseek,  SYS_pread64,
                                    SYS_pwrite64, SYS_readv, SYS_writev, SYS_fstat };
    const size_t n = sizeof numbers / sizeof *numbers;

    for (size_t i = 0; i < n; i++)
        put(m, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)numbers[i], (unsigned)(n - i), 0);

    size_t jump = m->n;

    put(m, BPF_JMP | BPF_JA, 0, 0, 0);
    compare(m, 1);
    if (!m->full)
        m->out[jump].k = (uint32_t)(m->n - jump - 1);
}

size_t amph_trap_filter(struct sock_filter *out, size_t room, int low_fds, int first_fd,
                        int last_fd)
{
    struct maker m = {
        .out = out, .room = room, .low_fds = low_fds, .first_fd = first_fd, .last_fd = last_fd
    };
    long number[AMPH_TRAP_NUMBERS];
    size_t n = 0;

    for (long i = 0; i < AMPH_TRAP_NUMBERS; i++)
        if (amph_trap_rows[i].handle)
            number[n++] = i;

    load(&m, offsetof(struct seccomp_data, arch));
    put(&m, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
    result(&m, SECCOMP_RET_USER_NOTIF);
    load(&m, offsetof(struct seccomp_data, nr));
    often(&m);
#ifdef __x86_64__
    put(&m, BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1);
    result(&m, SECCOMP_RET_USER_NOTIF);
#endif
    search(&m, number, n);
    return m.full ? 0 : m.n;
}

int amph_trap_filter_install(int low_fds, int first_fd, int last_fd)
{
    struct sock_filter code[ROOM];
    size_t n = amph_trap_filter(code, ROOM, low_fds, first_fd, last_fd);
    struct sock_fprog program = { .len = (unsigned short)n, .filter = code };

    if (!n || !ARCH) {
        errno = ENOSYS;
        return -1;
    }

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;

    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV |
                            SECCOMP_FILTER_FLAG_SPEC_ALLOW, /* it is no sandbox */
                        &program);
}
