/* SPDX-License-Identifier: MIT
 *
 * Resident memory of this process above a baseline, which is taken when the harness is ready and the allocator has not
 * been called. The peak is the kernel's own, so nothing is missed between two readings; it belongs to one case only if the
 * process runs no other. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void memory_baseline(void);
size_t memory_growth(void);      /* bytes now */
size_t memory_peak_growth(void); /* bytes at the highest point since the baseline */

#ifdef __cplusplus
}
#endif

#endif
