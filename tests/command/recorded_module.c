/* SPDX-License-Identifier: MIT
 * A plug-in with a libtidepool of its own inside. Its constructor may wait for a thread of the program. */
#include <stdlib.h>
#include <tidepool.h>

extern void (*module_waits)(void); /* the program's */

void *module_take(size_t size);
void module_give(void *block);

void *module_take(size_t size) { return pool_alloc(size); }
void module_give(void *block) { pool_free(block); }

__attribute__((constructor)) static void wait_for_program(void)
{
  if (module_waits)
    module_waits();
}
