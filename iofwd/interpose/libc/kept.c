/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that is kept from the program's start; see kept.h.  Layer: iofwd (interposer). */
#include "iofwd/interpose/libc/kept.h"

#include <string.h>
#include <sys/mman.h>

#include "iofwd/interpose/entry/state.h"
#include "iofwd/interpose/libc/kernel.h"

enum {
    CHUNK_BYTES = 16384 /* what most programs need: the settings of their environment */
};

void *amph_ip_keep_bytes(size_t len_bytes)
{
    size_t need = (len_bytes + sizeof(void *) - 1) & ~(sizeof(void *) - 1);

    if (need > amph_ip_state.kept.left) {
        size_t chunk = need > CHUNK_BYTES ? need : CHUNK_BYTES;
        void *memory = amph_ip_kernel_mmap(NULL, chunk, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (memory == MAP_FAILED)
            return NULL;

        amph_ip_state.kept.next = memory;
        amph_ip_state.kept.left = chunk;
    }

    void *at = amph_ip_state.kept.next;

    amph_ip_state.kept.next += need;
    amph_ip_state.kept.left -= need;
    return at;
}

char *amph_ip_keep_text(const char *text)
{
    size_t len_bytes = strlen(text) + 1;
    char *copy = amph_ip_keep_bytes(len_bytes);

    return copy ? memcpy(copy, text, len_bytes) : NULL;
}
