/* SPDX-License-Identifier: MIT
 *
 * The interface to the operating system. src/meson.build chooses the files that implement it: linux*.c, or posix.c with the
 * calls of POSIX alone. Both share unix*.c and window.c. docs/porting.md explains how to add a system. The tests link os_fake.c
 * instead, which fails the n-th call. Without a system, embedded.c has the few functions that are left.
 *
 * Every function preserves errno. Addresses and sizes are multiples of os_page_size() unless stated otherwise. */
#ifndef OS_OS_H
#define OS_OS_H

#include "base/bits.h"
#include "base/machine.h"
#include <stdbool.h>

#ifdef TIDEPOOL_EMBEDDED
#define OS_SINGLE_THREADED true /* the firmware's lock is all that it needs for threads */
#elif __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define OS_SINGLE_THREADED ((bool)__libc_single_threaded)
#else
#define OS_SINGLE_THREADED false
#endif

/* The page size is only known at run time: there are systems with 4, 16 and 64 KiB. */
size_t os_page_size(void);

/* Maps writable zeroed memory at a multiple of `alignment`, a power of two. Returns NULL if the system has none. */
void *os_map(size_t size, size_t alignment);

/* Maps writable zeroed memory at exactly this address, but never over an existing mapping. */
typedef enum os_mapped { OS_MAPPED, OS_OCCUPIED, OS_NO_MEMORY } os_mapped_t;
os_mapped_t os_map_at(void *address, size_t size);

/* Returns memory and addresses to the system. False: nothing has changed, because the limit of mappings may be reached. */
bool os_unmap(void *address, size_t size);

/* Purges the memory: the addresses stay mapped and read as zero. False: a part may be purged, and the rest is unchanged. */
bool os_purge(void *address, size_t size);

/* Purges in several steps, between which other threads can map and unmap. One call for gigabytes would block them. */
enum { OS_PURGE_STEP = 64 << 20, OS_PURGE_STEPS_MOST = 256 };
static inline bool os_purge_in_steps(void *address, size_t size)
{
  size_t step =
    size / OS_PURGE_STEPS_MOST > OS_PURGE_STEP ? size / OS_PURGE_STEPS_MOST & ~(size_t)(OS_PURGE_STEP - 1) : OS_PURGE_STEP;
  bool purged = true;
  for (size_t at = 0; purged && at < size; at += step)
    purged = os_purge((char *)address + at, size - at < step ? size - at : step);
  return purged;
}

/* Resizes the mapping [address, address+size) to `new_size` and keeps its contents, at another address if needed and
 * `may_move`. Returns the address. If it returns NULL, nothing has changed. */
void *os_remap(void *address, size_t size, size_t new_size, bool may_move);

/* Moves the pages of [from, from+size) to [to, to+new_size), which is mapped and loses its pages. Returns
 * - OS_MAPPED: [from, from+size) is no longer mapped;
 * - OS_OCCUPIED: no page has moved, and [to, to+new_size) is mapped, but may read as zero;
 * - OS_NO_MEMORY: no page has moved, and [to, to+new_size) is no longer mapped. */
os_mapped_t os_remap_to(void *from, size_t size, void *to, size_t new_size);

/* Mappings get names in /proc/PID/maps. Set before the first mapping, or never. */
extern INTERNAL bool os_has_names;

/* Names mapped pages after a heap, or after the library if `name` is NULL. Does nothing without os_has_names. */
void os_name_now(const void *address, size_t size, const char *name);
static inline void os_name(const void *address, size_t size, const char *name)
{
  if (unlikely(os_has_names))
    os_name_now(address, size, name);
}

/* Makes these pages inaccessible. If the system refuses, they stay as they are. */
void os_guard(void *address, size_t size);

/* os_reserve() reserves inaccessible addresses, or returns NULL. os_open() makes pages of them writable and zeroed. os_close()
 * releases their memory and makes them inaccessible again. False means that nothing has changed. */
void *os_reserve(size_t size);
bool os_open(void *address, size_t size);
bool os_close(void *address, size_t size);

/* Chooses a random stretch of address space that others are unlikely to use. It and its length are multiples of
 * OS_WINDOW_ALIGNMENT. Maps nothing. Each attempt, from 0 on, returns another stretch, or NULL after the last. */
#define OS_WINDOW_ALIGNMENT ((size_t)1 << SLOT_LOG2)
char *os_window(unsigned attempt, size_t *size);

/* Requests huge pages for the range, or requests none. The system may ignore it. */
void os_wish_huge_pages(void *address, size_t size, bool wanted);

/* Returns whether os_wish_huge_pages() has an effect: not if the system gives huge pages always or never. It reads a file.
 * os_huge_page_size() reads another one; 0: unknown. */
bool os_grants_huge_pages(void);
size_t os_huge_page_size(void);

void os_split_huge_page(void *address);

/* os_prefault() makes the pages resident. False: out of memory. os_touch() does it by writing, and ends the program then. */
bool os_prefault(void *address, size_t size);
void os_touch(void *address, size_t size);
bool os_lock_memory(void *address, size_t size);
bool os_unlock_memory(void *address, size_t size);

/* os_read_limits() stores the limit of memory or address space; SIZE_MAX if there is none. A request above `os_memory_most` can
 * never succeed: that is the limit, or all memory and swap of the machine. The limits are read once, at startup, because a
 * process may forbid itself the calls later. A later limit shows as a refused mapping. */
extern INTERNAL size_t os_memory_limit, os_memory_most;
void os_read_limits(void);

