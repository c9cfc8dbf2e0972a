/* SPDX-License-Identifier: MIT
 *
 * Memory for the manager's own records: magazines, the state of threads, heaps, what is known of a region's units. It has
 * addresses of its own in the window, with nothing mapped on either side, so that no write past a block reaches it.
 *
 * The system maps it in chunks, one behind the other, and it is never unmapped: a pointer to a record can be read for ever. A
 * free piece joins its neighbours and serves records of any size. Whole free pages are returned to the system with the other
 * free memory of the process: after the purge delay (space/purge.c), and by a trim. */
#ifndef METADATA_H
#define METADATA_H

#include "base/bits.h"
#include "os/lock.h"

enum { METADATA_ALIGNMENT = 64 }; /* of every record, at least */

/* Zeroed; `alignment` is a power of two up to a page. NULL: no memory. */
void *metadata_take(size_t size, size_t alignment);

/* Takes back what was taken with this size. */
void metadata_give(void *record, size_t size);

/* Records of one kind that are never given back stand together, so that they keep no page of others. The caller holds a lock of
 * its own. */
typedef struct metadata_kind {
  size_t size, alignment;
  size_t bytes; /* the last that were taken at once: twice as many each time */
  char *next, *end;
} metadata_kind_t;
void *metadata_take_kind(metadata_kind_t *kind);

/* Returns all whole free pages to the system, except those where a free piece begins. Returns how many bytes that was. */
size_t metadata_trim(void);

/* Ends an epoch, or several, of the purge delay. If enough pages were free and not needed for the whole delay, a pass over them
 * begins. Returns whether it does. */
bool metadata_begin_tick(size_t epochs);

/* Makes at most so many system calls of the pass that is under way. Returns whether it goes on. */
bool metadata_purge_step(size_t calls);

/* Says whether free pages wait for a later tick. */
bool metadata_has_left(void);

/* Returns how many bytes of memory went back to the system, in total. */
uint64_t metadata_purged_bytes(void);

/* metadata_bytes() says how many bytes were taken and not given back; metadata_touched() how many hold memory, with those of
 * records that were given back and hold it still; metadata_mapped() how many are mapped. */
size_t metadata_bytes(void);
size_t metadata_touched(void);
size_t metadata_mapped(void);

extern lock_t metadata_lock;

#endif
