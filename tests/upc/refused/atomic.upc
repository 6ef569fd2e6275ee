/* SPDX-License-Identifier: BSD-3-Clause; expect: _Atomic shared objects are not translated */
#include <upc_relaxed.h>
shared _Atomic int a;
int main() { a = 1; } /* here */
