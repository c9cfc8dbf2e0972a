/* SPDX-License-Identifier: MIT
 * What a JSON text says, as jansson reads it: each value has a path, as "pools[3].slabs". Where there is no jansson a test that
 * asks is skipped (json_missing.c). */
#ifndef UNIT_JSON_H
#define UNIT_JSON_H

#include "unit.h"
#include <tidepool/heap.h>

/* Skips the test where nothing can be read: before it has taken anything. */
void json_needed(void);

/* Fails the test unless the text is JSON: one object, no name twice, nothing behind it. Lasts until the next one is read. */
void json_read(const char *text);

/* Fail the test if there is nothing of that kind. */
#define JSON_PATH __attribute__((format(printf, 1, 2)))
JSON_PATH uint64_t json_number(const char *path, ...);
JSON_PATH const char *json_text(const char *path, ...);
JSON_PATH size_t json_length(const char *path, ...); /* of an array */

/* The figures of a heap, or of the whole process, are read. The text must be as long as was said. */
void json_read_heap(pool_heap_t *heap);
void json_read_process(void);

/* They are those of pool_heap_stats(). */
void json_agrees(pool_heap_t *heap);

#endif
