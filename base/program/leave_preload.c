/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts a program again without the preload library; see leave_preload.h.  Layer: base. */
#include "base/program/leave_preload.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings/env.h"

/* Removes the preload libraries from list, names with blanks or colons between them.  Returns whether it
 * was there. */
static bool remove_own(char *list)
{
    static const char own[] = "libiofwd_"; /* and libiofwd_messages.so */
    bool found = false;
    char *to = list;

    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ": ");
        size_t step = len + (at[len] != 0);

        if (memmem(at, len, own, sizeof own - 1)) {
            found = true;
        } else {
            memmove(to, at, step);
            to += step;
        }

        at += step;
    }

    *to = 0;
    return found;
}

void amph_leave_preload(char **argv)
{
    const char *text = amph_env_foreign("LD_PRELOAD");
    char *list = text ? strdup(text) : NULL;

    /* The library would be added to the program's environment again but for this variable. */
    if (amph_env_foreign(AMPH_PRIVATE_LEFT))
        unsetenv(AMPH_PRIVATE_LEFT);
    else if (list && remove_own(list) && setenv(AMPH_PRIVATE_LEFT, "1", 1) == 0) {
        if (list[0])
            setenv("LD_PRELOAD", list, 1);
        else
            unsetenv("LD_PRELOAD");

        execv("/proc/self/exe", argv);
    }

    free(list);
}
