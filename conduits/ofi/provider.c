/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which libfabric provider carries a conduit: the table, what is asked of them, what is accepted.  Layer: conduits (ofi).
 * Thread rule: callable from any thread; libfabric serialises its own start.
 */
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "conduits/ofi/ofi.h"

#define API FI_VERSION(1, 17)

/* "tcp" has FI_EP_RDM from libfabric 1.18 on; 1.17 has the same code under the name "net".  rxm over tcp refuses peers of the
 * other byte order, and mixes up messages that share a receive buffer. */
static const struct ofi_provider tcp_providers[] = {
    { .name = "tcp", .wait = OFI_WAIT_INNER, .cq_sleeps = true, .mixed_order = true, .needs_kicks = true },
    { .name = "net", .wait = OFI_WAIT_INNER, .mixed_order = true, .needs_kicks = true },
    { .name = "tcp;ofi_rxm", .wait = OFI_WAIT_CQ, .own_buffers = true },
    { .name = NULL },
};
const struct ofi_family ofi_family_tcp = { "tcp", tcp_providers };

static struct fi_info *make_hints(const char *provider, bool threaded, const struct sockaddr_storage *src)
{
    struct fi_info *h = fi_allocinfo();
    if (!h)
        return NULL;
    h->caps = FI_MSG | FI_RMA | FI_MULTI_RECV;
    h->mode = FI_CONTEXT | FI_CONTEXT2;
    h->ep_attr->type = FI_EP_RDM;
    h->addr_format = !src ? FI_FORMAT_UNSPEC : src->ss_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    /* What the code can cope with; FI_MR_LOCAL comes with the conduit that needs it. */
    h->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    h->domain_attr->threading = threaded ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
    h->domain_attr->control_progress = FI_PROGRESS_MANUAL; /* providers with an automatic one accept this as well */
    h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    h->domain_attr->resource_mgmt = FI_RM_ENABLED;
    h->domain_attr->av_type = FI_AV_UNSPEC;
    h->fabric_attr->prov_name = strdup(provider);
    if (src) {
        h->src_addrlen = ofi_sockaddr_len(src);
        h->src_addr = malloc(h->src_addrlen);
        if (h->src_addr)
            memcpy(h->src_addr, src, h->src_addrlen);
    }
    if (!h->fabric_attr->prov_name || (src && !h->src_addr)) {
        fi_freeinfo(h);
        return NULL;
    }
    return h;
}

/* Can an instance run on this? */
static bool acceptable(const struct fi_info *info)
{
    return info->ep_attr->max_msg_size >= OFI_MSG_MAX_BYTES && info->domain_attr->mr_key_size <= sizeof(uint64_t) &&
           !(info->domain_attr->mr_mode & (FI_MR_RAW | FI_MR_LOCAL)) && info->ep_attr->msg_prefix_size == 0;
}

enum amph_status ofi_find_provider(const struct ofi_family *family, bool threaded, const struct sockaddr_storage *src,
                                   const struct ofi_provider **prov_p, struct fi_info **info_p)
{
    ofi_prepare();
    for (const struct ofi_provider *p = family->provider; p->name; p++) {
        struct fi_info *hints = make_hints(p->name, threaded, src), *info = NULL;
        if (!hints)
            return AMPH_ERR_NOMEM;
        int ret = fi_getinfo(API, NULL, NULL, 0, hints, &info);
        fi_freeinfo(hints);
        if (ret || !info)
            continue;
        /* libfabric answers "tcp" with "tcp;ofi_rxm" where tcp itself has no such endpoint. */
        if (strcmp(info->fabric_attr->prov_name, p->name) == 0 && acceptable(info)) {
            *prov_p = p;
            *info_p = info;
            return AMPH_OK;
        }
        fi_freeinfo(info);
    }
    return AMPH_ERR_NOSYS;
}

enum amph_status ofi_probe(const struct ofi_family *family, char *why, size_t why_len)
{
    const struct ofi_provider *prov;
    struct fi_info *info;
    uint32_t v = fi_version();
    enum amph_status st = ofi_find_provider(family, false, NULL, &prov, &info);
    if (st != AMPH_OK) {
        int n =
            snprintf(why, why_len, "libfabric %u.%u offers no provider for %s (tried:", FI_MAJOR(v), FI_MINOR(v), family->conduit);
        for (const struct ofi_provider *p = family->provider; p->name && n > 0 && (size_t)n < why_len; p++)
            n += snprintf(why + n, why_len - (size_t)n, " %s", p->name);
        if (n > 0 && (size_t)n < why_len)
            snprintf(why + n, why_len - (size_t)n, "); see fi_info, and FI_PROVIDER if it is set");
        return st;
    }
    snprintf(why, why_len, "libfabric %u.%u, provider %s", FI_MAJOR(v), FI_MINOR(v), prov->name);
    fi_freeinfo(info);
    return AMPH_OK;
}
