/* SPDX-License-Identifier: MIT
 *
 * What the profile embedded promises, on a board of 64 KiB of RAM: heaps and object pools that are filled, replaced, run out of
 * memory, walked and reset, under a lock that counts. It is compiled for an emulated board, which says its lines by
 * semihosting, and for the machine that builds. What its library is built without (HAS_...) has to be refused. The last line is
 * a misuse, which has to end it. */
#include <tidepool/embedded.h>
#include <tidepool/heap.h>
#include <tidepool/object_pool.h>
#include <tidepool/stats.h>

#if __STDC_HOSTED__ && defined __linux__
#include <stdio.h>
#include <stdlib.h>
static void board_say(const char *text) { fputs(text, stdout); }
#define board_end(status) exit(status)
#else
#include "board.h"
#endif

enum { MEMORY = 40 << 10, BUDGET = 30 << 10, MOST = 200, MESSAGES = 48, ROUNDS = 2000, NO_MEMORY = 12, WRONG = 22 };

static _Alignas(64) unsigned char memory[MEMORY];
static unsigned char *blocks[MOST];
static size_t sizes[MOST];

/* ---- the lock: it nests, and is open whenever the program runs ---- */

static unsigned locks, locked;

void pool_embedded_lock(void)
{
  locks++;
  locked++;
}

void pool_embedded_unlock(void) { locks--; }

/* ---- words ---- */

static void say_number(size_t number)
{
  char digits[24], *at = digits + sizeof digits - 1;
  *at = 0;
  do
    *--at = (char)('0' + number % 10);
  while (number /= 10);
  board_say(at);
}

static void say(const char *what, size_t number)
{
  board_say(what);
  board_say(" ");
  say_number(number);
  board_say("\n");
}

static void must_hold(bool holds, unsigned line)
{
  if (holds && !locks)
    return;
  say("FAILED in line", line);
  board_end(1);
}
#define must(condition) must_hold(condition, __LINE__)

static bool misuse_is_expected;

static bool is_same(const char *a, const char *b)
{
  while (*a && *a == *b)
    a++, b++;
  return *a == *b;
}

void pool_embedded_abort(const char *call, const void *address, const char *what)
{
  board_say(call);
  board_say(": ");
  board_say(what);
  board_say("\n");
  must_hold(misuse_is_expected && address == blocks[0] && is_same(call, "pool_heap_free") && is_same(what, "freed twice"), 0);
  board_say("all is well\n");
  board_end(0);
  for (;;) {}
}

/* ---- heaps ---- */

static uint32_t rolled = 1;
static size_t roll(size_t below)
{
  rolled = rolled * 1664525u + 1013904223u;
  return (rolled >> 8) % below;
}

static bool take(pool_heap_t *heap, size_t i, size_t size)
{
  blocks[i] = pool_heap_alloc(heap, size);
  sizes[i] = size;
  for (size_t k = 0; blocks[i] && k < size; k++)
    blocks[i][k] = (unsigned char)i;
  return blocks[i];
}

static void check(size_t i)
{
  must((uintptr_t)blocks[i] % 16 == 0 && blocks[i] >= memory && blocks[i] + sizes[i] <= memory + MEMORY);
  for (size_t k = 0; k < sizes[i]; k++)
    must(blocks[i][k] == (unsigned char)i);
}

static size_t fill(pool_heap_t *heap)
{
  size_t count = 0;
  pool_stats_t stats;
  while (count < MOST && take(heap, count, 8 + roll(300)))
    count++;
  must(count > 60 && count < MOST && pool_embedded_errno == NO_MEMORY);
  must(pool_heap_stats(heap, &stats) && stats.live_blocks == count && stats.held_bytes <= BUDGET && stats.exhausted_count > 0);
  for (size_t i = 0; i < count; i++)
    check(i);
  return count;
}

static void replace(pool_heap_t *heap, size_t count)
{
  size_t refused = 0;
  for (size_t round = 0; round < ROUNDS; round++) {
    size_t i = roll(count), size = 8 + roll(300);
    if (blocks[i]) {
      check(i);
      pool_heap_free(heap, blocks[i]);
      blocks[i] = NULL;
    }
    refused += !take(heap, i, size);
  }
  must(refused < ROUNDS / 2);
  say("replaced; refused", refused);
}

