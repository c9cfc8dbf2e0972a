/* SPDX-License-Identifier: MIT
 *
 * A long life: pools that grow and shrink, evict and overflow, in heaps with fixed budgets, as a server or a game would use
 * them, wave after wave. What the heaps hold must come back to the same figure at the same point of each wave; a figure that
 * creeps is a leak or fragmentation, and fails.
 *
 * usage: soak SECONDS    prints the series as CSV: seconds, wave, objects live at the peak of the wave, bytes held then and in
 *                        the trough, of the heap that grows and of the heap of blocks of all sizes */
#include "soak_clock.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidepool.h>

enum {
  BUDGET = 8 << 20,
  SMALL_BUDGET = 1 << 20,
  PURGE_MS = 20,
  MOST = 30000,
  VOICES = 64,
  BLOCKS = 1500,
  WARM_UP_WAVES = 20,
  SHAPES = 5,
  STEPS_A_MS = 1000
};

#define require(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))
static _Noreturn void fail(int line, const char *condition)
{
  fprintf(stderr, "soak: line %d: %s\n", line, condition);
  exit(EXIT_FAILURE);
}

typedef struct random {
  uint64_t state;
} random_t;
static size_t below(random_t *random, size_t bound)
{
  random->state = random->state * 6364136223846793005u + 1442695040888963407u;
  return (size_t)((random->state >> 33) % bound);
}

static size_t held(pool_heap_t *heap)
{
  pool_stats_t s;
  require(pool_heap_stats(heap, &s));
  require(s.held_bytes <= s.budget);
  return s.held_bytes;
}

typedef struct world {
  random_t random;
  pool_heap_t *heap, *mixed; /* of the pools, and of blocks of all sizes */
  object_pool_t *enemies, *parts, *voices, *spare, *jobs;
  void *enemy[MOST], *block[BLOCKS];
  size_t enemies_live;
  size_t oldest_voice;
  object_pool_handle_t voice[VOICES];
} world_t;

static bool construct(void *object, void *context) { return (void)context, memset(object, 1, 16), true; }
static void reset(void *object, void *context) { (void)context, memset(object, 1, 16); }

static void *oldest_voice(object_pool_t *pool, void *context)
{
  const world_t *world = context;
  for (size_t i = 0; i < VOICES; i++) {
    void *voice = object_pool_resolve(pool, world->voice[(world->oldest_voice + i) % VOICES]);
    if (voice)
      return voice;
  }
  return NULL;
}

static void set_up(world_t *w)
{
  *w = (world_t){.random = {1}};
  w->heap = pool_heap_create(&(pool_heap_options_t){.name = "pools", .budget = BUDGET, .purge_delay_ms = PURGE_MS});
  w->mixed = pool_heap_create(&(pool_heap_options_t){.name = "mixed", .budget = SMALL_BUDGET, .purge_delay_ms = PURGE_MS});
  require(w->heap && w->mixed);
  object_pool_options_t o = {.heap = w->heap, .context = w};
  o.object_size = 120, o.capacity = 500, o.when_full = OBJECT_POOL_GROW, o.construct = construct, o.reset = reset;
  w->enemies = object_pool_create(&o);
  o.object_size = 24, o.construct = NULL, o.reset = NULL, o.flags = OBJECT_POOL_SINGLE_THREAD;
  w->parts = object_pool_create(&o);
  o.object_size = 200, o.capacity = VOICES, o.when_full = OBJECT_POOL_EVICT, o.choose_victim = oldest_voice;
  w->voices = object_pool_create(&o);
  o.object_size = 64, o.capacity = 100, o.when_full = OBJECT_POOL_GROW, o.max_capacity = 5000;
  w->spare = object_pool_create(&o);
  o.when_full = OBJECT_POOL_OVERFLOW, o.overflow = w->spare;
  w->jobs = object_pool_create(&o);
  require(w->enemies && w->parts && w->voices && w->spare && w->jobs);
}

static void spawn(world_t *w)
{
  void *enemy = w->enemies_live < MOST ? object_pool_get(w->enemies) : NULL;
  if (enemy)
    w->enemy[w->enemies_live++] = enemy;
}

static void kill_one(world_t *w)
{
  size_t i = below(&w->random, w->enemies_live);
  object_pool_put(w->enemies, w->enemy[i]);
  w->enemy[i] = w->enemy[--w->enemies_live];
}

