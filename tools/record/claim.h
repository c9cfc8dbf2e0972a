/* SPDX-License-Identifier: MIT
 *
 * Whose a recording is. Its recorder has a lock on it; and the process has a number, which another has, too, in a namespace of
 * its own. */
#ifndef CLAIM_H
#define CLAIM_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>

/* Which namespace this process is in; 0: nobody knows. */
#define CLAIM_PROCESSES "/proc/self/ns/pid"
#define CLAIM_CLOCKS    "/proc/self/ns/time"
static inline uint64_t claim_namespace(const char *of)
{
  struct stat about;
  return stat(of, &about) == 0 ? about.st_ino : 0;
}

/* Two numbers of namespaces that are known and are not one. */
static inline bool claim_differs(uint64_t one, uint64_t other) { return one && other && one != other; }

/* Whether a recorder writes to the file. Readers share the lock for a moment. */
static inline bool claim_is_written(int file)
{
  if (flock(file, LOCK_SH | LOCK_NB) != 0)
    return errno == EWOULDBLOCK;
  flock(file, LOCK_UN);
  return false;
}

#endif
