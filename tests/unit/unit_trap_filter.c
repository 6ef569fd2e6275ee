/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The seccomp filter of iofwd-run -trap, run by an interpreter of its instructions: for every system call
 * and many descriptors it reports what the table of calls says, and nothing else.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <sched.h>
#include <stdio.h>

#include "iofwd/trap/trap.h"

#define LOW 3
#define FIRST 512
#define LAST 1023
#define NUMBERS 1200

#ifdef __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* The table without its handlers. */
static int no_handler(struct amph_trap_call *c)
{
    return 0;
}

/* clang-format off */
const struct amph_trap_row amph_trap_rows[AMPH_TRAP_NUMBERS] = {
#define AMPH_TRAP_ROW(name, descriptors, handler) [SYS_##name] = { #name, descriptors, no_handler },
#include "iofwd/calls/trapped.def"
#undef AMPH_TRAP_ROW
};
/* clang-format on */

static struct sock_filter code[4096];
static size_t length;

static void make(void)
{
    length = amph_trap_filter(code, sizeof code / sizeof *code, LOW, FIRST, LAST);
    cr_assert_gt(length, 0);
}

/* The instructions that the filter may have. */
static uint32_t run(const struct seccomp_data *data)
{
    uint32_t acc = 0;
    size_t at = 0;

    while (at < length) {
        const struct sock_filter *f = &code[at++];
        bool jumps = false;

        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            cr_assert(f->k % 4 == 0 && f->k + 4 <= sizeof *data, "a load at %u", f->k);
            memcpy(&acc, (const char *)data + f->k, sizeof acc);
            continue;
        case BPF_ALU | BPF_AND | BPF_K:
            acc &= f->k;
            continue;
        case BPF_JMP | BPF_JA:
            at += f->k;
            continue;
        case BPF_RET | BPF_K:
            return f->k;
        case BPF_JMP | BPF_JEQ | BPF_K:
            jumps = acc == f->k;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            jumps = acc >= f->k;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            jumps = acc > f->k;
            break;
        default:
            cr_assert(false, "instruction %zu has code %#x", at - 1, f->code);
        }

        at += jumps ? f->jt : f->jf;
    }

    cr_assert(false, "the filter has no end");
    return 0;
}

static bool is_reported(const struct seccomp_data *data)
{
    uint32_t action = run(data);

    cr_assert(action == SECCOMP_RET_USER_NOTIF || action == SECCOMP_RET_ALLOW);
    return action == SECCOMP_RET_USER_NOTIF;
}

static const struct amph_trap_row *row_of(int number)
{
    return number < AMPH_TRAP_NUMBERS && amph_trap_rows[number].handle ? &amph_trap_rows[number]
                                                                       : NULL;
}

static bool is_ours(uint64_t fd)
{
    uint32_t low = (uint32_t)fd;

    return low < LOW || (low >= FIRST && low <= LAST);
}

Test(trap_filter, every_call)
{
    make();
    for (int number = 0; number < NUMBERS; number++) {
        const struct amph_trap_row *row = row_of(number);
        struct seccomp_data data = { .nr = number, .arch = ARCH };

        if (number == SYS_clone)
            continue;

        /* no argument is a descriptor of ours */
        for (int i = 0; i < 6; i++)
            data.args[i] = 77;

        cr_assert_eq(is_reported(&data), row && !row->descriptors, "call %d", number);
    }
}

/* Each descriptor argument alone decides, by its low half; all other arguments mean nothing. */
Test(trap_filter, every_descriptor)
{
    static const uint64_t fds[] = { 0,
                                    2,
                                    3,
                                    FIRST - 1,
                                    FIRST,
                                    LAST,
                                    LAST + 1,
                                    UINT32_MAX,
                                    (uint32_t)AT_FDCWD,
                                    (uint64_t)AT_FDCWD,
                                    UINT64_C(0x700000000) | FIRST,
                                    UINT64_C(0x700000000) | 77,
                                    UINT64_MAX };

    make();
    for (int number = 0; number < NUMBERS; number++) {
        const struct amph_trap_row *row = row_of(number);

        if (!row || !row->descriptors)
            continue;

        for (unsigned arg = 0; arg < 6; arg++)
            for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
                struct seccomp_data data = { .nr = number, .arch = ARCH };

                for (int j = 0; j < 6; j++)
                    data.args[j] = 77;

                data.args[arg] = fds[i];

                bool want = (row->descriptors & 1u << arg) && is_ours(fds[i]);

                cr_assert_eq(is_reported(&data), want, "%s, argument %u: %#jx", row->name, arg,
                             (uintmax_t)fds[i]);
            }
    }
}

/* Another architecture's calls, and x32's, are all reported. */
Test(trap_filter, other_architectures)
{
    make();
    for (int number = 0; number < NUMBERS; number++) {
        struct seccomp_data data = { .nr = number, .arch = AUDIT_ARCH_I386 };

        cr_assert(is_reported(&data));
#ifdef __x86_64__
        data = (struct seccomp_data){ .nr = number | 0x40000000, .arch = ARCH };
        cr_assert(is_reported(&data));
#endif
    }
}

/* Threads that share all that matters are made without a report. */
Test(trap_filter, clone_of_threads)
{
    const uint64_t thread = CLONE_THREAD | CLONE_FS | CLONE_FILES | CLONE_VM | CLONE_SIGHAND;
    struct seccomp_data data = { .nr = SYS_clone, .arch = ARCH, .args = { thread } };

    make();
    cr_assert_not(is_reported(&data));
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t shared[] = { CLONE_THREAD, CLONE_FS, CLONE_FILES };

        data.args[0] = thread & ~shared[i];
        cr_assert(is_reported(&data));
    }
}

/* The filter is made for any range, and says so where there is no room. */
Test(trap_filter, ranges_and_room)
{
    cr_assert_gt(amph_trap_filter(code, 4096, LOW, 3, 1023), 0);
    cr_assert_gt(amph_trap_filter(code, 4096, 60000, 60000, 65535), 0);

    size_t n = amph_trap_filter(code, 4096, LOW, FIRST, LAST);

    cr_assert_leq(n, 2048, "the installer's room");
    cr_assert_eq(amph_trap_filter(code, n, LOW, FIRST, LAST), n);
    cr_assert_eq(amph_trap_filter(code, n - 1, LOW, FIRST, LAST), 0);
}
