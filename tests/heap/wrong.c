/* SPDX-License-Identifier: MIT
 * tests/heap/errors.py compares this table with the headers and with the library's texts. */
#include "wrong.h"
#include "heaps.h"
#include <tidepool/object_pool.h>
#include <tidepool/stats.h>

static char buffer[64 << 10];
static const size_t not_multiple[] = {16, 40}, zero[] = {0}, descending[] = {64, 32}, large[] = {300000}, largest[] = {262144};
static void *objects[2];

static pool_heap_t *heap_of(pool_heap_options_t options) { return pool_heap_create(&options); }
static bool pool_of(object_pool_options_t options)
{
  object_pool_t *pool = object_pool_create(&options);
  object_pool_destroy(pool);
  return pool != NULL;
}

/* A pool to overflow to, and one that the options would make in front of it. */
static bool pool_before(object_pool_options_t of_other, object_pool_options_t options)
{
  object_pool_t *other = object_pool_create(&of_other);
  options.when_full = OBJECT_POOL_OVERFLOW;
  options.overflow = other;
  errno = 0;
  bool made = pool_of(options);
  int error = errno;
  object_pool_destroy(other);
  errno = error;
  return made;
}

static bool pool_before_a_dead_one(void)
{
  pool_heap_t *heap = heap_with((pool_heap_options_t){.name = "of a pool that ends"});
  object_pool_t *other = object_pool_create(&(object_pool_options_t){.object_size = 8, .capacity = 8, .heap = heap});
  object_pool_destroy(other);
  bool made =
    pool_of((object_pool_options_t){.object_size = 8, .capacity = 8, .when_full = OBJECT_POOL_OVERFLOW, .overflow = other});
  int error = errno;
  pool_heap_destroy(heap);
  errno = error;
  return made;
}

static bool pool_that_grows_in_a_heap_of_one_thread(void)
{
  pool_heap_t *heap = heap_with((pool_heap_options_t){.flags = POOL_HEAP_SINGLE_THREAD});
  bool made = pool_of((object_pool_options_t){.object_size = 8, .when_full = OBJECT_POOL_GROW, .heap = heap});
  int error = errno;
  pool_heap_destroy(heap);
  errno = error;
  return made;
}

/* A struct of a header to come, with a field behind all that this library knows. */
static bool newer_heap(void)
{
  struct {
    pool_heap_options_t options;
    size_t more[2];
  } newer = {.more = {0, 1}};
  return pool_heap_create_sized(&newer.options, sizeof newer);
}

static bool newer_pool(void)
{
  struct {
    object_pool_options_t options;
    size_t more[2];
  } newer = {.options = {.object_size = 8, .capacity = 8}, .more = {0, 1}};
  return object_pool_create_sized(&newer.options, sizeof newer);
}

static bool reset_of_nothing(void)
{
  pool_heap_reset(NULL);
  return false;
}
static bool free_of_nothing(void)
{
  pool_heap_free(NULL, buffer);
  return false;
}
static bool put_of_nothing(void)
{
  object_pool_put(NULL, buffer);
  return false;
}
static bool put_batch_of_nothing(void)
{
  object_pool_put_batch(NULL, objects, 2);
  return false;
}
static bool put_all_of_nothing(void)
{
  object_pool_put_all(NULL);
  return false;
}

#define WAY(name, call) \
  static bool name(void) { return (call); }
#define HEAP(name, ...) WAY(name, heap_of((pool_heap_options_t){__VA_ARGS__}))
#define POOL(name, ...) WAY(name, pool_of((object_pool_options_t){__VA_ARGS__}))
#define BEFORE(name, other, ...) \
  WAY(name, pool_before((object_pool_options_t)OPTIONS other, (object_pool_options_t){__VA_ARGS__}))
#define OPTIONS(...) \
  { \
    __VA_ARGS__ \
  }

WAY(aligned_alloc_24, pool_aligned_alloc(24, 8))
WAY(aligned_alloc_0, pool_aligned_alloc(0, 8))
WAY(heap_alloc, pool_heap_alloc(NULL, 8))
WAY(heap_alloc_medium, pool_heap_alloc(NULL, 5000))
WAY(heap_zalloc, pool_heap_zalloc(NULL, 8))
WAY(heap_calloc, pool_heap_calloc(NULL, 8, 8))
WAY(heap_realloc, pool_heap_realloc(NULL, NULL, 8))
WAY(heap_aligned_alloc, pool_heap_aligned_alloc(NULL, 64, 8))
WAY(heap_aligned_alloc_48, pool_heap_aligned_alloc(pool_heap_default(), 48, 8))
WAY(good_size_of_null, pool_heap_good_size(NULL, 8))
WAY(heap_largest, pool_heap_largest(NULL))
WAY(heap_least_cut, pool_heap_least_memory_sized(&(pool_heap_options_t){0}, 24))

