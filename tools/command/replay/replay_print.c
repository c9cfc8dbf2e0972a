/* SPDX-License-Identifier: MIT */
#include "command.h"
#include "replay.h"
#include <inttypes.h>
#include <string.h>
#include <time.h>

static const struct {
  const char *key;
  bool is_ratio; /* to the first allocator, besides */
} figures[FIGURES] = {
  [FIGURE_CALLS] = {"calls_ns", true},
  [FIGURE_P50] = {"p50_ns", false},
  [FIGURE_P99] = {"p99_ns", false},
  [FIGURE_P999] = {"p99_9_ns", false},
  [FIGURE_LONGEST] = {"longest_ns", false},
  [FIGURE_PEAK] = {"peak_resident_bytes", true},
  [FIGURE_MEAN] = {"mean_resident_bytes", true},
  [FIGURE_AT_PEAK] = {"resident_bytes_at_peak", false},
  [FIGURE_FAULTS] = {"page_faults", true},
  [FIGURE_ELAPSED] = {"elapsed_ns", false},
  [FIGURE_CLOCK] = {"clock_ns", false},
  [FIGURE_FAILED] = {"failed", false},
  [FIGURE_END_BYTES] = {"end_bytes", false},
  [FIGURE_END_BLOCKS] = {"end_blocks", false},
  [FIGURE_PEAK_BYTES] = {"peak_bytes", false},
};

/* ---- numbers ---- */

/* With a comma between thousands. */
static const char *count_text(char room[32], uint64_t count)
{
  char digits[24];
  int length = snprintf(digits, sizeof digits, "%" PRIu64, count);
  char *to = room;
  for (int i = 0; i < length; i++) {
    if (i && (length - i) % 3 == 0)
      *to++ = ',';
    *to++ = digits[i];
  }
  *to = '\0';
  return room;
}

/* Three digits and a unit. */
static const char *time_text(char room[32], uint64_t ns)
{
  static const char *const units[] = {"ns", "us", "ms", "s"};
  double value = (double)ns;
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < sizeof units / sizeof *units; unit++)
    value /= 1000;
  snprintf(room, 32, "%.*f %s", unit && value < 99.95 ? value < 9.995 ? 2 : 1 : 0, value, units[unit]);
  return room;
}

static const char *bytes_text(char room[COMMAND_BYTES], uint64_t bytes) { return command_bytes(room, (double)bytes); }

/* Of one there is no plural. */
static const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

static double ratio(uint64_t one, uint64_t other) { return other ? (double)one / (double)other : 0; }

/* ---- the table ---- */

static const char *short_name(const allocator_t *allocator)
{
  const char *base = strrchr(allocator->name, '/');
  return base ? base + 1 : allocator->name;
}

static void print_row(const replay_t *replay, const allocator_t *allocator, FILE *to)
{
  char room[7][32];
  const uint64_t *of = allocator->of, *first = replay->allocators[0].of;
  fprintf(to, "%-16.16s %9s %6.2f %7s %7s %7s %8s %9s %6.2f %9s %7.2f %10s\n", short_name(allocator),
          time_text(room[0], of[FIGURE_CALLS]), ratio(of[FIGURE_CALLS], first[FIGURE_CALLS]),
          time_text(room[1], of[FIGURE_P50]), time_text(room[2], of[FIGURE_P99]), time_text(room[3], of[FIGURE_P999]),
          time_text(room[4], of[FIGURE_LONGEST]), bytes_text(room[5], of[FIGURE_PEAK]),
          ratio(of[FIGURE_PEAK], first[FIGURE_PEAK]), bytes_text(room[6], of[FIGURE_MEAN]),
          ratio(of[FIGURE_AT_PEAK], replay->plan->peak_bytes), count_text((char[32]){0}, of[FIGURE_FAULTS]));
}

/* Said of the first that is not. */
static void print_exactness(const replay_t *replay, FILE *to)
{
  char room[3][32];
  const plan_t *plan = replay->plan;
  fprintf(to, "\nlive at the end: %s bytes in %s block%s, at the peak: %s bytes", count_text(room[0], plan->end_bytes),
          count_text(room[1], plan->end_blocks), plural(plan->end_blocks), count_text(room[2], plan->peak_bytes));
  for (size_t i = 0; i < replay->count; i++) {
    const allocator_t *allocator = &replay->allocators[i];
    if (allocator->is_exact)
      continue;
    fprintf(to, "; with %s: %s bytes, %s bytes, and %s requests failed\n", short_name(allocator),
            count_text(room[0], allocator->of[FIGURE_END_BYTES]), count_text(room[1], allocator->of[FIGURE_PEAK_BYTES]),
            count_text(room[2], allocator->of[FIGURE_FAILED]));
    return;
  }
  fputs(", as recorded, in each run\n", to);
}

void replay_print(const replay_t *replay, FILE *to)
{
  char room[2][32];
  const plan_t *plan = replay->plan;
  command_print(replay->path, to);
  fprintf(to, ": %s\n%" PRIu32 " thread%s, %s calls, %s live at the peak; median of %u run%s\n\n", replay->facts.command,
          plan->thread_count, plural(plan->thread_count), count_text(room[0], plan->operation_count),
          bytes_text(room[1], plan->peak_bytes), replay->runs, plural(replay->runs));
  fprintf(to, "%-16s %9s %6s %7s %7s %7s %8s %9s %6s %9s %7s %10s\n", "allocator", "calls", "ratio", "p50", "p99", "p99.9",
          "longest", "peak RSS", "ratio", "mean RSS", "of live", "faults");
  for (size_t i = 0; i < replay->count; i++)
    print_row(replay, &replay->allocators[i], to);
  print_exactness(replay, to);
}

