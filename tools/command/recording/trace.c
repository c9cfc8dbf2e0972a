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
                                        .site = event->site};
  trace->slots = event->slot >= trace->slots ? event->slot + 1 : trace->slots;
}

void trace_read(trace_t *trace, const char *command, const char *path, trace_visit_fn *visit, void *context)
{
  char text[256] = "";
  size_t room = 0;
  event_t event;
  *trace = (trace_t){.acts = NULL};
  recording_t *recording = recording_open(path, text);
  if (!recording)
    command_fail(1, "%s: %s: %s", command, path, text);
  while (recording_next(recording, &event))
    if (is_act(&event))
      add(trace, &event, &room, command);
    else if (visit && (event.op == RECORDING_SITE || event.op == RECORDING_MODULE))
      visit(&event, context);
  if (recording_error(recording))
    command_fail(COMMAND_FAILED, "%s: %s: %s", command, path, recording_error(recording));
  trace->facts = *recording_facts(recording);
  if (recording_lacks(&trace->facts, text))
    command_say("%s: %s: %s", command, path, text);
  trace->program = strdup(trace->facts.command ? trace->facts.command : "");
  if (!trace->program)
    command_fail(COMMAND_FAILED, "%s: no memory", command);
  recording_close(recording);
  trace->facts.command = NULL; /* it went with the recording */
}

void trace_free(trace_t *trace)
{
  free(trace->acts);
  free(trace->program);
}
