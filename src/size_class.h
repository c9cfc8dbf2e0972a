/* SPDX-License-Identifier: MIT
 *
 * Size classes: which block size serves a request.
 *
 * Steps of 16 up to 512, so that the class of a small size is a shift: a table costs cfrac 3 % (its load sits on the way to
 * everything else). Then eight classes to each doubling, so that at most one part in nine of a block is slack: four to a
 * doubling cost SQLite 8 % more memory. Blocks of classes up to SIZE_CACHED are kept in magazines of a thread. In the default
 * heap a larger block is a run of its own. In other heaps classes up to SIZE_MAX_CLASS are cut from slabs too, and go through
 * the bin's lock each time.
 *
 * Class 0 is no class. Numbers are contiguous and ascend with the size. */
#ifndef SIZE_CLASS_H
#define SIZE_CLASS_H

#include "base/bits.h"

enum {
  BLOCK_ALIGNMENT = 16,

  SIZE_LINEAR = 512, /* the last size that a shift finds */
  SIZE_CACHED = 32 << 10,
  SIZE_MAX_CLASS = 256 << 10,

  STEPS_LOG2 = 3, /* classes to a doubling */
  STEPS = 1 << STEPS_LOG2,
  TABLE_STEP = SIZE_LINEAR / STEPS,

  CLASS_LINEAR = SIZE_LINEAR / BLOCK_ALIGNMENT, /* 32: the class of SIZE_LINEAR */
  CLASS_CACHED = CLASS_LINEAR + STEPS * 6,      /* 80: of SIZE_CACHED, six doublings on */
  CLASS_LAST = CLASS_CACHED + STEPS * 3,        /* 104: of SIZE_MAX_CLASS */
  CLASS_COUNT = CLASS_LAST + 1                  /* with class 0 */
};

_Static_assert(SIZE_LINEAR << 6 == SIZE_CACHED && SIZE_CACHED << 3 == SIZE_MAX_CLASS, "the doublings counted above");

/* Class of a size in (SIZE_LINEAR, SIZE_CACHED], by (size - 1) / TABLE_STEP. Generated: tools/size_class_table. */
extern INTERNAL const uint8_t size_class_table[SIZE_CACHED / TABLE_STEP];

/* size <= SIZE_LINEAR; 0 for 0. */
static inline size_t size_class_linear(size_t size) { return (size + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT; }

/* SIZE_LINEAR < size <= SIZE_CACHED */
static inline size_t size_class_medium(size_t size) { return size_class_table[(size - 1) / TABLE_STEP]; }

/* Takes any size up to SIZE_MAX_CLASS. A size of 0 gets the class of 1. */
unsigned size_class_of(size_t size);

/* The block size of a class in bytes, and half of it; 0 for class 0. realloc() leaves a block where it is if the new size is
 * more than half and at most all of it. The two stand together, so that it finds both with one address. */
typedef struct size_class_range {
  uint32_t size, half;
} size_class_range_t;
extern INTERNAL const size_class_range_t size_class_range[CLASS_COUNT];
static inline uint32_t size_class_size(size_t c) { return size_class_range[c].size; }

#endif
