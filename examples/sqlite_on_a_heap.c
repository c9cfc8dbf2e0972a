/* SPDX-License-Identifier: MIT
 * SQLite within a budget: how much it uses is known exactly, and a query that wants more fails with SQLITE_NOMEM.
 *
 *     cc sqlite_on_a_heap.c $(pkg-config --cflags --libs tidepool sqlite3) -o sqlite_on_a_heap */
#include <stdio.h>
#include <tidepool/sqlite.h>
#include <tidepool/stats.h>

static const char fill[] = "CREATE TABLE measured (at INTEGER PRIMARY KEY, what TEXT, value REAL);"
                           "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
                           "  INSERT INTO measured SELECT i, 'sensor ' || (i % 7), i * 0.25 FROM n;";
static const char greedy[] = "SELECT length(group_concat(hex(zeroblob(100000)))) FROM measured;";

static void show(pool_heap_t *heap, const char *when)
{
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  printf("%-12s %6zu KiB live (SQLite says %lld), %6zu KiB held, budget %zu\n", when, stats.live_bytes >> 10,
         (long long)sqlite3_memory_used() >> 10, stats.held_bytes >> 10, stats.budget >> 10);
}

static int use(pool_heap_t *heap)
{
  sqlite3 *db;
  if (sqlite3_open(":memory:", &db) != SQLITE_OK || sqlite3_exec(db, fill, NULL, NULL, NULL) != SQLITE_OK)
    return fprintf(stderr, "%s\n", sqlite3_errmsg(db)), 1;
  show(heap, "filled");
  int status = sqlite3_exec(db, greedy, NULL, NULL, NULL);
  printf("%-12s %s\n", "greedy", sqlite3_errmsg(db));
  show(heap, "after it");
  sqlite3_close(db);
  return status == SQLITE_NOMEM ? 0 : 1;
}

int main(void)
{
  pool_heap_options_t options = {.name = "sqlite", .budget = 16 << 20};
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap || pool_sqlite_install(heap) != SQLITE_OK)
    return 1;
  int status = use(heap);
  sqlite3_shutdown();
  show(heap, "shut down");
  pool_heap_destroy(heap);
  return status;
}
