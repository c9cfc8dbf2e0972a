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
#include "races.h"
#include "../rounds.h"
#include "bin/bin.h"
#include "heap/heap.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUND_LEAST_MS = 60, ROUND_MOST_MS = 300 };

uint64_t seed;
racer_t racers[THREADS_MOST];
unsigned racer_count = 4;

static size_t kept_in(const pool_heap_t *heap)
{
  size_t blocks = 0;
  for (unsigned i = 0; i < racer_count; i++)
    for (size_t j = 0; j < PLACES; j++)
      blocks += racers[i].kept[j].block && racers[i].kept[j].heap == heap;
  for (size_t i = 0; i < BOARD; i++)
    blocks += board[i] && pool_heap_of(board[i]) == heap;
  for (size_t i = 0; i < PILES; i++)
    blocks += heap == pool_heap_default() && piles[i] ? atomic_load(&piles[i])->count : 0;
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
  alarm(STUCK_SECONDS);
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

/* As on many processors. The class of piles has them from the start; in others they come with the fifth thread. */
static void have_many_depots(void)
{
  heap_size_depots(DEPOT_SHARDS_MOST);
  pool_free(pool_alloc(PILE_BYTES)); /* the manager is up */
  bin_t *bin = heap_bin(&default_heap, size_class_of(PILE_BYTES));
  must(bin);
  depots_begin(bin);
  depots_add(&bin->depots);
  must(depots_shards(&bin->depots) == DEPOT_SHARDS_MOST);
}

static void start_racers(void)
{
  for (unsigned i = 0; i < racer_count; i++) {
    racers[i].number = i;
    racers[i].dice = mix(seed) + i;
    must(start_thread(&racers[i].thread, &racers[i]));
  }
}

static void join_racers(void)
{
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
  for (size_t i = 0; i < PILES; i++)
    free_pile(piles[i]);
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
  if (seed & 1)
    have_many_depots();
  rounds_begin(racer_count);
  create_shared_heaps();
  must(pthread_atfork(around_forks, around_forks, around_forks) == 0);
  alarm(STUCK_SECONDS);
  start_racers();
  rounds_run(&dice, until, ROUND_LEAST_MS, ROUND_MOST_MS, look_around);
  join_racers();
  free_everything();
  print_figures();
  return 0;
}
