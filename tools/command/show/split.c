/* SPDX-License-Identifier: MIT */
#include "split.h"
#include "command.h"
#include <stdlib.h>
#include <string.h>

typedef struct pair {
  uint32_t site, heap; /* heap 0: there is none here */
  uint32_t stack;
} pair_t;

enum { PAIRS_LEAST = 64 };

static void *checked(void *memory)
{
  if (!memory)
    command_fail(COMMAND_FAILED, "no memory");
  return memory;
}

static pair_t *place_of(pair_t *pairs, size_t size, uint32_t site, uint32_t heap)
{
  size_t i = (size_t)(((uint64_t)site << 12 ^ heap) * 0x9e3779b97f4a7c15u >> 20) & (size - 1);
  while (pairs[i].heap && (pairs[i].site != site || pairs[i].heap != heap))
    i = (i + 1) & (size - 1);
  return &pairs[i];
}

void split_begin(split_t *split, callers_t *callers, const heap_names_t *heaps, size_t stack_most)
{
  *split = (split_t){.callers = callers, .heaps = heaps, .size = PAIRS_LEAST, .stack_most = stack_most};
  split->pairs = checked(calloc(PAIRS_LEAST, sizeof *split->pairs));
  split->of_heap = checked(calloc(heaps->count + 1, sizeof *split->of_heap));
}

void split_end(split_t *split)
{
  free(split->pairs);
  free(split->of_heap);
}

static void grow(split_t *split)
{
  size_t size = split->size * 2;
  pair_t *pairs = checked(calloc(size, sizeof *pairs));
  for (size_t i = 0; i < split->size; i++)
    if (split->pairs[i].heap)
      *place_of(pairs, size, split->pairs[i].site, split->pairs[i].heap) = split->pairs[i];
  free(split->pairs);
  split->pairs = pairs;
  split->size = size;
}

/* heap "sessions" */
static uint32_t name_of_heap(split_t *split, uint32_t heap)
{
  callers_t *callers = split->callers;
  const heap_name_t *of = &split->heaps->names[heap];
  if (split->of_heap[heap])
    return split->of_heap[heap] - 1;
  const char *kind = of->kind == RECORDING_KIND_OBJECT_POOL ? "object pool" : "heap";
  callers->names = checked(reallocarray(callers->names, callers->name_count + 1, sizeof *callers->names));
  callers->names[callers->name_count] = COMMAND_JOIN(kind, " \"", of->name ? of->name : "?", "\"");
  split->of_heap[heap] = (uint32_t)++callers->name_count;
  return split->of_heap[heap] - 1;
}

static uint32_t add_stack(split_t *split, uint32_t site, uint32_t heap)
{
  callers_t *callers = split->callers;
  uint32_t number = (uint32_t)callers->stack_count, name = name_of_heap(split, heap);
  callers->stacks = checked(reallocarray(callers->stacks, number + 1u, sizeof *callers->stacks));
  callers->same = checked(reallocarray(callers->same, number + 2u, sizeof *callers->same));
  call_stack_t stack = {.count = 0}, *before = site < number ? &callers->stacks[site] : NULL;
  stack.count = (before ? before->count : 0) + 1;
  stack.names = checked(calloc(stack.count, sizeof *stack.names));
  if (before && before->count)
    memcpy(stack.names, before->names, before->count * sizeof *stack.names);
  stack.names[stack.count - 1] = name;
  callers->stacks[number] = stack;
  callers->same[number] = number;
  callers->stack_count++;
  return number;
}

static bool is_plain(const heap_name_t *heap)
{
  return heap->kind == RECORDING_KIND_HEAP && heap->name && !strcmp(heap->name, "default");
}

uint32_t split_stack(split_t *split, uint32_t site, uint32_t heap)
{
  const callers_t *callers = split->callers;
  site = site < callers->stack_count ? callers->same[site] : 0;
  if (!heap || is_plain(&split->heaps->names[heap]))
    return site;
  pair_t *pair = place_of(split->pairs, split->size, site, heap);
  if (pair->heap)
    return pair->stack;
  if (split->stack_most && callers->stack_count + 1 >= split->stack_most)
    return site;
  *pair = (pair_t){site, heap, add_stack(split, site, heap)};
  uint32_t stack = pair->stack;
  if (++split->pair_count * 2 > split->size)
    grow(split);
  return stack;
}
