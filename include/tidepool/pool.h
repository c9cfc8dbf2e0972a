/* SPDX-License-Identifier: MIT
 *
 * tidepool/pool.h: the process-wide memory manager.
 *
 * A block is what a caller receives. Several pools of different block sizes stand behind pool_alloc(), which takes each
 * request to the pool of its size class. Every function here may be called by any thread at any time, in a child after
 * fork() too, and by a signal handler only if that handler did not interrupt a call of this library.
 *
 * All sizes are bytes. Blocks are aligned to 16. Success, and every kind of free, leave errno as it was.
 *
 * Cost: an allocation and its free are some thirty instructions together and touch neither a lock nor the block, as long
 * as the calling thread holds spare blocks of that size class; one call in a few dozen takes the lock of one pool.
 *
 * Misuse (a pointer that is no block, a block freed twice) ends the program with one line on standard error and abort():
 *     tidepool: pool_free(0x7f0123456789): not a block of any heap
 * at once for an address that is not aligned or not of the library, for a large block, and for the block of its size that the
 * thread freed last; otherwise when the magazine that holds the block is emptied. */
#ifndef TIDEPOOL_POOL_H
#define TIDEPOOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <tidepool/visibility.h>

POOL_BEGIN_DECLS

typedef struct pool_heap pool_heap_t;

/* A block of at least `size` bytes, contents undefined. pool_alloc(0) is a unique block.
 * NULL and ENOMEM: more than PTRDIFF_MAX was asked for, or there is no memory. */
POOL_API void *pool_alloc(size_t size) POOL_NOEXCEPT POOL_RETURNS_BLOCK(1);

/* The same, every byte of pool_usable_size() zero. */
POOL_API void *pool_zalloc(size_t size) POOL_NOEXCEPT POOL_RETURNS_BLOCK(1);

/* pool_zalloc(count * size); NULL and ENOMEM if the product overflows. */
POOL_API void *pool_calloc(size_t count, size_t size) POOL_NOEXCEPT POOL_RETURNS_BLOCK(1, 2);

/* The block with its size changed to `size`, moved if need be; its contents are kept up to the smaller of both sizes.
 * A NULL block: pool_alloc(size). Size 0: frees the block and returns NULL. A size of more than half and at most
 * all of pool_usable_size(block) does not move it, unless the heap is checked. NULL and ENOMEM: the old block is untouched
 * and still the caller's. */
POOL_API void *pool_realloc(void *block, size_t size) POOL_NOEXCEPT __attribute__((warn_unused_result, alloc_size(2)));

/* A block whose address is a multiple of `alignment`. NULL and EINVAL: the alignment is not a power of two. */
POOL_API void *pool_aligned_alloc(size_t alignment, size_t size) POOL_NOEXCEPT POOL_RETURNS_ALIGNED_BLOCK(1, 2);

/* Takes back a block of any heap, from any thread. NULL is fine. */
POOL_API void pool_free(void *block) POOL_NOEXCEPT;

/* The same for a block of pool_alloc, pool_zalloc, pool_calloc or pool_realloc whose requested size is known. */
POOL_API void pool_free_sized(void *block, size_t size) POOL_NOEXCEPT;

/* Stores up to `count` blocks of `size` bytes in `blocks`; returns how many it got. Fewer than asked for: ENOMEM. */
POOL_API size_t pool_alloc_batch(size_t size, void **blocks, size_t count) POOL_NOEXCEPT;

/* Takes back `count` blocks, of any sizes and heaps; NULLs among them are fine. */
POOL_API void pool_free_batch(void **blocks, size_t count) POOL_NOEXCEPT;

/* Changes the size of a block without moving it. false: not possible, and nothing changed (errno is left alone). */
POOL_API bool pool_resize_in_place(void *block, size_t size) POOL_NOEXCEPT;

/* Bytes of the block the caller may use, at least what was asked for; 0 for NULL. A handful of instructions. */
POOL_API size_t pool_usable_size(const void *block) POOL_NOEXCEPT;

/* The size of the block that pool_alloc(size) would return; `size` itself if no block can be that large. */
POOL_API size_t pool_good_size(size_t size) POOL_NOEXCEPT __attribute__((const));

/* Gives idle memory of the process-wide manager beyond `keep` bytes back to the system; returns the bytes given.
 * Takes the calling thread's spare blocks back first; those of other threads stay. Some microseconds for each MiB given. */
POOL_API size_t pool_trim(size_t keep) POOL_NOEXCEPT;

/* Questions about any address at all: foreign and interior addresses get an answer, never a crash. Exact when no other
 * thread allocates or frees that block meanwhile. These look through the spare blocks of all threads and may cost
 * microseconds. */
POOL_API bool         pool_in_use(const void *address) POOL_NOEXCEPT;                    /* inside a live block? */
POOL_API void        *pool_block_start(const void *address, size_t *size) POOL_NOEXCEPT; /* that block (its usable size in *size, if size is not NULL), or NULL */
POOL_API pool_heap_t *pool_heap_of(const void *address) POOL_NOEXCEPT;                   /* the heap whose memory it is in, or NULL */

/* Sets an option of the process-wide manager, before its first use. The same keys as in the environment variable
 * TIDEPOOL_OPTIONS="key=value,key=value" (which is not read in set-user-ID programs):
 *
 *   purge_delay_ms      how long idle memory is kept before it goes back to the system; a number of milliseconds, or never
 *   huge_pages          never, auto, always: whether to ask for transparent huge pages
 *   stats               none, exit: print the figures of the default heap at exit, to standard error
 *   checked             0, 1: fill and check every block of the default heap (see heap.h, POOL_HEAP_CHECKED)
 *   abort_on_exhausted  0, 1: end the program, with one line, where an allocation would return NULL
 *
 * false: an unknown key, a bad value, or too late. */
POOL_API bool pool_option_set(const char *key, const char *value) POOL_NOEXCEPT;

POOL_END_DECLS

#endif
