/* SPDX-License-Identifier: MIT */
#include "plan.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE_BITS = 54, SAMPLE_ENDS = 2 };

typedef struct thread {
  uint32_t first, last; /* batch */
} thread_t;

typedef struct maker {
  FILE *to;
  plan_t plan;
  uint64_t operations;
  batch_t *batches;
  uint32_t batch_room;
  thread_t *threads;
  uint32_t thread_room;
} maker_t;

/* The array with at least twice the room; NULL: no memory, and it is as it was. */
static void *grown(void *array, uint32_t *room, size_t size)
{
  uint32_t larger = *room ? *room * 2 : 1024;
  void *moved = larger > *room ? realloc(array, larger * size) : NULL;
  if (moved)
    *room = larger;
  return moved;
}

/* ---- batches ---- */

static bool grow_batches(maker_t *maker)
{
  batch_t *batches = grown(maker->batches, &maker->batch_room, sizeof *batches);
  if (batches)
    maker->batches = batches;
  return batches != NULL;
}

static bool grow_threads(maker_t *maker)
{
  uint32_t before = maker->thread_room;
  thread_t *threads = grown(maker->threads, &maker->thread_room, sizeof *threads);
  for (uint32_t i = before; threads && i < maker->thread_room; i++)
    threads[i] = (thread_t){PLAN_NONE, PLAN_NONE};
  if (threads)
    maker->threads = threads;
  return threads != NULL;
}

static bool has_thread(maker_t *maker, uint32_t thread)
{
  while (thread >= maker->thread_room)
    if (!grow_threads(maker))
      return false;
  maker->plan.thread_count = thread >= maker->plan.thread_count ? thread + 1 : maker->plan.thread_count;
  return true;
}

static bool begin_batch(maker_t *maker, uint32_t thread)
{
  uint32_t number = maker->plan.batch_count;
  if ((number + 1 >= maker->batch_room && !grow_batches(maker)) || !has_thread(maker, thread))
    return false;
  thread_t *of = &maker->threads[thread];
  if (of->first == PLAN_NONE)
    of->first = number;
  else
    maker->batches[of->last].next = number;
  of->last = number;
  maker->batches[number] = (batch_t){(uint32_t)maker->operations, thread, PLAN_NONE};
  maker->plan.batch_count++;
  return true;
}

/* ---- operations ---- */

static operation_t operation_of(const event_t *event)
{
  uint64_t size = event->size < UINT64_C(1) << SIZE_BITS ? event->size : (UINT64_C(1) << SIZE_BITS) - 1;
  return (operation_t){.slot = event->slot,
                       .op = event->op,
                       .alignment_log2 = event->alignment_log2,
                       .size_high = (uint32_t)(size >> 32) & ((1u << (SIZE_BITS - 32)) - 1),
                       .size_low = (uint32_t)size};
}

static bool add_operation(maker_t *maker, const event_t *event)
{
  operation_t operation = operation_of(event);
  uint32_t thread = event->thread ? event->thread - 1 : 0;
  uint32_t count = maker->plan.batch_count;
  bool goes_on = count && maker->batches[count - 1].thread == thread;
  if (maker->operations == PLAN_NONE - 1 || (!goes_on && !begin_batch(maker, thread)))
    return false;
  maker->operations++;
  if (event->slot >= maker->plan.slot_count)
    maker->plan.slot_count = event->slot + 1;
  return fwrite(&operation, sizeof operation, 1, maker->to) == 1;
}

static bool add_operations(maker_t *maker, recording_t *recording)
{
  const recording_facts_t *facts = recording_facts(recording);
  uint64_t peak = 0;
  event_t event;
  while (recording_next(recording, &event)) {
    if (event.op < RECORDING_ALLOC || event.op > RECORDING_REALLOC)
      continue;
    if (!add_operation(maker, &event))
      return false;
    if (facts->peak_bytes > peak)
      maker->plan.peak_operation = (uint32_t)maker->operations;
    peak = facts->peak_bytes;
  }
  maker->plan.end_bytes = facts->live_bytes;
  maker->plan.end_blocks = facts->live_blocks;
  maker->plan.peak_bytes = facts->peak_bytes;
  return !recording_error(recording);
}

