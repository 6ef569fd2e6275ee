/* SPDX-License-Identifier: BSD-3-Clause; expect: has no member 'z' */
#include <upc_relaxed.h>
struct s { int x; };
shared struct s a;
int main() { return a.z; } /* here */
