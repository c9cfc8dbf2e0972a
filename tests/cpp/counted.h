// SPDX-License-Identifier: MIT
//
// What the tests of pools share: a class that counts itself.
#ifndef TESTS_CPP_COUNTED_H
#define TESTS_CPP_COUNTED_H

#include "testing.h"
#include <tidepool/tidepool.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using tidepool::evicting_pool;
using tidepool::handle;
using tidepool::heap;
using tidepool::heap_options;
using tidepool::object_pool;
using tidepool::pool_options;
using tidepool::reuse_pool;

// Counts itself, and knows whether it is there: a second destructor, or one without a constructor, is seen.
class counted {
public:
  explicit counted(int given = 0) : value(given), self_(this)
  {
    if (fails_in > 0 && --fails_in == 0)
      throw std::runtime_error("constructor");
    alive++;
    made++;
  }
  counted(const counted &) = delete;
  counted &operator=(const counted &) = delete;
  ~counted()
  {
    CHECK(self_ == this);
    self_ = nullptr;
    alive--;
  }

  static int alive, made, fails_in;
  int value;

private:
  counted *self_;
};
int counted::alive, counted::made, counted::fails_in;

[[maybe_unused]] const pool_options four = pool_options().capacity(4);

} // namespace

#endif
