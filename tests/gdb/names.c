/* SPDX-License-Identifier: MIT
 *
 * A program with the library's names for things of its own: of variables, types, and functions in the library's files. With a
 * shared library (SHARED) all of them can be the program's too. Linked with the archive, those must be static that are not
 * static there. Each name that tools/gdb looks for is here, says test_gdb.py. */
#include <stdio.h>
#include <tidepool.h>

#ifdef SHARED
#define OWN
#else
#define OWN static
#endif

typedef struct head {
  int x;
} head_t;
typedef struct huge_standalone {
  char x[3];
} huge_standalone_t;
typedef int heap_t, bin_t, huge_t;
struct pool_heap {
  int own;
};
struct object_pool {
  float own;
};

head_t head_of_own;
huge_standalone_t apart_of_own;
heap_t heap_of_own;
bin_t bin_of_own;
huge_t huge_of_own;
struct pool_heap own_heap;
struct object_pool own_pool;

int live = 5, guarded = 8, sampled = 9, chunks = 10;
static int lost = 3, taken = 4;
OWN int all_pools = 7, default_heap = 11, class_window = 12, space_slots = 13, huge_ranges = 14;
OWN int manager_bring_up(void);
OWN int threads_first(void);
OWN int head_look(void);
OWN int manager_bring_up(void) { return live + lost; }
OWN int threads_first(void) { return taken + default_heap; }
OWN int head_look(void) { return class_window + space_slots + huge_ranges + all_pools + manager_bring_up() + threads_first(); }

pool_heap_t *plain, *checked;
const void *told[5];

void stopped(void);
__attribute__((noinline)) void stopped(void) { __asm__ volatile("" ::: "memory"); }

int main(void)
{
  plain = pool_heap_create(&(pool_heap_options_t){.name = "plain heap"});
  checked = pool_heap_create(&(pool_heap_options_t){.name = "checked heap", .flags = POOL_HEAP_CHECKED});
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){.name = "objects", .object_size = 48, .capacity = 10});
  pool_heap_t *guarded_heap = pool_heap_create(&(pool_heap_options_t){.name = "guarded", .flags = POOL_HEAP_GUARDED});
  void *block = pool_heap_alloc(checked, 50);
  void *freed = pool_heap_alloc(plain, 100), *apart = pool_heap_alloc(guarded_heap, 70), *object = object_pool_get(pool),
       *huge = pool_alloc(300 << 20);
  pool_heap_free(plain, freed);
  const void *const all[] = {block, freed, apart, huge, object};
  static const char *const what[] = {"live, .*, 50 bytes, of heap \"checked heap\"",
                                     "freed, in a magazine, .*, 112 bytes, of heap \"plain heap\"",
                                     "live, in pages of its own, 70 bytes, of heap \"guarded\"",
                                     "live, a mapping of its own, .* of the default heap", "live, .* of the default heap"};
  for (size_t i = 0; i < 5; i++) {
    told[i] = all[i];
    printf("where %p %s\n", all[i], what[i]);
  }
  fflush(stdout);
  stopped();
  return head_look() == 0;
}
