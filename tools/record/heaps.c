/* SPDX-License-Identifier: MIT
 *
 * The heaps and object pools of the program, by their addresses: each has a number, which it gets when it is first seen in a
 * recording, and is described there. An address stays in the table when its heap has ended, and is described anew when it is
 * another heap's. There is no lock: who enters an address has it by one exchange, and who gives it a number by another. */
#include "event.h"
#include <string.h>

enum { ENTRIES_LOG2 = 16, ENTRIES = 1 << ENTRIES_LOG2, LOOKS_MOST = 256, NAME_SIZE = 32 };

typedef struct entry {
  uintptr_t heap, parent;
  uint64_t size;
  uint32_t number; /* 0: it has none yet */
  bool is_described;
  char name[NAME_SIZE];
} entry_t;

static entry_t entries[ENTRIES];
static uint32_t numbers;

const char *(*heap_name_of)(const void *heap);

void heaps_begin(void)
{
  for (size_t i = 0; numbers && i < ENTRIES; i++)
    entries[i].number = 0;
  numbers = 0;
}

/* NULL: it is not there, and there is no room. */
static entry_t *entry_of(const void *heap)
{
  size_t i = (size_t)(((uint64_t)(uintptr_t)heap >> 4) * 0x9e3779b97f4a7c15u >> (64 - ENTRIES_LOG2));
  for (unsigned looks = 0; looks < LOOKS_MOST; looks++, i = (i + 1) % ENTRIES) {
    uintptr_t there = __atomic_load_n(&entries[i].heap, __ATOMIC_RELAXED);
    if (!there)
      __atomic_compare_exchange_n(&entries[i].heap, &there, (uintptr_t)heap, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (!there || there == (uintptr_t)heap)
      return &entries[i];
  }
  return NULL;
}

/* The number of an entry, which is new if it has none. */
static uint32_t number_at(entry_t *entry, bool *is_new)
{
  uint32_t number = __atomic_load_n(&entry->number, __ATOMIC_RELAXED);
  *is_new = false;
  if (number)
    return number;
  uint32_t next = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
  if (next > RECORDING_HEAPS_MOST)
    return 0;
  *is_new = __atomic_compare_exchange_n(&entry->number, &number, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return *is_new ? next : number;
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
  memcpy(stream.at, name ? name : "", length);
  stream.at += length;
  end_put(first, RECORDING_HEAP);
}

uint32_t heap_number(const void *heap, recording_kind_t kind)
{
  bool is_new;
  entry_t *entry = heap ? entry_of(heap) : NULL;
  if (!entry)
    return 0;
  uint32_t number = number_at(entry, &is_new);
  if (is_new)
    write_heap(entry, number, kind, heap_number((const void *)entry->parent, RECORDING_KIND_HEAP));
  return number;
}

uint64_t heap_size(const void *heap)
{
  const entry_t *entry = entry_of(heap);
  return entry && entry->is_described ? entry->size : 0;
}

/* The heap is new, so no other thread knows its address. The one that had it before was dropped. */
void heap_describe(const void *heap, const void *parent, uint64_t size, const char *name)
{
  entry_t *entry = entry_of(heap);
  if (!entry)
    return;
  entry->parent = (uintptr_t)parent;
  entry->size = size;
  entry->is_described = true;
  size_t length = name ? strnlen(name, NAME_SIZE - 1) : 0;
  memcpy(entry->name, name ? name : "", length);
  entry->name[length] = '\0';
  __atomic_store_n(&entry->number, 0, __ATOMIC_RELAXED);
}
