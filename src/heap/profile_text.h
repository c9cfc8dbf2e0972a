/* SPDX-License-Identifier: MIT
 *
 * A profile as text, in the form of gperftools' heap profiles (heap_v2), which pprof reads. */
#ifndef PROFILE_TEXT_H
#define PROFILE_TEXT_H

#include "heap/profile_lines.h"

/* Writes it to an open file; of one heap, or of all: NULL. 0, or the error that kept it from that. */
int profile_write(const heap_t *heap, int file);

/* Writes it to the file that an option names, over what was there. */
void profile_write_file(void);

/* Has a signal, if an option says which, write it to that file. In a thread that is in the middle of changing the profile it
 * only asks for it, and the thread writes it as soon as it can: profile_write_if_asked(). */
void profile_watch_signal(void);
COLD void profile_write_asked(void);
extern INTERNAL bool profile_is_asked;
static inline void profile_write_if_asked(void)
{
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the handler asks, and then looks at the lock */
  if (unlikely(__atomic_load_n(&profile_is_asked, __ATOMIC_RELAXED)))
    profile_write_asked();
}

/* The file is the parent's to write, if somebody did. */
void profile_fork_child(void);

#endif
