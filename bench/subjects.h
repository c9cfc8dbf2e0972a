/* SPDX-License-Identifier: MIT
 * Every subject, in the order of the report. A subject is NAME.c here, and NAME.c in meson.build. */
#ifndef BENCH_SUBJECTS_H
#define BENCH_SUBJECTS_H

#include ALLOCATOR_HEADER
#include "shim.h"

/* clang-format off */
#define SUBJECTS(X) \
  X(pairs) \
  X(batches) X(slots) X(decades) X(calloc) X(realloc) X(aligned) X(large) X(handover) X(threads) X(churn) X(thread_start) \
    X(latency)
/* clang-format on */

/* More, for an allocator that has what they need: its header names them in the same way. */
#ifndef OWN_SUBJECTS
#define OWN_SUBJECTS(X)
#endif

#define DECLARE_SUBJECT(name) extern const bench_subject_t name##_subject;
SUBJECTS(DECLARE_SUBJECT)
OWN_SUBJECTS(DECLARE_SUBJECT)
#undef DECLARE_SUBJECT

#endif
