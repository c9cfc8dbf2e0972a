/* SPDX-License-Identifier: MIT
 *
 * A guard area is a long stretch of addresses without memory. Each block has pages of its own there, with inaccessible ones
 * before and behind them. The pages of a freed block become inaccessible. They serve another block, the oldest first, only
 * after the area has been filled up to its end. Every use of a freed block is a fault until then.
 *
 *     | no access | front, block, back | no access | front, block, back | no access ...
 *                                    ^ the block ends here, as far as its alignment allows
 *
 * Records of blocks are kept beside the area, also of the newest freed blocks. A fault handler may read them at any moment
 * without a lock. A place may be forgotten while it is read: the message then names another block.
 *
 * huge_lock protects the state. It is released during system calls, and the gate of large blocks keeps out forks. */
#ifndef GUARD_AREA_H
#define GUARD_AREA_H

#include "base/bits.h"
#include "debug/system.h"

/* Frames of the library itself take half of a stack if it is compiled without optimization. */
#ifdef __OPTIMIZE__
enum { GUARD_AREA_FRAMES = 8 };
#else
enum { GUARD_AREA_FRAMES = 16 };
#endif
enum { GUARD_AREA_NAME_SIZE = 32 };

typedef enum guard_area_state { GUARD_AREA_UNUSED, GUARD_AREA_LIVE, GUARD_AREA_LEAVING, GUARD_AREA_FREED } guard_area_state_t;

typedef struct guard_area_place {
  uint32_t state;                       /* guard_area_state_t */
  uint32_t page, pages;                 /* first page, and number of pages; one inaccessible page if the block has 0 bytes */
  uint32_t next, previous;              /* index + 1, in the list of unused, unclosed, or freed places */
  uint8_t allocated_count, freed_count; /* frames of stacks, the innermost first */
  char *block;
  size_t size;
  const void *owner;
  char name[GUARD_AREA_NAME_SIZE]; /* of the owner, which may be destroyed */
  const void *allocated[GUARD_AREA_FRAMES], *freed[GUARD_AREA_FRAMES];
} guard_area_place_t;

typedef struct area {
  size_t bytes_most;              /* of addresses; set in the definition */
  uint32_t live_most, freed_most; /* places of live blocks, and of freed ones that are remembered */
  char *start;                    /* NULL: not begun. Published with release when all else is set */
  size_t pages, cursor;
  uint32_t *place_of; /* index + 1 for each page; 0: none */
  guard_area_place_t *places;
  uint32_t unused, used; /* first place to reuse; number of places ever used */
  uint32_t oldest, newest, live, freed;
  uint32_t unclosed; /* first place that was freed while the system refused to close it */
} guard_area_t;

/* Reserves the addresses and the records. Returns false if the system refuses. Any thread may call it at any time. */
bool guard_area_begin(guard_area_t *area);

/* Returns the bytes of memory that a block takes. */
size_t guard_area_bytes(size_t size, size_t alignment);

/* Returns a place of zeroed pages; the caller sets all fields but state, block and pages. NULL: no room, or refused. */
guard_area_place_t *guard_area_take(guard_area_t *area, size_t size, size_t alignment);

/* Makes the pages inaccessible, during a later call if the system refuses now. */
void guard_area_give(guard_area_t *area, guard_area_place_t *place);

/* The memory of the records and the table; 0 bytes: the area has not begun. */
typedef struct guard_area_notes {
  const void *places, *table;
  size_t places_size, table_size;
} guard_area_notes_t;
guard_area_notes_t guard_area_notes(const guard_area_t *area);

char *guard_area_pages(const guard_area_t *area, const guard_area_place_t *place);
size_t guard_area_pages_bytes(const guard_area_place_t *place);

/* Returns the place that contains an address, without a lock. NULL: none, unless `nearest`, which returns the nearest place. */
guard_area_place_t *guard_area_place_at(const guard_area_t *area, const void *address, bool nearest);
bool guard_area_holds(const guard_area_t *area, const void *address);

#endif
