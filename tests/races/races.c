/* SPDX-License-Identifier: MIT
 *
 * usage: races SEED SECONDS [THREADS]
 *
 * Threads do everything at once that they may: ask about addresses of each other's blocks, freed ones too, walk heaps, print
 * figures, make and end heaps with budgets, parents, reserves and object pools in them, start, end and fork, trim, set budgets,
 * and run out of memory. The library is compiled with pauses.h, which lets others go first between any two atomic operations.
 *
 * Now and then all stand still: the figures are those of what the threads keep, and the invariants hold where they are built
 * in. Ends with 0 and a line of figures, or with abort() and lines that name the seed and what each thread was doing; so does
 * a run that hangs. The seed decides what each thread does and where it pauses, not when. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tidepool/heap.h>
#include <tidepool/object_pool.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>
#include <time.h>

#ifdef TIDEPOOL_CHECKED
#include "check/check.h"
#else
static bool check_everything(void) { return true; }
#endif

/* Its shadow does not fit under a limit on addresses, and after a fork it knows of one thread. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum {
  PAUSES_ONE_IN = 256,
  THREADS_MOST = 64,
  PLACES = 96,                       /* blocks one thread keeps */
  OBJECTS = 16,                      /* of the shared object pool */
  SEEN = 256,                        /* addresses that anybody asks about */
  BOARD = 32,                        /* blocks, and heaps, for whoever comes by */
  HEAP_BOARD = 4,
  BYTES_EACH = 24 << 20,             /* a thread keeps no more than that */
  ROUND_LEAST_MS = 60, ROUND_MOST_MS = 300,
  STUCK_SECONDS = 300,               /* without a round, or in a child */
  HEAP_BLOCKS = 60,
  MEMORY_BYTES = 160 << 10,
  FIXED_BUDGET = 6 << 20,
  OBJECT_BYTES = 200
};

/* ---- pauses ---- */

static uint64_t seed;

static void sleep_us(uint64_t us)
{
  struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
  while (nanosleep(&t, &t) != 0 && errno == EINTR) {
  }
}

/* 0: the thread does not pause. Its own, so that the threads meet nowhere for it. */
static _Thread_local uint64_t pause_dice;
static uint64_t sleeps_share = 8;   /* of the pauses; the others let somebody run who can */

void race_pause(void);
void race_pause(void)
{
  uint64_t x = pause_dice;
  if (!x)
    return;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  pause_dice = x;
  if (x >> 8 & (PAUSES_ONE_IN - 1))
    return;
  int saved = errno;
  if ((x >> 16) % sleeps_share == 0)
    sleep_us(50 + (x >> 32) % 450);
  else
    sched_yield();
  errno = saved;
}

/* ---- failing ---- */

static _Noreturn void must_failed(int line, const char *condition);
#define must(condition) ((condition) ? (void)0 : must_failed(__LINE__, #condition))
#include "../kept.h"

/* What one thread after the other goes on with. */
typedef struct racer {
  pthread_t thread, before;
  bool      succeeds;            /* `before` is to be joined */
  unsigned  number;
  uint64_t  dice;
  kept_t    kept[PLACES];
  size_t    bytes;
  void     *objects[OBJECTS];
  bool      forbidden;           /* from asking the system */
  uint64_t  steps, forks, ends, refused, heaps;
  unsigned  restarts_left;       /* for one round */
  _Atomic(const char *) doing;
} racer_t;

static racer_t racers[THREADS_MOST];
static unsigned racer_count = 4;
static _Thread_local const racer_t *self;
static atomic_bool is_child;

/* Only what a signal handler may call. */
static void say(const char *what)
{
  char text[160];
  const char *where = atomic_load(&is_child) ? ", in a child" : "";
  int length = snprintf(text, sizeof text, "races: seed %lu%s: %s\n", (unsigned long)seed, where, what);
  if (write(STDERR_FILENO, text, (size_t)length) < 0)
    abort();
}

static void say_what_all_do(void)
{
  char text[80];
  for (unsigned i = 0; i < racer_count; i++) {
    const char *doing = atomic_load(&racers[i].doing), *which = self == &racers[i] ? " (this one)" : "";
    unsigned long steps = (unsigned long)racers[i].steps;
    snprintf(text, sizeof text, "thread %u%s: %s, step %lu", i, which, doing ? doing : "nothing", steps);
    say(text);
  }
}

