/* SPDX-License-Identifier: MIT
 *
 * The rounds of a stressor: its threads work, now and then all of them stand still while one looks around, and at last all end.
 */
#ifndef TESTS_ROUNDS_H
#define TESTS_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef TIDEPOOL_CHECKED
#include "check/check.h"
#else
static inline bool check_everything(void) { return true; }
#endif

uint64_t now_ms(void);
void sleep_us(uint64_t us);

/* Before the first thread starts. */
void rounds_begin(unsigned threads);

/* Rounds of least_ms to most_ms until it is so late; each ends with look_around(). Then the threads end. */
void rounds_run(uint64_t *dice, uint64_t until_ms, unsigned least_ms, unsigned most_ms, void (*look_around)(bool fork_too));

/* For the threads: whether to work on; if not, stands still until the next round, or returns false: it is to end. */
bool rounds_working(void);
bool rounds_stand_still(void);

#endif
