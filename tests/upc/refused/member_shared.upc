/* SPDX-License-Identifier: BSD-3-Clause; expect: a member cannot be shared by itself */
#include <upc_relaxed.h>
struct s { shared int x; }; /* here */