static _Noreturn void must_failed(int line, const char *condition)
{
  char text[120];
  snprintf(text, sizeof text, "line %d: not so: %s", line, condition);
  say(text);
  abort();                     /* on_signal() says the rest */
}

static void on_signal(int signal_number)
{
  say(signal_number == SIGALRM ? "stuck" : signal_number == SIGABRT ? "ended" : "memory fault");
  say_what_all_do();
  signal(SIGABRT, SIG_DFL);
  abort();
}

static void watch(int signal_number)
{
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  sigaction(signal_number, &action, NULL);
}

/* ---- memory that runs out: while the process may have no more addresses, anything may fail ---- */

static atomic_uint starving;         /* odd: now */
static struct rlimit all_addresses;

static bool excused(const racer_t *racer, unsigned at_first)
{
  return racer->forbidden || at_first % 2 || atomic_load(&starving) != at_first;
}

static size_t addresses_in_use(void)
{
  size_t pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%zu", &pages) != 1)
    pages = 0;
  if (file)
    fclose(file);
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void starve(racer_t *racer)
{
  unsigned now = atomic_load(&starving);
  size_t used = addresses_in_use();
  if (SANITIZED || !used || now % 2 || !atomic_compare_exchange_strong(&starving, &now, now + 1))
    return;
  struct rlimit few = {used + below(&racer->dice, 1 << 20), all_addresses.rlim_max};
  setrlimit(RLIMIT_AS, &few);
  sleep_us(below(&racer->dice, 3000));
  setrlimit(RLIMIT_AS, &all_addresses);
  atomic_fetch_add(&starving, 1);
}

/* ---- what is seen and left for others ---- */

static _Atomic(char *) seen[SEEN];
static _Atomic(char *) board[BOARD];
static atomic_bool pausing, ending;
static pthread_barrier_t stand_still, go_on;

static size_t some_size(uint64_t *dice)
{
  size_t n = below(dice, 1000);
  if (n < 600)
    return below(dice, 700);
  if (n < 800)
    return below(dice, 40 << 10);
  if (n < 950)
    return below(dice, 400 << 10);
  return below(dice, n < 990 ? 3 << 20 : 9 << 20);
}

static char *some_address(racer_t *racer, char *near)
{
  return (char *)((uintptr_t)near + below(&racer->dice, 1 << below(&racer->dice, 22)) - below(&racer->dice, 64));
}

/* ---- the heaps that all use ---- */

enum { TIGHT, ABOVE, BELOW, CHECKED, ZEROING, RESERVED, FREE, SHARED, BEYOND = SHARED, SHARED_AND_BEYOND };
static pool_heap_t *shared[SHARED_AND_BEYOND];   /* the last one only serves what others overflow */
static const char *const shared_names[] = {"tight", "above", "below", "checked", "zeroing", "reserved", "free", "beyond"};
static object_pool_t *sparks;
static pool_heap_t *sparks_heap;
static _Atomic(pool_heap_t *) heap_board[HEAP_BOARD];
static char memories[THREADS_MOST][MEMORY_BYTES];

/* The heap's budget may have been set lower meanwhile. */
static bool help_out(pool_heap_t *heap, size_t bytes, unsigned attempt, void *context)
{
  (void)bytes, (void)context;
  if (attempt == 0)
    pool_heap_trim(heap, 0);
  return attempt == 0 || (attempt == 1 && pool_heap_set_budget(heap, (size_t)8 << 20));
}

static void create_shared_heaps(void)
{
  static pool_heap_options_t options[SHARED_AND_BEYOND];
  options[TIGHT] = (pool_heap_options_t){.budget = (size_t)4 << 20, .on_exhausted = help_out};
  options[ABOVE] = (pool_heap_options_t){.budget = (size_t)20 << 20};
  options[BELOW] = (pool_heap_options_t){.budget = FIXED_BUDGET};
  options[CHECKED] = (pool_heap_options_t){.flags = POOL_HEAP_CHECKED};
  options[ZEROING] = (pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE};
  options[RESERVED] = (pool_heap_options_t){.reserve = (size_t)2 << 20, .purge_delay_ms = 1};
  for (size_t i = 0; i < SHARED_AND_BEYOND; i++) {
    options[i].name = shared_names[i];
    if (i == BELOW)
      options[i].parent = shared[ABOVE];
    must(shared[i] = pool_heap_create(&options[i]));
  }
  must(sparks_heap = pool_heap_create(&(pool_heap_options_t){.name = "sparks"}));
  must(sparks = object_pool_create(&(object_pool_options_t){
    .name = "sparks", .object_size = OBJECT_BYTES, .capacity = 20, .when_full = OBJECT_POOL_GROW, .heap = sparks_heap}));
}

static bool is_limited(const pool_heap_t *heap)
{
  return heap == shared[TIGHT] || heap == shared[ABOVE] || heap == shared[BELOW];
}

static pool_heap_t *some_heap(racer_t *racer)
{
  size_t n = below(&racer->dice, 2 * SHARED);
  return n < SHARED ? shared[n] : pool_heap_default();
}

/* ---- steps with blocks ---- */

static void put(racer_t *racer, kept_t *kept, pool_heap_t *heap, void *block, size_t size)
{
  must((uintptr_t)block % 16 == 0 && pool_usable_size(block) >= size);
  *kept = (kept_t){block, size, roll(&racer->dice), heap};
  racer->bytes += size;
  fill(kept);
  if (one_in(&racer->dice, 4))
    atomic_store_explicit(&seen[below(&racer->dice, SEEN)], kept->block, memory_order_relaxed);
}

static void drop(racer_t *racer, kept_t *kept)
{
  if (!kept->block)
    return;
  verify(kept, kept->size);
  errno = 77;
  if (one_in(&racer->dice, 2))
    pool_heap_free(kept->heap, kept->block);
  else
    pool_free(kept->block);
  must(errno == 77);
  racer->bytes -= kept->size;
  kept->block = NULL;
}

static void step_allocate(racer_t *racer, kept_t *kept)
{
  size_t size = some_size(&racer->dice), how = below(&racer->dice, 8);
  pool_heap_t *heap = some_heap(racer);
  bool is_default = heap == pool_heap_default();
  drop(racer, kept);
  unsigned at_first = atomic_load(&starving);
  char *block;
  errno = 77;
  if (how == 0)
    block = pool_heap_zalloc(heap, size);
  else if (how == 1)
    block = pool_heap_aligned_alloc(heap, (size_t)1 << below(&racer->dice, 17), size);
  else
    block = is_default ? pool_alloc(size) : pool_heap_alloc(heap, size);
  must(block ? errno == 77 : errno == ENOMEM);
  must(block || is_limited(heap) || excused(racer, at_first));
  if (!block) {
    racer->refused++;
    return;
  }
  for (size_t i = 0; how == 0 && i < size; i += step_at(i, size))
    must(block[i] == 0);
  put(racer, kept, heap, block, size);
}

static void step_reallocate(racer_t *racer, kept_t *kept)
{
  if (!kept->block)
    return;
  size_t size = 1 + some_size(&racer->dice), had = kept->size;
  unsigned at_first = atomic_load(&starving);
  verify(kept, had);
  char *block = one_in(&racer->dice, 2) ? pool_realloc(kept->block, size) : pool_heap_realloc(kept->heap, kept->block, size);
  if (!block) {
    must(is_limited(kept->heap) || excused(racer, at_first));
    verify(kept, had);
    return;
  }
  kept->block = block;
  verify(kept, size < had ? size : had);
  racer->bytes -= had;
  put(racer, kept, kept->heap, block, size);
}

static void step_resize(racer_t *racer, kept_t *kept)
{
  if (!kept->block)
    return;
  size_t size = 1 + below(&racer->dice, kept->size * 2 + 1), had = kept->size;
  if (!pool_resize_in_place(kept->block, size))
    return;
  verify(kept, size < had ? size : had);
  racer->bytes -= had;
  put(racer, kept, kept->heap, kept->block, size);
}

static void step_free(racer_t *racer, kept_t *kept) { drop(racer, kept); }

/* A block of mine for one of somebody else's, or for none. */
static void step_hand_over(racer_t *racer, kept_t *kept)
{
  if (kept->block && kept->size < sizeof(label_t))
    return;
  if (kept->block)
    racer->bytes -= kept->size;
  char *block = atomic_exchange(&board[below(&racer->dice, BOARD)], kept->block);
  *kept = (kept_t){0};
  if (!block)
    return;
  label_t label;
  memcpy(&label, block, sizeof label);
  *kept = (kept_t){block, label.size, label.key, pool_heap_of(block)};
  racer->bytes += kept->size;
  verify(kept, kept->size);
}

/* ---- questions ---- */

/* An answer must agree with itself. */
static void ask(const char *address)
{
  size_t size = 0;
  char *start = pool_block_start(address, &size);
  must(!start || (address >= start && (size_t)(address - start) < (size ? size : 1)));
  (void)pool_in_use(address);
  (void)pool_heap_of(address);
}

static void ask_own(racer_t *racer, const kept_t *kept)
{
  size_t usable = 0;
  const char *inside = kept->block + (kept->size ? below(&racer->dice, kept->size) : 0);
  must(pool_in_use(inside));
  must(pool_block_start(inside, &usable) == kept->block && usable == pool_usable_size(kept->block));
  must(pool_heap_of(inside) == kept->heap);
}

static void step_ask(racer_t *racer, kept_t *kept)
{
  if (kept->block)
    ask_own(racer, kept);
  for (int i = 0; i < 8; i++) {
    char *address = atomic_load_explicit(&seen[below(&racer->dice, SEEN)], memory_order_relaxed);
    ask(address);
    ask(some_address(racer, address));
  }
  ask(some_address(racer, (char *)memories));
  ask(some_address(racer, memories[below(&racer->dice, racer_count)]));
}

static void step_figures(racer_t *racer, kept_t *kept)
{
  static _Thread_local char text[4096];
  pool_stats_t stats;
  (void)kept;
  must(pool_heap_stats(shared[below(&racer->dice, SHARED)], &stats));
  must(pool_heap_stats(shared[BELOW], &stats) && stats.held_bytes <= FIXED_BUDGET && stats.peak_held_bytes <= FIXED_BUDGET);
  must(pool_stats_json(text, sizeof text) > 0 && text[0] == '{');
  must(pool_heap_stats_json(some_heap(racer), text, sizeof text) > 0);
}

static void step_trim(racer_t *racer, kept_t *kept)
{
  size_t keep = one_in(&racer->dice, 2) ? 0 : below(&racer->dice, 8 << 20);
  (void)kept;
  if (one_in(&racer->dice, 3))
    pool_trim(keep);
  else
    pool_heap_trim(some_heap(racer), keep);
}

static void step_budget(racer_t *racer, kept_t *kept)
{
  (void)kept;
  pool_heap_set_budget(shared[TIGHT], (1 + below(&racer->dice, 10)) << 20);
  pool_heap_set_budget(shared[ABOVE], (10 + below(&racer->dice, 20)) << 20);
}

/* ---- running out ---- */

static void step_starve(racer_t *racer, kept_t *kept)
{
  (void)kept;
  starve(racer);
}

/* For some steps of this thread, what would need the system fails. */
static void step_forbid(racer_t *racer, kept_t *kept)
{
  (void)kept;
  must(pool_forbid_system_calls(!racer->forbidden) == racer->forbidden);
  racer->forbidden = !racer->forbidden;
}

/* ---- object pools ---- */

static void step_objects(racer_t *racer, kept_t *kept)
{
  size_t i = below(&racer->dice, OBJECTS);
  unsigned at_first = atomic_load(&starving);
  unsigned char *object = racer->objects[i];
  (void)kept;
  if (!object) {
    object = racer->objects[i] = object_pool_get(sparks);
    must(object || excused(racer, at_first));
    if (object)
      memset(object, (int)(racer->number + i), OBJECT_BYTES);
  } else {
    must(object[0] == (unsigned char)(racer->number + i) && memcmp(object, object + 1, OBJECT_BYTES - 1) == 0);
    must(object_pool_in_use(sparks, object));
    object_pool_handle_t handle = object_pool_handle(sparks, object);
    must(object_pool_resolve(sparks, handle) == object);
    object_pool_put(sparks, object);
    racer->objects[i] = NULL;
  }
  if (one_in(&racer->dice, 16))
    object_pool_shrink(sparks, 0);
  if (one_in(&racer->dice, 16))
    for (void *at = object_pool_next(sparks, NULL), *next; at; at = next) {
      next = object_pool_next(sparks, at);
      must(next == NULL || (char *)next > (char *)at);
      if (one_in(&racer->dice, 8))
        break;
    }
}

/* ---- heaps that come and go ---- */

static bool count_block(const pool_block_t *block, void *context)
{
  size_t *count = context;
  ++*count;
  return block->start != NULL;
}

/* A heap in a caller's memory, or for one thread alone, is its maker's to end. */
static pool_heap_t *create_heap(racer_t *racer, void **block, bool *mine)
{
  static const size_t own_classes[] = {32, 64, 112, 512, 4096, 40960};
  size_t kind = below(&racer->dice, 11);
  pool_heap_options_t options = {0};
  *mine = true;
  *block = NULL;
  switch (kind) {
  case 0: options.memory = memories[racer->number]; options.memory_size = MEMORY_BYTES; break;
  case 1: options.memory = *block = pool_alloc(MEMORY_BYTES); options.memory_size = *block ? MEMORY_BYTES : 0; break;
  case 2: options.flags = POOL_HEAP_SINGLE_THREAD; options.budget = one_in(&racer->dice, 2) ? 2 << 20 : 0; break;
  default: *mine = false;
  }
  switch (kind) {
  case 3: options.budget = (100 + below(&racer->dice, 4000)) << 10; break;
  case 4: options.reserve = (1 + below(&racer->dice, 20)) << 18; break;
  case 5: options.reserve = (9 + below(&racer->dice, 4)) << 20; break;
  case 6: options.flags = POOL_HEAP_CHECKED; break;
  case 7: options.flags = POOL_HEAP_ZERO_ON_FREE; options.budget = (size_t)16 << 20; break;
  case 8: options.size_classes = own_classes; options.size_class_count = 6; break;
  case 9: options.budget = (size_t)1 << 20; options.overflow = shared[BEYOND]; break;
  default: break;
  }
  if (one_in(&racer->dice, 3))
    options.parent = shared[ABOVE];
  if ((options.reserve || kind == 3 || kind == 9) && one_in(&racer->dice, 2))
    options.purge_delay_ms = 1;
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap)
    pool_free(*block);
  return heap;
}

