/* SPDX-License-Identifier: MIT
 *
 * A checked heap writes around and into blocks to find misuse:
 *
 *     | head | canary | requested bytes: 0xcd at first | canary |        live
 *     | head | 0x1deadb0b, again and again                      |        freed, until it is given out again
 *     ^      ^        ^ the block, as its caller knows it
 *     start  a head   HEAD_FRONT, or the block's alignment if that is more
 *
 * The head stores the requested size, also after a free, and whether the block is live. The canary behind the block thus begins
 * with the first byte that was not requested, and a second free is found by the head alone. A sum over the head shows whether
 * it is intact. The head also has the sites of allocation and free. A write before the block first hits the canary in front. */
#ifndef HEAD_H
#define HEAD_H

#include "debug/sites.h"
#include "heap/debug_hooks.h"

struct pool_heap;

/* The memory that holds a block, its heap, and the call to name if damage is found. */
typedef struct headed {
  char *start;
  size_t usable;
  const struct pool_heap *heap;
  const char *call;
  bool in_granules; /* freed memory belongs to no block: the next may begin and end anywhere in it */
  bool head_only;   /* the heap is not checked and has heads only for sites: nothing is filled or verified but heads */
  site_t site;      /* of the call; 0: not known */
  bool marked;      /* a tool is told which memory may be touched: only heads and live blocks */
} headed_t;

/* Return the kind that an allocating call makes, or that a freeing call frees. */
block_kind_t kind_allocated_by(const char *call);
block_kind_t kind_freed_by(const char *call);

/* Opens a block for a request and returns it. `was_returned`: its memory went through head_close() before. */
void *head_open(headed_t at, size_t size, size_t alignment, bool was_returned);

/* Shortens a live block to `size` bytes: verifies the canaries and writes a new one. */
void head_shorten(headed_t at, size_t size);

/* Closes a freed block: verifies the canaries and fills the block. Returns false, without changes, if it was freed before. */
bool head_close(headed_t at);

/* A closed block must not be written to. Its head has room for a link, so lists of such blocks need no memory. head_usable()
 * and head_next() trust a head that head_verify_head() has checked. */
void head_verify_head(headed_t at);
void head_verify_returned(headed_t at);
void head_link(char *start, char *next);
char *head_next(const char *start);
bool head_is_linked(const char *start, const char *next);
size_t head_usable(const char *start);

/* Verifies a closed block whose memory will belong to no block, after head_verify_head(). Granules lose the head, too. */
void head_drop(headed_t at);

/* Reads a head. Its owner may be writing it. */
head_look_t head_look(const char *start, size_t usable);

/* Ends the program because the memory of a live block has an invalid head. `block` is the caller's address. */
_Noreturn void head_damaged(headed_t at, const char *block);

/* Ends the program if memory outside a live block was overwritten. `alone`: only then a missing head counts as lost. */
void head_verify_live(headed_t at, bool alone);

#endif
