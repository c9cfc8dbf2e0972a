/* SPDX-License-Identifier: MIT
 *
 * The memory of another process, which runs on: what is read of it may be half of one thing and half of the next, or lead
 * nowhere. Nothing here says what a value means. Pages are kept, since records lie side by side, and forgotten where something
 * does not fit and is to be read anew. */
#ifndef MAP_MEMORY_H
#define MAP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMORY_PAGE = 4096, MEMORY_PAGES = 512 };

/* Copies bytes out of the process. False: some of them are not there, and what was copied means nothing. */
typedef bool memory_fetch_fn(void *context, uint64_t address, void *to, size_t bytes);

typedef struct memory {
  memory_fetch_fn *fetch;
  void *context;
  uint64_t tags[MEMORY_PAGES]; /* the page that is kept there, plus one; 0: none */
  unsigned char *pages;        /* NULL before the first */
} memory_t;

bool memory_read(memory_t *memory, uint64_t address, void *to, size_t bytes);

/* What is read from now on is as it is then. */
void memory_forget(memory_t *memory);
void memory_finish(memory_t *memory);

/* What is a bool there may be any byte here, and then no bool. */
static inline bool memory_is_true(const bool *copied) { return *(const unsigned char *)(const void *)copied != 0; }

static inline uint64_t memory_word(memory_t *memory, uint64_t address)
{
  uintptr_t word = 0;
  return memory_read(memory, address, &word, sizeof word) ? word : 0;
}

#endif
