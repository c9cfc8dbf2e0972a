/* SPDX-License-Identifier: MIT
 * How a misused manager ends: one line on standard error, with fixed texts that a test can match, then abort(). It is here and
 * not in base/ because it writes through the system. */
#ifndef MISUSE_H
#define MISUSE_H

#include <stdbool.h>
#include <stddef.h>

/* The program's call, which messages name, and the address that it returns to; NULL: not known. ORIGIN() takes the return
 * address of the function that uses the macro. Firmware records no sites, so it does without the address. */
#ifdef TIDEPOOL_EMBEDDED
typedef struct origin {
  const char *call;
} origin_t;
#define ORIGIN(call)            ((origin_t){call})
#define ORIGIN_AT(call, caller) ((void)(caller), ORIGIN(call))
static inline const void *origin_caller(origin_t by) { return (void)by, NULL; }
#else
typedef struct origin {
  const char *call;
  const void *caller;
} origin_t;
#define ORIGIN(call)            ORIGIN_AT(call, __builtin_return_address(0))
#define ORIGIN_AT(call, caller) ((origin_t){call, caller})
static inline const void *origin_caller(origin_t by) { return by.caller; }
#endif

enum { FATAL_CALL_SIZE = 12 }; /* equal in all definitions, or a link-time optimizer warns */

/* The call names of messages about the default heap. Fast paths of allocations pass no name, and a free that is detected late
 * has returned by then. The malloc library defines them as "free" and "malloc". */
extern const char fatal_free_call[FATAL_CALL_SIZE], fatal_alloc_call[FATAL_CALL_SIZE], fatal_calloc_call[FATAL_CALL_SIZE];

struct pool_heap;

/* ---- the texts ----
 *
 * tools/messages generates docs/messages.md from them. The comment below each text says when it is printed and, after "Do:",
 * what to do. A test checks that the sources print no other text, and that some test expects each. */

#define NOT_A_BLOCK "not a block of any heap"
/* No live block begins at the address. It points to the stack, to static data, to a block of another allocator, into a block,
 * or to a block whose memory was returned to the system.
 * Do: Find where the pointer comes from; free it with the library that allocated it. checked=all tells about freed blocks. */

#define NOT_OF_HEAP "a block of another heap"
/* The call names a heap, and the block is neither of that heap nor of one that it overflows to.
 * Do: Free the block with its own heap, or with pool_free(), which takes blocks of all heaps. */

#define FREED_TWICE "freed twice"
/* The block was freed before this call.
 * Do: Find the other free: checked=all detects the second one at once, and names the place of the first. */

#define FREED_BEFORE "already freed"
/* A freed block was passed to a call other than a free.
 * Do: Find the free: checked=all names its place. Set pointers to NULL when their block is freed. */

#define SEEN_LATE "seen late"
/* Follows one of the texts above: the wrong free happened earlier, and was detected when a magazine was emptied. The named call
 * is the one that frees such blocks.
 * Do: Run the program with checked=all, which detects the error in the call. */

#define NOT_A_HEAP_TEXT "not a live heap"
/* The heap was destroyed, or no heap was ever at the address.
 * Do: Destroy a heap after its last use; find where the pointer comes from. */

#define DEFAULT_HEAP_HAS_NO_END "the default heap cannot be destroyed or reset"
/* The call would free all blocks of the process.
 * Do: Create a heap of your own for blocks that end together. */

#define HEAP_IS_NEEDED "still the parent or the overflow of a live heap"
/* The call destroys a heap that other heaps need.
 * Do: Destroy the other heaps first. */

#define BEFORE_ITS_BEGINNING "written before its beginning"
/* Bytes in front of a block of a checked heap have changed. The offset is that of the changed byte nearest to the block.
 * Do: Find a negative index, or a decremented pointer, in the code that writes to this block or to the one in front of it. */

