/* SPDX-License-Identifier: MIT
 * Expat, whose memory functions have no context: parsers of several threads, each on the heap its thread has at the moment. */
#include "../heap/heaps.h"
#include <tidepool/expat.h>

static char document[200000];

static void write_document(void)
{
  size_t length = (size_t)snprintf(document, sizeof document, "<?xml version='1.0'?><!DOCTYPE r [<!ENTITY e 'some text'>]><r>");
  for (unsigned i = 0; length < sizeof document - 200; i++)
    length += (size_t)snprintf(document + length, sizeof document - length, "<n%u a='%u' b='x%u'>&e; and more</n%u>", i % 900, i, i * i, i % 900);
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

static unsigned elements;   /* as expat counts them with malloc */

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
    XML_ParserFree(parser);                    /* from no heap: blocks know theirs */
}

static void parses(void **state)
{
  (void)state;
  static const pool_heap_options_t kinds[] = {{.budget = 0}, {.budget = 2 << 20}, {.flags = POOL_HEAP_SINGLE_THREAD}, {.flags = POOL_HEAP_CHECKED}};
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
    heaps[i] = heap_with((pool_heap_options_t){.budget = 16 << 20});
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

static void any_budget(void **state)
{
  (void)state;
  unsigned refused = 0, errors = 0, done = 0;
  for (size_t budget = 8 << 10; budget <= 2 << 20; budget += budget / 6) {
    enum XML_Error error = XML_ERROR_NO_MEMORY;
    pool_heap_t *heap = heap_with_budget(budget);
    pool_expat_use(heap);
    XML_Parser parser = XML_ParserCreate_MM(NULL, pool_expat_suite(), NULL);
    unsigned count = parser ? parse(parser, &error) : 0;
    assert_true(error == XML_ERROR_NONE ? count == elements : error == XML_ERROR_NO_MEMORY);
    refused += !parser;
    errors += parser && error != XML_ERROR_NONE;
    done += error == XML_ERROR_NONE;
    XML_ParserFree(parser);
    assert_int_equal(stats_of(heap).live_blocks, 0);
    pool_expat_use(NULL);
    pool_heap_destroy(heap);
  }
  assert_true(refused && errors && done);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(parses),
    cmocka_unit_test(threads_keep_apart),
    cmocka_unit_test(blocks_stay_in_their_heap),
    cmocka_unit_test(without_a_heap),
    cmocka_unit_test(any_budget),
  };
  return cmocka_run_group_tests_name("expat", tests, count_with_malloc, NULL);
}
