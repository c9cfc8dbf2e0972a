/* SPDX-License-Identifier: MIT
 * POOL_HEAP_ZERO_ON_FREE with all flags and options that are accepted together: blocks are filled with a mark, everything that
 * ends or shrinks a block is done to them, and then the mark is looked for in all memory of the process. */
#include "heaps.h"
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <tidepool/object_pool.h>
#include <unistd.h>

enum { PAGE_INFO_AT_ONCE = 512, SEARCHED_MOST_LOG2 = 37 };

/* The mark is in no memory of the program's own: it is put together where it is needed. */
static volatile uint32_t mark_halves[] = {0x4b524d53, 0xf0ad7e11};
static inline uint64_t mark(void) { return (uint64_t)mark_halves[0] << 32 | mark_halves[1]; }

static void fill(void *block, size_t size)
{
  volatile uint64_t *words = block;
  for (size_t i = 0; i < size / sizeof *words; i++)
    words[i] = mark();
}

/* The compiler may leave out what it writes to a block that is about to be freed. */
static void clear(void *block, size_t size)
{
  memset(block, 0, size);
  __asm__ volatile("" : : "r"(block) : "memory");
}

/* ---- the search ---- */

static struct {
  int memory, pages;
  uint64_t buffer[4096 * 16 / sizeof(uint64_t)], entries[PAGE_INFO_AT_ONCE];
  size_t found;
  uintptr_t first;
} search;

static void search_bytes(uintptr_t at, size_t size)
{
  ssize_t got = pread(search.memory, search.buffer, size, (off_t)at);
  uint64_t wanted = mark();
  for (size_t i = 0; got > 0 && i < (size_t)got / sizeof wanted; i++) {
    uintptr_t place = at + i * sizeof wanted;
    if (search.buffer[i] != wanted || place - (uintptr_t)&search < sizeof search)
      continue;
    if (!search.found++)
      search.first = place;
  }
  memset(search.buffer, 0, size);
}

/* Only of pages that are in memory; what is read may be inaccessible to the program. */
static void search_mapping(uintptr_t start, uintptr_t end)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (uintptr_t at = start; at < end;) {
    size_t count = min_size((end - at) / page, PAGE_INFO_AT_ONCE);
    must(pread(search.pages, search.entries, count * 8, (off_t)(at / page * 8)) == (ssize_t)(count * 8));
    for (size_t i = 0; i < count; i++, at += page)
      for (size_t part = 0; search.entries[i] >> 62 && part < page; part += min_size(page, sizeof search.buffer))
        search_bytes(at + part, min_size(page, sizeof search.buffer));
  }
}

/* Returns how often the mark is in memory that the program may have written to. The stack has what the compiler has put aside.
 */
static size_t marks_in_memory(void)
{
  char line[512];
  uintptr_t start = 0, end = 0;
  bool is_wanted = false;
  FILE *maps = fopen("/proc/self/smaps", "re");
  must(maps);
  search.found = 0;
  while (fgets(line, sizeof line, maps)) {
    char permissions[8], path[256] = "";
    unsigned long inode, bytes;
    uintptr_t from, to;
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %*s %*s %lu %255s", &from, &to, permissions, &inode, path) >= 4) {
      start = from;
      end = to;
      is_wanted = (!inode || permissions[1] == 'w') && strncmp(path, "[stack", 6) != 0 && strncmp(path, "[v", 2) != 0 &&
                  (end - start) >> SEARCHED_MOST_LOG2 == 0;
    } else if (is_wanted && sscanf(line, "Rss: %lu kB", &bytes) == 1 && bytes)
      search_mapping(start, end);
  }
  fclose(maps);
  return search.found;
}

static void is_clean(const pool_heap_options_t *o, const char *when)
{
  size_t found = marks_in_memory();
  if (found)
    fprintf(stderr, "flags %x, budget %zu, reserve %zu, memory %zu, %zu classes%s%s: %zu marks %s, the first at %#zx\n",
            o->flags, o->budget, o->reserve, o->memory_size, o->size_class_count, o->parent ? ", a parent" : "",
            o->overflow ? ", an overflow" : "", found, when, (size_t)search.first);
  must(!found);
}

/* ---- a heap's life ---- */

static const size_t sizes[] = {16, 60, 100, 1000, 6000, 20000, 90000};
static const size_t alignments[] = {64, 4096, 1 << 16};
enum { SIZES = COUNT_OF(sizes), ALIGNMENTS = COUNT_OF(alignments), KEPT_MOST = 8 * SIZES };

/* Blocks that stay live. */
typedef struct kept {
  pool_heap_t *heap;
  size_t count;
  struct {
    char *block;
    size_t size;
  } of[KEPT_MOST];
} kept_t;

/* What the program has of it is cleared, and nothing else. */
static void keep(kept_t *kept, char *block, size_t size)
{
  clear(block, size);
  must(kept->count < KEPT_MOST);
  kept->of[kept->count].block = block;
  kept->of[kept->count++].size = size;
}

