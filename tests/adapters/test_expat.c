/* SPDX-License-Identifier: MIT
 * Expat, whose memory functions have no context: parsers of several threads, each on the heap its thread has at the moment. */
#include "../heap/heaps.h"
#include <tidepool/expat.h>

static char document[200000];

static void write_document(void)
{
  size_t length = (size_t)snprintf(document, sizeof document, "<?xml version='1.0'?><!DOCTYPE r [<!ENTITY e 'some text'>]><r>");
  for (unsigned i = 0; length < sizeof document - 200; i++)
    length += (size_t)snprintf(document + length, sizeof document - length, "<n%u a='%u' b='x%u'>&e; and more</n%u>", i % 900,
                               i, i * i, i % 900);
  snprintf(document + length, sizeof document - length, "</r>");
}

static void count_element(void *count, const XML_Char *name, const XML_Char **attributes)
{
  (void)name, (void)attributes;
  ++*(unsigned *)count;
}

/* How many elements; 0 and the error otherwise. In pieces, as from a socket. */
static unsigned parse(XML_Parser parser, enum XML_Error *error)
{
  unsigned count = 0;
  XML_SetUserData(parser, &count);
  XML_SetStartElementHandler(parser, count_element);
  int length = (int)strlen(document);
  for (int at = 0; at < length; at += 1000)
    if (XML_Parse(parser, document + at, at + 1000 < length ? 1000 : length - at, at + 1000 >= length) != XML_STATUS_OK) {
      *error = XML_GetErrorCode(parser);
      return 0;
    }
  *error = XML_ERROR_NONE;
  return count;
}

static unsigned elements; /* as expat counts them with malloc */
static size_t plenty;     /* of memory for several parsers at once, whatever this version of expat takes for one */

static int count_with_malloc(void **state)
{
  (void)state;
  enum XML_Error error;
  write_document();
  XML_Parser parser = XML_ParserCreate(NULL);
  elements = parse(parser, &error);
  XML_ParserFree(parser);
  return elements > 1000 ? 0 : -1;
}

static void parse_on(pool_heap_t *heap, bool free_it)
{
  enum XML_Error error;
  pool_heap_t *before = pool_expat_use(heap);
  XML_Parser parser = XML_ParserCreate_MM(NULL, pool_expat_suite(), NULL);
  must(parser);
  must(stats_of(heap).live_blocks > 0);
  must(parse(parser, &error) == elements && error == XML_ERROR_NONE);
  must(pool_expat_use(before) == heap);
  if (free_it)
    XML_ParserFree(parser); /* from no heap: blocks know theirs */
}

static int count_and_measure(void **state)
{
  if (count_with_malloc(state) != 0)
    return -1;
  pool_heap_t *heap = heap_with((pool_heap_options_t){0});
  parse_on(heap, true);
  plenty = 8 * stats_of(heap).peak_held_bytes;
  pool_heap_destroy(heap);
  return 0;
}

static void parses(void **state)
{
  (void)state;
  const pool_heap_options_t kinds[] = {
    {.budget = 0}, {.budget = plenty}, {.flags = POOL_HEAP_SINGLE_THREAD}, {.flags = POOL_HEAP_CHECKED}};
  for (size_t i = 0; i < COUNT_OF(kinds); i++) {
    pool_heap_t *heap = heap_with(kinds[i]);
    parse_on(heap, true);
    assert_int_equal(stats_of(heap).live_blocks, 0);
    parse_on(heap, false);
    assert_true(stats_of(heap).live_blocks > 0);
    pool_heap_reset(heap);
    assert_int_equal(stats_of(heap).live_blocks, 0);
    parse_on(heap, true);
    assert_true(check_heap(heap));
    pool_heap_destroy(heap);
  }
}

static void a_heap_a_thread(size_t index, void *context)
{
  pool_heap_t **heaps = context;
  must(pool_expat_use(NULL) == NULL);
  for (unsigned i = 0; i < 5; i++)
    parse_on(heaps[index], i % 2);
  must(stats_of(heaps[index]).live_blocks > 0);
}

