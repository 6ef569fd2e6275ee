/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get of memory of a process on the same host by the kernel (process_vm_writev and _readv),
 * without help of the target.  Used if all memory can be accessed, and for memory that cannot be
 * mapped (carry.c).  Layer: am.  Thread rule: any thread.
 *
 * If the kernel refuses, or cannot copy this kind of memory, messages carry the transfer.
 */
#include <errno.h>
#include <sys/uio.h>

#include "am/ep.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/status.h"
#include "conduits/conduit.h"

void amph_am_set_peer_process(struct amph_am_ep *ep, uint32_t peer, int32_t pid)
{
    static const unsigned word_emulate = 1; /* of AMPHORA_RMA's row */

    if (peer < ep->max_peers && (ep->cfg.anywhere || ep->carry) &&
        ep->peer[peer].cx == ep->cx[AMPH_CX_SMP] && pid > 0 &&
        amph_env_enum(AMPH_ENV_RMA) != word_emulate)
        ep->peer[peer].vm_pid = pid;
}

/* Copies in one direction. false: messages must carry the transfer, from its start. */
static bool copy(struct amph_peer *p,
                 ssize_t (*call)(pid_t, const struct iovec *, unsigned long, const struct iovec *,
                                 unsigned long, unsigned long),
                 uint64_t there, void *here, size_t len_bytes)
{
    const pid_t pid = __atomic_load_n(&p->vm_pid, __ATOMIC_RELAXED);

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (size_t at = 0; at < len_bytes;) {
        const struct iovec own = { (char *)here + at, len_bytes - at };
        const struct iovec other = { (void *)(uintptr_t)(there + at), len_bytes - at };
        ssize_t n = call(pid, &own, 1, &other, 1, 0);

        if (n > 0) {
            at += (size_t)n;
        } else {
            if (errno != EFAULT) {
                amph_info("memory of process %ld is reached by messages: %s", (long)pid,
                          amph_status_text(amph_status_from_errno(errno)));

                /* not allowed: do not ask again */
                __atomic_store_n(&p->vm_pid, 0, __ATOMIC_RELAXED);
            }

            return false;
        }
    }

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return true;
}

bool amph_am_vm_put(struct amph_am_ep *ep, uint32_t peer, uint64_t addr, const void *src,
                    size_t len_bytes)
{
    return copy(&ep->peer[peer], process_vm_writev, addr, (void *)(uintptr_t)src, len_bytes);
}

bool amph_am_vm_get(struct amph_am_ep *ep, uint32_t peer, uint64_t addr, void *dst,
                    size_t len_bytes)
{
    return copy(&ep->peer[peer], process_vm_readv, addr, dst, len_bytes);
}
