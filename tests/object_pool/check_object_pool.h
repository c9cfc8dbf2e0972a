/* SPDX-License-Identifier: MIT
 * O1 to O9 of src/object_pool/types.h, executable. For quiet moments: no other thread is in a call with the pool. */
#ifndef CHECK_OBJECT_POOL_H
#define CHECK_OBJECT_POOL_H

#include "object_pool/array.h"

/* True, or the end of the program with a line that says what is wrong. */
bool check_object_pool(const object_pool_t *pool);

#endif
