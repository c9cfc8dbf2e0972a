/* SPDX-License-Identifier: MIT
 *
 * A file is a recording or a profile by its first bytes. */
#include "command.h"
#include "heaps.h"
#include "profile.h"
#include "show.h"
#include "split.h"
#include "symbols.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- profiles ---- */

/* Where a file's address 0 is in memory. That of a file that is gone or another one is not known: then places are those in the
 * file. */
static uint64_t added_to(const profile_mapping_t *mapping, uint64_t written_ns)
{
  uint64_t address = mapping->offset;
  if (symbols_file_state(mapping->name, mapping->inode, written_ns) != FILE_SAME ||
      !symbols_address(mapping->name, mapping->offset, &address))
    address = mapping->offset;
  return mapping->start - address;
}

static void take_modules(callers_t *callers, profile_t *profile)
{
  for (size_t i = 0; i < profile->mapping_count; i++) {
    profile_mapping_t *mapping = &profile->mappings[i];
    callers->modules[i] = (module_t){mapping->start, mapping->end - mapping->start, added_to(mapping, profile->written_ns),
                                     mapping->inode, mapping->name};
    mapping->name = NULL;
  }
  callers->module_count = profile->mapping_count;
}

static void take_stacks(callers_t *callers, profile_t *profile)
{
  for (size_t i = 0; i < profile->place_count; i++) {
    profile_place_t *place = &profile->places[i];
    callers->stacks[i] = (call_stack_t){place->frame_count, place->frames, NULL, (uint32_t)profile->mapping_count};
    place->frames = NULL;
  }
  callers->stack_count = profile->place_count;
}

/* Places of the heaps of that name are left. False: there are none. */
static bool keep_heap(profile_t *profile, const char *name)
{
  size_t count = 0;
  uint32_t heap = 1;
  while (heap < profile->heaps.count && strcmp(profile->heaps.names[heap].name, name) != 0)
    heap++;
  for (size_t i = 0; i < profile->place_count; i++)
    if (profile->places[i].heap == heap)
      profile->places[count++] = profile->places[i];
    else
      free(profile->places[i].frames);
  profile->place_count = count;
  return heap < profile->heaps.count;
}

static void add(total_t *to, sum_t sum, const profile_counts_t *counts)
{
  to->bytes[sum] += counts->bytes;
  to->blocks[sum] += counts->blocks;
}

static void add_place(total_t *to, const profile_place_t *place)
{
  add(to, SUM_END, &place->live);
  add(to, SUM_ALLOCATED, &place->all);
  to->samples[SUM_END] += place->samples;
  to->samples[SUM_ALLOCATED] += place->all_samples;
}

static void sum_places(show_t *show, const profile_t *profile, const uint32_t *stacks)
{
  for (size_t i = 0; i < profile->place_count; i++) {
    const profile_place_t *place = &profile->places[i];
    add_place(&show->sites[stacks[i]], place);
    add_place(&show->all, place);
    if (show->heaps)
      add_place(&show->heaps[place->heap].of, place);
  }
}

/* Which stack each place has, by its heap. */
static uint32_t *split_places(show_t *show, const profile_t *profile)
{
  split_t split;
  uint32_t *stacks = calloc(profile->place_count + 1, sizeof *stacks);
  if (!stacks)
    return NULL;
  split_begin(&split, &show->callers, &profile->heaps, 0);
  for (size_t i = 0; i < profile->place_count; i++)
    stacks[i] = split_stack(&split, (uint32_t)i, profile->places[i].heap);
  split_end(&split);
  return stacks;
}

static void sum_profile(show_t *show, profile_t *profile, const char *command)
{
  uint32_t *stacks = split_places(show, profile);
  show->sites = calloc(show->callers.stack_count + 1, sizeof *show->sites);
  show->heaps = profile->heaps.count > 1 ? calloc(profile->heaps.count, sizeof *show->heaps) : NULL;
  if (!stacks || !show->sites || (profile->heaps.count > 1 && !show->heaps))
    command_fail(COMMAND_FAILED, "%s: no memory", command);
  sum_places(show, profile, stacks);
  free(stacks);
  show->trace.heaps = profile->heaps;
  profile->heaps = (heap_names_t){.names = NULL};
}

