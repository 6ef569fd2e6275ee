/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of a libfabric provider for a conduit: the table of providers, the requirements, and
 * the check of the result.  Layer: conduits (ofi).
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/settings/env.h"
#include "base/log.h"
#include "base/os/limits.h"
#include "base/status.h"
#include "conduits/ofi/ofi.h"

#define API FI_VERSION(1, 17)

/* Is a stand-in for a card wanted?  With AMPHORA_CONDUIT=verbs AMPHORA_MR_DEBUG=1 the code for
 * cards runs, and is checked, over rxm on plain TCP. */
static bool stand_in_wanted(void)
{
    return amph_env_bool(AMPH_ENV_MR_DEBUG) &&
           strcmp(amph_env_str(AMPH_ENV_CONDUIT), amph_ofi_family_verbs.conduit) == 0;
}

/* Asks the kernel for verbs devices, because asking libfabric would cost a job without a card
 * 0.25 s. */
static bool verbs_present(char *why, size_t why_len)
{
    static const char *const trees[] = { "/sys/class/infiniband", "/sys/class/hfi1_user",
                                         "/sys/class/cxi", "/sys/class/cxi_user" };

    if (stand_in_wanted())
        return true;

    for (size_t i = 0; i < AMPH_COUNTOF(trees); i++)
        if (amph_ofi_has_devices(trees[i]))
            return true;

    snprintf(why, why_len, "this machine shows no RDMA device (nothing in %s)", trees[0]);
    return false;
}

/* "tcp" has FI_EP_RDM from libfabric 1.18 on; 1.17 has the same code under the name "net".  rxm
 * over tcp refuses peers of the other byte order, and mixes up messages that share a receive
 * buffer. */
/* clang-format off */
static const struct amph_ofi_provider tcp_providers[] = {
    { .name = "tcp", .wait = OFI_WAIT_INNER, .cq_sleeps = true, .mixed_order = true, .needs_kicks = true,
      .put_head_bytes = 16, .put_part_bytes = 24 },
    { .name = "net", .wait = OFI_WAIT_INNER, .mixed_order = true, .needs_kicks = true,
      .put_head_bytes = 16, .put_part_bytes = 24 },
    { .name = "tcp;ofi_rxm", .wait = OFI_WAIT_CQ, .own_buffers = true },
    { .name = NULL },
};
/* clang-format on */
const struct amph_ofi_family amph_ofi_family_tcp = { .conduit = "tcp",
                                                     .provider = tcp_providers,
                                                     .own_port = true };

/* Cards.  The verbs provider has only connected endpoints; rxm builds reliable datagram
 * endpoints on them.  Providers of other makers are used without rxm. */
/* clang-format off */
static const struct amph_ofi_provider verbs_providers[] = {
    { .name = "verbs;ofi_rxm", .wait = OFI_WAIT_CQ, .own_buffers = true },
    { .name = "any other with registered memory", .wait = OFI_WAIT_CQ, .own_buffers = true, .any = true },
    { .name = "tcp;ofi_rxm", .wait = OFI_WAIT_CQ, .own_buffers = true, .stand_in = true },
    { .name = NULL },
};
/* clang-format on */
const struct amph_ofi_family amph_ofi_family_verbs = { .conduit = "verbs",
                                                       .provider = verbs_providers,
                                                       .present = verbs_present };

/* Providers that do not use a card. */
static const char *const no_card[] = { "tcp", "net",      "udp",      "sockets", "shm",
                                       "sm2", "ofi_hook", "off_coll", "lnx" };

static bool is_card(const struct fi_info *info)
{
    const uint64_t registered = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                                FI_MR_ENDPOINT;

    for (size_t i = 0; i < AMPH_COUNTOF(no_card); i++)
        if (strncmp(info->fabric_attr->prov_name, no_card[i], strlen(no_card[i])) == 0)
            return false;

    return (info->domain_attr->mr_mode & registered) != 0;
}

static struct fi_info *make_hints(const struct amph_ofi_provider *p, bool threaded,
                                  const struct sockaddr_storage *src)
{
    struct fi_info *h = fi_allocinfo();

    if (!h)
        return NULL;

    h->caps = FI_MSG | FI_RMA | FI_MULTI_RECV;
    h->mode = FI_CONTEXT | FI_CONTEXT2;
    h->ep_attr->type = FI_EP_RDM;
    h->addr_format = FI_FORMAT_UNSPEC;
    if (src)
        h->addr_format = src->ss_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;

    /* The registration modes that this conduit supports; a provider may require any of them. */
    h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |
                              FI_MR_ENDPOINT;
    h->domain_attr->threading = threaded ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;

    /* providers with automatic progress accept this too */
    h->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    h->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    h->domain_attr->resource_mgmt = FI_RM_ENABLED;
    h->domain_attr->av_type = FI_AV_UNSPEC;
    h->fabric_attr->prov_name = p->any ? NULL : strdup(p->name);

    if (src) {
        h->src_addrlen = amph_ofi_sockaddr_len(src);
        h->src_addr = malloc(h->src_addrlen);
        if (h->src_addr)
            memcpy(h->src_addr, src, h->src_addrlen);
    }

    if ((!p->any && !h->fabric_attr->prov_name) || (src && !h->src_addr)) {
        fi_freeinfo(h);
        return NULL;
    }

    return h;
}

