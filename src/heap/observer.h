/* SPDX-License-Identifier: MIT
 *
 * The debug library's work beside the allocation paths: samples behind guard pages, profiles, leak reports, and figures for
 * other processes. `observer` is NULL in libtidepool: no option that needs it is set. */
#ifndef OBSERVER_H
#define OBSERVER_H

#include "base/text.h"
#include "heap/heads.h"
#include "heap/types.h"

struct request;

/* A request on a thread's slow path is served as usual, was drawn as a sample, or goes on to the heap, which counts it. */
typedef enum turn { TURN_USUAL, TURN_SAMPLE, TURN_COUNT } turn_t;

typedef struct observer {
  /* ---- blocks ---- */

  /* A run or a mapping was resized in place; one ends. `entry` is stored in its record. */
  void (*note_resized)(heap_t *heap, void *block, size_t size, const void *caller);
  void (*note_end)(void *entry, const void *block);

  /* ---- threads, on a slow path, while slow_paths_are_observed ---- */

  turn_t (*turn)(thread_t *thread, size_t size_class);

  /* Returns whether a block that is fetched now may be a sample, or has to be counted. */
  bool (*is_busy)(void);

  /* Stops the thread's counting if its profile has ended. Returns true if the thread does not count any more. */
  bool (*let_go)(thread_t *thread);

  /* ---- heaps ---- */

  /* A heap of the process's memory begins, maybe with guarded blocks. */
  void (*begin_heap)(heap_t *heap, bool is_guarded);
  void (*enter_heap)(heap_t *heap);   /* under heaps_lock, before others see the heap */
  void (*destroy_heap)(heap_t *heap); /* with the option leaks */
  int (*report)(heap_t *heap, int file);

  /* ---- the process ---- */

  void (*note_options)(void); /* options known so far; may allocate, so no lock is held */
  void (*bring_up)(void);     /* under startup_lock */
  void (*has_come_up)(void);  /* no lock is held */
  void (*tick)(void);
  void (*begin_helpers)(size_t (*figures)(char *buffer, size_t size)); /* `figures` writes the export */
  void (*end_helpers)(void);                                           /* at exit, before heaps are examined */
  void (*end)(void);                                                   /* at exit */
  size_t (*kept_bytes)(void);                                          /* bytes that belong to no heap */
  size_t (*trim)(void);                                                /* bytes of those that were returned to the system */

  /* address_of() returns the innermost address of a site. say_place() names its function. explain_dead() ends the program if
   * the address is in a freed block behind guard pages. */
  const void *(*address_of)(site_t site);
  void (*say_place)(text_t *text, const void *address);
  void (*explain_dead)(const void *block, const char *call, const char *if_freed, const heap_t *given_to);

  /* ---- forks; the fork takes these locks in this order, among its last ---- */

  lock_t *const *locks;
  size_t lock_count;
  bool (*has_helper)(void);
  void (*fork_prepare)(void), (*fork_parent)(void), (*fork_child)(void);
  bool (*fork_child_of_many)(void); /* returns whether the child starts the helper anew */

  /* ---- the interface of profile.h; each returns 0 or an error ---- */

  int (*profile_start)(uint64_t sample_bytes);
  void (*profile_stop)(void);
  int (*profile_write)(const heap_t *heap, int file);
} observer_t;

#ifdef TIDEPOOL_EMBEDDED
#define observer ((const observer_t *)NULL)
#else
extern const observer_t *const observer;
#endif

/* Called when a run or a mapping ends. Only one that the observer noted has an entry. */
static inline void observe_end(void *entry, const void *block)
{
  if (HAS_SYSTEM && unlikely(entry != NULL))
    observer->note_end(entry, block);
}

/* Threads ask the observer on their slow paths. Never cleared, so that every thread learns that a profile has ended. */
extern INTERNAL bool slow_paths_are_observed;

#endif
