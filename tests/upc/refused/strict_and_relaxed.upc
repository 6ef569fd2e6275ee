/* SPDX-License-Identifier: BSD-3-Clause; expect: 'strict' and 'relaxed' exclude each other */
#include <upc_relaxed.h>
strict relaxed shared int a; /* here */
