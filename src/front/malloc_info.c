/* SPDX-License-Identifier: MIT
 * mallinfo(), mallinfo2() and malloc_stats(): figures in glibc's form. */
#include "os/lock.h"
#include <malloc.h>
#include <tidepool/heap.h>
#include <tidepool/stats.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT struct mallinfo2 mallinfo2(void)
{
  pool_stats_t s;
  pool_heap_stats(pool_heap_default(), &s);
  return (struct mallinfo2){
    .arena = s.held_bytes,
    .uordblks = s.live_bytes,
    .fordblks = s.cached_bytes + s.idle_bytes,
    .fsmblks = s.cached_bytes,
    .keepcost = s.idle_bytes,
    .usmblks = s.peak_held_bytes,
  };
}

/* The fields are int, as they have always been; large figures wrap. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
EXPORT struct mallinfo mallinfo(void)
{
  struct mallinfo2 m = mallinfo2();
  return (struct mallinfo){
    .arena = (int)m.arena,
    .uordblks = (int)m.uordblks,
    .fordblks = (int)m.fordblks,
    .fsmblks = (int)m.fsmblks,
    .keepcost = (int)m.keepcost,
    .usmblks = (int)m.usmblks,
  };
}
#pragma GCC diagnostic pop

EXPORT void malloc_stats(void)
{
  static lock_t lock;
  static char line[16 << 10];
  lock_acquire(&lock);
  size_t length = pool_heap_stats_json(pool_heap_default(), line, sizeof line - 1);
  if (length > sizeof line - 2)
    length = sizeof line - 2;
  line[length++] = '\n';
  os_write_error(line, length);
  lock_release(&lock);
}
