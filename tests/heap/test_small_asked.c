/* SPDX-License-Identifier: MIT
 * A small heap of one thread works while another thread asks about it. */
#include "../dice.h"
#include "heaps.h"

enum { MOST = 1 << 20 };
static _Alignas(4096) char buffer[MOST];
static char text[1 << 16];

enum { SLOTS = 400, TURNS = 200000, TURNS_TO_RESET = 5000, STAYS = 3000 };

typedef struct owned {
  pool_heap_t *heap;
  char *stays; /* a block that is live all the time; NULL: the heap is reset now and then */
  bool is_done;
} owned_t;

static void owns(const owned_t *owned)
{
  static unsigned char *blocks[SLOTS];
  static size_t sizes[SLOTS];
  uint64_t dice = 1;
  memset(blocks, 0, sizeof blocks);
  for (size_t i = 0; i < some_of(TURNS); i++) {
    size_t at = below(&dice, SLOTS);
    if (!owned->stays && i % TURNS_TO_RESET == 0) {
      pool_heap_reset(owned->heap);
      memset(blocks, 0, sizeof blocks);
    }
    if (!blocks[at]) {
      sizes[at] = 1 + below(&dice, 500);
      must((blocks[at] = pool_heap_alloc(owned->heap, sizes[at])) != NULL);
      memset(blocks[at], (int)(at % 251), sizes[at]);
      continue;
    }
    for (size_t k = 0; k < sizes[at]; k += 16)
      must(blocks[at][k] == at % 251);
    pool_heap_free(owned->heap, blocks[at]);
    blocks[at] = NULL;
  }
}

static void asks(const owned_t *owned)
{
  size_t size = 0;
  must(pool_stats_json(text, sizeof text) < sizeof text);
  if (!owned->stays)
    return;
  for (size_t i = 0; i < STAYS; i += 100) {
    must(pool_in_use(owned->stays + i) && pool_heap_of(owned->stays + i) == owned->heap);
    must(pool_block_start(owned->stays + i, &size) == owned->stays && size >= STAYS && size < STAYS + 100);
  }
}

static void owns_or_asks(size_t index, void *argument)
{
  owned_t *owned = argument;
  if (index == 0) {
    owns(owned);
    __atomic_store_n(&owned->is_done, true, __ATOMIC_RELAXED);
  } else
    while (!__atomic_load_n(&owned->is_done, __ATOMIC_RELAXED))
      asks(owned);
}

static void a_heap_of_one_thread_is_asked_about(void **state)
{
  (void)state;
  for (unsigned way = 0; way < 8; way++) {
    unsigned flags = way & 4 ? POOL_HEAP_SINGLE_THREAD | POOL_HEAP_CHECKED : POOL_HEAP_SINGLE_THREAD;
    owned_t owned = {.heap = way & 1 ? heap_with((pool_heap_options_t){.budget = MOST, .flags = flags})
                                     : heap_with((pool_heap_options_t){.memory = buffer, .memory_size = MOST, .flags = flags})};
    owned.stays = way & 2 ? pool_heap_alloc(owned.heap, STAYS) : NULL;
    run_threads(2, owns_or_asks, &owned);
    assert_true(check_heap(owned.heap));
    pool_heap_destroy(owned.heap);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_heap_of_one_thread_is_asked_about),
  };
  return cmocka_run_group_tests_name("small_asked", tests, NULL, NULL);
}
