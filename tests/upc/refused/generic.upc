/* SPDX-License-Identifier: BSD-3-Clause; expect: _Generic on a pointer to shared is not translated */
#include <upc_relaxed.h>
shared int *p;
int main() { return _Generic(p, default: 1); } /* here */
