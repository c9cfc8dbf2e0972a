/* SPDX-License-Identifier: MIT
 *
 * Every call that sets EINVAL notes which argument was wrong, and pool_error() returns that as text.
 *
 * The text is made when it is requested, so noting never fails. A thread meanwhile keeps the number of the text, one byte of
 * thread-local data, and up to three arguments. The arguments and the finished text are in the thread's record. A static place
 * serves the first thread without a record before the manager is up. The text lacks its arguments if there is no place. */
#ifndef HEAP_INVALID_H
#define HEAP_INVALID_H

#include "base/bits.h"
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Each reason has two texts, without and with arguments, and a remedy for docs/messages.md (tools/messages). %u is a number, %x
 * a hexadecimal one, and %s a string that lives as long as the library. Fields are named as in the headers. */
#define INVALID_TEXTS(TEXT) \
  /* any call */ \
  TEXT(HEAP_IS_NULL, "heap is NULL", "heap is NULL in a call of %s", "Check what pool_heap_create() returned.") \
  TEXT(POOL_IS_NULL, "pool is NULL", "pool is NULL in a call of %s", "Check what object_pool_create() returned.") \
  TEXT(VISIT_IS_NULL, "visit is NULL", "visit is NULL in a call of %s", "Pass a function.") \
  TEXT(STATS_IS_NULL, "stats is NULL", "stats is NULL in a call of %s", "Pass the address of a pool_stats_t.") \
  TEXT(OPTIONS_ARE_NULL, "options is NULL", "options is NULL in a call of %s", "Pass options: object_size has no default.") \
  TEXT(ALIGNMENT, "alignment is not a power of two", "alignment is %u, not a power of two", \
       "Use a power of two, or 0 if the header has a default.") \
  TEXT(OPTIONS_ARE_CUT, "size is less than the first version of the options had", \
       "size is %u, less than the %u bytes of the first %s", "Pass sizeof of the options struct.") \
  TEXT(OPTIONS_ARE_NEWER, "options set a field that this library does not know", \
       "options set a field beyond the first %u of %u bytes, where the %s of this library ends", \
       "Install the library that the header belongs to, or leave the field 0.") \
  TEXT(FLAGS, "flags has unknown bits", "flags is %x, of which %x is unknown", \
       "Use the flags of the header that declares the call; zero the struct before you fill it in.") \
  /* options of a heap */ \
  TEXT(LEFT_OUT, "the library is built without what the options ask for", "the library is built without %s", \
       "Leave out the option, or build the firmware's library with it.") \
  TEXT(NEEDS_DEBUG, "only the debug library has this", "only the debug library has %s", \
       "Run the program with the debug library (docs/debug_library.md).") \
  TEXT(MEMORY_SIZE_IS_0, "memory_size is 0, with memory", "memory_size is 0, with memory", \
       "Set memory_size to the bytes of the buffer.") \
  TEXT(MEMORY_IS_NULL, "memory is NULL, with a memory_size", "memory is NULL, with a memory_size of %u", \
       "Set memory to the buffer, or leave both 0.") \
  TEXT(MEMORY_WRAPS, "memory_size goes beyond the last address", "memory_size is %u, which goes beyond the last address", \
       "Set memory_size to the bytes of the buffer.") \
  TEXT(MEMORY_IS_LESS, "memory_size is less than a heap needs", "memory_size is %u, at least %u is needed", \
       "Use the size that the text gives; pool_heap_least_memory() returns it beforehand.") \
  TEXT(MEMORY_WITH_RESERVE, "reserve must be 0 with memory", "reserve is %u, but must be 0 with memory", \
       "Leave reserve 0: the buffer is all that the heap has.") \
  TEXT(MEMORY_WITH_PREFAULT, "flags has POOL_HEAP_PREFAULT, which memory excludes", \
       "flags is %x, with POOL_HEAP_PREFAULT, which memory excludes", "Touch the pages of the buffer yourself.") \
  TEXT(PREFAULT, "flags has POOL_HEAP_PREFAULT, without a reserve", \
       "flags is %x, with POOL_HEAP_PREFAULT, which needs a reserve", "Set reserve.") \
  TEXT(LOCK_MEMORY, "flags has POOL_HEAP_LOCK_MEMORY, without a reserve or memory", \
       "flags is %x, with POOL_HEAP_LOCK_MEMORY, which needs a reserve or memory", "Set reserve or memory.") \
  TEXT(DENSE, "flags has POOL_HEAP_DENSE, without a small budget or memory", \
       "flags is %x: POOL_HEAP_DENSE needs budget or memory of up to %u, and no reserve, size_classes or POOL_HEAP_GUARDED", \
       "Lower the budget, or leave out the flag.") \
  TEXT(GUARDED, "flags has POOL_HEAP_GUARDED, which excludes reserve and memory", \
       "flags is %x, with POOL_HEAP_GUARDED, which excludes reserve and memory", \
       "Leave out reserve and memory, or use POOL_HEAP_CHECKED.") \
  TEXT(RESERVE_OF_BUDGET, "reserve is more than budget", "reserve is %u, more than budget, %u", \
       "Lower reserve, or raise budget.") \
  TEXT(RESERVE, "reserve is more than PTRDIFF_MAX", "reserve is %u, more than PTRDIFF_MAX", "Lower reserve.") \
  TEXT(BUDGET, "budget is less than the heap's own records take", \
       "budget is %u, less than the %u bytes of the heap's own records", \
       "Use more than the text gives; pool_heap_least_memory() returns how much.") \
  TEXT(BUDGET_OF_RESERVE, "budget has no room for blocks beside the heap's own records", \
       "budget is %u, with no room for blocks beside the %u bytes of the heap's own records", \
       "Raise budget, or lower reserve.") \
  TEXT(PURGE_DELAY_OF_MEMORY, "purge_delay_ms must be 0 or POOL_PURGE_NEVER with memory", \
       "purge_delay_ms is %u, but must be 0 or POOL_PURGE_NEVER with memory", "Leave purge_delay_ms 0.") \
  TEXT(PURGE_DELAY, "purge_delay_ms needs a reserve or a small budget", \
       "purge_delay_ms is %u, which needs a reserve or a budget of up to %u", \
       "Leave it 0, or set the process's option purge_delay_ms.") \
  TEXT(CLASSES_ARE_NULL, "size_classes is NULL, with a size_class_count", \
       "size_classes is NULL, with a size_class_count of %u", "Set size_classes, or leave both 0.") \
  TEXT(CLASS_COUNT, "size_class_count is out of range", "size_class_count is %u, not from 1 to %u", \
       "Use at most as many sizes as the text gives.") \
  TEXT(CLASS_SIZE, "size_classes has an invalid size", "size_classes[%u] is %u, not a multiple of 16 from 16 to %u", \
       "Round the size up to a multiple of 16.") \
  TEXT(CLASS_ORDER, "size_classes does not ascend", "size_classes[%u] is %u, not more than the %u before it", \
       "Sort the sizes, without repeated ones.") \
  /* options of an object pool */ \
  TEXT(OBJECT_SIZE_IS_0, "object_size is 0", "object_size is 0", "Set object_size to sizeof of the object.") \
  TEXT(OBJECT_SIZE, "object_size is more than PTRDIFF_MAX", \
       "object_size is %u, rounded up to the alignment more than PTRDIFF_MAX", "Set object_size to sizeof of the object.") \
  TEXT(ALIGNMENT_IS_LARGE, "alignment is too large", "alignment is %u, more than %u", "Lower alignment.") \
  TEXT(CAPACITY, "capacity is too large", "capacity is %u, more than %u, the most for objects that take %u bytes", \
       "Lower capacity, or let the pool grow.") \
  TEXT(CAPACITY_IS_0, "capacity is 0, without OBJECT_POOL_GROW", \
       "capacity is 0, which needs when_full to be OBJECT_POOL_GROW", "Set capacity, or use OBJECT_POOL_GROW.") \
  TEXT(MAX_CAPACITY, "max_capacity is less than capacity", "max_capacity is %u, less than capacity, %u", \
       "Raise max_capacity, or leave it 0.") \
  TEXT(WHEN_FULL, "when_full is not a policy", "when_full is %u, not an object_pool_policy_t", \
       "Use a value of object_pool_policy_t.") \
  TEXT(RESET_TIME, "reset_time is not a reset time", "reset_time is %u, not an object_pool_reset_time_t", \
       "Use a value of object_pool_reset_time_t.") \
  TEXT(HEAP_OF_ONE_THREAD, "heap is single-threaded, but the pool that grows in it is shared", \
       "heap, or one that it overflows to, is POOL_HEAP_SINGLE_THREAD, but flags, %x, lacks OBJECT_POOL_SINGLE_THREAD", \
       "Make both single-threaded, or neither.") \
  TEXT(NO_VICTIM, "choose_victim is NULL, with OBJECT_POOL_EVICT", "choose_victim is NULL, with OBJECT_POOL_EVICT", \
       "Set choose_victim, or use another policy.") \
  TEXT(OVERFLOW_IS_UNUSED, "overflow is set, but when_full is not OBJECT_POOL_OVERFLOW", \
       "overflow is set, but when_full is not OBJECT_POOL_OVERFLOW", \
       "Set when_full to OBJECT_POOL_OVERFLOW, or leave overflow NULL.") \
  TEXT(NO_OVERFLOW, "overflow is NULL, with OBJECT_POOL_OVERFLOW", "overflow is NULL, with OBJECT_POOL_OVERFLOW", \
       "Set overflow, or use another policy.") \
  TEXT(OVERFLOW_CHAIN, "overflow leads to a pool that has ended", \
       "overflow leads back to itself, or to a pool that has ended", \
       "Use a pool that lives longer, and does not overflow to this one.") \
  TEXT(OVERFLOW_SIZE, "overflow has objects of another size", "overflow has objects of %u bytes, but object_size is %u", \
       "Use a pool of the same object_size.") \
  TEXT(OVERFLOW_ALIGNMENT, "overflow has objects of a smaller alignment", \
       "overflow has objects aligned to %u, less than the alignment of %u", "Use a pool of at least this alignment.") \
  TEXT(OVERFLOW_OF_ONE_THREAD, "overflow is single-threaded, but the pool is shared", \
       "overflow is OBJECT_POOL_SINGLE_THREAD, but flags, %x, lacks it", "Make both single-threaded, or neither.") \
  TEXT(OVERFLOW_INDICES, "capacity is more than overflow has indices for", \
       "capacity is %u, but overflow has fewer 32-bit indices left for handles", \
       "Lower capacity, or shorten the chain of overflows.") \
  /* profiles */ \
  TEXT(SAMPLE_BYTES, "sample_bytes is too large", "sample_bytes is %u, more than %u", "Use less, or 0 for 524,288.") \
  /* options of the process */ \
  TEXT(KEY_IS_NULL, "key is NULL", "key is NULL in a call of %s", "Pass a key.") \
  TEXT(KEY, "key is not an option", "key is not an option; the nearest is %s", \
       "Use the key that the text names, if you meant it.") \
  TEXT(KEY_IS_UNKNOWN, "key is not an option; TIDEPOOL_OPTIONS=help prints all", \
       "key is not an option; TIDEPOOL_OPTIONS=help prints all", "Run any program of the library with TIDEPOOL_OPTIONS=help.") \
  TEXT(VALUE_IS_NULL, "value is NULL", "value is NULL in a call of %s", "Pass a value, as text.") \
  TEXT(VALUE, "value is not one of the option's values", "value is not one of the values of %s: %s", \
       "Use one of the values that the text names.") \
  TEXT(TOO_LATE, "the option cannot be set any more: the manager is in use", \
       "%s cannot be set any more: the manager is in use", "Set options before the first allocation, or in TIDEPOOL_OPTIONS.")

