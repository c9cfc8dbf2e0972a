/* SPDX-License-Identifier: MIT */
#include "debug/report.h"
#include "debug/places.h"
#include "option.h"
#include <errno.h>
#include <string.h>

enum { ROOM_LEAST = 512, PLACES_LEAST = 64, PLACE_TEXT = 2 * PLACE_NAME_SIZE + 128, LINE_TEXT = 512 };

/* ---- tallies: a hash table by site ---- */

static size_t table_bytes(size_t room) { return round_up(room * sizeof(tally_t), os_page_size()); }

static tally_t *tally_of(const tallies_t *tallies, site_t site)
{
  size_t at = (size_t)(site * 0x9e3779b1u) & (tallies->room - 1);
  while (tallies->of[at].blocks && tallies->of[at].site != site)
    at = (at + 1) & (tallies->room - 1);
  return &tallies->of[at];
}

static bool tallies_have_room(tallies_t *tallies)
{
  if (tallies->count < tallies->room / 2)
    return true;
  tallies_t larger = {.room = max_size(2 * tallies->room, ROOM_LEAST)};
  larger.of = os_map(table_bytes(larger.room), os_page_size());
  if (!larger.of)
    return false;
  for (size_t i = 0; i < tallies->room; i++)
    if (tallies->of[i].blocks)
      *tally_of(&larger, tallies->of[i].site) = tallies->of[i];
  if (tallies->of)
    os_unmap(tallies->of, table_bytes(tallies->room));
  tallies->of = larger.of;
  tallies->room = larger.room;
  return true;
}

void tallies_add(tallies_t *tallies, site_t site, size_t size)
{
  tallies->blocks++;
  tallies->bytes += size;
  if (!tallies_have_room(tallies))
    return;
  tally_t *tally = tally_of(tallies, site);
  tallies->count += !tally->blocks;
  *tally = (tally_t){site, tally->blocks + 1, tally->bytes + size};
}

void tallies_end(tallies_t *tallies)
{
  if (tallies->of)
    os_unmap(tallies->of, table_bytes(tallies->room));
  *tallies = (tallies_t){0};
}

/* Sorts the sites by bytes, largest first, and by number if these are equal. Returns how many of at most `most` there are. */
static size_t order(const tallies_t *tallies, tally_t *sorted, size_t most)
{
  size_t count = 0;
  for (size_t i = 0; i < tallies->room; i++) {
    tally_t tally = tallies->of[i];
    if (!tally.blocks)
      continue;
    size_t at = count < most ? count++ : most;
    for (; at &&
           (sorted[at - 1].bytes < tally.bytes || (sorted[at - 1].bytes == tally.bytes && sorted[at - 1].site > tally.site));
         at--)
      if (at < most)
        sorted[at] = sorted[at - 1];
    if (at < most)
      sorted[at] = tally;
  }
  return count;
}

/* ---- text ---- */

void say_blocks(text_t *text, size_t blocks, size_t bytes)
{
  text_grouped(text, blocks);
  text_string(text, blocks == 1 ? " block, " : " blocks, ");
  text_grouped(text, bytes);
  text_string(text, bytes == 1 ? " byte" : " bytes");
}

void say_heap_name(text_t *text, const heap_t *heap)
{
  text_string(text, heap_is_default(heap) ? "the default heap" : "heap ");
  if (!heap_is_default(heap))
    text_quoted(text, heap->name);
}

static size_t text_bytes(size_t places) { return round_up(places * PLACE_TEXT + LINE_TEXT, os_page_size()); }

text_t report_begin(size_t places)
{
  size_t bytes = text_bytes(places);
  char *buffer = os_map(bytes, os_page_size());
  return (text_t){buffer, buffer ? bytes : 0, 0};
}

void report_end(text_t *text)
{
  if (text->buffer)
    os_unmap(text->buffer, text->size);
  *text = (text_t){0};
}

size_t report_places(const tallies_t *tallies, size_t sites)
{
  return (min_size(tallies->count, sites) + 1) * max_size(settings.sites, 1);
}

static size_t places_bytes(size_t room) { return round_up(room * sizeof(place_t), os_page_size()); }

static bool places_have_room(places_t *places, size_t more)
{
  if (places->count + more <= places->room)
    return true;
  size_t room = max_size(2 * places->room, max_size(more, PLACES_LEAST));
  place_t *larger = os_map(places_bytes(room), os_page_size());
  if (!larger)
    return false;
  if (places->of) {
    memcpy(larger, places->of, places->count * sizeof *larger);
    os_unmap(places->of, places_bytes(places->room));
  }
  places->of = larger;
  places->room = room;
  return true;
}

static void want_sites(places_t *places, const tally_t *sorted, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    const void *const *frames;
    size_t frame_count = site_frames(sorted[i].site, &frames);
    for (size_t j = 0; j < frame_count && places_have_room(places, frame_count); j++)
      places->of[places->count++] = (place_t){.address = frames[j]};
  }
}

static void sink(place_t *of, size_t i, size_t count)
{
  for (size_t child; (child = 2 * i + 1) < count; i = child) {
    if (child + 1 < count && of[child + 1].address > of[child].address)
      child++;
    if (of[child].address <= of[i].address)
      return;
    const void *address = of[i].address;
    of[i].address = of[child].address;
    of[child].address = address;
  }
}

