/* SPDX-License-Identifier: MIT
 *
 * What a checked heap writes around and into blocks to find misuse:
 *
 *     | head | canary | requested bytes: 0xcd at first | canary |        live
 *     | head | 0x1deadb0b, again and again                      |        returned, until it is given out again
 *     ^      ^        ^ the block, as its caller knows it
 *     start  a head   HEAD_FRONT, or the block's alignment if that is more
 *
 * The head keeps what was asked for, also of a block that came back, and whether it is with its caller. So the canary behind
 * starts with the first byte that was not asked for, and a block that is freed twice is known by what it says itself. A sum
 * over the head tells whether it can be believed. It has the sites, too, at which the block was allocated and freed. The canary
 * in front of the block is what a write before its beginning meets first. */
#ifndef HEAD_H
#define HEAD_H

#include "debug/sites.h"
#include "heap/heads.h"

struct pool_heap;

/* What holds a block, and whose: a message names the call that found the damage, and the heap. */
typedef struct guarded {
  char *start;
  size_t usable;
  const struct pool_heap *heap;
  const char *call;
  bool in_granules; /* once it is returned its memory is of no block: the next may begin and end anywhere in it */
  bool
    head_only; /* the heap is not checked and has heads for its sites: nothing is filled, and nothing but heads is looked at */
  site_t site; /* of the call; 0: not known */
  bool marked; /* a tool is told what may be touched: nothing but heads and live blocks */
} headed_t;

/* A block goes out for a request. `was_returned`: its memory went through head_close before. Returns the block. */
void *head_open(headed_t at, size_t size, size_t alignment, bool was_returned);

/* A live block has only `size` bytes from now on, fewer than before: checks the canaries, and puts one there. */
void head_shorten(headed_t at, size_t size);

/* The block comes back: checks the canaries, fills it. False: it came back before, and nothing was changed. */
bool head_close(headed_t at);

/* Between the two nobody may have written to it, and the head has room for a link: whoever keeps such blocks needs no memory
 * for that. head_usable() and head_next() believe a head that head_verify_head() has looked at. */
void head_verify_head(headed_t at);
void head_verify_returned(headed_t at);
void head_link(char *start, char *next);
char *head_next(const char *start);
bool head_is_linked(const char *start, const char *next);
size_t head_usable(const char *start);

/* Its memory is about to be of no block: checks that it is as it was closed, behind a head that head_verify_head() has looked
 * at. In granules the head goes, too. */
void head_settle(headed_t at);

/* What a head says. It may be asked beside the thread that writes it. */
head_look_t head_look(const char *start, size_t usable);

/* The next message says where the block that it is about was allocated and freed. */
void head_say_sites(site_t allocated, site_t freed);

/* What holds a live block, as something else than head_close found it, has a head that cannot be believed: ends the program.
 * `block` is what the caller knows. */
_Noreturn void head_damaged(headed_t at, const char *block);

/* A block that is live is looked at where it is: ends the program if it was written to outside. `alone`: nobody else takes
 * blocks or gives them back meanwhile, so that what has no head lost it. */
void head_verify_live(headed_t at, bool alone);

#endif
