/* SPDX-License-Identifier: BSD-3-Clause; expect: 'a' is declared twice in one scope */
#include <upc_relaxed.h>
int main() { shared int *a; shared int *a; } /* here */
