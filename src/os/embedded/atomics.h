/* SPDX-License-Identifier: MIT
 *
 * Atomic operations of the profile `embedded`, which every file of it includes first. A small processor lacks instructions for
 * many of them, and its compiler would call a library. Read-modify-write operations take the firmware's lock. Plain reads of
 * 64-bit counters may see halves of two values, and are wrong only when a counter passes 2^32. */
#ifndef OS_EMBEDDED_ATOMICS_H
#define OS_EMBEDDED_ATOMICS_H

#include <stdint.h>

__attribute__((visibility("default"))) void pool_embedded_lock(void);
__attribute__((visibility("default"))) void pool_embedded_unlock(void);

#define EMBEDDED_IS_WIDE(place) (sizeof *(place) > sizeof(void *))
#define EMBEDDED_PLAIN(place)   (*(volatile __typeof__(*(place)) *)(uintptr_t)(place))

#define __atomic_load_n(place, order) (EMBEDDED_IS_WIDE(place) ? EMBEDDED_PLAIN(place) : __atomic_load_n(place, order))
#define __atomic_store_n(place, value, order) \
  (EMBEDDED_IS_WIDE(place) ? (void)(EMBEDDED_PLAIN(place) = (value)) : __atomic_store_n(place, value, order))

/* `had` is the old value, `has` the new one. */
#define EMBEDDED_CHANGE(place, operation, by, answer) \
  (__extension__({ \
    pool_embedded_lock(); \
    __auto_type place_ = (place); \
    __typeof__(*(place) + 0) had = *place_, has = had operation(by); \
    *place_ = has; \
    pool_embedded_unlock(); \
    (void)had, (void)has; \
    answer; \
  }))
#define __atomic_fetch_add(place, by, order) EMBEDDED_CHANGE(place, +, by, had)
#define __atomic_fetch_sub(place, by, order) EMBEDDED_CHANGE(place, -, by, had)
#define __atomic_add_fetch(place, by, order) EMBEDDED_CHANGE(place, +, by, has)

/* *was is the expected value. It becomes the actual value on failure. */
#define __atomic_compare_exchange_n(place, was, value, weak, order, order_of_failure) \
  (__extension__({ \
    pool_embedded_lock(); \
    __auto_type place_ = (place); \
    __auto_type was_ = (was); \
    __typeof__(*(place) + 0) there_ = *place_; \
    _Bool same_ = there_ == *was_; \
    if (same_) \
      *place_ = (value); \
    else \
      *was_ = there_; \
    pool_embedded_unlock(); \
    same_; \
  }))

#endif
