/* SPDX-License-Identifier: MIT
 * Documents within a budget: one that is too large is refused, and the next is parsed as if nothing had been.
 *
 *     cc libxml2_bounded.c $(pkg-config --cflags --libs tidepool libxml-2.0) -o libxml2_bounded */
#include <libxml/parser.h>
#include <stdio.h>
#include <tidepool/libxml2.h>
#include <tidepool/stats.h>

static char large[1 << 20];

static bool parse(const char *name, const char *text, size_t size)
{
  xmlDocPtr document = xmlReadMemory(text, (int)size, name, NULL, XML_PARSE_NOERROR | XML_PARSE_HUGE);
  printf("%s: %s\n", name, document ? "well-formed" : "refused");
  xmlFreeDoc(document);
  return document != NULL;
}

static void say_nothing(void *context, const char *format, ...) { (void)context, (void)format; }

static void write_large(void)
{
  static const char item[] = "<i a='b'/>";
  size_t length = (size_t)snprintf(large, sizeof large, "<r>");
  for (; length < sizeof large - sizeof item - 4; length += sizeof item - 1)
    memcpy(large + length, item, sizeof item);
  strcpy(large + length, "</r>");
}

int main(void)
{
  static const char small[] = "<r><i a='b'/>text</r>";
  pool_heap_options_t options = {.name = "xml", .budget = 8 << 20};
  pool_heap_t *heap = pool_heap_create(&options);
  if (!heap || pool_libxml2_install(heap) != 0)
    return 1;
  write_large();
  xmlSetGenericErrorFunc(NULL, say_nothing);
  bool good = parse("small.xml", small, strlen(small)) && !parse("large.xml", large, strlen(large)) &&
              parse("small.xml", small, strlen(small));
  xmlCleanupParser();
  pool_stats_t stats;
  pool_heap_stats(heap, &stats);
  printf("%zu KiB held at most, of %zu; %zu blocks left\n", stats.peak_held_bytes >> 10, stats.budget >> 10, stats.live_blocks);
  pool_heap_destroy(heap);
  return good ? 0 : 1;
}