/* Some objects of a pool stay, with the pool, until the heap drops them. */
static void use_objects(racer_t *racer, pool_heap_t *heap, bool mine)
{
  object_pool_t *pool = object_pool_create(&(object_pool_options_t){
    .object_size = 1 + below(&racer->dice, 300), .capacity = 10, .when_full = OBJECT_POOL_GROW, .heap = heap,
    .flags = mine ? OBJECT_POOL_SINGLE_THREAD : 0});
  void *objects[40];
  if (!pool)
    return;
  size_t got = object_pool_get_batch(pool, objects, 40);
  must(object_pool_live(pool) == got);
  object_pool_put_batch(pool, objects, got / 2);
  if (one_in(&racer->dice, 2))
    object_pool_destroy(pool);
}

static size_t live_of(const kept_t *kept, const pool_heap_t *heap)
{
  size_t live = 0;
  for (size_t i = 0; i < HEAP_BLOCKS; i++)
    live += kept[i].block && pool_heap_of(kept[i].block) == heap;
  return live;
}

/* Nobody else is in the heap, so what it says is exact, whatever the others do. */
static void use_heap(racer_t *racer, pool_heap_t *heap)
{
  kept_t kept[HEAP_BLOCKS];
  size_t before = 0, walked = 0;
  pool_stats_t stats;
  must(pool_heap_walk(heap, count_block, &before));
  for (size_t i = 0; i < HEAP_BLOCKS; i++) {
    size_t size = below(&racer->dice, one_in(&racer->dice, 10) ? 200000 : 500);
    kept[i] = (kept_t){pool_heap_alloc(heap, size), size, roll(&racer->dice), heap};
    if (!kept[i].block)
      continue;
    fill(&kept[i]);
    atomic_store_explicit(&seen[below(&racer->dice, SEEN)], kept[i].block, memory_order_relaxed);
    if (one_in(&racer->dice, 8)) {
      must(pool_in_use(kept[i].block));
      ask(some_address(racer, kept[i].block));
    }
  }
  for (size_t i = 0; i < HEAP_BLOCKS; i++)
    if (kept[i].block) {
      verify(&kept[i], kept[i].size);
      bool overflowed = pool_heap_of(kept[i].block) != heap;
      if (overflowed || one_in(&racer->dice, 3)) {
        pool_heap_free(heap, kept[i].block);
        kept[i].block = NULL;
      }
    }
  size_t live = before + live_of(kept, heap);
  must(pool_heap_walk(heap, count_block, &walked) && walked == live);
  must(pool_heap_stats(heap, &stats) && stats.live_blocks == live && (!stats.budget || stats.held_bytes <= stats.budget));
}

