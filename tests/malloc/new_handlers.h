// SPDX-License-Identifier: MIT
//
// What the C++ programs and plug-ins share: new handlers that end the asking, and how a form of operator new took it.
#ifndef NEW_HANDLERS_H
#define NEW_HANDLERS_H

#include <cstddef>
#include <new>

// The compiler may leave out a pair of new and delete whose block nobody sees.
static inline void *seen(void *block)
{
  asm volatile("" : "+r"(block) : : "memory");
  return block;
}

template <typename Allocate>
static inline bool throws_bad_alloc(Allocate allocate)
{
  try {
    seen(allocate());
  } catch (const std::bad_alloc &) {
    return true;
  }
  return false;
}

// Called again and again until it gives up by taking itself away: new then throws.
static int handler_calls;

static inline void give_up_at_the_third_call()
{
  if (++handler_calls == 3)
    std::set_new_handler(nullptr);
}

struct OwnBadAlloc : std::bad_alloc {};

static inline void throw_at_the_third_call()
{
  if (++handler_calls == 3)
    throw OwnBadAlloc();
}

#endif
