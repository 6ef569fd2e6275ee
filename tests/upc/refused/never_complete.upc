/* SPDX-License-Identifier: BSD-3-Clause; expect: is never completed */
#include <upc_relaxed.h>
struct s;
shared struct s a; /* here */
