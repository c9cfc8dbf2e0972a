/* SPDX-License-Identifier: MIT
 * SQLite on a heap: its count of bytes is ours, its own check of a database finds nothing, each failing allocation becomes
 * SQLITE_NOMEM, and nothing is lost. */
#include "../heap/heaps.h"
#include <tidepool/sqlite.h>

static const char work[] = "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c BLOB); CREATE INDEX i ON t (b);"
                           "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 400)"
                           "  INSERT INTO t SELECT x, 'row ' || (x * 7919 % 1000), zeroblob(x % 300) FROM n;"
                           "UPDATE t SET b = b || b WHERE a % 3 = 0; DELETE FROM t WHERE a % 5 = 0;"
                           "SELECT b, count(*), group_concat(hex(c)) FROM t GROUP BY b ORDER BY 3 DESC;";

/* Counts calls, and fails one. */
static sqlite3_mem_methods through;
static size_t calls, fail_from, fail_count;

static bool fails(void)
{
  calls++;
  return calls >= fail_from && calls < fail_from + fail_count;
}

static void *alloc_or_fail(int size) { return fails() ? NULL : through.xMalloc(size); }
static void *realloc_or_fail(void *block, int size) { return fails() ? NULL : through.xRealloc(block, size); }

static pool_heap_t *heap;
static size_t plenty; /* for the work, whatever this version of SQLite takes for it */

static void start(pool_heap_options_t options)
{
  heap = heap_with(options);
  calls = fail_count = 0;
  through = pool_sqlite_methods(heap);
  sqlite3_mem_methods methods = through;
  methods.xMalloc = alloc_or_fail;
  methods.xRealloc = realloc_or_fail;
  assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &methods), SQLITE_OK);
  assert_int_equal(sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 1), SQLITE_OK); /* some builds do not count by themselves */
  assert_int_equal(sqlite3_initialize(), SQLITE_OK);
}

static void figures_agree(void) { assert_int_equal(sqlite3_memory_used(), stats_of(heap).live_bytes); }

/* Nothing is live once SQLite is shut down. */
static void end(void)
{
  figures_agree();
  assert_int_equal(sqlite3_shutdown(), SQLITE_OK);
  assert_int_equal(stats_of(heap).live_blocks, 0);
  assert_true(check_heap(heap));
  pool_heap_destroy(heap);
}

static int first_text(void *text, int count, char **values, char **names)
{
  (void)count, (void)names;
  snprintf(text, 64, "%s", values[0]);
  return 0;
}

static void is_sound(sqlite3 *db)
{
  char text[64] = "";
  assert_int_equal(sqlite3_exec(db, "PRAGMA integrity_check", first_text, text, NULL), SQLITE_OK);
  assert_string_equal(text, "ok");
}

static void works(void **state)
{
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    sqlite3 *db;
    start((pool_heap_options_t){.budget = i * plenty});
    figures_agree();
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, work, NULL, NULL, NULL), SQLITE_OK);
    figures_agree();
    assert_true(calls > 0 && stats_of(heap).live_blocks > 0);
    plenty = max_size(plenty, 2 * stats_of(heap).peak_held_bytes);
    is_sound(db);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    end();
  }
}

static void sizes_are_true(void **state)
{
  (void)state;
  start((pool_heap_options_t){0});
  for (int size = 1; size < 5000000; size = size * 3 / 2 + 1) {
    int rounded = through.xRoundup(size);
    assert_true(rounded >= size);
    void *block = through.xMalloc(rounded);
    assert_int_equal(through.xSize(block), rounded);
    block = through.xRealloc(block, through.xRoundup(2 * size));
    assert_int_equal(through.xSize(block), through.xRoundup(2 * size));
    through.xFree(block);
  }
  end();
}

