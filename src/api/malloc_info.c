/* SPDX-License-Identifier: MIT
 * mallinfo(), mallinfo2() and malloc_stats(): figures in glibc's form. Fields that have no meaning here are 0. No other C
 * library declares these. */
#include "os/os.h"
#include <malloc.h>
#include <tidepool/heap.h>
#include <tidepool/stats.h>

#define EXPORT __attribute__((visibility("default")))

#ifdef __GLIBC__

EXPORT struct mallinfo2 mallinfo2(void)
{
  pool_stats_t s;
  pool_heap_stats(pool_heap_default(), &s);
  return (struct mallinfo2){
    .arena = s.held_bytes,
    .uordblks = s.live_bytes,
    .fordblks = s.cached_bytes + s.idle_bytes,
    .fsmblks = s.cached_bytes,
    .keepcost = s.free_bytes,
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

/* Writes a whole line at once, so that lines of several threads do not mix. Each call maps its own memory for the line: a lock
 * around a shared buffer would be held until the output is read, and a fork would have to wait for that. */
EXPORT void malloc_stats(void)
{
  enum { LINE = 16 << 10, SHORT_LINE = 1 << 10 }; /* bytes at which a line is cut; SHORT_LINE without memory */
  char short_line[SHORT_LINE], *mapped = os_map(LINE, os_page_size()), *line = mapped ? mapped : short_line;
  size_t most = mapped ? LINE : SHORT_LINE, length = pool_heap_stats_json(pool_heap_default(), line, most - 1);
  if (length > most - 2)
    length = most - 2;
  line[length++] = '\n';
  os_write_error(line, length);
  if (mapped)
    os_unmap(mapped, LINE);
}

#endif