typedef enum invalid {
  INVALID_NOTHING,
#define INVALID_NAME(name, without, with, remedy) INVALID_##name,
  INVALID_TEXTS(INVALID_NAME)
#undef INVALID_NAME
} invalid_t;

/* Sets errno to EINVAL and notes the reason: invalid(INVALID_MAX_CAPACITY, 10, 20). Returns NULL for callers to return. */
#define invalid(what, ...) invalid_note(what, (const uintptr_t[3]){__VA_ARGS__})
void *invalid_note(invalid_t what, const uintptr_t numbers[3]);

/* For a call without a heap, which sets EINVAL, or with a destroyed one, which is a misuse and ends the program. */
struct pool_heap;
void *invalid_heap(const struct pool_heap *heap, const char *call);

/* Returns the calling thread's place for numbers and text; NULL: it has none. `last` identifies the thread. `claims`: it gets
 * one if possible. */
struct thread_invalid *invalid_place(const uint8_t *last, bool claims);

/* Returns the text of the thread's last error, in memory of the thread. */
const char *invalid_text(void);

/* ---- structs that grow ----
 *
 * Structs of the public interface grow at their end. Callers pass the size that they were compiled with. */

/* Copies options of `size` bytes. Fields that the caller does not know become 0, their default. Returns false if the caller
 * sets a field that this library does not know, because it would rely on it. */
static inline bool grown_take(void *own, size_t own_size, const void *given, size_t size)
{
  const char *bytes = given;
  for (size_t i = own_size; i < size; i++)
    if (bytes[i])
      return false;
  memset(own, 0, own_size);
  memcpy(own, given, min_size(size, own_size));
  return true;
}

static inline void grown_give(void *to, size_t size, const void *own, size_t own_size)
{
  memset(to, 0, size);
  memcpy(to, own, min_size(size, own_size));
}

#endif
