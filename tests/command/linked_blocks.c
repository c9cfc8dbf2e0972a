/* SPDX-License-Identifier: MIT
 * The blocks of linked.c: in the program, or in a library between the program and libtidepool. */
#include "linked.h"
#ifdef OF_MALLOC
#include <stdlib.h>

void *linked_take(size_t size) { return malloc(size); }
void linked_give(void *block) { free(block); }
#else
#include <tidepool.h>

void *linked_take(size_t size) { return pool_alloc(size); }
void linked_give(void *block) { pool_free(block); }
#endif
