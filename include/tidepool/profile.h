/* SPDX-License-Identifier: MIT
 *
 * tidepool/profile.h: where the program allocated memory, and where its live memory is from, by sampling.
 *
 *     pool_profile_start(0);
 *     run();
 *     pool_profile_write(NULL, fd);     read it with: tidepool show FILE, or pprof
 *     pool_profile_stop();
 *
 * Each allocated byte has the same chance, one in sample_bytes, to bring its block into the profile. So figures are estimates:
 * good to 10 % for a place with a hundred sampled blocks, to 1 % with ten thousand. There is no cost unless a profile is
 * running.
 *
 * Profiles omit heaps with a buffer, a reserve, or a budget of up to 8 MiB, and guarded heaps: use POOL_HEAP_SITES there. An
 * object pool counts as one block for each array, at the place where the pool was created or grew.
 *
 * Only the debug library takes profiles. */
#ifndef TIDEPOOL_PROFILE_H
#define TIDEPOOL_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <tidepool/pool.h>

POOL_BEGIN_DECLS

/* Starts a profile and discards the one before. 0 for sample_bytes is 524,288. Any thread may call it. The calling thread is
 * sampled at once, another thread from its next call that its own cache cannot serve.
 *
 * false, with nothing changed: EINVAL, with pool_error(), if sample_bytes is more than 2,147,483,648, and in libtidepool, which
 * is not the debug library; EBUSY if a profile is running; ENOMEM. */
POOL_API bool pool_profile_start(uint64_t sample_bytes) POOL_NAME(profile_start);

/* Stops the profile. It can be written until the next one starts; freed blocks still leave it. The call does nothing if no
 * profile is running. */
POOL_API void pool_profile_stop(void) POOL_NAME(profile_stop);

/* Writes the profile of one heap, or of all heaps with NULL, to an open file. The text is gperftools' heap_v2, which pprof
 * reads. Any thread may call it while others allocate. It allocates nothing from a heap. Only the debug library writes one;
 * pool_error() says so in libtidepool. false: the profile is not written, or not all of it; errno is the reason. */
POOL_API bool pool_profile_write(pool_heap_t *heap, int fd) POOL_NAME(profile_write);

POOL_END_DECLS

#endif
