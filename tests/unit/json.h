/* SPDX-License-Identifier: MIT
 * A strict reader of JSON texts for tests: every number of the text under its path, as "pools[3].slabs". */
#ifndef UNIT_JSON_H
#define UNIT_JSON_H

#include <stdbool.h>
#include <stdint.h>

enum { JSON_NUMBERS = 4096, JSON_PATH = 96 };

typedef struct json {
  struct { char path[JSON_PATH]; uint64_t value; } numbers[JSON_NUMBERS];
  unsigned    count;
  const char *at;        /* where reading stopped */
  char        path[JSON_PATH];
} json_t;

/* False: not a JSON value, or something behind it; `at` says where. */
bool json_read(json_t *json, const char *text);

/* The number at `path`; *found says whether there is one. */
uint64_t json_number(const json_t *json, const char *path, bool *found);

#endif
