/* SPDX-License-Identifier: MIT
 * An event loop within a budget: how many timers there can be is a matter of the heap, and the program is told.
 *
 *     cc libevent_on_a_heap.c $(pkg-config --cflags --libs tidepool libevent_core) -o libevent_on_a_heap */
#include <stdio.h>
#include <tidepool/libevent.h>
#include <tidepool/stats.h>

enum { TIMERS_MOST = 100000 };

static void fire(evutil_socket_t none, short what, void *count)
{
  (void)none, (void)what;
  ++*(size_t *)count;
}

int main(void)
{
  static struct event *timers[TIMERS_MOST];
  const struct timeval at_once = {0, 0};
  size_t count = 0, fired = 0;
  pool_heap_options_t options = {.name = "events", .budget = 1 << 20};
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap)
    return 1;
  pool_libevent_install(heap);
  struct event_base *base = event_base_new();
  if (!base)
    return 1;
  while (count < TIMERS_MOST && (timers[count] = evtimer_new(base, fire, &fired)) != NULL &&
         evtimer_add(timers[count], &at_once) == 0)
    count++;
  printf("room for %zu timers\n", count);
  event_base_dispatch(base);
  for (size_t i = 0; i < TIMERS_MOST && timers[i]; i++)
    event_free(timers[i]);
  event_base_free(base);
  libevent_global_shutdown();
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  printf("%zu fired, %zu blocks left\n", fired, stats.live_blocks);
  pool_heap_destroy(heap);
  return fired == count && count < TIMERS_MOST ? 0 : 1;
}