/* `count` allocations from the n-th on fail; returns whether so many were made at all. */
static bool fail_at(size_t n, size_t count)
{
  sqlite3 *db = NULL;
  calls = 0;
  fail_from = n;
  fail_count = count;
  int status = sqlite3_open(":memory:", &db);
  if (status == SQLITE_OK)
    status = sqlite3_exec(db, work, NULL, NULL, NULL);
  fail_count = 0;
  bool reached = calls >= n;
  assert_true(status == SQLITE_OK || status == SQLITE_NOMEM);
  assert_true(reached || status == SQLITE_OK);
  figures_agree();
  if (db && sqlite3_errcode(db) != SQLITE_NOMEM)
    is_sound(db);
  assert_int_equal(sqlite3_close(db), SQLITE_OK);
  return reached;
}

static void each_allocation_fails(void **state)
{
  (void)state;
  start((pool_heap_options_t){.flags = POOL_HEAP_ZERO_ON_FREE});
  assert_false(fail_at(SIZE_MAX / 2, 1));
  size_t before = stats_of(heap).live_blocks, n = 1;
  for (; fail_at(n, n % 2 ? 1 : SIZE_MAX / 4); n += 1 + n / 50)
    assert_int_equal(stats_of(heap).live_blocks, before);
  assert_true(n > 1);
  end();
}

/* The budget itself, not a test, says no, before blobs are stored that would not fit into it; what was there before is
 * unharmed. */
static void a_budget_ends_in_nomem(void **state)
{
  (void)state;
  enum { BLOB = 3000, ROWS = 100 };
  char insert[160];
  sqlite3 *db;
  start((pool_heap_options_t){.budget = plenty});
  assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, work, NULL, NULL, NULL), SQLITE_OK);
  snprintf(insert, sizeof insert, "INSERT INTO t SELECT a + (SELECT max(a) FROM t), b, zeroblob(%d) FROM t LIMIT %d;", BLOB,
           ROWS);
  for (unsigned i = 0; i < 3; i++) {
    size_t stored = 0;
    int status = sqlite3_exec(db, "BEGIN;", NULL, NULL, NULL);
    for (; status == SQLITE_OK && stored <= plenty; stored += BLOB * ROWS)
      status = sqlite3_exec(db, insert, NULL, NULL, NULL);
    assert_int_equal(status, SQLITE_NOMEM);
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    is_sound(db);
  }
  pool_stats_t s = stats_of(heap);
  assert_true(s.exhausted_count > 0 && s.peak_held_bytes <= s.budget);
  assert_int_equal(sqlite3_close(db), SQLITE_OK);
  end();
}

static void only_before_its_first_use(void **state)
{
  (void)state;
  start((pool_heap_options_t){0});
  assert_int_equal(pool_sqlite_install(heap), SQLITE_MISUSE);
  end();
  assert_int_equal(pool_sqlite_install(NULL), SQLITE_OK);
  assert_int_equal(sqlite3_initialize(), SQLITE_NOMEM);
}

/* ---- a connection a thread, one heap ---- */

static void use_a_connection(size_t index, void *unused)
{
  (void)index, (void)unused;
  sqlite3 *db;
  for (unsigned i = 0; i < 5; i++) {
    must(sqlite3_open(":memory:", &db) == SQLITE_OK);
    must(sqlite3_exec(db, work, NULL, NULL, NULL) == SQLITE_OK);
    must(sqlite3_close(db) == SQLITE_OK);
  }
}

static void many_threads(void **state)
{
  (void)state;
  start((pool_heap_options_t){.budget = 4 * plenty});
  run_threads(3, use_a_connection, NULL);
  end();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(works),
    cmocka_unit_test(sizes_are_true),
    cmocka_unit_test(each_allocation_fails),
    cmocka_unit_test(a_budget_ends_in_nomem),
    cmocka_unit_test(many_threads),
    cmocka_unit_test(only_before_its_first_use),
  };
  return cmocka_run_group_tests_name("sqlite", tests, NULL, NULL);
}
