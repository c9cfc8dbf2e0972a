/* SPDX-License-Identifier: MIT
 *
 * Size classes: which block size serves a request.
 *
 * Steps of 16 up to 512. Then eight classes to each doubling, so that at most one part in nine of a block is slack: four to a
 * doubling cost SQLite 8 % more memory. Blocks of classes up to SIZE_CACHED are kept in magazines of a thread. In the default
 * heap a larger block is a run of its own. In other heaps classes up to SIZE_MAX_CLASS are cut from slabs too, and go through
 * the bin's lock each time.
 *
 * One table has the class of every size up to SIZE_CACHED. A shift is enough up to SIZE_LINEAR, but no processor can guess on
 * which side of it the next size is: with sizes up to 1000 at random larson took 27 ns for a pair, and takes 21. So a shift is
 * only where nothing else is asked for, or where the load of the table costs more than it saves.
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

  CLASS_LINEAR = SIZE_LINEAR / BLOCK_ALIGNMENT, /* 32: the class of SIZE_LINEAR */
  CLASS_CACHED = CLASS_LINEAR + STEPS * 6,      /* 80: of SIZE_CACHED, six doublings on */
  CLASS_LAST = CLASS_CACHED + STEPS * 3,        /* 104: of SIZE_MAX_CLASS */
  CLASS_COUNT = CLASS_LAST + 1                  /* with class 0 */
};

_Static_assert(SIZE_LINEAR << 6 == SIZE_CACHED && SIZE_CACHED << 3 == SIZE_MAX_CLASS, "the doublings counted above");

/* CLASS_SCALE times the class of a size up to SIZE_CACHED, by the size in steps of BLOCK_ALIGNMENT, rounded up. What a thread
 * has of a class is CLASS_SCALE bytes long with 64-bit addresses, so this is where it is. Generated: tools/size_class_table. */
enum { CLASS_SCALE = 16 };
extern INTERNAL const uint16_t size_class_table[SIZE_CACHED / BLOCK_ALIGNMENT + 1];

/* Both take a size of at most SIZE_CACHED, and say 0 for 0. */
static inline size_t size_class_scaled(size_t size) { return size_class_table[(size + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT]; }

static inline size_t size_class_cached(size_t size) { return size_class_scaled(size) / CLASS_SCALE; }

/* size <= SIZE_LINEAR; 0 for 0. */
static inline size_t size_class_linear(size_t size) { return (size + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT; }

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
