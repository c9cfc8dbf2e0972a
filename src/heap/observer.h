/* SPDX-License-Identifier: MIT
 *
 * What the debug library does beside the paths of allocation: samples behind guard pages, profiles, reports of leaks, and
 * figures for other processes. libtidepool has none of it: `observer` is NULL there, no option that needs it is set, and no
 * heap has `apart` set for it. */
#ifndef OBSERVER_H
#define OBSERVER_H

#include "base/text.h"
#include "heap/heads.h"
#include "heap/types.h"

struct request;

/* What becomes of a request on the slow path of a thread: it is served as ever, was drawn for a sample, or goes on to the heap,
 * which counts it. */
typedef enum turn { TURN_USUAL, TURN_SAMPLE, TURN_COUNT } turn_t;

typedef struct observer {
  /* ---- a block ---- */

  /* Takes the block of a request that enters a profile or becomes a sample; NULL: it is none of them, or there is no memory.
   * Called for heaps that have `apart` set and no source of their own. */
  void *(*take)(heap_t *heap, struct request *r);

  /* A run or a mapping enters the profile; it has become another size where it is; it ends. `entry` is what its record has. */
  void (*note_large)(heap_t *heap, void *block, size_t size, const void *caller);
  void (*note_resized)(heap_t *heap, void *block, size_t size, const void *caller);
  void (*note_end)(void *entry, const void *block);

  /* ---- a thread, on a slow path, while slow_paths_are_observed ---- */

  /* Says what becomes of a request of this class: TURN_SAMPLE and TURN_COUNT go on to the heap. */
  turn_t (*turn)(thread_t *thread, size_t size_class);

  /* Says whether any block that is fetched now may be a sample, or is to be counted. */
  bool (*is_busy)(void);

  /* The thread stops counting if its profile has ended. True: it does not count any more. */
  bool (*let_go)(thread_t *thread);

  /* ---- a heap ---- */

  /* A heap of the process's memory that is new: its blocks are guarded, or samples of them may be. */
  void (*begin_heap)(heap_t *heap, bool is_guarded);
  void (*enter_heap)(heap_t *heap);   /* under heaps_lock, before others see it */
  void (*destroy_heap)(heap_t *heap); /* with the option leaks */
  int (*report)(heap_t *heap, int file);

  /* ---- the process ---- */

  void (*note_options)(void); /* as far as they are known; may allocate, so no lock is held */
  void (*bring_up)(void);     /* under startup_lock */
  void (*has_come_up)(void);  /* no lock is held */
  void (*tick)(void);
  void (*begin_helpers)(size_t (*figures)(char *buffer, size_t size)); /* threads can be made, and these are what is shared */
  void (*end_helpers)(void);                                           /* at exit, before heaps are looked at */
  void (*end)(void);                                                   /* at exit */
  size_t (*kept_bytes)(void);                                          /* of memory that is no heap's, */
  size_t (*trim)(void);                                                /* and what of it was returned to the system */

  /* The innermost address of a site, and the function there as text. The last ends the program if the address is of a block
   * behind guard pages that was freed. */
  const void *(*address_of)(site_t site);
  void (*say_place)(text_t *text, const void *address);
  void (*explain_dead)(const void *block, const char *call, const char *if_freed, const heap_t *given_to);

  /* ---- forks; the locks are taken by the fork, in this order, with those that it takes last ---- */

  lock_t *const *locks;
  size_t lock_count;
  bool (*has_helper)(void);
  void (*fork_prepare)(void), (*fork_parent)(void), (*fork_child)(void);
  bool (*fork_child_of_many)(void); /* True: the child begins the helper anew */

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

/* A run or a mapping ends. Only one that the observer noted has an entry. */
static inline void observe_end(void *entry, const void *block)
{
  if (HAS_SYSTEM && unlikely(entry != NULL))
    observer->note_end(entry, block);
}

/* Slow paths of threads ask the observer. Never cleared: a thread has to learn that a profile has ended. */
extern INTERNAL bool slow_paths_are_observed;

#endif
