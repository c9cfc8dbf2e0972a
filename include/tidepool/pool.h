/* SPDX-License-Identifier: MIT
 *
 * tidepool/pool.h: the process-wide memory manager.
 *
 * A block is what a caller receives. Several pools of different block sizes stand behind pool_alloc(), which takes each request
 * to the pool of its size class. Any thread may call every function here at any time, in a child after fork() too. A signal
 * handler may do so only if it did not interrupt a call of this library; nor one of malloc, where that is what blocks come from
 * (under valgrind and sanitizers, and with blocks=malloc).
 *
 * All sizes are bytes. Blocks are aligned to 16. Success, and every kind of free, leave errno as it was.
 *
 * Cost: an allocation and its free are some forty instructions together. They touch neither a lock nor the block, as long as
 * the calling thread holds spare blocks of that size class. One call in a few dozen takes the lock of one pool.
 *
 * Misuse (a pointer that is no block, a block freed twice) ends the program with one line on standard error and abort():
 *     tidepool: pool_free(0x7f0123456789): not a block of any heap
 *     tidepool: pool_free(0x7f0123456790): freed twice: a block of 112 bytes
 * The line names the call that was made, and the block's heap unless that is the default one. It is seen at once for an address
 * that is not aligned or not of the library, for a large block, and for the block of its size that the thread freed last.
 * Otherwise it is seen when the magazine that holds the block is emptied; the line says "seen late", and the call is over. */
#ifndef TIDEPOOL_POOL_H
#define TIDEPOOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <tidepool/visibility.h>

POOL_BEGIN_DECLS

typedef struct pool_heap pool_heap_t;

/* Returns a block of at least `size` bytes with undefined contents. pool_alloc(0) returns a unique block.
 *
 * NULL and ENOMEM: more than PTRDIFF_MAX was asked for, or there is no memory. */
POOL_API void *pool_alloc(size_t size) POOL_NAME(alloc) POOL_RETURNS_BLOCK(1);

/* Does what pool_alloc does, and every byte of pool_usable_size() is zero. */
POOL_API void *pool_zalloc(size_t size) POOL_NAME(zalloc) POOL_RETURNS_BLOCK(1);

/* Returns pool_zalloc(count * size); NULL and ENOMEM if the product overflows. */
POOL_API void *pool_calloc(size_t count, size_t size) POOL_NAME(calloc) POOL_RETURNS_BLOCK(1, 2);

/* Changes the size of a block to `size`, moving the block if need be. Its contents are kept up to the smaller of both sizes. A
 * NULL block makes it pool_alloc(size). Size 0 frees the block and returns NULL.
 *
 * The block does not move if `size` is more than half and at most all of pool_usable_size(block), unless the heap is checked.
 * NULL and ENOMEM: the old block is untouched and still the caller's. */
POOL_API void *pool_realloc(void *block, size_t size) POOL_NAME(realloc) __attribute__((warn_unused_result, alloc_size(2)));

/* Returns a block whose address is a multiple of `alignment`. NULL and EINVAL, with pool_error(): the alignment is not a power
 * of two. */
POOL_API void *pool_aligned_alloc(size_t alignment, size_t size) POOL_NAME(aligned_alloc) POOL_RETURNS_ALIGNED_BLOCK(1, 2);

/* Takes back a block of any heap, from any thread. NULL is no error. */
POOL_API void pool_free(void *block) POOL_NAME(free);

/* Takes back a block of pool_alloc, pool_zalloc, pool_calloc or pool_realloc whose requested size is known. */
POOL_API void pool_free_sized(void *block, size_t size) POOL_NAME(free_sized);

/* Stores up to `count` blocks of `size` bytes in `blocks`, and returns how many it got. If these are fewer, errno is ENOMEM. */
POOL_API size_t pool_alloc_batch(size_t size, void **blocks, size_t count) POOL_NAME(alloc_batch);

/* Takes back `count` blocks, of any sizes and heaps. NULLs among them are no error. */
POOL_API void pool_free_batch(void **blocks, size_t count) POOL_NAME(free_batch);

/* Changes the size of a block without moving it. It returns false if that is not possible; then nothing has changed, and errno
 * is left alone. */
