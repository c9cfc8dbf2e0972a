/* SPDX-License-Identifier: MIT
 *
 * What was wrong with an argument: each call that sets EINVAL says so here, and pool_error() tells it.
 *
 * Nothing is put together before somebody asks. Until then a thread keeps which of the texts below it is, one byte of
 * thread-local data, and up to three numbers. The numbers, and the text once it is asked for, are in the thread's record. A
 * thread that has none yet, in a process where the manager is not up, uses a place that is there for the first such thread. If
 * there is no place at all, the text does without the numbers. So nothing here fails. */
#ifndef INVALID_H
#define INVALID_H

#include <stdint.h>

/* Each has two texts: without numbers, and with. In the latter %u is a number, %x one in hexadecimal, and %s a text that lasts
 * as long as the library. A field is called what its header calls it. What stands last is what to do, for docs/messages.md
 * (tools/messages). */
#define INVALID_TEXTS(TEXT) \
  /* of any call */ \
  TEXT(HEAP_IS_NULL, "heap is NULL", "heap is NULL in a call of %s", "Look at what pool_heap_create() returned.") \
  TEXT(POOL_IS_NULL, "pool is NULL", "pool is NULL in a call of %s", "Look at what object_pool_create() returned.") \
  TEXT(VISIT_IS_NULL, "visit is NULL", "visit is NULL in a call of %s", "Give a function.") \
  TEXT(STATS_IS_NULL, "stats is NULL", "stats is NULL in a call of %s", "Give the address of a pool_stats_t.") \
  TEXT(OPTIONS_ARE_NULL, "options is NULL", "options is NULL in a call of %s", "Give options: object_size has no default.") \
  TEXT(ALIGNMENT, "alignment is not a power of two", "alignment is %u, not a power of two", \
       "Give a power of two, or 0 where the header has a default.") \
  TEXT(OPTIONS_ARE_CUT, "size is less than the options ever had", "size is %u, less than the %u bytes that the first %s had", \
       "Give sizeof of the options struct as size.") \
  TEXT(OPTIONS_ARE_NEWER, "options have a field that this library does not know", \
       "options have a field beyond the first %u of %u bytes, which are the %s that this library knows", \
       "Install the library that the header belongs to, or leave the field 0.") \
  TEXT(FLAGS, "flags has bits that are no flags", "flags is %x, of which %x is no flag", \
       "Take flags from the header that declares the call; zero the struct before it is filled in.") \
  /* options of a heap */ \
  TEXT(LEFT_OUT, "the library is built without what the options ask for", "the library is built without %s", \
       "Leave the option away, or build the firmware's library with it.") \
  TEXT(MEMORY_SIZE_IS_0, "memory_size is 0, with memory", "memory_size is 0, with memory", "Give the bytes of memory.") \
  TEXT(MEMORY_IS_NULL, "memory is NULL, with a memory_size", "memory is NULL, with a memory_size of %u", \
       "Give the buffer, or leave both 0.") \
  TEXT(MEMORY_WRAPS, "memory_size goes beyond the last address", "memory_size is %u, which goes beyond the last address", \
       "Give the bytes of memory, no more.") \
  TEXT(MEMORY_IS_SMALL, "memory_size is too small for the heap's own records and a block", \
       "memory_size is %u, too small for the heap's own records and a block; %u is enough", \
       "Give as many bytes as the text says.") \
  TEXT(MEMORY_IS_LESS, "memory_size is less than a heap needs", "memory_size is %u, at least %u is needed", \
       "Give as many bytes as the text says; pool_heap_least_memory() tells beforehand.") \
  TEXT(MEMORY_WITH_RESERVE, "reserve is not 0, with memory", "reserve is %u, not 0, with memory", \
       "Leave reserve 0: a buffer is all that the heap has.") \
  TEXT(MEMORY_WITH_PREFAULT, "flags has POOL_HEAP_PREFAULT, with memory", "flags is %x, with POOL_HEAP_PREFAULT, with memory", \
       "Touch the buffer yourself.") \
  TEXT(PREFAULT, "flags has POOL_HEAP_PREFAULT, without a reserve", \
       "flags is %x, with POOL_HEAP_PREFAULT, which needs a reserve", "Give a reserve.") \
  TEXT(LOCK_MEMORY, "flags has POOL_HEAP_LOCK_MEMORY, without a reserve or memory", \
       "flags is %x, with POOL_HEAP_LOCK_MEMORY, which needs a reserve or memory", "Give a reserve or a buffer.") \
  TEXT(DENSE, "flags has POOL_HEAP_DENSE, without a small budget or memory", \
       "flags is %x: POOL_HEAP_DENSE needs a budget or memory of up to %u, no reserve, size_classes or POOL_HEAP_GUARDED", \
       "Lower the budget, or leave the flag away.") \
  TEXT(GUARDED, "flags has POOL_HEAP_GUARDED, with a reserve or memory", \
       "flags is %x, with POOL_HEAP_GUARDED, which has neither a reserve nor memory", \
       "Leave reserve and memory away, or take POOL_HEAP_CHECKED.") \
  TEXT(RESERVE_OF_BUDGET, "reserve is more than budget", "reserve is %u, more than budget, %u", \
       "Lower reserve, or raise budget.") \
  TEXT(RESERVE, "reserve is more than PTRDIFF_MAX", "reserve is %u, more than PTRDIFF_MAX", "Lower reserve.") \
  TEXT(BUDGET, "budget is less than the heap's own records take", \
       "budget is %u, less than the %u bytes of the heap's own records", \
       "Give more than the text says; pool_heap_least_memory() tells how much.") \
  TEXT(BUDGET_OF_RESERVE, "budget has no room for blocks beside the heap's own records", \
       "budget is %u, with no room for blocks beside the %u bytes of the heap's own records", \
       "Raise budget, or lower reserve.") \
  TEXT(PURGE_DELAY_OF_MEMORY, "purge_delay_ms is not POOL_PURGE_NEVER, with memory", \
       "purge_delay_ms is %u, which with memory is 0 or POOL_PURGE_NEVER", "Leave purge_delay_ms 0.") \
  TEXT(PURGE_DELAY, "purge_delay_ms is not 0, without a reserve or a small budget", \
       "purge_delay_ms is %u, which needs a reserve or a budget of up to %u", \
       "Leave it 0, or set the option purge_delay_ms of the process.") \
  TEXT(CLASSES_ARE_NULL, "size_classes is NULL, with a size_class_count", \
       "size_classes is NULL, with a size_class_count of %u", "Give the sizes, or leave both 0.") \
  TEXT(CLASS_COUNT, "size_class_count is out of range", "size_class_count is %u, not from 1 to %u", \
       "Give no more sizes than the text says.") \
  TEXT(CLASS_SIZE, "size_classes has a size that is none", "size_classes[%u] is %u, not a multiple of 16 from 16 to %u", \
       "Round the size up to a multiple of 16.") \
  TEXT(CLASS_ORDER, "size_classes does not ascend", "size_classes[%u] is %u, not more than the %u before it", \
       "Sort the sizes, and leave out repeated ones.") \
  /* options of an object pool */ \
  TEXT(OBJECT_SIZE_IS_0, "object_size is 0", "object_size is 0", "Give sizeof of the object.") \
  TEXT(OBJECT_SIZE, "object_size is more than PTRDIFF_MAX", "object_size is %u, with its alignment more than PTRDIFF_MAX", \
       "Give sizeof of the object.") \
  TEXT(ALIGNMENT_IS_LARGE, "alignment is too large", "alignment is %u, more than %u", "Lower alignment.") \
  TEXT(CAPACITY, "capacity is too large", "capacity is %u, more than %u, with objects that take %u bytes", \
       "Lower capacity, or let the pool grow.") \
  TEXT(CAPACITY_IS_0, "capacity is 0, without OBJECT_POOL_GROW", \
       "capacity is 0, which needs when_full to be OBJECT_POOL_GROW", "Give a capacity, or OBJECT_POOL_GROW.") \
  TEXT(MAX_CAPACITY, "max_capacity is less than capacity", "max_capacity is %u, less than capacity, %u", \
       "Raise max_capacity, or leave it 0.") \
  TEXT(WHEN_FULL, "when_full is no policy", "when_full is %u, no object_pool_policy_t", \
       "Take a value of object_pool_policy_t.") \
  TEXT(RESET_TIME, "reset_time is no time", "reset_time is %u, no object_pool_reset_time_t", \
       "Take a value of object_pool_reset_time_t.") \
  TEXT(HEAP_OF_ONE_THREAD, "heap is of one thread, and the pool that grows in it is not", \
       "heap, or one it overflows to, is POOL_HEAP_SINGLE_THREAD, and flags, %x, is without OBJECT_POOL_SINGLE_THREAD", \
       "Make both of one thread, or neither.") \
  TEXT(NO_VICTIM, "choose_victim is NULL, with OBJECT_POOL_EVICT", "choose_victim is NULL, with OBJECT_POOL_EVICT", \
       "Give choose_victim, or another policy.") \
  TEXT(OVERFLOW_IS_UNUSED, "overflow is given, and when_full is not OBJECT_POOL_OVERFLOW", \
       "overflow is given, and when_full is not OBJECT_POOL_OVERFLOW", \
       "Set when_full to OBJECT_POOL_OVERFLOW, or leave overflow NULL.") \
  TEXT(NO_OVERFLOW, "overflow is NULL, with OBJECT_POOL_OVERFLOW", "overflow is NULL, with OBJECT_POOL_OVERFLOW", \
       "Give overflow, or another policy.") \
  TEXT(OVERFLOW_CHAIN, "overflow leads to a pool that has ended", \
       "overflow leads back to itself, or to a pool that has ended", \
       "Give a pool that lives longer, and does not overflow to this one.") \
  TEXT(OVERFLOW_SIZE, "overflow has objects of another size", "overflow has objects of %u bytes, and object_size is %u", \
       "Give a pool of the same object_size.") \
  TEXT(OVERFLOW_ALIGNMENT, "overflow has objects of a lesser alignment", \
       "overflow has objects aligned to %u, less than the alignment of %u", "Give a pool of at least this alignment.") \
  TEXT(OVERFLOW_OF_ONE_THREAD, "overflow is of one thread, and the pool is not", \
       "overflow is OBJECT_POOL_SINGLE_THREAD, and flags, %x, is not", "Make both of one thread, or neither.") \
  TEXT(OVERFLOW_INDICES, "capacity is more than overflow has indices for", \
       "capacity is %u, and overflow has no indices of 32 bits left for so many handles", \
       "Lower capacity, or shorten the chain of overflows.") \
  /* profiles */ \
  TEXT(SAMPLE_BYTES, "sample_bytes is too large", "sample_bytes is %u, more than %u", "Give fewer, or 0 for 524,288.") \
  /* options of the process */ \
  TEXT(KEY_IS_NULL, "key is NULL", "key is NULL in a call of %s", "Give a key.") \
  TEXT(KEY, "key is no option", "key is no option; %s is nearest", "Look at the key that is named.") \
  TEXT(KEY_IS_UNKNOWN, "key is no option; TIDEPOOL_OPTIONS=help prints all", \
       "key is no option; TIDEPOOL_OPTIONS=help prints all", "Run any program of the library with TIDEPOOL_OPTIONS=help.") \
  TEXT(VALUE_IS_NULL, "value is NULL", "value is NULL in a call of %s", "Give a value, as text.") \
  TEXT(VALUE, "value is none that the option has", "value is none of the values of %s: %s", \
       "Take one of the values that are named.") \
  TEXT(TOO_LATE, "the option cannot be set any more: the manager is in use", \
       "%s cannot be set any more: the manager is in use", "Set options before the first allocation, or in TIDEPOOL_OPTIONS.")

typedef enum invalid {
  INVALID_NOTHING,
#define INVALID_NAME(name, without, with, remedy) INVALID_##name,
  INVALID_TEXTS(INVALID_NAME)
#undef INVALID_NAME
} invalid_t;

/* Sets errno to EINVAL and notes why: invalid(INVALID_MAX_CAPACITY, 10, 20). Returns NULL, for callers that return it. */
#define invalid(what, ...) invalid_note(what, (const uintptr_t[3]){__VA_ARGS__})
void *invalid_note(invalid_t what, const uintptr_t numbers[3]);

/* The text of the thread's last, in memory that is the thread's. */
const char *invalid_text(void);

#endif
