/* SPDX-License-Identifier: MIT
 *
 * What a build has. The profile `embedded` has no operating system below it: heaps live in memory of their callers, there is no
 * default heap, no thread begins or ends, and nothing forks. This is a value for an `if`, so that every build compiles every
 * line, and what a profile lacks is no part of its code. */
#ifndef BASE_PROFILE_H
#define BASE_PROFILE_H

#ifdef TIDEPOOL_EMBEDDED
enum { HAS_SYSTEM = 0 };
#define ALWAYS_INLINE inline /* firmware counts bytes of text */
#else
enum { HAS_SYSTEM = 1 };
#define ALWAYS_INLINE inline __attribute__((always_inline))
#endif

/* Firmware may be built without some of it (the option embedded_without of meson). What is asked of such a library is refused
 * when a heap or an object pool is made, so nothing has it later. */
#ifndef TIDEPOOL_EMBEDDED_WITHOUT
#define TIDEPOOL_EMBEDDED_WITHOUT 0
#endif
enum {
  WITHOUT_CHECKS = 1,
  WITHOUT_HOOKS = 2,
  WITHOUT_GROWTH = 4,
  WITHOUT_EVICTION = 8,
  WITHOUT_OVERFLOW = 16,
  WITHOUT_HOT_OBJECTS = 32,
  HAS_CHECKS = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_CHECKS),
  HAS_HOOKS = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_HOOKS),
  HAS_GROWTH = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_GROWTH),
  HAS_EVICTION = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_EVICTION),
  HAS_OVERFLOW = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_OVERFLOW),
  HAS_HOT_OBJECTS = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_HOT_OBJECTS)
};

#endif
