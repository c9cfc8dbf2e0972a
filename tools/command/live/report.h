/* SPDX-License-Identifier: MIT
 *
 * What a process said of its memory: the figures of heaps and object pools out of one line of stats=exit:FILE, or of a text of
 * pool_stats_json() or pool_heap_stats_json(). */
#ifndef REPORT_H
#define REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A figure that is not there is of another version of the library, which is not an error. */
enum { UNKNOWN = -1 };

enum {
  HEAP_BUDGET,
  HEAP_HELD,
  HEAP_PEAK,
  HEAP_LIVE,
  HEAP_BLOCKS,
  HEAP_CACHED,
  HEAP_IDLE,
  HEAP_RECORDS,
  HEAP_CHILDREN,
  HEAP_EXHAUSTED,
  HEAP_RETRIED,
  HEAP_OVERFLOWED,
  HEAP_PURGED,
  HEAP_FREE,
  HEAP_RETURNED,
  HEAP_MAPPED,
  HEAP_ADVISED,
  HEAP_FIGURES
};

enum { OBJECTS_SIZE, OBJECTS_CAPACITY, OBJECTS_LIVE, OBJECTS_ARRAYS, OBJECTS_HELD, OBJECTS_FIGURES };

typedef struct figure {
  const char *key, *metric, *help;
  bool is_counter; /* it only grows */
} figure_t;
extern const figure_t heap_figures[HEAP_FIGURES], objects_figures[OBJECTS_FIGURES];

/* Figures of one heap, or of one object pool. */
typedef struct row {
  const char *name, *heap; /* UTF-8; `heap` is that of an object pool */
  json_int_t of[HEAP_FIGURES];
} row_t;

typedef struct report {
  json_t *text;
  json_int_t pid;
  const char *library; /* NULL: it is not known, or there are several */
  size_t line;         /* of its file; 0 if nobody sets it */
  row_t *heaps, *objects;
  size_t heap_count, objects_count;
} report_t;

/* False: the text is none, and *why says so. Who has a report gives it to report_free(). */
bool report_parse(report_t *report, const char *text, size_t length, char why[256]);
void report_free(report_t *report);

/* The same of all libraries in a process, as one. */
struct live;
bool report_parse_live(report_t *report, const struct live *live, char why[256]);

/* Two libraries in one process have said what is in each, one in each line. */
bool report_is_rest_of(const report_t *rest, const report_t *report);
/* Adds it, and ends it: the figures of heaps of both. The default heap of the malloc library is "malloc" then. */
void report_join(report_t *report, report_t *rest);

void report_print(const report_t *report, FILE *to);

/* Adds up the heaps: what a child has its parent has, too. */
row_t report_sum(const report_t *report);

/* Prints what is mapped, and for what, behind some words. Nothing if the library does not say. */
void report_print_mapped(const row_t *sum, const char *before, FILE *to);

/* The heaps, those that hold most first, in memory that the caller frees; NULL: no memory. */
const row_t **report_by_held(const report_t *report);

/* A page for a browser; `note` says of what time the figures are. */
void report_write_page(const report_t *reports, size_t count, const char *title, const char *note, FILE *to);

/* Neither is UNKNOWN, if one is known; and no more than a number can be. */
json_int_t report_sum_of(json_int_t a, json_int_t b);

/* A name, padded with spaces to so many columns, without what a terminal would obey. A number of bytes or of something else in
 * eleven columns; UNKNOWN is a question mark. */
void report_print_name(const char *name, int width, FILE *to);
void report_print_bytes(json_int_t bytes, FILE *to);
void report_print_count(json_int_t count, FILE *to);

/* The reports as Prometheus reads them; they are sorted for it. Heaps of one name in one process are one, with the sum of their
 * figures, and so are object pools of one name in heaps of one name. */
void report_print_prometheus(report_t *reports, size_t count, FILE *to);

#endif