#define PAST_ITS_END "written past its end"
/* Bytes behind the requested size of a block of a checked heap have changed. The offset is that of the first changed byte.
 * Do: Find a size that was computed too small, often by the byte that ends a string. */

#define AFTER_FREE "written to after it was freed"
/* A freed block of a checked heap has changed. The offset is that of the first changed byte.
 * Do: Find the pointer that outlived the block: which code writes a field at that offset? */

#define OF_MALLOC    "allocated by malloc"
#define OF_NEW       "allocated by operator new"
#define OF_NEW_ARRAY "allocated by operator new[]"
/* A block of a checked or guarded heap was freed by the wrong function, such as delete for malloc, or free for new.
 * Do: Free it by the counterpart of its allocation; new[] goes with delete[]. */

#define WITH_SIZE      "freed with size "
#define WITH_ALIGNMENT "freed with alignment "
/* A sized free of a block of a checked or guarded heap named another size than was requested, or an alignment that the block's
 * address does not have.
 * Do: Look at the type through which it is deleted: the object has another type, and the class no virtual destructor. */

#define READ_OF  "read of"
#define WRITE_TO "write to"
/* The program accessed an inaccessible page beside a guarded block, or a freed guarded block. The offset counts from the
 * block's beginning. The line names the function, and where the block was allocated and freed. SIGSEGV follows.
 * Do: Look at the instruction: `gdb -batch -ex run -ex bt --args PROGRAM...` prints its line and its callers. */

#define ENDED_WITH " ended with "
/* leaks=destroy: a heap or an object pool was destroyed with live blocks or objects. leaks=exit: the program ended, and no
 * pointer leads to these blocks. The program continues.
 * Do: Free what the named places allocate; sites=8 names more callers. */

#define NOT_AN_OBJECT "not a live object"
/* The object was already put, it is of another pool, or no object is at the address. The pool's name follows.
 * Do: Put each object once, to its own pool. */

#define NOT_AN_OBJECT_POOL "not a live object pool"
/* The pool was destroyed, its heap was destroyed or reset, or no pool was ever at the address.
 * Do: Stop using a pool before its heap ends. */

#define AFTER_PUT "written to after it was put"
/* An object of a checked pool has changed after its put. The offset is that of the first changed byte.
 * Do: Find the pointer that was kept after the put: which code writes a field at that offset? */

#define EXHAUSTED "memory exhausted"
/* A request failed, and abort_on_exhausted=1 is set. The line has the call, the heap unless it is the default one, and the
 * requested bytes. A realloc of NULL is named malloc.
 * Do: Raise the budget of the heap or of its parents, or find what holds it (pool_heap_report()). Without the option the call
 * returns NULL and sets ENOMEM. */

#define NEW_EXHAUSTED "operator new: memory exhausted"
/* A request of new failed in a program without a C++ runtime that could throw std::bad_alloc.
 * Do: Link the C++ runtime, or use the forms of new with std::nothrow. */

#define PROFILE_IS_LOST "cannot be written; the profile of profile=FILE is lost"
/* The file of profile=FILE could not be created, or the disk is full. The program continues.
 * Do: Name a file that the process can write. */

#define STATS_ARE_LOST "cannot be written; the figures of stats=exit are lost"
/* The file of stats=exit:FILE could not be created, or the disk is full. The program continues.
 * Do: Name a file that the process can write. */

#define BACKGROUND_IS_OFF "no thread could be started; memory is returned in calls"
/* A limit on threads or on memory does not allow the thread of background=1. The program continues.
 * Do: Look at the limits of the process (ulimit -a). */

#define EXPORT_IS_OFF "figures cannot be shared with other processes"
/* There was no memory for them, no file descriptor, or no thread could be started. The program continues.
 * Do: Look at the limits of the process (ulimit -a). */

#define OPTION_TOO_LONG "an option is too long, ignored"
/* A part of TIDEPOOL_OPTIONS between two commas is longer than any option can be.
 * Do: Look for a missing comma. */

