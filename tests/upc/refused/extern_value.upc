/* SPDX-License-Identifier: BSD-3-Clause; expect: 'extern' and an initialiser do not go together */
#include <upc_relaxed.h>
extern shared int a = 1; /* here */
