/* SPDX-License-Identifier: MIT
 *
 * What the debug library asks of an operating system beyond os/os.h: faults, stacks, the memory of the process, files of
 * reports, and memory that is shared with other processes. */
#ifndef DEBUG_SYSTEM_H
#define DEBUG_SYSTEM_H

#include "os/os.h"

void os_exclude_from_dumps(void *address, size_t size, bool exclude);

/* Returns how many mappings the process may have. It reads a file. */
size_t os_mappings_most(void);
size_t os_mappings_now(void); /* how many it has; 0: the system does not say */

/* A new file, or an old one that is empty from now on; the number of an open file, or less than 0: the error. */
int os_create_file(const char *path);
void os_close_file(int file);

/* There is no such file, or it is one of a disk and no link: another can take its place. */
bool os_may_replace_file(const char *path);
int os_rename_file(const char *from, const char *to); /* 0, or the error */
void os_remove_file(const char *path);

/* Memory that other processes of the user find among the descriptors of this one, and may make longer, but not shorter. It is
 * there: no access to it fails. A child does not have it mapped. 0, or the error. */
typedef struct os_shared {
  void *start;
  size_t size; /* that is mapped */
  int file;
  uint64_t device, inode; /* the program may close the descriptor, and open another file by its number */
} os_shared_t;
int os_share_memory(const char *name, size_t size, os_shared_t *shared);

/* Whether it can still be found; maps as much of it as somebody made it longer, up to `size` bytes, and false: it is as it was;
 * and unmaps and closes it. */
bool os_is_shared(const os_shared_t *shared);
bool os_share_more(os_shared_t *shared, size_t size);
void os_end_shared(os_shared_t *shared);

/* As os_wait(), up to so long, and os_wake(), for all: by memory that is shared with other processes. */
void os_wait_shared(uint32_t *word, uint32_t value, unsigned most_ms);
void os_wake_shared(uint32_t *word);

/* `act` is called at each signal of this number from now on, in some thread, and may do what a handler of signals may. False:
 * the system refuses, or the program has a handler. */
bool os_watch_signal(int number, void (*act)(void));

/* From now on `say` is called where an access to memory is a fault, in the thread that made it, and must do no more than a
 * signal handler may. The program's handler, if it had one by now, or the default action follow. Once it has a newer handler,
 * that decides. A second call does nothing. */
typedef enum os_access { OS_READS, OS_WRITES, OS_RUNS, OS_ACCESSES } os_access_t; /* the last: it is not known which */
typedef void os_fault_fn(const void *address, os_access_t access, const void *instruction); /* the last: NULL, not known */
void os_watch_faults(os_fault_fn *say);

/* Opens what os_take_stack() needs, if nobody has done so. On x86-64 and AArch64 it asks the system a question. Elsewhere it
 * opens a library once the C library has begun (before that the loader would begin it, without the program's arguments and
 * environment): it may allocate and takes the loader's locks, so no lock may be held. Until then, and where there is nothing to
 * open, stacks are of one address. */
void os_load_stacks(void);

/* Calls `visit` with each stretch of memory that was touched and may have words of the process: what is its own, and can be
 * read, and what it shares with its children or by a name that ends with them. `is_stack`: it is of the first thread's. Other
 * threads may map and unmap meanwhile. False: the system does not say. */
typedef void os_visit_memory_fn(uintptr_t start, uintptr_t end, bool is_stack, void *context);
bool os_visit_memory(os_visit_memory_fn *visit, void *context);

/* The same of what is mapped between two addresses. Where the system does not say what was touched, all is visited. */
void os_visit_touched(uintptr_t start, uintptr_t end, os_visit_memory_fn *visit, void *context);

/* Writes what the system says of the process's mappings to an open file. 0, or the error that kept it from writing all. */
int os_write_mappings(int file);

/* Copies memory that may not be there. False: some of it is not, or may not be read. */
bool os_copy_memory(void *to, uintptr_t from, size_t size);

/* Stores the addresses that the calls on this thread's stack return to, the innermost first, from `from` on: the return address
 * of a function that is on the stack. It is the only one where no more is known: the program is static and has no index of its
 * tables, or the code of this function has none. Nothing is allocated, and no lock is needed that an allocation might wait for;
 * with _dl_find_object() of the C library, none. */
/* The same from the frame of the function that returns to `from`, its __builtin_frame_address(0): those of its callees need not
 * be passed then. NULL: it is not known. */
void os_take_stack_at(const void *const *frame, const void *from, os_stack_t *stack);
static inline void os_take_stack(const void *from, os_stack_t *stack) { os_take_stack_at(NULL, from, stack); }

#endif
