/* SPDX-License-Identifier: MIT
 *
 * A message names the pool, because its address says little. The program chose the name, so it is quoted. */
#include "object_pool/object_misuse.h"
#include "base/pattern.h"
#include "base/text.h"
#include "heap/debug_hooks.h"
#include "heap/invalid.h"
#include "misuse.h"
#include "os/os.h"

static void say_pool(text_t *text, const object_pool_t *pool)
{
  text_string(text, " pool ");
  text_quoted(text, pool->name);
  text_finish(text);
}

void misuse_not_live(const object_pool_t *pool, const void *object, const char *call)
{
  char buffer[160];
  text_t what = {buffer, sizeof buffer, 0};
  if (!HAS_SYSTEM)
    fatal_misuse(call, object, NOT_AN_OBJECT);
  text_string(&what, NOT_AN_OBJECT " of");
  say_pool(&what, pool);
  fatal_misuse(call, object, buffer);
}

void misuse_no_live_pool(const object_pool_t *pool, const char *call) { fatal_misuse(call, pool, NOT_AN_OBJECT_POOL); }

void *misuse_no_pool(const char *call) { return invalid(INVALID_POOL_IS_NULL, (uintptr_t)call); }

void misuse_say_left(const object_pool_t *pool, size_t live)
{
  char buffer[400];
  text_t text = {buffer, sizeof buffer - 1, 0};
  text_string(&text, "tidepool:");
  say_pool(&text, pool);
  text_string(&text, ENDED_WITH);
  text_grouped(&text, live);
  text_string(&text, live == 1 ? " object of " : " objects of ");
  text_grouped(&text, pool->object_size);
  text_string(&text, " bytes live");
  if (pool->created_by && observer) {
    text_string(&text, ", created by ");
    observer->say_place(&text, pool->created_by);
  }
  size_t length = min_size(text.length, text.size);
  buffer[length++] = '\n';
  os_write_kept_error(buffer, length);
}

void misuse_fill_dead(const object_pool_t *pool, void *object) { dead_fill(object, pool->object_size); }

COLD static _Noreturn void written_after_put(const object_pool_t *pool, const void *object, size_t offset, const char *call)
{
  char buffer[160];
  text_t what = {buffer, sizeof buffer, 0};
  if (!HAS_SYSTEM)
    fatal_misuse(call, (const char *)object + offset, AFTER_PUT);
  text_string(&what, AFTER_PUT ", at offset ");
  text_number(&what, offset);
  text_string(&what, " of an object of ");
  text_number(&what, pool->object_size);
  text_string(&what, " bytes of");
  say_pool(&what, pool);
  fatal_misuse(call, object, buffer);
}

bool misuse_was_written(const object_pool_t *pool, const void *object) { return !is_dead(object, pool->object_size); }

/* Ends the program at the first wrong byte. Its offset leads to the write. */
void misuse_verify_dead(const object_pool_t *pool, const void *object, const char *call)
{
  const char *written = dead_find_written(object, pool->object_size);
  if (unlikely(written != NULL))
    written_after_put(pool, object, (size_t)(written - (const char *)object), call);
}
