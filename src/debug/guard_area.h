/* SPDX-License-Identifier: MIT
 *
 * A yard: a long stretch of addresses without memory, in which each block has pages of its own, and inaccessible ones before
 * and behind them. A block that is given back leaves its pages inaccessible. They serve another block only when the yard has
 * been filled up to its end, the oldest first, so that a use of a block that was freed is a fault for as long as that lasts.
 *
 *     | no access | front, block, back | no access | front, block, back | no access ...
 *                                    ^ the block ends here, as far as its alignment allows
 *
 * What is known of a block stays beside the yard when the block has gone, up to a number of the newest. It may be read at any
 * moment and without a lock: by whoever handles a fault. A place may be forgotten while it is read. The message then names
 * another block.
 *
 * The state is under huge_lock. While the system is asked the lock is open, and the gate of large blocks keeps a fork away. */
#ifndef GUARD_AREA_H
#define GUARD_AREA_H

#include "base/bits.h"
#include "debug/system.h"

/* Without optimization the library's own calls take half of a stack. */
#ifdef __OPTIMIZE__
enum { GUARD_AREA_FRAMES = 8 };
#else
enum { GUARD_AREA_FRAMES = 16 };
#endif
enum { GUARD_AREA_NAME_SIZE = 32 };

typedef enum guard_area_state { GUARD_AREA_UNUSED, GUARD_AREA_LIVE, GUARD_AREA_LEAVING, GUARD_AREA_FREED } guard_area_state_t;

/* A block of the yard, live or not any more. */
typedef struct guard_area_place {
  uint32_t state;                       /* guard_area_state_t */
  uint32_t page, pages;                 /* the first, and how many; one without access if the block has 0 bytes */
  uint32_t next, previous;              /* among the unused, the unclosed, or the freed in their order; an index and 1 */
  uint8_t allocated_count, freed_count; /* frames of stacks, the innermost first */
  char *block;
  size_t size;
  const void *owner;
  char name[GUARD_AREA_NAME_SIZE]; /* of the owner, which may be gone */
  const void *allocated[GUARD_AREA_FRAMES], *freed[GUARD_AREA_FRAMES];
} guard_area_place_t;

typedef struct yard {
  size_t bytes_most;              /* set by whoever defines one: of addresses, */
  uint32_t live_most, freed_most; /* places of live blocks, and of those that are remembered */
  char *start;                    /* NULL: not begun. Published with release when all else is set */
  size_t pages, cursor;
  uint32_t *place_of; /* of each page an index and 1; 0: of none */
  guard_area_place_t *places;
  uint32_t unused, used; /* the first unused again, and how many were ever used */
  uint32_t oldest, newest, live, freed;
  uint32_t unclosed; /* the first of those that were given while the system refused, or was not to be asked */
} guard_area_t;

/* Has the addresses, and room for what is known. False: the system refuses. Any thread, at any time. */
bool guard_area_begin(guard_area_t *yard);

/* How many bytes of memory a block takes. */
size_t guard_area_bytes(size_t size, size_t alignment);

/* Returns a place whose pages are writable and read as zero, all but its state, block and pages to be set by the caller. NULL:
 * the yard has no room, or the system refuses. */
guard_area_place_t *guard_area_take(guard_area_t *yard, size_t size, size_t alignment);

/* From now on any access to it is a fault; where the system refuses, from a later call on. */
void guard_area_give(guard_area_t *yard, guard_area_place_t *place);

/* Where all this is noted, in memory of its own; of 0 bytes: the yard has not begun. */
typedef struct guard_area_notes {
  const void *places, *table;
  size_t places_size, table_size;
} guard_area_notes_t;
guard_area_notes_t guard_area_notes(const guard_area_t *yard);

/* The pages of a place. */
char *guard_area_pages(const guard_area_t *yard, const guard_area_place_t *place);
size_t guard_area_pages_bytes(const guard_area_place_t *place);

/* The place that an address is in, or NULL. Then, with `nearest`, the one that it is nearest to. No lock. */
guard_area_place_t *guard_area_place_at(const guard_area_t *yard, const void *address, bool nearest);
bool guard_area_holds(const guard_area_t *yard, const void *address);

#endif
