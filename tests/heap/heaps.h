/* SPDX-License-Identifier: MIT
 * What the tests of heaps share: figures, lists of blocks, threads, and a child that may not call the system. */
#ifndef HEAPS_H
#define HEAPS_H

#include "../unit/unit.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <tidepool.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* No call leaves this in errno by accident. */
enum { UNTOUCHED = 0x5a5a };

pool_heap_t *heap_with(pool_heap_options_t options); /* never NULL */
pool_heap_t *heap_with_budget(size_t budget);
pool_stats_t stats_of(pool_heap_t *heap);

/* The options are refused, with this errno. */
void refuses(pool_heap_options_t options, int error);

bool visit_nothing(const pool_block_t *block, void *context); /* for a walk that goes on */

/* Blocks linked through their first word; sizes of at least a pointer. */
typedef struct list {
  void *first;
  size_t count;
} list_t;
bool list_take(list_t *list, pool_heap_t *heap, size_t size);
size_t list_exhaust(list_t *list, pool_heap_t *heap, size_t size); /* until there is none; returns how many */
void list_take_many(list_t *list, pool_heap_t *heap, size_t size, size_t count);
void *list_pop(list_t *list);
void list_free(list_t *list, pool_heap_t *heap);

/* Runs `body` in `count` threads at once and waits for all of them. */
typedef void thread_body_fn(size_t index, void *context);
void run_threads(size_t count, thread_body_fn *body, void *context);

/* Runs it in a child in which, once it has called no_more_system_calls(), anything but a write or the exit ends the process.
 * Fails the test if that happens; skips it where the system has no such filter. */
void in_sealed_child(void (*run)(void *), void *argument);
void ends_by_signal(void (*run)(void *), void *argument, int signal); /* in a child */
void no_more_system_calls(void);

/* Every page of it is in memory, touched or not. */
bool is_resident(const void *block, size_t size);

/* Some machines let nobody lock anything. */
bool may_lock(size_t size);

uint64_t now_ns(void);

#endif
