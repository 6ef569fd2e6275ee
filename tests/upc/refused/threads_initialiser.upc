/* SPDX-License-Identifier: BSD-3-Clause; expect: needs the number of threads at translation time */
#include <upc_relaxed.h>
shared int a[2][THREADS] = { { 1 }, { 2 } }; /* here */
