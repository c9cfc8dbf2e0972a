/* SPDX-License-Identifier: MIT
 * Live blocks by site, as text. All memory is mapped temporarily, so the manager may be in any state. */
#ifndef HEAP_REPORT_H
#define HEAP_REPORT_H

#include "base/text.h"
#include "debug/sites.h"
#include "heap/locate.h"

typedef struct tally {
  site_t site;
  size_t blocks, bytes;
} tally_t;

typedef struct tallies {
  tally_t *of;
  size_t room, count; /* a power of two; sites */
  size_t blocks, bytes;
} tallies_t;

/* Counts a block. If there is no memory for another site, only the sums include it. */
void tallies_add(tallies_t *tallies, site_t site, size_t size);
void tallies_end(tallies_t *tallies);

/* "10 blocks, 10,080 bytes" */
void say_blocks(text_t *text, size_t blocks, size_t bytes);

void say_heap_name(text_t *text, const heap_t *heap);

/* The places in all lines of a report, looked up at once, so that the tool for source lines runs once for each module. */
typedef struct places {
  struct place *of; /* sorted by address once looked up */
  size_t count, room;
} places_t;

/* Adds those that say_tallies() will name. If there is no memory for them, their addresses are printed. */
void places_want(places_t *places, const tallies_t *tallies);
void places_look_up(places_t *places);
void places_end(places_t *places);

/* Writes the tallies on one line, largest first: 7 from session_open+0x2c (server.c:41), 3 from ..., and the rest. */
void say_tallies(text_t *text, const tallies_t *tallies, const places_t *places);

/* Returns temporarily mapped text with room for `places` places; text.buffer is NULL if there is no memory. */
text_t report_begin(size_t places);
void report_end(text_t *text);
size_t report_places(const tallies_t *tallies, size_t sites);
enum { SITES_ON_A_LINE = 8, SITES_IN_A_REPORT = 256 };

int heap_report(heap_t *heap, int file);

#endif
