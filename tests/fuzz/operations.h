/* SPDX-License-Identifier: MIT
 * What may be done. Each operation takes the bytes it needs from the input. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include "model.h"

void one_op(void); /* that the input names */

/* Blocks. */
void take(size_t size);
void take_zeroed(size_t size);
void op_aligned(void);
void op_alloc(void);
void op_batch(void);
void op_free(void);
void op_free_many(void);
void op_huge(void);
void op_huge_zeroed(void);
void op_large(void);
void op_large_aligned(void);
void op_large_free(void);
void op_large_realloc(void);
void op_large_resize(void);
void op_large_zeroed(void);
void op_realloc(void);
void op_resize(void);
void op_trim(void);
void op_verify(void);
void op_zeroed(void);

/* Questions. */
void op_ask_anything(void);
void op_ask_freed(void);
void op_ask_inside(void);
void op_ask_near(void);
void op_good_size(void);
void op_impossible(void);

/* Heaps. */
void destroy(unsigned n); /* if there is one, and those that lean on it */
void op_heap_create(void);
void op_heap_destroy(void);
void op_heap_reset(void);
void op_heap_set_budget(void);

/* Figures. */
void all_figures_agree(void);
void op_figures(void);
void op_heap_walk(void);
void op_walk_all(void);

/* A child, and the second thread. */
void end_other(void);
void op_elsewhere(void);
void op_fork(void);
void op_thread_end(void);

#endif
