/* SPDX-License-Identifier: MIT */
#include "heap_names.h"
#include "utf8.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool heap_names_begin(heap_names_t *names)
{
  *names = (heap_names_t){.names = calloc(HEAP_NAMES_MOST, sizeof *names->names), .count = 1};
  if (names->names)
    names->names[0].name = strdup("malloc");
  return names->names && names->names[0].name;
}

void heap_names_free(heap_names_t *names)
{
  for (uint32_t i = 0; names->names && i < names->count; i++)
    free(names->names[i].name);
  free(names->names);
  free(names->by_heap);
  *names = (heap_names_t){.names = NULL};
}

static bool grow(heap_names_t *names, uint32_t heap)
{
  uint32_t count = heap < 64 ? 128 : heap * 2;
  uint16_t *by_heap = realloc(names->by_heap, count * sizeof *by_heap);
  if (!by_heap)
    return false;
  memset(by_heap + names->heap_count, 0, (count - names->heap_count) * sizeof *by_heap);
  names->by_heap = by_heap;
  names->heap_count = count;
  return true;
}

static uint32_t take_number(heap_names_t *names)
{
  uint32_t number = names->count < HEAP_NAMES_MOST - 1 ? names->count : HEAP_NAMES_MOST - 1;
  names->count = number + 1;
  if (number == HEAP_NAMES_MOST - 1 && !names->names[number].name)
    names->names[number].name = strdup("other heaps");
  return number;
}

uint32_t heap_names_of(heap_names_t *names, uint32_t heap)
{
  if (!heap || (heap >= names->heap_count && !grow(names, heap)))
    return 0;
  if (!names->by_heap[heap])
    names->by_heap[heap] = (uint16_t)take_number(names);
  return names->by_heap[heap];
}

static bool is_same(const heap_name_t *one, const heap_name_t *other)
{
  return one->name && other->name && one->kind == other->kind && !strcmp(one->name, other->name);
}

static uint32_t number_like(const heap_names_t *names, const heap_name_t *wanted)
{
  uint32_t number = 1;
  while (number < names->count && !is_same(&names->names[number], wanted))
    number++;
  return number;
}

static char *clean_copy(const char *text)
{
  char *copy = strdup(text);
  if (copy)
    utf8_clean(copy);
  return copy;
}

/* The name of an object pool is known where it was made alone. */
static char *name_of(const event_t *event)
{
  char *name = NULL;
  if (*event->name)
    return clean_copy(event->name);
  if (event->kind == RECORDING_KIND_OBJECT_POOL && event->size)
    return asprintf(&name, "objects of %llu B", (unsigned long long)event->size) < 0 ? NULL : name;
  return strdup(event->kind == RECORDING_KIND_OBJECT_POOL ? "object pools" : "heaps without a name");
}

bool heap_names_describe(heap_names_t *names, const event_t *event)
{
  heap_name_t name = {name_of(event), event->size, (recording_kind_t)event->kind};
  if (!name.name || !event->heap || (event->heap >= names->heap_count && !grow(names, event->heap))) {
    free(name.name);
    return name.name && !event->heap;
  }
  uint32_t number = names->by_heap[event->heap];
  bool is_late = number && !names->names[number].name;
  uint32_t like = is_late ? number : number_like(names, &name);
  if (like == names->count)
    like = take_number(names);
  names->by_heap[event->heap] = (uint16_t)like;
  heap_name_t *to = &names->names[like];
  if (to->name || !name.name) {
    to->size = to->size == name.size ? to->size : 0;
    free(name.name);
  } else
    *to = name;
  return true;
}

uint32_t heap_names_named(heap_names_t *names, const char *text)
{
  heap_name_t name = {clean_copy(text), 0, RECORDING_KIND_HEAP};
  uint32_t number = name.name ? number_like(names, &name) : 0;
  if (number && number == names->count)
    number = take_number(names);
  if (number && !names->names[number].name)
    names->names[number] = name;
  else
    free(name.name);
  return number;
}

void heap_names_end(heap_names_t *names, uint32_t to[HEAP_NAMES_MOST])
{
  uint32_t count = 1;
  to[0] = 0;
  for (uint32_t i = 1; i < names->count; i++) {
    heap_name_t *name = &names->names[i];
    const heap_names_t before = {.names = names->names, .count = count};
    to[i] = name->name ? number_like(&before, name) : count;
    if (to[i] == count)
      names->names[count++] = *name;
    else {
      heap_name_t *same = &names->names[to[i]];
      same->size = same->size == name->size ? same->size : 0;
      free(name->name);
    }
  }
  names->count = count;
}
