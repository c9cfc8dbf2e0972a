/* SPDX-License-Identifier: MIT
 *
 *   mutated_map ROUNDS
 *
 * The map of this very process, whose memory is read with bytes and words of it exchanged at random, and with parts that cannot
 * be read: as if all of it changed meanwhile, and worse. Each map comes to an end, is not larger than what there is to be seen,
 * and can be printed and written as a page; the sanitizers see whether anything is read or written outside. The first is read
 * as it is, and then its figures are those of the heaps. */
#include "../../tools/command/command.h"
#include "../../tools/command/map/map_print.h"
#include "../dice.h"
#include "debug/export_root.h"
#include "heap/heap.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <tidepool.h>
#include <unistd.h>

enum { BLOCKS = 2000, PLACES_MOST = 1 << 22, WORDS_MOST = 1 << 24 };

/* What main.c has. */
void command_fail(int status, const char *format, ...)
{
  fprintf(stderr, "%s\n", format);
  exit(status);
}

/* ---- what is mapped ---- */

static pool_heap_t *heaps[7];

static void fill(pool_heap_t *heap, size_t count, size_t size, size_t nth)
{
  static void *blocks[BLOCKS];
  for (size_t i = 0; i < count; i++)
    if (!(blocks[i] = pool_heap_alloc(heap, size)))
      exit(2);
  for (size_t i = 0; i < count; i += nth)
    pool_heap_free(heap, blocks[i]);
}

static void make_heaps(void)
{
  static _Alignas(64) char buffer[1 << 16];
  heaps[0] = pool_heap_create(&(pool_heap_options_t){.name = "slabs"});
  heaps[1] = pool_heap_create(&(pool_heap_options_t){.name = "bounded", .budget = 32 << 20});
  heaps[2] = pool_heap_create(&(pool_heap_options_t){.name = "granules", .budget = 1 << 20});
  heaps[3] = pool_heap_create(&(pool_heap_options_t){.name = "units", .reserve = 9 << 20});
  heaps[4] = pool_heap_create(&(pool_heap_options_t){.name = "guest", .memory = buffer, .memory_size = sizeof buffer});
  heaps[5] = pool_heap_default();
  heaps[6] = pool_heap_create(&(pool_heap_options_t){.name = "checked", .flags = POOL_HEAP_CHECKED});
  for (size_t i = 0; i < sizeof heaps / sizeof *heaps; i++)
    if (!heaps[i])
      exit(2);
  for (size_t i = 0; i < sizeof heaps / sizeof *heaps; i++)
    fill(heaps[i], i == 4 ? 100 : 1000, 100 + i * 16, 3);
  fill(heaps[0], 2000, 16, 2);
  fill(heaps[0], 10, 300000, 2);
  fill(heaps[5], 6, 5 << 20, 2);
  fill(heaps[1], 40, 20000, 3);
}

/* ---- how it is read ---- */

static uint64_t dice = 1;
static size_t wrong; /* one of so many fetches is; 0: none */

static void exchange(unsigned char *bytes, size_t size)
{
  for (size_t changes = 1 + below(&dice, 16); changes--;) {
    size_t at = below(&dice, size), word = at / 8 * 8;
    uint64_t number = roll(&dice);
    if (one_in(&dice, 2) || word + 8 > size)
      bytes[at] = (unsigned char)number;
    else if (one_in(&dice, 3))
      memset(bytes + word, 0, 8);
    else if (one_in(&dice, 2))
      memcpy(bytes + word, bytes + below(&dice, size / 8) * 8, 8); /* what is elsewhere is likely to be believed */
    else
      memcpy(bytes + word, &number, 8);
  }
}

static bool fetch(void *context, uint64_t address, void *to, size_t bytes)
{
  struct iovec local = {to, bytes}, remote = {(void *)(uintptr_t)address, bytes};
  (void)context;
  if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)bytes || (wrong && one_in(&dice, wrong * 10)))
    return false;
  if (wrong && one_in(&dice, wrong))
    exchange(to, bytes);
  return true;
}

/* ---- what becomes of it ---- */

/* Of some blocks more is known, as of those of a recording. */
static void know_blocks(map_t *map)
{
  free(map->blocks);
  map->blocks = calloc(BLOCKS, sizeof *map->blocks);
  map->block_count = 0;
  for (size_t i = 0; map->blocks && i < map->place_count && i < BLOCKS; i++)
    map->blocks[map->block_count++] = (map_block_t){map->places[i].start + below(&dice, 5000), i, i, 0};
}

static void write_all(const map_t *map, const map_source_t *source)
{
  FILE *to = fopen("/dev/null", "w");
  if (!to)
    exit(2);
  map_print(map, source, to);
  map_print_json(map, source, to);
  map_write_page(map, source, to);
  fclose(to);
}

static bool is_exact(const map_t *map)
{
  for (size_t i = 0; i < sizeof heaps / sizeof *heaps; i++) {
    pool_stats_t stats;
    pool_heap_stats(heaps[i], &stats);
    map_sums_t sums = map_sums(map, map_table_get(&map->heap_at, (uintptr_t)heaps[i]));
    if (stats.live_blocks != sums.blocks[MAP_LIVE] || stats.live_bytes != sums.live_bytes) {
      printf("heap %zu: %zu blocks of %zu bytes are live, the map has %zu of %zu\n", i, stats.live_blocks, stats.live_bytes,
             (size_t)sums.blocks[MAP_LIVE], (size_t)sums.live_bytes);
      return false;
    }
  }
  return map->changing == 0;
}

static export_root_t root(void)
{
  return (export_root_t){.layout = export_layout(),
                         .default_heap = (uintptr_t)&default_heap,
                         .window = (uintptr_t)&class_window,
                         .slots = (uintptr_t)space_slots,
                         .huge_ranges = (uintptr_t)&huge_ranges,
                         .threads = (uintptr_t)threads_list(),
                         .lost_threads = (uintptr_t)threads_lost_list()};
}

int main(int argc, char **argv)
{
  static memory_t memory;
  static char title[] = "this </process>";
  map_source_t source = {.title = title, .seconds = -1};
  size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, read = 0, changing = 0;
  char byte, why[256] = "";
  if (process_vm_readv(getpid(), &(struct iovec){&byte, 1}, 1, &(struct iovec){title, 1}, 1, 0) != 1) {
    perror("this process may not read its own memory");
    return 77;
  }
  make_heaps();
  for (size_t i = 0; i < rounds; i++) {
    map_t map;
    export_root_t from = root();
    memory = (memory_t){.fetch = fetch};
    wrong = i ? 1 + below(&dice, 60) : 0;
    if (i && one_in(&dice, 20))
      exchange((unsigned char *)&from, sizeof from);
    bool is_read = map_read(&map, &memory, &from, why);
    if ((!i && (!is_read || !is_exact(&map))) || (!is_read && !why[0]))
      return 1;
    if (map.place_count > PLACES_MOST || map.word_count > WORDS_MOST)
      return 3;
    if (is_read)
      know_blocks(&map);
    if (is_read)
      write_all(&map, &source);
    read += is_read;
    changing += is_read && map.changing;
    map_free(&map);
    memory_finish(&memory);
  }
  printf("%zu of %zu were read, in %zu something had changed\n", read, rounds, changing);
  return read > rounds / 4 && changing > rounds / 8 ? 0 : 4;
}
