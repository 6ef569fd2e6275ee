/* SPDX-License-Identifier: BSD-3-Clause; expect: upc_blocksizeof needs a shared type or object */
#include <upc_relaxed.h>
int a[3];
int main() { return upc_blocksizeof(a); } /* here */
