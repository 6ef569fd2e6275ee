/* SPDX-License-Identifier: BSD-3-Clause */
/* The negotiation of the job's page size.  Layer: am.  Thread rule: pure. */
#include "am/am.h"

enum amph_status amph_am_page_negotiate(const uint32_t *page_bytes, size_t n, uint32_t *job_page_p,
                                        size_t *clash_a_p, size_t *clash_b_p)
{
    size_t largest = 0;

    if (n == 0)
        return AMPH_ERR_ARG;

    for (size_t i = 1; i < n; i++)
        if (page_bytes[i] > page_bytes[largest])
            largest = i;

    for (size_t i = 0; i < n; i++)
        if (page_bytes[i] == 0 || page_bytes[largest] % page_bytes[i]) {
            *clash_a_p = i;
            *clash_b_p = largest;
            return AMPH_ERR_ARG;
        }

    *job_page_p = page_bytes[largest];
    return AMPH_OK;
}