typedef struct visited {
  size_t blocks, known;
} visited_t;

static bool visit(const pool_block_t *block, void *context)
{
  visited_t *visited = context;
  visited->blocks++;
  for (size_t i = 0; i < MOST; i++)
    visited->known += blocks[i] && blocks[i] == block->start && block->size >= sizes[i];
  return true;
}

static void walk(pool_heap_t *heap)
{
  visited_t visited = {0, 0};
  pool_stats_t stats;
  must(pool_heap_walk(heap, visit, &visited) && pool_heap_stats(heap, &stats));
  must(visited.blocks == stats.live_blocks && visited.known == visited.blocks && visited.blocks > 0);
  say("walked", visited.blocks);
}

static unsigned calls_back;
static bool free_one(pool_heap_t *heap, size_t bytes, unsigned attempt, void *context)
{
  (void)bytes, (void)context, (void)attempt;
  calls_back++;
  for (size_t i = 0; i < MOST; i++)
    if (blocks[i]) {
      pool_heap_free(heap, blocks[i]);
      blocks[i] = NULL;
      return true;
    }
  return false;
}

static void forget(void)
{
  for (size_t i = 0; i < MOST; i++)
    blocks[i] = NULL;
}

/* The call before was to make what the library is built without. */
static bool is_refused(const void *made, const char *why)
{
  return !made && pool_embedded_errno == WRONG && is_same(pool_error(), why);
}

static void test_heaps(void)
{
  pool_heap_options_t options = {
    .name = "test", .memory = memory, .memory_size = MEMORY, .budget = BUDGET, .flags = POOL_HEAP_PREFAULT};
  must(!pool_heap_create(NULL) && pool_embedded_errno == WRONG && pool_error()[0] == 'm');
  must(!pool_heap_create(&(pool_heap_options_t){.memory = memory, .memory_size = 100}));
  must(!pool_heap_create(&(pool_heap_options_t){
         .memory = memory, .memory_size = MEMORY, .size_classes = (size_t[]){16}, .size_class_count = 1}) &&
       is_refused(NULL, "the library is built without size_classes"));
  pool_heap_t *heap = pool_heap_create(&options);
  must(heap && pool_heap_name(heap)[0] == 't' && !pool_heap_default());
  size_t count = fill(heap);
  say("filled", count);
  must(pool_usable_size(NULL) == 0 && !pool_in_use(NULL) && !pool_block_start(NULL, NULL) && !pool_heap_of(NULL));
  must(!pool_resize_in_place(NULL, 10));
  pool_heap_free(heap, NULL);
  must(pool_usable_size(blocks[3]) >= sizes[3]);
  must(pool_in_use(blocks[3]) && pool_block_start(blocks[3] + 1, NULL) == blocks[3] && pool_heap_of(blocks[3]) == heap);
  must(!pool_in_use(&options) && !pool_heap_of(&options));
  replace(heap, count);
  walk(heap);
  pool_heap_reset(heap);
  forget();
  pool_stats_t stats;
  must(pool_heap_stats(heap, &stats) && stats.live_blocks == 0);
  must(fill(heap) == count || count > 60);
  /* A block grows and becomes smaller, and keeps what it had. */
  pool_heap_reset(heap);
  forget();
  must(take(heap, 0, 100));
  blocks[0] = pool_heap_realloc(heap, blocks[0], 5000);
  must(blocks[0]);
  check(0);
  blocks[0] = pool_heap_realloc(heap, blocks[0], 10);
  sizes[0] = 10;
  must(blocks[0]);
  check(0);
  unsigned char *zeroed = pool_heap_calloc(heap, 10, 10);
  for (size_t i = 0; i < 100; i++)
    must(zeroed && !zeroed[i]);
  must((uintptr_t)pool_heap_aligned_alloc(heap, 64, 64) % 64 == 0);
  pool_heap_destroy(heap);
  forget();
  /* A callback makes room. */
  options.memory_size = MEMORY / 2, options.budget = 0, options.on_exhausted = free_one;
  heap = pool_heap_create(&options);
  must(heap);
  for (size_t i = 0; i < MOST; i++)
    must(take(heap, i, 200));
  must(calls_back > 0);
  say("callbacks", calls_back);
  forget();
  pool_heap_destroy(heap);
  board_say("heaps\n");
}

