/* SPDX-License-Identifier: MIT */
#include "memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t baseline, baseline_file;

/* A line of /proc/self/status, in bytes. No stdio: its buffer would come from the malloc that may be measured. */
static size_t status(const char *key)
{
  char text[4096];
  int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0)
    close(file);
  if (length <= 0)
    return 0;
  text[length] = '\0';
  const char *line = strstr(text, key);
  return line ? strtoul(line + strlen(key), NULL, 10) * 1024 : 0;
}

/* "5" resets VmHWM to what is resident now. */
static void reset_peak(void)
{
  int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0)
    return;
  ssize_t written = write(file, "5", 1);
  (void)written;
  close(file);
}

/* Pages of programs and libraries come in as their code is first run and then stay: what was mapped of them since the
 * baseline is no memory of the allocator's. */
static size_t above_baseline(size_t bytes)
{
  size_t own = baseline + status("\nRssFile:") - baseline_file;
  return bytes > own ? bytes - own : 0;
}

void memory_baseline(void)
{
  reset_peak();
  baseline = status("\nVmRSS:");
  baseline_file = status("\nRssFile:");
}

size_t memory_growth(void) { return above_baseline(status("\nVmRSS:")); }

size_t memory_peak_growth(void) { return above_baseline(status("\nVmHWM:")); }
