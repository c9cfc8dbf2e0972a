/* SPDX-License-Identifier: MIT
 *
 * tidepool/pool.h: allocate and free blocks in the process-wide default heap.
 *
 *     struct node *node = pool_alloc(sizeof *node);
 *     if (!node)
 *       return ENOMEM;
 *     pool_free(node);
 *
 * Each request is served by the pool of its size class. All sizes are in bytes. Blocks are aligned to 16.
 *
 * Threads: every function is thread-safe, and may be called in the child of a fork(). A signal handler may call them if it
 * interrupted no call of this library. Blocks come from malloc with blocks=malloc, under valgrind and under sanitizers. The
 * handler must then not have interrupted malloc either.
 *
 * Errors: an allocation that fails returns NULL and sets errno to ENOMEM. It fails if `size` is more than PTRDIFF_MAX or if
 * there is no memory. Success leaves errno unchanged, and so does every free.
 *
 * Cost: pool_alloc() and pool_free() together take fewer than 50 instructions on x86-64, if the thread has cached free blocks
 * of the size class. They then take no lock and do not touch the block. About one call in a few dozen takes the lock of one
 * pool.
 *
 * Misuse, such as freeing a block twice, ends the program: one line on standard error, then abort().
 *
 *     tidepool: pool_free(0x7f0123456789): not a block of any heap
 *     tidepool: pool_free(0x7f0123456790): freed twice: a block of 112 bytes
 *
 * The line names the call, and the block's heap unless that is the default heap. The call itself detects an unaligned or
 * foreign address, a large block, and the block that the thread freed last in that size class. Any other wrong free is detected
 * when the magazine with the block is emptied. The line then says "seen late": the faulty call has already returned. A second
 * free may stay undetected if the block is allocated again before: two callers then have it. */
#ifndef TIDEPOOL_POOL_H
#define TIDEPOOL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <tidepool/visibility.h>

POOL_BEGIN_DECLS

typedef struct pool_heap pool_heap_t;

/* Returns a block of at least `size` bytes with undefined contents. pool_alloc(0) returns a unique block.
 *
 * NULL and ENOMEM: `size` is more than PTRDIFF_MAX, or there is no memory. */
POOL_API void *pool_alloc(size_t size) POOL_NAME(alloc) POOL_RETURNS_BLOCK(1);

/* Does what pool_alloc() does, and zeroes all pool_usable_size() bytes of the block. */
POOL_API void *pool_zalloc(size_t size) POOL_NAME(zalloc) POOL_RETURNS_BLOCK(1);

/* Returns pool_zalloc(count * size). NULL and ENOMEM also if the product overflows. */
POOL_API void *pool_calloc(size_t count, size_t size) POOL_NAME(calloc) POOL_RETURNS_BLOCK(1, 2);

/* Resizes a block, and moves it if needed. The contents are kept, up to the smaller of the two sizes. pool_realloc(NULL, size)
 * is pool_alloc(size). Size 0 frees the block and returns NULL.
 *
 * NULL and ENOMEM: the old block is unchanged and still the caller's.
 *
 * The block stays in place if `size` is more than half of pool_usable_size(block) and at most all of it. A checked heap moves
 * it. */
POOL_API void *pool_realloc(void *block, size_t size) POOL_NAME(realloc) __attribute__((warn_unused_result, alloc_size(2)));

/* Returns a block whose address is a multiple of `alignment`. NULL and EINVAL, with pool_error(): `alignment` is not a power of
 * two. */
POOL_API void *pool_aligned_alloc(size_t alignment, size_t size) POOL_NAME(aligned_alloc) POOL_RETURNS_ALIGNED_BLOCK(1, 2);

/* Frees a block of any heap, from any thread. NULL is allowed. */
POOL_API void pool_free(void *block) POOL_NAME(free);

/* Frees a block of pool_alloc(), pool_zalloc(), pool_calloc() or pool_realloc(). `size` is the size that was requested; checked
 * heaps verify it. */
POOL_API void pool_free_sized(void *block, size_t size) POOL_NAME(free_sized);

/* Allocates up to `count` blocks of `size` bytes into `blocks`, and returns how many it allocated. If there are fewer than
 * `count`, errno is ENOMEM. */
POOL_API size_t pool_alloc_batch(size_t size, void **blocks, size_t count) POOL_NAME(alloc_batch);

/* Frees `count` blocks, of any sizes and heaps. NULLs among them are allowed. */
POOL_API void pool_free_batch(void **blocks, size_t count) POOL_NAME(free_batch);

/* Resizes a block without moving it. Returns false if that is not possible: the block and errno are then unchanged. */
POOL_API bool pool_resize_in_place(void *block, size_t size) POOL_NAME(resize_in_place);

/* Returns how many bytes of the block the caller may use. That is at least the requested size; 0 for NULL. It takes a handful
 * of instructions. */
POOL_API size_t pool_usable_size(const void *block) POOL_NAME(usable_size);

/* Returns the size of the block that serves pool_alloc(size), or `size` itself if no block can be that large. Request this size
 * if you can use the slack. Only the requested bytes may be used in a heap that is checked, guarded or has sites, and in a
 * sampled block.
 *
 * If the process's memory is limited to less than 256 MiB, fewer size classes are in use. The block may be larger then. */
