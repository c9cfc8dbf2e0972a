/* SPDX-License-Identifier: MIT
 *
 * The file is read line by line. Two forms have the same numbers:
 *
 *   heap profile: 1: 512 [3: 1536] @ heap_v2/524288      heap_v2/524288
 *   1: 512 [3: 1536] @ 0x401234 0x401300                   t*: 1: 512 [3: 1536]
 *                                                        @ 0x401234 0x401300
 *   MAPPED_LIBRARIES:                                      t*: 1: 512 [3: 1536]
 *   00400000-00452000 r-xp 00000000 08:02 173521 /server
 *
 * The right one is jemalloc's, with lines for each thread as well, which are passed over. A comment says of which heap the
 * lines behind it are: # heap "sessions". */
#include "profile.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  LINE_MOST = 8192, /* a path has 4096, and 256 addresses have 4900 */
  FRAMES_MOST = 256,
  PLACES_MOST = 1 << 24,
  MAPPINGS_MOST = 10000 /* each address is looked for among them */
};

#define COUNT_MOST ((uint64_t)1 << 48) /* no process has so many bytes */
#define SUM_MOST   ((uint64_t)1 << 61) /* of sums two can be added, and subtracted as numbers with a sign */

static const char head[] = "heap profile:", jemallocs_head[] = "heap_v2/";

/* ---- lines ---- */

typedef enum line { LINE_GOOD, LINE_BAD, LINE_CUT_OFF, LINE_NONE } line_t;

/* A line that no profile has is read to its end and not kept. */
static line_t next_line(FILE *from, char line[LINE_MOST])
{
  size_t length = 0;
  int c;
  bool is_bad = false;
  while ((c = getc_unlocked(from)) != EOF && c != '\n') {
    is_bad |= !c || length == LINE_MOST - 1;
    if (!is_bad)
      line[length++] = (char)c;
  }
  line[length] = '\0';
  if (c == EOF)
    return length || is_bad ? LINE_CUT_OFF : LINE_NONE;
  return is_bad ? LINE_BAD : LINE_GOOD;
}

static void pass_spaces(const char **at) { *at += strspn(*at, " \t\r"); }

static bool pass(const char **at, const char *word)
{
  pass_spaces(at);
  size_t length = strlen(word);
  if (strncmp(*at, word, length) != 0)
    return false;
  *at += length;
  return true;
}

/* strtoull() would take a sign and spaces, too. */
static bool get(const char **at, int base, uint64_t most, uint64_t *number)
{
  static const char digits[] = "0123456789abcdef";
  const char *from = *at;
  *number = 0;
  for (const char *digit; **at && (digit = strchr(digits, **at)) && digit < digits + base; ++*at) {
    uint64_t value = (uint64_t)(digit - digits);
    if (*number > (most - value) / (uint64_t)base)
      return false;
    *number = *number * (uint64_t)base + value;
  }
  return *at != from;
}

static bool get_counts(const char **at, profile_counts_t *counts)
{
  pass_spaces(at);
  if (!get(at, 10, COUNT_MOST, &counts->blocks) || !pass(at, ":"))
    return false;
  pass_spaces(at);
  return get(at, 10, COUNT_MOST, &counts->bytes);
}

/* 1: 512 [3: 1536] */
static bool get_all_counts(const char **at, profile_counts_t *live, profile_counts_t *all)
{
  return get_counts(at, live) && pass(at, "[") && get_counts(at, all) && pass(at, "]");
}

static bool is_end(const char *at)
{
  pass_spaces(&at);
  return !*at;
}

/* ---- the first line ---- */

bool profile_begins(const char *bytes, size_t length)
{
  size_t needed = sizeof head - 1, jemallocs = sizeof jemallocs_head - 1;
  return (length >= needed && !memcmp(bytes, head, needed)) ||
         (length >= jemallocs && !memcmp(bytes, jemallocs_head, jemallocs));
}

static bool get_distance(profile_t *profile, const char *at)
{
  return get(&at, 10, COUNT_MOST, &profile->distance) && profile->distance && is_end(at);
}

