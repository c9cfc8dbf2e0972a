/* SPDX-License-Identifier: MIT
 * A server's habit: what a request makes is not freed value by value. The heap is reset when the request is answered.
 *
 *     cc jansson_per_request.c $(pkg-config --cflags --libs tidepool jansson) -o jansson_per_request */
#include <stdio.h>
#include <tidepool/jansson.h>
#include <tidepool/stats.h>

/* No json_decref() on any path. */
static const char *answer(const char *request)
{
  json_t *list = json_loads(request, 0, NULL);
  double sum = 0;
  size_t i;
  json_t *value;
  if (!list)
    return "{\"error\": \"no JSON, or no memory\"}";
  json_array_foreach(list, i, value) sum += json_number_value(value);
  const char *text = json_dumps(json_pack("{s:i, s:f}", "count", (int)json_array_size(list), "sum", sum), JSON_SORT_KEYS);
  return text ? text : "{\"error\": \"no memory\"}";
}

int main(void)
{
  static const char *const requests[] = {"[1, 2, 3.5]", "[1, 2", "[]"};
  pool_heap_options_t options = {.name = "request", .budget = 1 << 20};
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap)
    return 1;
  pool_jansson_install(heap);
  for (size_t i = 0; i < 3; i++) {
    printf("%s\n", answer(requests[i]));
    pool_heap_reset(heap);
  }
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  printf("%zu blocks left\n", stats.live_blocks);
  pool_heap_destroy(heap);
  return stats.live_blocks == 0 ? 0 : 1;
}