static char *marked(char *block)
{
  if (block)
    fill(block, pool_usable_size(block));
  return block;
}

/* NULL: there is no room, or no size, and the block is freed. */
static char *resized(pool_heap_t *heap, char *block, size_t size)
{
  char *to = block ? pool_heap_realloc(heap, block, size) : NULL;
  if (block && size && !to)
    pool_heap_free(heap, block);
  return to;
}

static void free_and_resize(kept_t *kept)
{
  pool_heap_t *heap = kept->heap;
  for (size_t i = 0; i < SIZES; i++) {
    size_t s = sizes[i];
    pool_heap_free(heap, marked(pool_heap_alloc(heap, s)));
    pool_free(marked(pool_heap_zalloc(heap, s)));
    pool_heap_free(heap, marked(resized(heap, marked(pool_heap_alloc(heap, s)), s + s / 10)));
    pool_heap_free(heap, marked(resized(heap, marked(pool_heap_alloc(heap, s)), 2 * s)));
    pool_heap_free(heap, resized(heap, marked(pool_heap_alloc(heap, s)), s / 3));
    resized(heap, marked(pool_heap_alloc(heap, s)), 0);
    for (size_t a = 0; a < ALIGNMENTS; a++) {
      pool_heap_free(heap, marked(pool_heap_aligned_alloc(heap, alignments[a], s)));
      pool_heap_free(heap, resized(heap, marked(pool_heap_aligned_alloc(heap, alignments[a], s)), s / 3));
      pool_heap_free(heap, marked(resized(heap, marked(pool_heap_aligned_alloc(heap, alignments[a], s)), 3 * s)));
    }
    for (size_t part = 1; part < 20; part *= 4) { /* it stays where it is, or moves */
      char *block = resized(heap, marked(pool_heap_alloc(heap, s)), s - s / 20 * part);
      if (block)
        keep(kept, block, s - s / 20 * part);
    }
  }
}

/* Of a mapping only some parts are written to. A heap with heads copies all of it, so one is enough. */
static void use_mapping(pool_heap_t *heap, const pool_heap_options_t *o)
{
  enum { SIZE = 40 << 20, PART = 8192 };
  bool is_cheap = !heap_is_headed(heap) || (o->flags == (POOL_HEAP_ZERO_ON_FREE | POOL_HEAP_SITES) && !o->reserve);
  char *block = is_cheap ? pool_heap_alloc(heap, SIZE) : NULL;
  if (!block)
    return;
  fill(block, PART);
  fill(block + SIZE / 2, PART);
  fill(block + SIZE - PART, PART);
  must(block = pool_heap_realloc(heap, block, 2 * (size_t)SIZE));
  fill(block + 2 * (size_t)SIZE - PART, PART);
  must(block = pool_heap_realloc(heap, block, SIZE / 3));
  clear(block, PART);
  is_clean(o, "after a mapping became smaller");
  fill(block, PART);
  pool_heap_free(heap, block);
}

/* Then a block that becomes smaller stays where it is. */
static void shrink_in_full_heap(kept_t *kept, const pool_heap_options_t *o)
{
  pool_heap_t *heap = kept->heap;
  char *blocks[SIZES][2];
  list_t filler = {0};
  for (size_t i = 0; i < SIZES; i++)
    for (size_t k = 0; k < 2; k++)
      blocks[i][k] = marked(pool_heap_alloc(heap, sizes[i]));
  pool_heap_trim(heap, 0);
  if (!o->memory && !o->overflow)
    must(pool_heap_set_budget(heap, stats_of(heap).held_bytes) || true);
  if (!o->overflow && heap->budget.limit + o->memory_size)
    for (size_t size = 1 << 20; size >= 16; size /= 2)
      list_exhaust(&filler, heap, size);
  for (size_t i = 0; i < SIZES; i++) {
    blocks[i][0] = resized(heap, blocks[i][0], sizes[i] / 3);
    blocks[i][1] = resized(heap, resized(heap, blocks[i][1], sizes[i] / 3), 8);
    if (blocks[i][0])
      keep(kept, blocks[i][0], sizes[i] / 3);
    pool_heap_free(heap, blocks[i][1]);
  }
  must(pool_heap_set_budget(heap, o->budget));
  list_free(&filler, heap);
}

/* What an object pool has is what its heap has: arrays, which end with it. */
static void use_objects(pool_heap_t *heap, bool ends)
{
  object_pool_t *pool =
    object_pool_create(&(object_pool_options_t){.heap = heap, .object_size = 200, .capacity = 10, .max_capacity = 100});
  for (int i = 0; pool && i < 30; i++) {
    void *object = object_pool_get(pool);
    if (object)
      fill(object, 200);
    if (object && i % 3 == 0)
      object_pool_put(pool, object);
  }
  if (ends)
    object_pool_destroy(pool);
}

static void fill_kept(kept_t *kept)
{
  for (size_t i = 0; i < kept->count; i++)
    marked(kept->of[i].block);
}

