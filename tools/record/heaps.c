/* SPDX-License-Identifier: MIT
 *
 * The heaps and object pools of the program, by their addresses. An address has a number, which it gets when it is first seen
 * in a recording; what is there then is described, and so is each heap that is there later, with the same number: a program
 * makes a heap for each request. There is no lock: who enters an address has it by one exchange, and who gives it a number by
 * another. What there is no room for is one number, OTHERS, which no reset ends. */
#include "event.h"
#include <string.h>
#include <sys/mman.h>

enum { ENTRIES_LOG2 = 20, ENTRIES = 1 << ENTRIES_LOG2, LOOKS_MOST = 256, NAME_SIZE = 32, OTHERS = RECORDING_HEAPS_MOST };

typedef struct entry {
  uintptr_t heap, parent, overflow;
  uint64_t size;
  uint32_t number; /* of the address; 0: it has none yet */
  uint32_t next;   /* of the entries that are in use, from 1 on */
  bool is_written; /* what is there now, to this recording */
  bool is_described;
  char name[NAME_SIZE];
} entry_t;

static entry_t *entries;       /* ENTRIES of them; NULL: no heap was seen yet */
static uint32_t numbers, used; /* the entry that came last */

const char *(*heap_name_of)(const void *heap);

void heaps_begin(void)
{
  for (uint32_t i = numbers ? used : 0; i; i = entries[i - 1].next) {
    entries[i - 1].number = 0;
    entries[i - 1].is_written = false;
  }
  numbers = 0;
}

static bool has_entries(void)
{
  entry_t *there = __atomic_load_n(&entries, __ATOMIC_ACQUIRE), *own;
  if (there || !(own = take_memory(ENTRIES * sizeof *own)))
    return there != NULL;
  if (!__atomic_compare_exchange_n(&entries, &there, own, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    munmap(own, ENTRIES * sizeof *own);
  return true;
}

static entry_t *enter(entry_t *entry)
{
  entry->next = __atomic_load_n(&used, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&used, &entry->next, (uint32_t)(entry - entries) + 1, true, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {}
  return entry;
}

/* NULL: it is not there, and there is no room. */
static entry_t *entry_of(const void *heap)
{
  if (!has_entries())
    return NULL;
  size_t i = (size_t)(((uint64_t)(uintptr_t)heap >> 4) * 0x9e3779b97f4a7c15u >> (64 - ENTRIES_LOG2));
  for (unsigned looks = 0; looks < LOOKS_MOST; looks++, i = (i + 1) % ENTRIES) {
    uintptr_t there = __atomic_load_n(&entries[i].heap, __ATOMIC_RELAXED);
    if (!there &&
        __atomic_compare_exchange_n(&entries[i].heap, &there, (uintptr_t)heap, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return enter(&entries[i]);
    if (there == (uintptr_t)heap)
      return &entries[i];
  }
  return NULL;
}

/* There are fewer entries than numbers. */
static uint32_t number_at(entry_t *entry)
{
  uint32_t number = __atomic_load_n(&entry->number, __ATOMIC_RELAXED), next;
  if (number)
    return number;
  next = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
  return __atomic_compare_exchange_n(&entry->number, &number, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ? next : number;
}

static void write_heap(const entry_t *entry, uint32_t number, recording_kind_t kind, uint32_t parent)
{
  const char *name = entry->is_described ? entry->name : "";
  if (!entry->is_described && kind == RECORDING_KIND_HEAP && heap_name_of)
    name = heap_name_of((const void *)entry->heap);
  size_t length = name ? strnlen(name, NAME_SIZE) : 0;
  if (!stream_has_room(RECORDING_EVENT_MOST + NAME_SIZE))
    return;
  uint8_t *first = begin_put();
  put_number(number);
  put_number(parent);
  put_number(kind);
  put_number(entry->is_described ? entry->size : 0);
  put_number(length);
  memcpy(self.stream->at, name ? name : "", length);
  self.stream->at += length;
  end_put(first, RECORDING_HEAP);
}

uint32_t heap_number(const void *heap, recording_kind_t kind)
{
  entry_t *entry = heap ? entry_of(heap) : NULL;
  if (!entry)
    return heap ? OTHERS : 0;
  uint32_t number = number_at(entry);
  if (unlikely(!__atomic_load_n(&entry->is_written, __ATOMIC_RELAXED)) &&
      !__atomic_exchange_n(&entry->is_written, true, __ATOMIC_RELAXED))
    write_heap(entry, number, kind, heap_number((const void *)entry->parent, RECORDING_KIND_HEAP));
  return number;
}

uint64_t heap_size(const void *heap)
{
  const entry_t *entry = entry_of(heap);
  return entry && entry->is_described ? entry->size : 0;
}

const void *heap_overflow(const void *heap)
{
  const entry_t *entry = heap ? entry_of(heap) : NULL;
  return entry ? (const void *)entry->overflow : NULL;
}

/* The heap is new, so no other thread knows its address. The one that had it before was dropped. */
void heap_describe(const void *heap, const void *parent, const void *overflow, uint64_t size, const char *name)
{
  entry_t *entry = entry_of(heap);
  if (!entry)
    return;
  entry->parent = (uintptr_t)parent;
  entry->overflow = (uintptr_t)overflow;
  entry->size = size;
  entry->is_described = true;
  size_t length = name ? strnlen(name, NAME_SIZE - 1) : 0;
  memcpy(entry->name, name ? name : "", length);
  entry->name[length] = '\0';
  __atomic_store_n(&entry->is_written, false, __ATOMIC_RELAXED);
}
