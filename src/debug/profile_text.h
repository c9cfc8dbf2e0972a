/* SPDX-License-Identifier: MIT
 * Writes profiles in the format of gperftools' heap profiles (heap_v2), which pprof reads. */
#ifndef PROFILE_TEXT_H
#define PROFILE_TEXT_H

#include "debug/profile_lines.h"

/* Writes the profile of one heap, or of all (NULL), to an open file. Returns 0 or an error. */
int profile_write(const heap_t *heap, int file);

/* Overwrites the option's file. A profile of the peak that the file holds is kept as FILE.peak if less is live now. */
void profile_write_file(void);

/* Makes the option's signal write that file, or request it if it interrupts a change of the profile:
 * profile_write_if_asked(). */
void profile_watch_signal(void);
COLD void profile_write_asked(void);
/* Writes that file if live bytes exceed the last peak by 1/16 and 1 MiB, whichever is more. So a process that is killed, or
 * frees its memory before its end, leaves the profile of its peak. */
void profile_write_at_peak(void);
extern INTERNAL bool profile_is_asked;
static inline void profile_write_if_asked(void)
{
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the handler requests, then looks at the lock */
  if (unlikely(__atomic_load_n(&profile_is_asked, __ATOMIC_RELAXED)))
    profile_write_asked();
}

/* Only the parent completes pending requests and writes at peaks, unless each process has a file of its own. */
void profile_fork_child(void);

#endif
