/* SPDX-License-Identifier: MIT
 * Lets other threads read a thread's magazines while the owner uses them. */
#include "thread/magazines.h"

/* Readers load whole words, which may change at any moment; results are exact while the owner is in no call. Links change too.
 * They may lead a reader into other magazines, but nowhere else, and not forever.
 *
 * A block that is live throughout is never found. It was popped before the reader came, so only old words can hold it. A reader
 * that follows a pointer loaded since meets a NULL before such a word: the magazines of a record belong to no other thread
 * (leave_loaded()), a NULL is below each floor, an empty magazine ends with one, and the slabs clear a magazine before they
 * fill it. */

typedef void visit_fn(const void *block, void *context);

/* Visits entries from `top` down. The visit ends at word 0 if it missed the NULL below the entries. */
READS_BESIDE_OWNER static size_t each_entry(void *volatile *top, visit_fn *visit, void *context)
{
  size_t n = 0;
  void *entry;
  for (; (uintptr_t)top & (MAGAZINE_BYTES - 1) && (entry = *top) != NULL; top--, n++)
    visit(entry, context);
  return n;
}

READS_BESIDE_OWNER static size_t each(const magazines_t *magazines, unsigned c, visit_fn *visit, void *context)
{
  const volatile loaded_t *loaded = &magazines->cache->of[c];
  const volatile stock_t *stock = &magazines->of[c];
  void *volatile *magazine = stock->full;
  void *top = loaded->top, **below = loaded->below;
  size_t n = 0;
  for (unsigned i = stock->count; i && magazine; i--) {
    n += each_entry(magazine + MAGAZINE_WORDS - 1, visit, context);
    magazine = (void *volatile *)round_down((uintptr_t)magazine[0], MAGAZINE_BYTES);
  }
  if (!top)
    return n;
  visit(top, context);
  return n + 1 + each_entry(below, visit, context);
}

/* A pop or a push changes both words of its class. */
READS_BESIDE_OWNER uint64_t magazines_stamp(const magazines_t *magazines)
{
  uint64_t stamp = 0;
  for (unsigned c = 1; c <= CLASS_CACHED; c++) {
    const volatile loaded_t *loaded = &magazines->cache->of[c];
    stamp = (stamp ^ (uintptr_t)loaded->top ^ (uint64_t)(uintptr_t)loaded->below << 20) * 0x9e3779b97f4a7c15u;
  }
  return stamp;
}

/* A loaded magazine counts even if it is empty, because only a flush gives it back. */
READS_BESIDE_OWNER bool magazines_any(const magazines_t *magazines)
{
  for (unsigned c = 1; c <= CLASS_CACHED; c++) {
    const volatile loaded_t *loaded = &magazines->cache->of[c];
    const volatile stock_t *stock = &magazines->of[c];
    if (loaded->below != MAGAZINE_SENTINEL || stock->full)
      return true;
  }
  return false;
}

static void just_count(const void *block, void *unused)
{
  (void)block;
  (void)unused;
}

size_t magazines_count(const magazines_t *magazines, unsigned size_class)
{
  return each(magazines, size_class, just_count, NULL);
}

typedef struct search {
  const void *block;
  bool found;
} search_t;

static void compare(const void *block, void *search)
{
  search_t *s = search;
  s->found |= s->block == block;
}

bool magazines_hold(const magazines_t *magazines, unsigned size_class, const void *block)
{
  search_t search = {block, false};
  each(magazines, size_class, compare, &search);
  return search.found;
}

void magazines_each(const magazines_t *magazines, unsigned size_class, visit_fn *visit, void *context)
{
  each(magazines, size_class, visit, context);
}
