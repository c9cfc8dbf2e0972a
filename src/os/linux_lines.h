/* SPDX-License-Identifier: MIT
 * Reads Linux's description of a process in /proc, line by line. */
#ifndef OS_LINUX_LINES_H
#define OS_LINUX_LINES_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_SIZE = 512, LINE_SIZE = PATH_SIZE + 96, READ_SIZE = 512 };

/* These make system calls directly, because open(), read() and close() are cancellation points. */
static inline int open_file(const char *path)
{
  return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_LARGEFILE);
}

/* The thread sanitizer must see each close. It would take a new file for the old one of the same descriptor. */
#pragma weak __interceptor_close
extern int __interceptor_close(int file);
static inline void close_file(int file)
{
  if (__interceptor_close)
    __interceptor_close(file);
  else
    syscall(SYS_close, file);
}

static inline ssize_t read_file(int file, char *buffer, size_t size)
{
  ssize_t n;
  do
    n = syscall(SYS_read, file, buffer, size);
  while (n < 0 && errno == EINTR);
  return n;
}

/* The lines of a file, without their ends; a line that is too long is truncated. If another process writes the file, `wait`
 * returns whether more has come before `until_ms`. An incomplete line is dropped then. */
typedef struct lines {
  int file;
  bool (*wait)(int file, uint64_t until_ms);
  uint64_t until_ms;
  size_t at, end;
  char buffer[READ_SIZE];
} lines_t;

static inline bool next_line(lines_t *lines, char *line, size_t size)
{
  size_t length = 0;
  for (;;) {
    if (lines->at == lines->end) {
      if (lines->wait && !lines->wait(lines->file, lines->until_ms))
        return false;
      ssize_t n = read_file(lines->file, lines->buffer, sizeof lines->buffer);
      if (n <= 0)
        break;
      lines->at = 0;
      lines->end = (size_t)n;
    }
    char c = lines->buffer[lines->at++];
    if (c == '\n') {
      line[length] = 0;
      return true;
    }
    if (length + 1 < size)
      line[length++] = c;
  }
  line[length] = 0;
  return length > 0;
}

static inline uint64_t read_hex(const char **at)
{
  uint64_t number = 0;
  for (;; (*at)++) {
    unsigned digit = (unsigned)**at - '0', letter = ((unsigned)**at | 0x20) - 'a';
    if (digit > 9 && letter > 5)
      return number;
    number = number << 4 | (digit <= 9 ? digit : letter + 10);
  }
}

/* Reads the range that begins a mapping's line: 7f5e0a000000-7f5e0a026000. Returns its end; NULL if there is none. */
static inline const char *read_range(const char *at, uintptr_t *start, uintptr_t *end)
{
  const char *line = at;
  *start = (uintptr_t)read_hex(&at);
  if (at == line || *at++ != '-')
    return NULL;
  *end = (uintptr_t)read_hex(&at);
  return at;
}

static inline const char *skip_word(const char *at)
{
  while (*at && *at != ' ')
    at++;
  while (*at == ' ')
    at++;
  return at;
}

#endif
