/* SPDX-License-Identifier: BSD-3-Clause */
/* The contexts of the client's threads.  Layer: am.  Thread rule: see check.h. */
#include "am/check.h"

#include "am/am.h"
#include "base/log.h"

static __thread struct amph_context self __attribute__((tls_model("initial-exec")));

struct amph_context *amph_am_context_self(void)
{
    return &self;
}

void amph_am_context_enter(const struct amph_token *token)
{
    self.token = token;
    self.held_before = self.nheld;
}

static const char *name_of(const struct amph_token *token)
{
    return token->entry->name ? token->entry->name : "without name";
}

void amph_am_context_leave(const struct amph_token *token)
{
    if (self.nheld > self.held_before)
        amph_fatal("handler %u (%s) returned while it held a handler-safe lock (%p); unlock it "
                   "before the handler ends",
                   token->am->handler, name_of(token), self.held[self.nheld - 1]);

    if (self.prepared)
        amph_fatal("handler %u (%s) returned between %s and its commit; commit or cancel the reply "
                   "before the handler ends",
                   token->am->handler, name_of(token), self.prepared);

    self.token = NULL;
}
