/* SPDX-License-Identifier: MIT
 * Options are read once in a process: each case is a child. */
#include "option.h"
#include "unit.h"
#include <tidepool/version.h>

#define VARIABLE "TIDEPOOL_OPTIONS"

static void read_from(void *text)
{
  setenv(VARIABLE, text, 1);
  option_read(true);
}

/* A child that must end well; what it found is in its exit. Both structs are static, so their padding is zero. */
typedef struct reading {
  const char *text;
  const options_t *expected;
} reading_t;

/* Every field is compared, so that the good value of a new option is a test. */
static void read_and_compare(void *argument)
{
  const reading_t *reading = argument;
  setenv(VARIABLE, reading->text, 1);
  option_read(true);
  must(memcmp(&settings, reading->expected, sizeof settings) == 0);
}

#define READS(words, ...) \
  do { \
    static const options_t expected = {.purge_delay_ms = PURGE_DELAY_DEFAULT_MS, \
                                       .huge_pages = HUGE_PAGES_AUTO, \
                                       .cache_bytes = CACHE_BYTES_DEFAULT, \
                                       __VA_ARGS__}; \
    reading_t reading = {words, &expected}; \
    in_child_named(words, read_and_compare, &reading); \
  } while (0)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
static void good_values(void **state)
{
  (void)state;
  READS("", .checked = false);
  READS("checked=1", .checked = true);
  READS("checked=1,checked=0", .checked = false);
  READS("purge_delay_ms=4294967294", .purge_delay_ms = PURGE_NEVER - 1);
  READS("huge_pages=never", .huge_pages = HUGE_PAGES_NEVER);
  READS("huge_pages=auto", .huge_pages = HUGE_PAGES_AUTO);
  READS("huge_pages=always", .huge_pages = HUGE_PAGES_ALWAYS);
  READS("stats=exit,abort_on_exhausted=1", .stats_at_exit = true, .abort_on_exhausted = true);
  READS("deepbind=1", .deepbind = true);
  READS("background=1", .background = BACKGROUND_PURGES);
  READS("background=2", .background = BACKGROUND_REACHES_ALL);
  READS("background=1,background=0,background=3", .background = BACKGROUND_NONE);
  READS("stats=exit,stats=none", .stats_at_exit = false);
  READS("purge_delay_ms=0", .purge_delay_ms = 0);
  READS("purge_delay_ms=12345", .purge_delay_ms = 12345);
  READS("purge_delay_ms=never", .purge_delay_ms = PURGE_NEVER);
  READS("cache_bytes=0", .cache_bytes = 0);
  READS("cache_bytes=1073741824", .cache_bytes = CACHE_BYTES_MOST);
  READS("sites=0", .sites = 0);
  READS("sites=1", .sites = 1);
  READS("sites=16", .sites = 16);
  READS("blocks=auto", .blocks = BLOCKS_BY_TOOL);
  READS("blocks=own", .blocks = BLOCKS_OWN);
  READS("blocks=own,blocks=malloc", .blocks = BLOCKS_OF_MALLOC);
  READS("sites=8,sites=008", .sites = 8);
  READS("leaks=none", .leaks = 0);
  READS("leaks=destroy", .leaks = LEAKS_AT_DESTROY, .sites = 1);
  READS("leaks=exit", .leaks = LEAKS_AT_EXIT, .sites = 1);
  READS("leaks=all,sites=4", .leaks = LEAKS_AT_DESTROY | LEAKS_AT_EXIT, .sites = 4);
  READS("sites=4,leaks=all,leaks=none", .sites = 4);
  READS(",,checked=1,,", .checked = true);
  READS("checked=all", .checked = true, .all = ALL_CHECKED);
  READS("checked=all,checked=1", .checked = true);
  READS("checked=all,checked=0", .checked = false);
  READS("guarded=all", .guarded = true, .all = ALL_GUARDED);
  READS("guarded=all,checked=all", .checked = true, .guarded = true, .all = ALL_CHECKED | ALL_GUARDED);
  READS("guarded=all,guarded=0", .guarded = false);
}