static void threads_keep_apart(void **state)
{
  (void)state;
  pool_heap_t *heaps[4];
  for (size_t i = 0; i < COUNT_OF(heaps); i++)
    heaps[i] = heap_with_budget(plenty);
  run_threads(COUNT_OF(heaps), a_heap_a_thread, heaps);
  size_t live = stats_of(heaps[0]).live_blocks;
  for (size_t i = 0; i < COUNT_OF(heaps); i++) {
    assert_int_equal(stats_of(heaps[i]).live_blocks, live);
    pool_heap_destroy(heaps[i]);
  }
  assert_true(check_everything());
}

/* A parser on one heap goes on growing there while the thread has another. */
static void blocks_stay_in_their_heap(void **state)
{
  (void)state;
  pool_heap_t *first = heap_with((pool_heap_options_t){0}), *second = heap_with((pool_heap_options_t){0});
  pool_expat_use(first);
  void *block = pool_expat_suite()->malloc_fcn(100);
  pool_expat_use(second);
  block = pool_expat_suite()->realloc_fcn(block, 100000);
  assert_ptr_equal(pool_heap_of(block), first);
  void *other = pool_expat_suite()->realloc_fcn(NULL, 10);
  assert_ptr_equal(pool_heap_of(other), second);
  pool_expat_suite()->free_fcn(block);
  pool_expat_suite()->free_fcn(other);
  pool_expat_use(NULL);
  pool_heap_destroy(first);
  pool_heap_destroy(second);
}

static void without_a_heap(void **state)
{
  (void)state;
  pool_expat_use(NULL);
  assert_null(XML_ParserCreate_MM(NULL, pool_expat_suite(), NULL));
}

/* ---- too little memory: an answer or an error, at every point; how much a parser takes is the library's affair ---- */

typedef struct outcomes {
  unsigned refused, errors, done;
} outcomes_t;

static void try_to_parse(pool_heap_t *heap, const XML_Memory_Handling_Suite *suite, outcomes_t *outcomes)
{
  enum XML_Error error = XML_ERROR_NO_MEMORY;
  pool_expat_use(heap);
  XML_Parser parser = XML_ParserCreate_MM(NULL, suite, NULL);
  unsigned count = parser ? parse(parser, &error) : 0;
  assert_true(error == XML_ERROR_NONE ? count == elements : error == XML_ERROR_NO_MEMORY);
  outcomes->refused += !parser;
  outcomes->errors += parser && error != XML_ERROR_NONE;
  outcomes->done += error == XML_ERROR_NONE;
  XML_ParserFree(parser);
  assert_int_equal(stats_of(heap).live_blocks, 0);
  pool_expat_use(NULL);
}

static size_t requests, fail_at;

static void *malloc_or_fail(size_t size) { return ++requests == fail_at ? NULL : pool_expat_suite()->malloc_fcn(size); }

static void *realloc_or_fail(void *block, size_t size)
{
  return ++requests == fail_at ? NULL : pool_expat_suite()->realloc_fcn(block, size);
}

static void free_block(void *block) { pool_expat_suite()->free_fcn(block); }

static void each_request_fails_once(void **state)
{
  (void)state;
  static const XML_Memory_Handling_Suite suite = {malloc_or_fail, realloc_or_fail, free_block};
  pool_heap_t *heap = heap_with((pool_heap_options_t){.flags = POOL_HEAP_CHECKED});
  outcomes_t outcomes = {0};
  for (size_t n = 1; outcomes.done == 0; n += 1 + n / 20) {
    requests = 0;
    fail_at = n;
    try_to_parse(heap, &suite, &outcomes);
  }
  assert_true(requests < fail_at); /* the last run, and only that one, was over before its turn came */
  assert_true(outcomes.refused && outcomes.errors);
  pool_heap_destroy(heap);
}

/* From far too small to enough. Which budget is the first that is enough is not said. */
static void any_budget(void **state)
{
  (void)state;
  outcomes_t outcomes = {0};
  for (size_t budget = 8 << 10; outcomes.done < 3; budget += budget / 6) {
    pool_heap_t *heap = heap_with_budget(budget);
    assert_true(budget < 1 << 30);
    try_to_parse(heap, pool_expat_suite(), &outcomes);
    pool_heap_destroy(heap);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(parses),         cmocka_unit_test(threads_keep_apart),      cmocka_unit_test(blocks_stay_in_their_heap),
    cmocka_unit_test(without_a_heap), cmocka_unit_test(each_request_fails_once), cmocka_unit_test(any_budget),
  };
  return cmocka_run_group_tests_name("expat", tests, count_and_measure, NULL);
}
