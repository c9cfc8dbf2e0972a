// SPDX-License-Identifier: MIT
// A program of a user, in C++.
#include <cstdio>
#include <tidepool.h>

int main()
{
  void *block = pool_alloc(1000);
  pool_free(block);
  std::printf("%s %s\n", TIDEPOOL_VERSION, pool_version());
  return block == nullptr;
}
