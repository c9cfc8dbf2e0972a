/* SPDX-License-Identifier: MIT
 *
 * Lists the memory of the process for a search for pointers. Other threads may unmap memory before it is read, so the kernel
 * copies it. Untouched pages are skipped: a program may have mapped terabytes. So are file pages that were never written,
 * except in shared memory, and sanitizers' shadows, for which the list of touched pages alone takes gigabytes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64
#include "base/bits.h"
#include "debug/system.h"
#include "os/linux_lines.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { PAGES_AT_ONCE = 256 };
#define SHADOW_LEAST     ((uint64_t)64 << 30)
#define UNASKED_MOST     ((size_t)4 << 20)
#define PAGE_IS_TOUCHED  ((uint64_t)3 << 62) /* in memory, or swapped out */
#define PAGE_IS_OF_FILES ((uint64_t)1 << 61) /* not written here, or shared */

static ssize_t read_at(int file, void *buffer, size_t size, uint64_t offset)
{
#if UINTPTR_MAX > UINT32_MAX
  return syscall(SYS_pread64, file, buffer, size, offset);
#else
  return pread(file, buffer, size, (off_t)offset);
#endif
}

typedef enum mapping_kind {
  MAPPING_IS_NOTHING,
  MAPPING_IS_PRIVATE,
  MAPPING_IS_CODE, /* private, of a file, and no longer writable */
  MAPPING_IS_STACK,
  MAPPING_IS_SHARED
} mapping_kind_t;

typedef struct mapping {
  uintptr_t start, end;
  mapping_kind_t kind;
} mapping_t;

typedef struct stretch {
  uintptr_t start, end; /* touched so far */
  bool is_stack;
  os_visit_memory_fn *visit;
  void *context;
} stretch_t;

static void end_stretch(stretch_t *stretch)
{
  if (stretch->start < stretch->end)
    stretch->visit(stretch->start, stretch->end, stretch->is_stack, stretch->context);
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

/* Visits touched pages, except those with the flag `without`. Returns false if the system does not tell which are touched. */
static bool visit_pages(stretch_t *stretch, int pages, uintptr_t start, uintptr_t end, uint64_t without)
{
  uint64_t entries[PAGES_AT_ONCE];
  size_t page = os_page_size();
  while (start < end) {
    size_t count = min_size((end - start) / page, PAGES_AT_ONCE);
    ssize_t got = pages < 0 ? -1 : read_at(pages, entries, count * sizeof *entries, (uint64_t)(start / page) * sizeof *entries);
    if (got < (ssize_t)sizeof *entries)
      return false;
    count = (size_t)got / sizeof *entries;
    for (size_t i = 0; i < count; i++, start += page)
      if (entries[i] & PAGE_IS_TOUCHED && !(entries[i] & without))
        add_pages(stretch, start, start + page);
  }
  return true;
}

/* Other processes, or the process before it was forked, may have touched shared pages, so all resident ones are visited. */
static void visit_shared(stretch_t *stretch, uintptr_t start, uintptr_t end)
{
  unsigned char is_there[PAGES_AT_ONCE];
  size_t page = os_page_size();
  while (start < end) {
    size_t count = min_size((end - start) / page, PAGES_AT_ONCE);
    if (mincore((void *)start, count * page, is_there) != 0)
      return;
    for (size_t i = 0; i < count; i++, start += page)
      if (is_there[i] & 1)
        add_pages(stretch, start, start + page);
  }
}

/* Everything counts as touched if the system does not tell, except long files. */
static void visit_mapping(stretch_t *stretch, int pages, const mapping_t *mapping)
{
  if (stretch->is_stack != (mapping->kind == MAPPING_IS_STACK))
    end_stretch(stretch);
  stretch->is_stack = mapping->kind == MAPPING_IS_STACK;
  if (mapping->kind == MAPPING_IS_NOTHING)
    return;
  if (mapping->kind == MAPPING_IS_SHARED)
    visit_shared(stretch, mapping->start, mapping->end);
  else if (!visit_pages(stretch, pages, mapping->start, mapping->end, PAGE_IS_OF_FILES) &&
           (mapping->kind != MAPPING_IS_CODE || mapping->end - mapping->start <= UNASKED_MOST))
    add_pages(stretch, mapping->start, mapping->end);
}

static bool line_begins(const char *line, const char *beginning) { return !strncmp(line, beginning, strlen(beginning)); }

static bool is_shared_memory(const char *name)
{
  static const char *const names[] = {"/dev/zero", "/memfd:", "/SYSV", "/dev/shm/", "/anon_hugepage"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (line_begins(name, names[i]))
      return true;
  return false;
}

/* rw-p 00000000 00:00 0          [stack] */
static mapping_kind_t kind_of_mapping(const char *access)
{
  const char *name = access;
  for (int i = 0; i < 4; i++)
    name = skip_word(name);
  if (access[0] != 'r' || line_begins(name, "[v")) /* [vvar] and [vdso] are the system's */
    return MAPPING_IS_NOTHING;
  if (access[3] != 'p')
    return is_shared_memory(name) ? MAPPING_IS_SHARED : MAPPING_IS_NOTHING;
  if (line_begins(name, "[stack]"))
    return MAPPING_IS_STACK;
  return access[1] == 'w' || !*name ? MAPPING_IS_PRIVATE : MAPPING_IS_CODE;
}

/* 7f5e0a000000-7f5e0a026000 rw-p 00000000 00:00 0. Returns false for other lines. */
static bool begins_mapping(const char *line, mapping_t *mapping)
{
  const char *access = read_range(line, &mapping->start, &mapping->end);
  if (access)
    mapping->kind = kind_of_mapping(access + 1);
  return access != NULL;
}

#pragma weak __asan_init
#pragma weak __hwasan_init
#pragma weak __msan_init
#pragma weak __tsan_init
extern void __asan_init(void), __hwasan_init(void), __msan_init(void), __tsan_init(void);

static bool has_sanitizer(void) { return __asan_init || __hwasan_init || __msan_init || __tsan_init; }

/* VmFlags: rd wr mr mw me dd nr. Every sanitizer's shadow is long, excluded from core dumps (dd), and without reserved memory
 * (nr). Programs have such mappings as well, with pointers in them. */
static bool is_shadow(const mapping_t *mapping, const char *line)
{
  return has_sanitizer() && strstr(line, " dd") && strstr(line, " nr") &&
         (uint64_t)(mapping->end - mapping->start) >= SHADOW_LEAST;
}

/* Device memory (io, pf) is skipped, too. */
static bool is_no_place(const mapping_t *mapping, const char *line)
{
  return line_begins(line, "VmFlags:") && (is_shadow(mapping, line) || strstr(line, " io") || strstr(line, " pf"));
}

/* smaps tells what each mapping is for, but not every system has it. */
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
    if (is_no_place(&mapping, line))
      mapping.kind = MAPPING_IS_NOTHING;
    if (!begins_mapping(line, &next))
      continue;
    visit_mapping(&stretch, pages, &mapping);
    mapping = next;
  }
  visit_mapping(&stretch, pages, &mapping);
  end_stretch(&stretch);
  if (lines.file >= 0)
    close_file(lines.file);
  if (pages >= 0)
    close_file(pages);
  errno = saved;
  return known;
}

