/* SPDX-License-Identifier: MIT
 *
 * The map of a recorded program at a moment: a process of its own does what was recorded up to then on this malloc, and waits
 * to be looked at. Of each block that is live then it is known how much was asked for, when and where. */
#include "command.h"
#include "map_process.h"
#include "recording/trace.h"
#include "replay/replay.h"
#include "start/preload.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 50000000 };

/* ---- the moment ---- */

typedef struct block {
  uint64_t size, since;
  uint32_t site;
  bool is_live;
} block_t;

static void *take_array(size_t count, size_t size)
{
  void *array = calloc(count + 1, size);
  if (!array)
    command_fail(COMMAND_FAILED, "map: no memory");
  return array;
}

/* So many of what was done are done up to the moment. */
static size_t stop_of(const trace_t *trace, const plan_t *plan, uint64_t at)
{
  size_t count = 0;
  if (at == MAP_AT_PEAK)
    return plan->peak_operation;
  while (count < trace->count && (at == MAP_AT_END || trace->acts[count].ns <= at))
    count++;
  return count;
}

static block_t *blocks_at(const trace_t *trace, size_t stop)
{
  block_t *blocks = take_array(trace->slots, sizeof *blocks);
  for (size_t i = 0; i < stop; i++) {
    const act_t *act = &trace->acts[i];
    blocks[act->slot] = (block_t){act->size, act->ns, act->site, act->op != RECORDING_FREE};
  }
  return blocks;
}

/* ---- the process ---- */

static plan_t *make_plan(const char *path, int *file)
{
  char why[256] = "";
  recording_t *recording = recording_open(path, why);
  *file = recording ? plan_make(recording, why) : -1;
  plan_t *plan = *file >= 0 ? plan_map(*file) : NULL;
  if (recording)
    recording_close(recording);
  if (*file < 0)
    command_fail(1, "map: %s: %s", path, why);
  if (!plan || fcntl(*file, F_SETFD, 0) != 0)
    command_fail(COMMAND_FAILED, "map: no memory");
  return plan;
}

/* What the user has set stays, but it shares where its heaps are, and says nothing at its end. */
static void set_options(void)
{
  const char *given = getenv("TIDEPOOL_OPTIONS");
  preload_set("map", "TIDEPOOL_OPTIONS", COMMAND_JOIN(given ? given : "", given && *given ? "," : "", "export=1"));
}

static void wait_for(pid_t pid, plan_t *plan, const char *path)
{
  int status = 0;
  while (!__atomic_load_n(&plan->is_there, __ATOMIC_ACQUIRE)) {
    syscall(SYS_futex, &plan->is_there, FUTEX_WAIT, 0, &(struct timespec){0, LOOK_NS}, NULL, 0);
    if (waitpid(pid, &status, WNOHANG) != pid)
      continue;
    if (WIFSIGNALED(status))
      command_fail(COMMAND_FAILED, "map: %s: signal %d ended what does it again: %s", path, WTERMSIG(status),
                   strsignal(WTERMSIG(status)));
    command_fail(COMMAND_FAILED, "map: %s: what does it again ended early%s%s", path, *plan->result.why ? ": " : "",
                 plan->result.why);
  }
}

static void end(pid_t pid)
{
  kill(pid, SIGKILL);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
    continue;
}

/* ---- its blocks ---- */

static plan_slot_t *read_slots(pid_t pid, const plan_t *plan)
{
  plan_slot_t *slots = take_array(plan->slot_count, sizeof *slots);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  size_t bytes = plan->slot_count * sizeof *slots, got = 0;
  for (ssize_t more = 1; more > 0 && got<bytes; got += more> 0 ? (size_t)more : 0)
    more = pread(file, (char *)slots + got, bytes - got, (off_t)(plan->slots + got));
  if (file >= 0)
    close(file);
  if (got < bytes)
    command_fail(COMMAND_FAILED, "map: what does it again cannot be read");
  return slots;
}

static void note_blocks(map_t *map, const plan_t *plan, const plan_slot_t *slots, const block_t *blocks, uint64_t now)
{
  free(map->blocks);
  map->blocks = take_array(plan->slot_count, sizeof *map->blocks);
  map->block_count = 0;
  for (uint32_t i = 0; i < plan->slot_count; i++)
    if (blocks[i].is_live && slots[i].block)
      map->blocks[map->block_count++] =
        (map_block_t){(uintptr_t)slots[i].block, blocks[i].size, now - blocks[i].since, blocks[i].site};
  map_order_blocks(map);
}

/* ---- all ---- */

static void describe(map_source_t *source, const trace_t *trace, size_t stop, uint64_t at)
{
  source->title = strdup(trace->program);
  if (!source->title)
    command_fail(COMMAND_FAILED, "map: no memory");
  source->last = (double)trace->facts.last_ns / 1e9;
  source->seconds = stop ? (double)trace->acts[stop - 1].ns / 1e9 : 0;
  if (at < MAP_AT_END)
    source->seconds = (double)at / 1e9;
  source->is_peak = at == MAP_AT_PEAK;
  source->end_bytes = trace->facts.live_bytes;
  source->at_bytes = trace->facts.peak_bytes;
}

void map_recording(map_t *map, map_source_t *source, const char *path, const char *library, uint64_t at)
{
  trace_t trace;
  char why[256] = "";
  int file;
  trace_read(&trace, "map", path, callers_visit, &source->callers);
  plan_t *plan = make_plan(path, &file);
  size_t stop = stop_of(&trace, plan, at);
  replay_check_memory("map", path, plan->peak_bytes);
  if (trace.heaps.count > 1)
    command_say("map: %s: the blocks of all its heaps are in one heap here", path);
  source->callers.process = trace.facts.head.pid;
  callers_name(&source->callers, trace.facts.head.started_ns, "map");
  plan->stop = (uint32_t)stop;
  set_options();
  pid_t pid = replay_start(file, "map", library, false);
  if (!pid)
    command_fail(COMMAND_FAILED, "map: %s", strerror(errno));
  wait_for(pid, plan, path);
  bool is_read = map_process(map, NULL, pid, why);
  plan_slot_t *slots = is_read ? read_slots(pid, plan) : NULL;
  end(pid);
  if (!is_read)
    command_fail(COMMAND_FAILED, "map: %s: what does it again: %s", path, why);
  block_t *blocks = blocks_at(&trace, stop);
  note_blocks(map, plan, slots, blocks, stop ? trace.acts[stop - 1].ns : 0);
  map->huge = (map_huge_t){.why = "a recording says nothing of pages"};
  map_keep_known(map);
  describe(source, &trace, stop, at);
  free(blocks);
  free(slots);
  trace_free(&trace);
}