/* Ignored, and the ones beside them count. */
static void bad_values(void **state)
{
  (void)state;
  static const char *const bad[] = {
    "purge_delay_ms=",
    "cache_bytes=",
    "cache_bytes=1073741825",
    "cache_bytes=32M",
    "purge_delay_ms=-1",
    "purge_delay_ms=1x",
    "purge_delay_ms=99999999999",
    "purge_delay_ms=4294967295",
    "purge_delay_ms=429496729600",
    "huge_pages=",
    "huge_pages=yes",
    "huge_pages",
    "stats=1",
    "checked=2",
    "guarded=2",
    "guarded=",
    "guard_sample=",
    "blocks=",
    "blocks=1",
    "blocks=mallo",
    "guard_sample=-1",
    "guard_sample=1k",
    "guard_sample=4294967296",
    "check_at_exit=x",
    "checked=",
    "checked",
    "abort_on_exhausted=10",
    "deepbind=yes",
    "sites=",
    "sites=17",
    "sites=-1",
    "sites=1x",
    "sites=256",
    "sites=4294967297",
    "leaks=",
    "leaks=1",
    "leaks=both",
    "Checked=1",
    "unknown=1",
    "=1",
    "=",
    "ckecked=1",
    "version=1",
    "a_key_that_is_much_longer_than_any_key_that_there_could_ever_be_here=1",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char text[160];
    snprintf(text, sizeof text, "%s,stats=exit", bad[i]);
    READS(text, .stats_at_exit = true);
    snprintf(text, sizeof text, "stats=exit,%s", bad[i]);
    READS(text, .stats_at_exit = true);
  }
}
#pragma GCC diagnostic pop

static void read_then_abort(void *text)
{
  read_from(text);
  abort();
}

static void warnings(void **state)
{
  (void)state;
  char unknown[] = "nonsense=1", value[] = "checked=7", help[] = "help", misspelt[] = "ckecked=1", plural[] = "huge_page=auto",
       bare[] = "stats", version[] = "version";
  char long_one[512] = "stats=exit:";
  memset(long_one + strlen(long_one), 'x', 400);
  aborts_with(read_then_abort, long_one, "tidepool: TIDEPOOL_OPTIONS: an option is too long, ignored\n");
  aborts_with(read_then_abort, unknown,
              "tidepool: nonsense: unknown option; known are purge_delay_ms, cache_bytes, huge_pages, stats");
  aborts_with(read_then_abort, unknown, ", names, deepbind, abort_on_exhausted; ignored\n");
  aborts_with(read_then_abort, value, "tidepool: checked: invalid value; valid values are 0, 1, all; ignored\n");
  aborts_with(read_then_abort, misspelt, "tidepool: ckecked: unknown option, the nearest is checked; ignored\n");
  aborts_with(read_then_abort, plural, "tidepool: huge_page: unknown option, the nearest is huge_pages; ignored\n");
  aborts_with(read_then_abort, bare,
              "tidepool: stats: no value; valid values are none, exit, exit:FILE (up to 255 bytes); ignored\n");
  aborts_with(read_then_abort, help, "purge_delay_ms=milliseconds, never");
  aborts_with(read_then_abort, help, "abort_on_exhausted=0, 1");
  aborts_with(read_then_abort, version, "tidepool " TIDEPOOL_VERSION "\n");
}

static void set_before_and_after(void *argument)
{
  (void)argument;
  must(option_set("purge_delay_ms", "7"));
  must(option_set("checked", "1"));
  must(!option_set("checked", "x"));
  must(!option_set("nothing", "1"));
  must(!option_set(NULL, "1"));
  must(!option_set("checked", NULL));
  setenv(VARIABLE, "checked=0", 1);
  option_read(true);
  must(settings.purge_delay_ms == 7 && !settings.checked); /* the environment has the last word */
  must(!option_set("checked", "1"));
  setenv(VARIABLE, "checked=1", 1);
  option_read(true);
  must(!settings.checked);
}

static void set_by_the_program(void **state)
{
  (void)state;
  in_child(set_before_and_after, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(good_values),
    cmocka_unit_test(bad_values),
    cmocka_unit_test(warnings),
    cmocka_unit_test(set_by_the_program),
  };
  return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
