/* SPDX-License-Identifier: MIT
 *
 * Free memory of the manager's own in whole pages. Pages side by side are one row, which serves records of any size.
 *
 * A row is dirty, or clean: the system has the memory of all its pages but the first, which holds the row's own record.
 *
 * Everything here is under metadata_lock, but for what is said to be read without it. */
#ifndef ROWS_H
#define ROWS_H

#include "base/bits.h"

/* Takes pages in. Dirty ones join their dirty neighbours; if that makes at least `least` bytes, the system is asked to take
 * them, and what it took joins the clean neighbours. */
void rows_give(uintptr_t start, size_t size, bool clean, size_t least);

/* Zeroed pages, from the end of a row; NULL: none is that long. */
void *rows_take(size_t size);

/* Makes up to `most` of the oldest dirty rows clean, and returns how many bytes the system took. */
size_t rows_clean_oldest(size_t most);

/* Asks the system to take the memory of pages that are in no row yet, without the first page. Needs no lock. */
bool rows_purge(uintptr_t start, size_t size);

/* How many rows are dirty, how many bytes hold memory, of records in use as well, and how many went back to the system in
 * total. Read without the lock. */
size_t rows_dirty(void);
size_t rows_touched(void);
uint64_t rows_purged(void);

/* So many bytes more, or modulo 2^64 fewer, hold memory. */
void rows_count_touched(size_t by);

#endif