/* ---- the file ---- */

/* At equal distances, and where most is live, in their order. */
static bool write_samples(maker_t *maker)
{
  uint32_t samples[PLAN_SAMPLES + SAMPLE_ENDS], count = 0, peak = maker->plan.peak_operation;
  bool has_peak = false;
  for (uint32_t i = 1; i <= PLAN_SAMPLES; i++) {
    uint32_t at = (uint32_t)(maker->operations * i / PLAN_SAMPLES);
    if (!has_peak && peak <= at) {
      samples[count++] = peak;
      has_peak = true;
    }
    if (!count || samples[count - 1] < at)
      samples[count++] = at;
  }
  maker->plan.sample_count = count;
  return fwrite(samples, sizeof *samples, count, maker->to) == count;
}

/* Where the next part is, which begins at a multiple of eight. */
static uint64_t next_part(FILE *to)
{
  while (ftell(to) % 8)
    fputc(0, to);
  return (uint64_t)ftell(to);
}

static bool write_rest(maker_t *maker)
{
  plan_t *plan = &maker->plan;
  size_t batches = plan->batch_count + 1u;
  maker->batches[plan->batch_count] = (batch_t){(uint32_t)maker->operations, PLAN_NONE, PLAN_NONE};
  plan->operation_count = (uint32_t)maker->operations;
  plan->batches_at = next_part(maker->to);
  if (fwrite(maker->batches, sizeof *maker->batches, batches, maker->to) != batches)
    return false;
  plan->threads_at = next_part(maker->to);
  for (uint32_t i = 0; i < plan->thread_count; i++)
    fwrite(&maker->threads[i].first, sizeof maker->threads[i].first, 1, maker->to);
  plan->samples_at = next_part(maker->to);
  if (!write_samples(maker))
    return false;
  plan->bytes = next_part(maker->to);
  rewind(maker->to);
  return fwrite(plan, sizeof *plan, 1, maker->to) == 1 && fflush(maker->to) == 0 && !ferror(maker->to);
}

static bool make(maker_t *maker, recording_t *recording, char why[256])
{
  errno = ENOMEM;
  maker->plan.magic = PLAN_MAGIC;
  maker->plan.stop = PLAN_NONE;
  bool is_made = grow_batches(maker) && fwrite(&maker->plan, sizeof maker->plan, 1, maker->to) == 1;
  maker->plan.operations_at = is_made ? next_part(maker->to) : 0;
  if (!is_made || !add_operations(maker, recording))
    snprintf(why, 256, "%s", maker->operations == PLAN_NONE - 1 ? "it has more than 4,294,967,294 events" : strerror(errno));
  else if (!maker->operations)
    snprintf(why, 256, "there is no event in it");
  else if (write_rest(maker))
    return true;
  else
    snprintf(why, 256, "%s", strerror(errno));
  return false;
}

/* The descriptor stays where the stream goes. */
int plan_make(recording_t *recording, char why[256])
{
  maker_t maker = {.to = NULL};
  int file = memfd_create("tidepool-replay", MFD_CLOEXEC), kept = file >= 0 ? dup(file) : -1;
  maker.to = file >= 0 ? fdopen(file, "w+") : NULL;
  if (!maker.to || kept < 0)
    snprintf(why, 256, "%s", strerror(errno));
  bool is_made = maker.to && kept >= 0 && make(&maker, recording, why);
  if (maker.to)
    fclose(maker.to);
  if (!is_made && kept >= 0)
    close(kept);
  free(maker.batches);
  free(maker.threads);
  return is_made ? kept : -1;
}

plan_t *plan_map(int file)
{
  struct stat about;
  if (fstat(file, &about) != 0 || about.st_size < (off_t)sizeof(plan_t))
    return NULL;
  void *mapped = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  plan_t *plan = mapped != MAP_FAILED ? mapped : NULL;
  return plan && plan->magic == PLAN_MAGIC && plan->bytes <= (uint64_t)about.st_size ? plan : NULL;
}
