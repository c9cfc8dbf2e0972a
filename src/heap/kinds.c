/* SPDX-License-Identifier: MIT */
#include "heap/kinds.h"
#include <stdbool.h>
#include <stddef.h>

static const char NEW_CALL[] = "operator new", DELETE_CALL[] = "operator delete", OWN_CALLS[] = "pool_";
static const char *const malloc_calls[] = {"malloc",   "calloc",         "realloc", "aligned_alloc",
                                           "memalign", "posix_memalign", "valloc",  "pvalloc"};
static const char *const free_calls[] = {"free", "free_sized", "free_aligned_sized", "realloc"};

/* Firmware has no string functions. Returns the length of `name` if the call begins with it, else 0. */
static size_t begins_with(const char *call, const char *name)
{
  size_t i = 0;
  while (name[i] && call[i] == name[i])
    i++;
  return name[i] ? 0 : i;
}

static bool is_among(const char *call, const char *const *calls, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    size_t length = begins_with(call, calls[i]);
    if (length && !call[length])
      return true;
  }
  return false;
}

/* Runs for each block of a checked heap, so the most frequent kind comes first. */
static block_kind_t kind_of(const char *call, const char *by_operator, const char *const *calls, size_t count)
{
  size_t length = begins_with(call, by_operator);
  if (length)
    return call[length] == '[' ? KIND_NEW_ARRAY : KIND_NEW;
  return !begins_with(call, OWN_CALLS) && is_among(call, calls, count) ? KIND_MALLOC : KIND_ANY;
}

block_kind_t kind_allocated_by(const char *call)
{
  return kind_of(call, NEW_CALL, malloc_calls, sizeof malloc_calls / sizeof *malloc_calls);
}

block_kind_t kind_freed_by(const char *call)
{
  return kind_of(call, DELETE_CALL, free_calls, sizeof free_calls / sizeof *free_calls);
}