WAY(heap_trim, pool_heap_trim(NULL, 0))
WAY(heap_set_budget, pool_heap_set_budget(NULL, 8))
WAY(heap_name, pool_heap_name(NULL))
WAY(heap_walk, pool_heap_walk(NULL, visit_nothing, NULL))
WAY(heap_walk_of_nobody, pool_heap_walk(pool_heap_default(), NULL, NULL))
WAY(heap_report, pool_heap_report(NULL, 1))
WAY(heap_stats, pool_heap_stats(NULL, &(pool_stats_t){0}))
WAY(profile_of_few_bytes, pool_profile_start(((uint64_t)1 << 31) + 1))
WAY(heap_stats_to_nowhere, pool_heap_stats(pool_heap_default(), NULL))
WAY(heap_options_cut, pool_heap_create_sized(&(pool_heap_options_t){0}, 24))

HEAP(heap_flags, .flags = POOL_HEAP_CHECKED | 1 << 9)
HEAP(heap_guarded_in_memory, .flags = POOL_HEAP_GUARDED, .memory = buffer, .memory_size = sizeof buffer)
HEAP(heap_guarded_of_reserve, .flags = POOL_HEAP_GUARDED, .reserve = 4096)
HEAP(heap_memory_without_size, .memory = buffer)
HEAP(heap_size_without_memory, .memory_size = 4096)
HEAP(heap_memory_wraps, .memory = buffer, .memory_size = SIZE_MAX)
HEAP(heap_memory_small, .memory = buffer, .memory_size = 100)
HEAP(heap_memory_smaller_than_a_block, .memory = buffer, .memory_size = 3000, .size_classes = largest, .size_class_count = 1)
HEAP(heap_memory_with_reserve, .memory = buffer, .memory_size = sizeof buffer, .reserve = 4096)
HEAP(heap_memory_with_prefault, .memory = buffer, .memory_size = sizeof buffer, .flags = POOL_HEAP_PREFAULT)
HEAP(heap_memory_with_budget, .memory = buffer, .memory_size = sizeof buffer, .budget = 16)
HEAP(heap_dense, .budget = 9 << 20, .flags = POOL_HEAP_DENSE)
HEAP(heap_prefault, .flags = POOL_HEAP_PREFAULT)
HEAP(heap_lock_memory, .flags = POOL_HEAP_LOCK_MEMORY)
HEAP(heap_reserve_of_budget, .reserve = 2 << 20, .budget = 1 << 20)
HEAP(heap_reserve, .reserve = SIZE_MAX)
HEAP(heap_budget, .budget = 1)
HEAP(heap_purge_delay_of_memory, .memory = buffer, .memory_size = sizeof buffer, .purge_delay_ms = 5)
HEAP(heap_purge_delay, .purge_delay_ms = 7)
HEAP(heap_classes_null, .size_class_count = 3)
HEAP(heap_class_count_0, .size_classes = zero)
HEAP(heap_class_count, .size_classes = zero, .size_class_count = 105)
HEAP(heap_class_0, .size_classes = zero, .size_class_count = 1)
HEAP(heap_class_odd, .size_classes = not_multiple, .size_class_count = 2)
HEAP(heap_class_large, .size_classes = large, .size_class_count = 1)
HEAP(heap_class_order, .size_classes = descending, .size_class_count = 2)

