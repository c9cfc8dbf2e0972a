/* SPDX-License-Identifier: MIT
 * libxml2 on a heap: documents are parsed, asked and written, exhaustion is NULL, and xmlCleanupParser() leaves nothing. */
#include "trials.h"
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <libxml/xpath.h>
#include <tidepool/libxml2.h>

enum { ITEMS = 300 };
static char text[ITEMS * 100];

static void write_text(void)
{
  static const char head[] = "<?xml version='1.0'?><!DOCTYPE r [<!ENTITY e 'some text'>]><r xmlns:x='u:x'>";
  size_t length = (size_t)snprintf(text, sizeof text, "%s", head);
  for (unsigned i = 0; i < ITEMS; i++)
    length +=
      (size_t)snprintf(text + length, sizeof text - length, "<item n='%u'><x:name>&e; %u</x:name><!-- c --></item>", i, i);
  snprintf(text + length, sizeof text - length, "</r>");
}

static void say_nothing(void *context, const char *format, ...) { (void)context, (void)format; }

/* How many items the document has; 0 if there is no memory. */
static unsigned count_items(xmlDocPtr document)
{
  xmlXPathContextPtr context = xmlXPathNewContext(document);
  xmlXPathObjectPtr found = context ? xmlXPathEval((const xmlChar *)"//item[@n >= 0]", context) : NULL;
  unsigned count = found && found->nodesetval ? (unsigned)found->nodesetval->nodeNr : 0;
  xmlXPathFreeObject(found);
  xmlXPathFreeContext(context);
  return count;
}

static bool parse_and_write(void)
{
  xmlChar *written = NULL;
  int length = 0;
  xmlDocPtr document = xmlReadMemory(text, (int)strlen(text), "text.xml", NULL, 0);
  must(!document || pool_in_use(document));
  unsigned count = document ? count_items(document) : 0;
  if (count == ITEMS)
    xmlDocDumpMemory(document, &written, &length);
  xmlFreeDoc(document);
  bool done = written && length > ITEMS * 20 && xmlGetLastError() == NULL;
  xmlFree(written);
  return done;
}

static bool work(pool_heap_t *heap)
{
  must(pool_libxml2_install(heap) == 0);
  xmlSetGenericErrorFunc(NULL, say_nothing);
  xmlInitParser();
  bool done = parse_and_write();
  xmlCleanupParser();
  return done;
}

WORKS_ON_ANY_HEAP(work)
ANY_BUDGET(work)
EACH_REQUEST_FAILS(work)

static void parse_in_thread(size_t index, void *unused)
{
  (void)index, (void)unused;
  for (unsigned i = 0; i < 5; i++)
    must(parse_and_write());
  must(!xmlReadMemory("<wrong", 6, NULL, NULL, XML_PARSE_NOERROR)); /* the error stays with the thread */
}

static void threads(void *unused)
{
  (void)unused;
  pool_heap_t *heap = heap_with_budget(64 << 20);
  must(pool_libxml2_install(heap) == 0);
  xmlInitParser();
  run_threads(4, parse_in_thread, NULL);
  xmlCleanupParser();
  must(stats_of(heap).live_blocks == 0 && check_heap(heap));
}
IN_CHILD(threads)

static void document_from_before(void *unused)
{
  (void)unused;
  xmlDocPtr old = xmlReadMemory("<r/>", 4, NULL, NULL, 0);
  pool_libxml2_install(heap_with((pool_heap_options_t){0}));
  xmlFreeDoc(old);
}

static void too_late(void **state)
{
  (void)state;
  assert_int_equal(pool_libxml2_install(NULL), -1);
  aborts_with(document_from_before, NULL, "not a block of any heap");
}

static int prepare(void **state)
{
  (void)state;
  write_text();
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(works),        cmocka_unit_test(any_budget), cmocka_unit_test(each_request_fails),
    cmocka_unit_test(threads_test), cmocka_unit_test(too_late),
  };
  return cmocka_run_group_tests_name("libxml2", tests, prepare, NULL);
}
