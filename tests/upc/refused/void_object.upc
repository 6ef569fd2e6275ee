/* SPDX-License-Identifier: BSD-3-Clause; expect: type shared void */
#include <upc_relaxed.h>
shared void x; /* here */
