/* SPDX-License-Identifier: MIT
 *
 * The debug library fills two tables: `heads` for blocks of checked heaps and of heaps that record sites, `observer` for its
 * work beside the allocation paths: samples, profiles, leak reports, figures for other processes. Both are NULL in libtidepool:
 * no heap has heads there, and no option that needs the observer is set. */
#ifndef DEBUG_HOOKS_H
#define DEBUG_HOOKS_H

#include "base/text.h"
#include "heap/heap.h"

/* ---- heads ----
 *
 * The memory of such a block holds more than the block. Only debug/head.c knows the layout of a head and verifies it.
 *
 *     | head | canary | requested bytes | canary |
 *     ^ start         ^ the block, as its caller knows it */

/* The number of a place in the program that allocates or frees (debug/sites.h). 0: not known. */
typedef uint32_t site_t;

/* The kind of call that allocated a block decides which calls may free it. */
typedef enum block_kind { KIND_ANY, KIND_MALLOC, KIND_NEW, KIND_NEW_ARRAY } block_kind_t;
enum { KIND_BITS = 2 };

typedef enum head_state {
  HEAD_NONE, /* no credible head was found */
  HEAD_LIVE,
  HEAD_FREED
} head_state_t;

typedef struct head_look {
  head_state_t state;
  block_kind_t kind;
  char *block; /* as its caller knew it; NULL: not known, with HEAD_NONE or in granules that were freed */
  size_t size; /* requested bytes */
  site_t allocated, freed;
  uintptr_t number; /* distinguishes uses of the memory, if there is a head */
} head_look_t;

/* Blocks and bytes that a checked heap withholds from reuse for a while after they were freed. Bins count theirs, too. */
typedef struct withheld_figures {
  size_t blocks, bytes;
} withheld_figures_t;

/* A heap begins, has begun, is reset, has been reset, and ends in a caller's memory, of which a tool is told (os/tool.h). */
typedef enum guest_step { GUEST_BEGINS, GUEST_HAS_BEGUN, GUEST_IS_RESET, GUEST_WAS_RESET, GUEST_ENDS } guest_step_t;

struct located;

typedef struct heads {
  /* Turns the memory taken for a request into the caller's block. */
  void *(*open)(void *start, request_t *r);

  /* Frees a block, or shortens it in place. */
  void (*give)(const struct located *at, origin_t by);
  void (*shorten)(const struct located *at, size_t size, const char *call);

  /* Reads the head in `usable` bytes of memory. Another thread may be writing the head. */
  head_look_t (*look)(const char *start, size_t usable);

  /* Ends the program if memory outside the live block was overwritten. `alone`: only then a missing head counts as lost. */
  void (*verify)(const heap_t *heap, char *start, size_t usable, const char *call, bool alone);

  /* Ends the program because the head of the block was overwritten. */
  void (*damaged)(const struct located *at, const char *block, const char *call);

  /* The next message names these sites. */
  void (*say_sites)(site_t allocated, site_t freed);

  /* Counts, or releases all, withheld blocks of a checked heap. The heap is not locked. */
  withheld_figures_t (*withheld)(heap_t *heap);
  void (*release_withheld)(heap_t *heap, const char *call);

  /* Ends the program if a withheld block was overwritten. Returns their bytes. */
  size_t (*verify_withheld)(heap_t *heap, const char *call);

  /* Verifies all blocks of a checked heap, live and withheld ones. end_all() is called when all blocks of the heap end. */
  void (*verify_all)(heap_t *heap, bool alone, const char *call);
  void (*end_all)(heap_t *heap, bool alone, const char *call);

  /* Tells a tool that blocks begin and end in the caller's memory. Such a heap is checked. */
  void (*mark_guest)(heap_t *heap, guest_step_t step);
} heads_t;

extern const heads_t *const heads;

/* ---- observer ---- */

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
  void (*destroy_pool)(const char *name, size_t object_size, size_t live, const void *created_by); /* with the option leaks */
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

  /* address_of() returns the innermost address of a site. explain_dead() ends the program if the address is in a freed block
   * behind guard pages. */
  const void *(*address_of)(site_t site);
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

extern const observer_t *const observer;

/* Called when a run or a mapping ends. Only one that the observer noted has an entry. */
static inline void observe_end(void *entry, const void *block)
{
  if (unlikely(entry != NULL))
    observer->note_end(entry, block);
}

/* Threads ask the observer on their slow paths. Never cleared, so that every thread learns that a profile has ended. */
extern INTERNAL bool slow_paths_are_observed;

static inline void heap_mark_guest(heap_t *heap, guest_step_t step)
{
  if (heads)
    heads->mark_guest(heap, step);
}

#endif
