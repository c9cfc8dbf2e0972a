/* SPDX-License-Identifier: MIT
 * All pools of the process are verified, forked and counted. Firmware has nothing of this. */
#include "base/text.h"
#include "heap/debug_hooks.h"
#include "heap/heap.h"
#include "misuse.h"
#include "object_pool/cache.h"
#include "object_pool/hooks.h"
#include "object_pool/object_misuse.h"
#include "object_pool/registry.h"
#include "option.h"
#include <string.h>

/* A tool itself sees writes to objects that are closed to the program. A single-threaded pool has no lock. */
static const void *look_for_written(object_pool_t *pool, bool alone)
{
  if (!is_checked(pool) || is_watched(pool) || pool->ending || (pool->single_thread && !alone))
    return NULL;
  LOCKED(&pool->lock);
  return array_find_written(pool);
}

/* Reports with no lock held, because a handler for the end of the program may use pools. */
static void verify_pools(heap_t *heap, bool alone, const char *call)
{
  const void *written = NULL;
  lock_acquire(&heaps_lock);
  object_pool_t *pool = heap ? heap->object_pools : all_pools;
  while (pool && !(written = look_for_written(pool, alone)))
    pool = heap ? pool->next_in_heap : pool->next;
  lock_release(&heaps_lock);
  if (written)
    misuse_verify_dead(pool, written, call);
}

/* No call holds the locks of two pools, so their order does not matter. Single-threaded pools have no lock. */
static void for_each_shared(void (*act)(lock_t *))
{
  for (object_pool_t *pool = all_pools; pool; pool = pool->next)
    if (!pool->single_thread)
      act(&pool->lock);
}

static void acquire_pools(void)
{
  lock_acquire(&object_caches_lock);
  for_each_shared(lock_acquire);
}

static void release_pools(void)
{
  for_each_shared(lock_release);
  lock_release(&object_caches_lock);
}

/* In the child of a fork, no thread is creating an array, so the locks of growth are free too. A pool that is single-threaded
 * or being destroyed is left alone, because its thread may be the one that forked. */
static void reset_pools(void)
{
  for_each_shared(lock_reset);
  lock_reset(&object_caches_lock);
  for (object_pool_t *pool = all_pools; pool; pool = pool->next) {
    lock_reset(&pool->growth);
    caches_forget_others(pool);
    if (!pool->single_thread && !pool->ending)
      hooks_free_deserted(pool);
  }
  caches_forget_blocks();
}

/* Reads only the pool's own words: a single-threaded pool has no lock, so its arrays may leave at any moment. */
static void object_pool_figures_of(const object_pool_t *pool, object_pool_figures_t *f)
{
  *f = (object_pool_figures_t){.object_size = pool->object_size,
                               .capacity = LOAD(pool->capacity),
                               .live = live_count(pool),
                               .arrays = LOAD(pool->array_count),
                               .held_bytes = sizeof *pool + LOAD(pool->held_bytes)};
  memcpy(f->name, pool->name, sizeof f->name);
  memcpy(f->heap, pool->heap->name, sizeof f->heap);
}

void object_pools_visit(object_pool_visit_fn *visit, void *context)
{
  object_pool_figures_t figures;
  LOCKED(&heaps_lock);
  for (object_pool_t *pool = all_pools; pool; pool = pool->next) {
    object_pool_figures_of(pool, &figures);
    visit(&figures, context);
  }
}

bool pools_are_checked(void) { return settings.all; }

static void say_left(const object_pool_t *pool, size_t live)
{
  char buffer[400];
  text_t text = {buffer, sizeof buffer - 1, 0};
  text_string(&text, "tidepool: pool ");
  text_quoted(&text, pool->name);
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

/* The program continues. */
void pool_ends(const object_pool_t *pool)
{
  size_t live = unlikely(settings.leaks & LEAKS_AT_DESTROY) ? live_count(pool) : 0;
  if (unlikely(live))
    say_left(pool, live);
}

const heap_dependents_t object_pools = {.verify = verify_pools,
                                        .drop = registry_drop_pools_of,
                                        .visit = object_pools_visit,
                                        .thread_ends = caches_end_of_thread,
                                        .fork_prepare = acquire_pools,
                                        .fork_parent = release_pools,
                                        .fork_child = reset_pools};