/* Can an instance run on this? */
static bool acceptable(const struct fi_info *info)
{
    return info->ep_attr->max_msg_size >= OFI_MSG_MAX_BYTES &&
           info->domain_attr->mr_key_size <= sizeof(uint64_t) &&
           !(info->domain_attr->mr_mode & (FI_MR_RAW | FI_MR_HMEM)) &&
           info->ep_attr->msg_prefix_size == 0;
}

/* Returns a copy of the first list entry that matches p; the caller frees it. */
static struct fi_info *pick(const struct amph_ofi_provider *p, const struct fi_info *list)
{
    for (; list; list = list->next) {
        /* libfabric returns "tcp;ofi_rxm" for "tcp" if tcp itself has no such endpoint. */
        bool ours = p->any ? is_card(list) : strcmp(list->fabric_attr->prov_name, p->name) == 0;
        if (ours && acceptable(list))
            return fi_dupinfo(list);
    }

    return NULL;
}

uint32_t amph_ofi_protocol(const struct fi_info *info)
{
    const char *name = info->fabric_attr->prov_name;
    uint32_t h = info->ep_attr->protocol;

    /* "net" of libfabric 1.17 is "tcp" of later ones, with the same protocol.  Layered providers ("ofi_rxm")
     * give the protocol of the upper layer whatever is below, so their names count too. */
    for (const char *c = strchr(name, ';') ? name : ""; *c; c++)
        h = (h ^ (uint8_t)*c) * UINT32_C(0x01000193);

    /* another version of Amphora may send messages that this one does not know */
    return (h ^ OFI_WIRE_VERSION) * UINT32_C(0x01000193);
}

static enum amph_status find_provider(const struct amph_ofi_family *family, bool threaded,
                                      const struct sockaddr_storage *src,
                                      const struct amph_ofi_provider **prov_p,
                                      struct fi_info **info_p)
{
    for (const struct amph_ofi_provider *p = family->provider; p->name; p++) {
        if (p->stand_in && !stand_in_wanted())
            continue;

        struct fi_info *hints = make_hints(p, threaded, src);
        struct fi_info *info = NULL;

        if (!hints)
            return AMPH_ERR_NOMEM;

        int ret = fi_getinfo(API, NULL, NULL, 0, hints, &info);

        fi_freeinfo(hints);
        if (ret || !info)
            continue;

        struct fi_info *chosen = pick(p, info);

        fi_freeinfo(info);
        if (chosen) {
            *prov_p = p;
            *info_p = chosen;
            return AMPH_OK;
        }
    }

    return AMPH_ERR_NOSYS;
}

/* What fi_getinfo takes, rounded up.  Where malloc gives it none it may crash. */
#define GETINFO_BYTES ((size_t)1 << 20)

enum amph_status amph_ofi_find_provider(const struct amph_ofi_family *family, bool threaded,
                                        const struct sockaddr_storage *src,
                                        const struct amph_ofi_provider **prov_p,
                                        struct fi_info **info_p)
{
    if (!amph_limit_memory_suffices(GETINFO_BYTES))
        return AMPH_ERR_NOMEM;

    amph_ofi_prepare();
    amph_ofi_interfaces_hold();

    enum amph_status st = find_provider(family, threaded, src, prov_p, info_p);

    amph_ofi_interfaces_release();
    if (st != AMPH_OK && !amph_limit_memory_suffices(GETINFO_BYTES))
        st = AMPH_ERR_NOMEM;

    return st;
}

enum amph_status amph_ofi_probe(const struct amph_ofi_family *family, char *why, size_t why_len)
{
    const struct amph_ofi_provider *prov;
    struct fi_info *info;
    uint32_t v = fi_version();

    if (family->present && !family->present(why, why_len))
        return AMPH_ERR_NOSYS;

    enum amph_status st = amph_ofi_find_provider(family, false, NULL, &prov, &info);

    if (st == AMPH_ERR_NOMEM) {
        snprintf(why, why_len, "there is no memory for libfabric%s", amph_limit_remedy(ENOMEM));
        return st;
    }

    if (st != AMPH_OK) {
        int n = snprintf(why, why_len,
                         "libfabric %u.%u offers no provider for %s (tried:", FI_MAJOR(v),
                         FI_MINOR(v), family->conduit);

        for (const struct amph_ofi_provider *p = family->provider;
             p->name && n > 0 && (size_t)n < why_len; p++)
            if (!p->stand_in)
                n += snprintf(why + n, why_len - (size_t)n, "%s %s",
                              p == family->provider ? "" : ",", p->name);

        if (n > 0 && (size_t)n < why_len)
            snprintf(why + n, why_len - (size_t)n, "); see fi_info, and FI_PROVIDER if it is set");

        return st;
    }

    snprintf(why, why_len, "libfabric %u.%u, provider %s%s", FI_MAJOR(v), FI_MINOR(v),
             info->fabric_attr->prov_name,
             amph_env_bool(AMPH_ENV_MR_DEBUG) ? ", under the strict rules of AMPHORA_MR_DEBUG"
                                              : "");
    fi_freeinfo(info);
    return AMPH_OK;
}
