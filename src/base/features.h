/* SPDX-License-Identifier: MIT
 *
 * The features of a build. The profile `embedded` has no operating system: heaps live in memory of their callers, and there is
 * no default heap, no thread start or exit, and no fork. HAS_SYSTEM is a value for an `if`, so every build compiles every line.
 * The compiler drops the code that a profile does not need. */
#ifndef BASE_PROFILE_H
#define BASE_PROFILE_H

#ifdef TIDEPOOL_EMBEDDED
enum { HAS_SYSTEM = 0 };
#define ALWAYS_INLINE inline
#else
enum { HAS_SYSTEM = 1 };
#define ALWAYS_INLINE inline __attribute__((always_inline))
#endif

/* Firmware may be built without some features (meson option embedded_without). Such a library refuses to create a heap or
 * object pool that asks for a missing feature, so later calls need no check. */
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
  WITHOUT_SPEED = 64,
  HAS_CHECKS = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_CHECKS),
  HAS_HOOKS = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_HOOKS),
  HAS_GROWTH = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_GROWTH),
  HAS_EVICTION = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_EVICTION),
  HAS_OVERFLOW = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_OVERFLOW),
  HAS_HOT_OBJECTS = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_HOT_OBJECTS),
  HAS_SPEED = !(TIDEPOOL_EMBEDDED_WITHOUT & WITHOUT_SPEED) /* code of granules that only saves instructions */
};

#endif
