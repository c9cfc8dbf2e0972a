/* SPDX-License-Identifier: MIT
 *
 * An address of code as text, for those who read a message:
 *
 *     session_open+0x2c (server.c:41)      where the program knows its lines, in a report
 *     session_open+0x2c (server)           where it knows the function alone
 *     server+0x1a2c                        where it knows none
 *
 * The address is that of a return, and so the call is in front of it. Names of static functions are known, too, as long as the
 * program was not stripped. */
#ifndef OS_PLACES_H
#define OS_PLACES_H

#include "base/text.h"
#include <stdbool.h>

enum { PLACE_NAME_SIZE = 64 };

typedef struct place {
  const void *address;            /* set by the caller */
  size_t offset;                  /* from the beginning of the function, or of the module */
  char function[PLACE_NAME_SIZE]; /* "": not known */
  char file[PLACE_NAME_SIZE];     /* of the module; or of the source, with the line. "": not known */
  uint64_t module;                /* the same in all places of one module */
  size_t module_address;          /* the call, as tools know it that read the module */
  bool has_lines;                 /* the module has lines in it */
} place_t;

/* Neither allocates nor locks, so that a program with any damage can say where it was. */
void places_find(place_t *places, size_t count);

/* Has a tool of the system (addr2line), if it is there, say which lines of the sources they are. It takes a process for each
 * module, and for each 64 places of it, and up to ten seconds for all; so it is for reports, with no lock held. A set-user-ID
 * program asks no tool. */
void places_find_lines(place_t *places, size_t count);

void place_say(text_t *text, const place_t *place);

#endif
