/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rows of the counters, and the columns of clients and files, for man/counters.awk, which makes
 * amphora-counters(7) from them.  Only the preprocessor reads this file.
 * Layer: documents.  Thread rule: none.
 */
/* clang-format off */
#include "base/settings/counter_defs.h"
#include "iofwd/wire/watch_columns.h"

#define MAN_ROW(id, name, kind, unit, help) @@row @ name @ kind @ unit @ help @@
#define MAN_COLUMN(id, name, title, form, list, help) @@column @ name @ form @ list @ help @@

AMPH_COUNTER_TABLE(MAN_ROW)
FWD_WATCH_COLUMNS(MAN_COLUMN)
/* clang-format on */
