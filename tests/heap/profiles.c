/* SPDX-License-Identifier: MIT */
#include "profiles.h"
#include "debug/places.h"
#include <math.h>
#include <stdio.h>

enum { INNERMOST = 4 };

static bool is_from(const char *frames, const char *function)
{
  char *end;
  for (int i = 0; i < INNERMOST && *frames; i++, frames = end) {
    place_t place = {.address = (const void *)(uintptr_t)strtoull(frames, &end, 16)};
    if (end == frames)
      return false;
    places_find(&place, 1);
    if (!strcmp(place.function, function))
      return true;
  }
  return false;
}

/* As pprof does it, unless each byte is a sample (0): of blocks of one length the share 1 - exp(-length / mean) is in the
 * profile. */
static void add_line(profile_sums_t *sums, const unsigned long long n[4], double mean)
{
  double length = (double)n[3] / (double)n[2], share = mean > 0 ? 1 - exp(-length / mean) : 1;
  sums->live_blocks += (double)n[0] / share;
  sums->live_bytes += (double)n[1] / share;
  sums->blocks += (double)n[2] / share;
  sums->bytes += (double)n[3] / share;
  sums->in_profile += n[0];
  sums->lines++;
}

profile_sums_t profile_of(pool_heap_t *heap, const char *function)
{
  profile_sums_t sums = {0};
  unsigned long long n[4], mean = 0, total[4], seen[4] = {0};
  char line[2048], of[32] = "-";
  bool ended = false, mapped = false;
  FILE *file = tmpfile();
  must(file && pool_profile_write(heap, fileno(file)));
  rewind(file);
  int at = 0;
  must(fgets(line, sizeof line, file));
  must(sscanf(line, "heap profile: %llu: %llu [%llu: %llu] @ %n", &total[0], &total[1], &total[2], &total[3], &at) == 4 && at);
  must(!strcmp(line + at, "heapprofile\n") || sscanf(line + at, "heap_v2/%llu", &mean) == 1);
  while (fgets(line, sizeof line, file)) {
    ended |= line[0] == '\n';
    mapped |= ended && strstr(line, "profile") != NULL; /* this program */
    if (ended)
      continue;
    if (line[0] == '#') {
      of[0] = '\0';
      must(sscanf(line, "# heap \"%31[^\"]", of) == 1 || !strcmp(line, "# heap \"\"\n"));
      continue;
    }
    must(of[0] != '-' && (!heap || !strcmp(of, pool_heap_name(heap))));
    at = 0;
    must(sscanf(line, "%llu: %llu [%llu: %llu] @%n", &n[0], &n[1], &n[2], &n[3], &at) == 4 && at);
    must(n[0] <= n[2] && n[1] <= n[3] && n[2] && (n[0] != 0) == (n[1] != 0));
    for (int i = 0; i < 4; i++)
      seen[i] += n[i];
    if (!function || is_from(line + at, function))
      add_line(&sums, n, (double)mean);
  }
  must(ended && mapped && !memcmp(seen, total, sizeof seen));
  fclose(file);
  return sums;
}

_Thread_local volatile int calls;

OPAQUE void *small_here(size_t size)
{
  void *block = pool_alloc(size);
  calls++;
  return block;
}

OPAQUE void *zeroed_here(size_t size)
{
  void *block = pool_zalloc(size);
  calls++;
  return block;
}

OPAQUE void *of_heap_here(pool_heap_t *heap, size_t size)
{
  void *block = pool_heap_alloc(heap, size);
  calls++;
  return block;
}

OPAQUE void *grown_here(void *block, size_t size)
{
  block = pool_realloc(block, size);
  calls++;
  return block;
}

void assert_near(double estimate, double truth, double n) { assert_true(fabs(estimate - truth) <= truth * 6 / sqrt(n)); }

void begin(uint64_t sample_bytes)
{
  assert_true(pool_profile_start(sample_bytes));
  assert_int_equal(profile_of(NULL, NULL).lines, 0);
}
