// SPDX-License-Identifier: MIT
// The typed wrappers in C++, for a type that asks for more alignment than is usual.
#include <cstdint>
#include <cstdlib>
#include <tidepool.h>

struct alignas(64) voice {
  float gain;
};

OBJECT_POOL_DEFINE(voices, voice);

int main()
{
  object_pool_options_t options = {};
  options.capacity = 5;
  voices_t *pool = voices_create(&options);
  voice *some[6];
  if (!pool || voices_get_batch(pool, some, 6) != 5)
    return 1;
  for (voice *v = nullptr; (v = voices_next(pool, v)) != nullptr;)
    if (reinterpret_cast<std::uintptr_t>(v) % 64 != 0 || !voices_in_use(pool, v))
      return 2;
  voices_put(pool, some[2]);
  bool good = voices_live(pool) == 4 && voices_get(pool) == some[2];
  voices_destroy(pool);
  return good ? 0 : 3;
}
