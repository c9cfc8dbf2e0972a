/* SPDX-License-Identifier: MIT
 * The manager, as far up as a test of one level needs it, over a fake system that is well. */
#ifndef UNIT_LEVELS_H
#define UNIT_LEVELS_H

void window_up(void);
void space_up(void); /* which gives nothing back by itself, and has one arena for runs of all kinds */
void manager_up(void);

#endif
