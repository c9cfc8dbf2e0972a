/* SPDX-License-Identifier: MIT
 *
 * usage: stress SEED SECONDS [THREADS]
 *
 * Threads allocate, free, resize and hand over blocks of all sizes, whose contents say whose they are, in the default heap, in
 * heaps that all share and in heaps that one makes and another ends; they end and are replaced, and fork children that go on
 * allocating. Now and then all stand still, and the invariants are checked (where they
 * are built in). Ends with 0 and one line of figures, or with abort() at the first thing wrong. The seed decides what each
 * thread does, not when. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tidepool/heap.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>
#include <time.h>
#include <unistd.h>

#ifdef TIDEPOOL_CHECKED
#include "check/check.h"
#else
static bool check_everything(void) { return true; }
#endif

enum {
  THREADS_MOST = 64,
  PLACES = 512,                      /* blocks one thread keeps */
  BOARD = 256,                       /* blocks left for whoever comes by */
  BATCH = 64,
  BYTES_EACH = 48 << 20,             /* a thread keeps no more than that */
  ROUND_LEAST_MS = 20, ROUND_MOST_MS = 120,
  STUCK_SECONDS = 600,               /* a child that takes longer waits for something that never comes */
  SHARED = 4,                        /* heaps that all use; the last has no limit */
  HEAP_BOARD = 8,                    /* heaps left for whoever comes by */
  HEAP_BLOCKS = 150,
  MEMORY_BYTES = 200 << 10
};

/* ---- failing, time ---- */

static uint64_t seed;

static _Noreturn void must_failed(int line, const char *condition);
#define must(condition) ((condition) ? (void)0 : must_failed(__LINE__, #condition))
#include "kept.h"

static _Noreturn void must_failed(int line, const char *condition)
{
  char text[200];
  int length = snprintf(text, sizeof text, "stress: seed %lu: line %d: not so: %s\n", (unsigned long)seed, line, condition);
  if (write(STDERR_FILENO, text, (size_t)length) < 0)
    abort();
  abort();
}

static uint64_t now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void sleep_ms(uint64_t ms)
{
  struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
  while (nanosleep(&t, &t) != 0 && errno == EINTR) {
  }
}

/* ---- what is asked for ---- */

static size_t some_size(uint64_t *dice)
{
  size_t n = below(dice, 1000);
  if (n < 700)
    return below(dice, 600);
  if (n < 900)
    return below(dice, 5000);
  if (n < 980)
    return below(dice, 70 << 10);
  if (n < 997)
    return below(dice, 600 << 10);
  return below(dice, 12 << 20);
}

/* ---- a worker: what one thread after the other goes on with ---- */

typedef struct worker {
  pthread_t thread, before;
  bool      succeeds;            /* `before` is to be joined */
  unsigned  number;
  uint64_t  dice;
  kept_t    kept[PLACES];
  size_t    bytes;
  uint64_t  steps, forks, ends, refused;
  size_t    restarts_left;       /* for one round */
} worker_t;

static worker_t workers[THREADS_MOST];
static unsigned worker_count = 4;
static _Atomic(char *) board[BOARD];
static atomic_bool pausing, ending;
static pool_heap_t *shared[SHARED];
static _Atomic(pool_heap_t *) heap_board[HEAP_BOARD];
static char memories[THREADS_MOST][MEMORY_BYTES];
static pthread_barrier_t stand_still, go_on;

static void put(worker_t *worker, kept_t *kept, void *block, size_t size, size_t alignment)
{
  must(block != NULL);
  must((uintptr_t)block % (alignment > 16 ? alignment : 16) == 0);
  must(pool_usable_size(block) >= size);
  *kept = (kept_t){block, size, roll(&worker->dice), kept->heap};
  worker->bytes += size;
  fill(kept);
}

static void drop(worker_t *worker, kept_t *kept)
{
  if (!kept->block)
    return;
  verify(kept, kept->size);
  errno = 77;
  if (kept->heap && one_in(&worker->dice, 2))
    pool_heap_free(kept->heap, kept->block);
  else if (one_in(&worker->dice, 8))
    pool_free_sized(kept->block, kept->size);
  else
    pool_free(kept->block);
  must(errno == 77);
  worker->bytes -= kept->size;
  kept->block = NULL;
}

