/* SPDX-License-Identifier: MIT
 *
 * Every byte of a block has a known value, except those that the caller has asked for, and these only while the block is live.
 * So a write past the end, or after the free, changes a byte whose value is known. */
#include "heap/guard.h"
#include "misuse.h"
#include <string.h>

#define DEAD_BYTES "\x0b\xdb\xea\x1d" /* 0x1deadb0b as it lies in memory */
enum { NEW_BYTE = 0xcd, CANARY_BYTE = 0xfb };

#define LIVE_MARK ((uint64_t)0x9e3779b97f4a7c15)
#define DEAD_MARK ((uint64_t)0x1deadb0b1deadb0b)

typedef struct trailer {
  uint64_t size, mark;
} trailer_t;
_Static_assert(sizeof(trailer_t) == GUARD_BYTES, "room for the trailer");

static trailer_t *trailer_of(const void *block, size_t usable)
{
  return (trailer_t *)((uintptr_t)block + usable - GUARD_BYTES);
}

static _Noreturn void damaged(const guarded_t *at, const char *what, size_t offset, size_t size)
{
  fatal_damage(at->call, at->block, what, offset, at->heap, size);
}

/* The size stands in both words, so that a change of either is seen. */
size_t guard_size_before(const void *block, size_t usable)
{
  const trailer_t *trailer = trailer_of(block, usable);
  uint64_t size = trailer->size ^ DEAD_MARK;
  return trailer->mark == (size ^ ~DEAD_MARK) && size <= usable - GUARD_BYTES ? (size_t)size : usable;
}

/* What was asked for of a block that came back, says its trailer. */
static bool is_dead_trailer(const trailer_t *trailer, uint64_t *size)
{
  *size = trailer->size ^ DEAD_MARK;
  return trailer->mark == (*size ^ ~DEAD_MARK) && *size <= PTRDIFF_MAX;
}

bool guard_is_dead(const void *bytes)
{
  const unsigned char *at = bytes;
  uint64_t size;
  size_t i = 0;
  while (i < GUARD_BYTES && at[i] == (unsigned char)DEAD_BYTES[i % 4])
    i++;
  return i == GUARD_BYTES || is_dead_trailer(bytes, &size);
}

/* Returns what was asked for of the block that began here before, if the first trailer is of such a one; else all of it. */
static size_t first_size(const guarded_t *at)
{
  uint64_t size;
  for (size_t i = 0; i < at->usable; i += GUARD_BYTES)
    if (is_dead_trailer((const trailer_t *)((uintptr_t)at->block + i), &size))
      return i && round_up((size_t)size, GUARD_BYTES) == i ? (size_t)size : at->usable;
  return at->usable;
}

static const char WRITTEN_AFTER_FREE[] = "written to after it was freed";

/* Memory of granules may have been of several blocks, or of parts of them, and has the trailers of each. */
static void verify_dead_granules(const guarded_t *at)
{
  const unsigned char *bytes = at->block;
  for (size_t i = 0; i < at->usable; i += GUARD_BYTES)
    if (unlikely(!guard_is_dead(bytes + i))) {
      while (bytes[i] == (unsigned char)DEAD_BYTES[i % 4])
        i++;
      damaged(at, WRITTEN_AFTER_FREE, i, first_size(at));
    }
}

/* The first wrong byte ends the program: its offset is what leads to the culprit. */
static void verify_dead(const guarded_t *at, size_t room)
{
  const unsigned char *bytes = at->block;
  size_t size = guard_size_before(at->block, at->usable);
  for (size_t i = 0; i < room; i++)
    if (unlikely(bytes[i] != (unsigned char)DEAD_BYTES[i % 4]))
      damaged(at, WRITTEN_AFTER_FREE, i, size);
  if (size > room)
    damaged(at, WRITTEN_AFTER_FREE, room, size);
}

/* It may be asked beside the owner, who writes without a lock: any whole words will do. */
READS_BESIDE_OWNER static bool is_live_trailer(const volatile trailer_t *trailer, size_t room, uint64_t *size)
{
  *size = trailer->size ^ LIVE_MARK;
  return trailer->mark == (*size ^ ~LIVE_MARK) && *size <= room;
}

static trailer_t live_trailer(size_t size) { return (trailer_t){size ^ LIVE_MARK, size ^ ~LIVE_MARK}; }

/* A block that went through guard_close() must still be as that left it. Otherwise it was written to while it was free. */
void guard_open(guarded_t at, size_t size, bool was_returned)
{
  size_t room = at.usable - GUARD_BYTES;
  if (was_returned && at.in_granules)
    verify_dead_granules(&at);
  else if (was_returned)
    verify_dead(&at, room);
  memset(at.block, NEW_BYTE, size);
  memset((char *)at.block + size, CANARY_BYTE, room - size);
  *trailer_of(at.block, at.usable) = live_trailer(size);
}

size_t guard_size(const void *block, size_t usable)
{
  uint64_t size;
  return is_live_trailer(trailer_of(block, usable), usable - GUARD_BYTES, &size) ? (size_t)size : 0;
}

/* The trailer is looked at first: if it is damaged, the size in it cannot be believed. Returns the size. */
static size_t verify_end(const guarded_t *at)
{
  static const char what[] = "written past its end";
  size_t room = at->usable - GUARD_BYTES;
  uint64_t size;
  if (!is_live_trailer(trailer_of(at->block, at->usable), room, &size))
    damaged(at, what, room, at->usable);
  const unsigned char *bytes = at->block;
  for (size_t i = (size_t)size; i < room; i++)
    if (bytes[i] != CANARY_BYTE)
      damaged(at, what, i, (size_t)size);
  return (size_t)size;
}

void guard_shorten(guarded_t at, size_t size)
{
  verify_end(&at);
  memset((char *)at.block + size, CANARY_BYTE, at.usable - GUARD_BYTES - size);
  *trailer_of(at.block, at.usable) = live_trailer(size);
}

void guard_fill(void *start, size_t size)
{
  for (size_t i = 0; i < size; i++)
    ((unsigned char *)start)[i] = (unsigned char)DEAD_BYTES[i % 4];
}

/* The canary is checked before it is overwritten: this is the last moment at which a write past the block can be seen. */
void guard_close(guarded_t at)
{
  size_t room = at.usable - GUARD_BYTES, size = verify_end(&at);
  guard_fill(at.block, room);
  *trailer_of(at.block, at.usable) = (trailer_t){size ^ DEAD_MARK, size ^ ~DEAD_MARK};
}