#define OPTION_UNKNOWN "unknown option"
/* TIDEPOOL_OPTIONS has an unknown key, which is ignored. The line names the nearest key, or all keys.
 * Do: Correct it; TIDEPOOL_OPTIONS=help prints all options. */

#define OPTION_BAD_VALUE "invalid value; valid values are "
/* The option does not accept this value. It is ignored.
 * Do: Use one of the named values. */

#define OPTION_NO_VALUE "no value; valid values are "
/* The option has no "=" and no value. It is ignored.
 * Do: Write KEY=VALUE, with one of the named values. */

#define OPTION_NEEDS_DEBUG "only the debug library has this option; ignored"
/* The process runs with the library that has no diagnostics.
 * Do: Start the program with `tidepool run`, which loads the debug library, or see docs/debug_library.md for the other ways. */

/* ---- */

/* Called before abort(), because the program may handle SIGABRT. */
extern void (*fatal_before_abort)(void);

/* Returns a heap's name; NULL for the default heap, which messages do not name. The pointer is NULL until heaps have names. */
extern const char *(*fatal_heap_name)(const struct pool_heap *heap);

/* Sets the return addresses of the next message's block, the innermost first:
 *
 *     ..., allocated by f+0x1c (program), freed by g+0x40 (program) < h+0x12 (program) */
typedef struct frames_told {
  const void *const *frames;
  size_t count;
} frames_told_t;
void fatal_say_places(const frames_told_t *allocated, const frames_told_t *freed);

/* Adds the functions of these addresses to a message, after `before`. Only the debug library sets it. */
struct text;
extern void (*fatal_say_frames)(struct text *text, const char *before, const frames_told_t *told);

/* Prints `tidepool: call(0xaddress): what`. */
_Noreturn void fatal_misuse(const char *call, const void *address, const char *what);

/* Prints one of
 *
 *     tidepool: call(0xaddress): what: a block of N bytes of heap "name"
 *     tidepool: call(0xaddress): what, given to heap "name"
 *
 * `heap` is the block's heap, or NULL if it is unknown. `size` is the requested size if the heap knows it, or else the usable
 * size. `given_to` is the heap that the call named, or NULL. */
_Noreturn void fatal_misuse_of_block(const char *call, const void *address, const char *what, const struct pool_heap *heap,
                                     size_t size, const struct pool_heap *given_to);

/* Prints the line of fatal_misuse_of_block() for a wrong free that is detected late. The faulty call has returned and is
 * unknown, so the line names the call that frees blocks of such a heap. */
_Noreturn void fatal_late_misuse(const void *address, const char *what, const struct pool_heap *heap, size_t size,
                                 const struct pool_heap *given_to);

/* Prints `tidepool: call(0xaddress): what at offset N of a block of M bytes of heap "name"`; N < 0 in front of the block. */
_Noreturn void fatal_damage(const char *call, const void *address, const char *what, ptrdiff_t offset,
                            const struct pool_heap *heap, size_t size);

/* Prints `tidepool: call(0xaddress): what of pool "name"`. */
_Noreturn void fatal_misuse_of_object(const char *call, const void *object, const char *what, const char *pool);

/* Prints `tidepool: call(0xaddress): what, at offset N of an object of M bytes of pool "name"`. */
_Noreturn void fatal_damage_of_object(const char *call, const void *object, const char *what, size_t offset, size_t size,
                                      const char *pool);

/* Prints `tidepool: call(heap "name", size): memory exhausted`. */
_Noreturn void fatal_exhausted(const char *call, const struct pool_heap *heap, size_t size);

/* Prints `tidepool: what`. */
_Noreturn void fatal(const char *what);

/* Prints `tidepool: subject: what`. The program continues. */
void warn(const char *subject, const char *what);
void warn_at_exit(const char *subject, const char *what); /* also works after the program has closed standard error */

#endif