static bool is_limited(const pool_heap_t *heap)
{
  for (size_t i = 0; i < SHARED - 1; i++)
    if (heap == shared[i])
      return true;
  return false;
}

/* One of the shared heaps, or NULL for the default one. */
static pool_heap_t *some_heap(worker_t *worker)
{
  size_t n = below(&worker->dice, 4 * SHARED);
  return n < SHARED ? shared[n] : NULL;
}

/* `block`, or where the heap had none, one of the default heap. */
static void *or_default(kept_t *kept, pool_heap_t *heap, void *block, size_t size)
{
  kept->heap = block ? heap : NULL;
  must(block || (errno == ENOMEM && is_limited(heap)));
  return block ? block : pool_alloc(size);
}

static void step_allocate(worker_t *worker, kept_t *kept)
{
  size_t size = some_size(&worker->dice);
  pool_heap_t *heap = some_heap(worker);
  drop(worker, kept);
  put(worker, kept, or_default(kept, heap, heap ? pool_heap_alloc(heap, size) : pool_alloc(size), size), size, 16);
}

static void step_zeroed(worker_t *worker, kept_t *kept)
{
  size_t size = some_size(&worker->dice);
  drop(worker, kept);
  pool_heap_t *heap = some_heap(worker);
  char *block = heap ? pool_heap_calloc(heap, size, 1) : pool_calloc(size, 1);
  kept->heap = heap;
  if (!block) {
    must(is_limited(heap));
    return;
  }
  size_t usable = pool_usable_size(block);
  must(block[0] == 0 && memcmp(block, block + 1, usable - 1) == 0);
  put(worker, kept, block, size, 16);
}

static void step_aligned(worker_t *worker, kept_t *kept)
{
  size_t size = some_size(&worker->dice), alignment = (size_t)1 << below(&worker->dice, one_in(&worker->dice, 50) ? 22 : 14);
  drop(worker, kept);
  kept->heap = NULL;
  put(worker, kept, pool_aligned_alloc(alignment, size), size, alignment);
}

static void step_reallocate(worker_t *worker, kept_t *kept)
{
  size_t size = some_size(&worker->dice) + 1, had = kept->block ? kept->size : 0;
  if (kept->block)
    verify(kept, kept->size);
  char *block = pool_realloc(kept->block, size);
  if (!block) {
    must(kept->block && is_limited(pool_heap_of(kept->block)));   /* which may be one of no bytes */
    verify(kept, kept->size);
    return;
  }
  kept->heap = kept->block ? kept->heap : NULL;
  kept_t moved = {block, kept->size, kept->key, NULL};
  if (had)
    verify(&moved, size < had ? size : had);
  worker->bytes -= had;
  put(worker, kept, block, size, 16);
}

static void step_resize(worker_t *worker, kept_t *kept)
{
  if (!kept->block)
    return;
  size_t size = 1 + below(&worker->dice, kept->size * 2 + 1), had = kept->size;
  if (!pool_resize_in_place(kept->block, size))
    return;
  verify(kept, size < had ? size : had);
  worker->bytes -= had;
  put(worker, kept, kept->block, size, 16);
}

static void step_batch(worker_t *worker, kept_t *kept)
{
  void *blocks[BATCH];
  size_t size = below(&worker->dice, 2000), count = 1 + below(&worker->dice, BATCH);
  (void)kept;
  must(pool_alloc_batch(size, blocks, count) == count);
  for (size_t i = 0; i < count; i++)
    memset(blocks[i], (int)i, size);
  for (size_t i = 0; i < count; i++)
    must(size == 0 || (((char *)blocks[i])[0] == (char)i && ((char *)blocks[i])[size - 1] == (char)i));
  pool_free_batch(blocks, count);
}

