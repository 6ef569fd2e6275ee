/* SPDX-License-Identifier: BSD-3-Clause; expect: a shared object in asm */
#include <upc_relaxed.h>
shared int a;
int main() { __asm__("" :: "r"(a)); } /* here */