/* Reserves up to *bytes of addresses, a multiple of `least`, and at most 1/`share` of the limit. If a limit was set late, it
 * halves the size until it fits, and keeps 1/`share` of that. Returns NULL if less than `least` is available. */
static inline void *os_reserve_share(size_t *bytes, size_t share, size_t least)
{
  size_t want = os_memory_limit == SIZE_MAX ? *bytes : min_size(*bytes, os_memory_limit / share), had = want;
  char *start = NULL;
  while (want >= least && (start = os_reserve(want & -least)) == NULL)
    want /= 2;
  *bytes = (want < had ? max_size(want / share, least) : want) & -least;
  if (start && want < had)
    os_unmap(start + *bytes, (want & -least) - *bytes);
  return start;
}

/* Returns milliseconds of a monotonic clock with a resolution of a few milliseconds. It is cheap, and never a system call. */
uint64_t os_now_ms(void);

/* os_entropy() returns a number that nobody can predict, as far as the system has any. os_random() spreads its bits. The result
 * differs for each `turn`, even if the system has no random numbers yet. */
uint64_t os_entropy(void);
uint64_t os_random(unsigned turn);

/* True as long as the process has never had a second thread. False is always safe. */
static inline bool os_single_threaded(void) { return OS_SINGLE_THREADED; }

/* Makes calls of this thread fail that would take memory from the system or return it. Returns the previous setting. */
bool os_forbid(bool forbid);
uint64_t os_forbidden_count(void); /* over all threads */

/* Returns the rank of the current processor among those that the process may use, from 0. The thread may move at any moment. A
 * processor that was not usable at the last os_processors() may share its number with another. */
unsigned os_processor(void);

/* Counts and numbers the processors that the process may use; 1 if the system does not say. Not thread-safe. */
unsigned os_processors(void);

/* os_has_nodes: the machine has several NUMA nodes; os_processors() sets it. os_node() returns the node that the thread is on,
 * below 256, or 0 if it is unknown. A page belongs to the node that touches it first. */
extern INTERNAL bool os_has_nodes;
unsigned os_node(void);

/* os_wait() sleeps while *word == value, for at most `most_us`, or until it is woken if that is 0. It may return early.
 * os_wake() wakes one sleeper. os_nap() sleeps for about 100 us. */
void os_wait(uint32_t *word, uint32_t value, uint32_t most_us);
void os_wake(uint32_t *word);
static inline void os_nap(void)
{
  uint32_t nothing = 0;
  os_wait(&nothing, 0, 50);
}

/* Makes every other thread of the process pass a full memory barrier. Returns false if the system cannot. Call
 * os_can_fence_others() once before: it returns whether the system can. */
bool os_can_fence_others(void);
bool os_fence_others(void);

/* Sets the function for thread exits. Call it once, before os_thread_on_exit(). Returns false if the system cannot do that. */
bool os_on_thread_exit(void (*at_exit)(void *));

/* Arranges that at_exit(argument) is called when the calling thread exits. It may allocate. Returns false if it fails. */
bool os_thread_on_exit(void *argument);

/* Returns whether the thread may be past its destructors, in the C library's last steps. One system call (rt_sigprocmask). */
bool os_thread_may_be_over(void);

/* Registers handlers that are called around every fork(), as by pthread_atfork(). Returns false if it fails. */
bool os_on_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* Hold off forks, and allow them. If os_hold_off_forks() returns false, this thread is in a fork: do not call os_let_fork(). */
bool os_hold_off_forks(void);
void os_let_fork(void);

/* Passes a constructor's third argument to os_environment() within that constructor. */
void os_note_environment(char **variables);

/* The process has rights that its user may not have, as set-user-ID programs do. That user must not choose its options. */
bool os_is_privileged(void);

/* Returns the environment variable, or NULL. Always NULL if os_is_privileged(). */
const char *os_environment(const char *name);

void os_write_error(const char *text, size_t length);

/* Writes to an open file. Returns 0, or the error that prevented it from writing everything. */
int os_write(int file, const char *text, size_t length);

/* Starts a thread with all signals blocked and a small stack, one of each kind. It may allocate. Returns 0 or the error.
 * os_join_thread() waits for its end, and returns false if it does not end in time. */
typedef enum os_helper { OS_EXPORT, OS_BACKGROUND, OS_HELPERS } os_helper_t;
int os_start_thread(os_helper_t which, void (*run)(void));
bool os_join_thread(os_helper_t which, unsigned most_ms);

/* Duplicates standard error for os_write_kept_error(), because programs close theirs early. Returns false if it is closed. */
bool os_keep_error(void);

/* Writes to the duplicate of standard error while that is still open. */
void os_write_kept_error(const char *text, size_t length);

/* Appends to a file, which is created if needed. Returns false if not everything was written. */
bool os_append(const char *path, const char *text, size_t length);

uint32_t os_process(void);

/* os_threads() returns the number of threads of the process; 0 if the system does not say. os_started_threads() counts those
 * that os_start_thread() made, by name: this includes threads of another copy of the library. */
unsigned os_threads(void);
unsigned os_started_threads(void);

/* Return addresses of the calls on a thread's stack, the innermost first. */
enum { OS_STACK_MOST = 32 };
typedef struct os_stack {
  const void *frames[OS_STACK_MOST];
  size_t most, count; /* how many are wanted, how many there are */
} os_stack_t;

_Noreturn void os_abort(void);

#endif
