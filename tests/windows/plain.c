/* SPDX-License-Identifier: MIT
 * Most tests of heaps make one of each kind. The library has none of the debug library's kinds here, so those are plain heaps.
 */
#include <tidepool/heap.h>

pool_heap_t *__real_tidepool_heap_create(const pool_heap_options_t *options, size_t size);
pool_heap_t *__wrap_tidepool_heap_create(const pool_heap_options_t *options, size_t size);

pool_heap_t *__wrap_tidepool_heap_create(const pool_heap_options_t *options, size_t size)
{
  if (!options || size != sizeof *options)
    return __real_tidepool_heap_create(options, size);
  pool_heap_options_t plain = *options;
  plain.flags &= ~(unsigned)(POOL_HEAP_CHECKED | POOL_HEAP_GUARDED | POOL_HEAP_SITES);
  return __real_tidepool_heap_create(&plain, size);
}
