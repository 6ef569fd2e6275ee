/* SPDX-License-Identifier: BSD-3-Clause
 *
 * amphora-upcc: is a .c file UPC?
 */
#ifndef UPC_DRIVER_LANGUAGE_H
#define UPC_DRIVER_LANGUAGE_H

#include <stdbool.h>

/* Whether the text in file, which has been preprocessed as UPC, includes a header of UPC (one below
 * upc_include other than upcx.h) or uses words of UPC outside the headers of the system.  False
 * also if it cannot be read, or if it includes upc_bridge.h: that is C. */
bool language_is_upc(const char *file, const char *upc_include);

#endif
