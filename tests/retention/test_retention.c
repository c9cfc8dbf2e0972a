/* SPDX-License-Identifier: MIT
 * What must hold of a library that keeps free memory for a delay, on any machine: a longer delay faults less and holds more.
 * The recording is written here, so its times are always the same. No run has huge pages but one. */
#include "../command/recording_image.h"
#include "../unit/unit.h"
#include "command.h"
#include "simulate.h"

/* Rounds of 16 MB. A pause is longer than one delay and its epoch, and shorter than the next: so each delay faults in one round
 * more than the next. Blocks that stay lie between the others, so that free memory is purged
 * and not unmapped. */
enum {
  BLOCKS = 80,
  BLOCK_BYTES = 200000,
  ROUND_BYTES = BLOCKS * BLOCK_BYTES,
  KEPT_EVERY = 8,
  KEPT_BYTES = BLOCKS / KEPT_EVERY * BLOCK_BYTES,
  CALLS = 400,
  HELD_MS = 20000
};
static const uint64_t pauses_ms[] = {20, 175, 375, 750, 2500, 30000, 30000};
static uint64_t all_ms = HELD_MS;
static const char *const delays[] = {"0", "100", "250", "500", "1000", "10000", "never"};
#define MS UINT64_C(1000000)
enum { ROUNDS = sizeof pauses_ms / sizeof *pauses_ms, DELAYS = sizeof delays / sizeof *delays, NEVER = DELAYS - 1 };
_Static_assert(sizeof pauses_ms / sizeof *pauses_ms < IMAGE_CHUNKS, "each round has a chunk");

static char path[] = "/tmp/tidepool-retention-XXXXXX";
static trace_t trace;
static outcome_t outcomes[DELAYS];
static bool is_counted; /* the kernel says what is resident, and counts no memory of an emulator */

void command_say(const char *format, ...) { fprintf(stderr, "%s\n", format); }

void command_fail(int status, const char *format, ...)
{
  fprintf(stderr, "%s\n", format);
  exit(status);
}

/* ---- the recording ---- */

static uint64_t address_of(uint64_t block) { return 0x7f0000000000 + block * (1 << 20); }

/* The small request comes often, as a program's next ones do: it looks at the clock. */
static void add_pause(size_t chunk, uint64_t *ns, uint64_t ms)
{
  for (uint64_t i = 0; i < CALLS; i++) {
    *ns += ms * MS / CALLS;
    image_alloc(chunk, *ns, address_of(BLOCKS), BLOCK_BYTES / 2 + i * 100);
    image_free(chunk, *ns, address_of(BLOCKS));
  }
}

static void make_recording(void)
{
  uint64_t ns = 0;
  image_begin();
  for (size_t round = 0; round < ROUNDS; round++) {
    size_t chunk = image_add(1, 1, ns);
    for (uint64_t i = 0; i < BLOCKS; i++) {
      image_alloc(chunk, ns, address_of(i), BLOCK_BYTES);
      if (!round && i % KEPT_EVERY == 0)
        image_alloc(chunk, ns, address_of(BLOCKS + 1 + i), BLOCK_BYTES);
    }
    ns += round + 1 == ROUNDS ? HELD_MS * MS : 0; /* nobody calls, and all is live */
    for (uint64_t i = 0; i < BLOCKS; i++)
      image_free(chunk, ns, address_of(i));
    all_ms += pauses_ms[round];
    add_pause(chunk, &ns, pauses_ms[round]);
  }
  int file = mkstemp(path);
  image_write(file);
  close(file);
}

/* ---- runs ---- */

static void check_counted(void)
{
  if (!is_counted)
    skip();
}

/* All that was recorded is done, whatever the policy. */
static outcome_t outcome_of(const char *options, policy_t policy)
{
  outcome_t outcome;
  check_counted();
  policy.options = options;
  if (!policy.written_percent)
    policy.written_percent = 100;
  assert_true(simulate(&trace, &policy, &outcome));
  assert_int_equal(outcome.failed, 0);
  assert_int_equal(outcome.live_peak, ROUND_BYTES + KEPT_BYTES);
  assert_int_equal(outcome.live_end, KEPT_BYTES);
  assert_true(outcome.mean <= outcome.peak && outcome.end <= outcome.peak && outcome.huge_mean <= outcome.mean);
  assert_true(outcome.returns <= outcome.system_calls);
  return outcome;
}

