/* SPDX-License-Identifier: MIT
 *
 * The memory of the process as the system lists it, for those who look for pointers in all of it. Other threads may unmap what
 * is about to be read, so it is the system that copies. Pages that nobody has touched are passed over: a program may have
 * mapped terabytes. So are the shadows of sanitizers, of which even the list of touched pages has gigabytes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64
#include "base/bits.h"
#include "os/linux_lines.h"
#include "os/os.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { PAGES_AT_ONCE = 256 };
#define SHADOW_LEAST    ((uint64_t)64 << 30)
#define PAGE_IS_TOUCHED ((uint64_t)3 << 62) /* in memory, or swapped out */

static ssize_t read_at(int file, void *buffer, size_t size, uint64_t offset)
{
#if UINTPTR_MAX > UINT32_MAX
  return syscall(SYS_pread64, file, buffer, size, offset);
#else
  return pread(file, buffer, size, (off_t)offset);
#endif
}

typedef struct stretch {
  uintptr_t start, end; /* touched so far */
  os_visit_memory_fn *visit;
  void *context;
} stretch_t;

static void end_stretch(stretch_t *stretch)
{
  if (stretch->start < stretch->end)
    stretch->visit(stretch->start, stretch->end, stretch->context);
  stretch->start = stretch->end = 0;
}

static void add_pages(stretch_t *stretch, uintptr_t start, uintptr_t end)
{
  if (stretch->end != start) {
    end_stretch(stretch);
    stretch->start = start;
  }
  stretch->end = end;
}

/* Where the system does not say which pages are touched, all are taken to be. */
static void visit_pages(stretch_t *stretch, int pages, uintptr_t start, uintptr_t end)
{
  uint64_t entries[PAGES_AT_ONCE];
  size_t page = os_page_size();
  while (start < end) {
    size_t count = min_size((end - start) / page, PAGES_AT_ONCE);
    ssize_t got = pages < 0 ? -1 : read_at(pages, entries, count * sizeof *entries, (uint64_t)(start / page) * sizeof *entries);
    if (got <= 0) {
      add_pages(stretch, start, end);
      return;
    }
    count = (size_t)got / sizeof *entries;
    for (size_t i = 0; i < count; i++, start += page)
      if (entries[i] & PAGE_IS_TOUCHED)
        add_pages(stretch, start, start + page);
    if (!count)
      return;
  }
}

typedef struct mapping {
  uintptr_t start, end;
  bool is_own; /* it can be written, and nobody else sees that */
} mapping_t;

/* 7f5e0a000000-7f5e0a026000 rw-p 00000000 00:00 0. False: the line is of another kind. */
static bool begins_mapping(const char *line, mapping_t *mapping)
{
  const char *access = read_range(line, &mapping->start, &mapping->end);
  mapping->is_own = access && !strncmp(access, " rw", 3) && access[4] == 'p';
  return access != NULL;
}

/* VmFlags: rd wr mr mw me dd nr. Of what no sanitizer's shadow lacks: it is long, is left out of core dumps (dd), and no memory
 * is reserved for it (nr). */
static bool is_shadow(const mapping_t *mapping, const char *line)
{
  return !strncmp(line, "VmFlags:", 8) && strstr(line, " dd") && strstr(line, " nr") &&
         (uint64_t)(mapping->end - mapping->start) >= SHADOW_LEAST;
}

/* The longer list says what each mapping is for; not every system has it. */
static int open_mappings(void)
{
  int file = open_file("/proc/self/smaps");
  return file >= 0 ? file : open_file("/proc/self/maps");
}

bool os_visit_memory(os_visit_memory_fn *visit, void *context)
{
  int saved = errno, pages = open_file("/proc/self/pagemap");
  char line[LINE_SIZE];
  lines_t lines = {.file = open_mappings()};
  stretch_t stretch = {.visit = visit, .context = context};
  mapping_t mapping = {0}, next;
  bool known = lines.file >= 0;
  while (known && next_line(&lines, line, sizeof line)) {
    if (is_shadow(&mapping, line))
      mapping.is_own = false;
    if (!begins_mapping(line, &next))
      continue;
    if (mapping.is_own)
      visit_pages(&stretch, pages, mapping.start, mapping.end);
    mapping = next;
  }
  if (mapping.is_own)
    visit_pages(&stretch, pages, mapping.start, mapping.end);
  end_stretch(&stretch);
  if (lines.file >= 0)
    close_file(lines.file);
  if (pages >= 0)
    close_file(pages);
  errno = saved;
  return known;
}

bool os_copy_memory(void *to, uintptr_t from, size_t size)
{
  struct iovec here = {to, size}, there = {(void *)from, size};
  int saved = errno;
  bool copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
  errno = saved;
  return copied;
}

unsigned os_threads(void)
{
  int saved = errno;
  char line[LINE_SIZE];
  lines_t lines = {.file = open_file("/proc/self/status")};
  unsigned threads = 0;
  while (lines.file >= 0 && !threads && next_line(&lines, line, sizeof line))
    if (!strncmp(line, "Threads:\t", 9))
      for (const char *at = line + 9; *at >= '0' && *at <= '9'; at++)
        threads = threads * 10 + (unsigned)(*at - '0');
  if (lines.file >= 0)
    close_file(lines.file);
  errno = saved;
  return threads;
}

size_t os_mappings_now(void)
{
  int saved = errno;
  char line[LINE_SIZE];
  lines_t lines = {.file = open_file("/proc/self/maps")};
  size_t count = 0;
  while (lines.file >= 0 && next_line(&lines, line, sizeof line))
    count++;
  if (lines.file >= 0)
    close_file(lines.file);
  errno = saved;
  return count;
}

void os_exclude_from_dumps(void *address, size_t size, bool exclude)
{
  int saved = errno;
  madvise(address, size, exclude ? MADV_DONTDUMP : MADV_DODUMP);
  errno = saved;
}
