/* SPDX-License-Identifier: MIT
 *
 * Words that may not be there, read in nanoseconds: each page is seen to be readable once, and its words are read at will from
 * then on. That holds for the pages of a stack while its thread is in the function that looks at them, and no longer: the stack
 * of a coroutine may go, and another come to its place. */
#ifndef OS_LINUX_SEEN_H
#define OS_LINUX_SEEN_H

#include "debug/system.h"

typedef struct seen {
  uintptr_t start, end; /* the pages between them can be read */
} seen_t;

/* Finds out how to look. A second call does nothing. */
void seen_begin(void);
bool seen_is_ready(void);

/* The page of the stack pointer needs no look. */
static inline seen_t seen_around(uintptr_t sp)
{
  uintptr_t start = round_down(sp, os_page_size());
  return (seen_t){start, start + os_page_size()};
}

/* False: the page of the address cannot be read, or the system does not say. */
bool seen_look(seen_t *seen, uintptr_t address);

/* By an instruction that no sanitizer looks at: it is a word of another function's frame. */
static inline uintptr_t seen_word(uintptr_t address)
{
  uintptr_t word;
#ifdef __aarch64__
  __asm__ volatile("ldr %0, [%1]" : "=r"(word) : "r"(address));
#elif defined __x86_64__
  __asm__ volatile("mov (%1), %0" : "=r"(word) : "r"(address));
#else
  word = *(const volatile uintptr_t *)address;
#endif
  return word;
}

/* Nor is a word read that is not at a multiple of its size: it could be in two pages. */
static inline bool seen_read(seen_t *seen, uintptr_t address, uintptr_t *word)
{
  if (unlikely(address % sizeof *word) ||
      (unlikely(address < seen->start || address >= seen->end) && !seen_look(seen, address)))
    return false;
  *word = seen_word(address);
  return true;
}

#endif
