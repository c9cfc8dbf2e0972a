/* SPDX-License-Identifier: MIT
 *
 * tidepool/record.h: a recording of each allocation and free, for `tidepool show`, `replay`, `fit` and `diff`. The program is
 * linked with libtidepool-record in front of libtidepool:
 *
 *     cc server.c -ltidepool-record -ltidepool
 *
 * The names of malloc, of C++ and of tidepool are that library's then, which calls those of the next one. Without a recording
 * this costs a call in between. `tidepool record` does the same for a program that was not linked so, from its start. */
#ifndef TIDEPOOL_RECORD_H
#define TIDEPOOL_RECORD_H

#include <stdbool.h>
#include <tidepool/object_pool.h>
#include <tidepool/pool.h>

POOL_BEGIN_DECLS

/* Writes all that malloc, heaps and object pools do from now on, in any thread, to an open file, which is emptied first and has
 * to be one of a disk or of memory; also if it is open for writing alone. The program may close it. What was allocated before
 * is not in the recording. Each event is some ten bytes; where the disk is full, a line says so, and the program goes on.
 *
 * False: EBUSY, if there is a recording, by `tidepool record` too, if another process records to the file, or if a thread is in
 * the middle of an event of the last one, as the caller is in a signal's handler; EINVAL, if the file is none that can be
 * mapped; EBADF, if it is not open for writing; or what the system says. A child of a fork is not recorded, and may begin a
 * recording of its own. Any thread may call it. */
POOL_API bool pool_record_start(int fd) POOL_NAME(record_start);

/* The same for one heap, without its object pools and its children, or for one object pool. With the heap's end there is
 * nothing more to record. EINVAL: NULL. */
POOL_API bool pool_record_start_heap(pool_heap_t *heap, int fd) POOL_NAME(record_start_heap);
POOL_API bool pool_record_start_object_pool(object_pool_t *pool, int fd) POOL_NAME(record_start_object_pool);

/* Ends it, and the file is complete. It waits for threads that are just writing, for a second at most. Where one left its event
 * by longjmp() out of a signal's handler, no other recording can begin. Without one it does nothing. What `tidepool record` has
 * begun goes on. */
POOL_API void pool_record_stop(void) POOL_NAME(record_stop);

POOL_END_DECLS

#endif
