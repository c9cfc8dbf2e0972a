/* SPDX-License-Identifier: MIT
 *
 * Memory for the manager's own records: magazines, the state of threads, heaps, what is known of a region's units. It has
 * addresses of its own in the window, with nothing mapped on either side, so that no write past a block reaches it.
 *
 * It is taken from the system in chunks, one behind the other, and never unmapped: a pointer to a record leads to a record for
 * ever. What is given back serves records of any size: neighbours become one, and of many pages in a row the memory goes back
 * to the system. */
#ifndef METADATA_H
#define METADATA_H

#include "base/bits.h"
#include "os/lock.h"

enum { METADATA_ALIGNMENT = 64 }; /* of every record, at least */

/* Zeroed; `alignment` is a power of two up to a page. NULL: no memory. */
void *metadata_take(size_t size, size_t alignment);

/* Takes back what was taken with this size. One smaller than a page is used again with METADATA_ALIGNMENT alone. */
void metadata_give(void *record, size_t size);

/* Records of one kind that are never given back stand together, so that they keep no page of others. The caller holds a lock of
 * its own. */
typedef struct metadata_kind {
  size_t size, alignment;
  size_t bytes; /* the last that were taken at once: twice as many each time */
  char *next, *end;
} metadata_kind_t;
void *metadata_take_kind(metadata_kind_t *kind);

/* Gives back the memory of pages that serve no record, except the first page of each row. Returns how many bytes that was. */
size_t metadata_trim(void);

/* Returns how many bytes of memory went back to the system, in total. */
uint64_t metadata_purged_bytes(void);

/* metadata_bytes() says how many bytes were taken and not given back; metadata_touched() how many hold memory, with those of
 * records that were given back and hold it still; metadata_mapped() how many are mapped. */
size_t metadata_bytes(void);
size_t metadata_touched(void);
size_t metadata_mapped(void);

extern lock_t metadata_lock;

#endif