static bool read_head(profile_t *profile, const char *line, char why[256])
{
  const char *at = line;
  profile_counts_t all;
  snprintf(why, 256, "its first line is none of a profile");
  if (!profile_begins(line, strlen(line)))
    return false;
  profile->is_jemallocs = pass(&at, jemallocs_head);
  if (profile->is_jemallocs)
    return get_distance(profile, at);
  if (!pass(&at, head) || !get_all_counts(&at, &profile->said_live, &all) || !pass(&at, "@"))
    return false;
  if (pass(&at, "heapprofile") && is_end(at))
    return true;
  if (pass(&at, "heap_v2/"))
    return get_distance(profile, at);
  snprintf(why, 256, "it is a profile of another kind: heap_v2 and heapprofile are read");
  return false;
}

/* ---- places ---- */

static void *room_for(void *array, size_t count, size_t size)
{
  return (count & (count - 1)) == 0 ? reallocarray(array, count ? 2 * count : 1, size) : array;
}

static bool get_frames(const char *at, uint64_t frames[FRAMES_MOST], uint32_t *count)
{
  for (*count = 0; !is_end(at); ++*count)
    if (*count == FRAMES_MOST || !pass(&at, "0x") || !get(&at, 16, UINT64_MAX, &frames[*count]))
      return false;
  if (*count == 1 && !frames[0])
    *count = 0;
  return true;
}

/* Where a block of no bytes was hit there is nothing to reckon by. */
static bool estimate(profile_counts_t *counts, uint64_t distance)
{
  if (!distance || !counts->blocks || !counts->bytes)
    return true;
  double mean = (double)counts->bytes / (double)counts->blocks, factor = -1 / expm1(-mean / (double)distance);
  double blocks = (double)counts->blocks * factor, bytes = (double)counts->bytes * factor;
  if (blocks >= (double)SUM_MOST || bytes >= (double)SUM_MOST)
    return false;
  *counts = (profile_counts_t){(uint64_t)(blocks + .5), (uint64_t)(bytes + .5)};
  return true;
}

/* What all places have together, reckoned. */
typedef struct sums {
  profile_counts_t live, all;
} sums_t;

static bool has_room(const profile_counts_t *sum, const profile_counts_t *more)
{
  return more->blocks <= SUM_MOST - sum->blocks && more->bytes <= SUM_MOST - sum->bytes;
}

static void add(profile_counts_t *sum, const profile_counts_t *more)
{
  sum->blocks += more->blocks;
  sum->bytes += more->bytes;
}

/* False: no memory. A line with numbers that no program has is a bad one. */
static bool add_place(profile_t *profile, sums_t *sums, const profile_counts_t counts[2], const uint64_t *frames,
                      uint32_t count)
{
  profile_place_t place = {.live = counts[0],
                           .all = counts[1],
                           .samples = counts[0].blocks,
                           .all_samples = counts[1].blocks,
                           .frame_count = count,
                           .heap = profile->heap};
  if (!estimate(&place.live, profile->distance) || !estimate(&place.all, profile->distance) ||
      !has_room(&sums->live, &place.live) || !has_room(&sums->all, &place.all) || profile->place_count == PLACES_MOST) {
    profile->bad_lines++;
    return true;
  }
  profile_place_t *places = room_for(profile->places, profile->place_count, sizeof *places);
  if (!places)
    return false;
  profile->places = places;
  place.frames = malloc((count + 1) * sizeof *frames);
  if (!place.frames)
    return false;
  memcpy(place.frames, frames, count * sizeof *frames);
  places[profile->place_count++] = place;
  add(&sums->live, &place.live);
  add(&sums->all, &place.all);
  add(&profile->live, &counts[0]);
  add(&profile->all, &counts[1]);
  return true;
}

typedef struct reader {
  profile_t *profile;
  sums_t sums;
  uint64_t frames[FRAMES_MOST];
  uint32_t frame_count;
  bool has_stack; /* jemalloc: the counts that come next are of these frames */
} reader_t;

