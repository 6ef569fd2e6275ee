/* SPDX-License-Identifier: BSD-3-Clause; expect: '#pragma upc lazy' is unknown */
#include <upc_relaxed.h>
#pragma upc lazy /* here */