static void end_heap(racer_t *racer, pool_heap_t *heap)
{
  size_t walked = 0;
  if (one_in(&racer->dice, 2)) {
    pool_heap_reset(heap);
    must(pool_heap_walk(heap, count_block, &walked) && walked == 0);
    if (one_in(&racer->dice, 2))
      use_heap(racer, heap);
  }
  if (one_in(&racer->dice, 4))
    pool_heap_trim(heap, 0);
  pool_heap_destroy(heap);
}

/* One thread makes it, another may end it, while the first goes on with something else or ends itself. */
static void step_heap(racer_t *racer, kept_t *kept)
{
  bool mine;
  void *block;
  (void)kept;
  pool_heap_t *heap = create_heap(racer, &block, &mine);
  if (!heap)
    return;
  racer->heaps++;
  use_heap(racer, heap);
  if (one_in(&racer->dice, 2))
    use_objects(racer, heap, mine);
  if (!mine)
    heap = atomic_exchange(&heap_board[below(&racer->dice, HEAP_BOARD)], heap);
  if (heap)
    end_heap(racer, heap);
  pool_free(block);
}

/* ---- forks; another library has handlers too, which allocate ---- */

static void handler(void)
{
  void *small = pool_alloc(100), *large = pool_alloc(100 << 10);
  void *other = pool_heap_alloc(shared[FREE], 1000);
  pool_free(small);
  pool_free(large);
  pool_free(other);
}

