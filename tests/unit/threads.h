/* SPDX-License-Identifier: MIT
 * What the tests of threads share: threads that use the default heap, and how many records they have. */
#ifndef THREADS_H
#define THREADS_H

#include "unit.h"
#include <pthread.h>

size_t records(void);
void *use(void *argument); /* the default heap; gives all back */

extern pthread_barrier_t all_there, all_seen;

#endif
