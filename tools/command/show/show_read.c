/* SPDX-License-Identifier: MIT
 *
 * A file is a recording or a profile by its first bytes. */
#include "command.h"
#include "profile.h"
#include "show.h"
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

static void add(total_t *to, sum_t sum, const profile_counts_t *counts)
{
  to->bytes[sum] += counts->bytes;
  to->blocks[sum] += counts->blocks;
}

static void sum_places(show_t *show, const profile_t *profile)
{
  for (size_t i = 0; i < profile->place_count; i++) {
    total_t *site = &show->sites[show->callers.same[i]];
    add(site, SUM_END, &profile->places[i].live);
    add(site, SUM_ALLOCATED, &profile->places[i].all);
    add(&show->all, SUM_END, &profile->places[i].live);
    add(&show->all, SUM_ALLOCATED, &profile->places[i].all);
  }
}

static void read_profile(show_t *show, const char *command, const char *path)
{
  char text[256] = "";
  profile_t profile;
  if (!profile_read(&profile, path, text))
    command_fail(1, "%s: %s: %s", command, path, text);
  if (profile_lacks(&profile, text))
    command_say("%s: %s: %s", command, path, text);
  show->title = strdup(path);
  show->callers.modules = calloc(profile.mapping_count + 1, sizeof *show->callers.modules);
  show->callers.stacks = calloc(profile.place_count + 1, sizeof *show->callers.stacks);
  show->sites = calloc(profile.place_count + 1, sizeof *show->sites);
  if (!show->title || !show->callers.modules || !show->callers.stacks || !show->sites)
    command_fail(COMMAND_FAILED, "%s: no memory", command);
  take_modules(&show->callers, &profile);
  take_stacks(&show->callers, &profile);
  callers_name(&show->callers, profile.written_ns, command);
  sum_places(show, &profile);
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

static void read_recording(show_t *show, const char *command, const char *path)
{
  static const kind_t kinds[SUMS] = {
    {SUM_PEAK, "live at the peak"}, {SUM_END, "live at the end"}, {SUM_ALLOCATED, "allocated"}};
  trace_read(&show->trace, command, path, callers_visit, &show->callers);
  callers_name(&show->callers, show->trace.facts.head.started_ns, command);
  show_sum(show);
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

void show_read(show_t *show, const char *command, const char *path)
{
  char first[FIRST_BYTES];
  size_t length = read_first(path, first), magic = strlen(RECORDING_MAGIC);
  *show = (show_t){.title = NULL};
  if (profile_begins(first, length)) {
    read_profile(show, command, path);
    return;
  }
  if (length >= 2 && !memcmp(first, "\x1f\x8b", 2))
    command_fail(1, "%s: %s: it is compressed; of profiles text is read, as tidepool, gperftools and jemalloc write it",
                 command, path);
  if (length && (length < magic || memcmp(first, RECORDING_MAGIC, magic) != 0))
    command_fail(1, "%s: %s: it is no recording and no profile", command, path);
  read_recording(show, command, path);
}

size_t show_site_count(const show_t *show) { return show->callers.stack_count + !show->callers.stack_count; }

void show_free(show_t *show)
{
  free(show->title);
  free(show->sites);
  callers_free(&show->callers);
  trace_free(&show->trace);
}
