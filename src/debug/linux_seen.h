/* SPDX-License-Identifier: MIT
 *
 * Reads words that may not exist, in nanoseconds: each page is checked once, and its words are then read freely. A check holds
 * only for a stack whose thread is in the function that reads it: a coroutine's stack may be unmapped and replaced. */
#ifndef DEBUG_LINUX_SEEN_H
#define DEBUG_LINUX_SEEN_H

#include "debug/system.h"

typedef struct seen {
  uintptr_t start, end; /* the pages between them are readable */
} seen_t;

void seen_begin(void);
bool seen_is_ready(void);

/* The page of the stack pointer needs no check. */
static inline seen_t seen_around(uintptr_t sp)
{
  uintptr_t start = round_down(sp, os_page_size());
  return (seen_t){start, start + os_page_size()};
}

/* Returns false if the page cannot be read, or the system does not tell. */
bool seen_look(seen_t *seen, uintptr_t address);

/* Uses an instruction that sanitizers do not see, because the word is in another function's frame. */
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

/* A misaligned word is not read either: it could span two pages. */
static inline bool seen_read(seen_t *seen, uintptr_t address, uintptr_t *word)
{
  if (unlikely(address % sizeof *word) ||
      (unlikely(address < seen->start || address >= seen->end) && !seen_look(seen, address)))
    return false;
  *word = seen_word(address);
  return true;
}

#endif
