/* SPDX-License-Identifier: MIT
 *
 * Free memory of the manager's own in pages that serve smaller records: the rests of them. Neighbours become one, and what is a
 * whole page by that leaves; so pages whose records have all gone serve records of any size again.
 *
 * Everything here is under metadata_lock. */
#ifndef PIECES_H
#define PIECES_H

#include "base/bits.h"

enum { PIECE_ALIGNMENT = 64 }; /* of starts and sizes */

/* Returns the bytes of whole pages that are free now, which begin at `*pages` and are no piece's any more; 0: none. */
size_t pieces_give(uintptr_t start, size_t size, uintptr_t *pages);

/* Enters what is left of pages that were cut. It joins its neighbours when they are given. */
void pieces_enter(uintptr_t start, size_t size);

/* `size` is the least of its shelf: 64, 128, 192, and from there on what is a quarter of a doubling apart. Not zeroed. NULL: no
 * piece is that long. */
void *pieces_take(size_t size);

#endif
