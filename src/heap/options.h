/* SPDX-License-Identifier: MIT
 * Which options of a heap contradict each other, and how little memory or budget is enough. */
#ifndef HEAP_OPTIONS_H
#define HEAP_OPTIONS_H

#include "heap/region.h"

/* Returns false with EINVAL, and pool_error() names the wrong field. */
bool heap_options_are_valid(const pool_heap_options_t *options);

/* Returns the least budget with room for the records of a heap with these options. */
size_t heap_least_budget(const pool_heap_options_t *o);

size_t heap_least_memory(const pool_heap_options_t *options);

#endif
