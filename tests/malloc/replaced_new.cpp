// SPDX-License-Identifier: MIT
//
// A program may replace some of operator new and delete; each of the others then is one of those, as [new.delete] says. Which
// are replaced here says REPLACED: bits of base_t. The expectations hold for the C++ runtime alone as well.
#include "ours.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

enum base_t { SINGLE, ARRAY, ALIGNED_SINGLE, ALIGNED_ARRAY, NONE };

static unsigned made[NONE + 1], ended[NONE + 1];
static bool failing;

// In front of each block of a replaced form, which the block's own form of delete must get.
struct header {
  size_t base;
  void *start;
};

static void check(bool condition, const char *what, int form)
{
  if (condition)
    return;
  fprintf(stderr, "replaced_new: form %d: %s\n", form, what);
  abort();
}

// What a program's operator new may do before it throws: a form that does not throw, where no exception may pass.
static void try_again_without_throwing(bool array, bool aligned) noexcept;

[[maybe_unused]] static void *make(base_t base, size_t size, size_t alignment = alignof(std::max_align_t))
{
  static unsigned depth;
  if (failing) {
    if (depth++ < 3)
      try_again_without_throwing(base == ARRAY || base == ALIGNED_ARRAY, base == ALIGNED_SINGLE || base == ALIGNED_ARRAY);
    depth--;
    throw std::bad_alloc();
  }
  char *start = static_cast<char *>(malloc(size + sizeof(header) + alignment));
  check(start, "no memory", base);
  size_t block = (reinterpret_cast<size_t>(start) + sizeof(header) + alignment - 1) / alignment * alignment;
  reinterpret_cast<header *>(block)[-1] = {base, start};
  made[base]++;
  return reinterpret_cast<void *>(block);
}

[[maybe_unused]] static void end(base_t base, void *block)
{
  if (!block)
    return;
  header *h = static_cast<header *>(block) - 1;
  check(h->base == base, "delete got a block of another form", base);
  ended[base]++;
  h->base = NONE;
  free(h->start);
}

#if REPLACED & 1
void *operator new(size_t size) { return make(SINGLE, size); }
void operator delete(void *block) noexcept { end(SINGLE, block); }
#endif
#if REPLACED & 2
void *operator new[](size_t size) { return make(ARRAY, size); }
void operator delete[](void *block) noexcept { end(ARRAY, block); }
#endif
#if REPLACED & 4
void *operator new(size_t size, std::align_val_t a) { return make(ALIGNED_SINGLE, size, static_cast<size_t>(a)); }
void operator delete(void *block, std::align_val_t) noexcept { end(ALIGNED_SINGLE, block); }
#endif
#if REPLACED & 8
void *operator new[](size_t size, std::align_val_t a) { return make(ALIGNED_ARRAY, size, static_cast<size_t>(a)); }
void operator delete[](void *block, std::align_val_t) noexcept { end(ALIGNED_ARRAY, block); }
#endif

static base_t expected(bool array, bool aligned)
{
  unsigned single_base = aligned ? ALIGNED_SINGLE : SINGLE, array_base = aligned ? ALIGNED_ARRAY : ARRAY;
  if (array && REPLACED >> array_base & 1)
    return static_cast<base_t>(array_base);
  return static_cast<base_t>(REPLACED >> single_base & 1 ? single_base : static_cast<unsigned>(NONE));
}

static const size_t SIZE = 40;
static const std::align_val_t ALIGNMENT{64};

static void *get(bool array, bool aligned, bool nothrow)
{
  switch (array | aligned << 1 | nothrow << 2) {
  case 0:
    return operator new(SIZE);
  case 1:
    return operator new[](SIZE);
  case 2:
    return operator new(SIZE, ALIGNMENT);
  case 3:
    return operator new[](SIZE, ALIGNMENT);
  case 4:
    return operator new(SIZE, std::nothrow);
  case 5:
    return operator new[](SIZE, std::nothrow);
  case 6:
    return operator new(SIZE, ALIGNMENT, std::nothrow);
  default:
    return operator new[](SIZE, ALIGNMENT, std::nothrow);
  }
}

enum { PLAIN, SIZED, NOTHROW, WAYS };

static void put(bool array, bool aligned, int way, void *block)
{
  switch (array | aligned << 1 | way << 2) {
  case 0:
    operator delete(block);
    break;
  case 1:
    operator delete[](block);
    break;
  case 2:
    operator delete(block, ALIGNMENT);
    break;
  case 3:
    operator delete[](block, ALIGNMENT);
    break;
  case 4:
    operator delete(block, SIZE);
    break;
  case 5:
    operator delete[](block, SIZE);
    break;
  case 6:
    operator delete(block, SIZE, ALIGNMENT);
    break;
  case 7:
    operator delete[](block, SIZE, ALIGNMENT);
    break;
  case 8:
    operator delete(block, std::nothrow);
    break;
  case 9:
    operator delete[](block, std::nothrow);
    break;
  case 10:
    operator delete(block, ALIGNMENT, std::nothrow);
    break;
  default:
    operator delete[](block, ALIGNMENT, std::nothrow);
    break;
  }
}

static void try_form(bool array, bool aligned, bool nothrow, int way)
{
  base_t base = expected(array, aligned);
  int form = array | aligned << 1 | nothrow << 2 | way << 3;
  unsigned made_before = made[base], ended_before = ended[base];
  char *volatile block = static_cast<char *>(get(array, aligned, nothrow));
  check(block, "no memory", form);
  check(made[base] == made_before + (base != NONE), "new is not the program's own", form);
  for (size_t i = 0; i < SIZE; i++)
    block[i] = static_cast<char>(form);
  put(array, aligned, way, block);
  check(ended[base] == ended_before + (base != NONE), "delete is not the program's own", form);
}

static void try_again_without_throwing(bool array, bool aligned) noexcept
{
  check(!get(array, aligned, true), "what fails has succeeded", array | aligned << 1);
}

static void try_failure(bool array, bool aligned, bool nothrow)
{
  int form = array | aligned << 1 | nothrow << 2;
  bool thrown = false;
  void *volatile block = nullptr;
  failing = true;
  try {
    block = get(array, aligned, nothrow);
  } catch (const std::bad_alloc &) {
    thrown = true;
  }
  failing = false;
  bool is_ours = expected(array, aligned) == NONE;
  check(!block == !is_ours && thrown == (!is_ours && !nothrow), "the failure of the program's own is not passed on", form);
  put(array, aligned, PLAIN, block);
}

int main()
{
  for (int i = 0; i < 8; i++) {
    bool array = i & 1, aligned = i & 2, nothrow = i & 4;
    for (int way = 0; way < WAYS; way++)
      try_form(array, aligned, nothrow, way);
    try_failure(array, aligned, nothrow);
  }
  for (int base = 0; base < NONE; base++)
    check(made[base] == ended[base] && (made[base] != 0) == (REPLACED >> base & 1), "the counts differ", base);
}
