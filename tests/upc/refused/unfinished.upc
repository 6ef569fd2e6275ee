/* SPDX-License-Identifier: BSD-3-Clause; expect: the program ends */
#include <upc_relaxed.h>
int main() {
