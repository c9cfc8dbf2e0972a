/* SPDX-License-Identifier: MIT
 * What programs with a bug share: the names that serve them, and blocks that the compiler knows nothing of. */
#ifndef BUGS_H
#define BUGS_H

#include <stddef.h>

#ifdef MALLOC_NAMES
#include "../malloc/ours.h"
#include <malloc.h>
#define ALLOCATE malloc
#define RELEASE  free
#define RESIZE   realloc
#define TRIM     (void)malloc_trim
#define USABLE   malloc_usable_size
#else
#include <tidepool.h>
#define ALLOCATE pool_alloc
#define RELEASE  pool_free
#define RESIZE   pool_realloc
#define TRIM     (void)pool_trim
#define USABLE   pool_usable_size
#endif

enum { SMALL = 100, LARGE = 4 << 20 };

extern char static_memory[256];

/* The compiler warns of most of these bugs, if it can see them. */
void *hidden(const void *address);
char *block_of(size_t size);

/* A misuse that free cannot see at once is found when the magazine is emptied, which a trim does. */
void release(const void *address);
void resize(const void *address);

/* What must be seen at once: the program does not go on. */
_Noreturn void went_on(void);

typedef struct bug {
  const char *name;
  void (*run)(void);
} bug_t;

/* Those that only pool.h and its like can have; the last has no name. */
extern const bug_t pool_bugs[];

#endif