static int prepare(void **state)
{
  (void)state;
  make_recording();
  trace_read(&trace, "test", path, NULL, NULL);
  unlink(path);
  const char *emulator = getenv("EMULATED");
  is_counted = access("/proc/self/smaps_rollup", R_OK) == 0 && (!emulator || !*emulator);
  for (size_t i = 0; is_counted && i < DELAYS; i++) {
    char options[64];
    snprintf(options, sizeof options, "huge_pages=never,purge_delay_ms=%s", delays[i]);
    outcomes[i] = outcome_of(options, (policy_t){0});
  }
  return 0;
}

static void a_recording_is_read_whole(void **state)
{
  (void)state;
  assert_int_equal(trace.count, ROUNDS * 2 * (BLOCKS + CALLS) + BLOCKS / KEPT_EVERY);
  assert_int_equal(trace.facts.live_bytes, KEPT_BYTES);
  assert_int_equal(trace.facts.peak_bytes, ROUND_BYTES + KEPT_BYTES);
}

static void a_longer_delay_faults_less(void **state)
{
  (void)state;
  check_counted();
  uint64_t round = ROUND_BYTES / (uint64_t)sysconf(_SC_PAGESIZE);
  assert_true(outcomes[NEVER].faults >= round);
  for (size_t i = 0; i + 1 < DELAYS; i++)
    assert_true(outcomes[i].faults >= outcomes[i + 1].faults + round / 2);
}

/* A hundredth of a round is for the library's own records. */
static void a_longer_delay_holds_more(void **state)
{
  (void)state;
  check_counted();
  for (size_t i = 0; i + 1 < DELAYS; i++)
    assert_true(outcomes[i].mean <= outcomes[i + 1].mean + ROUND_BYTES / 100);
  assert_true(outcomes[0].mean * 2 < outcomes[NEVER].mean);
}

static void never_returns_nothing(void **state)
{
  (void)state;
  check_counted();
  assert_int_equal(outcomes[NEVER].returns, 0);
  assert_true(outcomes[NEVER].end >= ROUND_BYTES);
  for (size_t i = 0; i < NEVER; i++)
    assert_true(outcomes[i].returns && outcomes[i].end < KEPT_BYTES + ROUND_BYTES / 4);
}

static void trims_return_what_is_not_kept(void **state)
{
  (void)state;
  outcome_t all = outcome_of("huge_pages=never,purge_delay_ms=never", (policy_t){.trim_ms = 100});
  outcome_t tenth = outcome_of("huge_pages=never,purge_delay_ms=never", (policy_t){.trim_ms = 100, .kept_percent = 90});
  assert_true(all.end < KEPT_BYTES + ROUND_BYTES / 4 && tenth.end < KEPT_BYTES + ROUND_BYTES / 4);
  assert_true(all.mean < tenth.mean && tenth.mean < outcomes[NEVER].mean);
  assert_true(all.faults > tenth.faults && tenth.faults > outcomes[NEVER].faults);
}

static void a_tenth_of_each_block_is_written(void **state)
{
  (void)state;
  outcome_t outcome = outcome_of("huge_pages=never,purge_delay_ms=never", (policy_t){.written_percent = 10});
  assert_true(outcome.faults * 2 < outcomes[NEVER].faults && outcome.mean * 2 < outcomes[NEVER].mean);
}

/* A sample is a 400th of the time, and stands for the time before it. */
static void a_mean_is_over_the_recorded_time(void **state)
{
  (void)state;
  check_counted();
  uint64_t live_mean = KEPT_BYTES + (uint64_t)ROUND_BYTES * HELD_MS / all_ms;
  for (size_t i = 0; i < DELAYS; i++)
    assert_in_range(outcomes[i].live_mean, live_mean - ROUND_BYTES / 200, live_mean + ROUND_BYTES / 200);
  assert_true(outcomes[NEVER].mean >= outcomes[NEVER].peak / 100 * 95);
}

static void huge_pages_change_no_sums(void **state)
{
  (void)state;
  outcome_of("huge_pages=always", (policy_t){0});
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_recording_is_read_whole),        cmocka_unit_test(a_longer_delay_faults_less),
    cmocka_unit_test(a_longer_delay_holds_more),        cmocka_unit_test(never_returns_nothing),
    cmocka_unit_test(trims_return_what_is_not_kept),    cmocka_unit_test(a_tenth_of_each_block_is_written),
    cmocka_unit_test(a_mean_is_over_the_recorded_time), cmocka_unit_test(huge_pages_change_no_sums),
  };
  return cmocka_run_group_tests(tests, prepare, NULL);
}
