/* SPDX-License-Identifier: MIT
 *
 * How a misused manager ends: one line on standard error, with fixed words that a test can match, then abort(). It lives
 * here and not in base/ because writing is the system's. */
#ifndef MISUSE_H
#define MISUSE_H

#include <stdbool.h>
#include <stddef.h>

enum { FATAL_CALL_SIZE = 12 }; /* one size in all definitions, or an optimizer at link time warns */

/* The calls that a message names for blocks of the default heap. Those that allocate have no room on their fast paths for a
 * name, and a free that is found late is over by then. The malloc library says "free" and "malloc". */
extern const char fatal_free_call[FATAL_CALL_SIZE], fatal_alloc_call[FATAL_CALL_SIZE], fatal_calloc_call[FATAL_CALL_SIZE];

struct pool_heap;

/* ---- the texts ----
 *
 * docs/messages.md is made of them by tools/messages: behind each stands when it is said and, after "Do:", what to do. Nothing
 * else may be said: a test looks for other texts in the sources, and for a test that expects each. */

#define NOT_A_BLOCK "not a block of any heap"
/* The address was given to a call that takes a block, and no live block begins there: it is of the stack, of static data, of
 * another allocator, inside of a block, or of a block whose memory went back since.
 * Do: Look where the pointer comes from; free with the library that allocated. checked=all tells more of a block that was
 * freed. */

#define NOT_OF_HEAP "a block of another heap"
/* The call names a heap, and the block is of one that it does not overflow to.
 * Do: Free it with its own heap, or with pool_free(), which takes blocks of all heaps. */

#define FREED_TWICE "freed twice"
/* The block was freed before this call.
 * Do: Find who else frees it: checked=all sees a second free at once, and says who was first. */

#define FREED_BEFORE "freed before"
/* A call that does not free was given a block that had been freed.
 * Do: Find who frees it; set pointers to NULL where their block ends. */

#define SEEN_LATE "seen late"
/* Behind one of the texts above: the wrong free came some time ago and was found when a magazine was emptied. The call that is
 * named is the free such blocks are meant for.
 * Do: Run the program with checked=all, which finds it at the call. */

#define NOT_A_HEAP_TEXT "not a live heap"
/* The heap was destroyed, or the address never was a heap's.
 * Do: Destroy a heap after its last user; look where the pointer comes from. */

#define THE_DEFAULT_HEAP "the default heap"
/* It was to be destroyed or reset, which would end all blocks of the process.
 * Do: Make a heap of your own for what is to end together. */

#define HEAP_IS_NEEDED "still the parent or the overflow of a live heap"
/* A heap was to be destroyed that others need.
 * Do: Destroy those first. */

#define BEFORE_ITS_BEGINNING "written before its beginning"
/* The bytes in front of a block of a checked heap have changed; the offset is that of the changed byte that is nearest to the
 * block.
 * Do: Look for an index below 0, or a pointer that was moved down, in what writes to this block or to the one in front of it.
 */

#define PAST_ITS_END "written past its end"
/* The bytes behind what was asked for have changed in a checked heap; the offset is that of the first.
 * Do: Look for a size that was counted too small, often by the byte that ends a string. */

#define AFTER_FREE "written to after it was freed"
/* A block of a checked heap has changed while nobody had it; the offset is that of the first byte.
 * Do: Find the pointer that outlived the block: what writes a field at that offset? */

#define OF_MALLOC    "allocated by malloc"
#define OF_NEW       "allocated by operator new"
#define OF_NEW_ARRAY "allocated by operator new[]"
/* A block of a checked or guarded heap was freed by what frees blocks of another kind: delete for malloc, free for new.
 * Do: Free it by the counterpart of what allocated it; new[] goes with delete[]. */

#define AS_ONE_OF         "freed as one of "
#define AS_ONE_ALIGNED_TO "freed as one aligned to "
/* A sized free of a block of a checked or guarded heap named a size that was not asked for, or an alignment that its address
 * does not have.
 * Do: Look at the type through which it is deleted: it is not the one that was made, and has no virtual destructor. */

#define READ_OF  "read of"
#define WRITE_TO "write to"
/* An access to an inaccessible page beside a guarded block, or to one that was freed. The offset is from the block's beginning.
 * The line says by which function, and where the block was allocated and freed. The program goes on to SIGSEGV.
 * Do: Look at the instruction; `gdb -batch -ex run -ex bt --args PROGRAM...` has its line, and who called it. */

#define ENDED_WITH " ended with "
/* leaks=destroy: a heap or an object pool was destroyed while something of it was live; leaks=exit: the program ended, and
 * nothing leads to these blocks any more. The program goes on.
 * Do: Free what the named places allocate; sites=8 has more of the callers. */

#define NOT_AN_OBJECT "not a live object"
/* The object was put before, is of another pool, or the address is none of an object. The pool's name follows.
 * Do: Put each object once, to its own pool. */

#define NOT_AN_OBJECT_POOL "not a live object pool"
/* The pool was destroyed, its heap was destroyed or reset, or the address never was a pool's.
 * Do: End the pool's users before its heap ends. */

