// SPDX-License-Identifier: MIT
// A program of a user, in C++.
#include <cstdio>
#include <tidepool/tidepool.hpp>

int main()
{
  tidepool::heap heap(tidepool::heap_options().name("packages"));
  std::printf("%s %s\n", TIDEPOOL_VERSION, pool_version());
  return heap.try_allocate(1000) == nullptr;
}
