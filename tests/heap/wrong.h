/* SPDX-License-Identifier: MIT
 * Every way to EINVAL. */
#ifndef WRONG_H
#define WRONG_H

#include <stdbool.h>
#include <stddef.h>

/* The function, a call that sets EINVAL and returns false for NULL, false or 0, and what pool_error() says then. `#` stands for
 * a number that depends on the size of a record. */
typedef struct way {
  const char *call;
  bool (*go)(void);
  const char *says;
} way_t;
extern const way_t ways[];
extern const size_t way_count;

#endif
