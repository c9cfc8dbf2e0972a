/* SPDX-License-Identifier: MIT
 *
 * Addresses of code as text for messages:
 *
 *     session_open+0x2c (server.c:41)      in a report, if the program has line numbers
 *     session_open+0x2c (server)           if only the function is known
 *     server+0x1a2c                        if no function is known
 *
 * The address is a return address: the call is in front of it. Stripped programs lack the names of static functions. */
#ifndef OS_PLACES_H
#define OS_PLACES_H

#include "base/text.h"
#include <stdbool.h>

enum { PLACE_NAME_SIZE = 64 };

typedef struct place {
  const void *address;            /* set by the caller */
  size_t offset;                  /* from the beginning of the function or the module */
  char function[PLACE_NAME_SIZE]; /* "": not known */
  char file[PLACE_NAME_SIZE];     /* of the module, or of the source with the line. "": not known */
  uint64_t module;                /* equal for all places of one module */
  size_t module_address;          /* the call's address as tools that read the module know it */
  bool has_lines;                 /* the module has line numbers */
} place_t;

/* Neither allocates nor takes locks, so that a damaged program can still name places. */
void places_find(place_t *places, size_t count);

/* Adds source lines by running the tool addr2line, if there is one. It starts a process for each module and each 64 places of
 * it, and takes up to ten seconds in all, so it is for reports, with no lock held. A set-user-ID program runs no tool. */
void places_find_lines(place_t *places, size_t count);

void place_say(text_t *text, const place_t *place);

#endif
