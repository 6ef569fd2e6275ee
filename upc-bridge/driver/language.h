/* SPDX-License-Identifier: BSD-3-Clause
 *
 * amphora-upcc: is a .c file UPC?
 *
 * Layer: upc-bridge/driver.  Thread rule: one thread.
 */
#ifndef UPC_DRIVER_LANGUAGE_H
#define UPC_DRIVER_LANGUAGE_H

#include <stdbool.h>

/* Returns whether a file that has been preprocessed as UPC is UPC: it includes a header of UPC (one
 * of upc_include other than upcx.h), or uses words of UPC outside the headers of the system.
 * Returns false if it cannot be read, and if it includes upc_bridge.h, because such a file is C. */
bool upcc_language_is_upc(const char *file, const char *upc_include);

#endif
