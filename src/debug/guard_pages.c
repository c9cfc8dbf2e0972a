/* SPDX-License-Identifier: MIT
 *
 * There are two guard areas. That of guarded heaps is long, and the mappings that the system allows limit its live places. That
 * of samples is so small that a program in production does not notice it. */
#include "debug/guard_pages.h"
#include "debug/guard_area.h"
#include "debug/messages.h"
#include "debug/sampling.h"
#include "option.h"
#include "os/tool.h"
#include "size_class.h"
#include <string.h>

enum {
  CANARY = 0xfb,
  GUARDED_FREED_MOST = 128 << 10, /* freed blocks that are remembered; all are inaccessible */
  MAPPINGS_OF = 8,                /* live blocks may use MAPPINGS_PART / MAPPINGS_OF */
  MAPPINGS_PART = 3,              /* of the mappings that the system allows */
  SAMPLED_BYTES = 16 << 20,       /* of addresses, with 32 KiB of page tables */
  SAMPLED_LIVE_MOST = 64,
  SAMPLED_FREED_MOST = 1 << 10,    /* some 200 bytes each */
  SAMPLED_MEMORY_MOST = 512 << 10, /* bytes of live samples */
  SAMPLED_SIZE_MOST = 128 << 10
};
#if UINTPTR_MAX > UINT32_MAX
#define GUARDED_BYTES ((size_t)64 << 30) /* eight million small blocks before addresses are reused */
#else
#define GUARDED_BYTES ((size_t)256 << 20)
#endif

static guard_area_t guarded = {.bytes_most = GUARDED_BYTES, .freed_most = GUARDED_FREED_MOST};
static guard_area_t sampled = {.bytes_most = SAMPLED_BYTES, .live_most = SAMPLED_LIVE_MOST, .freed_most = SAMPLED_FREED_MOST};
static size_t sampled_bytes; /* memory of live samples: a bound, which publishes nothing */

static guard_area_t *guard_area_around(const void *address)
{
  return guard_area_holds(&guarded, address) ? &guarded : guard_area_holds(&sampled, address) ? &sampled : NULL;
}

/* ---- canaries ---- */

static char *pages_end(const huge_standalone_t *of) { return huge_start(&of->huge) + (of->asked ? huge_size(&of->huge) : 0); }

static void write_canaries(const huge_standalone_t *of)
{
  char *end = standalone_block(of) + of->asked;
  if (!of->asked)
    return;
  memset(huge_start(&of->huge), CANARY, (size_t)(standalone_block(of) - huge_start(&of->huge)));
  memset(end, CANARY, (size_t)(pages_end(of) - end));
}

static _Noreturn void say_damage(const huge_standalone_t *of, const char *call, const char *what, ptrdiff_t offset)
{
  const guard_area_place_t *place = guard_area_place_at(guard_area_around(standalone_block(of)), standalone_block(of), false);
  fatal_say_places(&(frames_told_t){place->allocated, place->allocated_count}, &(frames_told_t){0});
  fatal_damage(call, standalone_block(of), what, offset, of->huge.owner, of->asked);
}

/* The wrong byte nearest to the block points to the culprit. */
READS_BESIDE_OWNER static void verify_canaries_of(const huge_standalone_t *of, const char *call)
{
  const char *block = standalone_block(of), *end = block + of->asked;
  if (!of->asked)
    return;
  for (const char *at = block; at > huge_start(&of->huge); at--)
    if (unlikely((unsigned char)at[-1] != CANARY))
      say_damage(of, call, BEFORE_ITS_BEGINNING, at - 1 - block);
  for (const char *at = end; at < pages_end(of); at++)
    if (unlikely((unsigned char)*at != CANARY))
      say_damage(of, call, PAST_ITS_END, at - block);
}

/* ---- the source of blocks ---- */

static uint8_t keep_frames(const void **to, const os_stack_t *stack)
{
  size_t count = stack ? min_size(stack->count, GUARD_AREA_FRAMES) : 0;
  for (size_t i = 0; i < count; i++)
    to[i] = stack->frames[i];
  return (uint8_t)count;
}

static void note_owner(guard_area_place_t *place, const heap_t *heap)
{
  place->owner = heap;
  memcpy(place->name, heap->name, min_size(GUARD_AREA_NAME_SIZE, HEAP_NAME_SIZE));
  place->name[GUARD_AREA_NAME_SIZE - 1] = '\0';
}