static void *allocate_some(void *unused)
{
  (void)unused;
  for (size_t i = 1; i < 40; i++)
    pool_free(pool_alloc(i * 1000));
  return NULL;
}

static void live_on(racer_t *racer);

static void wait_for(pid_t child)
{
  int status;
  while (waitpid(child, &status, 0) < 0)
    must(errno == EINTR);
  must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void step_fork(racer_t *racer, kept_t *kept)
{
  (void)kept;
  pid_t child = fork();
  must(child >= 0 || excused(racer, atomic_load(&starving)) || errno == ENOMEM || errno == EAGAIN);
  if (child == 0) {
    live_on(racer);
    _exit(0);
  }
  if (child < 0)
    return;
  racer->forks++;
  wait_for(child);
}

/* ---- threads ---- */

typedef struct choice {
  const char *name;
  unsigned    weight;
  void      (*step)(racer_t *, kept_t *);
} choice_t;

static const choice_t choices[] = {
  {"allocates", 2800, step_allocate}, {"frees", 2400, step_free},         {"reallocates", 800, step_reallocate},
  {"resizes", 400, step_resize},      {"hands over", 800, step_hand_over}, {"asks", 700, step_ask},
  {"prints figures", 60, step_figures}, {"trims", 100, step_trim},        {"sets budgets", 60, step_budget},
  {"starves", 8, step_starve},        {"forbids", 30, step_forbid},       {"uses objects", 600, step_objects},
  {"uses a heap", 120, step_heap},    {"forks", 10, step_fork},
};

static void one_step(racer_t *racer)
{
  kept_t *kept = &racer->kept[below(&racer->dice, PLACES)];
  size_t total = 0, n;
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
    total += choices[i].weight;
  n = below(&racer->dice, total);
  racer->steps++;
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    if (n < choices[i].weight) {
      atomic_store_explicit(&racer->doing, choices[i].name, memory_order_relaxed);
      choices[i].step(racer, kept);
      break;
    }
    n -= choices[i].weight;
  }
  if (racer->bytes > BYTES_EACH)
    drop(racer, kept);
}

