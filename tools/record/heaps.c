/* SPDX-License-Identifier: MIT
 *
 * The heaps and object pools of the program, by their addresses. Each has a number, which is another's once it has ended: a
 * program makes a heap for each request. It is described in each recording when it is first seen there.
 *
 * A table of open addresses has the numbers of entries, which lie side by side, so that a process with few heaps has few pages
 * of them. Who looks takes no lock; who makes or ends a heap does, for some steps. What there is no room for is one number,
 * OTHERS, which no reset ends. */
#include "event.h"
#include <sched.h>
#include <string.h>

enum {
  INDEX_LOG2 = 18,
  INDEX = 1 << INDEX_LOG2,
  LOOKS_MOST = 256,
  SLAB = 1024,
  SLABS = INDEX / SLAB,
  NAME_SIZE = 32,
  OTHERS = RECORDING_HEAPS_MOST,
  GONE = UINT32_MAX
};

typedef struct entry {
  uintptr_t heap, parent, overflow;
  uint64_t size;
  uint32_t number;  /* from 1 on, its place; 0: the entry was never used */
  uint32_t written; /* the recording that it is described in */
  uint32_t next;    /* that is unused */
  bool is_described;
  char name[NAME_SIZE];
} entry_t;

static uint32_t *numbers;     /* INDEX of them; NULL: no heap was seen yet */
static entry_t *slabs[SLABS]; /* SLAB entries each */
static uint32_t made, unused, lock;

const char *(*heap_name_of)(const void *heap);

static void enter_lock(void)
{
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
    sched_yield();
}

static void leave_lock(void) { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }

void heaps_go_on_in_child(void) { leave_lock(); }

static entry_t *entry_at(uint32_t number) { return &slabs[(number - 1) / SLAB][(number - 1) % SLAB]; }

static size_t home_of(const void *heap)
{
  return (size_t)(((uint64_t)(uintptr_t)heap >> 4) * 0x9e3779b97f4a7c15u >> (64 - INDEX_LOG2));
}

/* Where its number is; NULL: nowhere. */
static uint32_t *find_place(const void *heap)
{
  uint32_t *of = __atomic_load_n(&numbers, __ATOMIC_ACQUIRE);
  size_t i = home_of(heap);
  for (unsigned looks = 0; of && looks < LOOKS_MOST; looks++, i = (i + 1) % INDEX) {
    uint32_t number = __atomic_load_n(&of[i], __ATOMIC_ACQUIRE);
    if (!number)
      return NULL;
    if (number != GONE && __atomic_load_n(&entry_at(number)->heap, __ATOMIC_RELAXED) == (uintptr_t)heap)
      return &of[i];
  }
  return NULL;
}

static entry_t *find(const void *heap)
{
  const uint32_t *place = find_place(heap);
  uint32_t number = place ? __atomic_load_n(place, __ATOMIC_RELAXED) : 0;
  return number && number != GONE ? entry_at(number) : NULL;
}

/* ---- under the lock ---- */

static uint32_t *free_place(const void *heap)
{
  size_t i = home_of(heap);
  for (unsigned looks = 0; looks < LOOKS_MOST; looks++, i = (i + 1) % INDEX)
    if (!numbers[i] || numbers[i] == GONE)
      return &numbers[i];
  return NULL;
}

/* NULL: no memory, or there are too many. */
static entry_t *take_entry(void)
{
  if (unused) {
    entry_t *entry = entry_at(unused);
    unused = entry->next;
    return entry;
  }
  size_t slab = made / SLAB;
  if (slab == SLABS || (!slabs[slab] && !(slabs[slab] = take_memory(SLAB * sizeof(entry_t)))))
    return NULL;
  entry_t *entry = entry_at(++made);
  entry->number = made;
  return entry;
}

static entry_t *enter(const void *heap)
{
  if (!numbers)
    __atomic_store_n(&numbers, take_memory(INDEX * sizeof *numbers), __ATOMIC_RELEASE);
  entry_t *entry = numbers ? find(heap) : NULL;
  uint32_t *place = numbers && !entry ? free_place(heap) : NULL;
  if (!place || !(entry = take_entry()))
    return entry;
  entry->is_described = false;
  entry->parent = entry->overflow = 0;
  __atomic_store_n(&entry->written, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&entry->heap, (uintptr_t)heap, __ATOMIC_RELAXED);
  __atomic_store_n(place, entry->number, __ATOMIC_RELEASE);
  return entry;
}

/* ---- for events ---- */

static void write_heap(const entry_t *entry, recording_kind_t kind, uint32_t parent)
{
  const char *name = entry->is_described ? entry->name : "";
  if (!entry->is_described && kind == RECORDING_KIND_HEAP && heap_name_of)
    name = heap_name_of((const void *)entry->heap);
  size_t length = name ? strnlen(name, NAME_SIZE) : 0;
  uint64_t now = recorder_now();
  if (!stream_has_room(RECORDING_EVENT_MOST + NAME_SIZE))
    return;
  uint8_t *first = begin_put();
  put_time(now);
  put_number(entry->number);
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
  entry_t *entry = heap ? find(heap) : NULL;
  if (heap && !entry) {
    enter_lock();
    entry = enter(heap);
    leave_lock();
  }
  if (!entry)
    return heap ? OTHERS : 0;
  if (unlikely(__atomic_load_n(&entry->written, __ATOMIC_RELAXED) != recorder_number) &&
      __atomic_exchange_n(&entry->written, recorder_number, __ATOMIC_RELAXED) != recorder_number)
    write_heap(entry, kind, heap_number((const void *)entry->parent, RECORDING_KIND_HEAP));
  return entry->number;
}

uint64_t heap_size(const void *heap)
{
  const entry_t *entry = find(heap);
  return entry && entry->is_described ? entry->size : 0;
}

const void *heap_parent(const void *heap)
{
  const entry_t *entry = heap ? find(heap) : NULL;
  return entry ? (const void *)entry->parent : NULL;
}

const void *heap_overflow(const void *heap)
{
  const entry_t *entry = heap ? find(heap) : NULL;
  return entry ? (const void *)entry->overflow : NULL;
}

/* A handler that makes a heap while the thread is in here would wait for itself: its heap is known by name alone. */
static bool begin_change(void)
{
  if (self.busy)
    return false;
  self.busy = true;
  enter_lock();
  return true;
}

static void end_change(void)
{
  leave_lock();
  self.busy = false;
}

/* The heap is new, so no other thread knows its address. One that had it before, and went with another, has its entry. */
void heap_describe(const void *heap, const void *parent, const void *overflow, uint64_t size, const char *name)
{
  if (!begin_change())
    return;
  entry_t *entry = enter(heap);
  if (entry) {
    size_t length = name ? strnlen(name, NAME_SIZE - 1) : 0;
    entry->parent = (uintptr_t)parent;
    entry->overflow = (uintptr_t)overflow;
    entry->size = size;
    entry->is_described = true;
    memcpy(entry->name, name ? name : "", length);
    entry->name[length] = '\0';
    __atomic_store_n(&entry->written, 0, __ATOMIC_RELAXED);
  }
  end_change();
}

/* It is about to end, and has no block any more: its number is another's next. */
void heap_forget(const void *heap)
{
  if (!find(heap) || !begin_change())
    return;
  uint32_t *place = find_place(heap);
  if (place) {
    entry_t *entry = entry_at(*place);
    __atomic_store_n(place, GONE, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->heap, 0, __ATOMIC_RELAXED);
    entry->next = unused;
    unused = entry->number;
  }
  end_change();
}
