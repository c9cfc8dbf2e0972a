/* SPDX-License-Identifier: MIT
 * For an allocator whose functions are simply linked. */
#ifndef BENCH_LINKED_H
#define BENCH_LINKED_H

static inline void allocator_load(char **argv) { (void)argv; }

#endif
