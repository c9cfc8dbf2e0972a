/* SPDX-License-Identifier: MIT
 *
 * How much of the memory of a process is in huge pages. Only the system knows: /proc/PID/smaps has it of each mapping. Those in
 * the window are the manager's as a whole. The system joins the mapping of a large block with others beside it, of whoever, and
 * what it says of both together cannot be divided. */
#include "command.h"
#include "map_print.h"
#include "map_process.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct stretch {
  uint64_t start, end;
} stretch_t;

/* The window and the blocks with a mapping of their own, by address. */
typedef struct stretches {
  stretch_t *of;
  size_t count;
} stretches_t;

static int by_start(const void *a, const void *b)
{
  const stretch_t *one = a, *other = b;
  return one->start < other->start ? -1 : one->start > other->start;
}

static stretches_t stretches_of(const map_t *map)
{
  size_t most = 1;
  for (size_t i = 0; i < map->arena_count; i++)
    most += map->arenas[i].kind == ARENA_MAPPINGS ? map->arenas[i].place_count : 0;
  stretches_t stretches = {calloc(most, sizeof *stretches.of), 1};
  if (!stretches.of)
    command_fail(COMMAND_FAILED, "map: no memory");
  stretches.of[0] = (stretch_t){map->window_start, map->window_start + ((uint64_t)map->window_slots << SLOT_LOG2)};
  for (size_t i = 0; i < map->arena_count; i++)
    for (size_t k = 0; map->arenas[i].kind == ARENA_MAPPINGS && k < map->arenas[i].place_count; k++) {
      const map_place_t *place = &map->places[map->arenas[i].first_place + k];
      stretches.of[stretches.count++] = (stretch_t){place->start, place->start + map_bytes(&map->arenas[i], place)};
    }
  qsort(stretches.of, stretches.count, sizeof *stretches.of, by_start);
  return stretches;
}

/* Returns how much of a mapping lies in the stretches. Mappings come by address, so those that are passed are not needed any
 * more. */
static uint64_t covered(const stretches_t *stretches, size_t *at, uint64_t start, uint64_t end)
{
  uint64_t bytes = 0;
  while (*at < stretches->count && stretches->of[*at].end <= start)
    ++*at;
  for (size_t i = *at; i < stretches->count && stretches->of[i].start < end; i++) {
    uint64_t from = stretches->of[i].start > start ? stretches->of[i].start : start;
    uint64_t to = stretches->of[i].end < end ? stretches->of[i].end : end;
    bytes += to > from ? to - from : 0;
  }
  return bytes;
}

/* Pages of hugetlbfs are not among those that are resident. */
static void add_line(map_huge_t *huge, const char *line)
{
  uint64_t kib;
  if (sscanf(line, "Rss: %" SCNu64 " kB", &kib) == 1)
    huge->resident += kib << 10;
  else if (sscanf(line, "AnonHugePages: %" SCNu64 " kB", &kib) == 1) {
    huge->in_huge_pages += kib << 10;
    huge->is_known = true;
  } else if (sscanf(line, "Private_Hugetlb: %" SCNu64 " kB", &kib) == 1) {
    huge->in_huge_pages += kib << 10;
    huge->resident += kib << 10;
  }
}

static void read_mappings(map_huge_t *huge, const stretches_t *stretches, FILE *file)
{
  char line[1024];
  size_t at = 0;
  bool counts = false;
  while (fgets(line, sizeof line, file)) {
    uint64_t start, end;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2) {
      uint64_t ours = covered(stretches, &at, start, end);
      counts = ours && ours == end - start;
      huge->shared += counts ? 0 : ours;
    } else if (counts) {
      add_line(huge, line);
    }
  }
}

void map_read_huge(map_t *map, pid_t pid)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
  FILE *file = fopen(path, "re");
  map->huge = (map_huge_t){.why = "the kernel does not say"};
  if (!file) {
    map->huge.why = strerror(errno);
    return;
  }
  stretches_t stretches = stretches_of(map);
  read_mappings(&map->huge, &stretches, file);
  free(stretches.of);
  fclose(file);
}

void map_print_huge(const map_t *map, FILE *to)
{
  const map_huge_t *huge = &map->huge;
  char room[3][COMMAND_BYTES];
  if (!huge->is_known) {
    fprintf(to, "How much of it is in huge pages cannot be known: %s.", huge->why);
    return;
  }
  fprintf(to, "%s are resident, of which %s are in huge pages, %.0f %%.", command_bytes(room[0], (double)huge->resident),
          command_bytes(room[1], (double)huge->in_huge_pages),
          huge->resident ? 100.0 * (double)huge->in_huge_pages / (double)huge->resident : 0);
  if (huge->shared)
    fprintf(to, " Of %s more this cannot be known: the system has joined them with mappings of others.",
            command_bytes(room[2], (double)huge->shared));
}

void map_print_huge_json(const map_t *map, FILE *to)
{
  const map_huge_t *huge = &map->huge;
  if (huge->is_known)
    fprintf(to, "{\"resident_bytes\":%" PRIu64 ",\"huge_page_bytes\":%" PRIu64 ",\"unknown_bytes\":%" PRIu64 "}",
            huge->resident, huge->in_huge_pages, huge->shared);
  else
    fputs("null", to);
}
