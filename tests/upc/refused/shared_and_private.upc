/* SPDX-License-Identifier: BSD-3-Clause; expect: 'x' is declared as 'int' here and as 'shared int' */
#include <upc_relaxed.h>
extern shared int x;
extern int x; /* here */
