/* SPDX-License-Identifier: MIT */
#include "simulate.h"
#include "../unit/os_fake.h"
#include "replay/plan.h"
#include "replay/touch.h"
#include "space/space.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tidepool/pool.h>
#include <unistd.h>

enum { SAMPLES = 400, NS_PER_MS = 1000000, ROLLUP_BYTES = 2048 };

typedef struct memory {
  uint64_t resident, huge;
} memory_t;

/* One process has one run. */
static const trace_t *trace;
static const policy_t *policy;
static outcome_t *outcome;
static plan_slot_t *slots;
static size_t page;
static int rollup;
static memory_t before;
static uint64_t began_ms, next_trim_ms, next_sample_ns, sample_ns, samples, live, wishes;

static void *map(size_t size, int flags)
{
  void *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_POPULATE | flags, -1, 0);
  return mapped == MAP_FAILED ? NULL : mapped;
}

/* ---- resident memory ---- */

static uint64_t kilobytes_of(const char *text, const char *key)
{
  const char *line = strstr(text, key);
  return line ? strtoull(line + strlen(key), NULL, 10) << 10 : 0;
}

/* The counters in statm are exact to some pages for each processor only; this file counts pages. */
static memory_t look(void)
{
  char text[ROLLUP_BYTES];
  ssize_t length = pread(rollup, text, sizeof text - 1, 0);
  text[length > 0 ? length : 0] = '\0';
  memory_t now = {kilobytes_of(text, "\nAnonymous:"), kilobytes_of(text, "\nAnonHugePages:")};
  return (memory_t){now.resident - before.resident, now.huge - before.huge};
}

static memory_t look_for_peak(void)
{
  memory_t now = look();
  outcome->peak = now.resident > outcome->peak ? now.resident : outcome->peak;
  return now;
}

/* Nothing changes between two calls, so one look stands for all samples that are due. */
static void sample_until(uint64_t ns)
{
  if (ns < next_sample_ns)
    return;
  memory_t now = look_for_peak();
  uint64_t due = (ns - next_sample_ns) / sample_ns + 1;
  outcome->mean += due * now.resident;
  outcome->huge_mean += due * now.huge;
  outcome->live_mean += due * live;
  samples += due;
  next_sample_ns += due * sample_ns;
}

/* ---- calls ---- */

/* The first call only drains. One byte keeps the second from purging slabs, which is for who keeps nothing. */
static void trim(void)
{
  pool_trim(SIZE_MAX);
  size_t dirty = space_figures(&space_of_process).dirty_bytes;
  pool_trim(policy->kept_percent ? dirty / 100 * policy->kept_percent + 1 : 0);
}

static void move_clock(uint64_t ns)
{
  os_fake.now_ms = began_ms + ns / NS_PER_MS;
  for (; policy->trim_ms && os_fake.now_ms >= next_trim_ms; next_trim_ms += policy->trim_ms)
    trim();
}

static char *call(const act_t *act, char *block)
{
  switch (act->op) {
  case RECORDING_ALLOC:
    return pool_alloc(act->size);
  case RECORDING_ZEROED:
    return pool_zalloc(act->size);
  case RECORDING_ALIGNED:
    return pool_aligned_alloc((size_t)1 << act->alignment_log2, act->size);
  case RECORDING_REALLOC:
    return pool_realloc(block, act->size ? act->size : 1); /* 0 would free it */
  default:
    pool_free(block);
    return NULL;
  }
}

static uint64_t written(uint64_t size)
{
  return size / 100 * policy->written_percent + size % 100 * policy->written_percent / 100;
}

static void play(const act_t *act)
{
  plan_slot_t *slot = &slots[act->slot];
  bool frees = act->op == RECORDING_FREE;
  char *got = call(act, slot->block);
  if (!got && !frees) {
    outcome->failed++;
    return;
  }
  live += (frees ? 0 : act->size) - slot->size;
  if (!frees)
    touch(got, act->op == RECORDING_REALLOC ? written(slot->size) : 0, written(act->size), page);
  *slot = (plan_slot_t){got, frees ? 0 : act->size};
  if (live <= outcome->live_peak)
    return;
  outcome->live_peak = live;
  if (live == trace->facts.peak_bytes)
    look_for_peak(); /* samples miss a short peak */
}

static void play_all(void)
{
  for (size_t i = 0; i < trace->count; i++) {
    const act_t *act = &trace->acts[i];
    sample_until(act->ns);
    move_clock(act->ns);
    play(act);
  }
  sample_until(trace->facts.last_ns);
}

/* ---- a run ---- */

static void wish(const char *address, size_t size, bool wanted)
{
  wishes++;
  madvise((void *)(uintptr_t)address, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

static uint64_t faults(void)
{
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

/* The system's own setting would give huge pages to a policy that wants none. */
static void prepare(void)
{
  setenv("TIDEPOOL_OPTIONS", policy->options, 1);
  if (strstr(policy->options, "huge_pages=never"))
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  page = (size_t)sysconf(_SC_PAGESIZE);
  slots = map(trace->slots * sizeof *slots + 1, MAP_PRIVATE);
  os_fake_heal();
  os_fake.page_size = page;
  os_fake.wished = wish;
  began_ms = os_fake.now_ms;
  next_trim_ms = began_ms + policy->trim_ms;
  sample_ns = trace->facts.last_ns / SAMPLES + 1;
  next_sample_ns = sample_ns;
  rollup = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
  before = look();
}

static void note_outcome(void)
{
  static const os_call_t calls[] = {OS_MAP, OS_MAP_AT, OS_UNMAP, OS_PURGE, OS_REMAP, OS_PREFAULT, OS_OPEN, OS_CLOSE};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    outcome->system_calls += os_fake.count[calls[i]];
  outcome->system_calls += wishes + os_fake.splits;
  outcome->returns = os_fake.count[OS_PURGE] + os_fake.count[OS_UNMAP];
  outcome->end = look().resident;
  outcome->mean /= samples;
  outcome->huge_mean /= samples;
  outcome->live_mean /= samples;
  outcome->live_end = live;
}

_Noreturn static void run(void)
{
  prepare();
  if (!slots || rollup < 0 || !before.resident)
    _exit(1);
  uint64_t faults_before = faults();
  play_all();
  outcome->faults = faults() - faults_before;
  note_outcome();
  outcome->is_done = true;
  _exit(0);
}

bool simulate(const trace_t *of, const policy_t *with, outcome_t *result)
{
  trace = of;
  policy = with;
  outcome = map(sizeof *outcome, MAP_SHARED);
  pid_t child = outcome ? fork() : -1;
  if (child == 0)
    run();
  bool is_done = child > 0 && waitpid(child, NULL, 0) == child && outcome->is_done;
  if (is_done)
    *result = *outcome;
  if (outcome)
    munmap(outcome, sizeof *outcome);
  return is_done;
}
