/* SPDX-License-Identifier: MIT
 *
 * What the manager asks of an operating system. Each system has its own files in this folder (linux.c and linux_threads.c),
 * which src/meson.build chooses. The tests link os_fake.c instead, which fails the n-th call. Where there is no system
 * (HAS_SYSTEM), embedded.c answers the few questions that are left.
 *
 * Every function leaves errno as it was. Addresses and sizes are multiples of os_page_size() unless said otherwise. */
#ifndef OS_OS_H
#define OS_OS_H

#include "base/bits.h"
#include "base/features.h"
#include "base/machine.h"
#include <stdbool.h>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define OS_SINGLE_THREADED ((bool)__libc_single_threaded)
#else
#define OS_SINGLE_THREADED false
#endif

/* The page size is known at run time alone: systems of 4, 16 and 64 KiB all exist. */
size_t os_page_size(void);

/* Writable memory that reads as zero, at a multiple of `alignment`, a power of two. NULL: the system has none. */
void *os_map(size_t size, size_t alignment);

/* Maps the same at exactly this address, but never where something is mapped already. */
typedef enum os_mapped { OS_MAPPED, OS_OCCUPIED, OS_NO_MEMORY } os_mapped_t;
os_mapped_t os_map_at(void *address, size_t size);

/* Gives back memory and addresses. False: nothing happened. (If the range is the middle of a mapping, the system may have no
 * room for one mapping more.) */
bool os_unmap(void *address, size_t size);

/* Gives back the memory; the addresses stay and read as zero afterwards. False: a part may have gone back, and the rest holds
 * what it held. */
bool os_purge(void *address, size_t size);

/* The same in several steps. While the system takes gigabytes back in one call, no thread of the process can map or unmap
 * anything; between the steps others get their turn. */
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

/* Makes the mapping [address, address+size) `new_size` long, its contents kept, if need be and `may_move` at another address.
 * Returns where it is; NULL: nothing happened. */
void *os_remap(void *address, size_t size, size_t new_size, bool may_move);

/* Moves the pages of [from, from+size) to [to, to+new_size), which is mapped and loses its own. Returns
 * - OS_MAPPED: [from, from+size) is not mapped any more;
 * - OS_OCCUPIED: no page has moved, and [to, to+new_size) is mapped, but may read as zero;
 * - OS_NO_MEMORY: no page has moved, and [to, to+new_size) is not mapped any more. */
os_mapped_t os_remap_to(void *from, size_t size, void *to, size_t new_size);

/* What is mapped has names in /proc/PID/maps. Set before the first mapping, or never. */
extern INTERNAL bool os_has_names;

/* Names pages that are mapped after a heap; NULL: after the library, as what is mapped has anyway. Without os_has_names it does
 * nothing. */
void os_name_now(const void *address, size_t size, const char *name);
static inline void os_name(const void *address, size_t size, const char *name)
{
  if (unlikely(os_has_names))
    os_name_now(address, size, name);
}

/* From now on any access to these pages is a fault. If the system refuses, the pages just stay as they are. */
void os_guard(void *address, size_t size);

/* Addresses without memory: any access is a fault. NULL: the system has none. os_open() makes pages of them writable, which
 * read as zero; os_close() gives their memory back, and any access is a fault again. False: the system refuses, and nothing
 * happened. */
void *os_reserve(size_t size);
bool os_open(void *address, size_t size);
bool os_close(void *address, size_t size);

/* A long stretch of address space that nobody else is likely to use, at random, a multiple of OS_WINDOW_ALIGNMENT; nothing is
 * mapped there. *size: how long it is, a multiple too. Each attempt, from 0 on, gives another one. NULL: no more. */
#define OS_WINDOW_ALIGNMENT ((size_t)1 << SLOT_LOG2)
char *os_window(unsigned attempt, size_t *size);

/* Asks for (or against) huge pages there. The system may ignore it. */
void os_wish_huge_pages(void *address, size_t size, bool wanted);

/* Says whether wishes count: where the system gives huge pages to everybody or to nobody, they do not. It reads a file. */
bool os_grants_huge_pages(void);

/* Makes pages of usual length of the huge page that the address is in, if it is in one. */
void os_split_huge_page(void *address);

/* These touch pages, lock them in memory, and unlock them. */
bool os_prefault(void *address, size_t size);
bool os_lock_memory(void *address, size_t size);
bool os_unlock_memory(void *address, size_t size);

/* os_read_limits() stores how much memory or address space the process may have: SIZE_MAX without a limit on either. A request
 * for more than `os_memory_most` can never be served, whatever is given back. That is the limit; without one, all memory and
 * swap of the machine. They are read once, at bring-up, because a process may forbid itself the calls later. A limit that is
 * set later shows as a refused mapping. */
extern INTERNAL size_t os_memory_limit, os_memory_most;
void os_read_limits(void);

/* Reserves up to *bytes of addresses, a multiple of `least`, and of a limit at most that share. Where a limit was set late,
 * half as many are tried until there is room, and of these the same share is kept. NULL: there are fewer than `least`. */
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

