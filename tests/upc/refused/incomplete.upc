/* SPDX-License-Identifier: BSD-3-Clause; expect: is not complete here */
#include <upc_relaxed.h>
struct s;
shared struct s *p;
int main() { p++; } /* here */
