/* SPDX-License-Identifier: MIT */
#include "claim.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 50 /* of a millisecond each */ };

uint64_t claim_namespace(const char *of)
{
  struct stat about;
  return stat(of, &about) == 0 ? about.st_ino : 0;
}

bool claim_is_written(int file)
{
  if (flock(file, LOCK_SH | LOCK_NB) != 0)
    return errno == EWOULDBLOCK;
  flock(file, LOCK_UN);
  return false;
}

bool claim_take(int file)
{
  for (int i = 0; i < TRIES; i++) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0)
      return true;
    if (errno != EWOULDBLOCK && errno != EINTR)
      return errno == ENOLCK || errno == EOPNOTSUPP || errno == EBADF; /* there are none, or not for files that are only read */
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  errno = EBUSY;
  return false;
}

bool claim_is_at(int file, const char *path)
{
  struct stat it, there;
  if (fstat(file, &it) == 0 && lstat(path, &there) == 0 && it.st_dev == there.st_dev && it.st_ino == there.st_ino)
    return true;
  errno = EBUSY;
  return false;
}

bool claim_remove(const char *path, bool (*is_own)(int file))
{
  enum { HOW = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK };
  int file = open(path, O_RDWR | HOW);
  if (file < 0 && (errno == EACCES || errno == EROFS))
    file = open(path, O_RDONLY | HOW);
  if (file < 0)
    return errno == ENOENT;
  bool is_kept = !claim_take(file) && flock(file, LOCK_SH | LOCK_NB) != 0; /* not by readers alone, who do so for long */
  bool may = is_kept ? is_own && is_own(file) : claim_is_at(file, path);
  int error = is_kept ? EBUSY : errno;
  if (may)
    unlink(path);
  close(file);
  errno = error;
  return may;
}
