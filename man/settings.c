/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows of the settings for man/settings.awk, which makes amphora-settings(7) from them.  Only
 * the preprocessor reads this file.
 * Layer: documents.  Thread rule: none.
 */
/* clang-format off */
#include "base/settings/env_defs.h"

#define MAN_ROW(id, name, type, def, unit, min, max, group, help) \
    @@row @ name @ #type @ def @ unit @ min @ max @ group @ help @@
#define MAN_FOREIGN(id, name, help) @@foreign @ name @ help @@
#define MAN_PRIVATE(id, name, help) @@private @ name @ help @@
#define MAN_ACCEPTED(name, why) @@accepted @ name @ why @@

AMPH_ENV_TABLE(MAN_ROW)
AMPH_ENV_FOREIGN(MAN_FOREIGN)
AMPH_ENV_PRIVATE(MAN_PRIVATE)
AMPH_ENV_ACCEPTED(MAN_ACCEPTED)
AMPH_ENV_ACCEPTED_CONDUITS(MAN_ACCEPTED)
/* clang-format on */
