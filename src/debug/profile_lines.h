/* SPDX-License-Identifier: MIT
 *
 * A profile has a line for each site, heap and block length: how many sampled blocks were allocated there, and how many are
 * live. Each sampled block has an entry that leads to its line. */
#ifndef PROFILE_LINES_H
#define PROFILE_LINES_H

#include "debug/sites.h"
#include "heap/heap.h"

typedef struct profile_entry profile_entry_t;

/* Enters a block that is about to be allocated by a call that returns to `caller`. Returns NULL if there is no memory. */
profile_entry_t *profile_enter(heap_t *heap, size_t size, const void *caller);

/* The block is freed (entry NULL: it was not sampled). profile_cancel(): it could not be allocated and is in no profile. */
void profile_leave(profile_entry_t *entry, const void *block);
void profile_cancel(profile_entry_t *entry);

/* Starts a profile without lines that samples one byte in `sample_bytes`. Live blocks of an older profile are in none. */
enum { PROFILE_SAMPLE_BYTES = 512 << 10 };
void profile_forget_lines(uint64_t sample_bytes);
uint64_t profile_sample_bytes(void);

/* Estimates the live bytes of the program from the sampled blocks. */
uint64_t profile_live_bytes(void);

typedef struct profile_line {
  site_t site;
  uint64_t live_blocks, live_bytes, blocks, bytes; /* blocks, bytes: allocated */
} profile_line_t;

typedef struct profile_copied {
  profile_line_t of;
  char heap[HEAP_NAME_SIZE]; /* "": of heaps whose records were reused */
} profile_copied_t;
typedef struct profile_copy {
  profile_copied_t *lines;
  size_t count, mapped;
} profile_copy_t;

/* Copies the lines of a heap, or of all (NULL), to mapped memory, which profile_end_copy() unmaps. Returns 0, ENOMEM, or,
 * without `waits`, EBUSY if another thread holds the lock. */
int profile_copy_lines(const heap_t *heap, bool waits, profile_copy_t *copy);
void profile_end_copy(profile_copy_t *copy);

extern lock_t profile_lock;

#endif