/* A block of mine for one of somebody else's, or for none. */
static void step_hand_over(worker_t *worker, kept_t *kept)
{
  bool labelled = kept->block && kept->size >= sizeof(label_t);
  if (kept->block && !labelled)
    return;
  if (labelled)
    worker->bytes -= kept->size;
  char *block = atomic_exchange(&board[below(&worker->dice, BOARD)], labelled ? kept->block : NULL);
  *kept = (kept_t){0};
  if (!block)
    return;
  label_t label;
  memcpy(&label, block, sizeof label);
  *kept = (kept_t){block, label.size, label.key, NULL};
  worker->bytes += kept->size;
  verify(kept, kept->size);
}

static void step_ask(worker_t *worker, kept_t *kept)
{
  size_t usable = 0;
  if (!kept->block)
    return;
  const char *inside = kept->block + (kept->size ? below(&worker->dice, kept->size) : 0);
  must(pool_in_use(inside));
  must(pool_block_start(inside, &usable) == kept->block && usable == pool_usable_size(kept->block));
  pool_heap_t *heap = pool_heap_of(inside);
  must(heap && (!kept->heap || heap == kept->heap || is_limited(kept->heap)));
}

static void step_figures(worker_t *worker, kept_t *kept)
{
  pool_stats_t stats;
  char text[256];
  (void)kept;
  if (one_in(&worker->dice, 4)) {
    pool_trim(below(&worker->dice, 8 << 20));
    return;
  }
  must(pool_heap_stats(pool_heap_default(), &stats));
  must(pool_heap_stats_json(pool_heap_default(), text, sizeof text) > 0);
}

/* Larger than an arena gives; only its ends are touched. */
static void step_huge(worker_t *worker, kept_t *kept)
{
  size_t size = ((size_t)257 << 20) + below(&worker->dice, (size_t)64 << 20), more = size + below(&worker->dice, (size_t)64 << 20);
  (void)kept;
  char *block = pool_alloc(size);
  if (!block) {
    worker->refused++;
    return;
  }
  block[0] = block[size - 1] = 5;
  char *moved = pool_realloc(block, more);
  must(!moved || (moved[0] == 5 && moved[size - 1] == 5));
  pool_free(moved ? moved : block);
}

/* ---- heaps that come and go ---- */

static bool count_block(const pool_block_t *block, void *context)
{
  size_t *count = context;
  ++*count;
  return block->start != NULL;
}

static pool_heap_t *create_heap(worker_t *worker, bool *mine)
{
  size_t kind = below(&worker->dice, 7);
  pool_heap_options_t options = {0};
  *mine = kind == 3 || kind == 4;
  switch (kind) {
  case 0: break;
  case 1: options.budget = (100 + below(&worker->dice, 4000)) << 10; break;
  case 2: options.reserve = (1 + below(&worker->dice, 20)) << 18; break;
  case 3: options.memory = memories[worker->number]; options.memory_size = MEMORY_BYTES; break;
  case 4: options.flags = POOL_HEAP_SINGLE_THREAD; break;
  case 5: options.flags = POOL_HEAP_CHECKED; break;
  default: options.budget = (size_t)16 << 20; options.parent = shared[2]; break;
  }
  return pool_heap_create(&options);
}

static void fill_heap(worker_t *worker, pool_heap_t *heap)
{
  kept_t kept[HEAP_BLOCKS];
  size_t live = 0, walked = 0;
  for (size_t i = 0; i < HEAP_BLOCKS; i++) {
    size_t size = below(&worker->dice, one_in(&worker->dice, 20) ? 60000 : 500);
    kept[i] = (kept_t){pool_heap_alloc(heap, size), size, roll(&worker->dice), heap};
    if (kept[i].block)
      fill(&kept[i]);
  }
  for (size_t i = 0; i < HEAP_BLOCKS; i++) {
    if (!kept[i].block)
      continue;
    verify(&kept[i], kept[i].size);
    if (one_in(&worker->dice, 3))
      pool_heap_free(heap, kept[i].block);
    else
      live++;
  }
  must(pool_heap_walk(heap, count_block, &walked) && walked == live);
}

static void end_heap(worker_t *worker, pool_heap_t *heap)
{
  size_t walked = 0;
  if (one_in(&worker->dice, 2)) {
    pool_heap_reset(heap);
    must(pool_heap_walk(heap, count_block, &walked) && walked == 0);
    if (one_in(&worker->dice, 2))
      fill_heap(worker, heap);
  }
  pool_heap_destroy(heap);
}

