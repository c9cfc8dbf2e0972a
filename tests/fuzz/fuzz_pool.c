/* SPDX-License-Identifier: MIT
 *
 * A model-based fuzzer of the public interface. Bytes are operations; beside the manager runs a model that knows of each live
 * block where it is, how large, whose and what is in it. After each operation the manager's answers must be the model's:
 * no two live blocks overlap, alignment and usable size are as promised, contents stay, zeroed is zero, what a heap that zeroes
 * was given back is nowhere any more, and questions about addresses inside live blocks, of blocks just freed and of nothing at
 * all are answered as the model would. Now and then the invariants are checked and all figures are counted anew.
 *
 * An operation is a function in a table below, which takes the bytes it needs from the input; a new one is a new row. Any of
 * them may be done by a second thread while the first waits for it, so that an input always does the same. */
#include "fuzz_pool.h"
#include "check/check.h"
#include "operations.h"
#include <string.h>

enum { OPS_PER_CHECK = 48 };

bool fuzz_alone;
uint64_t fuzz_seed;

typedef struct op {
  const char *name;
  void (*run)(void);
  unsigned weight;
} op_t;

static const op_t ops[] = {
  {"alloc", op_alloc, 12},
  {"zeroed", op_zeroed, 4},
  {"aligned", op_aligned, 3},
  {"realloc", op_realloc, 6},
  {"resize", op_resize, 3},
  {"free", op_free, 8},
  {"free_many", op_free_many, 1},
  {"batch", op_batch, 2},
  {"verify", op_verify, 2},
  {"trim", op_trim, 1},
  {"ask_inside", op_ask_inside, 2},
  {"ask_freed", op_ask_freed, 2},
  {"ask_anything", op_ask_anything, 1},
  {"good_size", op_good_size, 1},
  {"impossible", op_impossible, 1},
  {"heap_create", op_heap_create, 3},
  {"heap_destroy", op_heap_destroy, 1},
  {"heap_reset", op_heap_reset, 1},
  {"heap_set_budget", op_heap_set_budget, 1},
  {"heap_walk", op_heap_walk, 1},
  {"figures", op_figures, 1},
};

/* Of the bytes from MORE_FROM on. */
static const op_t more_ops[] = {
  {"large", op_large, 8},
  {"large_zeroed", op_large_zeroed, 8},
  {"large_aligned", op_large_aligned, 2},
  {"large_realloc", op_large_realloc, 8},
  {"large_resize", op_large_resize, 8},
  {"large_free", op_large_free, 8},
  {"huge", op_huge, 1},
  {"huge_zeroed", op_huge_zeroed, 1},
  {"ask_near", op_ask_near, 3},
  {"walk_all", op_walk_all, 1},
  {"fork", op_fork, 1},
  {"thread_end", op_thread_end, 1},
  {"elsewhere", op_elsewhere, 14},
};
enum { MORE_FROM = 192 };

static const op_t *op_of(const op_t *table, size_t count, unsigned n)
{
  for (size_t i = 0; i < count; i++) {
    if (n < table[i].weight)
      return &table[i];
    n -= table[i].weight;
  }
  return &table[0];
}

void one_op(void)
{
  unsigned n = byte();
  const op_t *op = n < MORE_FROM ? op_of(ops, sizeof ops / sizeof *ops, n & 63)
                                 : op_of(more_ops, sizeof more_ops / sizeof *more_ops, n - MORE_FROM);
  const char *before = model.op;
  model.op = op->name;
  op->run();
  model.op = before;
}

/* None was lost on the way: those that are not in use can be had. */
static bool all_units_are_free(void)
{
  for (size_t slot = 0; slot < window_slots_open(); slot++) {
    const arena_t *arena = space_arena_at(slot);
    if (arena && arena->space == &space_of_process && bits_count(arena->room.map, 0, arena->unit_count) != arena->unit_count)
      return false;
  }
  return true;
}

/* Ends as it began, so that one input does not depend on another. */
static void end_all(void)
{
  pool_stats_t stats;
  model.op = "the end";
  all_figures_agree();
  op_walk_all();
  end_other();
  for (unsigned i = HEAPS - 1; i > 0; i--)
    destroy(i);
  for (slot_t *slot = model.slots; slot < model.slots + SLOTS; slot++)
    let_go(slot);
  must(pool_heap_stats(pool_heap_default(), &stats));
  must(stats.live_blocks == 0 && stats.live_bytes == 0 && model.live_bytes == 0);
  pool_trim(0);
  must(check_everything());
  must(space_of_process.used_units == 0 && all_units_are_free());
  memset(model.freed, 0, sizeof model.freed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  model.data = data;
  model.end = data + size;
  model.heaps[0].heap = pool_heap_default();
  for (unsigned count = 1; model.data < model.end; count++) {
    one_op();
    if (count % OPS_PER_CHECK == 0) {
      must(check_everything());
      all_figures_agree();
    }
  }
  end_all();
  return 0;
}
