// SPDX-License-Identifier: BSD-3-Clause
// A UPC++-like library over GASNet-EX calls alone: an example of how a C++ runtime uses Amphora.  The names and meanings are those of
// UPC++; of its memory kinds, views, cuda and most completions there is nothing here.
#ifndef UPCXX_HPP
#define UPCXX_HPP

#include "atomic.hpp"
#include "collective.hpp"
#include "future.hpp"
#include "pointer.hpp"
#include "rma.hpp"
#include "rpc.hpp"
#include "runtime.hpp"
#include "serialize.hpp"
#include "team.hpp"

#endif
