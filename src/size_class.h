/* SPDX-License-Identifier: MIT
 *
 * Size classes: the block size that serves a request.
 *
 * Classes are multiples of 16 bytes up to 512. Eight classes follow in each doubling, so at most 1/9 of a block is slack: with
 * four, SQLite took 8 % more memory. Threads cache blocks of classes up to SIZE_CACHED in magazines. Larger blocks of the
 * default heap are runs of their own. Other heaps also cut classes up to SIZE_MAX_CLASS from slabs, and take the bin's lock for
 * each block.
 *
 * A table has the class of every size up to SIZE_CACHED. A shift suffices up to SIZE_LINEAR, but processors cannot predict on
 * which side the next size is: with random sizes up to 1000 bytes, larson took 27 ns for a pair with the test, and takes 21 ns
 * without. So a shift serves only callers with no larger sizes, or where loading the table costs more than it saves.
 *
 * Class 0 is no class. Numbers are contiguous and ascend with the size. */
#ifndef SIZE_CLASS_H
#define SIZE_CLASS_H

#include "base/bits.h"

enum {
  BLOCK_ALIGNMENT = 16,

  SIZE_LINEAR = 512, /* the largest size that a shift finds */
  SIZE_CACHED = 32 << 10,
  SIZE_MAX_CLASS = 256 << 10,

  STEPS_LOG2 = 3, /* classes in each doubling */
  STEPS = 1 << STEPS_LOG2,

  CLASS_LINEAR = SIZE_LINEAR / BLOCK_ALIGNMENT, /* 32: the class of SIZE_LINEAR */
  CLASS_CACHED = CLASS_LINEAR + STEPS * 6,      /* 80: the class of SIZE_CACHED, six doublings later */
  CLASS_LAST = CLASS_CACHED + STEPS * 3,        /* 104: the class of SIZE_MAX_CLASS */
  CLASS_COUNT = CLASS_LAST + 1                  /* with class 0 */
};

_Static_assert(SIZE_LINEAR << 6 == SIZE_CACHED && SIZE_CACHED << 3 == SIZE_MAX_CLASS, "the doublings counted above");

/* CLASS_SCALE times the class of a size up to SIZE_CACHED, indexed by the size in steps of BLOCK_ALIGNMENT, rounded up. A
 * loaded magazine's record has CLASS_SCALE bytes with 64-bit addresses, so this is its offset. tools/size_class_table generates
 * it. */
enum { CLASS_SCALE = 16 };
extern INTERNAL const uint16_t size_class_table[SIZE_CACHED / BLOCK_ALIGNMENT + 1];

/* These take a size of at most SIZE_CACHED, and return 0 for 0. */
static inline size_t size_class_scaled(size_t size) { return size_class_table[(size + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT]; }

static inline size_t size_class_cached(size_t size) { return size_class_scaled(size) / CLASS_SCALE; }

/* size <= SIZE_LINEAR; returns 0 for 0. */
static inline size_t size_class_linear(size_t size) { return (size + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT; }

/* Takes any size up to SIZE_MAX_CLASS. A size of 0 gets the class of 1. */
unsigned size_class_of(size_t size);

/* The block size of a class in bytes, and half of it; 0 for class 0. realloc() keeps a block in place if the new size is more
 * than half and at most all of it. The two are adjacent, so that it finds both with one address. */
typedef struct size_class_range {
  uint32_t size, half;
} size_class_range_t;
extern INTERNAL const size_class_range_t size_class_range[CLASS_COUNT];
static inline uint32_t size_class_size(size_t c) { return size_class_range[c].size; }

#endif
