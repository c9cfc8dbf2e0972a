/* SPDX-License-Identifier: MIT
 *
 * Whose a recording is. Its recorder has a lock on it, and only who has that may take the file away. The process has a number,
 * which another has, too: in a namespace of its own, or when it has ended. Where a file system has no locks nobody is kept
 * away. */
#ifndef CLAIM_H
#define CLAIM_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef HIDDEN
#define HIDDEN __attribute__((visibility("hidden")))
#endif

/* What tells a process from another with its number; 0: it is not known. All of it stays when the process becomes another
 * program, but that this may have other clocks. */
typedef struct claim {
  uint64_t processes, clocks; /* its namespaces */
  uint64_t began;             /* in ticks of the boot clock of its namespace */
} claim_t;
HIDDEN claim_t claim_of_process(void);

/* Where this process records to, by a name with %p for its number and %% for a percent sign; "": the path is too long. Returns
 * how often the number is in the name. */
HIDDEN unsigned claim_path(char path[PATH_MAX], const char *name);

/* Whether this process has written the recording, as this program or as one before. */
HIDDEN bool claim_is_own(int file);

/* Whether a recorder writes to the file. Readers share the lock for a moment. */
HIDDEN bool claim_is_written(int file);

/* Locks the file; false: another has it, which errno says by EBUSY. It waits for readers. */
HIDDEN bool claim_take(int file);

/* Whether the file has that name still; false: errno is EBUSY. */
HIDDEN bool claim_is_at(int file, const char *path);

/* Takes a file away, if it can be and nobody records to it but this process. False: errno says why it must not. There may be
 * none. The second only says what the first would. */
HIDDEN bool claim_remove(const char *path);
HIDDEN bool claim_may_remove(const char *path);

#endif
