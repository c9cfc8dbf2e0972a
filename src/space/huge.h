/* SPDX-License-Identifier: MIT
 *
 * Huge blocks: those too large, or aligned too strictly, for an arena. Each is a mapping of its own, which grows and shrinks as
 * a whole: its pages change place without being read. When it ends it is unmapped at once. They stand in a tree by address.
 *
 * What the system refuses to unmap is left mapped for the next block, without its memory if possible. */
#ifndef HUGE_H
#define HUGE_H

#include "space/huge_range.h"

/* It becomes the first of the list of its owner's blocks, which changes under huge_lock; without a list it is a region.
 * *zeroed: it holds no old data. NULL: no memory. */
huge_t *huge_take(size_t size, size_t alignment, void *owner, huge_t **list, bool *zeroed);
void huge_give(huge_t *huge);

/* From now on no question finds it, or every one does. A region is hidden until its owner has made it one. */
void huge_hide(huge_t *huge, bool hide);

/* Changes the size, moving the pages if need be. False: nothing changed. True: it has that size, or a larger one that the
 * system would not take anything of. */
bool huge_resize(huge_t *huge, size_t size, bool may_move);

/* Calls `ask` with the one that `address` is in, under the lock. False: it is in none. */
typedef void huge_ask_fn(huge_t *huge, void *context);
bool huge_ask(const void *address, huge_ask_fn *ask, void *context);

/* The block of an owner with the lowest address at or above `from`. NULL: none. It is the owner's to say how long it lives. */
huge_t *huge_next(const void *owner, const void *from);

/* Blocks apart (heap/apart.h): only their records, their places in the tree and in the lists of owners are kept here. What
 * becomes of their memory is for their source to say, and nothing of it is kept. */
huge_apart_t *huge_apart_record(void); /* NULL: no memory. The caller fills in range, source, offset and asked */
void huge_apart_enter(huge_t *huge, void *owner, huge_t **list);
void huge_apart_end(huge_t *huge); /* a record that did not enter, or has left */

void huge_apart_note_site(const void *block, uint32_t site); /* of a live one */

/* Of any live block, apart or not. *before: what it was. False: there is none. */
bool huge_note_entry(const void *block, void *entry, void **before);

/* Of threads that free one block at once one gets the record, which has left tree and list. NULL: it is no live block apart. */
huge_t *huge_apart_leave(const void *block);

/* Tries again to unmap what was left; returns how many bytes of memory went back. The second returns how many bytes of memory
 * are left, and the third how many went back in total. */
size_t huge_unmap_left(void);
size_t huge_left_bytes(void);
uint64_t huge_purged_bytes(void);

/* Return how many bytes are mapped for these blocks, with what is left, and how many bytes blocks apart take. */
size_t huge_mapped_bytes(void);
size_t huge_apart_bytes(void);

/* Returns how many bytes a block of this size will hold. */
size_t huge_bytes(size_t size);

/* Says that the system would refuse so many bytes whatever it got back, so that nothing is given up for them. */
bool huge_is_hopeless(size_t size);

#endif
