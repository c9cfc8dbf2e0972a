/* SPDX-License-Identifier: MIT
 *
 * tidepool/version.h: the version of tidepool. The macros are the version that a program was compiled with, pool_version() is
 * the one that it runs with. The build fails if meson.build has another version. */
#ifndef TIDEPOOL_VERSION_H
#define TIDEPOOL_VERSION_H

#include <tidepool/visibility.h>

#define TIDEPOOL_VERSION_MAJOR 0
#define TIDEPOOL_VERSION_MINOR 1
#define TIDEPOOL_VERSION_PATCH 0

#define TIDEPOOL_VERSION "0.1.0"

/* #if TIDEPOOL_VERSION_NUMBER >= 1002003 tests for version 1.2.3 or later. */
#define TIDEPOOL_VERSION_NUMBER (TIDEPOOL_VERSION_MAJOR * 1000000 + TIDEPOOL_VERSION_MINOR * 1000 + TIDEPOOL_VERSION_PATCH)

POOL_BEGIN_DECLS

/* Returns the TIDEPOOL_VERSION of the library that the program runs with. */
POOL_API const char *pool_version(void) POOL_NAME(version) __attribute__((const));

POOL_END_DECLS

#endif
