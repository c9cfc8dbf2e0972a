/* SPDX-License-Identifier: MIT
 * An event loop within a budget: what libuv holds for timers and writes is known, and nothing is left when it has ended.
 *
 *     cc uv_on_a_heap.c $(pkg-config --cflags --libs tidepool libuv) -o uv_on_a_heap */
#include <stdio.h>
#include <tidepool/stats.h>
#include <tidepool/uv.h>

static void job(uv_work_t *work) { *(int *)work->data += 1; }

static void done(uv_work_t *work, int status) { printf("job %d ended with %d\n", *(int *)work->data, status); }

static void tick(uv_timer_t *timer)
{
  puts("tick");
  uv_close((uv_handle_t *)timer, NULL);
}

static int run(uv_loop_t *loop)
{
  uv_timer_t timer;
  int number = 0;
  uv_work_t work = {.data = &number};
  int status = uv_queue_work(loop, &work, job, done);
  if (status == 0)
    status = uv_timer_init(loop, &timer);
  if (status == 0)
    status = uv_timer_start(&timer, tick, 10, 0);
  return status == 0 ? uv_run(loop, UV_RUN_DEFAULT) : status;
}

int main(void)
{
  pool_heap_options_t options = {.name = "uv", .budget = 1 << 20};
  pool_heap_t *heap = pool_heap_create(&options);
  uv_loop_t loop;
  if (!heap || pool_uv_install(heap) != 0 || uv_loop_init(&loop) != 0)
    return 1;
  int status = run(&loop);
  uv_loop_close(&loop);
  uv_library_shutdown(); /* libuv's threads end */
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  printf("%zu KiB held at most, %zu blocks left\n", stats.peak_held_bytes >> 10, stats.live_blocks);
  pool_heap_destroy(heap);
  return status == 0 && stats.live_blocks == 0 ? 0 : 1;
}
