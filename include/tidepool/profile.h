/* SPDX-License-Identifier: MIT
 *
 * tidepool/profile.h: where in the program memory was allocated, and where what is live.
 *
 * Of all bytes that are allocated each has the same chance, one in sample_bytes, to have its block in the profile. So a profile
 * costs little, and what it says of a place is an estimate: of a hundred blocks that are in it the estimate is good to a tenth,
 * of ten thousand to a hundredth. Without a profile nothing costs anything.
 *
 * A block of a heap with a buffer, a reserve or a budget of up to 8 MiB is in no profile, nor one of a guarded heap: for these
 * there are sites (POOL_HEAP_SITES). Objects of pools count as the block that has them all, at the place where the pool was
 * made or grew. */
#ifndef TIDEPOOL_PROFILE_H
#define TIDEPOOL_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <tidepool/pool.h>

POOL_BEGIN_DECLS

/* Begins a profile, and forgets the one before. With 0 for sample_bytes it is 524,288. Any thread may call it. The calling
 * thread is in the profile at once, and another one from its next call on that its own magazines cannot serve. False, and
 * nothing has changed: EINVAL and pool_error(), if sample_bytes is more than 2,147,483,648; EBUSY, if there is a profile;
 * ENOMEM. */
POOL_API bool pool_profile_start(uint64_t sample_bytes) POOL_NAME(profile_start);

/* Ends it. What it has can be written until the next begins, and blocks that are freed leave it. Without a profile it does
 * nothing. */
POOL_API void pool_profile_stop(void) POOL_NAME(profile_stop);

/* Writes the profile to an open file, as text that pprof reads (heap_v2, as gperftools writes it): of one heap, or of all with
 * NULL. Any thread may call it, also while others allocate. It allocates nothing from a heap. False: errno says why it could
 * not be written, and a part may have been. */
POOL_API bool pool_profile_write(pool_heap_t *heap, int fd) POOL_NAME(profile_write);

POOL_END_DECLS

#endif
