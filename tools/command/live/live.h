/* SPDX-License-Identifier: MIT
 *
 * The figures of a process that goes on: it shares them with export=1 (src/debug/export_page.h). It is not stopped for it. */
#ifndef LIVE_H
#define LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct live {
  pid_t pid;
  int file;
  uint64_t inode; /* of the file */
  struct export_page *page;
  size_t text_at; /* in the file */
  char *text;     /* JSON, of `length` bytes */
  size_t length;
  uint32_t answered; /* so often, when it was asked last */
  double age;        /* seconds since the text was written; more than 0 if the process did not answer */
  bool is_answered;  /* the text is of the last time it was asked */
  struct live *next; /* the same of another library in the process; it may have no text */
} live_t;

/* False: the process does not share its figures, or with nobody like us, and *why says so. */
bool live_open(live_t *live, pid_t pid, char why[256]);

/* Asks each library in the process for its figures, and waits for the answers for at most so long. Without one, as of a process
 * that is stopped, the text is the last one that was written. False: there is no text at all. If a library has none, *why says
 * why; else it is empty. */
bool live_ask(live_t *live, int milliseconds, char why[256]);

/* Looks for other libraries in the process that share figures. False: there is none. */
bool live_find_more(live_t *live);

/* It has answered since, or is about to: whoever waits for it will not do so in vain. */
bool live_goes_on(const live_t *live);

/* The process has ended, or is another program now, or shares other memory. */
bool live_is_over(const live_t *live);

void live_close(live_t *live);

/* The processes that share their figures with this user, by number, in memory that the caller frees. */
pid_t *live_list(size_t *count);

#endif
