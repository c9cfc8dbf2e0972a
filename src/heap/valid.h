/* SPDX-License-Identifier: MIT
 *
 * Whether there can be a heap with these options. */
#ifndef VALID_H
#define VALID_H

#include "heap/region.h"

/* False: EINVAL is set, and pool_error() says which field is wrong. */
bool heap_options_are_valid(const pool_heap_options_t *options);

#endif
