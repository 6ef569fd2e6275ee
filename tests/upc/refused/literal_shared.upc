/* SPDX-License-Identifier: BSD-3-Clause; expect: a compound literal cannot be shared */
#include <upc_relaxed.h>
int main() { return ((shared int){ 3 }); } /* here */