#define AFTER_PUT "written to after it was put"
/* An object of a checked pool has changed while nobody had it; the offset is that of the first byte.
 * Do: Find the pointer that was kept beyond the put: what writes a field at that offset? */

#define EXHAUSTED "memory exhausted"
/* A request failed, and abort_on_exhausted=1 asks for an end. The call is said with the heap, unless that is the default one,
 * and the bytes that it asked for. A realloc of no block is said as malloc.
 * Do: Raise the budget of the heap or of its parents, or find what holds it (pool_heap_report()). Without the option the call
 * returns NULL and sets ENOMEM. */

#define NEW_EXHAUSTED "operator new: memory exhausted"
/* A request of new failed in a program that has no C++ runtime to throw std::bad_alloc.
 * Do: Link the C++ runtime, or use the forms of new that take std::nothrow. */

#define PROFILE_IS_LOST "cannot be written; the profile of profile=FILE is lost"
/* The file of profile=FILE could not be made, or the disk is full. The program goes on.
 * Do: Name a file that the process may write. */

#define STATS_ARE_LOST "cannot be written; the figures of stats=exit are lost"
/* The file of stats=exit:FILE could not be made, or the disk is full. The program goes on.
 * Do: Name a file that the process may write. */

#define EXPORT_IS_OFF "figures cannot be shared with other processes"
/* There was no memory for them, no descriptor, or no thread could be started. The program goes on.
 * Do: Look at the limits of the process (ulimit -a). */

#define OPTION_TOO_LONG "an option is too long, ignored"
/* A part of TIDEPOOL_OPTIONS between two commas is longer than any option can be.
 * Do: Look for a comma that is missing. */

#define OPTION_UNKNOWN "no option"
/* TIDEPOOL_OPTIONS has a key that is none: the nearest is named, or all are. It is ignored.
 * Do: Correct it; TIDEPOOL_OPTIONS=help prints all. */

#define OPTION_BAD_VALUE "bad value; the values are "
/* The option has no such value. It is ignored.
 * Do: Take one of the values that are named. */

#define OPTION_NO_VALUE "no value; the values are "
/* The option stands without "=" and a value. It is ignored.
 * Do: Write KEY=VALUE, with one of the values that are named. */

/* ---- */

/* Called before abort(), whose signal may have a handler. */
extern void (*fatal_before_abort)(void);

/* Returns a heap's name; NULL for the default heap, whose blocks are just blocks. NULL itself: no heap has a name yet. */
extern const char *(*fatal_heap_name)(const struct pool_heap *heap);

/* The next message ends with where the block was allocated and freed: return addresses, the innermost first.
 *
 *     ..., allocated by f+0x1c (program), freed by g+0x40 (program) < h+0x12 (program) */
typedef struct frames_told {
  const void *const *frames;
  size_t count;
} frames_told_t;
void fatal_say_places(const frames_told_t *allocated, const frames_told_t *freed);

/* tidepool: call(0xaddress): what */
_Noreturn void fatal_misuse(const char *call, const void *address, const char *what);

/* tidepool: call(0xaddress): what: a block of N bytes of heap "name"
 * tidepool: call(0xaddress): what, given to heap "name"
 *
 * `heap` is whose block it is, NULL where nothing is known of it. `size` is what was asked for where its heap knows that, and
 * else what the block holds. `given_to` is the heap that the call was made with, NULL for none. */
_Noreturn void fatal_misuse_of_block(const char *call, const void *address, const char *what, const struct pool_heap *heap,
                                     size_t size, const struct pool_heap *given_to);

/* The same of a block that was freed some time ago, which is seen only now. The call is over, and which one it was is not known
 * any more: the free is named that blocks of such a heap are meant for. */
_Noreturn void fatal_late_misuse(const void *address, const char *what, const struct pool_heap *heap, size_t size,
                                 const struct pool_heap *given_to);

/* tidepool: call(0xaddress): what at offset N of a block of M bytes of heap "name"; N is negative in front of the block */
_Noreturn void fatal_damage(const char *call, const void *address, const char *what, ptrdiff_t offset,
                            const struct pool_heap *heap, size_t size);

/* tidepool: read of 0xaddress at offset N of a block of M bytes of heap "name" by e+0x3, allocated by f+0x1c, freed by h+0x8
 *
 * The program goes on to what the access is answered with. May be called by the handler of a signal. */
typedef struct access_told {
  const char *access; /* "read of" */
  const void *address, *block;
  size_t size;
  const char *heap; /* NULL: the default one */
  bool freed;
  frames_told_t by, allocated_by, freed_by;
} access_told_t;
void warn_of_access(const access_told_t *told);

/* tidepool: call(heap "name", size): memory exhausted */
_Noreturn void fatal_exhausted(const char *call, const struct pool_heap *heap, size_t size);

/* tidepool: what */
_Noreturn void fatal(const char *what);

/* tidepool: subject: what    (and the program goes on) */
void warn(const char *subject, const char *what);
void warn_at_exit(const char *subject, const char *what); /* the program may have closed standard error */

#endif
