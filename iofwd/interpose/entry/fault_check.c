/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks the kernel whether a program's memory can be read or written; see entry/fault_check.h.
 *
 * Layer: iofwd (interposer).  Thread rule: as there.
 *
 * The questions are system calls that read memory and change nothing.  rt_sigprocmask copies its
 * set before it rejects an unknown operation; a futex operation writes back the word that it has
 * read. madvise checks many pages at once.
 *
 * valgrind checks what the first two read, and would report memory that the program has not written
 * yet as an error of this file.  It gives programs no vDSO.  Without one, madvise asks every
 * question, which takes four times as long, if it tells bad memory from good: qemu accepts any advice.
 */
#include "iofwd/interpose/entry/fault_check.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "iofwd/calls/names.h"

/* MADV_POPULATE_READ and _WRITE.  Kernels before 5.14 do not have them and are asked page by page. */
#define POPULATE_READ 22
#define POPULATE_WRITE 23

/* Of a larger range only this much is checked page by page, and the last page; between them only that
 * no page is unmapped. */
#define LOOK_CLOSELY ((size_t)256 << 10)

#define SIGSET_BYTES 8             /* of the kernel's signal set */
#define PAGE_MIN ((uintptr_t)4096) /* pages may be larger */

__thread struct amph_ip_mem amph_ip_mem_checked[2] __attribute__((tls_model("initial-exec")));

/* How pages are asked for (amph_ip_state.mem_question). */
enum question {
    NOT_KNOWN,
    BY_PAGE,
    BY_MADVISE
};

static bool all_there(uintptr_t from, uintptr_t end, bool write)
{
    return libc_syscall(SYS_madvise, (long)from, (long)(end - from),
                        write ? POPULATE_WRITE : POPULATE_READ, 0, 0, 0) == 0;
}

/* Two threads may find it out at the same time. */
static bool asks_by_madvise(void)
{
    int question = __atomic_load_n(&amph_ip_state.mem_question, __ATOMIC_RELAXED);

    if (AMPH_UNLIKELY(question == NOT_KNOWN)) {
        uintptr_t here = (uintptr_t)&amph_ip_state & ~(PAGE_MIN - 1);

        question = BY_PAGE;
        if (getauxval(AT_SYSINFO_EHDR) == 0 && all_there(here, here + PAGE_MIN, true) &&
            !all_there(0, PAGE_MIN, false))
            question = BY_MADVISE;

        __atomic_store_n(&amph_ip_state.mem_question, question, __ATOMIC_RELAXED);
    }

    return question == BY_MADVISE;
}

static bool is_readable(uintptr_t page)
{
    /* not the page's first word, because address 0 means that there is no set */
    return libc_syscall(SYS_rt_sigprocmask, -1, (long)(page + SIGSET_BYTES), 0, SIGSET_BYTES, 0,
                        0) >= 0 ||
           errno != EFAULT;
}

static bool is_writable(uintptr_t page)
{
    int none = 0;

    return libc_syscall(SYS_futex, (long)&none, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, 0,
                        (long)page, FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)) >= 0 ||
           errno != EFAULT;
}

/* Returns whether the page can be accessed.  Of the two checks only the read makes a stack grow, as
 * an access of the program does, so a failed check for writing is repeated after a read. */
static bool page_is_there(uintptr_t page, bool write)
{
    if (AMPH_UNLIKELY(asks_by_madvise()))
        return all_there(page, page + PAGE_MIN, write);

    return write ? is_writable(page) || (is_readable(page) && is_writable(page))
                 : is_readable(page);
}

/* Returns the first page from `page` on that cannot be accessed. */
static uintptr_t end_of(uintptr_t page, uintptr_t end, bool write)
{
    while (page < end && page_is_there(page, write))
        page += PAGE_MIN;

    return page;
}

static bool whole_is_there(uintptr_t from, uintptr_t end, bool write)
{
    if (end - from <= LOOK_CLOSELY || asks_by_madvise())
        return all_there(from, end, write);

    return all_there(from, from + LOOK_CLOSELY, write) &&
           libc_syscall(SYS_msync, (long)from, (long)(end - from), MS_ASYNC, 0, 0, 0) == 0 &&
           page_is_there(end - PAGE_MIN, write);
}

/* Returns up to where the pages from..end can be accessed. */
static uintptr_t look(uintptr_t from, uintptr_t end, bool write)
{
    if (end - from > PAGE_MIN && (whole_is_there(from, end, write) ||
                                  (page_is_there(from, write) && whole_is_there(from, end, write))))
        return end;

    return end_of(from, end, write);
}

/* Stores a checked range.  An entry is empty while it changes, because a signal handler may run at
 * any time. */
static void keep(struct amph_ip_mem *r, uintptr_t from, uintptr_t end)
{
    uint32_t epoch = __atomic_load_n(&amph_ip_state.mem_epoch, __ATOMIC_RELAXED);

    if (r->epoch != epoch) {
        for (int i = 0; i < AMPH_IP_MEM_CACHED; i++)
            __atomic_store_n(&r->range[i].to, 0, __ATOMIC_SEQ_CST);

        r->epoch = epoch;
    }

    int at = 0;

    while (at < AMPH_IP_MEM_CACHED - 1 &&
           (from > r->range[at].to || end < r->range[at].from || !r->range[at].to))
        at++;

    /* the new range extends this one */
    if (from <= r->range[at].to && end >= r->range[at].from && r->range[at].to) {
        from = r->range[at].from < from ? r->range[at].from : from;
        end = r->range[at].to > end ? r->range[at].to : end;
    }

    for (; at > 0; at--) {
        __atomic_store_n(&r->range[at].to, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&r->range[at].from, r->range[at - 1].from, __ATOMIC_SEQ_CST);
        __atomic_store_n(&r->range[at].to, r->range[at - 1].to, __ATOMIC_SEQ_CST);
    }

    __atomic_store_n(&r->range[0].to, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&r->range[0].from, from, __ATOMIC_SEQ_CST);
    __atomic_store_n(&r->range[0].to, end, __ATOMIC_SEQ_CST);
}

size_t amph_ip_mem_ask(const void *at, size_t len, bool write)
{
    uintptr_t from = (uintptr_t)at;
    uintptr_t end = from + len;
    int saved = errno;

    if (len == 0)
        return 0;
    if (amph_ip_is_wild(at, len) || end > UINTPTR_MAX - PAGE_MIN)
        return 0;

    uintptr_t first = from & ~(PAGE_MIN - 1);
    uintptr_t last = (end + PAGE_MIN - 1) & ~(PAGE_MIN - 1);
    uintptr_t there = look(first, last, write);

    if (there > first)
        keep(&amph_ip_mem_checked[write], first, there);

    errno = saved;
    if (there >= end)
        return len;

    return there > from ? there - from : 0;
}

int amph_ip_mem_text_ask(const char *text)
{
    uintptr_t from = (uintptr_t)text;
    size_t done = 0;

    while (done < PATH_MAX) {
        size_t here = PAGE_MIN - ((from + done) & (PAGE_MIN - 1));

        if (here > PATH_MAX - done)
            here = PATH_MAX - done;

        if (!amph_ip_can_read(text + done, here))
            return EFAULT;
        if (memchr(text + done, 0, here))
            return 0;

        done += here;
    }

    return ENAMETOOLONG;
}

bool amph_ip_can_read_list(char *const *list)
{
    if (!list)
        return true;

    for (;; list++) {
        if (!amph_ip_can_read(list, sizeof *list))
            return false;
        if (!*list)
            return true;
        if (amph_ip_text_error(*list) == EFAULT)
            return false;
    }
}
