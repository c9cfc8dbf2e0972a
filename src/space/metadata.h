/* SPDX-License-Identifier: MIT
 *
 * Memory for the manager's own records: magazines, threads, heaps, units of regions. It has its own addresses in the window,
 * with nothing mapped on either side, so that no write past a block reaches it.
 *
 * It is mapped in consecutive chunks and never unmapped, so pointers to records stay readable forever. Free pieces merge with
 * their neighbours and serve records of any size. Whole free pages are returned to the system with the process's other free
 * memory: after the purge delay (space/purge.c), and by a trim. */
#ifndef METADATA_H
#define METADATA_H

#include "base/bits.h"
#include "os/lock.h"
#include <string.h>

enum { METADATA_ALIGNMENT = 64 }; /* minimum for every record */

/* Returns zeroed memory; NULL if there is none. `alignment` is a power of two up to a page. */
void *metadata_take(size_t size, size_t alignment);

/* Frees a record that was taken with this size. */
void metadata_give(void *record, size_t size);

/* Records of one kind serve only as that kind, so a stale pointer to one finds another one. Short records are taken together,
 * so that they keep few pages. Callers serialize the calls for a kind. */
typedef struct metadata_kind {
  size_t size, alignment;
  size_t link;  /* offset of the pointer that links unused records; their other bytes are as they were given */
  void *unused; /* given last */
  size_t bytes; /* taken last time; doubles each time */
  char *next, *end;
} metadata_kind_t;
void *metadata_take_new(metadata_kind_t *kind);

/* Returns a record that was given, or a new one, which is zeroed. NULL: no memory. */
static inline void *metadata_take_kind(metadata_kind_t *kind)
{
  char *record = kind->unused;
  if (unlikely(!record))
    return metadata_take_new(kind);
  memcpy(&kind->unused, record + kind->link, sizeof kind->unused);
  return record;
}
static inline void metadata_give_kind(metadata_kind_t *kind, void *record)
{
  memcpy((char *)record + kind->link, &kind->unused, sizeof kind->unused);
  kind->unused = record;
}

/* Returns all whole free pages to the system, except those where a free piece begins. Returns their bytes. */
size_t metadata_trim(void);

/* Ends one or more epochs of the purge delay. Begins a pass, and returns true, if enough pages were not needed for it. */
bool metadata_begin_tick(size_t epochs);

/* Makes at most `calls` system calls of the current pass. Returns whether the pass goes on. */
bool metadata_purge_step(size_t calls);

bool metadata_has_left(void);

/* Returns the bytes returned to the system in total. */
uint64_t metadata_purged_bytes(void);

/* Return the bytes that are taken, that hold memory, freed records included, and that are mapped. */
size_t metadata_bytes(void);
size_t metadata_touched(void);
size_t metadata_mapped(void);

extern lock_t metadata_lock;

#endif