/* Another heap serves what the first has no room for. */
static void test_overflow_of_heaps(void)
{
  pool_heap_t *other = pool_heap_create(&(pool_heap_options_t){.memory = memory + MEMORY / 2, .memory_size = MEMORY / 2});
  pool_heap_t *heap = pool_heap_create(
    &(pool_heap_options_t){.memory = memory, .memory_size = MEMORY / 2, .overflow = other, .flags = POOL_HEAP_SINGLE_THREAD});
  must(other && (HAS_OVERFLOW ? heap != NULL : is_refused(heap, "the library is built without overflow")));
  size_t more = 0;
  pool_stats_t stats;
  while (heap && more < MOST && take(heap, more, 400))
    more++;
  must(pool_heap_stats(other, &stats) && (!heap || (stats.live_blocks > 10 && more > stats.live_blocks)));
  while (more)
    pool_heap_free(heap, blocks[--more]);
  pool_heap_destroy(heap);
  pool_heap_destroy(other);
  forget();
}

/* ---- object pools ---- */

typedef struct message {
  uint32_t id, made;
  unsigned char bytes[48];
} message_t;
OBJECT_POOL_DEFINE(messages, message_t);

static unsigned constructed, destructed, resets;
static bool construct(void *object, void *context)
{
  (void)context;
  ((message_t *)object)->made = 7;
  constructed++;
  must(true);
  return true;
}
static void reset(void *object, void *context)
{
  (void)context;
  must(((message_t *)object)->made == 7);
  resets++;
}
static void destruct(void *object, void *context)
{
  (void)object, (void)context;
  destructed++;
}

static void *oldest(object_pool_t *pool, void *context)
{
  (void)context;
  return object_pool_next(pool, NULL);
}

static void test_pool(pool_heap_t *heap, unsigned flags, bool hooks)
{
  message_t *objects[MESSAGES];
  object_pool_options_t options = {.name = "messages", .capacity = MESSAGES, .heap = heap, .flags = flags};
  if (hooks)
    options.construct = construct, options.reset = reset, options.destruct = destruct;
  constructed = destructed = resets = 0;
  messages_t *pool = messages_create(&options);
  if (hooks && !HAS_HOOKS) {
    must(is_refused(pool, "the library is built without hooks"));
    return;
  }
  if (flags & OBJECT_POOL_CHECKED && !HAS_CHECKS) {
    must(is_refused(pool, "the library is built without checks"));
    return;
  }
  must(pool);
  for (unsigned round = 0; round < 3; round++) {
    for (uint32_t i = 0; i < MESSAGES; i++) {
      objects[i] = messages_get(pool);
      must(objects[i] && messages_in_use(pool, objects[i]) && (!hooks || objects[i]->made == 7));
      objects[i]->id = i;
    }
    must(!messages_get(pool) && pool_embedded_errno == NO_MEMORY && messages_live(pool) == MESSAGES);
    object_pool_handle_t handle = messages_handle(pool, objects[5]);
    must(messages_resolve(pool, handle) == objects[5]);
    messages_put(pool, objects[5]);
    must(!messages_resolve(pool, handle) && !messages_in_use(pool, objects[5]));
    uint32_t walked = 0;
    for (message_t *at = NULL; (at = messages_next(pool, at)) != NULL; walked++)
      must(at->id < MESSAGES && objects[at->id] == at);
    must(walked == MESSAGES - 1);
    if (round == 1)
      messages_put_all(pool);
    else
      for (uint32_t i = 0; i < MESSAGES; i++)
        if (i != 5)
          messages_put(pool, objects[i]);
    must(messages_live(pool) == 0);
  }
  must(!hooks || (constructed == MESSAGES && resets > MESSAGES));
  messages_destroy(pool);
  must(!hooks || destructed == MESSAGES);
}