/* ---- JSON ---- */

static void print_string(const char *key, const char *value, FILE *to)
{
  fprintf(to, "\"%s\":", key);
  command_quote(value, to);
}

static void print_number(const char *key, uint64_t value, FILE *to) { fprintf(to, ",\"%s\":%" PRIu64, key, value); }

static void print_allocator(const replay_t *replay, const allocator_t *allocator, FILE *to)
{
  fputc('{', to);
  print_string("name", allocator->name, to);
  fputc(',', to);
  print_string("library", allocator->library, to);
  fprintf(to, ",\"is_exact\":%s", allocator->is_exact ? "true" : "false");
  for (figure_t i = 0; i < FIGURES; i++) {
    print_number(figures[i].key, allocator->of[i], to);
    if (figures[i].is_ratio)
      fprintf(to, ",\"%s_ratio\":%.4f", figures[i].key, ratio(allocator->of[i], replay->allocators[0].of[i]));
  }
  fputs(",\"runs\":[", to);
  for (unsigned run = 0; run < replay->runs; run++) {
    fprintf(to, "%s{\"number\":%u", run ? "," : "", run + 1);
    for (figure_t i = 0; i < FIGURES; i++)
      print_number(figures[i].key, allocator->results[run].of[i], to);
    fputc('}', to);
  }
  fputs("]}", to);
}

static void print_facts(const replay_t *replay, FILE *to)
{
  const recording_facts_t *facts = &replay->facts;
  char lacks[256];
  print_string("recording", replay->path, to);
  fputc(',', to);
  print_string("command", facts->command, to);
  print_number("pid", facts->head.pid, to);
  print_number("started_ns", facts->head.started_ns, to);
  print_number("ended_ns", facts->head.ended_ns, to);
  print_number("last_ns", facts->last_ns, to);
  print_number("frames", facts->head.frames_most, to);
  print_number("threads", facts->threads, to);
  print_number("events", facts->events, to);
  print_number("failed", facts->failed, to);
  print_number("unknown_frees", facts->unknown, to);
  print_number("missed_frees", facts->missed, to);
  print_number("end_bytes", facts->live_bytes, to);
  print_number("end_blocks", facts->live_blocks, to);
  print_number("peak_bytes", facts->peak_bytes, to);
  print_number("peak_blocks", facts->peak_blocks, to);
  print_number("peak_ns", facts->peak_ns, to);
  print_number("file_bytes", facts->file_bytes, to);
  print_number("damaged_parts", facts->damaged_chunks, to);
  print_number("missing_parts", facts->missing_chunks, to);
  fputc(',', to);
  recording_lacks(facts, lacks);
  print_string("lacks", lacks, to);
}

void replay_print_facts_json(const replay_t *replay, FILE *to)
{
  fputc('{', to);
  print_facts(replay, to);
  fputs("}\n", to);
}

void replay_print_json(const replay_t *replay, FILE *to)
{
  fputc('{', to);
  print_facts(replay, to);
  print_number("calls", replay->plan->operation_count, to);
  print_number("runs", replay->runs, to);
  fputs(",\"allocators\":[", to);
  for (size_t i = 0; i < replay->count; i++) {
    fputs(i ? ",\n" : "", to);
    print_allocator(replay, &replay->allocators[i], to);
  }
  fputs("]}\n", to);
}

/* ---- what is recorded ---- */

static void print_started(const recording_facts_t *facts, FILE *to)
{
  time_t seconds = (time_t)(facts->head.started_ns / 1000000000);
  struct tm parts;
  char text[64] = "?", room[32];
  if (localtime_r(&seconds, &parts))
    strftime(text, sizeof text, "%F %T", &parts);
  uint64_t lasted = facts->head.ended_ns > facts->last_ns ? facts->head.ended_ns : facts->last_ns;
  fprintf(to, "started          %s, process %" PRIu32 "\nlasted           %s\n", text, facts->head.pid,
          time_text(room, lasted));
}

void replay_print_facts(const replay_t *replay, FILE *to)
{
  const recording_facts_t *facts = &replay->facts;
  char room[4][32];
  fprintf(to, "command          %s\n", facts->command);
  print_started(facts, to);
  fprintf(to, "threads          %" PRIu32 "\n", facts->threads);
  fprintf(to, "events           %s, %.1f bytes of the file each\n", count_text(room[0], facts->events),
          ratio(facts->file_bytes, facts->events));
  fprintf(to, "live at the end  %s bytes in %s block%s\n", count_text(room[0], facts->live_bytes),
          count_text(room[1], facts->live_blocks), plural(facts->live_blocks));
  fprintf(to, "live at the peak %s bytes in %s block%s, after %s\n", count_text(room[0], facts->peak_bytes),
          count_text(room[1], facts->peak_blocks), plural(facts->peak_blocks), time_text(room[2], facts->peak_ns));
  if (facts->failed)
    fprintf(to, "failed           %s request%s\n", count_text(room[0], facts->failed), plural(facts->failed));
  if (facts->unknown)
    fprintf(to, "left out         %s free%s of blocks whose allocation is not recorded\n", count_text(room[0], facts->unknown),
            plural(facts->unknown));
  if (facts->missed)
    fprintf(to, "put in           %s frees of blocks whose address another block has got\n",
            count_text(room[0], facts->missed));
}
