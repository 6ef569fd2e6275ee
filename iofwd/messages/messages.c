/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of messages; see messages.h.
 *
 * Layer: iofwd (messages).  Thread rule: see messages.h.
 */
#include "iofwd/messages/messages.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/platform.h"
#include "base/program/note.h"

/* real: of libamphora, written by any thread with the same value.  recorder: written by the
 * constructor. */
static struct {
    void *real[AMPH_MESSAGE_ROWS];
    const struct amph_ip_event_calls *recorder; /* NULL: calls are not recorded */
} messages;

/* The message that this thread has prepared last, and its peer. */
static __thread struct {
    gex_AM_SrcDesc_t sd;
    int32_t peer;
} last_prepared;

/* ---- libamphora ---- */

static void *look_up(const char *symbol)
{
    void *found = dlsym(RTLD_NEXT, symbol);

    if (!found) {
        fprintf(stderr,
                "amphora: this program calls %s, which the libamphora.so that it has loaded lacks; "
                "install "
                "one version of amphora\n",
                symbol);
        _exit(127);
    }

    return found;
}

void *amph_message_real(unsigned row, const char *symbol)
{
    void *found = __atomic_load_n(&messages.real[row], __ATOMIC_RELAXED);

    if (AMPH_UNLIKELY(!found)) {
        found = look_up(symbol);
        __atomic_store_n(&messages.real[row], found, __ATOMIC_RELAXED);
    }

    return found;
}

/* Does the program's own file carry the note of libamphora's part?  Then it is linked with the static
 * library. */
static int has_note(struct dl_phdr_info *info, size_t size, void *arg)
{
    bool *found_p = arg;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        const void *at = (const void *)(info->dlpi_addr + ph->p_vaddr);

        if (ph->p_type == PT_NOTE && memmem(at, ph->p_memsz, AMPH_NOTE_NAME, sizeof AMPH_NOTE_NAME))
            *found_p = true;
    }

    return 1; /* the first one is the program */
}

static __attribute__((constructor)) void start(void)
{
    bool is_static = false;

    messages.recorder = dlsym(RTLD_DEFAULT, "amph_ip_event_calls");
    if (!messages.recorder || !messages.recorder->kinds())
        return;

    dl_iterate_phdr(has_note, &is_static);
    if (is_static)
        fprintf(
            stderr,
            "amphora: IOFWD_RECORD: the messages of %s are not recorded, because it is linked with "
            "libamphora.a; link it with libamphora.so\n",
            program_invocation_name);
}

/* ---- records ---- */

bool amph_message_wanted(unsigned kinds)
{
    return messages.recorder && messages.recorder->kinds() & kinds && messages.recorder->wanted();
}

void amph_message_begin(struct amph_message *m, unsigned row, const char *name, int32_t peer,
                        uint64_t bytes, uint32_t flags)
{
    struct amph_trace_call *c = &m->event.call;

    m->on = true;
    m->event.number = AMPH_IP_EVENT_MESSAGE + row;
    m->event.name = name;
    c->side = AMPH_TRACE_MESSAGE;
    c->fd = peer;
    c->length = bytes;
    c->flags = flags;
    c->has = AMPH_TRACE_HAS_LENGTH | AMPH_TRACE_HAS_FLAGS;
    if (peer >= 0)
        c->has |= AMPH_TRACE_HAS_FD;

    messages.recorder->begin(&m->event);
}

void amph_message_end(struct amph_message *m, bool sent)
{
    if (!m->on)
        return;

    m->event.call.end_ns = messages.recorder->now();
    m->event.call.result = sent ? (int64_t)m->event.call.length : 0;
    messages.recorder->end(&m->event);
}

/* ---- peers and bytes ---- */

int32_t amph_message_member(gex_TM_t tm, gex_Rank_t rank)
{
    return (int32_t)gex_TM_TranslateRankToJobrank(tm, rank);
}

int32_t amph_message_domain(gex_AD_t ad, gex_Rank_t rank)
{
    return amph_message_member(gex_AD_QueryTM(ad), rank);
}

