/* SPDX-License-Identifier: MIT
 *
 *   mutated_report ROUNDS
 *
 * Whatever a line holds, it is a report or is refused with words, and what was taken for one can be printed in each way. */
#include "../../tools/command/command.h"
#include "../../tools/command/live/report.h"
#include "mutated.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char seed[] =
  "{\"pid\":7,\"heaps\":[{\"name\":\"default\",\"budget\":0,\"held_bytes\":249696,\"peak_held_bytes\":9,\"live_bytes\":640,"
  "\"live_blocks\":1,\"pools\":[{\"block_size\":640}],\"large\":{\"live_blocks\":0}},{\"name\":\"a\\u0041\\ud83d\\ude00\"},"
  "{\"name\":\"a\"}],\"object_pools\":[{\"name\":\"m\",\"heap\":\"a\",\"live\":1},{\"name\":\"m\",\"heap\":\"a\"}]}";

static const char *const pieces[] = {"[",
                                     "]",
                                     "{",
                                     "}",
                                     "\"",
                                     ",",
                                     ":",
                                     "-1",
                                     "9223372036854775807",
                                     "1e9",
                                     "null",
                                     "\\",
                                     "\\u0",
                                     "true",
                                     "\xff",
                                     "\"heaps\":",
                                     "{\"name\":\"b\"}",
                                     "\"heap\":\"\""};

/* A page is not written to a file here. */
_Noreturn void command_fail(int status, const char *format, ...)
{
  (void)status;
  (void)format;
  abort();
}

/* Leaves out some bytes of the text, exchanges one, or puts a piece in. */
static size_t mutate(char *text, size_t length, size_t room)
{
  size_t at = any() % (length + 1), left = length - at;
  const char *piece = pieces[any() % (sizeof pieces / sizeof *pieces)];
  size_t added = strlen(piece), gone = any() % (left < 20 ? left + 1 : 20);
  switch (any() % 3) {
  case 0:
    memmove(text + at, text + at + gone, left - gone);
    return length - gone;
  case 1:
    if (left)
      text[at] = (char)any();
    return length;
  default:
    if (length + added > room)
      return length;
    memmove(text + at + added, text + at, left);
    memcpy(text + at, piece, added);
    return length + added;
  }
}

int main(int argc, char **argv)
{
  uint64_t rounds = argc == 2 ? strtoull(argv[1], NULL, 10) : 0, taken = 0;
  FILE *nowhere = fopen("/dev/null", "w");
  if (!nowhere)
    return 2;
  for (uint64_t i = 0; i < rounds; i++) {
    char text[2 * sizeof seed], why[256] = "";
    size_t length = sizeof seed - 1;
    memcpy(text, seed, length);
    for (uint64_t changes = any() % 4; changes > 0; changes--)
      length = mutate(text, length, sizeof text);
    report_t report;
    if (!report_parse(&report, text, length, why)) {
      if (!*why || strlen(why) >= sizeof why)
        abort();
      continue;
    }
    taken++;
    report_print(&report, nowhere);
    report_write_page(&report, 1, report.heap_count ? report.heaps[0].name : "none", "note", nowhere);
    report_print_prometheus(&report, 1, nowhere);
    report_free(&report);
  }
  fclose(nowhere);
  printf("%llu of %llu were reports\n", (unsigned long long)taken, (unsigned long long)rounds);
  return taken < rounds / 10 || taken > rounds / 10 * 9; /* either would tell little */
}