WAY(get, object_pool_get(NULL))
WAY(get_batch, object_pool_get_batch(NULL, objects, 2))
WAY(in_use, object_pool_in_use(NULL, buffer))
WAY(next, object_pool_next(NULL, NULL))
WAY(live, object_pool_live(NULL))
WAY(capacity_of_nothing, object_pool_capacity(NULL))
WAY(shrink, object_pool_shrink(NULL, 0))
WAY(handle, object_pool_handle(NULL, buffer).index)
WAY(resolve, object_pool_resolve(NULL, (object_pool_handle_t){1, 1}))
WAY(pool_without_options, object_pool_create(NULL))
WAY(pool_options_cut, object_pool_create_sized(&(object_pool_options_t){.object_size = 8, .capacity = 8}, 24))
POOL(object_size_0, .capacity = 8)
POOL(object_size, .object_size = SIZE_MAX, .capacity = 8)
POOL(object_size_aligned, .object_size = PTRDIFF_MAX, .when_full = OBJECT_POOL_GROW)
POOL(alignment, .object_size = 8, .alignment = 12, .capacity = 8)
POOL(alignment_large, .object_size = 8, .alignment = (size_t)1 << (sizeof(size_t) * 8 - 1), .capacity = 8)
POOL(capacity, .object_size = 8, .capacity = UINT32_MAX)
POOL(capacity_bytes, .object_size = (size_t)1 << (sizeof(size_t) * 8 - 2), .capacity = 2)
POOL(capacity_0, .object_size = 8)
POOL(capacity_0_evicts, .object_size = 8, .when_full = OBJECT_POOL_EVICT)
POOL(max_capacity, .object_size = 8, .capacity = 20, .max_capacity = 10, .when_full = OBJECT_POOL_GROW)
POOL(pool_flags, .object_size = 8, .capacity = 8, .flags = OBJECT_POOL_CHECKED | 1 << 7)
POOL(when_full, .object_size = 8, .capacity = 8, .when_full = (object_pool_policy_t)17)
POOL(reset_time, .object_size = 8, .capacity = 8, .reset_time = (object_pool_reset_time_t)5)
POOL(no_victim, .object_size = 8, .capacity = 8, .when_full = OBJECT_POOL_EVICT)
POOL(no_overflow, .object_size = 8, .capacity = 8, .when_full = OBJECT_POOL_OVERFLOW)
POOL(overflow_unused, .object_size = 8, .capacity = 8, .when_full = OBJECT_POOL_EVICT, .overflow = (object_pool_t *)objects)
BEFORE(overflow_size, (.object_size = 16, .capacity = 8), .object_size = 8, .capacity = 8)
BEFORE(overflow_alignment, (.object_size = 64, .capacity = 8), .object_size = 64, .alignment = 64, .capacity = 8)
BEFORE(overflow_of_one_thread, (.object_size = 8, .capacity = 8, .flags = OBJECT_POOL_SINGLE_THREAD), .object_size = 8,
       .capacity = 8, .flags = OBJECT_POOL_CHECKED)
#if UINTPTR_MAX > UINT32_MAX
BEFORE(overflow_indices, (.object_size = 8, .capacity = 1000), .object_size = 8, .capacity = UINT32_MAX - 500)
#endif

WAY(option_without_key, pool_option_set(NULL, "1"))
WAY(option_without_value, pool_option_set("checked", NULL))
WAY(option_misspelt, pool_option_set("purge_delay", "1"))
WAY(option_unknown, pool_option_set("unheard of", "1"))
WAY(option_late, pool_option_set("checked", "1"))

