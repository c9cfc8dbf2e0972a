/* SPDX-License-Identifier: MIT
 *
 * tidepool/record.h: record every allocation and free, for `tidepool show`, `replay`, `fit` and `diff`.
 *
 *     int fd = open("sessions.recording", O_RDWR | O_CREAT, 0600);
 *     if (!pool_record_start(fd))
 *       perror("sessions.recording");
 *     serve(100000);
 *     pool_record_stop();
 *
 * Link the program with libtidepool-record in front of libtidepool:
 *
 *     cc server.c -ltidepool-record -ltidepool
 *
 * The recorder then defines the functions of malloc, of C++ and of tidepool, and calls those of the next library. This costs
 * one more call for each allocation while nothing is recorded. `tidepool record` records a program that was not linked in this
 * way, from its start. */
#ifndef TIDEPOOL_RECORD_H
#define TIDEPOOL_RECORD_H

#include <stdbool.h>
#include <tidepool/object_pool.h>
#include <tidepool/pool.h>

POOL_BEGIN_DECLS

/* Records everything that malloc, heaps and object pools do from now on, in all threads, to an open file. The file must be open
 * for writing, and be on a disk or in memory. It is emptied first. The program may close it at once. Any thread may call this.
 *
 * An event takes some ten bytes. If the disk is full, the recorder prints a line and the program continues. Blocks that were
 * allocated before are not in the recording. The child of a fork() is not recorded; it may start a recording of its own.
 *
 * false with EBUSY: a recording is running, also one by `tidepool record`, or another process records to the file. A thread
 * that is still writing an event of the last recording, as a signal handler may be, is EBUSY, too. EINVAL: the file cannot be
 * mapped. EBADF: it is not open for writing. Otherwise errno is the system's. */
POOL_API bool pool_record_start(int fd) POOL_NAME(record_start);

/* pool_record_start_heap() records one heap, without its object pools and its children, and pool_record_start_object_pool() one
 * object pool. Nothing more is recorded once the heap ends. NULL for the heap or pool is EINVAL. */
POOL_API bool pool_record_start_heap(pool_heap_t *heap, int fd) POOL_NAME(record_start_heap);
POOL_API bool pool_record_start_object_pool(object_pool_t *pool, int fd) POOL_NAME(record_start_object_pool);

/* Stops the recording and completes the file. It waits for threads that are writing an event, for a second at most. If a signal
 * handler left an event by longjmp(), no other recording can start. The call does nothing if there is no recording. A recording
 * by `tidepool record` continues. */
POOL_API void pool_record_stop(void) POOL_NAME(record_stop);

POOL_END_DECLS

#endif