static void test_growth(pool_heap_t *heap)
{
  void *objects[100];
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){
    .object_size = 40, .capacity = 8, .max_capacity = 100, .when_full = OBJECT_POOL_GROW, .heap = heap});
  if (!HAS_GROWTH) {
    must(is_refused(pool, "the library is built without growth"));
    return;
  }
  must(pool && object_pool_get_batch(pool, objects, 100) == 100 && !object_pool_get(pool));
  must(object_pool_capacity(pool) == 100);
  object_pool_put_batch(pool, objects, 100);
  must(object_pool_shrink(pool, 8) == 8);
  object_pool_destroy(pool);
}

static void test_overflow_of_pools(pool_heap_t *heap)
{
  void *objects[10];
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.object_size = 40, .capacity = 8, .heap = heap});
  object_pool_t *other = object_pool_create(&(object_pool_options_t){
    .object_size = 40, .capacity = 4, .when_full = OBJECT_POOL_OVERFLOW, .overflow = pool, .heap = heap});
  must(pool && (HAS_OVERFLOW ? other != NULL : is_refused(other, "the library is built without overflow")));
  if (other) {
    must(object_pool_get_batch(other, objects, 10) == 10 && object_pool_live(pool) == 6);
    object_pool_put_batch(other, objects, 10);
    object_pool_destroy(other);
  }
  object_pool_destroy(pool);
}

static void test_eviction(pool_heap_t *heap)
{
  void *objects[4];
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){
    .object_size = 24, .capacity = 4, .when_full = OBJECT_POOL_EVICT, .choose_victim = oldest, .heap = heap});
  if (!HAS_EVICTION) {
    must(is_refused(pool, "the library is built without eviction"));
    return;
  }
  must(pool && object_pool_get_batch(pool, objects, 4) == 4);
  object_pool_handle_t handle = object_pool_handle(pool, objects[0]);
  must(object_pool_get(pool) == objects[0] && !object_pool_resolve(pool, handle));
}

static void test_policies(pool_heap_t *heap)
{
  test_growth(heap);
  test_overflow_of_pools(heap);
  test_eviction(heap);
  must(!object_pool_create(&(object_pool_options_t){.object_size = 24, .capacity = 4}) && pool_embedded_errno == WRONG);
  must(!object_pool_create(&(object_pool_options_t){.object_size = 24, .capacity = 4000, .heap = heap}));
}

static void test_object_pools(void)
{
  pool_heap_t *heap = pool_heap_create(&(pool_heap_options_t){.memory = memory, .memory_size = MEMORY, .budget = BUDGET});
  must(heap);
  test_pool(heap, 0, false);
  test_pool(heap, OBJECT_POOL_SINGLE_THREAD, false);
  test_pool(heap, 0, true);
  test_pool(heap, OBJECT_POOL_SINGLE_THREAD, true);
  test_policies(heap);
  pool_heap_reset(heap);
  pool_stats_t stats;
  must(pool_heap_stats(heap, &stats) && stats.live_blocks == 0);
  test_pool(heap, OBJECT_POOL_CHECKED, false);
  pool_heap_destroy(heap);
  board_say("object pools\n");
}

int main(void)
{
  test_heaps();
  test_overflow_of_heaps();
  test_object_pools();
  must(locked > 1000);
  pool_heap_options_t options = {.memory = memory, .memory_size = MEMORY, .flags = POOL_HEAP_CHECKED};
  if (!HAS_CHECKS) {
    must(is_refused(pool_heap_create(&options), "the library is built without checks"));
    options.flags = 0;
  }
  pool_heap_t *heap = pool_heap_create(&options);
  must(heap && take(heap, 0, 100));
  pool_heap_free(heap, blocks[0]);
  misuse_is_expected = true;
  pool_heap_free(heap, blocks[0]);
  board_say("FAILED: a second free was not seen\n");
  return 1;
}
