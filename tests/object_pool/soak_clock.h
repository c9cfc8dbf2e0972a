/* SPDX-License-Identifier: MIT
 * The clock by which a soak lives: the system's for a report, one that is moved by hand for a test, which is then the same in
 * every run, however slow the machine is. */
#ifndef SOAK_CLOCK_H
#define SOAK_CLOCK_H

double clock_seconds(void);
void clock_pause(unsigned ms);
void clock_work(unsigned ms); /* what was done since the last call took about that long, and the system's clock knows */

#endif