void os_visit_touched(uintptr_t start, uintptr_t end, os_visit_memory_fn *visit, void *context)
{
  int saved = errno, pages = open_file("/proc/self/pagemap");
  stretch_t stretch = {.visit = visit, .context = context};
  if (!visit_pages(&stretch, pages, start, end, 0)) {
    stretch.start = stretch.end = 0; /* all of it is visited instead */
    add_pages(&stretch, start, end);
  }
  end_stretch(&stretch);
  if (pages >= 0)
    close_file(pages);
  errno = saved;
}

bool os_copy_memory(void *to, uintptr_t from, size_t size)
{
  struct iovec here = {to, size}, there = {(void *)from, size};
  int saved = errno;
  bool copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
  errno = saved;
  return copied;
}

/* Linux's default. */
enum { MAPPINGS_USUAL = 65530 };

size_t os_mappings_most(void)
{
  int saved = errno;
  char text[32];
  size_t count = 0;
  lines_t lines = {.file = open_file("/proc/sys/vm/max_map_count")};
  if (lines.file >= 0 && next_line(&lines, text, sizeof text))
    for (const char *c = text; *c >= '0' && *c <= '9'; c++)
      count = count * 10 + (size_t)(*c - '0');
  if (lines.file >= 0)
    close_file(lines.file);
  errno = saved;
  return count ? count : MAPPINGS_USUAL;
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

int os_write_mappings(int file)
{
  int saved = errno, error;
  char buffer[READ_SIZE];
  int maps = open_file("/proc/self/maps");
  ssize_t n = -1;
  error = maps < 0 ? errno : 0;
  while (!error && (n = read_file(maps, buffer, sizeof buffer)) > 0)
    error = os_write(file, buffer, (size_t)n);
  if (!error && n < 0)
    error = errno;
  if (maps >= 0)
    close_file(maps);
  errno = saved;
  return error;
}

void os_exclude_from_dumps(void *address, size_t size, bool exclude)
{
  int saved = errno;
  madvise(address, size, exclude ? MADV_DONTDUMP : MADV_DODUMP);
  errno = saved;
}