/* Returns the milliseconds of a clock that never goes back. It is exact to some milliseconds. Asking is cheap and no system
 * call, whatever clock the machine has. */
uint64_t os_now_ms(void);

/* A random number, by a system call. It is another for each `turn`, even if the kernel has no random numbers yet and the clock
 * has not moved. */
uint64_t os_random(unsigned turn);

/* True as long as the process has never had a second thread. False is always a safe answer. */
static inline bool os_single_threaded(void) { return HAS_SYSTEM && OS_SINGLE_THREADED; }

/* From now on each call of this thread that would ask the system for memory, or give it any, fails instead and is counted.
 * Returns what held before. */
bool os_forbid(bool forbid);
uint64_t os_forbidden_count(void); /* of all threads */

/* Which of the processors that the process may use the thread is on, from 0. It may be on another by the time that it looks at
 * it. Those that were not among them at the last os_processors() have some number that others may have, too. */
unsigned os_processor(void);

/* How many processors the process may use, and numbers them; 1 if that cannot be known. Not beside a call of either. */
unsigned os_processors(void);

/* Whether some memory is nearer to some processors than other is, as the kernel has it; os_processors() finds out. And the node
 * that the thread is on then, below 256: a page is of the node that touches it first. 0: it is not known. */
extern INTERNAL bool os_has_nodes;
unsigned os_node(void);

/* os_wait() sleeps while *word == value, for at most so many microseconds; 0: until it is woken. It may return early. os_wake()
 * wakes one sleeper. os_nap() lets others run for a moment, of some 100 us. */
void os_wait(uint32_t *word, uint32_t value, uint32_t most_us);
void os_wake(uint32_t *word);
static inline void os_nap(void)
{
  uint32_t nothing = 0;
  os_wait(&nothing, 0, 50);
}

/* Every other thread of the process passes a full memory barrier before os_fence_others() returns. False: the system cannot do
 * that. os_can_fence_others() says whether it will work, and must be asked once before. */
bool os_can_fence_others(void);
bool os_fence_others(void);

/* Called once, before os_thread_on_exit(). `at_exit` is what will be called when a thread ends. False: the system cannot do
 * that. */
bool os_on_thread_exit(void (*at_exit)(void *));

/* Arranges that at_exit(argument) is called when the calling thread ends. It may allocate. False: it could not be arranged. */
bool os_thread_on_exit(void *argument);

/* Says whether the calling thread may be past its destructors, in what the C library does at its very end. One system call
 * (rt_sigprocmask). */
bool os_thread_may_be_over(void);

/* The three are called around every fork(), in the order of pthread_atfork(). False: they are not. */
bool os_on_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* No fork begins between the two. False: this thread is in a fork, and os_let_fork() must not be called. */
bool os_hold_off_forks(void);
void os_let_fork(void);

/* What a constructor was given as its third argument, for os_environment() within that constructor. */
void os_note_environment(char **variables);

/* The process has rights that the user who started it may not have: it is a set-user-ID program, and that user must neither
 * choose its options nor what it starts. */
bool os_is_privileged(void);

/* Returns the environment variable, or NULL; always NULL where os_is_privileged(). */
const char *os_environment(const char *name);

/* Writes to standard error, as far as that can be done. */
void os_write_error(const char *text, size_t length);

/* Writes to an open file. 0, or the error that kept it from writing all. */
int os_write(int file, const char *text, size_t length);

/* Starts a thread that gets no signals and has a small stack. It may allocate. 0, or the error. os_join_thread() waits for its
 * end, and false: it did not come. There is one of each kind. */
typedef enum os_helper { OS_EXPORT, OS_BACKGROUND, OS_HELPERS } os_helper_t;
int os_start_thread(os_helper_t which, void (*run)(void));
bool os_join_thread(os_helper_t which, unsigned most_ms);

/* Keeps standard error as it is now for os_write_kept_error(): programs close theirs before they end. False: there is none. */
bool os_keep_error(void);

/* Writes to what os_keep_error() kept, as long as it is there. */
void os_write_kept_error(const char *text, size_t length);

/* Adds to the end of a file, which is made if need be. False: not all of it was written. */
bool os_append(const char *path, const char *text, size_t length);

uint32_t os_process(void); /* the number of this process */

/* How many threads the process has; 0: the system does not say. And how many of them os_start_thread() has made, by their name:
 * also those of another library of this kind in the process. */
extern const char *const os_helper_names[OS_HELPERS];
unsigned os_threads(void);
unsigned os_started_threads(void);

/* The addresses that calls on a thread's stack return to, the innermost first. */
enum { OS_STACK_MOST = 32 };
typedef struct os_stack {
  const void *frames[OS_STACK_MOST];
  size_t most, count; /* how many are wanted; how many there are */
} os_stack_t;

_Noreturn void os_abort(void);

/* Without a system this is called in place of the last two and os_write_error(), with the parts of the message. */
_Noreturn void os_end(const char *call, const void *address, const char *what);

#endif
