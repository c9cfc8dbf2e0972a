/* SPDX-License-Identifier: MIT
 * Blocks too large, or aligned too strictly, for an arena: each is a reservation of its own. There are few, so they stand in
 * one list that a lock guards. */
#ifndef HUGE_H
#define HUGE_H

#include "arena.h"

typedef struct huge {
  struct huge *next;
  char        *start;
  size_t       size;          /* usable bytes, whole pages; also what is held */
  void        *owner;         /* its heap */
} huge_t;

extern lock_t huge_lock;

/* NULL: no memory. */
huge_t *huge_take(size_t size, size_t alignment, void *owner);
void    huge_give(huge_t *huge);

/* Changes the size, moving the pages if need be. False: nothing changed. */
bool huge_resize(huge_t *huge, size_t size, bool may_move);

/* The one that `address` is in, or NULL. The answer holds as long as the block is the caller's. */
huge_t *huge_find(const void *address);

/* Walks those of one owner: NULL starts and ends. */
huge_t *huge_next(const void *owner, const huge_t *previous);

/* What a block of this size will hold. */
size_t huge_bytes(size_t size);

#endif
