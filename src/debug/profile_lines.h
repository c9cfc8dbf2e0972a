/* SPDX-License-Identifier: MIT
 *
 * What a profile knows: a line for each site, heap and length of blocks, with how many of the blocks that are in the profile
 * were allocated there, and how many of them are live. A block that is in the profile has an entry, which leads to its line. */
#ifndef PROFILE_LINES_H
#define PROFILE_LINES_H

#include "debug/sites.h"
#include "heap/types.h"

typedef struct profile_entry profile_entry_t;

/* A block that is about to be allocated enters the profile. NULL: there is no memory for it. `caller` is where the program's
 * call returns to. */
profile_entry_t *profile_enter(heap_t *heap, size_t size, const void *caller);

/* The block is freed, if it was in one (NULL: it was not); or it could not be had at all, and is in no profile. */
void profile_leave(profile_entry_t *entry, const void *block);
void profile_cancel(profile_entry_t *entry);

/* A new profile begins with no lines; one byte in so many will have its block put in it. What is live of an older one is in
 * none.
 */
enum { PROFILE_SAMPLE_BYTES = 512 << 10 };
void profile_forget_lines(uint64_t sample_bytes);
uint64_t profile_sample_bytes(void);

/* An estimate of the bytes that are live, from the blocks in profiles. */
uint64_t profile_live_bytes(void);

typedef struct profile_line {
  site_t site;
  uint64_t live_blocks, live_bytes, blocks, bytes; /* the last two: that were allocated */
} profile_line_t;

typedef struct profile_copied {
  profile_line_t of;
  char heap[HEAP_NAME_SIZE]; /* "": of heaps whose records others have by now */
} profile_copied_t;
typedef struct profile_copy {
  profile_copied_t *lines;
  size_t count, mapped;
} profile_copy_t;

/* Copies the lines of a heap, or of all (NULL), to memory that is mapped for them; profile_end_copy() unmaps it. Returns 0; or
 * ENOMEM; or EBUSY, without `waits`, where somebody has the lock. */
int profile_copy_lines(const heap_t *heap, bool waits, profile_copy_t *copy);
void profile_end_copy(profile_copy_t *copy);

extern lock_t profile_lock;

#endif