POOL_API size_t pool_good_size(size_t size) POOL_NAME(good_size) __attribute__((const));

/* Releases idle memory of the default heap to the system, all but `keep` bytes. Returns how many bytes it released. It first
 * empties the calling thread's cache, but not the caches of other threads. It takes some microseconds for each MiB, and up to a
 * millisecond if it releases single pages. */
POOL_API size_t pool_trim(size_t keep) POOL_NAME(trim);

/* Starts a thread of the library's own that returns memory, as TIDEPOOL_OPTIONS=background=1 does. Without it a process that
 * makes no calls keeps its free memory. The thread returns free memory of all heaps after the purge delay. It also empties the
 * caches that sleeping threads have of heaps with a budget. The calls of the program return no memory meanwhile.
 *
 * The thread blocks all signals and sleeps while there is nothing to return. The child of a fork() has no such thread at first.
 * It starts one at a later call if the parent had no other thread. Do not call this function in a signal handler: it allocates
 * and takes a lock.
 *
 * Returns true if the thread runs, or ran before. Returns false, with errno, if it cannot be started. */
POOL_API bool pool_background_start(void) POOL_NAME(background_start);

/* Ends the background thread and waits until it has ended. The calls of the program return memory again. Does nothing if there
 * is no such thread. */
POOL_API void pool_background_stop(void) POOL_NAME(background_stop);

/* pool_in_use(), pool_block_start() and pool_heap_of() accept any address, also a foreign one or one inside a block.
 *
 * The answer is exact if no other thread allocates or frees that block meanwhile. There is one exception: a freed block may
 * seem live for a moment while it moves between caches. This happens while other threads end, or use its size class.
 *
 * The search goes through the caches of all threads and may take microseconds. */

/* Returns whether the address is inside a live block. */
POOL_API bool pool_in_use(const void *address) POOL_NAME(in_use);

/* Returns the live block that contains the address, or NULL. If `size` is not NULL, *size becomes the block's usable size. */
POOL_API void *pool_block_start(const void *address, size_t *size) POOL_NAME(block_start);

/* Returns the heap whose memory contains the address, or NULL. */
POOL_API pool_heap_t *pool_heap_of(const void *address) POOL_NAME(heap_of);

/* Sets an option of the process, before the first allocation. The environment variable TIDEPOOL_OPTIONS="key=value,key=value"
 * sets the same options; set-user-ID programs do not read it.
 *
 *   purge_delay_ms      how many milliseconds idle memory is kept before it is returned to the system, or never
 *   background          0, 1, 2: start a thread that returns memory, as pool_background_start() does; 2: it empties the caches
 *                       of sleeping threads of all heaps, and each call takes longer
 *   cache_bytes         how many bytes the caches of all threads may hold together: 67108864, and 16384 more for each thread
 *   huge_pages          never, auto, always: request transparent huge pages; auto: for 64 MiB of each
 *                       gibibyte of addresses, and where small blocks fill their memory
 *   stats               none, exit, exit:FILE: print all figures at exit, or append them to FILE (up to 255 bytes long)
 *   checked             0, 1, all: fill and check each block of the default heap, or of all heaps and object pools
 *   guarded             0, 1, all: end each block of the default heap, or of all heaps, at an inaccessible page
 *   guard_sample        0, or a number N: guard about one in N blocks, of most heaps
 *   check_at_exit       0, 1: empty the thread's cache at exit, which detects blocks that it freed twice
 *   sites               0 to 16: how many return addresses each block of the default heap records
 *   leaks               none, destroy, exit, all: report blocks that are live when a heap is destroyed, or lost at exit
 *   blocks              auto, own, malloc: take all blocks from malloc, where tools see them; auto: only under a tool
 *   abort_on_exhausted  0, 1: end the program with one line when an allocation would return NULL
 *
 * tidepool-malloc(1) describes these, and names, export, deepbind, profile, sample_bytes and profile_signal.
 *
 * Only the debug library has checked, guarded, guard_sample, sites, leaks, export and the options for profiles: EINVAL in
 * libtidepool.
 *
 * false and EINVAL, with pool_error(): the key is unknown, the value is invalid, or the manager is already in use. */
POOL_API bool pool_option_set(const char *key, const char *value) POOL_NAME(option_set);

/* Describes the last EINVAL of the calling thread: the argument or field, its value, and what is allowed.
 *
 *     pool_heap_t *heap = pool_heap_create(&options);
 *     if (!heap && errno == EINVAL)
 *       fprintf(stderr, "no heap: %s\n", pool_error());     no heap: reserve is 2097152, more than budget, 1048576
 *
 * Never returns NULL: before the first EINVAL the text is "no argument was wrong so far". The text is for people; its wording
 * may change between versions. It is valid until the thread's next EINVAL or the thread's end. The child of a fork() keeps it.
 *
 * The text lacks its numbers if there is no memory for them or the thread is ending. Only one thread gets numbers before the
 * first allocation of the process. The call allocates nothing and leaves errno unchanged. */
POOL_API const char *pool_error(void) POOL_NAME(error);

POOL_END_DECLS

#endif