int32_t amph_message_source(gex_Token_t token)
{
    gex_Token_Info_t info;
    bool known = gex_Token_Info(token, &info, GEX_TI_SRCRANK) & GEX_TI_SRCRANK;

    return known ? (int32_t)info.gex_srcrank : -1;
}

int32_t amph_message_prepared(gex_AM_SrcDesc_t sd)
{
    return sd == last_prepared.sd ? last_prepared.peer : -1;
}

uint64_t amph_message_size_of(gex_DT_t type)
{
    return type & (GEX_DT_I32 | GEX_DT_U32 | GEX_DT_FLT) ? 4 : 8;
}

uint64_t amph_message_total(size_t n, const gex_Memvec_t *list)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        bytes += list[i].gex_len;

    return bytes;
}

uint64_t amph_message_box(size_t element, const size_t *count, size_t levels)
{
    uint64_t bytes = element;

    for (size_t i = 0; i < levels; i++)
        bytes *= count[i];

    return bytes;
}

/* ---- prepared messages: the peer is known here, and the rest when they are committed ---- */

#define EXPORTED __attribute__((visibility("default")))

static gex_AM_SrcDesc_t remember(gex_AM_SrcDesc_t sd, int32_t peer)
{
    last_prepared.sd = sd;
    last_prepared.peer = peer;
    return sd;
}

enum prepare {
    REQUEST_MEDIUM,
    REQUEST_LONG,
    REPLY_MEDIUM,
    REPLY_LONG
};

static void *real_prepare(enum prepare which, const char *symbol)
{
    return amph_message_real(AMPH_MESSAGE_ROWS - 1 - which, symbol);
}

EXPORTED gex_AM_SrcDesc_t gex_AM_PrepareRequestMedium(gex_TM_t tm, gex_Rank_t rank, const void *buf,
                                                      size_t min, size_t max, gex_Event_t *lc_opt,
                                                      gex_Flags_t flags, unsigned nargs)
{
    __typeof__(&gex_AM_PrepareRequestMedium) real = (__typeof__(real))real_prepare(
        REQUEST_MEDIUM, "gex_AM_PrepareRequestMedium");

    return remember(real(tm, rank, buf, min, max, lc_opt, flags, nargs),
                    amph_message_member(tm, rank));
}

EXPORTED gex_AM_SrcDesc_t gex_AM_PrepareRequestLong(gex_TM_t tm, gex_Rank_t rank, const void *buf,
                                                    size_t min, size_t max, void *dest,
                                                    gex_Event_t *lc_opt, gex_Flags_t flags,
                                                    unsigned nargs)
{
    __typeof__(&gex_AM_PrepareRequestLong) real = (__typeof__(real))real_prepare(
        REQUEST_LONG, "gex_AM_PrepareRequestLong");

    return remember(real(tm, rank, buf, min, max, dest, lc_opt, flags, nargs),
                    amph_message_member(tm, rank));
}

EXPORTED gex_AM_SrcDesc_t gex_AM_PrepareReplyMedium(gex_Token_t token, const void *buf, size_t min,
                                                    size_t max, gex_Event_t *lc_opt,
                                                    gex_Flags_t flags, unsigned nargs)
{
    __typeof__(&gex_AM_PrepareReplyMedium) real = (__typeof__(real))real_prepare(
        REPLY_MEDIUM, "gex_AM_PrepareReplyMedium");

    return remember(real(token, buf, min, max, lc_opt, flags, nargs), amph_message_source(token));
}

EXPORTED gex_AM_SrcDesc_t gex_AM_PrepareReplyLong(gex_Token_t token, const void *buf, size_t min,
                                                  size_t max, void *dest, gex_Event_t *lc_opt,
                                                  gex_Flags_t flags, unsigned nargs)
{
    __typeof__(&gex_AM_PrepareReplyLong) real = (__typeof__(real))real_prepare(
        REPLY_LONG, "gex_AM_PrepareReplyLong");

    return remember(real(token, buf, min, max, dest, lc_opt, flags, nargs),
                    amph_message_source(token));
}
