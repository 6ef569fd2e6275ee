/* SPDX-License-Identifier: BSD-3-Clause; expect: an expression is expected before '}' */
#include <upc_relaxed.h>
int main() { upc_barrier } /* here */
