/* SPDX-License-Identifier: MIT
 *
 * Services of the operating system that only the debug library needs, beyond os/os.h: faults, stacks, the memory of the
 * process, files of reports, and memory shared with other processes. */
#ifndef DEBUG_SYSTEM_H
#define DEBUG_SYSTEM_H

#include "os/os.h"

void os_exclude_from_dumps(void *address, size_t size, bool exclude);

/* Returns how many mappings the process may have. Reads a file. */
size_t os_mappings_most(void);
size_t os_mappings_now(void); /* current mappings; 0: not known */

/* Creates or truncates a file. Returns its descriptor, or a negative error. */
int os_create_file(const char *path);
void os_close_file(int file);

/* Returns whether another file can take this place: there is none, or it is a regular file and no link. */
bool os_may_replace_file(const char *path);
int os_rename_file(const char *from, const char *to); /* 0, or the error */
void os_remove_file(const char *path);

/* Memory that other processes of the user find among the descriptors of this one, and may make longer but not shorter. It is
 * allocated, so no access fails. A child does not have it mapped. Returns 0 or an error. */
typedef struct os_shared {
  void *start;
  size_t size; /* mapped bytes */
  int file;
  uint64_t device, inode; /* the program may close the descriptor, and reuse its number */
} os_shared_t;
int os_share_memory(const char *name, size_t size, os_shared_t *shared);

/* The memory can still be found. os_share_more() maps what a reader added, up to `size` bytes; false: nothing changed. */
bool os_is_shared(const os_shared_t *shared);
bool os_share_more(os_shared_t *shared, size_t size);
void os_end_shared(os_shared_t *shared);

/* os_wait() with a limit, and os_wake() for all waiters, in memory that is shared with other processes. */
void os_wait_shared(uint32_t *word, uint32_t value, unsigned most_ms);
void os_wake_shared(uint32_t *word);

/* Calls `act` at each signal of this number, under a signal handler's rules. False: refused, or the program has a handler. */
bool os_watch_signal(int number, void (*act)(void));

/* Calls `say` when an access to memory faults, in its thread, under a signal handler's rules. The program's previous handler or
 * the default action follows. A handler installed later decides by itself. A second call does nothing. */
typedef enum os_access { OS_READS, OS_WRITES, OS_RUNS, OS_ACCESSES } os_access_t;           /* OS_ACCESSES: not known which */
typedef void os_fault_fn(const void *address, os_access_t access, const void *instruction); /* instruction NULL: not known */
void os_watch_faults(os_fault_fn *say);

/* Opens what os_take_stack() needs, once. That is one system call on x86-64 and AArch64. Elsewhere it opens a library once the
 * C library has begun; earlier the loader would begin it without the program's arguments and environment. That may allocate and
 * takes the loader's locks, so no lock may be held. Stacks have one address until then, and if there is nothing to open. */
void os_load_stacks(void);

/* Calls `visit` with each stretch of touched memory that may hold words of the process: its own readable memory, and memory
 * that it shares with its children or by a name that ends with them. `is_stack`: the first thread's stack. Other threads may
 * map and unmap meanwhile. Returns false if the system does not tell. */
typedef void os_visit_memory_fn(uintptr_t start, uintptr_t end, bool is_stack, void *context);
bool os_visit_memory(os_visit_memory_fn *visit, void *context);

/* os_visit_memory() between two addresses. Visits everything if the system does not tell what was touched. */
void os_visit_touched(uintptr_t start, uintptr_t end, os_visit_memory_fn *visit, void *context);

/* Writes the system's list of the process's mappings to an open file. Returns 0 or an error. */
int os_write_mappings(int file);

/* Copies memory that may not exist. Returns false if some of it does not or may not be read. */
bool os_copy_memory(void *to, uintptr_t from, size_t size);

/* Stores the return addresses on this thread's stack, the innermost first, from `from` on, which is the return address of a
 * function on the stack. Stores only `from` if no more is known: a static program without an index, or code without tables.
 * Allocates nothing and takes no lock that an allocation might wait for, or none with the C library's _dl_find_object(). */
/* `frame` is __builtin_frame_address(0) of the function that returns to `from`: saves walking its callees. NULL: not known. */
void os_take_stack_at(const void *const *frame, const void *from, os_stack_t *stack);
static inline void os_take_stack(const void *from, os_stack_t *stack) { os_take_stack_at(NULL, from, stack); }

#endif