/* In a child the others' blocks are there, but not they. */
static void live_on(racer_t *racer)
{
  pthread_t thread;
  atomic_store(&is_child, true);
  alarm(STUCK_SECONDS);
  racer->forbidden = false;
  pool_forbid_system_calls(false);
  setrlimit(RLIMIT_AS, &all_addresses);   /* a fork copies the limits before the memory that says whether there is one */
  if (atomic_load(&starving) % 2)
    atomic_fetch_add(&starving, 1);
  for (size_t i = 0; i < PLACES; i++)
    if (racer->kept[i].block) {
      verify(&racer->kept[i], racer->kept[i].size);
      ask_own(racer, &racer->kept[i]);
    }
  static void (*const steps[])(racer_t *, kept_t *) = {
    step_allocate, step_free, step_reallocate, step_resize, step_ask,
    step_figures, step_trim, step_budget, step_objects, step_heap,
  };
  for (size_t i = 0; i < 60; i++)
    steps[below(&racer->dice, sizeof steps / sizeof *steps)](racer, &racer->kept[below(&racer->dice, PLACES)]);
  if (!SANITIZED && pthread_create(&thread, NULL, allocate_some, NULL) == 0)
    must(pthread_join(thread, NULL) == 0);
}

static void *work(void *argument);

static bool start_thread(pthread_t *thread, racer_t *racer)
{
  for (int tries = 0; tries < 1000; tries++, sleep_us(1000))
    if (pthread_create(thread, NULL, work, racer) == 0)
      return true;
  return false;
}

