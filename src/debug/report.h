/* SPDX-License-Identifier: MIT
 *
 * Live blocks by their sites, as text. What it takes is mapped for the moment, so the manager may be in any state. */
#ifndef HEAP_REPORT_H
#define HEAP_REPORT_H

#include "base/text.h"
#include "debug/sites.h"
#include "heap/walk.h"

/* How many blocks are of one site, and their bytes. */
typedef struct tally {
  site_t site;
  size_t blocks, bytes;
} tally_t;

typedef struct tallies {
  tally_t *of;
  size_t room, count; /* a power of two; sites */
  size_t blocks, bytes;
} tallies_t;

/* Counts a block. Where there is no memory for one site more it is counted in the sum alone. */
void tallies_add(tallies_t *tallies, site_t site, size_t size);
void tallies_end(tallies_t *tallies);

/* 10 blocks, 10,080 bytes */
void say_blocks(text_t *text, size_t blocks, size_t bytes);

/* Begins a line of a heap. */
void say_heap_name(text_t *text, const heap_t *heap);

/* The places that are going to be said, of all lines of a report: they are looked up at once, so that the tool which knows the
 * lines of the sources runs once for each module. */
typedef struct places {
  struct place *of; /* by address, once they were found */
  size_t count, room;
} places_t;

/* Those that say_tallies() would say. Where there is no memory for them their addresses are said. */
void places_want(places_t *places, const tallies_t *tallies);
void places_look_up(places_t *places);
void places_end(places_t *places);

/* Says the tallies on one line, those with most bytes first: 7 from session_open+0x2c (server.c:41), 3 from ... No more than
 * some, and then how many there are of the rest. */
void say_tallies(text_t *text, const tallies_t *tallies, const places_t *places);

/* Text that is mapped for the moment, of whatever length it may have; text.buffer is NULL where there is no memory. */
text_t report_begin(size_t places);
void report_end(text_t *text);
size_t report_places(const tallies_t *tallies, size_t sites);
enum { SITES_ON_A_LINE = 8, SITES_IN_A_REPORT = 256 };

/* 0, or the error with which it could not be written. */
int heap_report(heap_t *heap, int file);

#endif
