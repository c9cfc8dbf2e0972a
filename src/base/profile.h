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

#endif
