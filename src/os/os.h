/* SPDX-License-Identifier: MIT
 *
 * What the manager asks of an operating system. One file of this folder implements it for each system (linux.c); the tests
 * link os_fake.c instead, which fails the n-th call.
 *
 * Every function leaves errno as it was. Addresses and sizes are multiples of os_page_size() unless said otherwise. */
#ifndef OS_OS_H
#define OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define OS_SINGLE_THREADED ((bool)__libc_single_threaded)
#else
#define OS_SINGLE_THREADED false
#endif

/* Found at run time: 4, 16 and 64 KiB all exist. */
size_t os_page_size(void);

/* Address space that cannot be touched yet, `alignment` a power of two. NULL: none. */
void *os_reserve(size_t size, size_t alignment);

/* The same at exactly this address, or NULL if something is there already. */
void *os_reserve_at(void *address, size_t size);

/* The same, readable and all zero but not writable: costs no memory and no commit charge. */
void *os_reserve_zeroes(size_t size);

/* Makes reserved memory usable. false: the system has none left. */
bool os_commit(void *address, size_t size);

/* Gives the memory back, the address space stays; it reads as zero afterwards. false: nothing was given back. */
bool os_purge(void *address, size_t size);

/* Gives address space back. false: the system could not (too many mappings), it is still there. */
bool os_release(void *address, size_t size);

/* Moves the pages under [from, from+size) to `to`, whose own pages are dropped; `from` stays committed and reads as zero.
 * false: nothing happened. */
bool os_move_pages(void *from, void *to, size_t size);

/* Asks for (or against) huge pages there; a wish. */
void os_wish_huge_pages(void *address, size_t size, bool wanted);

/* Touches pages, locks them in memory. */
bool os_prefault(void *address, size_t size);
bool os_lock_memory(void *address, size_t size);
bool os_unlock_memory(void *address, size_t size);

/* The address space the process may still have, if there is a limit, else SIZE_MAX. */
size_t os_address_space_limit(void);

/* Milliseconds of a clock that never goes back, exact to some milliseconds, cheap to ask. */
uint64_t os_now_ms(void);

/* True as long as the process has never had a second thread. False is always a safe answer. */
static inline bool os_single_threaded(void) { return OS_SINGLE_THREADED; }

/* From now on, for the calling thread: what would ask the system for memory, or give it any, fails instead and is counted.
 * Returns what held before. */
bool     os_forbid(bool forbid);
uint64_t os_forbidden_count(void);   /* of all threads */

void os_yield(void);

/* Sleep while *word == value, at most some milliseconds (spurious returns are fine); wake one sleeper. */
void os_wait(uint32_t *word, uint32_t value);
void os_wake(uint32_t *word);

/* Calls `at_exit(argument)` when the calling thread ends. May allocate. False: it could not be arranged. */
bool os_thread_on_exit(void (*at_exit)(void *), void *argument);

/* The three run around every fork(), in the order of pthread_atfork(). */
void os_on_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* The environment variable, or NULL; always NULL in set-user-ID programs. */
const char *os_environment(const char *name);

/* To standard error, as far as it can be written. */
void os_write_error(const char *text, size_t length);

_Noreturn void os_abort(void);

#endif