/* Only the addresses are known yet. Duplicates are dropped. */
static void sort_places(places_t *places)
{
  place_t *of = places->of;
  size_t kept = 0;
  for (size_t i = places->count / 2; i--;)
    sink(of, i, places->count);
  for (size_t end = places->count; end-- > 1;) {
    const void *last = of[end].address;
    of[end].address = of[0].address;
    of[0].address = last;
    sink(of, 0, end);
  }
  for (size_t i = 0; i < places->count; i++)
    if (!kept || of[kept - 1].address != of[i].address)
      of[kept++].address = of[i].address;
  places->count = kept;
}

void places_look_up(places_t *places)
{
  sort_places(places);
  places_find(places->of, places->count);
  places_find_lines(places->of, places->count);
}

void places_end(places_t *places)
{
  if (places->of)
    os_unmap(places->of, places_bytes(places->room));
  *places = (places_t){0};
}

static const place_t *place_at(const places_t *places, const void *address)
{
  size_t from = 0, to = places->count;
  while (from < to) {
    size_t middle = from + (to - from) / 2;
    if (places->of[middle].address < address)
      from = middle + 1;
    else
      to = middle;
  }
  return from < places->count && places->of[from].address == address ? &places->of[from] : NULL;
}

static void say_site(text_t *text, const places_t *places, site_t site)
{
  const void *const *frames;
  size_t count = site_frames(site, &frames);
  if (!count)
    text_string(text, "places that are not known");
  for (size_t i = 0; i < count; i++) {
    const place_t *place = place_at(places, frames[i]);
    text_string(text, i ? " < " : "");
    if (place)
      place_say(text, place);
    else
      text_pointer(text, frames[i]);
  }
}

static void say_bytes(text_t *text, size_t bytes)
{
  text_string(text, " (");
  text_grouped(text, bytes);
  text_string(text, bytes == 1 ? " byte)" : " bytes)");
}

static void say_rest(text_t *text, const tallies_t *tallies, size_t said_blocks, size_t said_bytes, size_t said_sites)
{
  size_t sites = tallies->count - said_sites;
  text_grouped(text, tallies->blocks - said_blocks);
  say_bytes(text, tallies->bytes - said_bytes);
  text_string(text, " from ");
  text_grouped(text, sites);
  text_string(text, sites == 1 ? " other place" : " other places");
}

void places_want(places_t *places, const tallies_t *tallies)
{
  tally_t sorted[SITES_ON_A_LINE];
  want_sites(places, sorted, order(tallies, sorted, SITES_ON_A_LINE));
}

void say_tallies(text_t *text, const tallies_t *tallies, const places_t *places)
{
  tally_t sorted[SITES_ON_A_LINE];
  size_t count = order(tallies, sorted, SITES_ON_A_LINE), said = 0, bytes = 0;
  for (size_t i = 0; i < count; i++) {
    text_string(text, i ? ", " : "");
    text_grouped(text, sorted[i].blocks);
    if (tallies->count > 1)
      say_bytes(text, sorted[i].bytes);
    text_string(text, " from ");
    say_site(text, places, sorted[i].site);
    said += sorted[i].blocks;
    bytes += sorted[i].bytes;
  }
  if (said < tallies->blocks) {
    text_string(text, count ? ", " : "");
    say_rest(text, tallies, said, bytes, count);
  }
}

/* ---- a report ---- */

static bool add_block(const walked_t *walked, void *context)
{
  tallies_add(context, walked->site, walked->block.size);
  return true;
}

/* The bytes are aligned in a column. */
static void say_line(text_t *text, size_t blocks, size_t bytes)
{
  char digits[32];
  text_t number = {digits, sizeof digits, 0};
  text_grouped(&number, bytes);
  for (size_t i = number.length; i < 16; i++)
    text_char(text, ' ');
  text_finish(&number);
  text_string(text, digits);
  text_string(text, bytes == 1 ? " byte in " : " bytes in ");
  text_grouped(text, blocks);
  text_string(text, blocks == 1 ? " block from " : " blocks from ");
}

static void say_report(text_t *text, const heap_t *heap, const tallies_t *tallies, const tally_t *sorted, size_t count)
{
  places_t places = {0};
  size_t blocks = 0, bytes = 0;
  want_sites(&places, sorted, count);
  places_look_up(&places);
  say_heap_name(text, heap);
  text_string(text, ": ");
  say_blocks(text, tallies->blocks, tallies->bytes);
  text_string(text, " live\n");
  for (size_t i = 0; heap_is_headed(heap) && i < count; i++) {
    say_line(text, sorted[i].blocks, sorted[i].bytes);
    say_site(text, &places, sorted[i].site);
    text_char(text, '\n');
    blocks += sorted[i].blocks;
    bytes += sorted[i].bytes;
  }
  if (heap_is_headed(heap) && blocks < tallies->blocks) {
    say_line(text, tallies->blocks - blocks, tallies->bytes - bytes);
    text_grouped(text, tallies->count - count);
    text_string(text, " other places\n");
  }
  places_end(&places);
}

int heap_report(heap_t *heap, int file)
{
  tallies_t tallies = {0};
  heap_walk(heap, WALK_ALONE, add_block, &tallies);
  size_t room = min_size(max_size(tallies.count, 1), SITES_IN_A_REPORT);
  size_t bytes = round_up(room * sizeof(tally_t), os_page_size());
  tally_t *sorted = os_map(bytes, os_page_size());
  text_t text = report_begin(report_places(&tallies, SITES_IN_A_REPORT));
  int error = ENOMEM;
  if (sorted && text.buffer) {
    say_report(&text, heap, &tallies, sorted, order(&tallies, sorted, room));
    error = os_write(file, text.buffer, min_size(text.length, text.size));
  }
  report_end(&text);
  if (sorted)
    os_unmap(sorted, bytes);
  tallies_end(&tallies);
  return error;
}
