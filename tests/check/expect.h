/* SPDX-License-Identifier: MIT
 *
 * How a violation is told: one line with the name of the invariant, and abort(). */
#ifndef EXPECT_H
#define EXPECT_H

#include "base/bits.h"

/* Each ends the program if its invariant does not hold. `where` is an address that leads to what is wrong. */
void expect(bool holds, const char *name, const char *what, const void *where);
_Noreturn void violated_at(const char *name, const char *what, const void *where);
void expect_count(size_t kept, size_t counted, const char *name, const char *what);

#endif
