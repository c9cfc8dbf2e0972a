/* SPDX-License-Identifier: MIT
 *
 * What top shows: the heaps and object pools of a process, or all processes, each beside what it was a moment ago. */
#ifndef TOP_H
#define TOP_H

#include "live.h"
#include "report.h"

typedef enum top_key { TOP_HELD, TOP_CHANGE, TOP_LIVE, TOP_BLOCKS, TOP_REFUSED, TOP_NAME, TOP_KEYS } top_key_t;

/* Their names, and the letters that choose them. */
extern const char *const top_keys[TOP_KEYS];
extern const char top_letters[TOP_KEYS + 1];

/* One look at a process, and what it has grown by since the one before. */
typedef struct look {
  pid_t pid;
  char command[32];
  report_t now, before;
  double at, seconds; /* when, by a clock that never goes back; since the one before, 0: there was none */
  double age;         /* of the figures; 0: they are of now */
  char why[256];      /* "": there are figures */
  live_t live;
  bool is_there; /* while processes are listed anew */
} look_t;

typedef struct top {
  pid_t pid; /* 0: all */
  top_key_t key;
  look_t *looks;
  size_t count;
  char why[256]; /* why the process that was asked for cannot be looked at any more */
} top_t;

/* Looks anew. False: the process that was asked for has ended, or cannot be looked at. */
bool top_look(top_t *top);

/* Writes one screen, of lines of any length. */
void top_print(const top_t *top, FILE *to);

void top_end(top_t *top);

#ifdef WITH_SCREEN
/* Shows it on the terminal until the user has seen enough or the process ends; false: the terminal is none that can. */
bool top_on_screen(top_t *top, double delay);
#endif

#endif