static void live(pool_heap_t *heap, const pool_heap_options_t *o)
{
  kept_t kept = {.heap = heap};
  use_mapping(heap, o);
  free_and_resize(&kept);
  use_objects(heap, true);
  is_clean(o, "after what ends or shrinks a block");
  shrink_in_full_heap(&kept, o);
  is_clean(o, "after blocks became smaller in a full heap");
  fill_kept(&kept);
  use_objects(heap, false);
  pool_heap_reset(heap);
  if (o->overflow)
    pool_heap_reset(o->overflow);
  is_clean(o, "after a reset");
  for (size_t i = 0; i < SIZES; i++)
    marked(resized(heap, marked(pool_heap_alloc(heap, sizes[i])), sizes[i] / 2));
  use_objects(heap, false);
  pool_heap_destroy(heap);
  if (o->overflow)
    pool_heap_reset(o->overflow);
  is_clean(o, "after the end of the heap");
}

/* ---- all kinds ---- */

static size_t lives;

static void try(pool_heap_options_t o, unsigned flags)
{
  o.flags = flags | POOL_HEAP_ZERO_ON_FREE;
  pool_heap_t *heap = pool_heap_create(&o);
  if (!heap)
    return;
  live(heap, &o);
  lives++;
}

/* Each two of them, and all but one; in the suite long each set. */
static void all_flags(pool_heap_options_t o)
{
  static const unsigned flags = POOL_HEAP_DENSE << 1;
  for (unsigned set = 0; set < flags; set++) {
    int count = __builtin_popcount(set | POOL_HEAP_ZERO_ON_FREE) - 1, most = __builtin_popcount(flags - 1) - 1;
    if (!(set & POOL_HEAP_ZERO_ON_FREE) && (is_long() || count <= 2 || count >= most - 1))
      try(o, set);
  }
}

static const size_t classes[] = {64, 1024, 8192};

static void set_aside(size_t size, bool has_classes)
{
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  must(memory != MAP_FAILED);
  all_flags((pool_heap_options_t){.memory = memory, .memory_size = size});
  if (has_classes)
    all_flags((pool_heap_options_t){.memory = memory, .memory_size = size, .size_classes = classes, .size_class_count = 3});
  munmap(memory, size);
}

static void in_memory(void **state)
{
  (void)state;
  lives = 0;
  set_aside(64 << 10, true);
  set_aside(1 << 20, false);
  set_aside(9 << 20, false);
  assert_true(lives >= some_of(64));
}

static void with_budgets(void **state)
{
  (void)state;
  static const size_t budgets[] = {0, 64 << 10, 1 << 20, 8 << 20};
  lives = 0;
  for (size_t i = 0; i < COUNT_OF(budgets); i++)
    all_flags((pool_heap_options_t){.budget = budgets[i]});
  all_flags((pool_heap_options_t){.size_classes = classes, .size_class_count = 3});
  all_flags((pool_heap_options_t){.budget = 1 << 20, .size_classes = classes, .size_class_count = 3});
  assert_true(lives >= some_of(100));
}

static void with_reserves(void **state)
{
  (void)state;
  lives = 0;
  all_flags((pool_heap_options_t){.reserve = 1 << 20});
  all_flags((pool_heap_options_t){.reserve = 1 << 20, .budget = 4 << 20});
  all_flags((pool_heap_options_t){.reserve = 9 << 20});
  assert_true(lives >= some_of(50));
}

static void among_others(void **state)
{
  (void)state;
  pool_heap_t *parent = heap_with_budget(20 << 20),
              *overflow = heap_with((pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE});
  lives = 0;
  all_flags((pool_heap_options_t){.parent = parent});
  all_flags((pool_heap_options_t){.parent = parent, .budget = 1 << 20});
  all_flags((pool_heap_options_t){.overflow = overflow, .budget = 100 << 10});
  assert_true(lives >= some_of(30));
  pool_heap_destroy(parent);
  pool_heap_destroy(overflow);
}

/* A mark that is left is found. */
static void the_search_finds(void **state)
{
  (void)state;
  static _Alignas(uint64_t) char memory[64 << 10];
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  uint64_t *block = pool_heap_alloc(heap, 100);
  assert_int_equal(marks_in_memory(), 0);
  fill(block, 24);
  assert_int_equal(marks_in_memory(), 3);
  fill(memory, sizeof memory);
  assert_int_equal(marks_in_memory(), 3 + sizeof memory / sizeof(uint64_t));
  clear(block, 24);
  clear(memory, sizeof memory);
  assert_int_equal(marks_in_memory(), 0);
  pool_heap_destroy(heap);
}

static int open_memory(void **state)
{
  (void)state;
  search.memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  search.pages = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  return search.memory < 0 || search.pages < 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_search_finds), cmocka_unit_test(in_memory),    cmocka_unit_test(with_budgets),
    cmocka_unit_test(with_reserves),    cmocka_unit_test(among_others),
  };
  return cmocka_run_group_tests_name("wiped", tests, open_memory, NULL);
}