/* Another thread takes over and waits until this one has ended. */
static void replace(racer_t *racer)
{
  pthread_t successor;
  racer->before = pthread_self();
  racer->succeeds = true;
  racer->ends++;
  racer->forbidden = false;
  atomic_store(&racer->doing, "ends");
  must(start_thread(&successor, racer));
}

static void *work(void *argument)
{
  racer_t *racer = argument;
  self = racer;
  pause_dice = roll(&racer->dice) | 1;
  if (racer->succeeds)
    must(pthread_join(racer->before, NULL) == 0);
  racer->succeeds = false;
  racer->thread = pthread_self();
  for (;;) {
    while (!atomic_load_explicit(&pausing, memory_order_relaxed)) {
      one_step(racer);
      if (racer->restarts_left && one_in(&racer->dice, 300)) {
        racer->restarts_left--;
        replace(racer);
        return NULL;
      }
    }
    atomic_store(&racer->doing, "stands still");
    pthread_barrier_wait(&stand_still);
    if (atomic_load(&ending))
      return NULL;
    pthread_barrier_wait(&go_on);
  }
}

/* ---- rounds ---- */

static size_t kept_in(const pool_heap_t *heap)
{
  size_t blocks = 0;
  for (unsigned i = 0; i < racer_count; i++)
    for (size_t j = 0; j < PLACES; j++)
      blocks += racers[i].kept[j].block && racers[i].kept[j].heap == heap;
  for (size_t i = 0; i < BOARD; i++)
    blocks += board[i] && pool_heap_of(board[i]) == heap;
  return blocks;
}

static void figures_agree(pool_heap_t *heap)
{
  pool_stats_t stats;
  must(pool_heap_stats(heap, &stats));
  if (stats.live_blocks != kept_in(heap)) {
    char text[100];
    snprintf(text, sizeof text, "heap %s: %zu blocks live, %zu kept", pool_heap_name(heap), stats.live_blocks, kept_in(heap));
    say(text);
    must(stats.live_blocks == kept_in(heap));
  }
  must(stats.live_bytes + stats.cached_bytes + stats.idle_bytes <= stats.held_bytes);
  must(!stats.budget || stats.held_bytes <= stats.budget);
}

/* Nobody was in the middle of anything, so the invariants hold in the child too. */
static void fork_at_rest(void)
{
  pid_t child = fork();
  must(child >= 0);
  if (child == 0) {
    must(check_everything());
    live_on(&racers[0]);
    must(check_everything());
    _exit(0);
  }
  wait_for(child);
}

/* Everybody stands still. */
static void look_around(bool fork_too)
{
  size_t walked = 0;
  must(check_everything());
  for (size_t i = 0; i < SHARED; i++)
    figures_agree(shared[i]);
  figures_agree(pool_heap_default());
  must(pool_heap_walk(shared[TIGHT], count_block, &walked) && walked == kept_in(shared[TIGHT]));
  must(check_everything());
  for (unsigned i = 0; i < racer_count; i++)
    racers[i].restarts_left = 2;
  if (fork_too)
    fork_at_rest();
}