static void read_profile(show_t *show, const char *command, const char *path, const part_t *part)
{
  char text[256] = "";
  profile_t profile;
  if (!profile_read(&profile, path, text))
    command_fail(1, "%s: %s: %s", command, path, text);
  if (profile_lacks(&profile, text))
    command_say("%s: %s: %s", command, path, text);
  if (part->until_ns != UINT64_MAX)
    command_fail(1, "%s: %s: it is a profile, which has no times", command, path);
  show->lacks_heap = part->heap && !keep_heap(&profile, part->heap);
  if (show->lacks_heap && !part->may_lack)
    command_fail(1, "%s: %s: there is no heap \"%s\" in it", command, path, part->heap);
  show->title = strdup(path);
  show->callers.modules = calloc(profile.mapping_count + 1, sizeof *show->callers.modules);
  show->callers.stacks = calloc(profile.place_count + 1, sizeof *show->callers.stacks);
  if (!show->title || !show->callers.modules || !show->callers.stacks)
    command_fail(COMMAND_FAILED, "%s: no memory", command);
  take_modules(&show->callers, &profile);
  take_stacks(&show->callers, &profile);
  show->callers.with_lines = part->with_lines;
  callers_name(&show->callers, profile.written_ns, command);
  sum_profile(show, &profile, command);
  show->is_profile = true;
  show->distance = profile.distance;
  show->sampled[SUM_END] = profile.live.blocks;
  show->sampled[SUM_ALLOCATED] = profile.all.blocks;
  show->kinds[0] = (kind_t){SUM_END, "in use"};
  show->kinds[1] = (kind_t){SUM_ALLOCATED, "allocated"};
  show->kind_count = profile.all.blocks ? 2 : 1; /* jemalloc counts what was freed only if it is told so */
  profile_free(&profile);
}

/* ---- recordings ---- */

/* Blocks of heaps have stacks that end in them. */
static void split_trace(show_t *show)
{
  split_t split;
  trace_t *trace = &show->trace;
  split_begin(&split, &show->callers, &trace->heaps, 2 * RECORDING_SITES_MOST);
  for (size_t i = 0; i < trace->count; i++)
    if (trace->acts[i].heap && trace->acts[i].op != RECORDING_FREE)
      trace->acts[i].site = split_stack(&split, trace->acts[i].site, trace->acts[i].heap) & (2 * RECORDING_SITES_MOST - 1);
  split_end(&split);
}

static void read_recording(show_t *show, const char *command, const char *path, const part_t *part)
{
  static const kind_t kinds[SUMS] = {
    {SUM_PEAK, "live at the peak"}, {SUM_END, "live at the end"}, {SUM_ALLOCATED, "allocated"}};
  trace_read(&show->trace, command, path, callers_visit, &show->callers);
  if (part->may_lack && part->heap)
    show->lacks_heap = !trace_keep_heap(&show->trace, command, part->heap);
  else
    trace_must_keep_heap(&show->trace, command, path, part->heap);
  if (part->until_ns != UINT64_MAX)
    trace_keep_until(&show->trace, command, part->until_ns);
  show->callers.with_lines = part->with_lines;
  show->callers.process = show->trace.facts.head.pid;
  callers_name(&show->callers, show->trace.facts.head.started_ns, command);
  if (show->trace.heaps.count > 1)
    split_trace(show);
  show_sum(show);
  show->heaps = show->trace.heaps.count > 1 ? heaps_sum(show) : NULL;
  show->title = strdup(show->trace.program);
  if (!show->title)
    command_fail(COMMAND_FAILED, "%s: no memory", command);
  memcpy(show->kinds, kinds, sizeof kinds);
  show->kind_count = SUMS;
}

/* ---- either ---- */

enum { FIRST_BYTES = 16 };

/* What cannot be read, or has nothing in it, has none, and the reader of recordings says why. */
static size_t read_first(const char *path, char bytes[FIRST_BYTES])
{
  struct stat about;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  bool is_file = file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode);
  ssize_t length = is_file ? pread(file, bytes, FIRST_BYTES, 0) : 0;
  if (file >= 0)
    close(file);
  return length > 0 ? (size_t)length : 0;
}

void show_read(show_t *show, const char *command, const char *path, const part_t *part)
{
  char first[FIRST_BYTES];
  size_t length = read_first(path, first), magic = strlen(RECORDING_MAGIC);
  *show = (show_t){.title = NULL};
  if (profile_begins(first, length)) {
    read_profile(show, command, path, part);
    return;
  }
  if (length >= 2 && !memcmp(first, "\x1f\x8b", 2))
    command_fail(1, "%s: %s: it is compressed; of profiles text is read, as tidepool, gperftools and jemalloc write it",
                 command, path);
  if (length && (length < magic || memcmp(first, RECORDING_MAGIC, magic) != 0))
    command_fail(1, "%s: %s: it is no recording and no profile%s", command, path,
                 first[0] == '{' ? "; tidepool report reads figures" : "");
  read_recording(show, command, path, part);
}

size_t show_site_count(const show_t *show) { return show->callers.stack_count + !show->callers.stack_count; }

void show_free(show_t *show)
{
  free(show->title);
  free(show->sites);
  free(show->heaps);
  callers_free(&show->callers);
  trace_free(&show->trace);
}
