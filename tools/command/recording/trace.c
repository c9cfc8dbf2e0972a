/* SPDX-License-Identifier: MIT */
#include "trace.h"
#include "command.h"
#include <stdlib.h>
#include <string.h>

#define SIZE_MOST (((uint64_t)1 << 48) - 1)

/* What an allocator did not serve is no block. */
static bool is_act(const event_t *event) { return event->op && event->op <= RECORDING_REALLOC; }

static void add(trace_t *trace, const event_t *event, size_t *room, const char *command)
{
  if (trace->count == *room) {
    *room = *room * 2 + 4096;
    trace->acts = reallocarray(trace->acts, *room, sizeof *trace->acts);
    if (!trace->acts)
      command_fail(COMMAND_FAILED, "%s: no memory", command);
  }
  trace->acts[trace->count++] = (act_t){.ns = event->ns,
                                        .size = event->size < SIZE_MOST ? event->size : SIZE_MOST,
                                        .op = (uint8_t)event->op,
                                        .alignment_log2 = event->alignment_log2,
                                        .slot = event->slot,
                                        .site = event->site <= RECORDING_SITES_MOST ? event->site : 0,
                                        .heap = heap_names_of(&trace->heaps, event->heap)};
  trace->slots = event->slot >= trace->slots ? event->slot + 1 : trace->slots;
}

static void put_heaps_together(trace_t *trace)
{
  uint32_t to[HEAP_NAMES_MOST];
  bool is_same = true;
  uint32_t before = trace->heaps.count;
  heap_names_end(&trace->heaps, to);
  for (uint32_t i = 0; i < before; i++)
    is_same &= to[i] == i;
  for (size_t i = 0; !is_same && i < trace->count; i++)
    trace->acts[i].heap = to[trace->acts[i].heap] & (HEAP_NAMES_MOST - 1);
}

void trace_read(trace_t *trace, const char *command, const char *path, trace_visit_fn *visit, void *context)
{
  char text[256] = "";
  size_t room = 0;
  event_t event;
  *trace = (trace_t){.acts = NULL};
  if (!heap_names_begin(&trace->heaps))
    command_fail(COMMAND_FAILED, "%s: no memory", command);
  recording_t *recording = recording_open(path, text);
  if (!recording)
    command_fail(1, "%s: %s: %s", command, path, text);
  while (recording_next(recording, &event))
    if (is_act(&event))
      add(trace, &event, &room, command);
    else if (event.op == RECORDING_HEAP && !heap_names_describe(&trace->heaps, &event))
      command_fail(COMMAND_FAILED, "%s: no memory", command);
    else if (visit && (event.op == RECORDING_SITE || event.op == RECORDING_MODULE))
      visit(&event, context);
  if (recording_error(recording))
    command_fail(COMMAND_FAILED, "%s: %s: %s", command, path, recording_error(recording));
  put_heaps_together(trace);
  trace->facts = *recording_facts(recording);
  if (recording_lacks(&trace->facts, text))
    command_say("%s: %s: %s", command, path, text);
  trace->program = strdup(trace->facts.command ? trace->facts.command : "");
  if (!trace->program)
    command_fail(COMMAND_FAILED, "%s: no memory", command);
  recording_close(recording);
  trace->facts.command = NULL; /* it went with the recording */
}

/* ---- one heap of it ---- */

static uint64_t peak_of(const trace_t *trace, const char *command)
{
  uint64_t *sizes = calloc((size_t)trace->slots + 1, sizeof *sizes), live = 0, peak = 0;
  if (!sizes)
    command_fail(COMMAND_FAILED, "%s: no memory", command);
  for (size_t i = 0; i < trace->count; i++) {
    const act_t *act = &trace->acts[i];
    uint64_t size = act->op == RECORDING_FREE ? 0 : act->size;
    live += size - sizes[act->slot];
    sizes[act->slot] = size;
    peak = live > peak ? live : peak;
  }
  free(sizes);
  return peak;
}

/* What a block is for the heap that is left: it may come from another, and go to one. */
static bool keep_act(act_t *act, bool was_there, bool is_there)
{
  if (act->op == RECORDING_REALLOC && was_there != is_there)
    act->op = is_there ? RECORDING_ALLOC : RECORDING_FREE;
  return was_there || is_there;
}

static bool *find_named(const trace_t *trace, const char *name, bool *is_any)
{
  bool *are_named = calloc(trace->heaps.count, sizeof *are_named);
  for (uint32_t i = 0; are_named && i < trace->heaps.count; i++) {
    are_named[i] = trace->heaps.names[i].name && !strcmp(trace->heaps.names[i].name, name);
    *is_any |= are_named[i];
  }
  return are_named;
}

bool trace_keep_heap(trace_t *trace, const char *command, const char *name)
{
  bool is_any = false, *are_named = find_named(trace, name, &is_any);
  bool *are_there = calloc((size_t)trace->slots + 1, sizeof *are_there);
  size_t count = 0;
  if (!are_named || !are_there)
    command_fail(COMMAND_FAILED, "%s: no memory", command);
  for (size_t i = 0; i < trace->count; i++) {
    act_t act = trace->acts[i];
    bool was_there = are_there[act.slot];
    are_there[act.slot] = act.op != RECORDING_FREE && are_named[act.heap];
    if (keep_act(&act, was_there, are_there[act.slot]))
      trace->acts[count++] = act;
  }
  free(are_named);
  free(are_there);
  trace->count = count;
  trace->facts.peak_bytes = peak_of(trace, command);
  return is_any;
}

void trace_must_keep_heap(trace_t *trace, const char *command, const char *path, const char *name)
{
  if (name && !trace_keep_heap(trace, command, name))
    command_fail(1, "%s: %s: there is no heap or object pool \"%s\" in it%s", command, path, name,
                 trace->heaps.count > 1 ? "; tidepool show lists them" : ", but malloc alone");
}

void trace_keep_until(trace_t *trace, const char *command, uint64_t ns)
{
  size_t count = 0;
  while (count < trace->count && trace->acts[count].ns <= ns)
    count++;
  trace->count = count;
  trace->facts.last_ns = ns < trace->facts.last_ns ? ns : trace->facts.last_ns;
  trace->facts.peak_bytes = peak_of(trace, command);
}

void trace_free(trace_t *trace)
{
  heap_names_free(&trace->heaps);
  free(trace->acts);
  free(trace->program);
}
