/* SPDX-License-Identifier: BSD-3-Clause; expect: an object of type 'shared void' has no value */
#include <upc_relaxed.h>
shared void *p;
int main() { return *p; } /* here */
