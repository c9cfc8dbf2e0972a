/* SPDX-License-Identifier: MIT
 * What the tests of metadata share: records, by their contents. */
#ifndef RECORDS_H
#define RECORDS_H

#include "levels.h"
#include "space/metadata.h"
#include "unit.h"

typedef struct record {
  char *at;
  size_t size;
  uint64_t key;
} record_t;

#endif
