// SPDX-License-Identifier: BSD-3-Clause
// What the library's source files share.
#ifndef UPCXX_INSIDE_HPP
#define UPCXX_INSIDE_HPP

#include "upcxx.hpp"

namespace upcxx::detail {

int register_handlers(gex_EP_t ep);
void teams_start(gex_TM_t world);
void teams_end();

} // namespace upcxx::detail

#endif
