// SPDX-License-Identifier: MIT
#ifndef BARE_H
#define BARE_H

#include <string>
#include <tidepool/tidepool.hpp>

bool bare_source_works(tidepool::heap &heap, tidepool::object_pool<std::string> &pool);

#endif
