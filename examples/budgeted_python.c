/* SPDX-License-Identifier: MIT
 * A Python script that may use so much memory and no more. When it wants more it gets MemoryError, and the next script runs.
 *
 *     cc budgeted_python.c $(pkg-config --cflags --libs tidepool python3-embed) -o budgeted_python */
#include <tidepool/python.h>

#include <stdio.h>
#include <tidepool/stats.h>

static const char harmless[] = "print('harmless:', len([str(i) for i in range(1000)]), 'lines', flush=True)";
static const char greedy[] =
  "lines = []\n"
  "try:\n"
  "  while True: lines.append('x' * 1000 + str(len(lines)))\n"
  "except MemoryError:\n"
  "  count = len(lines)\n"
  "  lines = None\n"
  "  print('greedy: MemoryError after', count > 1000 and 'thousands of' or count, 'lines', flush=True)";

static bool start(void)
{
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  PyStatus status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  return !PyStatus_Exception(status);
}

int main(void)
{
  pool_heap_options_t options = {.name = "python", .budget = 64 << 20};
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap)
    return 1;
  pool_python_install(heap);
  if (!start())
    return 1;
  bool good = PyRun_SimpleString(harmless) == 0 && PyRun_SimpleString(greedy) == 0 && PyRun_SimpleString(harmless) == 0;
  Py_FinalizeEx();
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  printf("%zu MiB held at most, of %zu\n", stats.peak_held_bytes >> 20, stats.budget >> 20);
  pool_heap_destroy(heap); /* Python is not called again */
  return good && stats.exhausted_count > 0 ? 0 : 1;
}