/* One thread makes it, another may end it, while the first goes on with something else or ends itself. */
static void step_heap(worker_t *worker, kept_t *kept)
{
  bool mine;
  (void)kept;
  pool_heap_t *heap = create_heap(worker, &mine);
  if (!heap)
    return;
  fill_heap(worker, heap);
  if (!mine)
    heap = atomic_exchange(&heap_board[below(&worker->dice, HEAP_BOARD)], heap);
  if (heap)
    end_heap(worker, heap);
}

static void create_shared_heaps(void)
{
  shared[3] = pool_heap_create(NULL);
  shared[0] = pool_heap_create(&(pool_heap_options_t){.name = "small", .budget = (size_t)3 << 20, .overflow = shared[3]});
  shared[2] = pool_heap_create(&(pool_heap_options_t){.name = "above", .budget = (size_t)40 << 20});
  shared[1] = pool_heap_create(&(pool_heap_options_t){.name = "below", .budget = (size_t)30 << 20, .parent = shared[2]});
  for (size_t i = 0; i < SHARED; i++)
    must(shared[i] != NULL);
}

static void destroy_heaps(void)
{
  pool_stats_t stats;
  for (size_t i = 0; i < HEAP_BOARD; i++)
    pool_heap_destroy(heap_board[i]);
  for (size_t i = 0; i < SHARED; i++)
    must(pool_heap_stats(shared[i], &stats) && stats.live_blocks == 0 && (!stats.budget || stats.peak_held_bytes <= stats.budget));
  for (size_t i = 0; i < SHARED; i++)
    pool_heap_destroy(shared[i]);
}

/* ---- children ---- */

static void live_on(worker_t *worker)
{
  for (size_t i = 0; i < PLACES; i++)
    if (worker->kept[i].block)
      verify(&worker->kept[i], worker->kept[i].size);
  for (size_t i = 0; i < 300; i++) {
    kept_t *kept = &worker->kept[below(&worker->dice, PLACES)];
    if (one_in(&worker->dice, 3))
      step_reallocate(worker, kept);
    else
      step_allocate(worker, kept);
    if (one_in(&worker->dice, 2))
      drop(worker, kept);
  }
}

