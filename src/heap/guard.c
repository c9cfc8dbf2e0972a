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

/* The first wrong byte ends the program: its offset is what leads to the culprit. */
static void verify_dead(const unsigned char *bytes, size_t size, const char *call)
{
  for (size_t i = 0; i < size; i++)
    if (unlikely(bytes[i] != (unsigned char)DEAD_BYTES[i % 4]))
      fatal_damage(call, bytes, "written to after it was freed", i, size + GUARD_BYTES);
}

/* A block that went through guard_close() must still be as that left it. Otherwise it was written to while it was free. */
void guard_open(void *block, size_t usable, size_t size, bool was_returned, const char *call)
{
  trailer_t *trailer = trailer_of(block, usable);
  size_t room = usable - GUARD_BYTES;
  if (was_returned) {
    verify_dead(block, room, call);
    if (trailer->mark != DEAD_MARK)
      fatal_damage(call, block, "written to after it was freed", room, usable);
  }
  memset(block, NEW_BYTE, size);
  memset((char *)block + size, CANARY_BYTE, room - size);
  *trailer = (trailer_t){size ^ LIVE_MARK, LIVE_MARK};
}

/* A question reads it beside the owner, who writes it without a lock: any whole words will do, and the thread sanitizer is not
 * asked. */
READS_BESIDE_OWNER size_t guard_size(const void *block, size_t usable)
{
  const volatile trailer_t *trailer = trailer_of(block, usable);
  size_t size = trailer->size ^ LIVE_MARK;
  return trailer->mark == LIVE_MARK && size <= usable - GUARD_BYTES ? size : 0;
}

/* The trailer is looked at first: if it is damaged, the size in it cannot be believed. */
static void verify_end(const void *block, size_t usable, const char *call)
{
  const trailer_t *trailer = trailer_of(block, usable);
  size_t room = usable - GUARD_BYTES, size = trailer->size ^ LIVE_MARK;
  if (trailer->mark != LIVE_MARK || size > room)
    fatal_damage(call, block, "written past its end", room, usable);
  const unsigned char *bytes = block;
  for (size_t i = size; i < room; i++)
    if (bytes[i] != CANARY_BYTE)
      fatal_damage(call, block, "written past its end", i, size);
}

void guard_shorten(void *block, size_t usable, size_t size, const char *call)
{
  verify_end(block, usable, call);
  memset((char *)block + size, CANARY_BYTE, usable - GUARD_BYTES - size);
  trailer_of(block, usable)->size = size ^ LIVE_MARK;
}

/* The canary is checked before it is overwritten: this is the last moment at which a write past the block can be seen. */
void guard_close(void *block, size_t usable, const char *call)
{
  trailer_t *trailer = trailer_of(block, usable);
  size_t room = usable - GUARD_BYTES;
  verify_end(block, usable, call);
  for (size_t i = 0; i < room; i++)
    ((unsigned char *)block)[i] = (unsigned char)DEAD_BYTES[i % 4];
  *trailer = (trailer_t){DEAD_MARK, DEAD_MARK};
}
