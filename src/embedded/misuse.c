/* SPDX-License-Identifier: MIT
 * Firmware gets the parts of a message of misuse, without names and numbers. */
#include "misuse.h"
#include "debug/sites.h"
#include <tidepool/embedded.h>

void fatal_misuse(const char *call, const void *address, const char *what) { pool_embedded_abort(call, address, what); }

void fatal_damage(const char *call, const void *address, const char *what, ptrdiff_t offset, const struct pool_heap *heap,
                  size_t size)
{
  (void)heap, (void)size;
  pool_embedded_abort(call, (const char *)address + offset, what);
}

void fatal_misuse_of_object(const char *call, const void *object, const char *what, const char *pool)
{
  (void)pool;
  pool_embedded_abort(call, object, what);
}

void fatal_damage_of_object(const char *call, const void *object, const char *what, size_t offset, size_t size,
                            const char *pool)
{
  (void)size, (void)pool;
  pool_embedded_abort(call, (const char *)object + offset, what);
}

void sites_say(site_t allocated, site_t freed) { (void)allocated, (void)freed; }