const way_t ways[] = {
  {"pool_aligned_alloc", aligned_alloc_24, "alignment is 24, not a power of two"},
  {"pool_aligned_alloc", aligned_alloc_0, "alignment is 0, not a power of two"},
  {"pool_profile_start", profile_of_few_bytes, "sample_bytes is 2147483649, more than 2147483648"},
  {"pool_heap_alloc", heap_alloc, "heap is NULL in a call of pool_heap_alloc"},
  {"pool_heap_alloc", heap_alloc_medium, "heap is NULL in a call of pool_heap_alloc"},
  {"pool_heap_zalloc", heap_zalloc, "heap is NULL in a call of pool_heap_zalloc"},
  {"pool_heap_calloc", heap_calloc, "heap is NULL in a call of pool_heap_calloc"},
  {"pool_heap_realloc", heap_realloc, "heap is NULL in a call of pool_heap_realloc"},
  {"pool_heap_aligned_alloc", heap_aligned_alloc, "heap is NULL in a call of pool_heap_aligned_alloc"},
  {"pool_heap_aligned_alloc", heap_aligned_alloc_48, "alignment is 48, not a power of two"},
  {"pool_heap_largest", heap_largest, "heap is NULL in a call of pool_heap_largest"},
  {"pool_heap_least_memory_sized", heap_least_cut, "size is 24, less than the # bytes of the first pool_heap_options_t"},
  {"pool_heap_good_size", good_size_of_null, "heap is NULL in a call of pool_heap_good_size"},
  {"pool_heap_free", free_of_nothing, "heap is NULL in a call of pool_heap_free"},
  {"pool_heap_trim", heap_trim, "heap is NULL in a call of pool_heap_trim"},
  {"pool_heap_reset", reset_of_nothing, "heap is NULL in a call of pool_heap_reset"},
  {"pool_heap_set_budget", heap_set_budget, "heap is NULL in a call of pool_heap_set_budget"},
  {"pool_heap_name", heap_name, "heap is NULL in a call of pool_heap_name"},
  {"pool_heap_walk", heap_walk, "heap is NULL in a call of pool_heap_walk"},
  {"pool_heap_report", heap_report, "heap is NULL in a call of pool_heap_report"},
  {"pool_heap_walk", heap_walk_of_nobody, "visit is NULL in a call of pool_heap_walk"},
  {"pool_heap_stats", heap_stats, "heap is NULL in a call of pool_heap_stats"},
  {"pool_heap_stats", heap_stats_to_nowhere, "stats is NULL in a call of pool_heap_stats"},
  {"pool_heap_create_sized", heap_options_cut, "size is 24, less than the # bytes of the first pool_heap_options_t"},
  {"pool_heap_create_sized", newer_heap,
   "options set a field beyond the first # of # bytes, where the pool_heap_options_t of this library ends"},
  {"pool_heap_create", heap_flags, "flags is 0x210, of which 0x200 is unknown"},
  {"pool_heap_create", heap_guarded_in_memory, "flags is 0x40, with POOL_HEAP_GUARDED, which excludes reserve and memory"},
  {"pool_heap_create", heap_guarded_of_reserve, "flags is 0x40, with POOL_HEAP_GUARDED, which excludes reserve and memory"},
  {"pool_heap_create", heap_memory_without_size, "memory_size is 0, with memory"},
  {"pool_heap_create", heap_size_without_memory, "memory is NULL, with a memory_size of 4096"},
  {"pool_heap_create", heap_memory_wraps, "memory_size is #, which goes beyond the last address"},
  {"pool_heap_create", heap_memory_small, "memory_size is 100, at least # is needed"},
  {"pool_heap_create", heap_memory_smaller_than_a_block, "memory_size is 3000, at least # is needed"},
  {"pool_heap_create", heap_memory_with_reserve, "reserve is 4096, but must be 0 with memory"},
  {"pool_heap_create", heap_memory_with_prefault, "flags is 0x2, with POOL_HEAP_PREFAULT, which memory excludes"},
  {"pool_heap_create", heap_memory_with_budget, "budget is 16, less than the # bytes of the heap's own records"},
  {"pool_heap_create", heap_dense,
   "flags is 0x80: POOL_HEAP_DENSE needs budget or memory of up to 8388608, and no reserve, size_classes or POOL_HEAP_GUARDED"},
  {"pool_heap_create", heap_prefault, "flags is 0x2, with POOL_HEAP_PREFAULT, which needs a reserve"},
  {"pool_heap_create", heap_lock_memory, "flags is 0x4, with POOL_HEAP_LOCK_MEMORY, which needs a reserve or memory"},
  {"pool_heap_create", heap_reserve_of_budget, "reserve is 2097152, more than budget, 1048576"},
  {"pool_heap_create", heap_reserve, "reserve is #, more than PTRDIFF_MAX"},
  {"pool_heap_create", heap_budget, "budget is 1, less than the # bytes of the heap's own records"},
  {"pool_heap_create", heap_purge_delay_of_memory, "purge_delay_ms is 5, but must be 0 or POOL_PURGE_NEVER with memory"},
  {"pool_heap_create", heap_purge_delay, "purge_delay_ms is 7, which needs a reserve or a budget of up to 8388608"},
  {"pool_heap_create", heap_classes_null, "size_classes is NULL, with a size_class_count of 3"},
  {"pool_heap_create", heap_class_count_0, "size_class_count is 0, not from 1 to 104"},
  {"pool_heap_create", heap_class_count, "size_class_count is 105, not from 1 to 104"},
  {"pool_heap_create", heap_class_0, "size_classes[0] is 0, not a multiple of 16 from 16 to 262144"},
  {"pool_heap_create", heap_class_odd, "size_classes[1] is 40, not a multiple of 16 from 16 to 262144"},
  {"pool_heap_create", heap_class_large, "size_classes[0] is 300000, not a multiple of 16 from 16 to 262144"},
  {"pool_heap_create", heap_class_order, "size_classes[1] is 32, not more than the 64 before it"},
  {"object_pool_get", get, "pool is NULL in a call of object_pool_get"},
  {"object_pool_get_batch", get_batch, "pool is NULL in a call of object_pool_get_batch"},
  {"object_pool_put", put_of_nothing, "pool is NULL in a call of object_pool_put"},
  {"object_pool_put_batch", put_batch_of_nothing, "pool is NULL in a call of object_pool_put_batch"},
  {"object_pool_put_all", put_all_of_nothing, "pool is NULL in a call of object_pool_put_all"},
  {"object_pool_in_use", in_use, "pool is NULL in a call of object_pool_in_use"},
  {"object_pool_next", next, "pool is NULL in a call of object_pool_next"},
  {"object_pool_live", live, "pool is NULL in a call of object_pool_live"},
  {"object_pool_capacity", capacity_of_nothing, "pool is NULL in a call of object_pool_capacity"},
  {"object_pool_shrink", shrink, "pool is NULL in a call of object_pool_shrink"},
  {"object_pool_handle", handle, "pool is NULL in a call of object_pool_handle"},
  {"object_pool_resolve", resolve, "pool is NULL in a call of object_pool_resolve"},
  {"object_pool_create", pool_without_options, "options is NULL in a call of object_pool_create"},
  {"object_pool_create_sized", pool_options_cut, "size is 24, less than the # bytes of the first object_pool_options_t"},
  {"object_pool_create_sized", newer_pool,
   "options set a field beyond the first # of # bytes, where the object_pool_options_t of this library ends"},
  {"object_pool_create", object_size_0, "object_size is 0"},
  {"object_pool_create", object_size, "object_size is #, rounded up to the alignment more than PTRDIFF_MAX"},
  {"object_pool_create", object_size_aligned, "object_size is #, rounded up to the alignment more than PTRDIFF_MAX"},
  {"object_pool_create", alignment, "alignment is 12, not a power of two"},
  {"object_pool_create", alignment_large, "alignment is #, more than #"},
  {"object_pool_create", capacity, "capacity is 4294967295, more than #, the most for objects that take 8 bytes"},
  {"object_pool_create", capacity_bytes, "capacity is 2, more than 1, the most for objects that take # bytes"},
  {"object_pool_create", capacity_0, "capacity is 0, which needs when_full to be OBJECT_POOL_GROW"},
  {"object_pool_create", capacity_0_evicts, "capacity is 0, which needs when_full to be OBJECT_POOL_GROW"},
  {"object_pool_create", max_capacity, "max_capacity is 10, less than capacity, 20"},
  {"object_pool_create", pool_flags, "flags is 0x82, of which 0x80 is unknown"},
  {"object_pool_create", when_full, "when_full is 17, not an object_pool_policy_t"},
  {"object_pool_create", reset_time, "reset_time is 5, not an object_pool_reset_time_t"},
  {"object_pool_create", pool_that_grows_in_a_heap_of_one_thread,
   "heap, or one that it overflows to, is POOL_HEAP_SINGLE_THREAD, but flags, 0x0, lacks OBJECT_POOL_SINGLE_THREAD"},
  {"object_pool_create", no_victim, "choose_victim is NULL, with OBJECT_POOL_EVICT"},
  {"object_pool_create", no_overflow, "overflow is NULL, with OBJECT_POOL_OVERFLOW"},
  {"object_pool_create", overflow_unused, "overflow is set, but when_full is not OBJECT_POOL_OVERFLOW"},
  {"object_pool_create", pool_before_a_dead_one, "overflow leads back to itself, or to a pool that has ended"},
  {"object_pool_create", overflow_size, "overflow has objects of 16 bytes, but object_size is 8"},
  {"object_pool_create", overflow_alignment, "overflow has objects aligned to 16, less than the alignment of 64"},
  {"object_pool_create", overflow_of_one_thread, "overflow is OBJECT_POOL_SINGLE_THREAD, but flags, 0x2, lacks it"},
#if UINTPTR_MAX > UINT32_MAX /* else so many have no addresses, which is said first */
  {"object_pool_create", overflow_indices, "capacity is 4294966795, but overflow has fewer 32-bit indices left for handles"},
#endif
  {"pool_option_set", option_without_key, "key is NULL in a call of pool_option_set"},
  {"pool_option_set", option_without_value, "value is NULL in a call of pool_option_set"},
  {"pool_option_set", option_misspelt, "key is not an option; the nearest is purge_delay_ms"},
  {"pool_option_set", option_unknown, "key is not an option; TIDEPOOL_OPTIONS=help prints all"},
  {"pool_option_set", option_late, "checked cannot be set any more: the manager is in use"},
};
const size_t way_count = COUNT_OF(ways);
