/* SPDX-License-Identifier: MIT
 * Reports live blocks at the end of a heap or of the program: one line for each heap. */
#include "debug/leaks.h"
#include "debug/leak_search.h"
#include "debug/places.h"
#include "debug/report.h"
#include "heap/heap.h"
#include "misuse.h"

typedef struct outcome {
  const heap_t *heap;
  const char *how; /* a word for the tallies' blocks */
  tallies_t tallies;
  size_t reached, reached_bytes;
} outcome_t;

static void say_outcome(const outcome_t *of, const places_t *places)
{
  text_t text = report_begin(report_places(&of->tallies, SITES_ON_A_LINE));
  if (!text.buffer)
    return;
  text.size--; /* keeps room for the newline */
  text_string(&text, "tidepool: ");
  say_heap_name(&text, of->heap);
  text_string(&text, ENDED_WITH);
  if (of->tallies.blocks) {
    say_blocks(&text, of->tallies.blocks, of->tallies.bytes);
    text_string(&text, of->how);
    if (heap_is_headed(of->heap)) {
      text_string(&text, ": ");
      say_tallies(&text, &of->tallies, places);
    }
  }
  if (of->reached) {
    text_string(&text, of->tallies.blocks ? "; " : "");
    say_blocks(&text, of->reached, of->reached_bytes);
    text_string(&text, of->tallies.blocks ? " more can be reached" : " live, all of which can be reached");
  }
  size_t length = min_size(text.length, text.size++);
  text.buffer[length++] = '\n';
  os_write_kept_error(text.buffer, length);
  report_end(&text);
}

static bool is_still_there(const heap_t *heap)
{
  lock_acquire(&heaps_lock);
  const heap_t *other = heaps_first();
  while (other && other != heap)
    other = other->next;
  lock_release(&heaps_lock);
  return other != NULL;
}

/* Describes the heap whose blocks begin at *at, and moves *at behind them. The C library and others use the default heap as
 * well, so its reached blocks are reported only beside lost ones. Returns false if there is nothing to report. */
static bool next_outcome(const search_t *s, size_t *at, bool searched, outcome_t *of)
{
  *of = (outcome_t){.heap = s->blocks[*at].heap, .how = searched ? " lost" : " live"};
  for (; *at < s->count && s->blocks[*at].heap == of->heap; ++*at) {
    const live_t *live = &s->blocks[*at];
    if (live->reached) {
      of->reached++;
      of->reached_bytes += live->size;
    } else if (!live->gone) {
      tallies_add(&of->tallies, live->site, live->size);
    }
  }
  return of->tallies.blocks || (of->reached && !heap_is_default(of->heap) && (s->threads == 1 || is_still_there(of->heap)));
}

/* Looks up the places of all heaps at once, before anything is written. Returns true if a line was written. */
static bool say_outcomes(search_t *s, bool searched)
{
  places_t places = {0};
  outcome_t of;
  bool told = false;
  for (size_t at = 0; at < s->count; tallies_end(&of.tallies))
    if (next_outcome(s, &at, searched, &of))
      places_want(&places, &of.tallies);
  places_look_up(&places);
  for (size_t at = 0; at < s->count; tallies_end(&of.tallies))
    if (next_outcome(s, &at, searched, &of)) {
      say_outcome(&of, &places);
      told = true;
    }
  places_end(&places);
  return told;
}

static void say_what_was_not_searched(const search_t *s, bool searched)
{
  char line[192];
  text_t text = {line, sizeof line, 0};
  bool others = searched && s->threads != 1;
  if (searched && !others && !s->failed)
    return;
  text_string(&text, "tidepool: leaks: ");
  if (!searched)
    text_string(&text, "the memory of the process cannot be searched for pointers");
  else if (s->failed)
    text_string(&text, "some memory of the process could not be read");
  text_string(&text, others && s->failed ? "; " : "");
  if (others && s->threads) {
    text_number(&text, s->threads - 1);
    text_string(&text, s->threads == 2 ? " other thread was running, whose" : " other threads were running, whose");
    text_string(&text, " registers were not searched");
  } else if (others)
    text_string(&text, "registers of other threads, if there are any, were not searched");
  text_char(&text, '\n');
  os_write_kept_error(line, min_size(text.length, sizeof line));
}

/* A separate function: the registers that its caller has saved are above its frame. */
NOINLINE static void search_from(void)
{
  search_t s = {.stack = (uintptr_t)__builtin_frame_address(0)};
  if (leak_search_begin(&s)) {
    bool searched = leak_search_find(&s);
    if (say_outcomes(&s, searched))
      say_what_was_not_searched(&s, searched);
  }
  leak_search_end(&s);
}

void leaks_at_exit(void)
{
  __builtin_unwind_init(); /* a register may hold the only pointer to a block */
  search_from();
  __asm__ volatile(""); /* no tail call */
}

static bool add_tally(const walked_t *walked, void *context)
{
  tallies_add(context, walked->site, walked->block.size);
  return true;
}

void leaks_at_destroy(heap_t *heap)
{
  outcome_t live = {.heap = heap, .how = " live"};
  places_t places = {0};
  heap_walk(heap, WALK_ALONE, add_tally, &live.tallies);
  if (live.tallies.blocks) {
    places_want(&places, &live.tallies);
    places_look_up(&places);
    say_outcome(&live, &places);
  }
  places_end(&places);
  tallies_end(&live.tallies);
}

void leaks_of_pool(const char *name, size_t object_size, size_t live, const void *created_by)
{
  char buffer[400];
  text_t text = {buffer, sizeof buffer - 1, 0};
  if (!live)
    return;
  text_string(&text, "tidepool: pool ");
  text_quoted(&text, name);
  text_string(&text, ENDED_WITH);
  text_grouped(&text, live);
  text_string(&text, live == 1 ? " object of " : " objects of ");
  text_grouped(&text, object_size);
  text_string(&text, " bytes live");
  if (created_by) {
    place_t place = {.address = created_by};
    text_string(&text, ", created by ");
    places_find(&place, 1);
    place_say(&text, &place);
  }
  size_t length = min_size(text.length, text.size);
  buffer[length++] = '\n';
  os_write_kept_error(buffer, length);
}
