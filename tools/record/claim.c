/* SPDX-License-Identifier: MIT */
#include "claim.h"
#include "recording.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 50 /* of a millisecond each */ };

static uint64_t namespace_of(const char *of)
{
  struct stat about;
  return stat(of, &about) == 0 ? about.st_ino : 0;
}

/* The second word is the program's name in brackets, which may hold anything. */
static uint64_t number_behind_name(char *text, int number)
{
  char *word = strrchr(text, ')');
  for (; word && number > 2; number--)
    word = strchr(word + 1, ' ');
  return word ? strtoull(word + 1, NULL, 10) : 0;
}

static uint64_t began(void)
{
  enum { BEGAN = 22 };
  char text[512];
  int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : 0;
  if (file >= 0)
    close(file);
  text[length > 0 ? length : 0] = '\0';
  return number_behind_name(text, BEGAN);
}

claim_t claim_of_process(void)
{
  return (claim_t){namespace_of("/proc/self/ns/pid"), namespace_of("/proc/self/ns/time"), began()};
}

unsigned claim_path(char path[PATH_MAX], const char *name)
{
  unsigned numbers = 0;
  size_t length = 0;
  for (; *name && length < PATH_MAX - 24; name++) {
    if (name[0] == '%' && name[1] == 'p') {
      length += (size_t)snprintf(path + length, 24, "%d", (int)getpid());
      numbers++;
    } else {
      path[length++] = *name;
    }
    name += name[0] == '%' && (name[1] == 'p' || name[1] == '%');
  }
  path[*name ? 0 : length] = '\0';
  return numbers;
}

static bool is_same(uint64_t number, uint64_t own) { return number && number == own; }

/* A process that becomes another program writes anew to what it had before, of which a child may still have the lock. What is
 * not known says nothing. */
bool claim_is_own(int file)
{
  recording_head_t had;
  recording_foot_t foot;
  if (pread(file, &had, sizeof had, 0) != sizeof had || pread(file, &foot, sizeof foot, RECORDING_FOOT_AT) != sizeof foot)
    return false;
  claim_t own = claim_of_process();
  return had.pid == (uint32_t)getpid() && is_same(foot.processes, own.processes) && foot.clocks == own.clocks &&
         is_same(foot.process_began, own.began);
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

static bool look(const char *path, bool removes)
{
  enum { HOW = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK };
  int file = open(path, O_RDWR | HOW);
  if (file < 0 && (errno == EACCES || errno == EROFS))
    file = open(path, O_RDONLY | HOW);
  if (file < 0)
    return errno == ENOENT;
  bool is_kept = !claim_take(file) && flock(file, LOCK_SH | LOCK_NB) != 0; /* not by readers alone, who do so for long */
  bool may = is_kept ? claim_is_own(file) : claim_is_at(file, path);
  int error = is_kept ? EBUSY : errno;
  if (may && removes)
    unlink(path);
  close(file);
  errno = error;
  return may;
}

bool claim_remove(const char *path) { return look(path, true); }
bool claim_may_remove(const char *path) { return look(path, false); }
