/* SPDX-License-Identifier: MIT
 *
 * Questions about addresses, of live blocks and of any others; figures, and what changes them: trims and budgets. */
#include "races.h"

char *some_address(racer_t *racer, char *near)
{
  return (char *)((uintptr_t)near + below(&racer->dice, 1 << below(&racer->dice, 22)) - below(&racer->dice, 64));
}

/* An answer must agree with itself. */
void ask(const char *address)
{
  size_t size = 0;
  char *start = pool_block_start(address, &size);
  must(!start || (address >= start && (size_t)(address - start) < (size ? size : 1)));
  (void)pool_in_use(address);
  (void)pool_heap_of(address);
}

void ask_own(racer_t *racer, const kept_t *kept)
{
  size_t usable = 0;
  const char *inside = kept->block + (kept->size ? below(&racer->dice, kept->size) : 0);
  must(pool_in_use(inside));
  must(pool_block_start(inside, &usable) == kept->block && usable == pool_usable_size(kept->block));
  must(pool_heap_of(inside) == kept->heap);
}

void step_ask(racer_t *racer, kept_t *kept)
{
  if (kept->block)
    ask_own(racer, kept);
  for (int i = 0; i < 8; i++) {
    char *address = atomic_load_explicit(&seen[below(&racer->dice, SEEN)], memory_order_relaxed);
    ask(address);
    ask(some_address(racer, address));
  }
  ask(some_address(racer, (char *)memories));
  ask(some_address(racer, memories[below(&racer->dice, racer_count)]));
}

void step_figures(racer_t *racer, kept_t *kept)
{
  static _Thread_local char text[4096];
  pool_stats_t stats;
  (void)kept;
  must(pool_heap_stats(shared[below(&racer->dice, SHARED)], &stats));
  must(pool_heap_stats(shared[BELOW], &stats) && stats.held_bytes <= FIXED_BUDGET && stats.peak_held_bytes <= FIXED_BUDGET);
  must(pool_stats_json(text, sizeof text) > 0 && text[0] == '{');
  must(pool_heap_stats_json(some_heap(racer), text, sizeof text) > 0);
}

void step_trim(racer_t *racer, kept_t *kept)
{
  size_t keep = one_in(&racer->dice, 2) ? 0 : below(&racer->dice, 8 << 20);
  (void)kept;
  if (one_in(&racer->dice, 3))
    pool_trim(keep);
  else
    pool_heap_trim(some_heap(racer), keep);
}

void step_budget(racer_t *racer, kept_t *kept)
{
  (void)kept;
  pool_heap_set_budget(shared[TIGHT], (1 + below(&racer->dice, 10)) << 20);
  pool_heap_set_budget(shared[ABOVE], (10 + below(&racer->dice, 20)) << 20);
}
