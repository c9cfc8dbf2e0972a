/* SPDX-License-Identifier: MIT
 *
 * What the tests of the allocation family share. They are ordinary programs: which allocator serves them is decided by
 * LD_PRELOAD or by what was linked first, so each of them can be run against any other allocator too, with ANY_MALLOC=1
 * (ours.h). */
#ifndef TESTING_H
#define TESTING_H

#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define KIB             ((size_t)1 << 10)
#define MIB             ((size_t)1 << 20)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* No call of the library leaves this in errno by accident. */
enum { UNTOUCHED = 0x5a5a };

/* Runs `call` and demands that it leaves errno alone. */
#define KEEPS_ERRNO(call) \
  do { \
    errno = UNTOUCHED; \
    call; \
    assert_int_equal(errno, UNTOUCHED); \
  } while (0)

/* The compiler knows what malloc does; a number it cannot see through keeps it from acting on that. */
static inline size_t opaque(size_t value)
{
  __asm__ volatile("" : "+r"(value));
  return value;
}

/* A pseudo-random sequence, the same in every run. */
static inline uint32_t next_random(uint32_t *state)
{
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

static inline bool is_aligned(const void *block, size_t alignment) { return ((uintptr_t)block & (alignment - 1)) == 0; }

static inline bool is_filled(const void *block, int byte, size_t size)
{
  const unsigned char *bytes = block;
  return size == 0 || (bytes[0] == (unsigned char)byte && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* A figure in KiB of a file, such as /proc/self/status, in bytes. Allocates nothing. */
static inline size_t figure_of(const char *path, const char *name)
{
  char text[8192];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  assert_true(file >= 0);
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  assert_true(length > 0);
  text[length] = '\0';
  const char *line = strstr(text, name);
  assert_non_null(line);
  return strtoul(line + strlen(name), NULL, 10) * KIB;
}

/* Those in status and statm may be off by hundreds of KiB: the kernel keeps them in counters of each processor. */
static inline size_t memory_figure(const char *name) { return figure_of("/proc/self/smaps_rollup", name); }

/* What is the process's own. Pages of programs and libraries come and go as the page cache has room for them, and where there
 * is a swap, pages go there and come back. */
static inline size_t held_bytes(void) { return memory_figure("\nAnonymous:") + memory_figure("\nSwap:"); }

/* Allocates and frees as much as it takes to leave the thread's caches, where the library looks at the clock. */
static inline void allocate_beyond_caches(void)
{
  enum { BLOCKS = 1000 };
  static char *blocks[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++)
    blocks[i] = malloc(opaque(64 + i * 4 % 2048));
  for (size_t i = 0; i < BLOCKS; i++)
    free(blocks[i]);
}

/* And without what waits to be used again, which depends on what was done before, and when. */
static inline size_t held_after_trim(void)
{
  malloc_trim(0);
  return held_bytes();
}

/* A page that is touched is not 2 MiB of memory, whatever this system makes of it by itself; only where the library is to ask
 * for huge pages, what is held is up to the kernel. */
static bool figures_count;

__attribute__((constructor)) static void make_figures_count(void)
{
  const char *options = getenv("TIDEPOOL_OPTIONS");
  figures_count = !(options && strstr(options, "huge_pages")) && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0;
}

#define HOLDS_AT_MOST(bytes) \
  do { \
    size_t held_ = held_bytes(), most_ = (bytes); \
    if (figures_count && held_ > most_) \
      fail_msg("%zu KiB are held, more than %zu", held_ >> 10, most_ >> 10); \
  } while (0)

static inline void start_thread(pthread_t *thread, void *(*body)(void *), void *argument)
{
  assert_int_equal(pthread_create(thread, NULL, body, argument), 0);
}

static inline void *join_thread(pthread_t thread)
{
  void *result;
  assert_int_equal(pthread_join(thread, &result), 0);
  return result;
}

/* Runs `body` in `count` threads at once; each result must be NULL: a thread reports by returning what went wrong. */
static inline void run_threads(size_t count, void *(*body)(void *))
{
  pthread_t threads[64];
  assert_true(count <= COUNT_OF(threads));
  for (size_t i = 0; i < count; i++)
    start_thread(&threads[i], body, (void *)i);
  const char *failure = NULL;
  for (size_t i = 0; i < count; i++) {
    const char *result = join_thread(threads[i]);
    if (result)
      failure = result;
  }
  if (failure)
    fail_msg("in a thread: %s", failure);
}

#endif