static void wait_for_child(pid_t child)
{
  uint64_t limit = now_ms() + STUCK_SECONDS * 1000;
  int status = 0;
  pid_t got;
  while ((got = waitpid(child, &status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
    if (now_ms() > limit)
      kill(child, SIGABRT);
    must(now_ms() <= limit);
    sleep_ms(1);
  }
  must(got == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void step_fork(worker_t *worker, kept_t *kept)
{
  (void)kept;
  pid_t child = fork();
  must(child >= 0);
  if (child == 0) {
    live_on(worker);
    pool_trim(0);
    _exit(0);
  }
  worker->forks++;
  wait_for_child(child);
}

/* ---- threads ---- */

typedef struct choice {
  unsigned weight;
  void (*step)(worker_t *, kept_t *);
} choice_t;

static const choice_t choices[] = {
  {4000, step_allocate}, {500, step_zeroed}, {200, step_aligned}, {600, step_reallocate}, {200, step_resize},
  {200, step_batch},     {1500, step_hand_over}, {100, step_ask}, {6, step_figures},      {1, step_huge},
  {15, step_heap},
};

static void one_step(worker_t *worker)
{
  kept_t *kept = &worker->kept[below(&worker->dice, PLACES)];
  size_t n = below(&worker->dice, 10000);
  worker->steps++;
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    if (n < choices[i].weight) {
      choices[i].step(worker, kept);
      break;
    }
    n -= choices[i].weight;
  }
  if (n >= 8000 || worker->bytes > BYTES_EACH)
    drop(worker, kept);
}

static void *work(void *argument);

/* Another thread takes the worker over and waits until this one has ended. */
static void replace(worker_t *worker)
{
  pthread_t successor;
  worker->before = pthread_self();
  worker->succeeds = true;
  worker->ends++;
  must(pthread_create(&successor, NULL, work, worker) == 0);
}

static void *work(void *argument)
{
  worker_t *worker = argument;
  if (worker->succeeds)
    must(pthread_join(worker->before, NULL) == 0);
  worker->succeeds = false;
  worker->thread = pthread_self();
  for (;;) {
    while (!atomic_load_explicit(&pausing, memory_order_relaxed)) {
      one_step(worker);
      if (worker->steps % 4096 == 0 && one_in(&worker->dice, 4))
        step_fork(worker, NULL);
      if (worker->restarts_left && one_in(&worker->dice, 2000)) {
        worker->restarts_left--;
        replace(worker);
        return NULL;
      }
    }
    pthread_barrier_wait(&stand_still);
    if (atomic_load(&ending))
      return NULL;
    pthread_barrier_wait(&go_on);
  }
}

/* ---- rounds ---- */

/* Everybody stands still. */
static void look_around(bool fork_too)
{
  must(check_everything());
  for (unsigned i = 0; i < worker_count; i++)
    workers[i].restarts_left = 3;
  if (!fork_too)
    return;
  pid_t child = fork();
  must(child >= 0);
  if (child == 0) {
    must(check_everything());
    live_on(&workers[0]);
    must(check_everything());
    _exit(0);
  }
  wait_for_child(child);
}

static void start_workers(void)
{
  for (unsigned i = 0; i < worker_count; i++) {
    workers[i].number = i;
    workers[i].dice = mix(seed) + i;
    must(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
  }
}

static void run_rounds(uint64_t *dice, uint64_t until)
{
  while (now_ms() < until) {
    sleep_ms(ROUND_LEAST_MS + below(dice, ROUND_MOST_MS - ROUND_LEAST_MS));
    atomic_store(&pausing, true);
    pthread_barrier_wait(&stand_still);
    look_around(one_in(dice, 4));
    atomic_store(&pausing, false);
    pthread_barrier_wait(&go_on);
  }
  atomic_store(&pausing, true);
  atomic_store(&ending, true);
  pthread_barrier_wait(&stand_still);
  for (unsigned i = 0; i < worker_count; i++)
    must(pthread_join(workers[i].thread, NULL) == 0);
}

static void free_everything(void)
{
  pool_stats_t stats;
  must(check_everything());
  for (unsigned i = 0; i < worker_count; i++)
    for (size_t j = 0; j < PLACES; j++)
      drop(&workers[i], &workers[i].kept[j]);
  for (size_t i = 0; i < BOARD; i++)
    pool_free(board[i]);
  destroy_heaps();
  must(pool_heap_stats(pool_heap_default(), &stats));
  must(stats.live_blocks == 0 && stats.live_bytes == 0);
  pool_trim(0);
  must(check_everything());
  must(pool_heap_stats(pool_heap_default(), &stats));
  must(stats.live_blocks == 0 && stats.cached_bytes == 0 && stats.idle_bytes == 0);
}

static void print_figures(void)
{
  uint64_t steps = 0, forks = 0, ends = 0;
  for (unsigned i = 0; i < worker_count; i++) {
    steps += workers[i].steps;
    forks += workers[i].forks;
    ends += workers[i].ends;
  }
  printf("stress: seed %lu: %lu steps, %lu threads replaced, %lu forks\n", (unsigned long)seed, (unsigned long)steps,
         (unsigned long)ends, (unsigned long)forks);
}

int main(int count, char **words)
{
  if (count < 3 || count > 4) {
    fprintf(stderr, "usage: stress SEED SECONDS [THREADS]\n");
    return 2;
  }
  seed = strtoull(words[1], NULL, 0);
  worker_count = count > 3 ? (unsigned)strtoul(words[3], NULL, 0) : worker_count;
  if (worker_count < 1 || worker_count > THREADS_MOST) {
    fprintf(stderr, "stress: from 1 to %d threads\n", THREADS_MOST);
    return 2;
  }
  uint64_t dice = mix(seed + 1), until = now_ms() + (uint64_t)(strtod(words[2], NULL) * 1000);
  pthread_barrier_init(&stand_still, NULL, worker_count + 1);
  pthread_barrier_init(&go_on, NULL, worker_count + 1);
  create_shared_heaps();
  start_workers();
  run_rounds(&dice, until);
  free_everything();
  print_figures();
  return 0;
}