static bool take_of(guard_area_t *area, huge_standalone_t *of, const heap_t *heap, size_t size, size_t alignment, bool *zeroed)
{
  guard_area_place_t *place = guard_area_begin(area) ? guard_area_take(area, size, alignment) : NULL;
  if (!place)
    return false;
  note_owner(place, heap);
  place->allocated_count = keep_frames(place->allocated, of->stack);
  of->huge.range = (range_t){.start = (uintptr_t)guard_area_pages(area, place), .size = guard_area_pages_bytes(place)};
  of->offset = (size_t)(place->block - huge_start(&of->huge));
  of->asked = size;
  *zeroed = true;
  write_canaries(of);
  return true;
}

/* No question finds the block any more, and no other thread can free it. */
static void give_to(guard_area_t *area, const huge_standalone_t *of, const char *call)
{
  guard_area_place_t *place = guard_area_place_at(area, standalone_block(of), false);
  verify_canaries_of(of, call);
  place->freed_count = keep_frames(place->freed, of->stack);
  guard_area_give(area, place);
}

static bool take_guarded(huge_standalone_t *of, const heap_t *heap, size_t size, size_t alignment, bool *zeroed)
{
  return take_of(&guarded, of, heap, size, alignment, zeroed);
}

static void give_guarded(const huge_standalone_t *of, const char *call) { give_to(&guarded, of, call); }

static bool take_sampled(huge_standalone_t *of, const heap_t *heap, size_t size, size_t alignment, bool *zeroed)
{
  size_t bytes = guard_area_bytes(size, alignment);
  bool done = __atomic_add_fetch(&sampled_bytes, bytes, __ATOMIC_RELAXED) <= SAMPLED_MEMORY_MOST &&
              take_of(&sampled, of, heap, size, alignment, zeroed);
  if (!done)
    __atomic_sub_fetch(&sampled_bytes, bytes, __ATOMIC_RELAXED);
  return done;
}

static void give_sampled(const huge_standalone_t *of, const char *call)
{
  give_to(&sampled, of, call);
  __atomic_sub_fetch(&sampled_bytes, huge_size(&of->huge), __ATOMIC_RELAXED);
}

/* The pages stay. The bytes behind the new end become canary, which is verified at the free. */
static void shorten(const huge_standalone_t *of, size_t size, const char *call)
{
  verify_canaries_of(of, call);
  memset(standalone_block(of) + size, CANARY, of->asked - size);
  guard_area_place_at(guard_area_around(standalone_block(of)), standalone_block(of), false)->size = size;
}

static size_t largest_guarded(size_t bytes) { return round_down(bytes, os_page_size()); }

/* A walk that comes no further stores `from` alone, which is in the manager and says nothing of the program. */
static void take_stack(const void *from, os_stack_t *stack)
{
  KEEPS_FRAME();
  guard_pages_load_if_wanted();
  stack->most = min_size(GUARD_AREA_FRAMES, OS_STACK_MOST);
  os_take_stack(from, stack);
  if (stack->count == 1)
    stack->count = 0;
}

#define SOURCE(take_it, give_it) \
  { \
    .take = take_it, .bytes = guard_area_bytes, .largest = largest_guarded, .give = give_it, .shorten = shorten, \
    .verify = verify_canaries_of, .take_stack = take_stack \
  }

const block_source_t guard_pages_source = SOURCE(take_guarded, give_guarded),
                     sampled_source = SOURCE(take_sampled, give_sampled);

/* ---- questions ---- */

/* The heap may have been destroyed, and its record reused. */
static const heap_t *owner_of(const guard_area_place_t *place)
{
  const heap_t *heap = place->owner;
  return heap_is_live(heap) && !memcmp(heap->name, place->name, GUARD_AREA_NAME_SIZE) ? heap : NULL;
}

bool guard_pages_look(const void *address, guard_pages_look_t *look)
{
  const guard_area_t *area = guard_area_around(address);
  const guard_area_place_t *place = area ? guard_area_place_at(area, address, false) : NULL;
  if (!place)
    return false;
  *look = (guard_pages_look_t){place->block,
                               place->size,
                               owner_of(place),
                               place->state != GUARD_AREA_LIVE,
                               {place->allocated, place->allocated_count},
                               {place->freed, place->freed_count}};
  return true;
}

void guard_pages_explain_dead(const void *block, const char *call, const char *if_freed, const heap_t *given_to)
{
  guard_pages_look_t look;
  if (!guard_pages_look(block, &look))
    return;
  bool twice = look.freed && look.block == block;
  if (twice)
    fatal_say_places(&look.allocated_by, &look.freed_by);
  fatal_misuse_of_block(call, block, twice ? if_freed : NOT_A_BLOCK, twice ? look.heap : NULL, look.size, given_to);
}

