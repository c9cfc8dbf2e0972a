// SPDX-License-Identifier: MIT
//
// A source without exceptions and RTTI in a program that has both.
#include "bare.h"

bool bare_source_works(tidepool::heap &heap, tidepool::object_pool<std::string> &pool)
{
  const auto one = pool.make("one"), two = pool.try_make("two");
  return heap.allocate(100) && *one == "one" && two && !pool.try_make("three");
}