static bool read_place(reader_t *reader, const char *at)
{
  profile_counts_t counts[2];
  if (get_all_counts(&at, &counts[0], &counts[1]) && pass(&at, "@") && get_frames(at, reader->frames, &reader->frame_count))
    return add_place(reader->profile, &reader->sums, counts, reader->frames, reader->frame_count);
  reader->profile->bad_lines++;
  return true;
}

static bool is_of_thread(const char *at)
{
  uint64_t number;
  return pass(&at, "t") && get(&at, 10, UINT64_MAX, &number) && *at == ':';
}

/* Counts in front of all stacks are the sums, but of how many there were, and not of those in the profile: jemalloc reckons. */
static bool read_jemallocs(reader_t *reader, const char *at)
{
  profile_t *profile = reader->profile;
  profile_counts_t counts[2];
  if (is_of_thread(at))
    return true;
  if (pass(&at, "@")) {
    reader->has_stack = get_frames(at, reader->frames, &reader->frame_count);
    profile->bad_lines += !reader->has_stack;
  } else if (!pass(&at, "t*:") || !get_all_counts(&at, &counts[0], &counts[1]) || !is_end(at))
    profile->bad_lines++;
  else if (reader->has_stack) {
    reader->has_stack = false;
    return add_place(profile, &reader->sums, counts, reader->frames, reader->frame_count);
  } else
    profile->bad_lines += profile->place_count != 0;
  return true;
}

/* ---- mappings ---- */

/* False: no memory. Of code alone there are addresses. */
static bool add_mapping(profile_t *profile, const profile_mapping_t *mapping, const char *name)
{
  profile_mapping_t *mappings = room_for(profile->mappings, profile->mapping_count, sizeof *mappings);
  if (!mappings)
    return false;
  profile->mappings = mappings;
  mappings[profile->mapping_count] = *mapping;
  mappings[profile->mapping_count].name = strdup(name);
  return mappings[profile->mapping_count].name && ++profile->mapping_count;
}

/* 00400000-00452000 r-xp 00000000 08:02 173521      /server */
static bool read_mapping(profile_t *profile, const char *at)
{
  profile_mapping_t mapping = {0};
  bool is_good = get(&at, 16, UINT64_MAX, &mapping.start) && pass(&at, "-") && get(&at, 16, UINT64_MAX, &mapping.end) &&
                 mapping.start < mapping.end && *at == ' ';
  pass_spaces(&at);
  size_t rights = strcspn(at, " ");
  bool is_code = rights >= 3 && at[2] == 'x';
  at += rights;
  pass_spaces(&at);
  is_good = is_good && get(&at, 16, UINT64_MAX, &mapping.offset) && *at == ' ';
  pass_spaces(&at);
  at += strcspn(at, " "); /* the device, which is another one for a file on some file systems */
  pass_spaces(&at);
  is_good = is_good && get(&at, 10, UINT64_MAX, &mapping.inode);
  pass_spaces(&at);
  if (is_good && profile->mapping_count < MAPPINGS_MOST)
    return !is_code || !*at || add_mapping(profile, &mapping, at);
  profile->bad_lines++;
  return true;
}

/* ---- all ---- */

/* The name is as JSON has it: \" and \\, and \u001b of what is no character. */
static void get_name(const char *at, char name[LINE_MOST])
{
  size_t length = 0;
  uint64_t code;
  for (; *at && *at != '"'; at++) {
    if (*at == '\\' && at[1] == 'u') {
      const char *digits = at + 2;
      char four[5] = "";
      memcpy(four, digits, strnlen(digits, 4));
      const char *end = four;
      name[length++] = get(&end, 16, 0x7f, &code) && code ? (char)code : '?';
      at += 1 + strlen(four);
    } else if (*at != '\\' || at[1])
      name[length++] = *(at += *at == '\\');
  }
  name[length] = '\0';
}

