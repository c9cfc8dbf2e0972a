/* SPDX-License-Identifier: MIT
 * What the files of the racers share: racers, what all of them use, and the steps they take. */
#ifndef RACES_H
#define RACES_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <tidepool/heap.h>
#include <tidepool/object_pool.h>
#include <tidepool/pool.h>
#include <tidepool/stats.h>

_Noreturn void must_failed(const char *file, int line, const char *condition);
#define must(condition) ((condition) ? (void)0 : must_failed(__FILE__, __LINE__, #condition))
#include "../kept.h"

/* Its shadow does not fit under a limit on addresses, and after a fork it knows of one thread. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum {
  THREADS_MOST = 64,
  PLACES = 96,  /* blocks one thread keeps */
  OBJECTS = 16, /* of the shared object pool that grows */
  EMBERS = 40,  /* of the one that has as many as all threads want together */
  SEEN = 256,   /* addresses that anybody asks about */
  BOARD = 32,   /* blocks, and heaps, for whoever comes by */
  HEAP_BOARD = 4,
  PILES = 8,
  PILE_MOST = 400,       /* blocks */
  BYTES_EACH = 24 << 20, /* a thread keeps no more than that */
  STUCK_SECONDS = 300,   /* without a round, or in a child */
  MEMORY_BYTES = 160 << 10,
  FIXED_BUDGET = 6 << 20,
  OBJECT_BYTES = 200
};

/* What one thread after the other goes on with. */
typedef struct racer {
  pthread_t thread, before;
  bool succeeds; /* `before` is to be joined */
  unsigned number;
  uint64_t dice;
  kept_t kept[PLACES];
  size_t bytes;
  void *objects[OBJECTS];
  uint64_t *embers[EMBERS];
  bool forbidden; /* from asking the system */
  uint64_t steps, forks, ends, refused, heaps;
  unsigned restarts_left; /* for one round */
  _Atomic(const char *) doing;
} racer_t;

extern uint64_t seed;
extern racer_t racers[THREADS_MOST];
extern unsigned racer_count;

/* Pauses. 0: the thread does not pause. Its own, so that the threads meet nowhere for it. */
extern _Thread_local uint64_t pause_dice;
extern uint64_t sleeps_share; /* of the pauses; the others let somebody run who can */

/* Failures. */
void say(const char *what);
void watch(int signal_number);

/* Hunger. */
extern atomic_uint starving; /* odd: now */
extern struct rlimit all_addresses;
bool excused(const racer_t *racer, unsigned at_first);

/* What is seen and left for others. */
extern _Atomic(char *) seen[SEEN];
extern _Atomic(char *) board[BOARD];
extern _Atomic(pool_heap_t *) heap_board[HEAP_BOARD];

/* Blocks of one class of the default heap. */
enum { PILE_BYTES = 48 };
typedef struct pile {
  struct pile *next;
  size_t count; /* of this one and those that follow */
} pile_t;
extern _Atomic(pile_t *) piles[PILES];
void free_pile(pile_t *pile);

/* The heaps that all use, and their object pool. The last one only serves what others overflow. */
enum { TIGHT, ABOVE, BELOW, CHECKED, ZEROING, RESERVED, FREE, SHARED, BEYOND = SHARED, SHARED_AND_BEYOND };
extern pool_heap_t *shared[SHARED_AND_BEYOND];
extern char memories[THREADS_MOST][MEMORY_BYTES];
extern object_pool_t *sparks, *embers;
extern pool_heap_t *sparks_heap;
void create_shared_heaps(void);
bool is_limited(const pool_heap_t *heap);
pool_heap_t *some_heap(racer_t *racer);

/* Threads and children. */
extern atomic_bool is_child;
extern _Thread_local const racer_t *self;
bool start_thread(pthread_t *thread, racer_t *racer);
void around_forks(void); /* another library's handler */
void live_on(racer_t *racer);
void wait_for(pid_t child);

/* Questions. An answer must agree with itself. */
char *some_address(racer_t *racer, char *near);
void ask(const char *address);
void ask_own(racer_t *racer, const kept_t *kept);

/* Each step does something with the place `kept`, which may hold a block already. */
void drop(racer_t *racer, kept_t *kept);
void step_allocate(racer_t *racer, kept_t *kept);
void step_ask(racer_t *racer, kept_t *kept);
void step_budget(racer_t *racer, kept_t *kept);
void step_figures(racer_t *racer, kept_t *kept);
void step_forbid(racer_t *racer, kept_t *kept);
void step_fork(racer_t *racer, kept_t *kept);
void step_free(racer_t *racer, kept_t *kept);
void step_hand_over(racer_t *racer, kept_t *kept);
void step_heap(racer_t *racer, kept_t *kept);
void step_objects(racer_t *racer, kept_t *kept);
void step_embers(racer_t *racer, kept_t *kept);
void step_pile(racer_t *racer, kept_t *kept);
void step_reallocate(racer_t *racer, kept_t *kept);
void step_resize(racer_t *racer, kept_t *kept);
void step_starve(racer_t *racer, kept_t *kept);
void step_trim(racer_t *racer, kept_t *kept);

#endif
