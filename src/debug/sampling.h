/* SPDX-License-Identifier: MIT
 * Random draws: which blocks are samples. */
#ifndef SAMPLING_H
#define SAMPLING_H

#include "base/bits.h"

/* No two threads draw the same number, nor do a process and its children. Drawing makes no system call. */
uint64_t sampling_draw(void);

/* Called at startup and around a fork. A child starts from a number that its parent has drawn. */
void sampling_begin(void);
void sampling_fork_prepare(void);
void sampling_fork_child(void);

/* Returns the bytes up to and including the next event, at least 1, if there is one in `mean` bytes and each byte has the same
 * chance. `mean` is at most 2^32; 1 makes every byte an event. */
uint64_t sampling_gap(uint64_t mean);

/* Returns how many bytes a block of `size` bytes represents if it has such an event: the sum over all blocks with an event is
 * on average the bytes of all blocks. */
uint64_t sampling_weight(uint64_t size, uint64_t mean);

#endif
