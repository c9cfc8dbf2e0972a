/* SPDX-License-Identifier: MIT
 * Instead of json.c where jansson is not installed: nothing is read, and the test that asks is skipped. */
#include "json.h"

void json_needed(void)
{
  print_message("jansson is not installed\n");
  skip();
}

void json_read(const char *text)
{
  (void)text;
  json_needed();
}

uint64_t json_number(const char *path, ...)
{
  (void)path;
  json_needed();
  return 0;
}

const char *json_text(const char *path, ...)
{
  (void)path;
  json_needed();
  return "";
}

size_t json_length(const char *path, ...)
{
  (void)path;
  json_needed();
  return 0;
}

void json_read_heap(pool_heap_t *heap)
{
  (void)heap;
  json_needed();
}

void json_read_process(void) { json_needed(); }

void json_agrees(pool_heap_t *heap)
{
  (void)heap;
  json_needed();
}