/* One step of everything; `most` enemies is where the wave goes to. */
static void step(world_t *w, size_t most)
{
  if (w->enemies_live < most)
    spawn(w);
  else if (w->enemies_live > most)
    kill_one(w);
  if (w->enemies_live && below(&w->random, 4) == 0)
    kill_one(w), spawn(w);
  void *voice = object_pool_get(w->voices);
  require(voice);
  w->voice[w->oldest_voice++ % VOICES] = object_pool_handle(w->voices, voice);
  size_t i = below(&w->random, BLOCKS);
  pool_heap_free(w->mixed, w->block[i]);
  w->block[i] = pool_heap_alloc(w->mixed, 16 + below(&w->random, 600));
}

static void burst(world_t *w, size_t size)
{
  void *jobs[400];
  for (size_t i = 0; i < size; i++)
    if (!object_pool_get(w->parts))
      break;
  object_pool_put_all(w->parts);
  size_t got = object_pool_get_batch(w->jobs, jobs, 400);
  require(got == 400);
  object_pool_put_batch(w->jobs, jobs, got);
}

static size_t wave(world_t *w, unsigned number)
{
  size_t peak = 4000 + number % SHAPES * 3000;
  for (size_t i = 0; i < peak + peak / 2; i++) {
    step(w, peak);
    if (i % STEPS_A_MS == 0)
      clock_work(1);
  }
  burst(w, peak * 2);
  return peak;
}

/* Down to none, and long enough for what grew to be given back: one survivor would keep an array, by right. */
static void trough(world_t *w)
{
  while (w->enemies_live)
    kill_one(w);
  clock_pause(2 * PURGE_MS);
  object_pool_t *pools[] = {w->enemies, w->parts, w->jobs, w->spare};
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
    object_pool_capacity(pools[i]);
  for (size_t i = 0; i < BLOCKS; i++) {
    pool_heap_free(w->mixed, w->block[i]);
    w->block[i] = NULL;
  }
  pool_heap_trim(w->heap, 0);
  pool_heap_trim(w->mixed, 0);
}

typedef struct extremes {
  size_t least, most;
} extremes_t;
static void note(extremes_t *e, size_t value)
{
  e->least = !e->most || value < e->least ? value : e->least;
  e->most = value > e->most ? value : e->most;
}

int main(int argc, char **argv)
{
  static world_t world;
  double seconds = argc == 2 ? atof(argv[1]) : 0, start = clock_seconds();
  if (!(seconds > 0)) {
    fputs("usage: soak SECONDS\n", stderr);
    return 2;
  }
  set_up(&world);
  extremes_t warm = {0, 0}, late = {0, 0}, warm_peak[SHAPES] = {{0, 0}}, late_peak[SHAPES] = {{0, 0}};
  puts("seconds,wave,live_at_peak,held_at_peak,held_in_trough,mixed_at_peak,mixed_in_trough");
  unsigned number = 0;
  for (; clock_seconds() - start < seconds || number < 2 * WARM_UP_WAVES; number++) {
    size_t peak = wave(&world, number), at_peak = held(world.heap), mixed_peak = held(world.mixed);
    trough(&world);
    size_t in_trough = held(world.heap), mixed_trough = held(world.mixed);
    printf("%.2f,%u,%zu,%zu,%zu,%zu,%zu\n", clock_seconds() - start, number, peak, at_peak, in_trough, mixed_peak,
           mixed_trough);
    note(number < WARM_UP_WAVES ? &warm : &late, in_trough + mixed_trough);
    note(number < WARM_UP_WAVES ? &warm_peak[number % SHAPES] : &late_peak[number % SHAPES], at_peak);
  }
  fprintf(stderr, "soak: %u waves; held in the trough %zu to %zu bytes in the warm-up, %zu to %zu after it\n", number,
          warm.least, warm.most, late.least, late.most);
  require(late.most <= warm.most);
  for (int shape = 0; shape < SHAPES; shape++)
    require(late_peak[shape].most <= warm_peak[shape].most);
  object_pool_t *pools[] = {world.enemies, world.parts, world.voices, world.jobs, world.spare};
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
    object_pool_destroy(pools[i]);
  pool_heap_destroy(world.heap);
  pool_heap_destroy(world.mixed);
  return 0;
}