void guard_pages_visit_notes(guard_pages_visit_fn *visit, void *context)
{
  const guard_area_t *const yards[] = {&guarded, &sampled};
  for (size_t i = 0; i < 2; i++) {
    guard_area_notes_t notes = guard_area_notes(yards[i]);
    visit((uintptr_t)notes.places, notes.places_size, context);
    visit((uintptr_t)notes.table, notes.table_size, context);
  }
}

/* ---- faults ---- */

static const char *word_of(os_access_t access)
{
  static const char *const words[] = {READ_OF, WRITE_TO, "jump to", "use of"};
  return words[access];
}

/* Runs in a signal handler. Faults elsewhere are not ours. */
static void say_fault(const void *address, os_access_t access, const void *instruction)
{
  const guard_area_t *area = guard_area_around(address);
  const guard_area_place_t *place = area ? guard_area_place_at(area, address, true) : NULL;
  if (!place)
    return;
  const void *behind =
    instruction ? (const char *)instruction + CODE_ALIGNMENT : NULL; /* like a return address, behind its call */
  warn_of_access(&(access_told_t){.access = word_of(access),
                                  .address = address,
                                  .block = place->block,
                                  .size = place->size,
                                  .heap = place->owner == &default_heap ? NULL : place->name,
                                  .freed = place->state != GUARD_AREA_LIVE,
                                  .by = {&behind, behind != NULL && access != OS_RUNS},
                                  .allocated_by = {place->allocated, place->allocated_count},
                                  .freed_by = {place->freed, place->freed_count}});
}

void guard_pages_load_if_wanted(void)
{
  if (guarded.live_most || settings.guard_sample || settings.profile_file[0])
    os_load_stacks();
}

void guard_pages_begin(heap_t *heap)
{
  size_t most = os_mappings_most();
  if (!guarded.live_most) /* mappings that the program has by now are not for its blocks */
    guarded.live_most =
      (uint32_t)min_size((most - min_size(os_mappings_now(), most)) / MAPPINGS_OF * MAPPINGS_PART + 1, UINT32_MAX / 2);
  heap->flags |= POOL_HEAP_CHECKED;
  standalone_begin(heap, &guard_pages_source);
  os_watch_faults(say_fault);
}

/* ---- samples ---- */

#define WHOLE ((uint64_t)1 << 32) /* denominator of chances */

/* Draws how many blocks precede the next sample. Each block is a sample with probability 1/N, so n blocks contain none with
 * probability (1 - 1/N)^n: the result is the first n at which that is at most the drawn number. */
static uint32_t draw_gap(void)
{
  enum { POWERS = 31 };
  uint64_t none[POWERS], left = WHOLE, drawn = (uint32_t)(sampling_draw() >> 16);
  uint32_t gap = 0;
  none[0] = WHOLE - WHOLE / settings.guard_sample;
  for (unsigned i = 1; i < POWERS; i++)
    none[i] = none[i - 1] * none[i - 1] >> 32;
  for (unsigned i = POWERS; i--;)
    if (left * none[i] >> 32 > drawn) {
      left = left * none[i] >> 32;
      gap += (uint32_t)1 << i;
    }
  return gap;
}

COLD bool sample_is_among(thread_t *thread, uint32_t blocks)
{
  if (!thread->sample_left)
    thread->sample_left = draw_gap() + 1;
  bool due = thread->sample_left <= blocks;
  thread->sample_left -= due ? thread->sample_left : blocks;
  return due;
}

/* A thread without a record draws each time. */
COLD bool sample_is_drawn(uint32_t blocks) { return draw_gap() < blocks; }

/* A sample takes some 20 us, most of it in the kernel. Samples are therefore limited to 1 % of the time in production, with
 * bursts of up to 64. Small values of guard_sample are for tests, which want every sample. */
enum { SPARING_FROM = 1000, APART_MS = 2, AT_ONCE = 64 };
static bool sample_is_affordable(void)
{
  static uint64_t due; /* when all samples so far are paid for */
  if (settings.guard_sample < SPARING_FROM)
    return true;
  uint64_t now = os_now_ms(), was = __atomic_load_n(&due, __ATOMIC_RELAXED), next;
  do {
    if (was > now + AT_ONCE * APART_MS)
      return false;
    next = (was > now ? was : now) + APART_MS;
  } while (!__atomic_compare_exchange_n(&due, &was, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return true;
}

void *sample_take(heap_t *heap, request_t *r)
{
  if (r->size > SAMPLED_SIZE_MOST || !sample_is_affordable())
    return NULL;
  os_watch_faults(say_fault);
  return standalone_take(heap, &sampled_source, r, r->size);
}
