/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of plain calls: by one descriptor, with numbers and buffers as their other arguments, and without
 * effect on the table of descriptors.  read, write and their siblings are such calls, and most of a
 * program's.  Their record is filled in where it is, without a look at each argument.
 *
 * Layer: iofwd (interposer).  Thread rule: see record.h; the plans are written by the constructor.
 */
#include "iofwd/interpose/entry/record.h"
#include "iofwd/interpose/entry/targets.h"

struct amph_ip_plan amph_ip_plans[AMPH_IP_NAME_COUNT];

/* Takes argument i into the plan.  false: the argument needs a look at its value. */
static bool plan_argument(struct amph_ip_plan *plan, unsigned word, unsigned i)
{
    switch (word) {
    case AMPH_FWD_SHOW_FD:
    case AMPH_FWD_SHOW_STREAM:
    case AMPH_FWD_SHOW_DIR:
    case AMPH_FWD_SHOW_DIRFD:
    case AMPH_FWD_SHOW_PATH:
    case AMPH_FWD_SHOW_PROTECTION:
    case AMPH_FWD_SHOW_MAP:
    case AMPH_FWD_SHOW_COMMAND:
    case AMPH_FWD_SHOW_CALL:
        return false;
    case FWD_IN_LEN:
        plan->length_at = (uint8_t)i;
        plan->has |= AMPH_TRACE_HAS_LENGTH;
        return true;
    case FWD_IN_OFF:
        plan->offset_at = (uint8_t)i;
        plan->has |= AMPH_TRACE_HAS_OFFSET;
        return true;
    default:
        if (!amph_ip_record_is_flags(word))
            return true;

        if (!(plan->has & AMPH_TRACE_HAS_FLAGS))
            plan->flags_at = (uint8_t)i;

        plan->has |= AMPH_TRACE_HAS_FLAGS;
        return true;
    }
}

void amph_ip_record_plan(int name)
{
    const struct amph_ip_shape *shape = &amph_ip_shapes[name];
    struct amph_ip_plan plan = { .has = AMPH_TRACE_HAS_FD };

    if (shape->kind != AMPH_IP_SHAPE_RETURNS || shape->outcome != AMPH_FWD_OUTCOME_NUMBER ||
        shape->stdio || !shape->nargs || shape->arg[0] != AMPH_FWD_SHOW_FD)
        return;

    for (unsigned i = 1; i < shape->nargs; i++)
        if (!plan_argument(&plan, shape->arg[i], i))
            return;

    amph_ip_plans[name] = plan;
}

/* What the call has cost at the servers, in a slot behind its own. */
static void write_cost(struct amph_ip_recording *t, const struct amph_ip_trace_frame *frame,
                       uint64_t end_ns)
{
    uint64_t number;
    union amph_trace_slot *slot = amph_ip_record_take(t, &number);

    if (!slot)
        return;

    slot->extra.start_ns = frame->start_ns;
    slot->extra.server = frame->sum.server;
    slot->extra.requests = frame->sum.requests;
    slot->extra.queue_ns = amph_fwd_trace_queue(&frame->sum, end_ns - frame->start_ns);
    slot->extra.server_ns = frame->sum.file_ns + slot->extra.queue_ns;
    amph_ip_record_commit(t, &slot->commit, AMPH_TRACE_EXTRA, AMPH_TRACE_DONE, 0);
}

bool amph_ip_record_end_plain(struct amph_ip_recording *t, struct amph_ip_trace_frame *frame,
                              int64_t result, int err, uint64_t end_ns)
{
    const struct amph_ip_plan *plan = frame->plan;
    struct amph_trace_call *call = frame->slot;
    bool is_forwarded = frame->sum.requests || frame->causes.requests || frame->leads_in ||
                        frame->is_forwarded_fd;
    unsigned has = plan->has | (frame->caused ? AMPH_TRACE_HAS_CAUSE : 0);

    if (AMPH_UNLIKELY(!call || frame->slot_number < t->flushed))
        return false;

    if (has & AMPH_TRACE_HAS_LENGTH)
        call->length = frame->arg[plan->length_at];
    if (has & AMPH_TRACE_HAS_OFFSET)
        call->offset = (int64_t)frame->arg[plan->offset_at];
    if (has & AMPH_TRACE_HAS_FLAGS)
        call->flags = (uint32_t)frame->arg[plan->flags_at];
    if (AMPH_UNLIKELY(result < 0)) {
        call->err = (uint16_t)err;
        has |= AMPH_TRACE_HAS_FAILED;
    }

    if (frame->sum.requests)
        has |= AMPH_TRACE_HAS_EXTRA;

    call->end_ns = end_ns;
    call->result = result;
    call->side = is_forwarded ? AMPH_TRACE_FORWARDED : AMPH_TRACE_LOCAL;
    call->has = (uint8_t)has;
    amph_ip_record_commit(t, &call->commit, AMPH_TRACE_CALL, AMPH_TRACE_DONE,
                          (uint32_t)frame->name);
    if (frame->sum.requests)
        write_cost(t, frame, end_ns);

    return true;
}
