/* SPDX-License-Identifier: MIT
 * Between the program that runs cases in many threads and what counts the locks that they take. */
#ifndef CORES_H
#define CORES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one thread has counted. The program that does not count has none (no_record.c). */
typedef struct recorded recorded_t;

/* Once, before all others: the machine that is counted for has as many processors as there are threads, at most. */
void record_init(unsigned processors);
void record_thread(unsigned thread); /* the calling thread's number, before it uses the library */
size_t recorded_bytes(void);         /* 0: nothing is counted */

/* Around what is to be counted, in its thread; the bytes are zeroed before. */
void record_start(recorded_t *recorded);
void record_stop(void);

/* In place of pthread_create() in the subjects: what a thread does that another waits for is counted with that one's. */
int cores_thread(pthread_t *id, const pthread_attr_t *attributes, void *(*body)(void *), void *argument);
recorded_t *record_current(unsigned *thread);

/* Writes rows of JSON; returns whether there was none yet. */
bool record_print(const recorded_t *recorded, unsigned thread, bool first);

#endif
