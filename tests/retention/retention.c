/* SPDX-License-Identifier: MIT
 *
 *   retention [--written PERCENT] RECORDING POLICY...
 *
 * Replays a recording of `tidepool record` against retention policies, one after the other, and prints a line for each. A
 * policy is the library's options, as in TIDEPOOL_OPTIONS. With @MS:PERCENT behind them, the program calls pool_trim() every MS
 * milliseconds, and keeps so much of its free memory:
 *
 *   retention perl.recording purge_delay_ms=100 purge_delay_ms=1000,huge_pages=never purge_delay_ms=never@100:90 */
#include "command.h"
#include "simulate.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { POLICY_BYTES = 256 };

void command_say(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
}

void command_fail(int status, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(status);
}

static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

static void print_head(const trace_t *trace)
{
  printf("%s\n%zu calls in %.2f s\n\n", trace->program, trace->count, (double)trace->facts.last_ns / 1e9);
  printf("%-40s %9s %9s %8s %9s %9s %9s %7s %9s\n", "policy", "faults", "calls", "returns", "mean MiB", "peak MiB", "end MiB",
         "huge %", "live MiB");
}

static void print_outcome(const char *name, const outcome_t *of)
{
  printf("%-40s %9llu %9llu %8llu %9.2f %9.2f %9.2f %7.1f %9.2f\n", name, (unsigned long long)of->faults,
         (unsigned long long)of->system_calls, (unsigned long long)of->returns, mib(of->mean), mib(of->peak), mib(of->end),
         of->mean ? 100.0 * (double)of->huge_mean / (double)of->mean : 0, mib(of->live_mean));
  fflush(stdout);
}

static unsigned percent_of(const char *text)
{
  unsigned long percent = strtoul(text, NULL, 10);
  if (percent > 100)
    command_fail(COMMAND_MISUSED, "retention: %s is more than 100 percent", text);
  return (unsigned)percent;
}

static policy_t policy_of(char *text, unsigned written_percent)
{
  policy_t policy = {.options = text, .written_percent = written_percent};
  char *trims = strchr(text, '@');
  if (trims) {
    *trims = '\0';
    if (sscanf(trims + 1, "%u:%u", &policy.trim_ms, &policy.kept_percent) != 2 || !policy.trim_ms || policy.kept_percent > 100)
      command_fail(COMMAND_MISUSED, "retention: %s is not MS:PERCENT", trims + 1);
  }
  return policy;
}

int main(int count, char **arguments)
{
  unsigned written_percent = 100;
  trace_t trace;
  char name[POLICY_BYTES];
  if (count > 2 && !strcmp(arguments[1], "--written")) {
    written_percent = percent_of(arguments[2]);
    arguments += 2, count -= 2;
  }
  if (count < 3)
    command_fail(COMMAND_MISUSED, "usage: retention [--written PERCENT] RECORDING POLICY...");
  trace_read(&trace, "retention", arguments[1], NULL, NULL);
  print_head(&trace);
  for (int i = 2; i < count; i++) {
    outcome_t outcome;
    snprintf(name, sizeof name, "%s", arguments[i]);
    policy_t policy = policy_of(arguments[i], written_percent);
    if (!simulate(&trace, &policy, &outcome))
      command_fail(COMMAND_FAILED, "retention: %s: the run ended early", name);
    print_outcome(name, &outcome);
    if (outcome.failed || outcome.live_end != trace.facts.live_bytes || outcome.live_peak != trace.facts.peak_bytes)
      command_fail(COMMAND_FAILED, "retention: %s: not all that was recorded was done", name);
  }
  trace_free(&trace);
}
