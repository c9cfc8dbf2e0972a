/* SPDX-License-Identifier: MIT
 * What the tests of startup, forks and ends share: other threads, of which some sleep for ever, and memory for a heap. */
#ifndef SLEEPERS_H
#define SLEEPERS_H

#include "unit.h"
#include <pthread.h>
#include <tidepool/heap.h>
#include <tidepool/pool.h>

extern _Alignas(4096) char buffer[4 << 20];
extern pthread_barrier_t all_there;

bool see_block(const pool_block_t *block, void *context); /* for a walk that goes on */
void *use_and_end(void *argument);                        /* some blocks of the default heap */
void *sleep_for_ever(void *argument);                     /* after that, when all are there */

#endif
