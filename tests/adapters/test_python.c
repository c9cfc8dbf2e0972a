/* SPDX-License-Identifier: MIT
 * An embedded Python on a heap: a script runs, too small a budget is MemoryError and the next script runs, and a second
 * interpreter finds what the first one left. */
#include <tidepool/python.h>

#include "trials.h"

static const char script[] =
  "import json, threading\n"
  "rows = [{'n': i, 'text': 'x' * (i % 100), str(i): [i / 4, None]} for i in range(2000)]\n"
  "assert json.loads(json.dumps(rows)) == rows\n"
  "sums = []\n"
  "threads = [threading.Thread(target=lambda: sums.append(sum(len(row['text']) for row in rows))) for _ in range(4)]\n"
  "for thread in threads: thread.start()\n"
  "for thread in threads: thread.join()\n"
  "assert sums == [99000] * 4 and 3 ** 5000 % 1000 == 1\n";

static bool start(void)
{
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.install_signal_handlers = 0;
  PyStatus status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  return !PyStatus_Exception(status);
}

typedef enum ending { ENDED, MEMORY_ERROR, FAILED } ending_t;

static ending_t run(const char *text)
{
  PyObject *module = PyImport_AddModule("__main__");
  PyObject *names = module ? PyModule_GetDict(module) : NULL;
  PyObject *result = names ? PyRun_String(text, Py_file_input, names, names) : NULL;
  if (result) {
    Py_DECREF(result);
    return ENDED;
  }
  ending_t ending = PyErr_ExceptionMatches(PyExc_MemoryError) ? MEMORY_ERROR : FAILED;
  PyErr_Clear();
  return ending;
}

static bool work(pool_heap_t *heap)
{
  pool_python_install(heap);
  if (!start())
    return false;
  must(stats_of(heap).live_blocks > 1000);
  ending_t ending = run(script);
  must(ending != FAILED);
  must(Py_FinalizeEx() == 0);
  return ending == ENDED;
}

static void works(void **state)
{
  (void)state;
  outcome_t first = try_to(work, (pool_heap_options_t){0}, 0, 0);
  assert_true(first.done);
  print_message("Python keeps %zu blocks\n", first.kept);
  assert_true(try_to(work, (pool_heap_options_t){.budget = 4 * first.peak}, 0, 0).done);
  assert_true(try_to(work, (pool_heap_options_t){.flags = POOL_HEAP_CHECKED}, 0, 0).done);
}

/* Once it is up. What was live before is unharmed, and there is room again when the script's objects are gone. */
static void exhaustion_is_memory_error(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  pool_python_install(heap);
  must(start() && run(script) == ENDED);
  must(pool_heap_set_budget(heap, stats_of(heap).held_bytes + (8 << 20)));
  for (unsigned i = 0; i < 3; i++) {
    must(run("kept = 'of before'\nlost = []\nwhile True: lost.append('x' * (100000 + len(lost)))") == MEMORY_ERROR);
    must(stats_of(heap).exhausted_count > i);
    must(run("assert kept == 'of before' and len(lost) > 10\nlost = None") == ENDED && run(script) == ENDED);
    must(run("b'x' * (1 << 40)") == MEMORY_ERROR);
    must(run("def lose():\n  lost = None\n  while True: lost = [lost, {}]\nlose()") == MEMORY_ERROR && run(script) == ENDED);
  }
  must(run("try:\n  bytearray(1 << 40)\nexcept MemoryError:\n  pass") == ENDED);
  must(Py_FinalizeEx() == 0 && check_heap(heap));
}
IN_CHILD(exhaustion_is_memory_error)

static void a_second_interpreter(void *unused)
{
  (void)unused;
  size_t kept = 0;
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  pool_python_install(heap);
  for (unsigned i = 0; i < 3; i++) {
    must(start() && run(script) == ENDED && Py_FinalizeEx() == 0);
    kept = stats_of(heap).live_blocks;
  }
  print_message("after three interpreters Python keeps %zu blocks\n", kept);
  must(check_heap(heap));
}
IN_CHILD(a_second_interpreter)

static void sizes_of_zero(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  pool_python_install(heap);
  void *blocks[] = {PyMem_RawMalloc(0), PyMem_Malloc(0), PyObject_Malloc(0), PyMem_RawCalloc(0, 8), PyObject_Calloc(8, 0)};
  for (size_t i = 0; i < COUNT_OF(blocks); i++) {
    must(blocks[i] && pool_heap_of(blocks[i]) == heap);
    for (size_t j = 0; j < i; j++)
      must(blocks[i] != blocks[j]);
  }
  must((blocks[0] = PyMem_RawRealloc(blocks[0], 100)) != NULL && (blocks[0] = PyMem_RawRealloc(blocks[0], 0)) != NULL);
  must((blocks[2] = PyObject_Realloc(blocks[2], 0)) != NULL);
  must(!PyMem_RawCalloc(SIZE_MAX / 2, opaque(4)) && !PyObject_Malloc(opaque(SIZE_MAX)));
  PyMem_RawFree(blocks[0]);
  PyMem_Free(blocks[1]);
  PyObject_Free(blocks[2]);
  PyMem_RawFree(blocks[3]);
  PyObject_Free(blocks[4]);
  PyObject_Free(NULL);
  must(stats_of(heap).live_blocks == 0);
}
IN_CHILD(sizes_of_zero)

/* Objects of the first heap change and end there. */
static void a_second_heap(void *unused)
{
  (void)unused;
  pool_heap_t *first = heap_with((pool_heap_options_t){0}), *second = heap_with((pool_heap_options_t){0});
  pool_python_install(first);
  must(start() && run("kept = [{'n': i} for i in range(1000)]") == ENDED);
  pool_python_install(second);
  must(run("kept.extend(kept)\nkept[0][1] = 2\nkept = None") == ENDED && run(script) == ENDED);
  must(stats_of(second).live_blocks > 0 && Py_FinalizeEx() == 0 && check_heap(first) && check_heap(second));
}
IN_CHILD(a_second_heap)

/* Another configuration would take Python's own allocator back. */
static void isolated(void *unused)
{
  (void)unused;
  must(setenv("PYTHONMALLOC", "malloc", 1) == 0);
  must(work(heap_with((pool_heap_options_t){0})));
}
IN_CHILD(isolated)

/* os.fork() has the child's copy. */
static void forks(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with_budget(256 << 20);
  pool_python_install(heap);
  must(start() && run("import os\nchild = os.fork()\n") == ENDED && run(script) == ENDED);
  must(run("if child:\n  assert os.waitpid(child, 0)[1] == 0\nelse:\n  os._exit(0)\n") == ENDED);
  must(Py_FinalizeEx() == 0);
}
IN_CHILD(forks)

static void started_before(void *unused)
{
  (void)unused;
  must(start());
  pool_python_install(heap_with((pool_heap_options_t){0}));
  Py_FinalizeEx();
}

static void too_late(void **state)
{
  (void)state;
  aborts_with(started_before, NULL, "not a block of any heap");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(works),
    cmocka_unit_test(exhaustion_is_memory_error_test),
    cmocka_unit_test(a_second_interpreter_test),
    cmocka_unit_test(sizes_of_zero_test),
    cmocka_unit_test(a_second_heap_test),
    cmocka_unit_test(isolated_test),
    cmocka_unit_test(forks_test),
    cmocka_unit_test(too_late),
  };
  return cmocka_run_group_tests_name("python", tests, NULL, NULL);
}
