/* SPDX-License-Identifier: MIT
 *
 * Whose a recording is. Its recorder has a lock on it, and only who has that may take the file away. The process has a number,
 * which another has, too: in a namespace of its own, or when it has ended. Where a file system has no locks nobody is kept
 * away. */
#ifndef CLAIM_H
#define CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#ifndef HIDDEN
#define HIDDEN __attribute__((visibility("hidden")))
#endif

/* Which namespace this process is in; 0: nobody knows. */
#define CLAIM_PROCESSES "/proc/self/ns/pid"
#define CLAIM_CLOCKS    "/proc/self/ns/time"
HIDDEN uint64_t claim_namespace(const char *of);

/* When this process began, in the kernel's ticks since it did itself; it stays when the process becomes another program. 0:
 * nobody knows. */
HIDDEN uint64_t claim_began(void);

/* Whether this process has written the recording, as this program or as one before. */
HIDDEN bool claim_is_own(int file);

/* Whether a recorder writes to the file. Readers share the lock for a moment. */
HIDDEN bool claim_is_written(int file);

/* Locks the file; false: another has it, which errno says by EBUSY. It waits for readers. */
HIDDEN bool claim_take(int file);

/* Whether the file has that name still; false: errno is EBUSY. */
HIDDEN bool claim_is_at(int file, const char *path);

/* Takes a file away, if it can be and nobody records to it but this process. False: errno says why it must not. There may be
 * none. */
HIDDEN bool claim_remove(const char *path);

#endif
