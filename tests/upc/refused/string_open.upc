/* SPDX-License-Identifier: BSD-3-Clause; expect: does not end on its line */
#include <upc_relaxed.h>
char *s = "abc; /* here */
