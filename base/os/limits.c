/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of this process; see limits.h.  Layer: base. */
#include "base/os/limits.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/log.h"

const char *amph_limit_remedy(int err)
{
    switch (err) {
    case EMFILE:
        return "; raise the limit of open files (ulimit -n)";
    case ENOMEM:
        return "; raise the limits of memory (ulimit -v and -d)";
    case EFBIG:
        return "; raise the limit of file sizes (ulimit -f)";
    case EAGAIN: /* of a thread or a process that cannot be started */
        return "; raise the limits of processes (ulimit -u) and of memory (ulimit -v and -d)";
    default:
        return "";
    }
}

bool amph_limit_stack_suffices(const char *who, size_t min_bytes)
{
    struct rlimit stack;

    if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= min_bytes)
        return true;

    amph_error(
        "%s needs a stack of %lu KiB, and this process may have %lu (ulimit -s); raise the limit",
        who, (unsigned long)(min_bytes >> 10), (unsigned long)(stack.rlim_cur >> 10));
    return false;
}

bool amph_limit_memory_suffices(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory != MAP_FAILED && munmap(memory, bytes) == 0;
}
