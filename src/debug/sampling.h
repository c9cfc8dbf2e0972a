/* SPDX-License-Identifier: MIT
 *
 * What is left to chance: which blocks are samples. */
#ifndef SAMPLING_H
#define SAMPLING_H

#include "base/bits.h"

/* No two threads draw the same number, nor do a process and its children. Drawing makes no system call. */
uint64_t sampling_draw(void);

/* At bring-up, and around a fork. A child starts from a number that its parent has drawn. */
void sampling_begin(void);
void sampling_fork_prepare(void);
void sampling_fork_child(void);

/* How many bytes go before the next event and with it, at least 1, where there is one in `mean` bytes: each byte has the same
 * chance, whatever went before. `mean` is at most 2^32; of 1 nothing is left to chance. */
uint64_t sampling_gap(uint64_t mean);

/* How many bytes one of `size` bytes stands for that has such an event in it: the sum over all that have one is, on average,
 * that of all that there are. */
uint64_t sampling_weight(uint64_t size, uint64_t mean);

#endif