/* False: no memory. Heaps whose names are not known have one together. */
static bool read_comment(profile_t *profile, const char *at)
{
  char name[LINE_MOST];
  if (!pass(&at, "#") || !pass(&at, "heap") || !pass(&at, "\""))
    return true;
  get_name(at, name);
  profile->heap = heap_names_named(&profile->heaps, *name ? name : "heaps that are gone");
  return profile->heap != 0;
}

static bool read_line(reader_t *reader, const char *line)
{
  profile_t *profile = reader->profile;
  if (is_end(line))
    return true;
  if (line[0] == '#')
    return read_comment(profile, line);
  if (profile->has_mappings)
    return read_mapping(profile, line);
  if (!strcmp(line, "MAPPED_LIBRARIES:")) {
    profile->has_mappings = true;
    return true;
  }
  return profile->is_jemallocs ? read_jemallocs(reader, line) : read_place(reader, line);
}

/* What a line that was cut off says may be wrong: 12 is left of 1234. */
static bool read_lines(reader_t *reader, FILE *from, char why[256])
{
  char line[LINE_MOST];
  line_t kind = next_line(from, line);
  if (kind == LINE_CUT_OFF || kind == LINE_NONE) {
    snprintf(why, 256, kind == LINE_NONE ? "it is empty" : "it is cut off in its first line");
    return false;
  }
  if (!read_head(reader->profile, line, why))
    return false;
  while ((kind = next_line(from, line)) == LINE_GOOD || kind == LINE_BAD) {
    reader->profile->bad_lines += kind == LINE_BAD;
    if (kind == LINE_GOOD && !read_line(reader, line)) {
      snprintf(why, 256, "no memory");
      return false;
    }
  }
  reader->profile->is_cut_off = kind == LINE_CUT_OFF || !reader->profile->has_mappings;
  if (ferror(from))
    snprintf(why, 256, "%s", strerror(errno));
  return !ferror(from);
}

/* A pipe would be waited for. */
static FILE *open_file(const char *path, uint64_t *written_ns, char why[256])
{
  struct stat about;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  FILE *from = file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode) ? fdopen(file, "r") : NULL;
  if (from) {
    *written_ns = (uint64_t)about.st_mtim.tv_sec * 1000000000 + (uint64_t)about.st_mtim.tv_nsec;
    return from;
  }
  snprintf(why, 256, "%s", file < 0 ? strerror(errno) : "it is no file of a disk");
  if (file >= 0)
    close(file);
  return NULL;
}

bool profile_read(profile_t *profile, const char *path, char why[256])
{
  reader_t reader = {.profile = profile};
  *profile = (profile_t){.distance = 0};
  FILE *from = open_file(path, &profile->written_ns, why);
  if (from && !heap_names_begin(&profile->heaps)) {
    snprintf(why, 256, "no memory");
    fclose(from);
    from = NULL;
  }
  bool done = from && read_lines(&reader, from, why);
  if (from)
    fclose(from);
  if (!done)
    profile_free(profile);
  return done;
}

bool profile_lacks(const profile_t *profile, char text[256])
{
  bool differs = !profile->is_jemallocs &&
                 (profile->said_live.blocks != profile->live.blocks || profile->said_live.bytes != profile->live.bytes);
  if (profile->is_cut_off)
    snprintf(text, 256, "it is cut off%s", profile->has_mappings ? "" : ", so nothing in it has a name");
  else if (profile->bad_lines)
    snprintf(text, 256, "lines in it that are none of a profile, and left out: %llu", (unsigned long long)profile->bad_lines);
  else if (differs)
    snprintf(text, 256, "its places have not the sums that it says");
  return profile->is_cut_off || profile->bad_lines || differs;
}

void profile_free(profile_t *profile)
{
  for (size_t i = 0; i < profile->place_count; i++)
    free(profile->places[i].frames);
  for (size_t i = 0; i < profile->mapping_count; i++)
    free(profile->mappings[i].name);
  heap_names_free(&profile->heaps);
  free(profile->places);
  free(profile->mappings);
  *profile = (profile_t){.distance = 0};
}
