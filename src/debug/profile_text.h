/* SPDX-License-Identifier: MIT
 *
 * A profile as text, in the form of gperftools' heap profiles (heap_v2), which pprof reads. */
#ifndef PROFILE_TEXT_H
#define PROFILE_TEXT_H

#include "debug/profile_lines.h"

/* Writes it to an open file; of one heap, or of all: NULL. 0, or the error that kept it from that. */
int profile_write(const heap_t *heap, int file);

/* Writes it to the file that an option names, over what was there. What was written there at the peak is kept as FILE.peak
 * where less is live now. */
void profile_write_file(void);

/* Has a signal, if an option says which, write it to that file. In a thread that is in the middle of changing the profile it
 * only asks for it, and the thread writes it as soon as it can: profile_write_if_asked(). */
void profile_watch_signal(void);
COLD void profile_write_asked(void);
/* Writes it to that file where more is live than ever before, by a sixteenth and a MiB: a process that is killed, or that frees
 * its memory before its end, leaves the profile of its peak. */
void profile_write_at_peak(void);
extern INTERNAL bool profile_is_asked;
static inline void profile_write_if_asked(void)
{
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the handler asks, and then looks at the lock */
  if (unlikely(__atomic_load_n(&profile_is_asked, __ATOMIC_RELAXED)))
    profile_write_asked();
}

/* The file is the parent's to write, if somebody did, and at the peak, unless each process has its own. */
void profile_fork_child(void);

#endif
