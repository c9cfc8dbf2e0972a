/* SPDX-License-Identifier: MIT
 * Blocks of a library of tidepool. */
#ifndef LINKED_H
#define LINKED_H

#include <stddef.h>

void *linked_take(size_t size);
void linked_give(void *block);

#endif