POOL_API bool pool_resize_in_place(void *block, size_t size) POOL_NAME(resize_in_place);

/* Returns the bytes of the block that the caller may use, at least what was asked for; 0 for NULL. It costs a handful of
 * instructions. */
POOL_API size_t pool_usable_size(const void *block) POOL_NAME(usable_size);

/* Returns the size of the block that pool_alloc(size) would return, or `size` itself if no block can be that large. A program
 * that can use it all asks for as much: where the default heap is checked, guarded or has sites, and of a sample, only what was
 * asked for may be used (pool_usable_size()). Where the process has a limit below 256 MiB on its memory, the block may be
 * larger: fewer classes are in use. */
POOL_API size_t pool_good_size(size_t size) POOL_NAME(good_size) __attribute__((const));

/* Gives idle memory of the process-wide manager beyond `keep` bytes back to the system, and returns the bytes given. It first
 * takes the calling thread's spare blocks back; those of other threads stay. It takes some microseconds for each MiB given. */
POOL_API size_t pool_trim(size_t keep) POOL_NAME(trim);

/* The next three functions take any address at all: foreign and interior addresses get an answer, never a crash. The answer is
 * exact if no other thread allocates or frees that block meanwhile, with one exception: a freed block may still seem live for a
 * moment while other threads end, or allocate or free blocks of its size, since spare blocks wander then. They look through the
 * spare blocks of all threads, which may take microseconds. */

/* Tells whether the address is inside a live block. */
POOL_API bool pool_in_use(const void *address) POOL_NAME(in_use);

/* Returns the live block that the address is inside of, or NULL. If `size` is not NULL, *size gets the usable size of the
 * block. */
POOL_API void *pool_block_start(const void *address, size_t *size) POOL_NAME(block_start);

/* Returns the heap whose memory the address is in, or NULL. */
POOL_API pool_heap_t *pool_heap_of(const void *address) POOL_NAME(heap_of);

/* Sets an option of the process-wide manager, before its first use. The keys are those of the environment variable
 * TIDEPOOL_OPTIONS="key=value,key=value", which is not read in set-user-ID programs:
 *
 *   purge_delay_ms      how long idle memory is kept before it goes back to the system; a number of milliseconds, or never
 *   huge_pages          never, auto, always: whether to ask for transparent huge pages; auto does where small blocks need more
 *   stats               none, exit, exit:FILE: print all heaps' figures at exit, or add them to FILE (up to 255 bytes long)
 *   checked             0, 1, all: fill and check each block of the default heap, or of all heaps, and object pools too
 *   guarded             0, 1, all: end each block of the default heap, or of all heaps, at an inaccessible page
 *   guard_sample        0, or a number N: do so with one of N blocks that leave the pools of any heap
 *   check_at_exit       0, 1: empty at exit what the thread has cached, so that what it freed twice is seen
 *   sites               0, or how many addresses, the call's and its callers', each block of the default heap knows; up to 16
 *   leaks               none, destroy, exit, all: say which blocks are live when a heap is destroyed, or lost at exit
 *   blocks              auto, own, malloc: take all blocks from malloc, so that tools see them (auto: under a tool)
 *   abort_on_exhausted  0, 1: end the program, with one line, where an allocation would return NULL
 *
 * false and EINVAL, with pool_error(): the key is unknown, the value is bad, or the manager is in use already. */
POOL_API bool pool_option_set(const char *key, const char *value) POOL_NAME(option_set);

/* Says what was wrong with the argument for which a call of this thread last set EINVAL: which argument or field it was, what
 * it is, and what it may be.
 *
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     if (!heap && errno == EINVAL)
 *       fprintf(stderr, "no heap: %s\n", pool_error());     no heap: reserve is 2097152, more than budget, 1048576
 *
 * Never NULL: before the first it is "no argument was wrong so far". The text stays as it is until the thread's next EINVAL, or
 * its end. It is without the numbers where there is no memory for them, in a thread that is ending and, before the first block,
 * in all threads but one. It is for people, and may be another one in the next version. It keeps errno and allocates nothing;
 * in a child after fork() it is what it was. */
POOL_API const char *pool_error(void) POOL_NAME(error);

POOL_END_DECLS

#endif
