/* SPDX-License-Identifier: MIT
 *
 * Runs of one plan on several allocators, one after the other, each in a process of its own. */
#ifndef REPLAY_H
#define REPLAY_H

#include "plan.h"
#include <sys/types.h>

typedef struct allocator {
  const char *name;       /* as it was asked for */
  char preload[PATH_MAX]; /* empty: the C library's own */
  char library[PATH_MAX]; /* that its malloc is of */
  result_t *results;      /* of each run */
  uint64_t of[FIGURES];   /* medians */
  bool is_exact;          /* what was live is in each run what is recorded */
} allocator_t;

typedef struct replay {
  const char *path;
  recording_facts_t facts; /* once all is read */
  allocator_t *allocators;
  size_t count;
  unsigned runs;
  plan_t *plan;
  int file; /* of the plan */
} replay_t;

/* Starts this program again to play the plan of a file with what is preloaded, and to wait where the plan says so. 0: it cannot
 * be started, and errno says why. */
pid_t replay_start(int file, const char *command, const char *preload, bool is_silent);

/* All pages of blocks are touched: what has more live than this machine has memory ends the program. */
void replay_check_memory(const char *command, const char *path, uint64_t peak_bytes);

/* Adds the allocators of a list with commas. What is not there ends the program. */
void replay_add(replay_t *replay, const char *list);

/* Finds out where each is; what cannot be preloaded ends the program. */
void replay_find(replay_t *replay);

/* Each run has all allocators in turn. False: one has ended early, and it was said. */
bool replay_run(replay_t *replay);

void replay_print(const replay_t *replay, FILE *to);
void replay_print_json(const replay_t *replay, FILE *to);

/* What is in a recording. */
void replay_print_facts(const replay_t *replay, FILE *to);
void replay_print_facts_json(const replay_t *replay, FILE *to);

#endif