static void start_racers(void)
{
  for (unsigned i = 0; i < racer_count; i++) {
    racers[i].number = i;
    racers[i].dice = mix(seed) + i;
    must(start_thread(&racers[i].thread, &racers[i]));
  }
}

static uint64_t now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void run_rounds(uint64_t *dice, uint64_t until)
{
  while (now_ms() < until) {
    alarm(STUCK_SECONDS);
    sleep_us(1000 * (ROUND_LEAST_MS + below(dice, ROUND_MOST_MS - ROUND_LEAST_MS)));
    atomic_store(&pausing, true);
    pthread_barrier_wait(&stand_still);
    look_around(one_in(dice, 4));
    atomic_store(&pausing, false);
    pthread_barrier_wait(&go_on);
  }
  atomic_store(&ending, true);
  atomic_store(&pausing, true);
  pthread_barrier_wait(&stand_still);
  for (unsigned i = 0; i < racer_count; i++)
    must(pthread_join(racers[i].thread, NULL) == 0);
}

static void free_everything(void)
{
  pool_stats_t stats;
  must(check_everything());
  for (unsigned i = 0; i < racer_count; i++)
    for (size_t j = 0; j < PLACES; j++)
      drop(&racers[i], &racers[i].kept[j]);
  for (size_t i = 0; i < BOARD; i++)
    pool_free(board[i]);
  for (size_t i = 0; i < HEAP_BOARD; i++)
    pool_heap_destroy(heap_board[i]);
  pool_heap_destroy(sparks_heap);
  for (size_t i = SHARED_AND_BEYOND; i--;) {
    must(pool_heap_stats(shared[i], &stats) && stats.live_blocks == 0 && stats.live_bytes == 0);
    pool_heap_destroy(shared[i]);
  }
  must(pool_heap_stats(pool_heap_default(), &stats) && stats.live_blocks == 0 && stats.live_bytes == 0);
  pool_trim(0);
  must(check_everything());
  must(pool_heap_stats(pool_heap_default(), &stats) && stats.cached_bytes == 0 && stats.idle_bytes == 0);
}

static void print_figures(void)
{
  racer_t sum = {0};
  for (unsigned i = 0; i < racer_count; i++) {
    sum.steps += racers[i].steps;
    sum.forks += racers[i].forks;
    sum.ends += racers[i].ends;
    sum.refused += racers[i].refused;
    sum.heaps += racers[i].heaps;
  }
  printf("races: seed %lu: %lu steps, %lu heaps, %lu refused, %lu threads replaced, %lu forks\n", (unsigned long)seed,
         (unsigned long)sum.steps, (unsigned long)sum.heaps, (unsigned long)sum.refused, (unsigned long)sum.ends,
         (unsigned long)sum.forks);
}

int main(int count, char **words)
{
  if (count < 3 || count > 4) {
    fprintf(stderr, "usage: races SEED SECONDS [THREADS]\n");
    return 2;
  }
  seed = strtoull(words[1], NULL, 0);
  racer_count = count > 3 ? (unsigned)strtoul(words[3], NULL, 0) : racer_count;
  if (racer_count < 1 || racer_count > THREADS_MOST) {
    fprintf(stderr, "races: from 1 to %d threads\n", THREADS_MOST);
    return 2;
  }
  uint64_t dice = mix(seed + 1), until = now_ms() + (uint64_t)(strtod(words[2], NULL) * 1000);
  sleeps_share = (uint64_t)4 << below(&dice, 5);
  getrlimit(RLIMIT_AS, &all_addresses);
  watch(SIGALRM);
  watch(SIGABRT);
  if (!SANITIZED)
    watch(SIGSEGV);
  if (one_in(&dice, 2))
    must(pool_option_set("purge_delay_ms", one_in(&dice, 2) ? "0" : "4"));
  pthread_barrier_init(&stand_still, NULL, racer_count + 1);
  pthread_barrier_init(&go_on, NULL, racer_count + 1);
  create_shared_heaps();
  must(pthread_atfork(handler, handler, handler) == 0);
  start_racers();
  run_rounds(&dice, until);
  free_everything();
  print_figures();
  return 0;
}
