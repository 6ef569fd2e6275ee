/* SPDX-License-Identifier: BSD-3-Clause; expect: cannot become the pointer to shared */
#include <upc_relaxed.h>
char buffer[10];
int main() { upc_memput(buffer, buffer, 10); } /* here */
