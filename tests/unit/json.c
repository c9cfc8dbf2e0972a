/* SPDX-License-Identifier: MIT */
#include "json.h"
#include <jansson.h>
#include <tidepool/stats.h>

enum { PATH_MOST = 96 };

static json_t *root;

void json_needed(void) {}

void json_read(const char *text)
{
  json_error_t error;
  json_decref(root);
  root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    print_error("not JSON: %s, at byte %d of %.300s\n", error.text, error.position, text);
  assert_true(json_is_object(root));
}

/* A step of the path: the member or the element that it begins with. */
static const json_t *step(const json_t *value, const char **path)
{
  char name[PATH_MOST];
  if (**path == '[') {
    char *end;
    size_t index = strtoul(*path + 1, &end, 10);
    *path = end + 1;
    return json_array_get(value, index);
  }
  *path += **path == '.';
  size_t length = strcspn(*path, ".[");
  snprintf(name, sizeof name, "%.*s", (int)length, *path);
  *path += length;
  return json_object_get(value, name);
}

static const json_t *value_at(const char *format, va_list arguments)
{
  char path[PATH_MOST];
  int length = vsnprintf(path, sizeof path, format, arguments);
  assert_in_range(length, 1, sizeof path - 1);
  const json_t *value = root;
  for (const char *at = path; value && *at;)
    value = step(value, &at);
  if (!value)
    print_error("there is no %s\n", path);
  assert_non_null(value);
  return value;
}

#define VALUE_AT(value, path) \
  va_list arguments_; \
  va_start(arguments_, path); \
  const json_t *value = value_at(path, arguments_); \
  va_end(arguments_)

uint64_t json_number(const char *path, ...)
{
  VALUE_AT(value, path);
  assert_true(json_is_integer(value) && json_integer_value(value) >= 0);
  return (uint64_t)json_integer_value(value);
}

const char *json_text(const char *path, ...)
{
  VALUE_AT(value, path);
  assert_true(json_is_string(value));
  return json_string_value(value);
}

size_t json_length(const char *path, ...)
{
  VALUE_AT(value, path);
  assert_true(json_is_array(value));
  return json_array_size(value);
}

/* ---- figures ---- */

static char text[256 << 10];

static void read_text(size_t length)
{
  assert_in_range(length, 1, sizeof text - 1);
  assert_int_equal(strlen(text), length);
  json_read(text);
}

void json_read_heap(pool_heap_t *heap) { read_text(pool_heap_stats_json(heap, text, sizeof text)); }
void json_read_process(void) { read_text(pool_stats_json(text, sizeof text)); }

void json_agrees(pool_heap_t *heap)
{
  pool_stats_t s;
  assert_true(pool_heap_stats(heap, &s));
  json_read_heap(heap);
  assert_int_equal(json_number("budget"), s.budget);
  assert_int_equal(json_number("held_bytes"), s.held_bytes);
  assert_int_equal(json_number("peak_held_bytes"), s.peak_held_bytes);
  assert_int_equal(json_number("live_bytes"), s.live_bytes);
  assert_int_equal(json_number("live_blocks"), s.live_blocks);
  assert_int_equal(json_number("cached_bytes"), s.cached_bytes);
  assert_int_equal(json_number("idle_bytes"), s.idle_bytes);
  assert_int_equal(json_number("exhausted_count"), s.exhausted_count);
  assert_int_equal(json_number("retried_count"), s.retried_count);
  assert_int_equal(json_number("overflowed_count"), s.overflowed_count);
  assert_int_equal(json_number("purged_bytes"), s.purged_bytes);
  assert_int_equal(json_number("largest_free"), s.largest_free);
  assert_int_equal(json_number("fragmentation"), s.fragmentation);
  assert_int_equal(json_number("metadata_bytes"), s.metadata_bytes);
  assert_int_equal(json_number("children_bytes"), s.children_bytes);
  assert_int_equal(json_number("free_bytes"), s.free_bytes);
  assert_int_equal(json_number("returned_bytes"), s.returned_bytes);
  assert_int_equal(json_number("mapped_bytes"), s.mapped_bytes);
  assert_int_equal(json_number("advised_bytes"), s.advised_bytes);
}
