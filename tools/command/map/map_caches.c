/* SPDX-License-Identifier: MIT
 *
 * Which blocks are in magazines: those of threads, and those of depots. A magazine changes with each call of its owner, so an
 * entry that is none, or a block that is free, marks its slab as changing. */
#include "debug/export_root.h"
#include "map.h"
#include "map_read.h"
#include <string.h>

enum { CHAINS_LOG2_MOST = 20 };

typedef struct caches {
  map_t *map;
  memory_t *memory;
  uint32_t heap; /* whose magazines are looked at, and of which row */
  uint32_t row;
  map_table_t seen; /* threads, caches and magazines: each is in one list, so what leads back to one has no end */
} caches_t;

/* Reads a record of a list that was not read before. */
static bool read_once(caches_t *caches, uint64_t address, void *to, size_t bytes)
{
  if (map_table_get(&caches->seen, address) == MAP_NONE && memory_read(caches->memory, address, to, bytes)) {
    map_table_put(&caches->seen, address, 0);
    return true;
  }
  caches->map->changing++;
  return false;
}

/* ---- entries ---- */

static void mark(caches_t *caches, uint64_t block)
{
  map_t *map = caches->map;
  map_place_t *place = map_place_at(map, caches->heap, block);
  if (!place || place->kind != PLACE_SLAB || place->row != caches->row) {
    map->changing++;
    return;
  }
  uint64_t offset = block - place->start, index = offset / map->rows[place->row].block_size;
  if (offset % map->rows[place->row].block_size || index >= place->fresh ||
      map_state(map, place, (uint32_t)index) != MAP_LIVE) {
    place->changing = true;
    return;
  }
  bit_set(map->words + place->words + bits_words(place->capacity), index);
  place->cached++;
}

/* The words of a magazine up to `top`, down to the NULL that ends them. */
static void mark_entries(caches_t *caches, const uintptr_t *words, size_t top)
{
  for (size_t i = top; i > 0 && words[i]; i--)
    mark(caches, words[i]);
}

/* A list of magazines that are put away: word 0 leads to the next. All of them are full to their last word. */
static void mark_list(caches_t *caches, uint64_t magazine)
{
  uintptr_t words[MAGAZINE_WORDS];
  while (magazine && magazine % MAGAZINE_BYTES == 0 && read_once(caches, magazine, words, sizeof words)) {
    mark_entries(caches, words, MAGAZINE_WORDS - 1);
    magazine = words[0] - words[0] % MAGAZINE_BYTES;
  }
}

/* ---- threads ---- */

static void mark_loaded(caches_t *caches, const loaded_t *loaded)
{
  uintptr_t words[MAGAZINE_WORDS];
  uint64_t below = number_of(loaded->below), magazine = below - below % MAGAZINE_BYTES;
  if (!loaded->top)
    return;
  mark(caches, number_of(loaded->top));
  if (below % sizeof *words || !memory_read(caches->memory, magazine, words, sizeof words))
    caches->map->changing++;
  else
    mark_entries(caches, words, (size_t)(below - magazine) / sizeof *words);
}

static void mark_magazines(caches_t *caches, uint32_t heap, const magazines_t *magazines)
{
  static cache_t cache;
  const map_t *map = caches->map;
  if (!magazines->cache)
    return;
  if (!memory_read(caches->memory, number_of(magazines->cache), &cache, sizeof cache)) {
    caches->map->changing++;
    return;
  }
  caches->heap = heap;
  for (uint32_t i = 0; i < map->heaps[heap].row_count; i++) {
    caches->row = map->heaps[heap].first_row + i;
    const map_row_t *row = &map->rows[caches->row];
    if (row->kind != MAP_CLASS || row->size_class > CLASS_CACHED)
      continue;
    mark_loaded(caches, &cache.of[row->size_class]);
    mark_list(caches, number_of(magazines->of[row->size_class].full));
  }
}

static void mark_chain(caches_t *caches, uint64_t cache)
{
  static heap_cache_t record;
  for (; cache && read_once(caches, cache, &record, sizeof record); cache = number_of(record.next)) {
    uint32_t heap = map_table_get(&caches->map->heap_at, number_of(record.heap));
    if (heap != MAP_NONE)
      mark_magazines(caches, heap, &record.magazines);
  }
}

static void mark_thread(caches_t *caches, const thread_t *thread)
{
  mark_magazines(caches, 0, &thread->default_magazines);
  uint64_t chains = number_of(thread->chains);
  if (!chains || thread->chains_log2 > CHAINS_LOG2_MOST)
    return;
  uintptr_t first;
  for (size_t i = 0; i < (size_t)1 << thread->chains_log2; i++)
    if (memory_read(caches->memory, chains + i * sizeof first, &first, sizeof first))
      mark_chain(caches, first);
    else
      return;
}

static void mark_threads(caches_t *caches, uint64_t list)
{
  static thread_t thread;
  uint64_t at = memory_word(caches->memory, list);
  for (; at && read_once(caches, at, &thread, sizeof thread); at = number_of(thread.next))
    mark_thread(caches, &thread);
}

/* ---- depots ---- */

static void mark_depots(caches_t *caches, uint64_t bin)
{
  bin_t record;
  if (!memory_read(caches->memory, bin, &record, sizeof record) || !memory_is_true(&record.cached))
    return;
  uint32_t shards = record.depots.shards < DEPOT_SHARDS_MOST ? record.depots.shards : DEPOT_SHARDS_MOST;
  for (uint32_t i = 0; i < shards; i++) {
    uint64_t depots = number_of(i < DEPOT_SHARDS ? record.depots.of : record.depots.more);
    uint64_t depot = depots + (i < DEPOT_SHARDS ? i : i - DEPOT_SHARDS) * sizeof(depot_t);
    if (depots)
      mark_list(caches, memory_word(caches->memory, depot + offsetof(depot_t, newest)));
  }
}

/* What was read before is older than what magazines say now. */
void map_read_caches(map_t *map, memory_t *memory, const export_root_t *root)
{
  caches_t caches = {.map = map, .memory = memory};
  memory_forget(memory);
  mark_threads(&caches, root->threads);
  mark_threads(&caches, root->lost_threads);
  for (uint32_t i = 0; i < map->row_count; i++)
    if (map->rows[i].kind == MAP_CLASS && map->rows[i].bin) {
      caches.heap = map->rows[i].heap;
      caches.row = i;
      mark_depots(&caches, map->rows[i].bin);
    }
  map_table_free(&caches.seen);
}
